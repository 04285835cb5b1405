"""Methods of native classes that speak of Python's enumerations."""

from __future__ import annotations

from paddle import _core as core

from .dtypes import VarType
from .place import CPUPlace

__all__: list[str] = []


def _dtype(tensor):
    """The element type of a LoDTensor as a VarType."""
    return VarType(tensor._dtype_number())


def _place(tensor):
    """Where a LoDTensor is."""
    return CPUPlace()


def install() -> None:
    """Add them, where the native class has none of its own."""
    for kind in (core.LoDTensor,):
        if not hasattr(kind, "_dtype"):
            kind._dtype = _dtype
        if not hasattr(kind, "_place"):
            kind._place = _place
