"""Trace: spans on a timeline, predicted or measured, in one form; Chrome and Perfetto read what ``to_json`` writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.files import write_atomically

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasts: on a track (a channel, a layer) of a worker, from ``start`` to ``end`` in seconds."""

    worker: str
    track: str
    name: str
    start: float
    end: float
    category: str = "transfer"
    nbytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Trace:
    """Spans with a title, in order of their start."""

    title: str
    spans: tuple[Span, ...]

    @property
    def seconds(self) -> float:
        return max((span.end for span in self.spans), default=0.0)

    def to_json(self) -> str:
        """The Trace Event format: a worker is a process, a track a thread, times in microseconds."""
        processes = {worker: i for i, worker in enumerate(dict.fromkeys(span.worker for span in self.spans))}
        threads = {key: i for i, key in enumerate(dict.fromkeys((span.worker, span.track) for span in self.spans))}
        events: list[dict[str, Any]] = []
        for worker, pid in processes.items():
            events.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": worker}})
            events.append({"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}})
        for (worker, track), tid in threads.items():
            events.append(
                {"ph": "M", "name": "thread_name", "pid": processes[worker], "tid": tid, "args": {"name": track}}
            )
        for span in self.spans:
            events.append(
                {
                    "ph": "X", "name": span.name, "cat": span.category, "pid": processes[span.worker],
                    "tid": threads[span.worker, span.track], "ts": span.start * 1e6, "dur": (span.end - span.start) * 1e6,
                    "args": {"bytes": span.nbytes},
                }
            )  # fmt: skip
        document = {
            "traceEvents": events,
            "displayTimeUnit": "ms",
            "otherData": {"weft_trace": _VERSION, "title": self.title},
        }
        return json.dumps(document, separators=(",", ":"))

    def save(self, path: Path) -> None:
        """Write the file, atomically."""
        write_atomically(path, self.to_json())

    @staticmethod
    def parse(text: str) -> Trace:
        """The trace of a file that ``to_json`` wrote."""
        try:
            document = json.loads(text)
            other = document["otherData"]
            if other["weft_trace"] != _VERSION:
                raise InputError(f"the trace has version {other['weft_trace']}: this Weft reads version {_VERSION}")
            names: dict[tuple[str, int], str] = {}
            for event in document["traceEvents"]:
                if event["ph"] == "M" and event["name"] in ("process_name", "thread_name"):
                    key = event["pid"] if event["name"] == "process_name" else event["tid"]
                    names[event["name"], key] = event["args"]["name"]
            spans = tuple(
                Span(
                    names["process_name", event["pid"]], names["thread_name", event["tid"]], event["name"],
                    event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6, event["cat"], event["args"]["bytes"],
                )
                for event in document["traceEvents"]
                if event["ph"] == "X"
            )  # fmt: skip
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError("this is not a trace that Weft wrote") from error
        return Trace(str(other.get("title", "")), spans)
