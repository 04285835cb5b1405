"""filter_by_instag_grad: rows of the gradient go back to the instances that were selected."""

from __future__ import annotations

from collections.abc import Callable

from .. import sticky
from ..call import Call, Declined


def _backward(call: Call) -> dict:
    """A row of IndexMap is a first row of Out, a first row of Ins and a number of rows; ranges of Ins are disjoint and
    ascend."""
    d, rows, weight, xp = call.array("Out@GRAD"), call.array("IndexMap"), call.array("LossWeight"), call.xp
    shape = call.shape("Ins@GRAD")
    if d.size == 0 or rows.size == 0 or 0 in shape or rows.dtype.name != "int64":
        raise Declined
    source, first, count = rows[:, 0], rows[:, 1], rows[:, 2]
    none = (weight.reshape(-1)[0] == 0) if weight.size == 1 else xp.zeros((), "bool")
    for start, high in ((source, d.shape[0]), (first, shape[0])):
        sticky.check_ids(call, xp.where(none, 0, start), 0, high + 1)
        sticky.check_ids(call, xp.where(none, 0, start + count), 0, high + 1)
    at = xp.arange(shape[0])
    run = xp.searchsorted(first, at, side="right") - 1
    safe = xp.clip(run, 0, rows.shape[0] - 1)
    place = at - first[safe]
    there = (run >= 0) & (place < count[safe]) & ~none
    picked = xp.take(d, xp.clip(source[safe] + place, 0, d.shape[0] - 1), axis=0)
    return {"Ins@GRAD": xp.where(there[:, None], picked, d.dtype.type(0))}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"filter_by_instag_grad": _backward}
