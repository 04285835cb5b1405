"""The supervisor of the processes of this node."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from . import guard
from .job import SERVER, TRAINER, Job
from .logs import Terminal
from .nodes import Nodes
from .process import Child, signal_name
from .ps import Losses

# After a failure: seconds for the others to report their errors, and to clean up.
REPORT_SECONDS, CLEAN_SECONDS = 3.0, 0.8
# Seconds to wait for a failure on another node that explains one here.
ELSEWHERE_SECONDS = 0.4
# Seconds between two reads of rank 0's log.
FOLLOW_SECONDS = 0.1
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Supervisor:
    """Runs one job; `run` returns the launcher's exit status."""

    def __init__(
        self,
        job: Job,
        watcher: guard.Guard,
        terminal: Terminal,
        cause: Callable[[], int | None],
        connect: Callable[[Callable[[], None]], Nodes] | None = None,
        lost: tuple[Losses, Callable[[Child], Child]] | None = None,
    ):
        self.job, self.guard, self.terminal = job, watcher, terminal
        # The policy for a killed process; the function that restarts it.
        self._lost = lost
        # The launchers of the other nodes, connected after the processes are started: a fork while another thread runs
        # Python could inherit a held lock.
        self._connect = connect
        self.nodes: Nodes | None = None
        # The rank that reported its failure first.
        self._cause = cause
        self.children: list[Child] = []
        self._signals: list[int] = []
        # Timers, the earliest first.
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._failed: Child | None = None
        self._elsewhere: str | None = None
        self._suspected: list[Child] = []
        self._stopping: int | None = None
        self._over = False
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self, start: Callable[[Supervisor], None]) -> int:
        """Calls `start`, which starts the children (by `add`); returns when they have ended."""
        former = {n: signal.getsignal(n) for n in (*_FORWARDED, signal.SIGCHLD, signal.SIGUSR1, signal.SIGTSTP)}
        old_fd = signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        try:
            signal.signal(signal.SIGCHLD, lambda *_: None)
            for number in (*_FORWARDED, signal.SIGUSR1):
                # nohup: an ignored SIGHUP stays ignored
                if not (number == signal.SIGHUP and former[number] == signal.SIG_IGN):
                    signal.signal(number, self._note)
            if former[signal.SIGTSTP] == signal.SIG_DFL:
                signal.signal(signal.SIGTSTP, self._pause)
            start(self)
            if self._connect is not None:
                self.nodes = self._connect(self._ring)
            while not self._turn():
                self._sleep()
            self._follow()
            return self._finish()
        finally:
            guard.end({c.pid for c in self.children}, set(), 0.3)
            for child in self.children:
                child.reap()
            if self.nodes is not None:
                self.nodes.close()
            signal.set_wakeup_fd(old_fd)
            for number, handler in former.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)
            os.close(self._wake)
            os.close(self._woken)

    def add(self, child: Child) -> None:
        self.guard.group(child.pid)
        self.children.append(child)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)

    def _pause(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z: stops the processes, which have their own groups, with the launcher, and continues them with it."""
        for c in self.children:
            c.group(signal.SIGSTOP)
        # the default action stops this process, unless its group is orphaned
        signal.signal(number, signal.SIG_DFL)
        # to this thread, so that it stops here
        signal.pthread_kill(threading.get_ident(), number)
        signal.signal(number, self._pause)
        for c in self.children:
            c.group(signal.SIGCONT)

    def _ring(self) -> None:
        try:
            os.write(self._woken, b"\0")
        except (BlockingIOError, OSError):
            return  # not stopped

    @property
    def stopping(self) -> bool:
        """Whether a signal ends the job: no more processes need be started."""
        return bool(self._signals)

    def _sleep(self) -> None:
        now = time.monotonic()
        limit = min((at - now for at, _ in self._timers), default=None)
        if any(c.log for c in self.children):
            limit = FOLLOW_SECONDS if limit is None else min(limit, FOLLOW_SECONDS)
        ready, _, _ = select.select([self._wake], [], [], None if limit is None else max(0.0, limit))
        if ready:
            os.read(self._wake, 4096)

    def _turn(self) -> bool:
        """Handles all events since the last turn; True when all processes have ended."""
        while self._signals:
            self._handle(self._signals.pop(0))
        ended = [c for c in self.children if c.poll() and not self._survives(c)]
        self._follow()
        failed = [c for c in ended if c.code and not c.stopped_by_us]
        if failed and self._failed is None and self._stopping is None:
            self._suspect(failed)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            self._timers.pop(0)[1]()
        running = [c for c in self.children if c.code is None]
        if not running and self._suspected and self.nodes is None:
            self._fail(self._suspected[0])
        if self.job.ps and running and not self._over:
            self._end_servers(running)
        if self.nodes is not None and self._failed is None and self._stopping is None:
            if self.nodes.failure and self._elsewhere is None:
                self._fail_elsewhere(self.nodes.failure)
            if not running and self._elsewhere is None:
                if self._suspected:
                    return False  # a timer limits the wait for the other nodes
                self.nodes.done()
                return self.nodes.over
        return not running

    def _survives(self, child: Child) -> bool:
        """Whether the job continues after this process was killed, possibly with a restarted one."""
        if child.code is None or child.code >= 0 or self._failed or self._stopping or self._over or self._lost is None:
            return False
        losses, again = self._lost
        others = [c for c in self.children if c.spec.role == child.spec.role and c is not child and not c.code]
        verdict = losses.take(child.spec, bool(others))
        if verdict == "end":
            return False
        child.group(signal.SIGKILL)
        said = f"launch: {child.spec.name} (pid {child.pid}) {child.ending()}: "
        if verdict == "continue":
            self.terminal.say(said + "the others go on without it")
            return True
        new = again(child)
        self.terminal.say(said + f"it is started again (pid {new.pid})")
        self.guard.group(new.pid)
        self.guard.forget(child.pid)
        self.children[self.children.index(child)] = new
        child.log = None  # the restarted process writes it
        child.reap()
        return True

    def _end_servers(self, running: list[Child]) -> None:
        """Ends the servers when this node's workers have finished."""
        had = [c for c in self.children if c.spec.role == TRAINER]
        if not had or any(c.code is None for c in had) or self._failed or self._stopping:
            return
        self._over = True
        count = sum(c.spec.role == SERVER for c in running)
        self.terminal.say(f"launch: the workers have finished; stopping {count} server{'s' if count != 1 else ''}")
        self._stop(running, signal.SIGTERM)
        self._after(REPORT_SECONDS, lambda: self._kill())

    def _follow(self) -> None:
        first = next((c for c in self.children if c.log and c.spec.index == 0 and c.spec.role == TRAINER), None)
        if first is None:
            first = next((c for c in self.children if c.log), None)
        while first is not None and first.log is not None:
            data = first.log.follow()
            if not data:
                return
            self.terminal.copy(data)

    def _after(self, seconds: float, what: Callable[[], None]) -> None:
        self._timers.append((time.monotonic() + seconds, what))
        self._timers.sort(key=lambda t: t[0])

    def _stop(self, children: list[Child], number: int) -> None:
        for c in children:
            c.stopped_by_us = True
            c.group(number)

    def _kill(self) -> None:
        # also the groups of ended processes: they may have left children
        self._stop([c for c in self.children if c.code is None], signal.SIGKILL)

    def _terminate(self) -> None:
        self._stop([c for c in self.children if c.code is None], signal.SIGTERM)
        self._after(CLEAN_SECONDS, self._kill)

    def _suspect(self, failed: list[Child]) -> None:
        """Determines the failure that caused the others: a signal's, or that of the recorded rank."""
        first = not self._suspected
        self._suspected += failed
        killed = [c for c in self._suspected if c.code is not None and c.code < 0]
        rank = None if killed else self._cause()
        said = [c for c in self.children if c.spec.role == TRAINER and c.spec.rank == rank]
        if killed or not said:
            child = min(killed or self._suspected, key=lambda c: c.spec.rank)
            if self.nodes is None or killed:
                self._fail(child)
            elif first:
                # The cause may be on another node, whose launcher reports it soon.
                self._after(ELSEWHERE_SECONDS, lambda: self._fail(child))
        elif said[0].code is not None:
            self._fail(said[0])
        elif first:
            self._after(1.0, lambda: self._fail(said[0]))

    def _fail(self, child: Child) -> None:
        if self._failed or self._stopping or self._elsewhere:
            return
        self._failed = child
        how = child.ending() if child.code is not None else "has failed, and has not ended yet"
        if self.nodes is not None:
            self.nodes.fail(f"{child.spec.name} {how}")
        self.terminal.say(f"launch: {child.spec.name} (pid {child.pid}) {how}")
        self._show_end(child)
        self._let_report()

    def _fail_elsewhere(self, why: str) -> None:
        self._elsewhere = why
        self.terminal.say(f"launch: the job has failed: {why}")
        self._let_report()

    def _let_report(self) -> None:
        others = [c for c in self.children if c.code is None]
        if others:
            names = ", ".join(c.spec.name for c in others[:8]) + (", ..." if len(others) > 8 else "")
            self.terminal.say(f"launch: {names}: {REPORT_SECONDS:g} s to report their own errors")
            self._after(REPORT_SECONDS, self._terminate)

    def _show_end(self, child: Child) -> None:
        if child.log is None:
            return
        lines = child.log.end()
        self.terminal.say(f"launch: the end of {child.log.path}:" if lines else f"launch: {child.log.path} is empty")
        for line in lines:
            self.terminal.say(f"    {line}")

    def _handle(self, number: int) -> None:
        if number == signal.SIGUSR1:
            self._report()
            return
        running = [c for c in self.children if c.code is None]
        if self._stopping is not None:
            self.terminal.say(f"launch: {signal_name(number)} again: killing")
            self._kill()
            return
        self._stopping = number
        if self.nodes is not None:
            self.nodes.fail(f"its launcher was ended by {signal_name(number)}")
        self.terminal.say(f"launch: {signal_name(number)}: ending {len(running)} processes")
        self._stop(running, number)
        # a process that handles the signal cleans up first, e.g. writes a checkpoint
        self._after(REPORT_SECONDS, self._kill if number == signal.SIGTERM else self._terminate)

    def _report(self) -> None:
        """SIGUSR1: prints the state of every process, and the reports of the ranks."""
        marks: list[tuple[Child, int]] = []
        now = time.monotonic()
        for c in self.children:
            state = f"for {now - c.started:.1f} s" if c.code is None else ""
            self.terminal.say(f"launch: {c.spec.name} (pid {c.pid}) {c.ending()} {state}".rstrip())
            if c.handles(signal.SIGUSR1):
                if c.log:
                    marks.append((c, c.log.mark()))
                os.kill(c.pid, signal.SIGUSR1)
        self._after(1.0, lambda: self._show_reports(marks))

    def _show_reports(self, marks: list[tuple[Child, int]]) -> None:
        for c, since in marks:
            if c.log and not (c.spec.index == 0 and c.spec.role == TRAINER):
                for line in c.log.end(since):
                    self.terminal.say(f"launch: {c.spec.name}: {line}")

    def _finish(self) -> int:
        groups = {c.pid for c in self.children}
        limit = time.monotonic() + (0.0 if self._failed or self._stopping else 0.5)
        # multiprocessing's resource tracker and similar processes end by themselves shortly after
        while guard.members(groups, set()) and time.monotonic() < limit:
            time.sleep(0.02)
        if self._failed is None and self._elsewhere is None:
            return 128 + self._stopping if self._stopping else 0
        for c in self.children:
            if c is self._failed or c.code == 0:
                continue
            if c.stopped_by_us:
                self.terminal.say(f"launch: {c.spec.name} did not end by itself and was ended")
            else:
                last = next((line for line in reversed(c.log.end()) if line.strip()), "") if c.log else ""
                self.terminal.say(f"launch: {c.spec.name} {c.ending()}, too" + (f": {last.strip()}" if last else ""))
        return 1 if self._failed is None or self._failed.stopped_by_us else self._failed.status or 1
