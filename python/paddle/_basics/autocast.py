"""The state of automatic mixed precision: element type and lists of operators, of each thread.

The core casts the inputs of eager calls by it (`rust/engine/src/autograd/autocast.rs`); :func:`targets` is the same
rule for operators that to_static appends to a Program.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

import paddle._core as core

from .dtypes import VarType

__all__: list[str] = []

#: computed in low precision, where they are faster
WHITE_LIST = {"conv2d", "matmul", "matmul_v2", "mul"}

#: computed in float32: their sums and exponents exceed the range of float16
BLACK_LIST = set(
    """
    exp square log mean sum cos_sim softmax softmax_with_cross_entropy sigmoid_cross_entropy_with_logits cross_entropy
    cross_entropy2
    """.split()
)

LOW_TYPES = {"float16": VarType.FP16, "bfloat16": VarType.BF16}

#: operators whose first input alone may be of low precision
_NORMS = ("batch_norm", "layer_norm")


class State(NamedTuple):
    """What a thread's calls cast by; `dtype` is None where they do not."""

    dtype: str | None
    white: frozenset[str]
    black: frozenset[str]


OFF = State(None, frozenset(WHITE_LIST), frozenset(BLACK_LIST))


class _Local(threading.local):
    state = OFF


_local = _Local()


def current() -> State:
    """The state of this thread."""
    return _local.state


def low() -> str | None:
    """The element type of low precision, None where nothing is cast."""
    return _local.state.dtype


def switch(state: State) -> State:
    """Set the state of this thread; returns the previous one."""
    former, _local.state = _local.state, state
    if state.dtype is not None:
        core.set_autocast(state.dtype, list(state.white), list(state.black))
    elif former.dtype is not None:
        core.set_autocast(None)
    return former


def state_of(dtype: str | None, white: Iterable[str] | None, black: Iterable[str] | None) -> State:
    """The default lists with operators that move to the white and to the black one.

    Raises:
        ValueError: for an operator in both.
    """
    more_white, more_black = set(white or ()), set(black or ())
    if more_white & more_black:
        raise ValueError(
            "auto_cast: an operator is on both the custom white list and the custom black list: "
            f"{sorted(more_white & more_black)}"
        )
    whole = (WHITE_LIST | more_white) - more_black, (BLACK_LIST | more_black) - more_white
    return State(dtype, frozenset(whole[0]), frozenset(whole[1]))


def targets(op_type: str, dtypes: dict[str, list[Any]]) -> dict[str, VarType]:
    """The element type that each input slot of an operator is cast to; slots that are not named keep theirs.

    Args:
        op_type (str): the operator.
        dtypes (dict): element types (VarType) of the variables in each input slot, in order of the slots.
    """
    state = _local.state
    if state.dtype is None or op_type in ("cast", "run_program"):
        return {}
    half, supported = LOW_TYPES[state.dtype], state.dtype in core.op_dtypes(op_type)
    listed = op_type in state.white or op_type in state.black or not supported
    if op_type in state.white and supported:
        to = half
    elif listed or any(VarType.FP32 in types for types in dtypes.values()):
        to = VarType.FP32
    else:
        return {}
    slots = list(dtypes)
    if op_type in _NORMS:
        # scales and statistics stay float32; the first input is cast by the lists only
        slots = slots[:1] if to == half else slots if listed else slots[1:]
    return dict.fromkeys(slots, to)
