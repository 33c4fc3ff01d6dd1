"""MSCCL XML: schedules for clusters of GPUs that run MSCCL or RCCL, written and read back.

What the format means is taken from these sources, facts only: ``msccl/language/ir.py`` of microsoft/msccl-tools (what is
written), ``src/misc/msccl/msccl_parser.cc``, ``src/include/msccl/msccl_struct.h`` and ``msccl_kernel_impl.h`` of ROCm/rccl
and ``src/include/msccl.h`` and ``msccl_interpreter.h`` of microsoft/msccl (what is read, its limits, and how it runs).
No document of ours has run on GPUs yet.

The format. Every GPU runs thread blocks side by side. A block sends to at most one GPU and receives from at most one, on
one channel, and runs its steps in order. What is sent from one GPU to another on one channel arrives in that order. A
step may wait for one step of another block of its GPU (``depid``, ``deps``), which then has ``hasdep="1"``: the waiting one
goes on once that one, or a later one with ``hasdep="1"``, is done. A step that waits for several has ``nop`` steps before
it, and both the nops and the step wait for one each. The tensor is ``nchunksperloop`` equal chunks, in ``i`` before and in
``o`` after; where a call is in place the two are the same memory.

From a schedule (``to_msccl``). A chunk of weight w becomes w MSCCL chunks ("units" here), all weights being divided by their
greatest common divisor first. A transfer becomes a step ``s`` in a block of its source and ``r`` (copy) or ``rrc`` (reduce) in
a block of its destination; one of more than 71 units becomes several. A pair of GPUs has one block that sends and one that
receives for each direction and channel; a pair uses a further channel when a block is full. Steps stand in the order of
the list. A step waits for what wrote the units it reads, and for what read or wrote the units that it writes, also where the
messages imply it already. A unit is read from ``i`` until it was written and from ``o`` afterwards, so that one document
serves calls in place and out of place. An exchange is sent unit by unit, and what arrives is added when the unit has been
sent: one message always fits into the connection's buffer, several may not.

What is lost: the order between transfers that do not depend on each other and go over different channels; chunks of
weight 0; and weights in a finer ratio than ``most_units``, which are rounded, every chunk keeping at least one unit. RCCL
uses a document only for tensors whose number of elements is a multiple of ``nchunksperloop``: fewer units fit more tensors.

To a schedule (``from_msccl``). The blocks are run on symbols. What reads or writes the same memory must be ordered by the
document, whatever the timing. A value that was received and added or stored is a transfer; scratch memory is followed as
far as a schedule can say the same: a GPU may keep there what it received until it adds or stores it, but not pass it on.
"""

from weft.msccl.export import to_msccl
from weft.msccl.reading import from_msccl

__all__ = ["from_msccl", "to_msccl"]
