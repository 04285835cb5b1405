"""Losses: cross entropies, square and absolute errors, ranking, focal, dice and n-pair losses, edit distance."""

from __future__ import annotations

import warnings
from typing import Any

from paddle import _ops
from paddle._basics import unique_name
from paddle._basics.dtypes import convert_dtype
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.append import checked, named
from paddle._dispatch.argument_checks import check_arguments

__all__ = [
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "dice_loss",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "npair_loss",
    "sigmoid_focal_loss",
    "softmax_with_cross_entropy",
    "square_error_cost",
]


def check_reduction(where: str, reduction: str) -> None:
    """ValueError unless `reduction` is "sum", "mean" or "none"."""
    if reduction not in ("sum", "mean", "none"):
        raise ValueError(f"{where}: reduction must be 'sum', 'mean' or 'none', got {reduction!s:.200}")


def _sum(x: Any, name: str | None = None) -> Any:
    return named(name, _ops.reduce_sum, x, reduce_all=True)


def _reduced(x: Any, reduction: str, name: str | None = None) -> Any:
    if reduction == "mean":
        return _ops.mean(x) if name is None else named(name, _ops.mean, x)
    return _sum(x, name) if reduction == "sum" else x


def _constant(value: float, dtype: Any) -> Any:
    return _ops.fill_constant(shape=[1], dtype=dtype, value=float(value))


def binary_cross_entropy_with_logits(
    logit: Any,
    label: Any,
    weight: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
    name: str | None = None,
) -> Tensor:
    """The cross entropy of sigmoid(logit) with labels, element by element.

    Args:
        logit: float32 or float64 Tensor.
        label: Tensor of the shape and type of `logit`, values in [0, 1].
        weight: Tensor that multiplies the losses; its shape is broadcast.
        reduction: "mean", "sum", or "none" for the losses of all elements (ValueError otherwise).
        pos_weight: Tensor, the weight of the positive term of the loss.
        name: a name for the output.

    Returns:
        Tensor of shape [1], or of the shape of `logit` without a reduction.

    Examples:
        >>> import paddle
        >>> x, y = paddle.zeros([2]), paddle.ones([2])
        >>> round(float(paddle.nn.functional.binary_cross_entropy_with_logits(x, y)), 4)
        0.6931
    """
    if reduction not in ("sum", "mean", "none"):
        check_reduction("binary_cross_entropy_with_logits", reduction)
    check_arguments("binary_cross_entropy_with_logits", logit, label, pos_weight, weight)
    out = _ops.sigmoid_cross_entropy_with_logits(logit, label)
    if pos_weight is not None:
        one = _constant(1.0, logit.dtype)
        # label * (pos_weight - 1) + 1: pos_weight for positive labels, 1 for the others
        part = _ops.elementwise_mul(label, _ops.elementwise_sub(pos_weight, one))
        out = _ops.elementwise_mul(out, _ops.elementwise_add(part, one))
    if weight is not None:
        out = _ops.elementwise_mul(out, weight)
    return _reduced(out, reduction, name)


def cross_entropy(
    input: Any,  # noqa: A002
    label: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    name: str | None = None,
) -> Tensor:
    """The cross entropy of classes, by default of softmax(input).

    Args:
        input: float32 or float64 Tensor: scores of the classes along `axis`.
        label: int32 or int64 classes, of the shape of `input` without `axis` or with size 1 there; with `soft_label`
            probabilities of the shape of `input`.
        weight: Tensor of shape [classes]: weights of the classes; the mean is then weighted.
        ignore_index: samples with this label have no loss and are not counted.
        reduction: "mean", "sum" or "none".
        soft_label: whether labels are probabilities.
        axis: the dimension of the classes.
        use_softmax: if False, `input` contains probabilities.
        name: a name for the output.

    Returns:
        Tensor of shape [1], or the losses without a reduction.

    Raises:
        ValueError: for another reduction, `ignore_index` with soft labels, or ranks that do not match.

    Examples:
        >>> import paddle
        >>> loss = paddle.nn.functional.cross_entropy(paddle.zeros([2, 4]), paddle.to_tensor([0, 3]))
        >>> round(float(loss), 4)
        1.3863
    """
    if reduction not in ("sum", "mean", "none"):
        check_reduction("softmax_cross_entropy", reduction)
    if soft_label and ignore_index > 0:
        raise ValueError(
            "softmax_with_cross_entropy: ignore_index has no meaning for soft labels and must stay -100, got "
            f"{ignore_index}"
        )
    dims, label_dims = len(input.shape), len(label.shape)
    if label_dims not in (dims, dims - 1):
        raise ValueError(
            f"cross_entropy: label must have as many dimensions as input or one less, got {label_dims} and {dims}"
        )
    if label_dims != dims:
        label = _ops.unsqueeze2(label, axes=[axis])
    check_arguments("softmax_cross_entropy", input, label, weight)
    out = _ops.softmax_with_cross_entropy(
        input, label, soft_label=soft_label, ignore_index=ignore_index, axis=axis, use_softmax=use_softmax
    )[1]
    weights = None
    if weight is not None:
        weights = _class_weights(label, weight, soft_label, axis, ignore_index)
        out = named(name if reduction == "none" else None, _ops.elementwise_mul, out, weights)
    if reduction != "mean":
        if reduction == "none":
            return _ops.squeeze2(out, axes=[axis]) if label_dims != dims else out
        return _sum(out, name)
    if ignore_index != -100:
        ignored = _ops.fill_constant(shape=[1], dtype=label.dtype, value=float(ignore_index))
        counted = _ops.not_equal(label, ignored)
        counted = _ops.cast(counted, in_dtype=counted.dtype, out_dtype=out.dtype)
        weights = counted if weights is None else _ops.elementwise_mul(counted, weights)
    if weights is None:
        return _reduced(out, "mean", name)
    return _ops.elementwise_div(_sum(out, name), _sum(weights))


def _class_weights(label: Any, weight: Any, soft_label: bool, axis: int, ignore_index: int) -> Any:
    """The weight of the class of each sample, of the shape of the losses."""
    classes = weight.shape[0]
    if soft_label:
        dims = len(label.shape)
        if label.dtype != weight.dtype:
            label = _ops.cast(label, in_dtype=label.dtype, out_dtype=weight.dtype)
        shape = [1] * dims
        shape[axis] = classes
        return _ops.reduce_sum(
            _ops.elementwise_mul(label, _ops.reshape2(weight, shape=shape)), dim=[axis], keep_dim=True
        )
    flat = _ops.reshape2(label, shape=[-1])
    # An ignored label is not a valid class: gather class 0 instead; its loss is zero.
    ignored = _ops.fill_constant(shape=[1], dtype=flat.dtype, value=float(ignore_index))
    real = _ops.not_equal(flat, ignored)
    flat = _ops.elementwise_mul(flat, _ops.cast(real, in_dtype=real.dtype, out_dtype=flat.dtype))
    picked = _ops.gather(weight, flat)
    return _reshape_as(picked, label)


def _reshape_as(x: Any, like: Any) -> Any:
    sizes = list(like.shape)
    if sum(n < 0 for n in sizes) <= 1:
        return _ops.reshape2(x, shape=sizes)
    return _ops.reshape2(x, _ops.shape(like), shape=sizes)


def softmax_loss(
    logits: Any, label: Any, soft_label: bool, ignore_index: int, stable: bool, return_softmax: bool, axis: int
) -> Any:
    """The loss of `softmax_with_cross_entropy`, or with `return_softmax` the pair (loss, softmax)."""
    softmax, loss = _ops.softmax_with_cross_entropy(
        logits, label, soft_label=soft_label, ignore_index=ignore_index, numeric_stable_mode=stable, axis=axis
    )
    return (loss, softmax) if return_softmax else loss


def softmax_with_cross_entropy(
    logits: Any,
    label: Any,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any:
    """The cross entropy of softmax(logits) along `axis`; deprecated for `cross_entropy`.

    Args:
        logits: float32 or float64 Tensor.
        label: integer classes of size 1 along `axis`; with `soft_label` probabilities of the shape of `logits`.
        ignore_index: samples with this label have no loss.
        return_softmax: also return the probabilities.

    Returns:
        Tensor of size 1 along `axis`; with `return_softmax` a pair (loss, softmax).
    """
    _warn_once("softmax_with_cross_entropy", "cross_entropy")
    return softmax_loss(logits, label, soft_label, ignore_index, numeric_stable_mode, return_softmax, axis)


_warned: set[str] = set()


def _warn_once(old: str, new: str) -> None:
    if old in _warned:
        return
    _warned.add(old)
    warnings.warn(
        f'API "paddle.nn.functional.{old}" is deprecated since 2.0.0, and will be removed in future versions. '
        f'Please use "paddle.nn.functional.{new}" instead.',
        DeprecationWarning,
        stacklevel=3,
    )


def square_error_cost(input: Any, label: Any) -> Tensor:  # noqa: A002
    """(input - label) squared, element by element.

    Args:
        input, label: float32 or float64 Tensors of one shape.
    """
    check_arguments("square_error_cost", input, label)
    return _ops.square(_ops.elementwise_sub(input, label))


def mse_loss(input: Any, label: Any, reduction: str = "mean", name: str | None = None) -> Tensor:  # noqa: A002
    """The mean (or sum) of (input - label) squared.

    Args:
        input, label: float32 or float64 Tensors of one shape.
        reduction: "mean", "sum" or "none" (ValueError otherwise).
        name: a name for the output.

    Examples:
        >>> import paddle
        >>> float(paddle.nn.functional.mse_loss(paddle.ones([2]), paddle.to_tensor([1.0, 3.0])))
        2.0
    """
    check_reduction("mse_loss", reduction)
    check_arguments("mse_loss", input, label)
    out = _ops.elementwise_sub(input, label)
    out = named(name if reduction == "none" else None, _ops.square, out)
    if reduction == "mean":
        return named(name, _ops.reduce_mean, out, reduce_all=True)
    return _reduced(out, reduction, name)


def l1_loss(input: Any, label: Any, reduction: str = "mean", name: str | None = None) -> Tensor:  # noqa: A002
    """The mean (or sum) of |input - label|.

    Args:
        input, label: float32, float64, int32 or int64 Tensors; the shapes are broadcast.
        reduction: "mean", "sum" or "none" (ValueError otherwise).
        name: a name for the output.

    Examples:
        >>> import paddle
        >>> float(paddle.nn.functional.l1_loss(paddle.ones([2]), paddle.to_tensor([1.0, 3.0])))
        1.0
    """
    check_reduction("L1Loss", reduction)
    check_arguments("l1_loss", input, label)
    out = _ops.elementwise_sub(input, label)
    return _reduced(named(name if reduction == "none" else None, _ops.abs, out), reduction, name)


def margin_ranking_loss(
    input: Any,  # noqa: A002
    other: Any,
    label: Any,
    margin: float = 0.0,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """max(0, label * (other - input) + margin): small if `input` is ranked above `other` for the label 1.

    Args:
        input, other, label: float32 or float64 Tensors of one shape; labels are 1 or -1.
        margin: the required difference.
        reduction: "mean", "sum" or "none" (ValueError otherwise).
        name: a name for the output.
    """
    check_reduction("MarginRankingLoss", reduction)
    check_arguments("margin_rank_loss", input, other, label)
    if in_static_mode():
        name = name or unique_name.generate("margin_ranking_loss")
    out = _ops.elementwise_mul(_ops.elementwise_sub(other, input), label)
    if margin != 0.0:
        out = _ops.scale(out, scale=1.0, bias=float(margin))
    return _reduced(named(name if reduction == "none" else None, _ops.relu, out), reduction, name)


def sigmoid_focal_loss(
    logit: Any,
    label: Any,
    normalizer: Any = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "sum",
    name: str | None = None,
) -> Tensor:
    """The cross entropy of sigmoid(logit), with a lower weight for well classified elements.

    Args:
        logit: float32 or float64 Tensor.
        label: Tensor of the shape of `logit`, values 0 or 1.
        normalizer: Tensor of one element that divides the loss (ValueError for more dimensions), or None.
        alpha: the weight of positives; negatives have weight 1 - alpha.
        gamma: losses are multiplied by (1 - probability of the true class) ** gamma.
        reduction: "mean", "sum" or "none" (ValueError otherwise).
        name: a name for the output.
    """
    check_reduction("sigmoid_focal_loss", reduction)
    check_arguments("sigmoid_focal_loss", normalizer)
    if normalizer is not None and len(normalizer.shape) > 1:
        raise ValueError(f"sigmoid_focal_loss: normalizer must have one dimension, got {len(normalizer.shape)}")
    loss = binary_cross_entropy_with_logits(logit, label, reduction="none")
    chance = _ops.sigmoid(logit)

    def blend(x: Any, y: Any) -> Any:
        """x where the label is 1, y where it is 0"""
        rest = _ops.scale(label, scale=-1.0, bias=1.0)
        return _ops.elementwise_add(_ops.elementwise_mul(x, label), _ops.elementwise_mul(y, rest))

    right = blend(chance, _ops.scale(chance, scale=-1.0, bias=1.0))
    weight = _ops.scale(label, scale=2 * alpha - 1, bias=1 - alpha)
    loss = _ops.elementwise_mul(weight, loss)
    wrong = _ops.scale(right, scale=-1.0, bias=1.0)
    loss = _ops.elementwise_mul(_ops.pow(wrong, factor=float(gamma)), loss)
    if normalizer is not None:
        loss = _ops.elementwise_div(loss, normalizer)
    return _reduced(loss, reduction, name)


def dice_loss(input: Any, label: Any, epsilon: float = 1e-05, name: str | None = None) -> Tensor:  # noqa: A002
    """1 - 2 |A and B| / (|A| + |B|) for predicted and true classes, the mean over the batch.

    Args:
        input: float32 or float64 probabilities of shape [N, ..., classes].
        label: integer classes of shape [N, ..., 1].
        epsilon: added to the denominator against division by zero.

    Returns:
        Tensor of shape [1].
    """
    shape = list(input.shape)
    check_arguments("dice_loss", input)
    assert len(shape) >= 2, "The rank of input should be greater than or equal to 2."
    assert len(label.shape) == len(shape), "The rank of input and label should be equal."
    assert label.shape[-1] == 1, "The last dimension of label should be 1."
    rows = _ops.one_hot_v2(_ops.squeeze2(label, axes=[len(shape) - 1]), depth=shape[-1])
    if convert_dtype(input.dtype) != "float32":
        rows = _ops.cast(rows, in_dtype=rows.dtype, out_dtype=input.dtype)
    axes = list(range(1, len(shape)))
    common = _ops.reduce_sum(_ops.elementwise_mul(input, rows), dim=axes)
    total = _ops.elementwise_add(_ops.reduce_sum(input, dim=axes), _ops.reduce_sum(rows, dim=axes))
    score = _ops.elementwise_div(_ops.scale(common, scale=2.0), _ops.scale(total, scale=1.0, bias=epsilon))
    return _ops.reduce_mean(_ops.scale(score, scale=-1.0, bias=1.0), reduce_all=True)


def npair_loss(anchor: Any, positive: Any, labels: Any, l2_reg: float = 0.002) -> Tensor:
    """The n-pair loss of embeddings: the positive of the same label should be the most similar one to each anchor.

    Args:
        anchor, positive: float32 or float64 Tensors of shape [batch, width].
        labels: float32, float64, or int64 Tensor of shape [batch].
        l2_reg: the weight of the mean squared norm of the embeddings.

    Returns:
        Tensor of shape [1].
    """
    check_arguments("npair_loss", anchor, positive, labels)
    column, row = _ops.reshape2(labels, shape=[-1, 1]), _ops.reshape2(labels, shape=[1, -1])
    same = _ops.equal(column, row)
    same = _ops.cast(same, in_dtype=same.dtype, out_dtype=anchor.dtype)
    target = _ops.elementwise_div(same, _ops.reduce_sum(same, dim=[1], keep_dim=True))
    target.stop_gradient = True

    def mean_square(x: Any) -> Any:
        return _ops.reduce_mean(_ops.reduce_sum(_ops.square(x), dim=[1]), reduce_all=True)

    size = _ops.scale(_ops.elementwise_add(mean_square(anchor), mean_square(positive)), scale=0.25 * l2_reg)
    similar = _ops.matmul(anchor, positive, transpose_Y=True)
    losses = _ops.softmax_with_cross_entropy(similar, target, soft_label=True)[1]
    entropy = _ops.reduce_mean(_ops.reduce_sum(_ops.elementwise_mul(target, losses), dim=[0]), reduce_all=True)
    return _ops.elementwise_add(size, entropy)


def edit_distance(  # noqa: D417
    input: Any,  # noqa: A002
    label: Any,
    normalized: bool = True,
    ignored_tokens: Any = None,
    input_length: Any = None,
    label_length: Any = None,
) -> Any:
    """The edit distance: the number of insertions, deletions and substitutions that turn `input` into `label`.

    Args:
        input, label (Variable): int64 [batch, ids]; without lengths [ids of all sequences, 1] with a LoD.
        normalized (bool): divide by the length of the label sequence.
        ignored_tokens (list of int): ids that are removed first.
        input_length, label_length (Variable): int64 [batch], both or none.

    Returns:
        (distances float32 [batch, 1], number of sequences int64 [1]).

    Raises:
        ValueError: for an empty sequence in `label` if `normalized`.

    Examples:
        >>> import paddle
        >>> from paddle.nn.functional.loss import edit_distance
        >>> a, b = paddle.to_tensor([[1, 2, 3]]), paddle.to_tensor([[1, 3, 3]])
        >>> three = paddle.to_tensor([3])
        >>> edit_distance(a, b, False, None, three, three)[0].numpy().tolist()
        [[1.0]]
    """
    if ignored_tokens is not None and len(ignored_tokens) > 0:
        input = _ops.sequence_erase(input, tokens=ignored_tokens)  # noqa: A001
        label = _ops.sequence_erase(label, tokens=ignored_tokens)
    both = input_length is not None and label_length is not None
    lengths = (input_length, label_length) if both else ()
    count, out = checked(None, _ops.edit_distance, input, label, *lengths, normalized=normalized)
    return out, count
