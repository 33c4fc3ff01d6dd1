"""All ranks have the same model: that is checked, and then rank 0's values are given to all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from weft.errors import PeerError
from weft.runtime.agreement import agree
from weft.runtime.backend import launch_on_backend, wait_for_backend
from weft.runtime.communicator import Communicator
from weft.runtime.communicators import communicator
from weft.runtime.threads import OutOfTimeError, in_time
from weft.runtime.transport import TransportError

PIECE_BYTES = 25_000_000

_agreements: WeakKeyDictionary[Communicator, int] = WeakKeyDictionary()


def agree_on(us: Communicator, subject: str, seconds: float) -> None:
    """Return when all ranks have said the same; raise ``AgreementError`` on all of them if they differ."""
    if us.transport.size == 1:
        return
    number = _agreements.get(us, 0) - 1  # executions count upwards from 1
    _agreements[us] = number
    try:
        in_time(lambda: agree(us.transport, number, subject, seconds, lambda: False), seconds + 1.0)
    except (TransportError, OutOfTimeError) as error:
        late = [error.peer] if isinstance(error, TransportError) else []
        who = f"rank {late[0]} has not come" if late else "the store that the ranks share does not answer"
        raise PeerError(f"rank {us.transport.rank}: {who} in {seconds:g} s, to: {subject}", late, (), late) from None


def signature(module: torch.nn.Module) -> str:
    """What must be the same everywhere: names, shapes, types, layouts and what is trained; not the values."""
    content, elements, count = hashlib.sha256(), 0, 0
    for name, tensor in _named(module):
        content.update(
            f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.stride()} {tensor.requires_grad}\n".encode()
        )
        elements += tensor.numel()
        count += 1
    return f"{count} parameters and buffers of {elements} elements, fingerprint {content.hexdigest()[:16]}"


def _named(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


@torch.no_grad()
def give_to_all(tensors: Iterable[torch.Tensor], group: dist.ProcessGroup | None, timeout: float | None) -> None:
    """Replace the tensors, on every rank, by those of the group's rank 0: as bytes, many at once, whatever their types."""
    if dist.get_world_size(group) == 1:
        return
    for piece in _pieces(tensors):
        flat = torch.cat([tensor.detach().reshape(-1).view(torch.uint8) for tensor in piece])
        _broadcast(flat, group, timeout)
        if dist.get_rank(group) == 0:
            continue
        for tensor, part in zip(piece, torch.split(flat, [tensor.nbytes for tensor in piece]), strict=True):
            # A copy, because a part may begin where its type may not.
            tensor.detach().copy_(part.clone().view(tensor.dtype).view(tensor.shape))


def _pieces(tensors: Iterable[torch.Tensor]) -> Iterator[Sequence[torch.Tensor]]:
    piece: list[torch.Tensor] = []
    for tensor in tensors:
        if piece and (piece[0].device != tensor.device or sum(t.nbytes for t in piece) + tensor.nbytes > PIECE_BYTES):
            yield piece
            piece = []
        if tensor.numel():
            piece.append(tensor)
    if piece:
        yield piece


def _broadcast(flat: torch.Tensor, group: dist.ProcessGroup | None, timeout: float | None) -> None:
    everybody = dist.group.WORLD if group is None else group
    assert everybody is not None
    start = partial(dist.broadcast, flat, dist.get_global_rank(everybody, 0), group, async_op=True)
    subject = (
        f"broadcast of {flat.nbytes} bytes of parameters or buffers from rank 0; every rank must call the model as often as the "
        "others, or model.module where it is alone"
    )
    wait_for_backend(launch_on_backend(communicator(group, flat.device), subject, start, timeout), flat.device)
