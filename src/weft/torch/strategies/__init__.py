"""Strategies on torch.distributed: a model and its optimizer, around whatever workers exchange in a step."""

from weft.torch.strategies.averager import Averager
from weft.torch.strategies.serving import Served
from weft.torch.strategies.synchronized import Synchronized

__all__ = ["Averager", "Served", "Synchronized"]
