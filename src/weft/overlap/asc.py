"""ASC-WFBP (Shi, Chu and Li 2021): merge, send after, or send beside: Algorithm 1, with its misprints corrected.

Gradients are decided about in the order in which they come. What is pending up to gradient l is all there at r(l); the group
sent before it, and the one before that, have ended at e; in turn it would start at t = max(r(l), e).

    Q1  it would end in turn before the next gradient is there:  send it in turn
    Q2  r(next) < t + a: waiting for the next costs less than starting once more
    Q3  sent at once, beside the group before, it would end before the next gradient is there
    Q2 and not Q3: merge it with the next;  otherwise: send it at once, beside the group before

What differs from the print: times run down to the first layer; the ready times of Q1 and Q3 are those of the next gradient and
of l; a group in turn waits for the one before; merged gradients are carried on as one pending group; the penalty is against the
group that was sent before, is 0 without one and never negative, and delays both; no third group joins two, so one sent at once
still waits for the last but one. The paper proves this greedy to be optimal with an Equation 31 that has the wrong ready time
in it; with the right one the difference's sign is open, and ``search`` finds better.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.overlap.arrangement import Arrangement, arranged
from weft.overlap.communication import CommunicationModel
from weft.overlap.workload import Workload


@dataclass(slots=True)
class _Group:
    """Gradients sent as one, from ``start`` to ``end``, penalties included."""

    start: float
    end: float
    nbytes: float

    def penalty(self, when: float, model: CommunicationModel) -> float:
        """Equation 13: how much longer this one and another that starts at ``when`` take because they meet."""
        if when >= self.end:
            return 0.0
        left = 1.0 - max(0.0, when - self.start) / (self.end - self.start)
        slower = max(model.contention[1] * model.b, 2 * model.capacity)
        return max(0.0, slower - model.b) * self.nbytes * left


def asc_wfbp(workload: Workload, model: CommunicationModel) -> Arrangement:
    """The paper's schedule: groups, each in turn or beside the one before."""
    ready, sizes = workload.ready.tolist(), workload.sizes.tolist()
    ends: list[int] = []
    reach: list[int] = []
    nobody = _Group(0.0, 0.0, 0.0)
    before, last = nobody, nobody
    held, two = 0.0, model.together > 1
    for place, (full, size) in enumerate(zip(ready, sizes, strict=True), 1):
        held += size
        takes = model.a + model.b * held
        turn = max(full, before.end, last.end)
        soon = max(full, before.end) if two else turn
        penalty = last.penalty(soon, model)
        if place < len(ready):
            following = ready[place]
            in_turn = turn + takes <= following
            merges = following < turn + model.a and not soon + takes + penalty < following
            if not in_turn and merges:
                continue
        else:
            in_turn = False
        ends.append(place)
        reach.append(2 if two and not in_turn else 1)
        before, last = _sent(last, turn if in_turn else soon, takes, 0.0 if in_turn else penalty, held)
        held = 0.0
    return arranged(workload.order, ends, reach)


def _sent(last: _Group, start: float, takes: float, penalty: float, held: float) -> tuple[_Group, _Group]:
    """The last two groups after one more was sent: the penalty delays both."""
    last.end += penalty
    return last, _Group(start, start + takes + penalty, held)
