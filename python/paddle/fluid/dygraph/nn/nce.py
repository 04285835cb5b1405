"""fluid.dygraph.NCE: noise-contrastive estimation."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import check_type
from paddle._basics.element_types import FLOATS
from paddle._basics.flags import is_18
from paddle._basics.mode import in_static_mode
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn import Layer
from paddle.nn.param_attr import ParamAttr
from paddle.static.nn.sampled import nce_tables, sampler_number

__all__ = ["NCE"]


class NCE(Layer):
    """Noise-contrastive estimation with parameters for the classes: `fluid.layers.nce` as a Layer.

    Args:
        num_total_classes: number of classes.
        dim: the width of the input.
        sample_weight: a Tensor of the samples' weights, or None; `forward` accepts one as well.
        param_attr, bias_attr: ParamAttrs; False as `bias_attr`: no bias.
        num_neg_samples: number of negative classes per sample; None: 10.
        sampler: "uniform", "log_uniform" or "custom_dist" (Exception otherwise).
        custom_dist: the probability of every class, for "custom_dist".
        seed: of the draws; 0 for the global generator.
        is_sparse: the gradient of the weight contains the sampled rows only.
        dtype: of the parameters.

    Examples:
        >>> import paddle
        >>> nce = paddle.fluid.dygraph.NCE(num_total_classes=20, dim=4, num_neg_samples=5)
        >>> nce(paddle.ones([3, 4]), paddle.to_tensor([[1], [7], [19]])).shape
        [3, 1]
    """

    def __init__(
        self,
        num_total_classes: int,
        dim: int,
        sample_weight: Any = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        num_neg_samples: int | None = None,
        sampler: str = "uniform",
        custom_dist: Any = None,
        seed: int = 0,
        is_sparse: bool = False,
        dtype: str = "float32",
    ) -> None:
        super().__init__()
        self._param_attr, self._bias_attr = param_attr, bias_attr
        self._num_total_classes = num_total_classes
        self._dtype = dtype
        self._sample_weight = sample_weight
        number = sampler_number(sampler, custom_dist)
        self._tables = nce_tables(self, custom_dist) if number == 2 else [None] * 3
        self._attrs: dict[str, Any] = {
            "num_total_classes": int(num_total_classes),
            "num_neg_samples": 10 if num_neg_samples is None else int(num_neg_samples),
            "seed": seed,
            "sampler": number,
            "is_sparse": is_sparse,
        }
        self.weight = self.create_parameter(
            attr=ParamAttr._to_attr(param_attr), shape=[num_total_classes, dim], is_bias=False, dtype=dtype
        )
        self.bias = None
        if bias_attr or bias_attr is None and not is_18():
            self.bias = self.create_parameter(attr=bias_attr, shape=[num_total_classes, 1], is_bias=True, dtype=dtype)

    def forward(self, input: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: A002
        """The losses, [N, 1]."""
        check_variable_and_dtype(input, "input", FLOATS, "NCE")
        check_variable_and_dtype(label, "label", ["int64"], "NCE")
        if in_static_mode():
            check_type(sample_weight, "sample_weight", (Variable, type(None)), "NCE")
        weight = self._sample_weight if sample_weight is None else sample_weight
        cost = _ops.nce(input, label, self.weight, self.bias, weight, *self._tables, **self._attrs)[0]
        return cost / (self._attrs["num_neg_samples"] + 1)
