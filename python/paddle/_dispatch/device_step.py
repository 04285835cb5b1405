"""Steps over all parameters on a CUDA device at once: one launch for an optimizer, two for clipping by the global
norm, one collective for a bucket of gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import paddle._core as core
from paddle import _ops
from paddle._basics.place import _cuda

__all__: list[str] = []

#: operator -> (slots of its states, the written ones of parameter, gradient, rate and states)
_STATES: dict[str, tuple[tuple[str, ...], list[bool]]] = {
    "sgd": ((), [True, False, False]),
    "momentum": (("Velocity",), [True, False, False, True]),
    "adam": (("Moment1", "Moment2", "Beta1Pow", "Beta2Pow"), [True, False, False, True, True, True, True]),
}


def _table(lists: list[list[Any]], written: list[bool], least: int = 2) -> Any:
    """The table of a launch over all tensors, None if there is none for them or they are fewer than `least`."""
    if len(lists[0]) < least or not core.has_backend():
        return None
    table = core.device_table(lists, written)
    return table if table is not None and table[1] in ("float32", "float64") else None


def _packing(tensors: list[Any], least: int = 2) -> tuple[Any, Any] | None:
    """The table of tensors, and a flat Tensor with room for their elements; None unless all are dense, of float32 or
    float64, on the current device."""
    table = _table([tensors], [False], least)
    if table is None:
        return None
    whole = _ops.empty(shape=[sum(table[3])], dtype=tensors[0].dtype)
    return (table, whole) if core.device_of(whole) == table[0] else None


def _parts(whole: Any, tensors: list[Any]) -> list[Any]:
    """The parts of a flat Tensor that have the shapes of tensors."""
    return core.device_parts(whole, [list(t.shape) for t in tensors])


def has_update(op: str) -> bool:
    """Whether `update_all` may apply: a device is in use, and the operator has a kernel over all parameters."""
    return op in _STATES and core.has_backend()


def update_all(op: str, pairs: list, rates: list, states: list[dict], attrs: dict, factors: list | None = None) -> bool:
    """Updates all parameters by one launch; False (nothing is done) unless all operands are dense, of float32 or
    float64, on one device, and those written have no other reference.

    Args:
        op: the update operator.
        pairs: parameters and gradients.
        rates: the learning rate of each parameter.
        states: the accumulators of each parameter by slot.
        attrs: the operator's attributes.
        factors: a number for each parameter by which it is multiplied first; None: 1.
    """
    slots, written = _STATES[op]
    lists = [[p for p, _ in pairs], [g for _, g in pairs], rates]
    lists += [[state[slot] for state in states] for slot in slots]
    table = _table(lists, written)
    if table is None:
        return False
    _cuda().step_all(op, table, attrs, factors)
    for changed, tensors in zip(written, lists, strict=True):
        if changed:
            for tensor in tensors:
                tensor._bump_inplace_version()
    return True


def start_sum(tensors: list[Any], ring: int) -> list[Any] | None:
    """Starts the sums of Tensors over the ranks of a ring that NCCL serves, as one collective on a stream of its own;
    None (nothing is done) unless all are dense, of one of float32 and float64, on the current device. The sums are
    complete for what follows `join_sums`."""
    packing = _packing(tensors, 1)
    if packing is None:
        return None
    table, whole = packing
    _cuda().start_sum(ring, table, core.device_address(whole))
    return _parts(whole, tensors)


def join_sums(sums: Iterable[Any]) -> None:
    """Orders what follows on the devices' streams after the sums that were started."""
    for device in {core.device_of(total) for total in sums}:
        _cuda().join_sums(device)


def clip_all(grads: list, most: float) -> list | None:
    """Copies of the gradients scaled by one factor to a joint norm of at most `most`; None unless all are dense, of
    float32 or float64, on the current device."""
    packing = _packing(grads)
    if packing is None:
        return None
    table, whole = packing
    _cuda().clip_all(table, most, core.device_address(whole))
    return _parts(whole, grads)
