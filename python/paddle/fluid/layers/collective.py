"""Collective operators of 1.x, appended to a Program; users call `paddle.distributed`."""

from __future__ import annotations

from typing import Any

from paddle._basics import unique_name
from paddle._programs.variable import Variable
from paddle.nn.layer_helper import LayerHelper

__all__: list[str] = []

_KINDS = {"sum": 0, "prod": 1, "max": 2, "min": 3}


def _append(kind: str, x: Any, out: Any, **attrs: Any) -> Any:
    LayerHelper(kind).append_op(type=kind, inputs={"X": [x]}, outputs={"Out": [out]}, attrs=attrs)
    return out


def _like(x: Any, kind: str, rows: Any = lambda n: n, **more: Any) -> Any:
    """A variable like `x`, with another first dimension."""
    shape = [rows(x.shape[0]) if x.shape[0] > 0 else x.shape[0], *x.shape[1:]] if x.shape else []
    name = unique_name.generate_with_ignorable_key(f"{x.name}.{kind}")
    return LayerHelper(kind).create_variable(
        name=name, shape=shape, dtype=x.dtype, type=x.type, persistable=x.persistable, **more
    )


def _check_kind(reduce_type: str) -> None:
    if reduce_type not in _KINDS:
        raise TypeError(f"reduce_type must be one of {', '.join(_KINDS)}, got {reduce_type!r}")


def _allreduce(x, out=None, reduce_type="sum", sync_mode=False):
    _check_kind(reduce_type)
    out = _like(x, "tmp", stop_gradient=True) if out is None else out
    return _append("allreduce", x, out, reduce_type=_KINDS[reduce_type], sync_mode=sync_mode)


def _broadcast(x, root, sync_mode=False):
    return _append("broadcast", x, x, sync_mode=sync_mode, root=root)


def _c_allreduce(x, out=None, reduce_type="sum", ring_id=0, use_calc_stream=False):
    _check_kind(reduce_type)
    kind = "c_allreduce_" + reduce_type
    out = _like(x, kind) if out is None else out
    return _append(kind, x, out, ring_id=ring_id, use_calc_stream=use_calc_stream)


def _c_broadcast(x, root=0, ring_id=0, use_calc_stream=False):
    return _append("c_broadcast", x, x, root=root, ring_id=ring_id, use_calc_stream=use_calc_stream)


def _c_allgather(x, nranks, ring_id=0, use_calc_stream=False):
    out = _like(x, "c_allgather", lambda n: n * nranks)
    return _append("c_allgather", x, out, nranks=nranks, ring_id=ring_id, use_calc_stream=use_calc_stream)


def _c_reducescatter(x, nranks, ring_id=0, use_calc_stream=False):
    if not isinstance(x, Variable):
        raise TypeError(f"_c_reducescatter: a Variable is needed, got {type(x)}")
    if x.shape[0] > 0 and x.shape[0] % nranks:
        raise ValueError(f"_c_reducescatter: {x.shape[0]} rows are not divisible by {nranks} ranks")
    out = _like(x, "c_reducescatter", lambda n: n // nranks)
    return _append("c_reducescatter", x, out, nranks=nranks, ring_id=ring_id, use_calc_stream=use_calc_stream)


def _c_sync_calc_stream(x):
    return _append("c_sync_calc_stream", x, x)


def _c_sync_comm_stream(x, ring_id):
    return _append("c_sync_comm_stream", x, x, ring_id=ring_id)
