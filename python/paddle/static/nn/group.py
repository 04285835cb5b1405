"""group_norm for static Programs."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.element_types import takes
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.initializer.base import Constant
from paddle.nn.layer_helper import LayerHelper

__all__ = ["group_norm"]


def group_norm(
    input,  # noqa: A002
    groups,
    epsilon=1e-05,
    param_attr=None,
    bias_attr=None,
    act=None,
    data_layout="NCHW",
    name=None,
):
    """Normalisation over groups of channels of each image, with optional scale and shift parameters.

    Args:
        input (Variable): float32 or float64, of at least 2 dimensions.
        groups (int): the number of groups, which divides the channels.
        epsilon (float): added to the variance.
        param_attr, bias_attr (ParamAttr, optional): of scale and shift, which are absent when None.
        act (str, optional): an activation operator.
        data_layout (str): "NCHW": channels second; "NHWC": last.
        name (str, optional): a name for the output.

    Raises:
        ValueError: for another layout.
    """
    helper = LayerHelper("group_norm", **locals())
    check_variable_and_dtype(input, "input", takes("group_norm"), "group_norm")
    if data_layout not in ("NCHW", "NHWC"):
        raise ValueError(f"group_norm: data_layout must be NCHW or NHWC, got {data_layout}")
    shape = [input.shape[1] if data_layout == "NCHW" else input.shape[-1]]
    weight = bias = None
    if param_attr:
        weight = helper.create_parameter(
            attr=helper.param_attr, shape=shape, dtype=input.dtype, default_initializer=Constant(1.0)
        )
    if bias_attr:
        bias = helper.create_parameter(attr=helper.bias_attr, shape=shape, dtype=input.dtype, is_bias=True)
    out = named(
        helper.name, _ops.group_norm, input, weight, bias, epsilon=epsilon, groups=groups, data_layout=data_layout
    )[0]
    return helper.append_activation(out)
