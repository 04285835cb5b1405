"""nce: noise-contrastive estimation with new parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle import _ops
from paddle._basics.element_types import takes
from paddle._core import Tensor
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.initializer.assign import Assign
from paddle.nn.layer_helper import LayerHelper
from paddle.nn.param_attr import ParamAttr

__all__ = ["nce"]

_SAMPLERS = ("uniform", "log_uniform", "custom_dist")


def sampler_number(sampler: str, custom_dist: Any) -> int:
    """The operator's number of a sampler; an Exception for an unknown one."""
    if sampler not in _SAMPLERS:
        raise Exception(f"Unsupported sampler type {sampler!r}: it must be one of {', '.join(_SAMPLERS)}")
    assert sampler != "custom_dist" or custom_dist is not None, "custom_dist must be given for that sampler"
    return _SAMPLERS.index(sampler)


def alias_tables(probabilities: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The tables of Walker's alias method: probabilities, the alias of each class (-1: none), and the threshold of each
    class.
    """
    share = np.asarray(probabilities, "float64") * len(probabilities)
    alias, own = np.full(len(share), -1, "int32"), np.ones(len(share))
    small = [i for i, s in enumerate(share) if s < 1]
    large = [i for i, s in enumerate(share) if s > 1]
    while small and large:
        i, j = small.pop(0), large.pop(0)
        own[i], alias[i] = share[i], j
        share[j] += share[i] - 1
        if share[j] != 1:
            (large if share[j] > 1 else small).append(j)
    return np.asarray(probabilities, "float32"), alias, own.astype("float32")


def nce_tables(helper: Any, custom_dist: Any) -> list[Tensor]:
    """The alias tables as parameters that are not trained."""
    made = []
    for table in alias_tables(custom_dist):
        var = helper.create_parameter(
            attr=ParamAttr(), shape=list(table.shape), dtype=str(table.dtype), default_initializer=Assign(table)
        )
        var.stop_gradient = True
        made.append(var)
    return made


def nce(
    input: Any,  # noqa: A002
    label: Any,
    num_total_classes: int,
    sample_weight: Any = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    num_neg_samples: int | None = None,
    name: str | None = None,
    sampler: str = "uniform",
    custom_dist: Any = None,
    seed: int = 0,
    is_sparse: bool = False,
) -> Tensor:
    """Noise-contrastive estimation (Gutmann and Hyvarinen, 2010): the label's class against classes drawn at random.

    See the API page of paddle.static.nn.nce. Unlike in Paddle, `is_sparse` does not read weights from a parameter
    server.

    Args:
        input (Variable): [N, D], float32 or float64.
        label (Variable): int64 [N, number of true classes].
        num_total_classes (int): the number of classes.
        sample_weight (Variable): [N, 1], the weights of the samples.
        param_attr, bias_attr (ParamAttr): of the weights [num_total_classes, D] and biases of the classes; False as
            `bias_attr` for no biases.
        num_neg_samples (int): the number of negative classes drawn for each sample; 10 when None.
        name (str): a name for the output.
        sampler (str): "uniform", "log_uniform" or "custom_dist" (an Exception for another).
        custom_dist (list): the probability of every class, for "custom_dist".
        seed (int): of the draws; 0 for the global generator.
        is_sparse (bool): the gradient of the weights is SelectedRows.

    Returns:
        Variable: [N, 1], the losses over num_neg_samples + 1.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> x, y = paddle.static.data("x", [None, 8]), paddle.static.data("y", [None, 1], "int64")
        >>> paddle.static.nn.nce(x, y, num_total_classes=100, num_neg_samples=5).shape
        (-1, 1)
        >>> paddle.disable_static()
    """
    check_variable_and_dtype(input, "input", takes("nce"), "nce")
    check_variable_and_dtype(label, "label", ["int64"], "nce")
    number = sampler_number(sampler, custom_dist)
    helper = LayerHelper("nce", param_attr=param_attr, bias_attr=bias_attr, name=name)
    shape = [num_total_classes, input.shape[1]]
    weight = helper.create_parameter(attr=helper.param_attr, shape=shape, is_bias=False, dtype=input.dtype)
    bias = None
    if helper.bias_attr:
        shape = [num_total_classes, 1]
        bias = helper.create_parameter(attr=helper.bias_attr, shape=shape, is_bias=True, dtype=input.dtype)
    tables = nce_tables(helper, custom_dist) if number == 2 else [None] * 3
    drawn = 10 if num_neg_samples is None else int(num_neg_samples)
    cost = named(
        helper.name,
        _ops.nce,
        input,
        label,
        weight,
        bias,
        sample_weight,
        *tables,
        num_total_classes=int(num_total_classes),
        num_neg_samples=drawn,
        seed=seed,
        sampler=number,
        is_sparse=is_sparse,
    )[0]
    return cost / (drawn + 1)
