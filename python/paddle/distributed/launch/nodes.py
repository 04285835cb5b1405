"""Coordination of the launchers of a job on several nodes: they end together, also when one fails.

Each writes its state to the rendezvous store of launcher 0, which reads all states and writes a verdict that all
launchers read. A launcher whose processes fail writes the verdict itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import paddle._core as _core

from .job import Job

VERDICT = "launchers/verdict"
DONE, FAILED = b"done", b"failed "
# Seconds between two reads of the verdict; reads between two heartbeats.
TURN, SIGN = 0.2, 5
# Missed heartbeats of a lost launcher; failed requests to a lost store.
SILENT, TRIES = 15, 3
# The timeout of a request; how long a launcher waits at its end for others to read the verdict.
_LIMIT, _STAY = 2.0, 5.0


def _key(index: int) -> str:
    return f"launchers/{index}"


class Nodes:
    """One launcher among several. A thread communicates with the store, and calls `changed` on a new verdict."""

    def __init__(self, job: Job, held: Any, address: str, patience: float, changed: Callable[[], None]):
        self._job, self._store, self._address, self._changed = job, held, address, changed
        self._patience, self._since = patience, time.monotonic()
        # The reason of a failure on another node.
        self.failure: str | None = None
        # Whether all launchers have ended, as far as it is known.
        self.over = False
        self._own: bytes | None = None
        self._reported: bytes | None = None
        self._known = held is not None
        self._turns = self._lost = 0
        # In launcher 0, for each other: its last heartbeat, and the number of reads since.
        self._signs: dict[int, tuple[bytes | None, int]] = {i: (None, 0) for i in range(job.nodes) if i != job.index}
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="launchers", daemon=True)
        self._thread.start()

    def done(self) -> None:
        """Reports that this node's processes have ended successfully."""
        self._own = self._own or DONE

    def fail(self, why: str) -> None:
        """Reports that this node's processes have failed."""
        if self._own in (None, DONE):
            self._own = FAILED + f"node {self._job.index}: {why}".encode()

    def close(self) -> None:
        """Ends, after the others have read the verdict."""
        self._leaving.set()
        self._thread.join(2 * _STAY)

    def _run(self) -> None:
        until = None
        while until is None or time.monotonic() < until:
            if until is not None:
                time.sleep(TURN)
            elif self._leaving.wait(TURN):
                until = time.monotonic() + _STAY
            self._turns += 1
            try:
                if self._turn() and self._leaving.is_set():
                    return
            except (RuntimeError, OSError) as e:
                if not self._bear(e):
                    return

    def _turn(self) -> bool:
        """One exchange with the store; True when this launcher may end."""
        if self._store is None:
            token = bytes.fromhex(self._job.token)
            self._store = _core.dist.Store.connect(self._address, self._job.name, token, 0.5)
        self._known, self._lost = True, 0
        if self._own and self._own != DONE:
            self._store.compare_and_set(VERDICT, None, self._own, _LIMIT)
        if self._job.hosts_master and not self.over and (self._turns % SIGN == 0 or self._own):
            self._judge()
        verdict = self._store.peek(VERDICT, _LIMIT)
        word = b"seen" if verdict else self._own or b"runs"
        if word != self._reported or self._turns % SIGN == 0:
            self._store.set(_key(self._job.index), word + b" %d" % self._turns, _LIMIT)
            self._reported = word
        if verdict and not self.over:
            self._end(verdict)
        return self.over and (not self._job.hosts_master or all(self._needs_no_more(i) for i in self._signs))

    def _needs_no_more(self, index: int) -> bool:
        sign = self._store.peek(_key(index), _LIMIT)
        return sign is not None and sign.startswith(b"seen") or self._signs[index][1] > SILENT

    def _judge(self) -> None:
        """In launcher 0: writes the verdict once all have ended or one is lost."""
        looked = self._turns % SIGN == 0
        for i, (before, missed) in self._signs.items():
            sign = self._store.peek(_key(i), _LIMIT)
            missed = 0 if sign != before else missed + looked
            self._signs[i] = sign, missed
            if missed > (SILENT if sign else self._patience / (SIGN * TURN)):
                said = "is silent" if sign else "did not come"
                self._store.compare_and_set(VERDICT, None, FAILED + f"node {i}: its launcher {said}".encode(), _LIMIT)
                return
        if self._own == DONE and all((sign or b"").startswith(DONE) for sign, _ in self._signs.values()):
            self._store.compare_and_set(VERDICT, None, DONE, _LIMIT)

    def _bear(self, error: Exception) -> bool:
        """Whether to continue after a failed request to the store."""
        self._store = self._store if self._job.hosts_master else None
        self._lost += 1
        if self._known:
            bearable = self._lost <= TRIES
        else:
            bearable = time.monotonic() < self._since + self._patience and not self._leaving.is_set()
        if bearable:
            return True
        where = f"the first launcher, at {self._address}, {'is gone' if self._known else 'did not come'}"
        self._end(FAILED + f"{where} ({str(error).splitlines()[-1]})".encode())
        return False

    def _end(self, verdict: bytes) -> None:
        if verdict.startswith(FAILED) and verdict != self._own:
            self.failure = verdict.removeprefix(FAILED).decode(errors="replace")
        self.over = True
        self._changed()
