"""CUDA twins of operators: one module a family, `TWINS` says which operators have one. Nothing here imports cupy until
a CUDAPlace is used."""

from __future__ import annotations

import threading
from collections.abc import Callable

import paddle._core as _core

from . import formula
from .call import Call
from .comm import rings
from .loss import elements
from .machine import CupyMachine, missing
from .math import elementwise, matmul, products, reduction
from .nn import embedding, instance_norm, layer_norm, softmax
from .optim import optimizer, states
from .runtime import Runtime
from .shape import joins, layout
from .units import Unit

_FAMILIES = (
    formula,
    elementwise,
    matmul,
    products,
    reduction,
    layout,
    joins,
    elements,
    softmax,
    layer_norm,
    instance_norm,
    embedding,
    optimizer,
    states,
    rings,
)

# Operator type -> its launcher.
TWINS: dict[str, Callable[[Call], dict]] = {op: launch for family in _FAMILIES for op, launch in family.TWINS.items()}

_lock = threading.RLock()
_runtime: Runtime | None = None
_reason: str | None = "nobody has asked yet"


def units() -> list[Unit]:
    """Every unit of source that a launcher may compile."""
    return [formula.all_rows(), *{f.UNIT.name: f.UNIT for f in _FAMILIES if hasattr(f, "UNIT")}.values()]


def use(machine) -> None:
    """Register the backend of a machine (None: of none, the CPU alone)."""
    global _runtime, _reason
    with _lock:
        _runtime = None if machine is None else Runtime(machine, TWINS)
        _reason = "nobody has asked yet"
        _core.register_backend(_runtime)


def runtime() -> Runtime | None:
    """The backend in use, made at the first call; None where CUDA cannot be used."""
    global _reason
    if _runtime is None:
        with _lock:  # whoever asks meanwhile waits for the answer
            if _reason == "nobody has asked yet":
                _reason = missing()
                if _reason is None:
                    use(CupyMachine())
    return _runtime


def reason() -> str:
    """What keeps CUDA from being used."""
    return "" if runtime() is not None or _reason is None else _reason


def device_count() -> int:
    """How many CUDA devices can be used."""
    found = runtime()
    return 0 if found is None else found.machine.device_count()


def require(device: int) -> None:
    """Raise RuntimeError, saying what is missing, unless the CUDA device `device` can be used."""
    found = runtime()
    if found is None:
        raise RuntimeError(f"Cannot use CUDAPlace({device}): {_reason}. Use CPUPlace.")
    count = found.machine.device_count()
    if not 0 <= device < count:
        raise RuntimeError(f"Cannot use CUDAPlace({device}): there are {count} CUDA devices, numbered from 0.")


def without_twin() -> list[str]:
    """Operators that run on the CPU wherever their operands are."""
    return sorted(op["type"] for op in _core.op_table() if op["type"] not in TWINS and op["kernel"] == "kernel")
