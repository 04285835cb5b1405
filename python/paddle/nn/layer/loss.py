"""Loss layers: each stores the arguments of its function."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.default_dtype import get_default_dtype
from paddle._dispatch.argument_checks import check_arguments
from paddle.nn import functional as F
from paddle.nn.functional.loss import check_reduction
from paddle.nn.layer.function_layer import FunctionLayer
from paddle.nn.layer.layers import Layer

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "HSigmoidLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "NLLLoss",
    "SmoothL1Loss",
]


class _Loss(FunctionLayer):
    _prefix = ""
    _shown = ()  # as upstream, which shows no arguments


class BCEWithLogitsLoss(_Loss):
    """The cross entropy of sigmoid(logit): `functional.binary_cross_entropy_with_logits` as a layer.

    Args:
        weight, pos_weight: Tensors of weights, or None.
        reduction: "mean", "sum" or "none" (ValueError otherwise).
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
        ignore_index: samples with this label have no loss.
        reduction: "mean", "sum" or "none".
        soft_label: whether labels are probabilities.
        axis: the dimension of the classes.
        use_softmax: if False, the input contains probabilities.
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
        check_arguments("MSELoss", input, label)
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


class BCELoss(_Loss):
    """The cross entropy of probabilities of two classes: `functional.binary_cross_entropy` as a layer.

    Args:
        weight: Tensor that multiplies the losses, or None.
        reduction: "mean", "sum" or "none" (ValueError otherwise).
        name: a name for the output.

    Examples:
        >>> import paddle
        >>> round(float(paddle.nn.BCELoss()(paddle.full([3], 0.5), paddle.ones([3]))), 4)
        0.6931
    """

    _function = staticmethod(F.binary_cross_entropy)

    def __init__(self, weight: Any = None, reduction: str = "mean", name: str | None = None) -> None:
        check_reduction("bce_loss", reduction)
        super().__init__(weight=weight, reduction=reduction, name=name)

    def forward(self, input: Any, label: Any) -> Any:  # noqa: A002
        """The loss."""
        return self._function(input, label, **self._arguments)


class NLLLoss(_Loss):
    """The negative log-probability of the label: `functional.nll_loss` as a layer.

    Args:
        weight: Tensor of the weights of the classes, or None.
        ignore_index: samples with this label have no loss.
        reduction: "mean", "sum" or "none" (ValueError otherwise).
        name: a name for the output.

    Examples:
        >>> import paddle
        >>> float(paddle.nn.NLLLoss()(paddle.to_tensor([[-0.5, -1.0]]), paddle.to_tensor([1])))
        1.0
    """

    _function = staticmethod(F.nll_loss)
    _prefix = "_"

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", name: str | None = None
    ) -> None:
        check_reduction("nll_loss", reduction)
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction, name=name)

    def forward(self, input: Any, label: Any) -> Any:  # noqa: A002
        """The loss."""
        return self._function(input, label, **self._arguments)


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence: `functional.kl_div` as a layer.

    Args:
        reduction: "mean", "sum", "batchmean" or "none".
    """

    _function = staticmethod(F.kl_div)

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)

    def forward(self, input: Any, label: Any) -> Any:  # noqa: A002
        """The divergence."""
        return self._function(input, label, **self._arguments)


class SmoothL1Loss(_Loss):
    """Huber loss: `functional.smooth_l1_loss` as a layer.

    Args:
        reduction: "mean", "sum" or "none".
        delta: the loss is linear for absolute differences above it.
        name: a name for the output.
    """

    _function = staticmethod(F.smooth_l1_loss)

    def __init__(self, reduction: str = "mean", delta: float = 1.0, name: str | None = None) -> None:
        super().__init__(reduction=reduction, delta=delta, name=name)

    def forward(self, input: Any, label: Any) -> Any:  # noqa: A002
        """The loss."""
        return self._function(input, label, **self._arguments)


class HSigmoidLoss(Layer):
    """Hierarchical sigmoid over a binary class tree, with learned weights of the nodes: `functional.hsigmoid_loss`.

    Args:
        feature_size: the last dimension of the input.
        num_classes: number of classes, at least 2 (ValueError otherwise).
        weight_attr, bias_attr: ParamAttrs of the weights; `bias_attr` False: no bias.
        is_custom: paths are passed in each call.
        is_sparse: the gradient of the weights is SelectedRows; ignored for the complete tree.
        name: a name for the output.

    Examples:
        >>> import paddle
        >>> loss = paddle.nn.HSigmoidLoss(3, 6)
        >>> loss(paddle.ones([4, 3]), paddle.to_tensor([[0], [1], [4], [5]])).shape
        [4, 1]
    """

    def __init__(
        self,
        feature_size: int,
        num_classes: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        is_custom: bool = False,
        is_sparse: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if num_classes < 2 and not is_custom:
            raise ValueError("num_classes must not be less than 2 with default tree")
        if is_sparse and not is_custom:
            import logging

            logging.info("HSigmoidLoss: is_sparse requires is_custom and is ignored")
            is_sparse = False
        self._feature_size = feature_size
        self._num_classes = num_classes
        self._is_custom = is_custom
        self._is_sparse = is_sparse
        self._weight_attr = weight_attr
        self._bias_attr = bias_attr
        self._name = name
        self._dtype = get_default_dtype()
        nodes = num_classes if is_custom else num_classes - 1
        self.weight = self.create_parameter([nodes, feature_size], attr=weight_attr, is_bias=False, dtype=self._dtype)
        self.bias = self.create_parameter([nodes, 1], attr=bias_attr, is_bias=True, dtype=self._dtype)

    def forward(self, input: Any, label: Any, path_table: Any = None, path_code: Any = None) -> Any:  # noqa: A002
        """The losses, [N, 1]."""
        return F.hsigmoid_loss(
            input,
            label,
            self._num_classes,
            self.weight,
            self.bias,
            path_table=path_table,
            path_code=path_code,
            is_sparse=self._is_sparse,
            name=self._name,
        )
