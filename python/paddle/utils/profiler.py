"""The profiler: number and time of operator runs, in dygraph mode and by an Executor."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import paddle._core as _core
from paddle._basics.wire import bytes_field, varint

__all__ = ["ProfilerOptions", "Profiler", "get_profiler"]

_STATES = {"CPU": "CPU", "GPU": "CUDA", "All": "All"}
_TRACERS = ("Default", "OpDetail", "AllOpDetail")
# Sort keys: the name in the report and the key function.
_ORDERS = {
    "default": ("event first end time", None),
    "calls": ("number of calls", lambda item: item.calls),
    "total": ("total time", lambda item: item.total),
    "max": ("maximum time", lambda item: item.longest),
    "min": ("minimum time", lambda item: item.shortest),
    "ave": ("average time", lambda item: item.total / item.calls),
}
_state = "CPU"
# (name, start and end in ns, thread number, depth): the engine's log, ordered by end.
_Event = tuple[str, int, int, int, int]


@dataclass
class _Item:
    """A row of the report: all events of one name with the same parents."""

    calls: int = 0
    total: int = 0
    shortest: int = sys.maxsize
    longest: int = 0
    children: dict[str, _Item] = field(default_factory=dict)

    def add(self, ns: int) -> None:
        self.calls += 1
        self.total += ns
        self.shortest, self.longest = min(self.shortest, ns), max(self.longest, ns)


def _by_thread(events: list[_Event]) -> dict[int, dict[str, _Item]]:
    """The rows of each thread, ordered by their first ends."""
    paths: list[tuple[str, ...]] = []
    above: dict[int, list[str]] = {}
    for name, _, _, thread, depth in reversed(events):  # parents end after their children
        stack = above.setdefault(thread, [])
        # Parents without an end in the log (after a reset) are skipped.
        stack[depth:] = [name] if depth <= len(stack) else [*[""] * (depth - len(stack)), name]
        paths.append(tuple(n for n in stack if n))
    found: dict[int, dict[str, _Item]] = {}
    for (_, start, end, thread, _), path in zip(events, reversed(paths), strict=True):
        rows = found.setdefault(thread, {})
        for name in path[:-1]:
            rows = rows.setdefault(name, _Item()).children
        rows.setdefault(path[-1], _Item()).add(end - start)
    return dict(sorted(found.items()))


def _rows(items: dict[str, _Item], key, whole: int, prefix: str, depth: int = 0) -> Iterator[tuple[str, _Item, float]]:
    # A row without calls is an unfinished event: its children replace it.
    order = list(items.items())
    if key is not None:
        order.sort(key=lambda pair: key(pair[1]) if pair[1].calls else sys.maxsize, reverse=True)
    for name, item in order:
        if item.calls:
            yield "  " * depth + prefix + name, item, item.total / whole if whole else 0.0
        yield from _rows(item.children, key, whole, prefix, depth + bool(item.calls))


def _number(x: float) -> str:
    return f"{x:.6g}"


def _report(events: list[_Event], order: str, state: str) -> str:
    """The report that `stop_profiler` prints."""
    said, key = _ORDERS[order]
    lines = [
        "",
        "------------------------->     Profiling Report     <-------------------------",
        "",
        f"Place: {_STATES[state]}",
        "Time unit: ms",
        f"Sorted by {said} in descending order in the same thread",
        "",
    ]
    table: list[list[str]] = []
    head = ["Event", "Calls", "Total", "Min.", "Max.", "Ave.", "Ratio."]
    if state == "All":
        head[3:3] = ["CPU Time (Ratio)", "GPU Time (Ratio)"]
    for thread, items in _by_thread(events).items():
        whole = sum(item.total for item in items.values())
        for name, item, ratio in _rows(items, key, whole, f"thread{thread}::"):
            times = [item.total, item.shortest, item.longest, item.total / item.calls]
            row = [name, str(item.calls), *(_number(ns / 1e6) for ns in times), _number(ratio)]
            if state == "All":
                row[3:3] = [f"{item.total / 1e6:f} (1.000000)", "0.000000 (0.000000)"]
            table.append(row)
    name_width = max([len(row[0]) for row in table] + [24]) + 4
    widths = [name_width, *(24 if "Time" in title else 12 for title in head[1:])]
    for row in [head, *table]:
        lines.append("".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    return "\n".join(lines) + "\n"


def _fields(*fields: tuple[int, int | bytes]) -> bytes:
    """A protobuf message: varint and length-delimited fields, by field number."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts += [varint(number << 3), varint(value)]
        else:
            parts.append(bytes_field(number, value))
    return b"".join(parts)


def _timeline(events: list[_Event]) -> bytes:
    """The events as a Profile message of Paddle's profiler.proto, the input of its timeline tools."""
    found = [
        (1, _fields((1, name.encode()), (2, start), (3, end), (5, 0), (6, thread), (8, 0)))
        for name, start, end, thread, _ in events
    ]
    first, last = min((e[1] for e in events), default=0), max((e[2] for e in events), default=0)
    return _fields(*found, (2, first), (3, last))


def is_profiler_enabled() -> bool:
    """Whether operators are being timed."""
    return _core.profiler.is_on()


def start_profiler(state: str, tracer_option: str = "Default") -> None:
    """Start timing all operators; no effect if it is active already.

    Times are host times. A kernel's helper calls are included in its time; operators run by a control-flow operator are
    listed below it. Operators that the engine fuses into one loop are one event, ``a+b``.

    Args:
        state (str): ``'CPU'``, ``'GPU'`` or ``'All'``; only affects the heading of the report.
        tracer_option (str): ``'Default'``, ``'OpDetail'`` or ``'AllOpDetail'``, all with the same report.

    Raises:
        ValueError: for another `state` or `tracer_option`.

    Examples:
        >>> import paddle
        >>> import paddle.fluid.profiler as profiler
        >>> profiler.start_profiler('CPU')
        >>> y = paddle.ones([2, 2]) + 1.0
        >>> profiler.reset_profiler()
        >>> profiler.stop_profiler('total', None)  # doctest: +ELLIPSIS
        <BLANKLINE>
        ------------------------->     Profiling Report     <-------------------------
        ...
    """
    global _state
    if is_profiler_enabled():
        return
    if state not in _STATES:
        raise ValueError(f"state must be 'CPU', 'GPU' or 'All', got {state!r}")
    if tracer_option not in _TRACERS:
        raise ValueError(f"tracer option must be 'Default', 'OpDetail', 'AllOpDetail', but received {tracer_option!r}.")
    _state = state
    _core.profiler.start()


def reset_profiler() -> None:
    """Discard all recorded events.

    Examples:
        >>> import paddle.fluid.profiler as profiler
        >>> profiler.reset_profiler()
    """
    _core.profiler.reset()


def stop_profiler(sorted_key: str | None = None, profile_path: str | None = "/tmp/profile") -> None:
    """Print the events since `start_profiler`, and write them to a file; no effect if timing is not active.

    Args:
        sorted_key (str, optional): order of the rows of a thread: ``'calls'``, ``'total'``, ``'max'``, ``'min'`` or
            ``'ave'``, descending. None: order of their first ends.
        profile_path (str, optional): the file, a ``Profile`` message of Paddle's profiler.proto. None: no file.

    Raises:
        ValueError: for another `sorted_key`; recorded events are kept.
        OSError: if the file cannot be written; the report is printed first.

    Examples:
        >>> import paddle.fluid.profiler as profiler
        >>> profiler.stop_profiler()  # timing is not active
    """
    if not is_profiler_enabled():
        return
    order = "default" if sorted_key is None else sorted_key
    if order not in _ORDERS:
        raise ValueError(f"sorted_key must be None, 'calls', 'total', 'max', 'min' or 'ave', got {sorted_key!r}")
    events = _core.profiler.stop()
    print(_report(events, order, _state), flush=True)
    if profile_path is not None:
        with open(profile_path, "wb") as f:
            f.write(_timeline(events))


@contextlib.contextmanager
def profiler(
    state: str, sorted_key: str | None = None, profile_path: str | None = "/tmp/profile", tracer_option: str = "Default"
) -> Iterator[None]:
    """Time the ``with`` block: `start_profiler`, and `stop_profiler` at the end.

    Args:
        state (str): see `start_profiler`.
        sorted_key (str, optional): see `stop_profiler`.
        profile_path (str, optional): see `stop_profiler`.
        tracer_option (str): see `start_profiler`.

    Raises:
        ValueError: for an invalid argument.

    Examples:
        >>> import paddle
        >>> import paddle.fluid.profiler as profiler
        >>> with profiler.profiler('CPU', 'total', None):  # doctest: +ELLIPSIS
        ...     y = paddle.ones([2, 2]) + 1.0
        <BLANKLINE>
        ------------------------->     Profiling Report     <-------------------------
        ...
    """
    start_profiler(state, tracer_option)
    try:
        yield
    finally:
        stop_profiler(sorted_key, profile_path)


@contextlib.contextmanager
def cuda_profiler(output_file: str, output_mode: str | None = None, config: list[str] | None = None) -> Iterator[None]:
    """Let NVIDIA's profiler (``nsys profile -c cudaProfilerApi``) record the ``with`` block.

    CUDA's own command line profiler, which wrote `output_file` according to `config`, was removed after CUDA 11.

    Args:
        output_file (str): ignored, see above.
        output_mode (str, optional): ``'kvp'`` or ``'csv'``; ignored otherwise.
        config (list[str], optional): ignored.

    Raises:
        ValueError: for another `output_mode`.
        RuntimeError: if there is no usable GPU.
    """
    del output_file, config
    if output_mode not in (None, "kvp", "csv"):
        raise ValueError("output mode must be 'kvp' or 'csv'")
    from paddle import _cuda

    if not _cuda.device_count():
        raise RuntimeError(f"cuda_profiler needs a GPU: {_cuda.reason()}")
    import cupy  # type: ignore[import-not-found, import-untyped, unused-ignore]

    cupy.cuda.runtime.profilerStart()
    try:
        yield
    finally:
        cupy.cuda.runtime.deviceSynchronize()
        cupy.cuda.runtime.profilerStop()


class ProfilerOptions:
    """Options of a `Profiler`: `state`, `sorted_key`, `tracer_level`, `batch_range` (first and last batch),
    `profile_path`; the other options of 2.0.2 are stored and have no effect.

    Args:
        options (dict, optional): values that differ from the defaults.

    Examples:
        >>> import paddle
        >>> options = paddle.utils.ProfilerOptions({'state': 'CPU'})
        >>> options['state'], options['profile_path']
        ('CPU', None)
    """

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        self.options: dict[str, Any] = {
            "state": "All",
            "sorted_key": "default",
            "tracer_level": "Default",
            "batch_range": [0, sys.maxsize],
            "output_thread_detail": False,
            "profile_path": "none",
            "timeline_path": "none",
            "op_summary_path": "none",
        }
        for key in self.options:
            if options is not None and options.get(key) is not None:
                self.options[key] = options[key]

    def with_state(self, state: str) -> ProfilerOptions:
        """The same options with another `state`."""
        self.options["state"] = state
        return self

    def __getitem__(self, name: str) -> Any:
        """An option; None for an unset path. ValueError for an unknown name."""
        value = self.options.get(name)
        if value is None:
            raise ValueError(f"ProfilerOptions: there is no option {name}")
        return None if isinstance(value, str) and value == "none" else value


class Profiler:
    """Times the batches of a loop within a ``with`` statement; `record_step` counts them.

    Args:
        enabled (bool): if False, nothing is timed.
        options (ProfilerOptions, optional): the options.

    Examples:
        >>> import paddle
        >>> options = paddle.utils.ProfilerOptions({'state': 'CPU', 'batch_range': [1, 2]})
        >>> with paddle.utils.Profiler(options=options) as profiler:  # doctest: +ELLIPSIS
        ...     for _ in range(3):
        ...         y = paddle.ones([2, 2]) + 1.0
        ...         profiler.record_step()
        <BLANKLINE>
        ------------------------->     Profiling Report     <-------------------------
        ...
    """

    def __init__(self, enabled: bool = True, options: ProfilerOptions | None = None) -> None:
        self.profiler_options = ProfilerOptions() if options is None else options
        self.batch_id = 0
        self.enabled = enabled

    def __enter__(self) -> Profiler:
        global _current
        self.previous_profiler, _current = _current, self
        if self.profiler_options["batch_range"][0] == 0:
            self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        global _current
        _current = self.previous_profiler
        self.stop()

    def start(self) -> None:
        """Start timing; an error becomes a warning."""
        if not self.enabled:
            return
        try:
            start_profiler(self.profiler_options["state"], self.profiler_options["tracer_level"])
        except ValueError as e:
            warnings.warn(f"Profiler is not enabled because of: {e}", stacklevel=2)

    def stop(self) -> None:
        """Print and write the report; an error becomes a warning."""
        if not self.enabled:
            return
        try:
            stop_profiler(self.profiler_options["sorted_key"], self.profiler_options["profile_path"])
        except (ValueError, OSError) as e:
            warnings.warn(f"Profiler is not disabled because of: {e}", stacklevel=2)

    def reset(self) -> None:
        """Discard all recorded events."""
        if self.enabled and is_profiler_enabled():
            reset_profiler()

    def record_step(self, change_profiler_status: bool = True) -> None:
        """Marks the end of a batch; timing starts and stops at the ends of `batch_range`."""
        if not self.enabled:
            return
        self.batch_id += 1
        first, last = self.profiler_options["batch_range"]
        if change_profiler_status and self.batch_id == first:
            if is_profiler_enabled():
                self.reset()
            else:
                self.start()
        if change_profiler_status and self.batch_id == last:
            self.stop()


_current: Profiler | None = None


def get_profiler() -> Profiler:
    """The Profiler of the active ``with`` statement; otherwise a global one.

    Examples:
        >>> import paddle
        >>> with paddle.utils.Profiler(enabled=False) as profiler:
        ...     paddle.utils.get_profiler() is profiler
        True
    """
    global _current
    if _current is None:
        _current = Profiler()
    return _current
