"""Layers of losses: each keeps the arguments of its function."""
from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn import functional as F
from paddle.nn.functional.loss import check_reduction
from paddle.nn.layer.function_layer import FunctionLayer
from paddle.nn.layer.layers import Layer

__all__ = ["BCEWithLogitsLoss", "CrossEntropyLoss", "L1Loss", "MSELoss", "MarginRankingLoss"]


class _Loss(FunctionLayer):
    _prefix = ""
    _shown = ()  # as upstream, which shows none


class BCEWithLogitsLoss(_Loss):
    """The cross entropy of sigmoid(logit): `functional.binary_cross_entropy_with_logits` as a layer.

    Args:
        weight, pos_weight: Tensors of weights, or None.
        reduction: "mean", "sum" or "none" (ValueError for another).
        name: a name for the output.
    """

    _function = staticmethod(F.binary_cross_entropy_with_logits)

    def __init__(
        self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None, name: str | None = None
    ) -> None:
        check_reduction("BCEWithLogitsLoss", reduction)
        super().__init__(weight=weight, reduction=reduction, pos_weight=pos_weight, name=name)

    def forward(self, logit: Any, label: Any) -> Any:
        """The loss."""
        return self._function(logit, label, **self._arguments)


class CrossEntropyLoss(_Loss):
    """The cross entropy of classes: `functional.cross_entropy` as a layer.

    Args:
        weight: Tensor of the weights of the classes, or None.
        ignore_index: this label costs nothing.
        reduction: "mean", "sum" or "none".
        soft_label: whether labels are probabilities.
        axis: the dimension of the classes.
        use_softmax: False: the input has probabilities already.
        name: a name for the output.

    Examples:
        >>> import paddle
        >>> loss = paddle.nn.CrossEntropyLoss()(paddle.zeros([1, 2]), paddle.to_tensor([1]))
        >>> round(float(loss), 4)
        0.6931
    """

    _function = staticmethod(F.cross_entropy)

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        soft_label: bool = False,
        axis: int = -1,
        use_softmax: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(
            weight=weight,
            ignore_index=ignore_index,
            reduction=reduction,
            soft_label=soft_label,
            axis=axis,
            use_softmax=use_softmax,
            name=name,
        )

    def forward(self, input: Any, label: Any) -> Any:  # noqa: A002
        """The loss."""
        return self._function(input, label, **self._arguments)


class MSELoss(Layer):
    """The mean (or sum) of (input - label) squared: `functional.mse_loss` as a layer.

    Examples:
        >>> import paddle
        >>> float(paddle.nn.MSELoss()(paddle.ones([2]), paddle.zeros([2])))
        1.0
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        check_reduction("MSELoss", reduction)
        self.reduction = reduction

    def forward(self, input: Any, label: Any) -> Any:  # noqa: A002
        """The loss."""
        check_variable_and_dtype(input, "input", ["float32", "float64"], "MSELoss")
        check_variable_and_dtype(label, "label", ["float32", "float64"], "MSELoss")
        out = _ops.square(_ops.elementwise_sub(input, label))
        if self.reduction == "none":
            return out
        return (_ops.reduce_sum if self.reduction == "sum" else _ops.reduce_mean)(out, reduce_all=True)


class L1Loss(_Loss):
    """The mean (or sum) of |input - label|: `functional.l1_loss` as a layer."""

    _function = staticmethod(F.l1_loss)

    def __init__(self, reduction: str = "mean", name: str | None = None) -> None:
        check_reduction("L1Loss", reduction)
        super().__init__(reduction=reduction, name=name)

    def forward(self, input: Any, label: Any) -> Any:  # noqa: A002
        """The loss."""
        return self._function(input, label, **self._arguments)


class MarginRankingLoss(_Loss):
    """max(0, label * (other - input) + margin): `functional.margin_ranking_loss` as a layer."""

    _function = staticmethod(F.margin_ranking_loss)

    def __init__(self, margin: float = 0.0, reduction: str = "mean", name: str | None = None) -> None:
        check_reduction("MarginRankingLoss", reduction)
        super().__init__(margin=margin, reduction=reduction, name=name)

    def forward(self, input: Any, other: Any, label: Any) -> Any:  # noqa: A002
        """The loss."""
        return self._function(input, other, label, **self._arguments)
