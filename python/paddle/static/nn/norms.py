"""Layers of static Programs with new parameters: instance_norm, spectral_norm, prelu, inplace_abn."""

from __future__ import annotations

import math

from paddle import _ops
from paddle._basics.checks import check_type
from paddle._basics.element_types import FLOATS, takes
from paddle._dispatch.append import named
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.initializer.base import Constant, Normal
from paddle.nn.layer_helper import LayerHelper
from paddle.nn.param_attr import ParamAttr

from .common import batch_norm_parameters

__all__ = ["instance_norm", "prelu", "spectral_norm"]


def instance_norm(input, epsilon=1e-05, param_attr=None, bias_attr=None, name=None):  # noqa: A002
    """Normalises each channel of each image, then scales and shifts it.

    Args:
        input (Variable): float32 or float64, of the shape [N, C, ...] with 2 to 5 dimensions.
        epsilon (float): added to the variance.
        param_attr, bias_attr (ParamAttr, optional): of scale and shift; False for none. Both or neither are False
            (AssertionError otherwise).
        name (str, optional): a name for the output.
    """
    check_variable_and_dtype(input, "input", FLOATS, "instance_norm")
    if param_attr is False:
        assert bias_attr is False, "instance_norm: param_attr and bias_attr must be False together"
    helper = LayerHelper("instance_norm", **locals())
    scale = bias = None
    if param_attr is not False and bias_attr is not False:
        shape = [input.shape[1]]
        scale = helper.create_parameter(
            attr=helper.param_attr, shape=shape, dtype=input.dtype, default_initializer=Constant(1.0)
        )
        bias = helper.create_parameter(attr=helper.bias_attr, shape=shape, dtype=input.dtype, is_bias=True)
    out, mean, variance = named(helper.name, _ops.instance_norm, input, scale, bias, epsilon=epsilon)
    mean.stop_gradient = variance.stop_gradient = True
    return out


def spectral_norm(weight, dim=0, power_iters=1, eps=1e-12, name=None):
    """A weight divided by its greatest singular value, computed by power iteration from random vectors.

    Args:
        weight (Variable): float32 or float64, of 2 to 5 dimensions.
        dim (int): the dimension (0 or 1) of the matrix's rows; all others are its columns.
        power_iters (int): iterations.
        eps (float): added to the divisors of the iteration.
        name (str, optional): a name for the output.
    """
    helper = LayerHelper("spectral_norm", **locals())
    check_variable_and_dtype(weight, "weight", takes("spectral_norm"), "spectral_norm")
    check_type(dim, "dim", int, "spectral_norm")
    check_type(power_iters, "power_iters", int, "spectral_norm")
    check_type(eps, "eps", float, "spectral_norm")
    rows = weight.shape[dim]

    def start(size):
        vector = helper.create_parameter(
            attr=ParamAttr(), shape=[size], dtype=weight.dtype, default_initializer=Normal(0.0, 1.0)
        )
        vector.stop_gradient = True
        return vector

    u, v = start(rows), start(math.prod(weight.shape) // rows)
    return named(helper.name, _ops.spectral_norm, weight, u, v, dim=dim, power_iters=power_iters, eps=eps)


def prelu(x, mode, param_attr=None, name=None):
    """max(x, 0) + slope * min(x, 0), with the slopes as a parameter.

    Args:
        x (Variable): float32 or float64.
        mode (str): "all": one slope; "channel": one for each index of the second dimension; "element": one for each
            element of a sample.
        param_attr (ParamAttr, optional): of the slopes (default: 0.25 each).
        name (str, optional): a name for the output.

    Raises:
        ValueError: for another mode.
        AssertionError: for an x of too few dimensions.
    """
    check_variable_and_dtype(x, "x", FLOATS, "prelu")
    helper = LayerHelper("prelu", **locals())
    if mode not in ("all", "channel", "element"):
        raise ValueError(f"prelu: mode should be one of all, channel, element, got {mode!s:.200}")
    shape = [1]
    if mode == "channel":
        assert len(x.shape) >= 2, "prelu: x must have 2 dimensions or more in mode channel"
        shape = [1, x.shape[1], 1, 1]
    elif mode == "element":
        assert len(x.shape) >= 1, "prelu: x must have a dimension in mode element"
        shape = [1, *x.shape[1:]]
    alpha = helper.create_parameter(
        attr=helper.param_attr, shape=shape, dtype=x.dtype, default_initializer=Constant(0.25)
    )
    return named(helper.name, _ops.prelu, x, alpha, mode=mode)


def inplace_abn(
    input,  # noqa: A002
    act=None,
    is_test=False,
    momentum=0.9,
    epsilon=1e-05,
    param_attr=None,
    bias_attr=None,
    data_layout="NCHW",
    name=None,
    moving_mean_name=None,
    moving_variance_name=None,
    do_model_average_for_mean_and_var=True,
    use_global_stats=False,
    act_alpha=1.0,
):
    """Batch norm and activation in place of the input; the gradient is computed from the result.

    Args:
        input (Variable): float32 or float64.
        act (str, optional): None or "identity", "leaky_relu", "elu".
        is_test (bool): normalise by the running statistics.
        momentum (float|Variable): running = momentum * running + (1 - momentum) * batch.
        epsilon (float): added to the variance.
        param_attr, bias_attr (ParamAttr, optional): of scale and shift.
        data_layout (str): "NCHW": channels second; "NHWC": last.
        moving_mean_name, moving_variance_name (str, optional): names of the running statistics.
        do_model_average_for_mean_and_var (bool): include the running statistics in model averaging.
        use_global_stats (bool): always normalise by the running statistics.
        act_alpha (float): negative slope of leaky_relu, or alpha of elu.

    Returns:
        Variable: `input`, with the result.

    Raises:
        AssertionError: for another activation, or bias_attr False.
        ValueError: for another layout.
    """
    assert act in (None, "identity", "leaky_relu", "elu"), (
        f"inplace_abn: act must be None, identity, leaky_relu or elu, got {act!s:.200}"
    )
    assert bias_attr is not False, "inplace_abn: bias_attr should not be False"
    helper = LayerHelper("inplace_abn", **locals())
    check_variable_and_dtype(input, "input", FLOATS, "inplace_abn")
    names = (moving_mean_name, moving_variance_name)
    scale, bias, mean, variance = batch_norm_parameters(
        helper, input, input.dtype, data_layout, names, do_model_average_for_mean_and_var
    )
    tensor = isinstance(momentum, Variable)
    outputs = named(
        helper.name,
        _ops.inplace_abn,
        input,
        scale,
        bias,
        mean,
        variance,
        **({"MomentumTensor": momentum} if tensor else {"momentum": momentum}),
        epsilon=epsilon,
        is_test=is_test,
        data_layout=data_layout,
        use_global_stats=use_global_stats,
        activation=act or "",
        alpha=act_alpha,
        Y=input,
        MeanOut=mean,
        VarianceOut=variance,
    )
    outputs[3].stop_gradient = outputs[4].stop_gradient = True
    return input
