"""Overlap: which gradients to send together, which buckets to send at once, so that communication hides behind computing."""

from weft.overlap.arrangement import Arrangement, BucketRule
from weft.overlap.asc import asc_wfbp
from weft.overlap.communication import CommunicationModel, Sample, shared_link
from weft.overlap.derivation import model_of_network
from weft.overlap.fitting import fitted
from weft.overlap.merging import fixed_size, mg_wfbp, one_bucket, wfbp
from weft.overlap.models import MODELS, Device, model_workload
from weft.overlap.schedulers import SCHEDULERS, Scheduler
from weft.overlap.searching import search
from weft.overlap.step import Step, least_seconds, most_speedup, step
from weft.overlap.workload import GradientTensor, Workload

__all__ = [
    "MODELS",
    "SCHEDULERS",
    "Arrangement",
    "BucketRule",
    "CommunicationModel",
    "Device",
    "GradientTensor",
    "Sample",
    "Scheduler",
    "Step",
    "Workload",
    "asc_wfbp",
    "fitted",
    "fixed_size",
    "least_seconds",
    "mg_wfbp",
    "model_of_network",
    "model_workload",
    "most_speedup",
    "one_bucket",
    "search",
    "shared_link",
    "step",
    "wfbp",
]
