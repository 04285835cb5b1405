"""Linear-chain CRF for static Programs: cost and decoding."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.element_types import takes
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.layer_helper import LayerHelper

__all__ = ["crf_decoding"]


def crf_cost(input, label, param_attr=None, length=None):  # noqa: A002
    """The negative log likelihood of the tags of each sequence (fluid.layers.linear_chain_crf)."""
    check_variable_and_dtype(input, "input", takes("linear_chain_crf"), "linear_chain_crf")
    check_variable_and_dtype(label, "label", ["int64"], "linear_chain_crf")
    helper = LayerHelper("linear_chain_crf", **locals())
    size = input.shape[1 if length is None else 2]
    transition = helper.create_parameter(attr=helper.param_attr, shape=[size + 2, size], dtype=helper.input_dtype())
    return named(helper.name, _ops.linear_chain_crf, input, transition, label, length)[3]


def crf_decoding(input, param_attr, label=None, length=None):  # noqa: A002
    """The most likely sequence of tags (Viterbi decoding).

    Args:
        input (Variable): float32 or float64 scores [rows, tags] with a LoD; with lengths [batch, steps, tags].
        param_attr (ParamAttr): has the name of the parameter of linear_chain_crf.
        label (Variable): int64 tags; with it the result is 1 where the decoded tag equals the label, else 0.
        length (Variable): int64 [batch].

    Returns:
        Variable: int64 [rows, 1] with the LoD of the input; with lengths [batch, steps].

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.0-rc/api/paddle/static/nn/crf_decoding_en.html
    """
    check_variable_and_dtype(input, "input", takes("crf_decoding"), "crf_decoding")
    helper = LayerHelper("crf_decoding", **locals())
    return named(helper.name, _ops.crf_decoding, input, helper.get_parameter(param_attr.name), label, length)
