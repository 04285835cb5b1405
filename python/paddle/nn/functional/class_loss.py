"""Classification losses: binary_cross_entropy, log_loss, nll_loss, kl_div, hsigmoid_loss; smooth_l1_loss."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.dtypes import convert_dtype
from paddle._core import Tensor
from paddle._dispatch.append import checked, named
from paddle._dispatch.argument_checks import check_arguments
from paddle._programs.variable import Variable

from .loss import _reduced, check_reduction

__all__ = ["binary_cross_entropy", "hsigmoid_loss", "kl_div", "log_loss", "nll_loss", "smooth_l1_loss"]


def binary_cross_entropy(
    input: Any,  # noqa: A002
    label: Any,
    weight: Any = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """-(label * log(input) + (1 - label) * log(1 - input)), element by element; logarithms are at least -100.

    See the API page of paddle.nn.functional.binary_cross_entropy.

    Args:
        input: float32 or float64 probabilities in [0, 1] (ValueError otherwise).
        label: Tensor of the shape and type of `input`, values in [0, 1].
        weight: Tensor that multiplies the losses; its shape is broadcast.
        reduction: "mean", "sum", or "none" for the losses of all elements (ValueError otherwise).
        name: a name for the output.

    Returns:
        Tensor of shape [1], or of the shape of `input` without a reduction.

    Examples:
        >>> import paddle
        >>> p, y = paddle.to_tensor([0.5, 0.5]), paddle.to_tensor([1.0, 0.0])
        >>> round(float(paddle.nn.functional.binary_cross_entropy(p, y)), 4)
        0.6931
    """
    check_reduction("binary_cross_entropy", reduction)
    plain = reduction == "none"
    out = checked(name if plain and weight is None else None, _ops.bce_loss, input, label)
    if weight is not None:
        if not isinstance(weight, Variable):
            raise ValueError("The weight is not a Tensor, please convert to Tensor.")
        out = named(name if plain else None, _ops.elementwise_mul, out, weight)
    return out if plain else _reduced(out, reduction, name)


def log_loss(input: Any, label: Any, epsilon: float = 0.0001, name: str | None = None) -> Tensor:  # noqa: A002
    """-label * log(input + epsilon) - (1 - label) * log(1 - input + epsilon).

    See the API page of paddle.nn.functional.log_loss.

    Args:
        input: float32 probabilities of shape [N, 1].
        label: Tensor of the shape and type of `input`: 1 or 0.
        epsilon: keeps the logarithms finite.
        name: a name for the output.

    Returns:
        Tensor of shape [N, 1].

    Examples:
        >>> import paddle
        >>> loss = paddle.nn.functional.log_loss(paddle.full([1, 1], 0.5), paddle.ones([1, 1]), epsilon=0.0)
        >>> round(float(loss), 4)
        0.6931
    """
    return checked(name, _ops.log_loss, input, label, epsilon=epsilon)


def nll_loss(
    input: Any,  # noqa: A002
    label: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """The negative log-probability in `input` of each label's class, times the weight of the class.

    See the API page of paddle.nn.functional.nll_loss.

    Args:
        input: float32 or float64 log-probabilities, [N, classes] or [N, classes, d1, d2, ...].
        label: int64 classes, [N] or [N, d1, d2, ...].
        weight: Tensor of shape [classes]; the mean is then weighted.
        ignore_index: samples with this label have no loss and are not counted.
        reduction: "mean", "sum" or "none" (ValueError otherwise).
        name: a name for the output.

    Returns:
        Tensor of shape [1], or of the shape of `label` without a reduction.

    Raises:
        ValueError: for a one-dimensional input, another reduction, or a label that is not a class.

    Examples:
        >>> import paddle
        >>> scores = paddle.to_tensor([[-0.5, -1.0], [-2.0, -0.25]])
        >>> float(paddle.nn.functional.nll_loss(scores, paddle.to_tensor([0, 1])))
        0.375
    """
    check_reduction("nll_loss", reduction)
    shape = list(input.shape)
    if len(shape) < 2:
        raise ValueError(f"Expected 2 or more dimensions (got {len(shape)})")
    check_arguments("nll_loss", input, label)
    folded = len(shape) not in (2, 4)
    if folded:
        input = _ops.reshape2(input, shape=[*shape[:2], 1, -1])  # noqa: A001
        label = _ops.reshape2(label, shape=[shape[0], 1, -1])
    if folded and reduction == "none":
        out = _ops.nll_loss(input, label, weight, ignore_index=ignore_index, reduction=reduction)[0]
        return named(name, _ops.reshape2, out, shape=[shape[0], *shape[2:]])
    return named(name, _ops.nll_loss, input, label, weight, ignore_index=ignore_index, reduction=reduction)[0]


def kl_div(input: Any, label: Any, reduction: str = "mean", name: str | None = None) -> Tensor:  # noqa: A002
    """The Kullback-Leibler divergence label * (log(label) - input), 0 where the label is not positive.

    See the API page of paddle.nn.functional.kl_div.

    Args:
        input: float32 or float64 log-probabilities, [N, ...].
        label: probabilities of the same shape; if the types differ, the wider one is used.
        reduction: "mean", "sum", "batchmean" (the sum divided by N) or "none".
        name: a name for the output.

    Returns:
        Tensor of shape [1], or of the shape of `input` without a reduction.

    Raises:
        ValueError: for another reduction or shape.

    Examples:
        >>> import paddle
        >>> p = paddle.to_tensor([[0.5, 0.5]])
        >>> float(paddle.nn.functional.kl_div(paddle.log(p), p))
        0.0
    """
    kinds = [convert_dtype(x.dtype) for x in (input, label)]
    if kinds == ["float32", "float64"]:
        input = _ops.cast(input, in_dtype=input.dtype, out_dtype=label.dtype)  # noqa: A001
    elif kinds == ["float64", "float32"]:
        label = _ops.cast(label, in_dtype=label.dtype, out_dtype=input.dtype)
    check_arguments("kl_div", reduction)
    return checked(name, _ops.kldiv_loss, input, label, reduction=reduction)


def smooth_l1_loss(
    input: Any,  # noqa: A002
    label: Any,
    reduction: str = "mean",
    delta: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """Huber loss: 0.5 * d * d where abs(d) <= delta, else delta * (abs(d) - 0.5 * delta), with d = input - label.

    See the API page of paddle.nn.functional.smooth_l1_loss.

    Args:
        input, label: float32 or float64 Tensors of one shape.
        reduction: "mean", "sum" or "none" (ValueError otherwise).
        delta: the loss is linear for absolute differences above it.
        name: a name for the output.

    Returns:
        Tensor of shape [1], or of the shape of `input` without a reduction.

    Examples:
        >>> import paddle
        >>> x, y = paddle.to_tensor([0.5, 3.0]), paddle.to_tensor([0.0, 0.0])
        >>> paddle.nn.functional.smooth_l1_loss(x, y, reduction="none").numpy().tolist()
        [0.125, 2.5]
    """
    check_reduction("smooth_l1_loss", reduction)
    plain = reduction == "none"
    out = checked(name if plain else None, _ops.huber_loss, input, label, delta=delta)[1]
    return out if plain else _reduced(out, reduction, name)


def hsigmoid_loss(
    input: Any,  # noqa: A002
    label: Any,
    num_classes: int,
    weight: Any,
    bias: Any = None,
    path_table: Any = None,
    path_code: Any = None,
    is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Hierarchical sigmoid: the sum of the binary losses on the path from the root of a class tree to the label's leaf.

    See the API page of paddle.nn.functional.hsigmoid_loss. Weights on a parameter server (Paddle's `is_sparse`) are
    not supported.

    Args:
        input: float32 or float64 Tensor of shape [N, D].
        label: int64 classes of shape [N, 1].
        num_classes: number of classes, at least 2 (ValueError otherwise).
        weight: a row for each inner node: [num_classes - 1, D]; with a custom tree [num_classes, D].
        bias: an element for each inner node, of shape [num_classes - 1, 1] or [num_classes, 1].
        path_table: int64 [N, L]: the nodes from the root, padded with -1; None for the complete tree.
        path_code: int64 [N, L]: the branch taken at each node.
        is_sparse: the gradient of `weight` is SelectedRows with the visited nodes; requires `path_table`.
        name: a name for the output.

    Returns:
        Tensor of shape [N, 1].

    Raises:
        ValueError: for a label that is not a class, or shapes that do not match.
        IndexError: for a node without a row in `weight`.

    Examples:
        >>> import paddle
        >>> x, label = paddle.zeros([1, 3]), paddle.to_tensor([[1]])
        >>> round(float(paddle.nn.functional.hsigmoid_loss(x, label, 4, paddle.zeros([3, 3]))), 4)
        1.3863
    """
    return checked(
        name,
        _ops.hierarchical_sigmoid,
        input,
        weight,
        label,
        path_table,
        path_code,
        bias,
        num_classes=num_classes,
        is_sparse=is_sparse,
    )[0]
