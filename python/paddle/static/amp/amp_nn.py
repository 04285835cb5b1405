"""The two operators of loss scaling: functions that append them to the current Program."""

from __future__ import annotations

from typing import Any

from paddle._basics.checks import check_type
from paddle._basics.dtypes import VarType
from paddle._basics.element_types import FLOATS, HALF_FLOATS
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.layer_helper import LayerHelper

__all__ = ["check_finite_and_unscale", "update_loss_scaling"]


def _check(x: Any, op: str) -> None:
    check_type(x, "x", (tuple, list), op)
    for one in x:
        check_variable_and_dtype(one, "x", ("bfloat16", *HALF_FLOATS), op)


def check_finite_and_unscale(x: Any, scale: Any, name: str | None = None) -> tuple[Any, Any]:
    """Divides the tensors `x` by `scale` in place, unless one of them holds inf or nan.

    Args:
        x (list|tuple of Variable): float16, bfloat16, float32 or float64. scale (Variable): of shape [1].

    Returns:
        (x, found): `found`, a bool of shape [1], is True when a tensor holds inf or nan.
    """
    _check(x, "check_finite_and_unscale")
    helper = LayerHelper("check_finite_and_unscale", name=name)
    found = helper.create_variable_for_type_inference(dtype="bool")
    helper.append_op(
        type="check_finite_and_unscale", inputs={"X": x, "Scale": scale}, outputs={"Out": x, "FoundInfinite": found}
    )
    return x, found


def update_loss_scaling(
    x: Any,
    found_inf: Any,
    prev_loss_scaling: Any,
    num_good_steps: Any,
    num_bad_steps: Any,
    incr_every_n_steps: int,
    decr_every_n_nan_or_inf: int,
    incr_ratio: float,
    decr_ratio: float,
    stop_update: bool = False,
    name: str | None = None,
) -> Any:
    """Multiplies the scale by `incr_ratio` or `decr_ratio` after a number of finite or non-finite steps, and sets the
    gradients `x` of a non-finite step to zero.

    Args:
        x (list|tuple of Variable): gradients. found_inf (Variable): whether one of them holds inf or nan.
        prev_loss_scaling, num_good_steps, num_bad_steps (Variable): the state, of shape [1], written in place.
        incr_every_n_steps, decr_every_n_nan_or_inf (int), incr_ratio, decr_ratio (float): see `decorate`.
        stop_update (bool): leaves the state as it is.
    """
    check_variable_and_dtype(prev_loss_scaling, "prev_loss_scaling", FLOATS, "update_loss_scaling")
    _check(x, "update_loss_scaling")
    for one in x:
        wanted = VarType.FP32 if one.dtype in (VarType.FP16, VarType.BF16) else one.dtype
        assert prev_loss_scaling.dtype == wanted, (
            f"update_loss_scaling: for x of {one.dtype} prev_loss_scaling must be {wanted}, "
            f"got {prev_loss_scaling.dtype}"
        )
    state = {"LossScaling": prev_loss_scaling, "OutGoodSteps": num_good_steps, "OutBadSteps": num_bad_steps}
    LayerHelper("update_loss_scaling", name=name).append_op(
        type="update_loss_scaling",
        inputs={
            "X": x,
            "FoundInfinite": found_inf,
            "PrevLossScaling": prev_loss_scaling,
            "InGoodSteps": num_good_steps,
            "InBadSteps": num_bad_steps,
        },
        outputs={"Out": x, **state},
        attrs={
            "incr_every_n_steps": incr_every_n_steps,
            "decr_every_n_nan_or_inf": decr_every_n_nan_or_inf,
            "incr_ratio": incr_ratio,
            "decr_ratio": decr_ratio,
            "stop_update": stop_update,
        },
    )
    return x
