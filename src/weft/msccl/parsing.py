"""From the XML text to a program: what it needs, in the ranges that are possible."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from weft.errors import InputError
from weft.msccl.document import KINDS, MOST_CHANNELS, MOST_CHUNKS, SLOTS, After, Block, Gpu, Program, Range, Step

MOST_CHARACTERS = 1 << 26
MOST_GPUS = 1024
MOST_UNITS = 1 << 22
"""the units of all GPUs together"""
MOST_WORK = 1 << 27
"""blocks times steps: what following all of them costs"""
_NUMBER = re.compile(r"-?[0-9]{1,15}")


def program_of(text: str) -> Program:
    """The program of a document, or an ``InputError`` that names the element."""
    root = _root(text)
    if _word(root, "coll", "algo") != "allreduce":
        raise InputError(f"algo: coll is {root.get('coll')!r}, and only allreduce can be read")
    proto = _word(root, "proto", "algo")
    if proto not in SLOTS:
        raise InputError(f"algo: proto {proto!r} is not one of {', '.join(SLOTS)}")
    count = _number(root, "ngpus", "algo", 2, MOST_GPUS)
    chunks = _number(root, "nchunksperloop", "algo", 1, MOST_CHUNKS)
    if count * chunks > MOST_UNITS:
        raise InputError(f"algo: {count} GPUs of {chunks} chunks are too many to read")
    in_place = bool(_number(root, "inplace", "algo", 0, 1))
    # msccl-tools does not write it: its programs are for one of the two.
    out_of_place = bool(_number(root, "outofplace", "algo", 0, 1)) if "outofplace" in root.attrib else not in_place
    if not in_place and not out_of_place:
        raise InputError("algo: inplace and outofplace are both 0: the document would never be used")
    sizes = [_number(root, key, "algo", 0, 1 << 49) if key in root.attrib else 0 for key in ("minBytes", "maxBytes")]
    elements = _in_order(root, "gpu", "algo", count)
    gpus = tuple(_gpu(element, rank, count, chunks) for rank, element in enumerate(elements))
    name = root.get("name") or "msccl"
    program = Program(name, proto, chunks, in_place, out_of_place, sizes[0], sizes[1], gpus)
    _check_size(gpus)
    _check_waiting(program)
    return program


def _check_size(gpus: Sequence[Gpu]) -> None:
    blocks = [block for gpu in gpus for block in gpu.blocks]
    steps = sum(len(block.steps) for block in blocks)
    if len(blocks) * max(steps, len(blocks)) > MOST_WORK:
        raise InputError(f"algo: {len(blocks)} thread blocks with {steps} steps are too many to follow")


def _root(text: str) -> ElementTree.Element:
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"the document has {len(text)} characters; at most {MOST_CHARACTERS} are read")
    # Without a DOCTYPE no entity can be declared, so nothing can expand. A Python string hides none in an encoding.
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InputError("the document has a DOCTYPE or an ENTITY; an MSCCL document needs neither: remove it")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - guarded by the two checks above
    except ElementTree.ParseError as error:
        raise InputError(f"the document is not XML: {error}") from error
    except ValueError as error:
        raise InputError(f"the document has characters that are not text: {error}") from error
    if root.tag != "algo":
        raise InputError(f"the document begins with <{root.tag}>, an MSCCL document begins with <algo>")
    return root


def _in_order(parent: ElementTree.Element, tag: str, place: str, count: int | None = None) -> list[ElementTree.Element]:
    """The children by their ids, which must be 0, 1, 2, ..."""
    found: dict[int, ElementTree.Element] = {}
    for child in parent:
        if child.tag != tag:
            raise InputError(f"{place}: <{child.tag}> where <{tag}> is expected")
        number = _number(child, "id", f"{place}, {tag}", 0, 1 << 20)
        if number in found:
            raise InputError(f"{place}: {tag} {number} is there twice")
        found[number] = child
    count = len(found) if count is None else count
    missing = next((i for i in range(count) if i not in found), None)
    if missing is not None or len(found) != count:
        raise InputError(f"{place}: {len(found)} {tag} elements must have the ids 0 to {count - 1}; missing: {missing}")
    return [found[i] for i in range(count)]


def _gpu(element: ElementTree.Element, rank: int, count: int, chunks: int) -> Gpu:
    place = f"gpu {rank}"
    sizes = {b: _number(element, f"{b}_chunks", place, 0, MOST_CHUNKS) for b in "ios"}
    for buffer in "io":
        # Beyond the tensor there is nothing, whatever the element says.
        sizes[buffer] = min(sizes[buffer], chunks)
    blocks = []
    used: set[tuple[str, int, int]] = set()
    for number, child in enumerate(_in_order(element, "tb", place)):
        block = _block(child, f"{place}, tb {number}", rank, count, sizes)
        for way, peer in (("send", block.send), ("recv", block.receive)):
            if peer >= 0 and (way, peer, block.channel) in used:
                raise InputError(f"{place}, tb {number}: another tb has {way}={peer} on channel {block.channel} too")
            used.add((way, peer, block.channel))
        blocks.append(block)
    return Gpu(sizes, blocks)


def _block(element: ElementTree.Element, place: str, rank: int, count: int, sizes: dict[str, int]) -> Block:
    send, receive = (_number(element, key, place, -1, count - 1) for key in ("send", "recv"))
    if rank in (send, receive):
        raise InputError(f"{place}: the GPU sends to or receives from itself; use a step of type cpy")
    channel = _number(element, "chan", place, 0, MOST_CHANNELS - 1)
    steps = []
    for s, child in enumerate(element):
        here = f"{place}, step {s}"
        if child.tag != "step":
            raise InputError(f"{here}: <{child.tag}> where <step> is expected")
        if _number(child, "s", here, 0, 1 << 20) != s:
            raise InputError(f"{here}: it has s={child.get('s')}; steps are numbered from 0 on, in their order")
        step = _step(child, here, sizes)
        if (KINDS[step.kind].sends and send < 0) or (KINDS[step.kind].receives and receive < 0):
            raise InputError(f"{here}: a step of type {step.kind} in a tb with send={send} and recv={receive}")
        steps.append(step)
    return Block(send, receive, channel, steps)


def _step(element: ElementTree.Element, place: str, sizes: dict[str, int]) -> Step:
    name = _word(element, "type", place)
    if name not in KINDS:
        raise InputError(f"{place}: type {name!r} is not one of {', '.join(KINDS)}")
    kind = KINDS[name]
    source, destination = (
        Range(_word(element, f"{end}buf", place), _number(element, f"{end}off", place, -1, MOST_CHUNKS))
        for end in ("src", "dst")
    )
    count = _number(element, "cnt", place, 0, MOST_CHUNKS)
    for end, local in ((source, kind.reads), (destination, kind.writes)):
        if end.buffer not in sizes:
            raise InputError(f"{place}: buffer {end.buffer!r} is not one of i, o, s")
        if local and not 0 <= end.offset < end.offset + count <= sizes[end.buffer]:
            raise InputError(
                f"{place}: chunks {end.offset} to {end.offset + count - 1} of buffer {end.buffer}, which has "
                f"{sizes[end.buffer]}"
            )
    block = _number(element, "depid", place, -1, 1 << 20)
    step = _number(element, "deps", place, -1, 1 << 20)
    after = After(block, step) if block >= 0 else None
    return Step(name, source, destination, count, after, bool(_number(element, "hasdep", place, 0, 1)))


def _check_waiting(program: Program) -> None:
    """Steps wait for steps that exist, and nops stand where MSCCL counts them."""
    for rank, gpu in enumerate(program.gpus):
        for number, block in enumerate(gpu.blocks):
            for s, step in enumerate(block.steps):
                _check_step(program.place(rank, number, s), gpu.blocks, step, block.steps[s - 1] if s else None)
            if block.steps and block.steps[-1].kind == "nop":
                raise InputError(
                    f"{program.place(rank, number, len(block.steps) - 1)}: no step follows that it belongs to"
                )


def _check_step(place: str, blocks: Sequence[Block], step: Step, before: Step | None) -> None:
    if step.after is None:
        if step.kind == "nop" or (before is not None and before.kind == "nop"):
            raise InputError(f"{place}: a nop, and the step after it, must wait for something: set depid and deps")
    elif step.after.block >= len(blocks) or not 0 <= step.after.step < len(blocks[step.after.block].steps):
        raise InputError(f"{place}: it waits for step {step.after.step} of tb {step.after.block}, which is not there")


def _word(element: ElementTree.Element, key: str, place: str) -> str:
    word = element.get(key)
    if word is None:
        raise InputError(f"{place}: the attribute {key} is missing")
    return word


def _number(element: ElementTree.Element, key: str, place: str, least: int, most: int) -> int:
    word = _word(element, key, place)
    if not _NUMBER.fullmatch(word) or not least <= int(word) <= most:
        raise InputError(f"{place}: {key}={word!r} is not a whole number from {least} to {most}")
    return int(word)
