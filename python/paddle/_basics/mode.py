"""The mode of the process (dygraph or static), and the place that operators run on."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from typing import Any

import paddle._core as core

from .place import (
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
    Place,
    _Place,
    cuda_device_count,
    device_number,
    is_compiled_with_cuda,
    why_no_cuda,
)

__all__: list[str] = []


#: Whether operators are appended to the current Program (True) or run at once (False). The native flag that it reads
#: is the only record of the mode; the builtins of `paddle._ops` read the same flag.
in_static_mode = core.in_static_mode

#: the Tracer that dygraph mode runs operators through; static mode keeps the last one, unused
_tracer: Any = None
_global_expected_place_ = None
_current_device: str | None = None


def in_dygraph_mode() -> bool:
    """Whether operators run at once (True) or are appended to the current Program (False).

    Examples:
        >>> import paddle
        >>> paddle.in_dynamic_mode()
        True
    """
    return not in_static_mode()


def _dygraph_tracer() -> Any:
    """The Tracer of dygraph mode, None in static mode."""
    return None if in_static_mode() else _tracer


def __getattr__(name: str) -> Any:
    if name == "_dygraph_tracer_":  # the name of 1.x
        return _dygraph_tracer()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _switch_tracer(tracer: Any) -> Any:
    """Set the mode: dygraph mode through `tracer`, static mode for None. Returns the previous tracer or None."""
    global _tracer
    former = _dygraph_tracer()
    core.set_undecided(False)
    core.set_static_mode(tracer is None)
    if tracer is not None:
        _tracer = tracer
        core.set_grad_enabled(tracer._recording.on)
    return former


@contextlib.contextmanager
def _dygraph_guard(tracer: Any):
    undecided = core.is_undecided()
    former = _switch_tracer(tracer)
    try:
        yield
    finally:
        _switch_tracer(former)
        core.set_undecided(undecided)


def choose_static() -> None:
    """Turn static mode on if the mode is undecided: functions that only Programs need call this.

    A process starts in dygraph mode, undecided, because scripts of 1.x rely on the default of 1.x, static mode. After
    `enable_static`, `disable_static`, the first Tensor or this function the mode is decided.
    """
    if core.is_undecided():
        _switch_tracer(None)


@contextlib.contextmanager
def static_if_undecided(built):
    """Static mode in the ``with`` block if the mode is undecided.

    Afterwards it is undecided again if nothing has been built meanwhile (`built()` is False) and nothing else has
    decided the mode: leaving a ``program_guard`` without operators makes no later Tensor static.
    """
    if not core.is_undecided():
        yield
        return
    tracer = _switch_tracer(None)
    try:
        yield
    finally:
        if in_static_mode() and not core.is_undecided() and not built():
            _switch_tracer(tracer)
            core.set_undecided(True)


def _mode_checked(wanted: bool, message: str):
    def decorate(func):
        @functools.wraps(func)
        def checked(*args, **kwargs):
            if not wanted:
                choose_static()
            assert in_static_mode() is not wanted, message.format(func.__name__)
            return func(*args, **kwargs)

        return checked

    return decorate


dygraph_not_support = _mode_checked(False, "'{}' is not supported in dygraph mode")
dygraph_only = _mode_checked(
    True, "'{}()' works in dynamic graph mode only; call 'paddle.disable_static()' to enter that mode"
)
static_only = _mode_checked(
    False,
    "'{}()' is only supported in static graph mode, and PaddlePaddle 2.x starts in dynamic graph mode; "
    "call 'paddle.enable_static()' before it",
)


class NoValueError(AssertionError, TypeError):
    """A method that reads a value was called on a Variable, which has none while the Program is built."""


def fake_interface_only(func):
    """A decorator of Variable's methods that only dygraph tensors have: a call raises AssertionError."""

    @functools.wraps(func)
    def refuse(*args, **kwargs):
        raise NoValueError(
            f"'{func.__name__}' should be called by imperative Variable in imperative mode: a Variable of a static "
            "Program has no value while the Program is built"
        )

    return refuse


# ------------------------------------------------------------------------------------------------ places


def _current_expected_place():
    global _global_expected_place_
    if _global_expected_place_ is None:
        _global_expected_place_ = CPUPlace()
    return _global_expected_place_


def _set_dygraph_tracer_expected_place(place) -> None:
    core.set_current_device(device_number(place))
    tracer = _dygraph_tracer()
    if tracer is not None:
        tracer._expected_place = place


def _set_expected_place(place) -> None:
    global _global_expected_place_
    _global_expected_place_ = place
    _set_dygraph_tracer_expected_place(place)


@contextlib.contextmanager
def _dygraph_place_guard(place):
    global _global_expected_place_
    former, _global_expected_place_ = _global_expected_place_, place
    _set_dygraph_tracer_expected_place(place)
    try:
        yield
    finally:
        _global_expected_place_ = former
        _set_dygraph_tracer_expected_place(former)


def is_compiled_with_xpu() -> bool:
    """Whether operators can run on a Kunlun XPU: always False."""
    return False


def _cpu_num() -> int:
    if "CPU_NUM" not in os.environ:
        if (os.cpu_count() or 1) > 1:
            sys.stderr.write(
                "The environment variable CPU_NUM (CPU places that a program is spread over) is not set; 1 is used.\n"
            )
        os.environ["CPU_NUM"] = "1"
    return int(os.environ["CPU_NUM"])


def _cuda_ids() -> list[int]:
    selected = os.getenv("FLAGS_selected_gpus")
    if selected:
        return [int(s) for s in selected.split(",")]
    return list(range(cuda_device_count()))


def cpu_places(device_count: int | None = None) -> list:
    """A list of `device_count` CPUPlaces; by default as many as the environment variable CPU_NUM specifies, or one.

    Examples:
        >>> import paddle.static as static
        >>> len(static.cpu_places(2))
        2
    """
    return [CPUPlace()] * (_cpu_num() if device_count is None else device_count)


def cuda_places(device_ids=None) -> list:
    """A list of CUDAPlaces, one for each id; by default all that are visible.

    Raises:
        AssertionError: when there is no CUDA.
    """
    assert is_compiled_with_cuda(), "Not compiled with CUDA"
    if device_ids is None:
        device_ids = _cuda_ids()
    elif not isinstance(device_ids, (list, tuple)):
        device_ids = [device_ids]
    return [CUDAPlace(i) for i in device_ids]


def cuda_pinned_places(device_count: int | None = None) -> list:
    """A list of `device_count` CUDAPinnedPlaces; by default one for each visible device."""
    assert is_compiled_with_cuda(), "Not compiled with CUDA"
    return [CUDAPinnedPlace()] * (len(_cuda_ids()) if device_count is None else device_count)


def xpu_places(device_ids=None) -> list:
    """XPU devices are not supported: always raises AssertionError."""
    assert is_compiled_with_xpu(), "Not compiled with XPU"
    return []


def _get_paddle_place(place):
    """A Place from a Place, None, or a string such as ``"cpu"``, ``"gpu"``, ``"gpu:1"``, ``"gpu_pinned"``."""
    if place is None or isinstance(place, _Place):
        return place
    if not isinstance(place, str):
        raise ValueError(f"a place is a string or a Place, but received {place!r:.200}")
    text = place.lower()
    if text == "cpu":
        return CPUPlace()
    if text == "device":
        return Place()
    matched = re.fullmatch(r"gpu(_pinned|:(\d+))?", text)
    if matched:
        if not is_compiled_with_cuda():
            raise ValueError(f"The device should not be {place!r}, since no CUDA device can be used: {why_no_cuda()}")
        if text == "gpu_pinned":
            return CUDAPinnedPlace()
        return CUDAPlace(int(matched.group(2) or 0))
    if re.fullmatch(r"xpu:\d+", text):
        raise ValueError(f"device {place!r} can not be used: this build has no XPU")
    raise ValueError(f"place must be 'cpu', 'gpu', 'gpu:<id>', 'gpu_pinned' or a Place, but received {place!r:.200}")


def _get_paddle_place_list(places) -> list:
    if not isinstance(places, (list, tuple)):
        raise TypeError("places: a list or tuple is expected")
    return [_get_paddle_place(p) for p in places]


def switch_device(device: str | None) -> str | None:
    """Set the device of operators appended from now on (`op_device`); returns the previous one."""
    global _current_device
    former, _current_device = _current_device, device
    return former


@contextlib.contextmanager
def device_guard(device: str | None = None):
    """Operators appended in the ``with`` block carry `device` in their attribute ``op_device``.

    Args:
        device (str|None): ``"cpu"``, ``"gpu"``, ``"gpu:<id>"``, ``""`` or None.

    Raises:
        ValueError: for another device, or an id after ``cpu``.
    """
    kind, colon, index = (device or "").partition(":")
    if kind == "cpu" and colon:
        raise ValueError("device_guard: 'cpu' takes no id")
    if kind not in ("cpu", "gpu", ""):
        raise ValueError(
            "The Attr(device) should be 'cpu' or 'gpu', or empty or None where no device is to be given, "
            f"but received {device!r:.200}"
        )
    former = switch_device(f"{kind}:{index}" if index else (kind if device is not None else None))
    try:
        yield
    finally:
        switch_device(former)
