"""`paddle.profiler` of Paddle 2.3 to 2.6, over the profiler of operators of 2.0 (`paddle.utils.profiler`).

Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.6/api/paddle/profiler/Overview_en.html
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import ContextDecorator
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple

import paddle
import paddle._core as _core
from paddle._basics.place import is_compiled_with_cuda
from paddle.utils import profiler as log

__all__: list[str] = []

_UNITS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}


class ProfilerState(Enum):
    """What a Profiler does in a step: nothing (CLOSED, READY), or it records; with RECORD_AND_RETURN a period ends."""

    CLOSED = 0
    READY = 1
    RECORD = 2
    RECORD_AND_RETURN = 3


class ProfilerTarget(Enum):
    """Devices. Times are the host's on all of them."""

    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM_DEVICE = 3


class SortedKeys(Enum):
    """Orders of the operators in `Profiler.summary`; those of the GPU are the CPU's."""

    CPUTotal = 0
    CPUAvg = 1
    CPUMax = 2
    CPUMin = 3
    GPUTotal = 4
    GPUAvg = 5
    GPUMax = 6
    GPUMin = 7


class SummaryView(Enum):
    """Tables of `Profiler.summary`: OverView, OperatorView and UDFView (`RecordEvent`) are there, others are empty."""

    DeviceView = 0
    OverView = 1
    ModelView = 2
    DistributedView = 3
    KernelView = 4
    OperatorView = 5
    MemoryView = 6
    MemoryManipulationView = 7
    UDFView = 8


_KEYS = ("total", "ave", "max", "min")
_RECORDING = (ProfilerState.RECORD, ProfilerState.RECORD_AND_RETURN)


class _Named(NamedTuple):
    """An interval that the script names. Times are nanoseconds of the monotonic clock."""

    name: str
    start: int
    end: int
    thread: int
    is_step: bool


class _Result:
    """What one period of recording found.

    Args:
        events: the engine's log, times relative to `origin` (ns of the monotonic clock).
        named: the intervals that the script and the Profiler name.
    """

    def __init__(self, events: list[Any], origin: int, named: list[_Named]) -> None:
        self.events, self.origin, self.named = events, origin, named

    def trace(self) -> dict[str, Any]:
        """The events in Chrome's trace format: times in microseconds."""
        process, found = os.getpid(), []
        for name, start, end, thread, _ in self.events:
            found.append((name, "Operator", start + self.origin, end - start, f"operators of thread {thread}"))
        for e in self.named:
            kind = "ProfileStep" if e.is_step else "UserDefined"
            found.append((e.name, kind, e.start, e.end - e.start, f"Python thread {e.thread}"))
        keys = ("name", "cat", "ts", "dur", "tid")
        return {
            "displayTimeUnit": "ms",
            "traceEvents": [
                {"ph": "X", "pid": process, **dict(zip(keys, (n, kind, start / 1e3, ns / 1e3, row), strict=True))}
                for n, kind, start, ns, row in found
            ],
        }

    def save(self, path: str, format: str) -> None:  # noqa: A002
        """Writes a file: "json" for Chrome's trace format, "pb" for a Profile message of 2.0's profiler.proto."""
        if format not in ("json", "pb"):
            raise ValueError(f"Profiler.export: format must be 'json' or 'pb', got {format!r}")
        content = json.dumps(self.trace()).encode() if format == "json" else log._timeline(self.events)
        with open(path, "wb") as file:
            file.write(content)


#: The Profiler that is started, for RecordEvent.
_active: Profiler | None = None


class RecordEvent(ContextDecorator):
    """Names an interval of the script, for the Profiler that records; without one it has no effect.

    Args:
        name (str): its name.
        event_type (optional): ignored.

    Examples:
        >>> import paddle
        >>> with paddle.profiler.Profiler(on_trace_ready=lambda p: None) as p:
        ...     with paddle.profiler.RecordEvent("two ones"):
        ...         x = paddle.ones([1]) + paddle.ones([1])
        >>> [e["name"] for e in p.profiler_result.trace()["traceEvents"] if e["cat"] == "UserDefined"]
        ['two ones']
    """

    def __init__(self, name: str, event_type: Any = None) -> None:
        self.name, self.event_type = name, event_type
        self._start: int | None = None

    def __enter__(self) -> RecordEvent:
        self.begin()
        return self

    def __exit__(self, *error: Any) -> None:
        self.end()

    def begin(self) -> None:
        """The interval starts."""
        self._start = time.monotonic_ns()

    def end(self) -> None:
        """The interval ends; no effect without `begin`."""
        if self._start is not None and _active is not None:
            _active._add(self.name, self._start)
        self._start = None


def make_scheduler(*, closed: int, ready: int, record: int, repeat: int = 0, skip_first: int = 0) -> Callable:
    """The function from the number of a step to its ProfilerState, for the argument `scheduler` of Profiler.

    After `skip_first` steps, periods of `closed`, `ready` and `record` steps follow; the last one of a period is
    RECORD_AND_RETURN.

    Args:
        closed, ready (int): steps without recording.
        record (int): steps with it, at least 1.
        repeat (int): the number of periods; 0: no end.
        skip_first (int): steps before the first period.

    Raises:
        AssertionError: for a number out of range.

    Examples:
        >>> import paddle
        >>> state = paddle.profiler.make_scheduler(closed=1, ready=1, record=2, repeat=1)
        >>> [state(step).name for step in range(5)]
        ['CLOSED', 'READY', 'RECORD', 'RECORD_AND_RETURN', 'CLOSED']
    """
    assert closed >= 0 and ready >= 0 and record > 0 and repeat >= 0 and skip_first >= 0, (
        "make_scheduler: record must be at least 1, the other numbers at least 0; "
        f"got closed={closed}, ready={ready}, record={record}, repeat={repeat}, skip_first={skip_first}"
    )

    def state(step: int) -> ProfilerState:
        assert step >= 0, f"the number of a step must be at least 0, got {step}"
        period, at = divmod(step - skip_first, closed + ready + record)
        if step < skip_first or (repeat > 0 and period >= repeat) or at < closed:
            return ProfilerState.CLOSED
        if at < closed + ready:
            return ProfilerState.READY
        return ProfilerState.RECORD if at < closed + ready + record - 1 else ProfilerState.RECORD_AND_RETURN

    return state


def _exporter(function: str, dir_name: str, worker_name: str | None, format: str, suffix: str) -> Callable:  # noqa: A002
    try:
        os.makedirs(dir_name, exist_ok=True)
    except OSError as error:
        raise RuntimeError(f"{function}: the folder {dir_name!r} cannot be made: {error}") from None

    def export(profiler: Profiler) -> None:
        worker = worker_name or f"host_{socket.gethostname()}pid_{os.getpid()}"
        moment = datetime.now().strftime("%Y_%m_%d_%H_%M_%S_%f")
        profiler.export(os.path.join(dir_name, f"{worker}_time_{moment}.paddle_trace.{suffix}"), format)

    return export


def export_chrome_tracing(dir_name: str, worker_name: str | None = None) -> Callable:
    """A value for `on_trace_ready` of Profiler: writes each period's trace, for chrome://tracing and Perfetto.

    Args:
        dir_name (str): the folder; made if it is missing.
        worker_name (str, optional): the first part of the files' names; host and process by default.

    Raises:
        RuntimeError: if the folder cannot be made.

    Examples:
        >>> import os, tempfile, paddle
        >>> folder = tempfile.mkdtemp()
        >>> with paddle.profiler.Profiler(on_trace_ready=paddle.profiler.export_chrome_tracing(folder, "a")):
        ...     x = paddle.ones([1])
        >>> [name.startswith("a_time_") for name in os.listdir(folder)]
        [True]
    """
    return _exporter("export_chrome_tracing", dir_name, worker_name, "json", "json")


def export_protobuf(dir_name: str, worker_name: str | None = None) -> Callable:
    """As `export_chrome_tracing`, but the file is a Profile message of 2.0's profiler.proto.

    Args:
        dir_name (str): the folder; made if it is missing.
        worker_name (str, optional): the first part of the files' names; host and process by default.

    Raises:
        RuntimeError: if the folder cannot be made.
    """
    return _exporter("export_protobuf", dir_name, worker_name, "pb", "pb")


def _scheduler(given: Any) -> Callable[[int], ProfilerState]:
    if given is None:
        return lambda step: ProfilerState.RECORD
    if callable(given):
        return given
    if not isinstance(given, (tuple, list)) or len(given) != 2 or given[1] <= given[0]:
        raise AssertionError(f"Profiler: scheduler must be a function or (first, last + 1), got {given!r}")
    first, end = max(given[0], 0), given[1]
    ready = int(first > 0)
    return make_scheduler(closed=first - ready, ready=ready, record=end - first, repeat=1)


class Profiler:
    """Times operators, steps and intervals of `RecordEvent`.

    A ``with`` statement starts and stops it; `step` ends a step. Times are the host's; on a GPU an operator's time is
    that of its launch.

    Args:
        targets (list of ProfilerTarget, optional): a device that is not there is a warning.
        scheduler (callable|tuple, optional): the ProfilerState of a step, see `make_scheduler`; (a, b) records the
            steps from a to b - 1. Default: all.
        on_trace_ready (callable, optional): called with the Profiler after each period of recording. Default:
            ``export_chrome_tracing("./profiler_log/")``.
        timer_only (bool): count time and samples of steps only, for `step_info`.
        record_shapes, profile_memory, emit_nvtx, custom_device_types: no effect.
        with_flops (bool): must be False.

    Raises:
        NotImplementedError: for `with_flops`. TypeError: for other targets. AssertionError: for a tuple that is no
            range.

    Examples:
        >>> import paddle
        >>> p = paddle.profiler.Profiler(scheduler=(1, 3), on_trace_ready=lambda p: None)
        >>> p.start()
        >>> for step in range(4):
        ...     x = paddle.tanh(paddle.ones([2]))
        ...     p.step()
        >>> p.stop()
        >>> [e["cat"] for e in p.profiler_result.trace()["traceEvents"] if e["name"] in ("tanh", "ProfileStep#1")]
        ['Operator', 'Operator', 'ProfileStep']
    """

    def __init__(
        self,
        *,
        targets: Iterable[ProfilerTarget] | None = None,
        scheduler: Any = None,
        on_trace_ready: Callable[[Profiler], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        timer_only: bool = False,
        emit_nvtx: bool = False,
        custom_device_types: list | None = None,
        with_flops: bool = False,
    ) -> None:
        if with_flops:
            raise NotImplementedError("Profiler: with_flops is not there; paddle.flops counts a network's operations")
        there = {ProfilerTarget.CPU} | ({ProfilerTarget.GPU} if is_compiled_with_cuda() else set())
        given = there if targets is None else list(targets)
        if not all(isinstance(target, ProfilerTarget) for target in given):
            raise TypeError(f"Profiler: targets must be a list of ProfilerTarget, got {targets!r}")
        self.targets = set(given) & there
        for target in set(given) - there:
            warnings.warn(f"Profiler: there is no {target.name} to profile", stacklevel=2)
        self.scheduler = _scheduler(scheduler)
        self.on_trace_ready = export_chrome_tracing("./profiler_log/") if on_trace_ready is None else on_trace_ready
        self.timer_only = timer_only
        self.step_num = 0
        self.current_state = self.previous_state = ProfilerState.CLOSED
        self.profiler_result: _Result | None = None
        self._named: list[_Named] = []
        self._origin = self._step_start = 0
        # Since the last call of step_info: steps, samples (None: not given) and seconds.
        self._steps, self._seconds = 0, 0.0
        self._samples: int | None = None

    def __enter__(self) -> Profiler:
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Starts with step 0.

        Raises:
            RuntimeError: if another profiler is started.
        """
        global _active
        if _active is not None or (not self.timer_only and log.is_profiler_enabled()):
            raise RuntimeError("Profiler.start: another profiler is started")
        _active = self
        self.step_num, self._step_start = 0, time.monotonic_ns()
        if not self.timer_only:
            self.current_state = self.scheduler(0)
            if self.current_state in _RECORDING:
                self._record()

    def stop(self) -> None:
        """Ends the last step, and the period if it records; no effect if it is not started."""
        global _active
        if _active is not self:
            return
        self._end_step(None)
        _active = None
        if self.current_state in _RECORDING:
            self._finish()
            self.on_trace_ready(self)
        self.previous_state, self.current_state = self.current_state, ProfilerState.CLOSED

    def step(self, num_samples: int | None = None) -> None:
        """Ends a step.

        Args:
            num_samples (int, optional): the samples in it, for `step_info`.
        """
        self._end_step(num_samples)
        self.step_num += 1
        if self.timer_only or _active is not self:
            return
        self.previous_state, self.current_state = self.current_state, self.scheduler(self.step_num)
        ends = self.previous_state is ProfilerState.RECORD_AND_RETURN
        if self.previous_state in _RECORDING and (ends or self.current_state not in _RECORDING):
            self._finish()
        if self.current_state in _RECORDING and not log.is_profiler_enabled():
            self._record()
        if ends:
            self.on_trace_ready(self)

    def step_info(self, unit: str | None = None) -> str:
        """Mean seconds of the steps since the last call, and their number, or that of the samples, a second.

        Args:
            unit (str, optional): what a sample is called; "samples" by default.
        """
        seconds = self._seconds or float("inf")
        count, unit = (self._steps, "steps") if self._samples is None else (self._samples, unit or "samples")
        text = f" batch_cost: {self._seconds / max(self._steps, 1):.5f} s ips: {count / seconds:.3f} {unit}/s"
        self._steps, self._samples, self._seconds = 0, None, 0.0
        return text

    def export(self, path: str = "", format: str = "json") -> None:  # noqa: A002
        """Writes the last period; nothing if there is none.

        Args:
            path (str): the file.
            format (str): "json", Chrome's trace format, or "pb", a Profile message of 2.0's profiler.proto.

        Raises:
            ValueError: for another format.
        """
        if self.profiler_result is not None:
            self.profiler_result.save(path, format)

    def summary(
        self,
        sorted_by: SortedKeys = SortedKeys.CPUTotal,
        op_detail: bool = True,
        thread_sep: bool = False,
        time_unit: str = "ms",
        views: Any = None,
    ) -> None:
        """Prints tables of the last period; nothing if there is none.

        Args:
            sorted_by (SortedKeys): the order of the operators, descending.
            op_detail (bool): operators within others (of a sub-block) have rows of their own.
            thread_sep (bool): each thread's operators apart.
            time_unit (str): "s", "ms", "us" or "ns".
            views (SummaryView|list, optional): the tables; all by default.

        Raises:
            ValueError: for another unit.
        """
        if time_unit not in _UNITS:
            raise ValueError(f"Profiler.summary: time_unit must be one of {', '.join(_UNITS)}, got {time_unit!r}")
        wanted = set(SummaryView) if views is None else set(views) if isinstance(views, (list, tuple)) else {views}
        if self.profiler_result is not None:
            print(_summary(self.profiler_result, sorted_by, op_detail, thread_sep, time_unit, wanted))

    def _add(self, name: str, start: int, is_step: bool = False) -> None:
        if not self.timer_only and self.current_state in _RECORDING:
            self._named.append(_Named(name, start, time.monotonic_ns(), threading.get_native_id(), is_step))

    def _end_step(self, num_samples: int | None) -> None:
        self._add(f"ProfileStep#{self.step_num}", self._step_start, is_step=True)
        now = time.monotonic_ns()
        self._seconds += (now - self._step_start) / 1e9
        self._steps += 1
        self._samples = self._samples if num_samples is None else (self._samples or 0) + num_samples
        self._step_start = now

    def _record(self) -> None:
        self._named = []
        _core.profiler.start()
        # The engine's clock has an origin of its own: the second of two operators shows it (the first one may import).
        paddle.zeros([1])
        self._origin = time.monotonic_ns()
        paddle.zeros([1])

    def _finish(self) -> None:
        events = _core.profiler.stop()
        # The log is shorter if it was reset.
        origin = self._origin - events[1][1] if len(events) > 1 else 0
        self.profiler_result = _Result(events[2:], origin, self._named)


def _merged(threads: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """The rows of all threads as those of one."""
    whole: dict[str, Any] = {}

    def add(rows: dict[str, Any], into: dict[str, Any]) -> None:
        for name, item in rows.items():
            sum_ = into.setdefault(name, log._Item())
            sum_.calls += item.calls
            sum_.total += item.total
            sum_.shortest, sum_.longest = min(sum_.shortest, item.shortest), max(sum_.longest, item.longest)
            add(item.children, sum_.children)

    for rows in threads.values():
        add(rows, whole)
    return whole


def _table(title: str, rows: list[tuple[str, Any, float]], unit: str) -> list[str]:
    head = ["Name", "Calls", "Total", "Avg", "Max", "Min", "Ratio (%)"]
    cells = [
        [name, str(item.calls)]
        + [f"{ns / _UNITS[unit]:.4g}" for ns in (item.total, item.total / item.calls, item.longest, item.shortest)]
        + [f"{100 * ratio:.2f}"]
        for name, item, ratio in rows
    ]
    width = max([len(row[0]) for row in cells] + [24]) + 2
    lines = ["", f"---- {title} (times in {unit}) ----"]
    lines += [row[0].ljust(width) + "".join(cell.rjust(12) for cell in row[1:]) for row in [head, *cells]]
    return lines


def _summary(
    result: _Result, sorted_by: SortedKeys, op_detail: bool, thread_sep: bool, unit: str, views: set[SummaryView]
) -> str:
    steps = log._Item()
    named: dict[str, Any] = {}
    for e in result.named:
        (steps if e.is_step else named.setdefault(e.name, log._Item())).add(e.end - e.start)
    whole, lines = steps.total or 1, []
    if SummaryView.OverView in views:
        outer = sum(end - start for _, start, end, _, depth in result.events if depth == 0)
        operators = log._Item()
        operators.calls, operators.total = len(result.events), outer
        times = [end - start for _, start, end, _, _ in result.events]
        operators.longest, operators.shortest = max(times, default=0), min(times, default=0)
        rows = [("ProfileStep", steps, 1.0), ("Operator", operators, outer / whole)]
        lines += _table("Overview Summary", [row for row in rows if row[1].calls], unit)
    if SummaryView.OperatorView in views:
        threads = log._by_thread(result.events)
        key = log._ORDERS[_KEYS[sorted_by.value % 4]][1]
        for thread, items in threads.items() if thread_sep else [(None, _merged(threads))]:
            total = sum(item.total for item in items.values())
            rows = list(log._rows(items, key, total, ""))
            rows = [row for row in rows if op_detail or not row[0].startswith(" ")]
            lines += _table("Operator Summary" + ("" if thread is None else f", thread {thread}"), rows, unit)
    if SummaryView.UDFView in views and named:
        rows = [(name, item, item.total / whole) for name, item in named.items()]
        lines += _table("UserDefined Summary", sorted(rows, key=lambda row: -row[1].total), unit)
    return "\n".join(lines)
