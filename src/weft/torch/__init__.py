"""Weft in a training script: ``import weft.torch as wt``.

wt.all_reduce(tensor, plan)                                   # in place, the average of all ranks
model = wt.DataParallel(model)                                # probes, plans, overlaps
model = wt.Synchronized(model, optimizer, "ds-sync")          # any strategy; model.step() instead of optimizer.step()
ddp.register_comm_hook(wt.HookState(plan), wt.comm_hook)      # for those who keep DistributedDataParallel
ddp.register_comm_hook(wt.SparseState(compression), wt.sparse_hook)   # only the strongest gradients, the rest later

All that is needed is a process group, such as torch.distributed.init_process_group() makes from the environment that torchrun,
Slurm scripts and ``weft emulate`` set up.
"""

from weft.overlap.arrangement import Arrangement, BucketRule
from weft.runtime.communicators import communicator
from weft.torch.choice import Choice
from weft.torch.data_parallel import DataParallel
from weft.torch.deciding import Decision, Trial
from weft.torch.hook import HookState, comm_hook, noop_hook
from weft.torch.late import LateOptimizer
from weft.torch.reducing import all_reduce, plan
from weft.torch.sparse import SparseState, SparseStatistics, sparse_all_reduce, sparse_hook
from weft.torch.statistics import StepStatistics
from weft.torch.strategies import Synchronized

__all__ = [
    "Arrangement",
    "BucketRule",
    "Choice",
    "DataParallel",
    "Decision",
    "HookState",
    "LateOptimizer",
    "SparseState",
    "SparseStatistics",
    "StepStatistics",
    "Synchronized",
    "Trial",
    "all_reduce",
    "comm_hook",
    "communicator",
    "noop_hook",
    "plan",
    "sparse_all_reduce",
    "sparse_hook",
]
