"""The training job behind ``weft train``. Names that need torch are found when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.training.config import Config, config_of

if TYPE_CHECKING:
    from weft.training.data import Data, Split
    from weft.training.job import train
    from weft.training.summary import Summary

__all__ = ["Config", "Data", "Split", "Summary", "config_of", "train"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    homes = {"Data": "data", "Split": "data", "Summary": "summary", "train": "job"}
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"weft.training.{homes[name]}"), name)
