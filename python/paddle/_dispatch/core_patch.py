"""Methods of native classes that return Python's enumerations and places."""

from __future__ import annotations

import weakref

import paddle._core as core
from paddle._basics.dtypes import VarType
from paddle._basics.place import CPUPlace, CUDAPlace

__all__: list[str] = []


def _dtype(tensor):
    """The element type of a LoDTensor as a VarType."""
    return VarType(tensor._dtype_number())


def _place(tensor):
    """The place of a LoDTensor."""
    device = tensor._device()
    return CPUPlace() if device < 0 else CUDAPlace(device)


_dropped_scopes: weakref.WeakSet = weakref.WeakSet()


def _remove_from_pool(scope) -> None:
    """Marks a Scope as removed; its last reference frees it. RuntimeError for a second call, as in Paddle."""
    if scope in _dropped_scopes:
        raise RuntimeError("Deleting a nonexistent scope is not allowed: it was removed from the pool before")
    _dropped_scopes.add(scope)


def install() -> None:
    """Add the methods that the native classes do not define."""
    for kind in (core.LoDTensor,):
        if not hasattr(kind, "_dtype"):
            kind._dtype = _dtype
        if not hasattr(kind, "_place"):
            kind._place = _place
    variable = type(core._Scope().var("x"))
    if not hasattr(variable, "get_fetch_list"):
        variable.get_fetch_list = variable.get_lod_tensor_array
    if not hasattr(core._Scope, "_remove_from_pool"):
        core._Scope._remove_from_pool = _remove_from_pool
