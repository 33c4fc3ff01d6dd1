"""The communicator of a process group, and the group on which a device's tensors travel.

A group that is NCCL alone carries no CPU tensors. What ranks tell each other besides gradients are CPU tensors, and so is what a
probe sends: for these, such a group gets a companion, a gloo group of the same ranks, made once. (Which groups need one is read
from their backends. None has been seen yet: this was not run on GPUs.)
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from weft.errors import InputError
from weft.runtime.communicator import Communicator
from weft.runtime.process_group import ProcessGroupTransport

_communicators: WeakKeyDictionary[dist.ProcessGroup, dict[str, Communicator]] = WeakKeyDictionary()
"""of every group that is not destroyed, and for each kind of device"""
_companions: WeakKeyDictionary[dist.ProcessGroup, dist.ProcessGroup] = WeakKeyDictionary()


def communicator(group: dist.ProcessGroup | None = None, device: torch.device | str = "cpu") -> Communicator:
    """The communicator of a process group (the default one if none is given), made when first asked for."""
    return communicator_on(carrier(group, device), device)


def communicator_on(found: dist.ProcessGroup, device: torch.device | str) -> Communicator:
    """That of a group which carries tensors of this device."""
    kind = torch.device(device).type
    ours = _communicators.setdefault(found, {})
    if kind not in ours:
        downward = None
        if found._get_backend(torch.device(kind)).name() != "gloo":
            downward = dist.new_group(dist.get_process_group_ranks(found), use_local_synchronization=True)
        ours[kind] = Communicator(ProcessGroupTransport(found, kind, downward), device=torch.device(device))
    return ours[kind]


def carrier(group: dist.ProcessGroup | None = None, device: torch.device | str = "cpu") -> dist.ProcessGroup:
    """The group itself, or where it cannot carry CPU tensors its companion. All ranks ask together for the first time."""
    if not dist.is_available() or not dist.is_initialized():
        raise InputError("torch.distributed is not set up: call torch.distributed.init_process_group first")
    found = dist.group.WORLD if group is None else group
    assert found is not None
    if torch.device(device).type != "cpu" or _carries_cpu_tensors(found):
        return found
    if found not in _companions:
        ranks = dist.get_process_group_ranks(found)
        _companions[found] = dist.new_group(ranks, backend="gloo", use_local_synchronization=True)
    return _companions[found]


def attend(group: dist.ProcessGroup | None = None) -> None:
    """Answer roll calls from now on. All ranks do so when they have just joined: then already the first exchange knows who is
    silent, which it cannot where somebody may not be there yet."""
    communicator(group).attend()


def _carries_cpu_tensors(group: dist.ProcessGroup) -> bool:
    try:
        group._get_backend(torch.device("cpu"))
    except RuntimeError:
        return False
    return True
