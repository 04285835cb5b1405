"""Layers of losses: each keeps the arguments of its function."""
from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn import functional as F
from paddle.nn.functional.loss import check_reduction
from paddle.nn.layer.layers import Layer

__all__ = ["BCEWithLogitsLoss", "CrossEntropyLoss", "L1Loss", "MSELoss", "MarginRankingLoss"]


class BCEWithLogitsLoss(Layer):
    """The cross entropy of sigmoid(logit): `functional.binary_cross_entropy_with_logits` as a layer.

    Args:
        weight, pos_weight: Tensors of weights, or None.
        reduction: "mean", "sum" or "none" (ValueError for another).
        name: a name for the output.
    """

    def __init__(
        self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None, name: str | None = None
    ) -> None:
        check_reduction("BCEWithLogitsLoss", reduction)
        super().__init__()
        self.weight = weight
        self.reduction = reduction
        self.pos_weight = pos_weight
        self.name = name

    def forward(self, logit: Any, label: Any) -> Any:
        """The loss."""
        return F.binary_cross_entropy_with_logits(
            logit, label, self.weight, self.reduction, self.pos_weight, self.name
        )


class CrossEntropyLoss(Layer):
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
        super().__init__()
        self.weight = weight
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.soft_label = soft_label
        self.axis = axis
        self.use_softmax = use_softmax
        self.name = name

    def forward(self, input: Any, label: Any) -> Any:  # noqa: A002
        """The loss."""
        return F.cross_entropy(
            input,
            label,
            self.weight,
            self.ignore_index,
            self.reduction,
            self.soft_label,
            self.axis,
            self.use_softmax,
            self.name,
        )


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


class L1Loss(Layer):
    """The mean (or sum) of |input - label|: `functional.l1_loss` as a layer."""

    def __init__(self, reduction: str = "mean", name: str | None = None) -> None:
        check_reduction("L1Loss", reduction)
        super().__init__()
        self.reduction = reduction
        self.name = name

    def forward(self, input: Any, label: Any) -> Any:  # noqa: A002
        """The loss."""
        return F.l1_loss(input, label, self.reduction, self.name)


class MarginRankingLoss(Layer):
    """max(0, label * (other - input) + margin): `functional.margin_ranking_loss` as a layer."""

    def __init__(self, margin: float = 0.0, reduction: str = "mean", name: str | None = None) -> None:
        check_reduction("MarginRankingLoss", reduction)
        super().__init__()
        self.margin = margin
        self.reduction = reduction
        self.name = name

    def forward(self, input: Any, other: Any, label: Any) -> Any:  # noqa: A002
        """The loss."""
        return F.margin_ranking_loss(input, other, label, self.margin, self.reduction, self.name)
