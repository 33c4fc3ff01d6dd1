"""An MSCCL program: GPUs, thread blocks and steps, and its XML text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

MOST_CHANNELS = 32
MOST_PEERS = 32
"""on one channel a GPU sends to, and receives from, at most so many others"""
MOST_BLOCKS = 128
"""a GPU's blocks: a step names the block that it waits for in eight bits with a sign"""
MOST_COUNT = 71
"""the units of one step"""
MOST_CHUNKS = 32767
"""the units of a tensor: offsets have sixteen bits with a sign"""
MOST_ELEMENTS = 4096
"""the XML elements that one GPU reads: the document, every GPU, its own blocks and their steps"""

SLOTS = {"Simple": 2, "LL": 8, "LL128": 8}
"""how many messages a connection holds before its sender waits, by protocol"""


class Kind(NamedTuple):
    """What a type of step does."""

    receives: bool = False
    sends: bool = False
    reads: bool = False
    """its source, in this GPU's memory"""
    writes: bool = False
    """its destination, in this GPU's memory"""
    adds: bool = False
    """it also reads its destination"""


KINDS = {
    "nop": Kind(),
    "s": Kind(sends=True, reads=True),
    "r": Kind(receives=True, writes=True),
    "rcs": Kind(receives=True, sends=True, writes=True),
    "rrs": Kind(receives=True, sends=True, reads=True),
    "rrc": Kind(receives=True, reads=True, writes=True),
    "rrcs": Kind(receives=True, sends=True, reads=True, writes=True),
    "cpy": Kind(reads=True, writes=True),
    "re": Kind(reads=True, writes=True, adds=True),
}


class Range(NamedTuple):
    """Units side by side in a buffer: ``i`` input, ``o`` output, ``s`` scratch."""

    buffer: str
    offset: int


class After(NamedTuple):
    """A step of another block of the same GPU."""

    block: int
    step: int


@dataclass(slots=True)
class Step:
    """One step of a block."""

    kind: str
    source: Range
    destination: Range
    count: int
    after: After | None = None
    signals: bool = False
    """it tells others that it is done"""


@dataclass(slots=True)
class Block:
    """A thread block: steps in order, at most one GPU to send to and one to receive from; -1 is none."""

    send: int
    receive: int
    channel: int
    steps: list[Step]


@dataclass(slots=True)
class Gpu:
    """One GPU's blocks, and how many units each of its buffers has."""

    sizes: dict[str, int]
    blocks: list[Block]


@dataclass(frozen=True, slots=True)
class Program:
    """An all-reduce as MSCCL runs it."""

    name: str
    proto: str
    chunks: int
    in_place: bool
    out_of_place: bool
    min_bytes: int
    max_bytes: int
    gpus: tuple[Gpu, ...]

    def place(self, gpu: int, block: int, step: int) -> str:
        """Where a step stands, for messages."""
        return f"gpu {gpu}, tb {block}, step {step} ({self.gpus[gpu].blocks[block].steps[step].kind})"


def text_of(program: Program) -> str:
    """The XML of a program, in the little of XML that MSCCL's own parser knows: no declaration, no tabs, no escapes."""
    channels = 1 + max((block.channel for gpu in program.gpus for block in gpu.blocks), default=0)
    lines = [
        f'<algo name="{program.name}" proto="{program.proto}" nchannels="{channels}" nchunksperloop="{program.chunks}" '
        f'ngpus="{len(program.gpus)}" coll="allreduce" inplace="{int(program.in_place)}" '
        f'outofplace="{int(program.out_of_place)}" minBytes="{program.min_bytes}" maxBytes="{program.max_bytes}">'
    ]
    for rank, gpu in enumerate(program.gpus):
        sizes = " ".join(f'{buffer}_chunks="{gpu.sizes[buffer]}"' for buffer in "ios")
        lines.append(f'  <gpu id="{rank}" {sizes}>')
        for i, block in enumerate(gpu.blocks):
            lines.append(f'    <tb id="{i}" send="{block.send}" recv="{block.receive}" chan="{block.channel}">')
            lines += [_step_text(s, step) for s, step in enumerate(block.steps)]
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>"]) + "\n"


def _step_text(s: int, step: Step) -> str:
    block, after = step.after if step.after is not None else (-1, -1)
    return (
        f'      <step s="{s}" type="{step.kind}" srcbuf="{step.source.buffer}" srcoff="{step.source.offset}" '
        f'dstbuf="{step.destination.buffer}" dstoff="{step.destination.offset}" cnt="{step.count}" '
        f'depid="{block}" deps="{after}" hasdep="{int(step.signals)}"/>'
    )
