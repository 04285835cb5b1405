"""CUDA launchers of operators: one module per family, collected in `LAUNCHERS`. cupy is imported only when a CUDAPlace
is used."""

from __future__ import annotations

import threading

import paddle._core as _core

from . import cudnn
from .comm import buckets
from .families import LAUNCHERS, RECORDED, units
from .machine import CupyMachine, missing
from .optim import multi
from .runtime import Runtime

__all__ = [
    "LAUNCHERS",
    "clip_all",
    "device_count",
    "forget_recipes",
    "join_sums",
    "memory",
    "reason",
    "release_memory",
    "require",
    "runtime",
    "start_sum",
    "step_all",
    "units",
    "use",
]

_lock = threading.RLock()
_runtime: Runtime | None = None
_tf32 = False
_UNKNOWN = "not determined yet"
_reason: str | None = _UNKNOWN


def use(machine) -> None:
    """Register the backend of a machine (None: no backend, CPU only)."""
    global _runtime, _reason
    with _lock:
        _runtime = None if machine is None else Runtime(machine, LAUNCHERS, RECORDED)
        _reason = _UNKNOWN
        if machine is not None:
            machine.allow_tf32(_tf32)
        _core.register_backend(_runtime)


def allow_tf32(allowed: bool | None = None) -> bool:
    """Whether products of float32 matrices may round their operands to TF32; set by an argument."""
    global _tf32
    if allowed is not None:
        with _lock:
            _tf32 = bool(allowed)
            if _runtime is not None:
                _runtime.machine.allow_tf32(_tf32)
                _core.register_backend(_runtime)  # without the recipes, whose products have the other compute type
    return _tf32


def allow_tf32_convolutions(allowed: bool) -> None:
    """Whether convolutions of float32 may round their operands to TF32; calls that are recorded are forgotten."""
    with _lock:
        if cudnn.tf32 != allowed:
            forget_recipes()
        cudnn.tf32 = allowed


def forget_recipes() -> None:
    """Forget the calls that are recorded: a setting has changed on which their algorithms depend."""
    global _runtime
    with _lock:
        if _runtime is not None:
            _runtime = Runtime(_runtime.machine, LAUNCHERS, RECORDED)
            _core.register_backend(_runtime)


def cudnn_version() -> int | None:
    """The version of cuDNN in use; None without CUDA or cuDNN."""
    found = runtime()
    if found is None:
        return None
    with found.machine.on(0):
        dnn = found.machine.dnn()
    return None if dnn is None else dnn.version


def leave(why: str) -> None:
    """Use no CUDA device in this process; `why` is the reason that later uses of one get."""
    global _runtime, _reason
    with _lock:
        _runtime, _reason = None, why
        _core.register_backend(None)


def runtime() -> Runtime | None:
    """The backend in use, created by the first call; None if CUDA cannot be used."""
    global _reason
    if _runtime is None:
        with _lock:  # concurrent first calls wait for the result
            if _reason == _UNKNOWN:
                _reason = missing()
                if _reason is None:
                    use(CupyMachine())
    return _runtime


def reason() -> str:
    """The reason why CUDA cannot be used."""
    return "" if runtime() is not None or _reason is None else _reason


def device_count() -> int:
    """The number of usable CUDA devices."""
    found = runtime()
    return 0 if found is None else found.machine.device_count()


def release_memory() -> None:
    """Return memory of the current device that no tensor has to the driver; without a device nothing is done."""
    found = runtime()
    if found is not None:
        _core.drain_device()
        found.machine.release()


def memory(device: int, peak: bool = False) -> tuple[int, int]:
    """Bytes of a device that tensors have, and all that its pool has from the driver; now, or at most so far."""
    require(device)
    machine = runtime().machine  # type: ignore[union-attr]
    with machine.on(device):
        return machine.peaks() if peak else machine.memory()


def require(device: int) -> None:
    """RuntimeError with the reason unless the CUDA device `device` can be used."""
    found = runtime()
    if found is None:
        raise RuntimeError(f"Cannot use CUDAPlace({device}): {_reason}. Use CPUPlace.")
    count = found.machine.device_count()
    if not 0 <= device < count:
        raise RuntimeError(f"Cannot use CUDAPlace({device}): there are {count} CUDA devices, numbered from 0.")


def step_all(op: str, table: tuple, attrs: dict, factors) -> None:
    """See multi.step."""
    multi.step(runtime().machine, op, table, attrs, factors)  # type: ignore[union-attr]


def clip_all(table: tuple, most: float, out: int) -> None:
    """See multi.clip."""
    multi.clip(runtime().machine, table, most, out)  # type: ignore[union-attr]


def start_sum(ring: int, table: tuple, flat: int) -> None:
    """See buckets.start."""
    buckets.start(runtime().machine, ring, table, flat)  # type: ignore[union-attr]


def join_sums(device: int) -> None:
    """See buckets.join."""
    buckets.join(runtime().machine, device)  # type: ignore[union-attr]


def without_launcher() -> list[str]:
    """Operators that always run on the CPU."""
    return sorted(op["type"] for op in _core.op_table() if op["type"] not in LAUNCHERS and op["kernel"] == "kernel")
