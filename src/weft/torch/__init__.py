"""Weft in a training script: ``import weft.torch as wt``.

wt.all_reduce(tensor, plan)                        # in place, the average of all ranks
work = wt.all_reduce(tensor, plan, async_op=True)
work.wait()
"""

from weft.torch.reducing import all_reduce, communicator, plan

__all__ = ["all_reduce", "communicator", "plan"]
