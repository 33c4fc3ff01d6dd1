"""The course of an emulation, from the first worker's start to the last one's end; runs inside, as the first process."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from weft.emulation.agenda import Agenda
from weft.emulation.build import Built
from weft.emulation.timeline import Event, Flows
from weft.emulation.traffic import start_flow
from weft.emulation.workers import Worker

LAST_WORDS = 5.0
"""Seconds between SIGTERM and SIGKILL."""

Note = Callable[[str], None]


class Run:
    """Watches workers until all have ended; ``code`` is then the exit code of the whole."""

    def __init__(self, built: Built, workers: Sequence[Worker], grace: float, note: Note) -> None:
        self.code = 0
        self._built = built
        self._workers = {worker.pid: worker for worker in workers}
        self._by_node = {worker.node: worker for worker in workers}
        self._grace = grace
        self._note = note
        self._agenda = Agenda()
        self._stopping = False
        self._flows: dict[int, set[int]] = {}
        self._selector = selectors.DefaultSelector()
        for worker in workers:
            self._selector.register(worker.pipe, selectors.EVENT_READ, worker)

    def schedule(self, events: Sequence[Event], flows: Sequence[Flows], start: float) -> None:
        """Put conditions on the agenda, relative to a time of the monotonic clock."""
        for event in events:
            self._agenda.add(start + event.at, lambda event=event: self._happen(event, flows))  # type: ignore[misc]

    def to_the_end(self, control: int) -> None:
        """Watch until no worker is left. Whatever is read from ``control`` is the number of a signal to pass on."""
        waking, wake = socket.socketpair()
        waking.setblocking(False)
        wake.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno())
        self._selector.register(waking, selectors.EVENT_READ)
        self._selector.register(control, selectors.EVENT_READ)
        self._reap()
        while self._workers:
            for key, _ in self._selector.select(self._agenda.seconds_left):
                if isinstance(key.data, Worker):
                    self._read(key.data)
                elif key.fd == control:
                    self._obey(os.read(control, 64))
                else:
                    waking.recv(4096)
            self._reap()
            self._agenda.act()
        signal.set_wakeup_fd(-1)

    def _read(self, worker: Worker) -> None:
        if not worker.read():
            self._selector.unregister(worker.pipe)
            os.close(worker.pipe)

    def _reap(self) -> None:
        """Bury every process that has ended; as the first process of the namespace, orphans too."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                for pids in self._flows.values():
                    # The number may be given to another process from now on.
                    pids.discard(pid)
                worker = self._workers.pop(pid, None)
                if worker is not None:
                    self._ended(worker, os.waitstatus_to_exitcode(status))

    def _ended(self, worker: Worker, code: int) -> None:
        worker.process.returncode = code
        with suppress(KeyError):
            self._selector.get_key(worker.pipe)
            self._read(worker)
        worker.output.finish()
        if code == 0 or self._stopping:
            return
        self._stopping = True
        self.code = code if code > 0 else 128 - code
        how = f"exit code {code}" if code > 0 else f"signal {-code} ({signal.Signals(-code).name})"
        rest = f"; the others have {self._grace:g} s to end by themselves" if self._workers else ""
        self._note(f"{worker.title} ended with {how}{rest}")
        self._stop_in(self._grace)

    def _stop_in(self, seconds: float) -> None:
        now = time.monotonic()
        self._agenda.add(now + seconds, lambda: self._send_all(signal.SIGTERM))
        self._agenda.add(now + seconds + LAST_WORDS, lambda: self._send_all(signal.SIGKILL))

    def _send_all(self, number: int) -> None:
        for worker in self._workers.values():
            worker.send(number)
            worker.send(signal.SIGCONT)

    def _obey(self, numbers: bytes) -> None:
        if not numbers:
            # Whoever started us is gone, and with us goes everything.
            os._exit(1)
        if not self._stopping:
            self.code = 128 + numbers[0]
        self._stopping = True
        self._send_all(numbers[0])
        self._stop_in(LAST_WORDS)

    def _happen(self, event: Event, flows: Sequence[Flows]) -> None:
        if event.kind == "rate":
            self._built.set_rate(event.subject, event.value)
        elif event.kind in ("pause", "resume"):
            worker = self._by_node.get(event.subject)
            if worker is not None and worker.pid in self._workers:
                worker.pause(1 if event.kind == "pause" else -1)
        elif event.kind == "flow":
            self._flows[event.subject] = self._started(flows[event.subject], event.value)
        else:
            for pid in self._flows.pop(event.subject, set()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _started(self, flows: Flows, nbytes: float) -> set[int]:
        ends = [
            (self._built.networks[node], self._built.plan.namespaces[node].address)
            for node in (flows.source, flows.destination)
        ]
        return {pid for _ in range(flows.count) for pid in start_flow(ends[0], ends[1], nbytes / flows.count)}
