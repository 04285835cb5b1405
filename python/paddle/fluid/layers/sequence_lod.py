"""Sequences (tensors with a LoD) of fluid.layers; static mode only."""

from __future__ import annotations

from paddle import _ops
from paddle._basics import mode
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_variable_and_dtype

__all__ = ["sequence_pool", "sequence_first_step", "sequence_last_step", "sequence_expand", "sequence_reverse"]


def _static_only() -> None:
    assert not mode.in_dygraph_mode(), "sequence layers are for Programs only"


def sequence_pool(input, pool_type, is_test=False, pad_value=0.0):  # noqa: A002
    """One row for each sequence of the last LoD level.

    Args:
        input (Variable): float32 or float64 with a LoD.
        pool_type (str): "average", "sum", "sqrt", "max", "first" or "last".
        is_test (bool): the positions of maxima are not kept.
        pad_value (float): the row of an empty sequence.
    """
    _static_only()
    check_variable_and_dtype(input, "input", ["float32", "float64"], "sequence_pool")
    out, index = _ops.sequence_pool(input, pooltype=pool_type.upper(), is_test=is_test, pad_value=pad_value)
    if index is not None:
        index.stop_gradient = True
    return out


def sequence_first_step(input):  # noqa: A002
    """The first row of each sequence of `input` (float32 or float64 with a LoD)."""
    return sequence_pool(input, "first")


def sequence_last_step(input):  # noqa: A002
    """The last row of each sequence of `input` (float32 or float64 with a LoD)."""
    return sequence_pool(input, "last")


def sequence_expand(x, y, ref_level=-1, name=None):
    """The sequences (or rows) of `x`, each repeated as often as the LoD of `y` at `ref_level` says.

    Args:
        x (Variable): float32, float64, int32 or int64; at most one LoD level.
        y (Variable): whose LoD counts.
        ref_level (int): the level of `y`, -1 the last.
    """
    _static_only()
    check_variable_and_dtype(x, "x", ["float32", "float64", "int32", "int64"], "sequence_expand")
    return named(name, _ops.sequence_expand, x, y, ref_level=ref_level)


def sequence_reverse(x, name=None):
    """The steps of every sequence of the last LoD level of `x` in the other order; shape, type and LoD of `x`.

    Args:
        x (Variable): float32, float64, int8, int32, int64 or uint8 with a LoD.
        name (str): a name for the output.
    """
    _static_only()
    check_variable_and_dtype(x, "x", ["float32", "float64", "int8", "int32", "int64", "uint8"], "sequence_reverse")
    return named(name, _ops.sequence_reverse, x)
