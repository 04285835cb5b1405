"""Gradient builtins check their inputs against each other and against the shape rule of the forward operator."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case import run_eager, to_eager
from catalogue import cases
from paddle import _core

sys.path.append(str(Path(__file__).parents[1]))
from robust_child import KINDS, gradient_inputs

TABLE = {op["type"]: op for op in _core.op_table()}
CASES = cases()
#: properties that cannot be checked: from Out@GRAD alone, or where only the number of elements is read
UNTOLD = {
    "ceil_grad": "rows rank dtype",
    "round_grad": "rows rank dtype",
    "floor_grad": "rows rank dtype",
    "real_grad": "rows rank dtype",
    "imag_grad": "rows rank dtype",
    "dropout_grad": "rows rank dtype",
    "stack_grad": "rows rank dtype",
    "scatter_grad": "rows",
    "cross_entropy_grad2": "rank",
    "unsqueeze_grad": "rank dtype",
    "softmax_with_cross_entropy_grad": "rank",
    "reshape2_grad": "rank dtype",
    "unsqueeze2_grad": "rank dtype",
    "add_position_encoding_grad": "rows rank dtype",
    "affine_grid_grad": "rows dtype",
    "center_loss_grad": "rank",
    "label_smooth_grad": "rows rank dtype",
    "lod_reset_grad": "rank",
    "pad_constant_like_grad": "rows dtype",
    "pad_grad": "rows dtype",
    "pixel_shuffle_grad": "rows dtype",
    "scatter_nd_add_grad": "rows",
    "shuffle_channel_grad": "rows dtype",
    "smooth_l1_loss_grad": "rank",
    "temporal_shift_grad": "rows dtype",
    "tril_triu_grad": "rows rank dtype",
    "warpctc_grad": "rank",
}
#: builtins that require more than a case's inputs: a bias for Bias@GRAD, as many outputs as there were inputs, LoD
APART = {"gru_unit_grad", "hierarchical_sigmoid_grad", "nce_grad", "multiplex_grad", "sequence_unpad_grad"}


def wrong(x: np.ndarray) -> dict[str, np.ndarray]:
    """Gradients that do not match their output."""
    others = {"rows": np.ones((x.shape[0] + 1, *x.shape[1:]) if x.ndim else (2,), x.dtype)}
    others["rank"] = np.ones((1, *x.shape), x.dtype)
    if x.dtype.kind == "f":
        others["dtype"] = x.astype("float64" if x.dtype != np.float64 else "float32")
    return others


def calls() -> dict[str, list[tuple[Any, dict, dict]]]:
    found: dict[str, list[tuple[Any, dict, dict]]] = {}
    for name, op in TABLE.items():
        grad = op["grad"]
        if not grad or not TABLE[grad]["is_gradient"]:
            continue
        names = {a["name"] for a in TABLE[grad]["attrs"]}
        for c in CASES.get(name, []):
            if c.raises is None and c.grad and not c.lod:
                found.setdefault(grad, []).append((c, TABLE[grad], {k: v for k, v in c.attrs.items() if k in names}))
    return found


CALLS = calls()


@pytest.mark.parametrize("grad", sorted(set(CALLS) - APART))
def test_gradients_of_other_shapes_and_types(grad: str) -> None:
    for c, row, attrs in CALLS[grad]:

        def call(inputs: dict[str, Any], attrs: dict[str, Any] = attrs) -> None:
            getattr(_core.ops, grad)(**{k: to_eager(v, None) for k, v in inputs.items()}, **attrs)

        inputs = gradient_inputs(row, c, run_eager)
        call(inputs)
        for slot, value in inputs.items():
            first = value[0] if isinstance(value, list) else value
            if not slot.endswith("@GRAD") or first.size == 0:
                continue
            for what, other in wrong(first).items():
                if what in UNTOLD.get(grad, ""):
                    continue
                with pytest.raises(KINDS) as info:
                    call({**inputs, slot: [other, *value[1:]] if isinstance(value, list) else other})
                assert "internal error" not in str(info.value), f"{what} of {slot}"


@pytest.mark.parametrize("op", ["square_grad", "abs_grad", "exp_grad"])
def test_integers_of_other_shapes(op: str) -> None:
    first = TABLE[op]["inputs"][0]["name"]
    with pytest.raises(ValueError, match="Out@GRAD"):
        getattr(_core.ops, op)(
            **{first: _core.Tensor(np.ones((2, 3), "int32")), "Out@GRAD": _core.Tensor(np.ones(4, "int32"))}
        )


@pytest.mark.parametrize("op", ["elementwise_add_grad", "elementwise_sub_grad"])
def test_an_axis_below_minus_one(op: str) -> None:
    x, y, dout = (_core.Tensor(np.ones(shape, "float32")) for shape in ((3, 1), (3, 2), (2, 3, 2)))
    with pytest.raises(ValueError, match="axis -2"):
        getattr(_core.ops, op)(x, y, dout, axis=-2)
