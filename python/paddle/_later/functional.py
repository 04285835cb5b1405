"""Activations, losses and rearrangements of `paddle.nn.functional` in Paddle 2.1 to 2.6."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import paddle
from paddle._basics.dtypes import convert_dtype
from paddle._later.elementwise import choose
from paddle._later.manipulation import put_along_axis
from paddle.nn import functional as F

from .named_errors import name_errors

__all__: list[str] = []


def _reduced(x: Any, reduction: str, where: str) -> Any:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{where}: reduction must be 'none', 'mean' or 'sum', got {reduction!r}")
    return x if reduction == "none" else paddle.mean(x) if reduction == "mean" else paddle.sum(x)


def silu(x, name=None):
    """x * sigmoid(x).

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.silu(paddle.to_tensor([0.0])).item()
        0.0
    """
    return F.swish(x)


def mish(x, name=None):
    """x * tanh(softplus(x)).

    Source: Misra, "Mish: A Self Regularized Non-Monotonic Activation Function".

    Examples:
        >>> import paddle
        >>> round(paddle.nn.functional.mish(paddle.to_tensor([1.0])).item(), 4)
        0.8651
    """
    return x * paddle.tanh(F.softplus(x))


def celu(x, alpha=1.0, name=None):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).

    Examples:
        >>> import paddle
        >>> round(paddle.nn.functional.celu(paddle.to_tensor([-1.0])).item(), 4)
        -0.6321
    """
    if alpha == 0:
        raise ValueError("celu: alpha must not be 0")
    return F.relu(x) + alpha * paddle.expm1(paddle.minimum(x, paddle.zeros_like(x)) / alpha)


def glu(x, axis=-1, name=None):
    """The first half along `axis` times the sigmoid of the second.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.glu(paddle.to_tensor([2.0, 0.0])).item()
        1.0
    """
    first, second = paddle.split(x, 2, axis)
    return first * F.sigmoid(second)


def rrelu(x, lower=1.0 / 8.0, upper=1.0 / 3.0, training=True, name=None):
    """leaky_relu with a random slope of [lower, upper] for each element; its mean when not training.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.rrelu(paddle.to_tensor([-1.0]), 0.5, 0.5).item()
        -0.5
    """
    if not 0 <= lower <= upper <= 1:
        raise ValueError(f"rrelu: 0 <= lower <= upper <= 1 is needed, got {lower} and {upper}")
    if not training or lower == upper:
        return F.leaky_relu(x, (lower + upper) / 2)
    slope = paddle.uniform(x.shape, x.dtype, lower, upper)
    return choose(x >= paddle.zeros_like(x), x, x * slope)


def gumbel_softmax(x, temperature=1.0, hard=False, axis=-1, name=None):
    """A sample of a relaxed categorical distribution with logits `x`.

    Args:
        temperature (float): above 0; the lower, the nearer to one-hot.
        hard (bool): one-hot values, with the gradient of the soft ones.

    Source: Jang et al., "Categorical Reparameterization with Gumbel-Softmax".

    Examples:
        >>> import paddle
        >>> sample = paddle.nn.functional.gumbel_softmax(paddle.ones([2, 3]), hard=True)
        >>> sample.sum(1).numpy().round().tolist()
        [1.0, 1.0]
    """
    if temperature <= 0:
        raise ValueError(f"gumbel_softmax: temperature must be above 0, got {temperature}")
    least = 1e-20
    noise = -paddle.log(-paddle.log(paddle.uniform(x.shape, x.dtype, 0.0, 1.0) + least) + least)
    soft = F.softmax((x + noise) / temperature, axis)
    if not hard:
        return soft
    axis %= len(x.shape)
    size = x.shape[axis]
    one_hot = paddle.cast(F.one_hot(paddle.argmax(soft, axis), size), x.dtype)
    one_hot = paddle.moveaxis(one_hot, -1, axis)
    change = one_hot - soft
    change.stop_gradient = True
    return soft + change


def sequence_mask(x, maxlen=None, dtype="int64", name=None):
    """1 at the first `x` places of each row, 0 behind: `paddle.fluid.layers.sequence_mask`.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.sequence_mask(paddle.to_tensor([1, 2]), 3).numpy().tolist()
        [[1, 0, 0], [1, 1, 0]]
    """
    return paddle.fluid.layers.sequence_mask(x, maxlen, dtype, name)


def zeropad2d(x, padding, data_format="NCHW", name=None):
    """Pads images with zeros: [left, right, top, bottom].

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.zeropad2d(paddle.ones([1, 1, 2, 2]), [1, 0, 0, 1]).shape
        [1, 1, 3, 3]
    """
    return F.pad(x, [padding] * 4 if isinstance(padding, int) else padding, "constant", 0.0, data_format)


def pairwise_distance(x, y, p=2.0, epsilon=1e-6, keepdim=False, name=None):
    """The p-norm of x - y + epsilon over the last dimension.

    Examples:
        >>> import paddle
        >>> d = paddle.nn.functional.pairwise_distance(paddle.zeros([1, 2]), paddle.to_tensor([[3.0, 4.0]]))
        >>> round(d.item(), 4)
        5.0
    """
    return paddle.norm(x - y + epsilon, p, -1, keepdim)


def channel_shuffle(x, groups, data_format="NCHW", name=None):
    """Divides the channels into groups and interleaves these.

    Examples:
        >>> import paddle
        >>> x = paddle.reshape(paddle.arange(4, dtype="float32"), [1, 4, 1, 1])
        >>> paddle.nn.functional.channel_shuffle(x, 2).numpy().ravel().tolist()
        [0.0, 2.0, 1.0, 3.0]
    """
    n, a, b, c = x.shape
    if data_format == "NCHW":
        return paddle.reshape(
            paddle.transpose(paddle.reshape(x, [n, groups, a // groups, b, c]), [0, 2, 1, 3, 4]), [n, a, b, c]
        )
    return paddle.reshape(
        paddle.transpose(paddle.reshape(x, [n, a, b, groups, c // groups]), [0, 1, 2, 4, 3]), [n, a, b, c]
    )


def pixel_unshuffle(x, downscale_factor, data_format="NCHW", name=None):
    """The inverse of `pixel_shuffle`: squares of pixels become channels.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.pixel_unshuffle(paddle.ones([1, 1, 4, 4]), 2).shape
        [1, 4, 2, 2]
    """
    r = downscale_factor
    n, a, b, c = x.shape
    if data_format == "NCHW":
        parts = paddle.transpose(paddle.reshape(x, [n, a, b // r, r, c // r, r]), [0, 1, 3, 5, 2, 4])
        return paddle.reshape(parts, [n, a * r * r, b // r, c // r])
    parts = paddle.transpose(paddle.reshape(x, [n, a // r, r, b // r, r, c]), [0, 1, 3, 5, 2, 4])
    return paddle.reshape(parts, [n, a // r, b // r, c * r * r])


def _two(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


def fold(x, output_sizes, kernel_sizes, strides=1, paddings=0, dilations=1, name=None):
    """The inverse of `unfold`: sums columns [N, C * window, places] into images [N, C, H, W].

    Args:
        output_sizes, kernel_sizes, strides, dilations (int|list): [height, width].
        paddings (int|list): [height, width], or [top, left, bottom, right].

    Raises:
        ValueError: for a number of columns that does not fit the sizes.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.fold(paddle.ones([1, 4, 4]), [4, 4], 2, 2).shape
        [1, 1, 4, 4]
    """
    (height, width), (kh, kw), (sh, sw), (dh, dw) = map(_two, (output_sizes, kernel_sizes, strides, dilations))
    pads = _two(paddings)
    top, left, bottom, right = [*pads, *pads] if len(pads) == 2 else pads
    rows = (height + top + bottom - dh * (kh - 1) - 1) // sh + 1
    columns = (width + left + right - dw * (kw - 1) - 1) // sw + 1
    n, filters, places = x.shape
    if places != rows * columns or filters % (kh * kw):
        raise ValueError(
            f"fold: x must have shape [N, C * {kh * kw}, {rows * columns}] for these sizes, got {list(x.shape)}"
        )
    channels = filters // (kh * kw)
    # The gradient of unfold, as a product with the places of each column: a scatter along the flattened image.
    whole_h, whole_w = height + top + bottom, width + left + right
    index = [
        (i * dh + r * sh) * whole_w + j * dw + c * sw
        for i in range(kh)
        for j in range(kw)
        for r in range(rows)
        for c in range(columns)
    ]
    values = paddle.reshape(x, [n * channels, kh * kw * rows * columns])
    image = paddle.zeros([whole_h * whole_w, n * channels], x.dtype)
    flat = paddle.scatter_nd_add(
        image, paddle.reshape(paddle.assign(np.array(index, "int64")), [-1, 1]), paddle.transpose(values, [1, 0])
    )
    image = paddle.reshape(paddle.transpose(flat, [1, 0]), [n, channels, whole_h, whole_w])
    return image[:, :, top : top + height, left : left + width]


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, training=True, name=None
):
    """softmax(Q K^T / sqrt(d) + mask) V.

    Args:
        query, key, value (Tensor): [batch, length, heads, size].
        attn_mask (Tensor, optional): added to the scores, or bool: False hides a place.
        is_causal (bool): hides later places.

    Source: Vaswani et al., "Attention Is All You Need".

    Examples:
        >>> import paddle
        >>> x = paddle.ones([1, 4, 2, 8])
        >>> paddle.nn.functional.scaled_dot_product_attention(x, x, x).shape
        [1, 4, 2, 8]
    """
    q, k, v = (paddle.transpose(t, [0, 2, 1, 3]) for t in (query, key, value))
    scores = paddle.matmul(q, k, transpose_y=True) * (1.0 / math.sqrt(q.shape[-1]))
    if is_causal:
        hidden = paddle.triu(paddle.full([q.shape[-2], k.shape[-2]], -1e9, scores.dtype), 1)
        scores = scores + hidden
    if attn_mask is not None:
        if convert_dtype(attn_mask.dtype) == "bool":
            attn_mask = (1.0 - paddle.cast(attn_mask, scores.dtype)) * -1e9
        scores = scores + attn_mask
    weights = F.dropout(F.softmax(scores), dropout_p, training=training)
    return paddle.transpose(paddle.matmul(weights, v), [0, 2, 1, 3])


def hinge_embedding_loss(input, label, margin=1.0, reduction="mean", name=None):  # noqa: A002
    """`input` where the label is 1, max(0, margin - input) where it is -1.

    Examples:
        >>> import paddle
        >>> x, label = paddle.to_tensor([0.5, 0.5]), paddle.to_tensor([1.0, -1.0])
        >>> paddle.nn.functional.hinge_embedding_loss(x, label).item()
        0.5
    """
    one, zero = paddle.ones_like(label), paddle.zeros_like(input)
    loss = choose(label == one, input, zero) + choose(label == -one, F.relu(margin - input), zero)
    return _reduced(loss, reduction, "hinge_embedding_loss")


def cosine_embedding_loss(input1, input2, label, margin=0, reduction="mean", name=None):
    """1 - cos where the label is 1, max(0, cos - margin) where it is -1.

    Examples:
        >>> import paddle
        >>> x = paddle.ones([1, 2])
        >>> paddle.nn.functional.cosine_embedding_loss(x, x, paddle.to_tensor([-1.0])).numpy().round(4).tolist()
        [1.0]
    """
    similarity = F.cosine_similarity(input1, input2, axis=-1)
    label = paddle.cast(label, similarity.dtype)
    one = paddle.ones_like(label)
    loss = choose(label == one, 1.0 - similarity, F.relu(similarity - margin))
    return _reduced(loss, reduction, "cosine_embedding_loss")


def triplet_margin_with_distance_loss(
    input,
    positive,
    negative,
    distance_function=None,
    margin=1.0,
    swap=False,
    reduction="mean",
    name=None,  # noqa: A002
):
    """max(0, distance(input, positive) - distance(input, negative) + margin).

    Args:
        distance_function (callable, optional): by default `pairwise_distance`.
        swap (bool): use distance(positive, negative) where it is less than that of `input`.

    Examples:
        >>> import paddle
        >>> a, b = paddle.zeros([1, 2]), paddle.ones([1, 2])
        >>> round(paddle.nn.functional.triplet_margin_with_distance_loss(a, a, b).item(), 3)
        0.0
    """
    distance = distance_function or pairwise_distance
    near, far = distance(input, positive), distance(input, negative)
    if swap:
        far = paddle.minimum(far, distance(positive, negative))
    return _reduced(F.relu(near - far + margin), reduction, "triplet_margin_with_distance_loss")


def triplet_margin_loss(
    input,
    positive,
    negative,
    margin=1.0,
    p=2,
    epsilon=1e-6,
    swap=False,
    reduction="mean",
    name=None,  # noqa: A002
):
    """`triplet_margin_with_distance_loss` with the p-norm.

    Examples:
        >>> import paddle
        >>> a, b = paddle.zeros([1, 2]), paddle.ones([1, 2])
        >>> round(paddle.nn.functional.triplet_margin_loss(a, b, a).item(), 3)
        2.414
    """
    return triplet_margin_with_distance_loss(
        input, positive, negative, lambda a, b: pairwise_distance(a, b, p, epsilon), margin, swap, reduction
    )


def soft_margin_loss(input, label, reduction="mean", name=None):  # noqa: A002
    """log(1 + exp(-label * input)), for labels 1 and -1.

    Examples:
        >>> import paddle
        >>> loss = paddle.nn.functional.soft_margin_loss(paddle.to_tensor([0.0]), paddle.to_tensor([1.0]))
        >>> round(loss.item(), 4)
        0.6931
    """
    loss = F.softplus(-paddle.cast(label, input.dtype) * input)
    return _reduced(loss, reduction, "soft_margin_loss")


def multi_label_soft_margin_loss(input, label, weight=None, reduction="mean", name=None):  # noqa: A002
    """The mean over classes of the logistic loss, for labels 0 and 1.

    Examples:
        >>> import paddle
        >>> x, label = paddle.zeros([1, 2]), paddle.to_tensor([[0.0, 1.0]])
        >>> round(paddle.nn.functional.multi_label_soft_margin_loss(x, label).item(), 4)
        0.6931
    """
    label = paddle.cast(label, input.dtype)
    loss = label * F.softplus(-input) + (1.0 - label) * F.softplus(input)
    loss = loss if weight is None else loss * weight
    return _reduced(paddle.mean(loss, axis=-1), reduction, "multi_label_soft_margin_loss")


def multi_margin_loss(input, label, p=1, margin=1.0, weight=None, reduction="mean", name=None):  # noqa: A002
    """The mean over other classes of max(0, margin - input[label] + input[class]) ** p.

    Examples:
        >>> import paddle
        >>> x, label = paddle.to_tensor([[0.0, 0.5]]), paddle.to_tensor([1])
        >>> paddle.nn.functional.multi_margin_loss(x, label).item()
        0.25
    """
    classes = input.shape[-1]
    column = paddle.reshape(paddle.cast(label, "int64"), [-1, 1])
    excess = F.relu(margin - paddle.index_sample(input, column) + input) ** p
    if weight is not None:
        excess = excess * paddle.reshape(paddle.gather(weight, paddle.reshape(column, [-1])), [-1, 1])
    own = margin**p if weight is None else margin**p * paddle.gather(weight, paddle.reshape(column, [-1]))
    loss = (paddle.sum(excess, axis=-1) - own) / classes
    return _reduced(loss, reduction, "multi_margin_loss")


def poisson_nll_loss(input, label, log_input=True, full=False, epsilon=1e-8, reduction="mean", name=None):  # noqa: A002
    """The negative log likelihood of a Poisson distribution.

    Args:
        log_input (bool): `input` is the logarithm of the rate.
        full (bool): add Stirling's approximation of log(label!) for labels above 1.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.poisson_nll_loss(paddle.zeros([1]), paddle.ones([1])).item()
        1.0
    """
    loss = paddle.exp(input) - label * input if log_input else input - label * paddle.log(input + epsilon)
    if full:
        one = paddle.ones_like(label)
        safe = choose(label > one, label, one)
        stirling = safe * paddle.log(safe) - safe + 0.5 * paddle.log(2 * math.pi * safe)
        loss = loss + choose(label > one, stirling, paddle.zeros_like(label))
    return _reduced(loss, reduction, "poisson_nll_loss")


def gaussian_nll_loss(input, label, variance, full=False, epsilon=1e-6, reduction="mean", name=None):  # noqa: A002
    """The negative log likelihood of a normal distribution with mean `input` and the given variance.

    Examples:
        >>> import paddle
        >>> one = paddle.ones([1])
        >>> paddle.nn.functional.gaussian_nll_loss(one, one, one).item()
        0.0
    """
    limited = paddle.maximum(variance, paddle.full_like(variance, epsilon))
    limited = variance + _constant(limited - variance)
    loss = 0.5 * (paddle.log(limited) + paddle.square(input - label) / limited)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduced(loss, reduction, "gaussian_nll_loss")


def _constant(x: Any) -> Any:
    x.stop_gradient = True
    return x


name_errors(globals())


def max_unpool1d(x, indices, kernel_size, stride=None, padding=0, data_format="NCL", output_size=None, name=None):
    """The inverse of max_pool1d with indices; see `max_unpool2d`.

    Args:
        x (Tensor): floating, shape [N, C, L]. indices (Tensor): int32 or int64, of `max_pool1d(return_mask=True)`.
        kernel_size, stride, padding (int): those of the pooling.
        data_format (str): "NCL". output_size (list, optional): the size of the result, [L] or [N, C, L].

    Examples:
        >>> import paddle
        >>> import paddle.nn.functional as F
        >>> pooled, at = F.max_pool1d(paddle.to_tensor([[[1.0, 3.0, 4.0, 2.0]]]), 2, return_mask=True)
        >>> F.max_unpool1d(pooled, at, 2).tolist()
        [[[0.0, 3.0, 4.0, 0.0]]]
    """
    return _max_unpool("max_unpool1d", x, indices, kernel_size, stride, padding, data_format, output_size)


def max_unpool2d(x, indices, kernel_size, stride=None, padding=0, data_format="NCHW", output_size=None, name=None):
    """The inverse of max_pool2d with indices: each maximum at its place, zeros elsewhere.

    Args:
        x (Tensor): floating, shape [N, C, H, W].
        indices (Tensor): int32 or int64, of `max_pool2d(return_mask=True)`: places in an image of the result.
        kernel_size, stride, padding (int|list): those of the pooling.
        data_format (str): "NCHW".
        output_size (list, optional): the size of the result, [H, W] or [N, C, H, W]; the smallest that the pooling
            maps to the size of `x` by default.
        name (str, optional): ignored.

    Raises:
        ValueError: for another data_format or rank, and for indices of another shape.

    Examples:
        >>> import paddle
        >>> import paddle.nn.functional as F
        >>> pooled, at = F.max_pool2d(paddle.to_tensor([[[[1.0, 3.0], [4.0, 2.0]]]]), 2, return_mask=True)
        >>> F.max_unpool2d(pooled, at, 2).tolist()
        [[[[0.0, 0.0], [4.0, 0.0]]]]
    """
    return _max_unpool("max_unpool2d", x, indices, kernel_size, stride, padding, data_format, output_size)


def max_unpool3d(x, indices, kernel_size, stride=None, padding=0, data_format="NCDHW", output_size=None, name=None):
    """The inverse of max_pool3d with indices; see `max_unpool2d`.

    Args:
        x (Tensor): floating, shape [N, C, D, H, W]. indices (Tensor): of `max_pool3d(return_mask=True)`.
        kernel_size, stride, padding (int|list): those of the pooling.
        data_format (str): "NCDHW". output_size (list, optional): the size of the result.

    Examples:
        >>> import paddle
        >>> import paddle.nn.functional as F
        >>> pooled, at = F.max_pool3d(paddle.ones([1, 1, 2, 2, 2]), 2, return_mask=True)
        >>> F.max_unpool3d(pooled, at, 2).sum().tolist()
        [1.0]
    """
    return _max_unpool("max_unpool3d", x, indices, kernel_size, stride, padding, data_format, output_size)


def _max_unpool(
    function: str, x: Any, indices: Any, kernel: Any, stride: Any, padding: Any, data_format: str, output_size: Any
) -> Any:
    axes = int(function[-2])
    known = {1: "NCL", 2: "NCHW", 3: "NCDHW"}[axes]
    if data_format != known:
        raise ValueError(f"{function}: data_format must be {known!r}, got {data_format!r}")
    if len(x.shape) != axes + 2 or list(indices.shape) != list(x.shape):
        raise ValueError(
            f"{function}: x must have {axes + 2} dimensions and indices its shape, got {list(x.shape)} and "
            f"{list(indices.shape)}"
        )
    kernel, stride, padding = (
        [v] * axes if isinstance(v, int) else list(v) for v in (kernel, kernel if stride is None else stride, padding)
    )
    sizes = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[2:], stride, padding, kernel, strict=True)]
    if output_size is not None:
        wanted = [int(n) for n in list(output_size)[-axes:]]
        if len(wanted) != axes or any(abs(a - b) >= s for a, b, s in zip(wanted, sizes, stride, strict=True)):
            raise ValueError(
                f"{function}: output_size must differ from {sizes} by less than the stride, got {output_size}"
            )
        sizes = wanted
    batch, channels = x.shape[:2]
    flat = paddle.reshape(x, [batch, channels, -1])
    places = paddle.cast(paddle.reshape(indices, [batch, channels, -1]), "int64")
    empty = paddle.zeros([batch, channels, math.prod(sizes)], convert_dtype(x.dtype))
    return paddle.reshape(put_along_axis(empty, places, flat, 2), [batch, channels, *sizes])
