"""Schedulers: functions from a workload and a communication model to buckets and their launch rules, by name."""

from __future__ import annotations

from collections.abc import Callable

from weft.overlap.arrangement import Arrangement
from weft.overlap.asc import asc_wfbp
from weft.overlap.communication import CommunicationModel
from weft.overlap.merging import fixed_size, mg_wfbp, one_bucket, wfbp
from weft.overlap.searching import search
from weft.overlap.workload import Workload

Scheduler = Callable[[Workload, CommunicationModel], Arrangement]

SCHEDULERS: dict[str, Scheduler] = {
    "wfbp": wfbp,
    "mg-wfbp": mg_wfbp,
    "asc-wfbp": asc_wfbp,
    "fixed-size": fixed_size,
    "one-bucket": one_bucket,
    "search": search,
}
