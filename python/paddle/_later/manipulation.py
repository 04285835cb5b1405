"""Shapes, indices and random numbers of Paddle 2.1 to 2.6."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import paddle
from paddle._basics.dtypes import convert_dtype
from paddle._basics.mode import in_static_mode
from paddle._later.elementwise import choose

from .named_errors import name_errors

__all__: list[str] = []


def _axes(axis: Any) -> list[int]:
    return [axis] if isinstance(axis, int) else [int(a) for a in axis]


def moveaxis(x, source, destination, name=None):
    """Moves dimensions to other places; the rest keep their order.

    Raises:
        ValueError: for dimensions that repeat or differ in number.

    Examples:
        >>> import paddle
        >>> paddle.moveaxis(paddle.ones([2, 3, 4]), 0, -1).shape
        [3, 4, 2]
    """
    rank = len(x.shape)
    old, new = ([a % rank for a in _axes(axis)] for axis in (source, destination))
    if len(old) != len(new) or len({*old}) != len(old) or len({*new}) != len(new):
        raise ValueError(
            f"moveaxis: source and destination must be as many different dimensions, got {source}, {destination}"
        )
    order = [d for d in range(rank) if d not in old]
    for place, dimension in sorted(zip(new, old, strict=True)):
        order.insert(place, dimension)
    return paddle.transpose(x, order)


def rot90(x, k=1, axes=[0, 1], name=None):  # noqa: B006
    """Rotates by `k` right angles from the first of two dimensions to the second.

    Raises:
        ValueError: unless `axes` are two different dimensions.

    Examples:
        >>> import paddle
        >>> paddle.rot90(paddle.to_tensor([[1, 2], [3, 4]])).numpy().tolist()
        [[2, 4], [1, 3]]
    """
    rank = len(x.shape)
    if len(axes) != 2 or axes[0] % rank == axes[1] % rank:
        raise ValueError(f"rot90: axes must be two different dimensions of {rank}, got {axes}")
    a, b = (axis % rank for axis in axes)
    order = [*range(rank)]
    order[a], order[b] = b, a
    k %= 4
    if k == 0:
        return paddle.assign(x)
    if k == 2:
        return paddle.flip(x, [a, b])
    return paddle.transpose(paddle.flip(x, [b]), order) if k == 1 else paddle.flip(paddle.transpose(x, order), [b])


def repeat_interleave(x, repeats, axis=None, name=None):
    """Repeats each slice along `axis` (without it: each element of the flattened Tensor).

    Args:
        repeats (int|Tensor): the number of repetitions, or one for each slice.

    Examples:
        >>> import paddle
        >>> paddle.repeat_interleave(paddle.to_tensor([1, 2]), 2).numpy().tolist()
        [1, 1, 2, 2]
    """
    if axis is None:
        x, axis = paddle.reshape(x, [-1]), 0
    axis %= len(x.shape)
    if isinstance(repeats, int):
        wide = paddle.expand(paddle.unsqueeze(x, axis + 1), [*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]])
        return paddle.reshape(wide, [*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]])
    counts = repeats.numpy().reshape(-1).tolist()
    if len(counts) != x.shape[axis]:
        raise ValueError(f"repeat_interleave: {len(counts)} repeats for {x.shape[axis]} slices of dimension {axis}")
    index = list(itertools.chain.from_iterable([i] * n for i, n in enumerate(counts)))
    return paddle.index_select(x, paddle.assign(np.array(index, "int64")), axis)


def _grid(shape: Any, axis: int, indices: Any) -> Any:
    """Coordinates for gather_nd: those of each element of `indices`, with the index itself for dimension `axis`."""
    columns = []
    for dimension, size in enumerate(indices.shape):
        if dimension == axis:
            columns.append(paddle.cast(indices, "int64"))
            continue
        sizes = [1] * len(indices.shape)
        sizes[dimension] = size
        columns.append(paddle.expand(paddle.reshape(paddle.arange(size, dtype="int64"), sizes), indices.shape))
    return paddle.stack(columns, axis=-1)


def _wrapped(indices: Any, size: int) -> Any:
    """Indices with negative ones counted from the end."""
    return paddle.where(indices < paddle.zeros_like(indices), indices + size, indices)


def take_along_axis(arr, indices, axis, broadcast=True):
    """Elements of `arr` along `axis` at `indices`, as `numpy.take_along_axis`.

    Args:
        indices (Tensor): integers, as many dimensions as `arr`.
        broadcast (bool): broadcast the other dimensions of `indices` to those of `arr`.

    Raises:
        ValueError: for another number of dimensions.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[3.0, 1.0]])
        >>> paddle.take_along_axis(x, paddle.to_tensor([[1]]), 1).numpy().tolist()
        [[1.0]]
    """
    if len(arr.shape) != len(indices.shape):
        raise ValueError(
            f"take_along_axis: indices must have {len(arr.shape)} dimensions, as arr, got {len(indices.shape)}"
        )
    axis %= len(arr.shape)
    if broadcast:
        sizes = [i if d == axis else max(a, i) for d, (a, i) in enumerate(zip(arr.shape, indices.shape, strict=True))]
        indices = paddle.expand(indices, sizes)
        arr = paddle.expand(arr, [arr.shape[d] if d == axis else size for d, size in enumerate(sizes)])
    return paddle.gather_nd(arr, _grid(arr.shape, axis, _wrapped(indices, arr.shape[axis])))


def put_along_axis(arr, indices, values, axis, reduce="assign", include_self=True, broadcast=True):
    """`arr` with `values` put along `axis` at `indices`.

    Args:
        values (Tensor|float): broadcast to the shape of `indices`.
        reduce (str): "assign" (of several values for a place the last one), "add", or "multiply" ("mul"), for which
            a place may occur once.
        include_self (bool): only True: the element of `arr` takes part in the sum or product.

    Raises:
        ValueError: for another `reduce`. NotImplementedError: for include_self=False.

    Examples:
        >>> import paddle
        >>> paddle.put_along_axis(paddle.zeros([1, 3]), paddle.to_tensor([[1]]), 5.0, 1).numpy().tolist()
        [[0.0, 5.0, 0.0]]
    """
    if reduce not in ("assign", "add", "mul", "multiply"):
        raise ValueError(f"put_along_axis: reduce must be assign, add or multiply here, got {reduce!r}")
    if not include_self:
        raise NotImplementedError("put_along_axis: include_self=False is not implemented")
    axis %= len(arr.shape)
    if broadcast:
        indices = paddle.expand(
            indices, [i if d == axis else a for d, (a, i) in enumerate(zip(arr.shape, indices.shape, strict=True))]
        )
    if isinstance(values, (int, float)):
        values = paddle.full(indices.shape, values, arr.dtype)
    values = paddle.expand(values, indices.shape)
    places = paddle.reshape(_grid(arr.shape, axis, _wrapped(indices, arr.shape[axis])), [-1, len(arr.shape)])
    flat = paddle.reshape(values, [-1])
    if reduce == "add":
        return paddle.scatter_nd_add(arr, places, flat)
    if reduce == "assign":
        # By the place in the flattened array: where a place is repeated, the last value stays.
        columns = paddle.unbind(places, axis=1)
        linear = columns[0]
        for size, column in zip(arr.shape[1:], columns[1:], strict=True):
            linear = linear * size + column
        return paddle.reshape(paddle.scatter(paddle.reshape(arr, [-1]), linear, flat), arr.shape)
    old = paddle.gather_nd(arr, places)
    return paddle.scatter_nd_add(arr, places, old * flat - old)


def take(x, index, mode="raise", name=None):
    """Elements of the flattened `x`.

    Args:
        index (Tensor): int32 or int64; the result has its shape.
        mode (str): "raise": an error for an index out of range; "wrap": modulo the size; "clip": the nearest end.

    Examples:
        >>> import paddle
        >>> paddle.take(paddle.to_tensor([[1, 2], [3, 4]]), paddle.to_tensor([3, -4])).numpy().tolist()
        [4, 1]
    """
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"take: mode must be raise, wrap or clip, got {mode!r}")
    flat = paddle.reshape(x, [-1])
    size = flat.shape[0]
    if mode == "wrap":
        index = paddle.remainder(index, paddle.full_like(index, size))
    elif mode == "clip":
        index = paddle.clip(index, 0, size - 1)
    else:
        if in_static_mode():
            raise NotImplementedError("take: mode='raise' reads the indices, which a Program cannot; use wrap or clip")
        values = index.numpy()
        if values.size and not (-size <= values.min() and values.max() < size):
            raise ValueError(f"take: index must be in [{-size}, {size}), got [{values.min()}, {values.max()}]")
        index = _wrapped(index, size)
    return paddle.reshape(paddle.gather(flat, paddle.reshape(index, [-1])), index.shape)


def diagonal(x, offset=0, axis1=0, axis2=1, name=None):
    """The diagonal of the matrices in two dimensions, as a last dimension.

    Examples:
        >>> import paddle
        >>> paddle.diagonal(paddle.to_tensor([[1, 2], [3, 4]])).numpy().tolist()
        [1, 4]
    """
    rank = len(x.shape)
    a, b = axis1 % rank, axis2 % rank
    if a == b:
        raise ValueError(f"diagonal: axis1 and axis2 must differ, both are dimension {a}")
    rows, columns = x.shape[a], x.shape[b]
    size = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    start = max(offset, 0) - min(offset, 0) * columns
    order = [*(d for d in range(rank) if d not in (a, b)), a, b]
    moved = paddle.transpose(x, order)
    flat = paddle.reshape(moved, [*moved.shape[:-2], rows * columns])
    index = paddle.arange(size, dtype="int64") * (columns + 1) + start
    return paddle.index_select(flat, index, len(flat.shape) - 1)


def diagflat(x, offset=0, name=None):
    """A matrix with the flattened `x` on a diagonal.

    Examples:
        >>> import paddle
        >>> paddle.diagflat(paddle.to_tensor([1, 2])).numpy().tolist()
        [[1, 0], [0, 2]]
    """
    return paddle.diag(paddle.reshape(x, [-1]), offset)


def tensordot(x, y, axes=2, name=None):
    """The product summed over pairs of dimensions.

    Args:
        axes (int|list): the number of last dimensions of `x` and first of `y`; or two lists of dimensions.

    Examples:
        >>> import paddle
        >>> paddle.tensordot(paddle.ones([2, 3, 4]), paddle.ones([3, 4, 5])).shape
        [2, 5]
    """
    if isinstance(axes, int):
        left, right = [*range(len(x.shape) - axes, len(x.shape))], [*range(axes)]
    else:
        first, second = (axes[0], axes[-1]) if isinstance(axes[0], (list, tuple)) else (axes, axes)
        left, right = [a % len(x.shape) for a in first], [a % len(y.shape) for a in second]
    rest_x = [d for d in range(len(x.shape)) if d not in left]
    rest_y = [d for d in range(len(y.shape)) if d not in right]
    inner: Any = 1
    for a, b in zip(left, right, strict=True):
        if x.shape[a] != y.shape[b] and min(x.shape[a], y.shape[b]) >= 0:
            raise ValueError(f"tensordot: dimension {a} of x has size {x.shape[a]}, dimension {b} of y {y.shape[b]}")
        inner = _size(x, a) * inner
    rows = paddle.reshape(paddle.transpose(x, [*rest_x, *left]), [-1, inner])
    columns = paddle.reshape(paddle.transpose(y, [*right, *rest_y]), [inner, -1])
    sizes = [*(_size(x, d) for d in rest_x), *(_size(y, d) for d in rest_y)]
    return paddle.reshape(paddle.matmul(rows, columns), sizes or [1])


def _size(x: Any, axis: int) -> Any:
    """A size of a Tensor; a Variable where it is known only when the Program runs."""
    return x.shape[axis] if x.shape[axis] >= 0 else paddle.shape(x)[axis]


def einsum(equation, *operands):
    """Sums of products after Einstein's convention: "ij,jk->ik", "...ij->...ji", "bi,bi->b".

    Args:
        equation (str): labels of the operands' dimensions, and after "->" of the result's; without it the labels that
            occur once, sorted. "..." stands for dimensions that are broadcast.

    Raises:
        ValueError: for labels that do not fit the operands.

    Examples:
        >>> import paddle
        >>> paddle.einsum("ij,jk->ik", paddle.ones([2, 3]), paddle.ones([3, 4])).shape
        [2, 4]
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ValueError(f"einsum: {equation!r} names {len(terms)} operands, got {len(operands)}")
    free = max(
        (len(x.shape) - len(t.replace("...", "")) for t, x in zip(terms, operands, strict=True) if "..." in t),
        default=0,
    )
    spare = [c for c in map(chr, range(0x3B1, 0x3B1 + free))]  # labels for the dimensions of "..."
    labels = []
    for term, x in zip(terms, operands, strict=True):
        here = len(x.shape) - len(term.replace("...", ""))
        full = term.replace("...", "".join(spare[free - here :]) if here > 0 else "")
        if len(full) != len(x.shape):
            raise ValueError(f"einsum: {term!r} does not fit an operand of {len(x.shape)} dimensions")
        labels.append(full)
    if not arrow:
        every = "".join(labels)
        right = ("..." if free else "") + "".join(sorted(c for c in {*every} - {*spare} if every.count(c) == 1))
    result = right.replace("...", "".join(spare))
    if {*result} - {*"".join(labels)}:
        raise ValueError(f"einsum: the result {right!r} has labels that no operand has")
    product, names = _reduced(operands[0], labels[0])
    for i, (x, term) in enumerate(zip(operands[1:], labels[1:], strict=True), 1):
        later = {*result, *"".join(labels[i + 1 :])}
        product, names = _contracted(product, names, *_reduced(x, term), later)
    extra = [d for d, c in enumerate(names) if c not in result]
    if extra:
        product = paddle.sum(product, axis=extra, keepdim=len(extra) == len(names))
        names = "".join(c for c in names if c in result)
    if not names:
        return paddle.reshape(product, [1])
    return paddle.transpose(product, [names.index(c) for c in result])


def _reduced(x: Any, names: str) -> tuple[Any, str]:
    """Takes the diagonal of labels that occur twice in one operand."""
    for c in sorted({*names}):
        while names.count(c) > 1:
            a = names.index(c)
            b = names.index(c, a + 1)
            x = diagonal(x, 0, a, b)
            names = "".join(n for d, n in enumerate(names) if d not in (a, b)) + c
    return x, names


def _contracted(x: Any, x_names: str, y: Any, y_names: str, later: set[str]) -> tuple[Any, str]:
    """One product of two operands by matmul; labels that are not in `later` are summed."""
    alone_x = [d for d, c in enumerate(x_names) if c not in y_names and c not in later]
    if alone_x:
        x = paddle.sum(x, axis=alone_x, keepdim=len(alone_x) == len(x_names))
        x_names = "".join(c for d, c in enumerate(x_names) if d not in alone_x)
    alone_y = [d for d, c in enumerate(y_names) if c not in x_names and c not in later]
    if alone_y:
        y = paddle.sum(y, axis=alone_y, keepdim=len(alone_y) == len(y_names))
        y_names = "".join(c for d, c in enumerate(y_names) if d not in alone_y)
    batch = [c for c in x_names if c in y_names and c in later]
    summed = [c for c in x_names if c in y_names and c not in later]
    rows = [c for c in x_names if c not in y_names]
    columns = [c for c in y_names if c not in x_names]
    sizes: dict[str, int] = {}
    made: dict[str, Any] = {}
    for names, operand in ((x_names, x), (y_names, y)):
        for d, c in enumerate(names):
            size = operand.shape[d]
            if sizes.get(c, 1) > 1 and size > 1 and size != sizes[c]:
                raise ValueError(f"einsum: the label {c!r} has the sizes {sizes[c]} and {size}")
            # a size that a Program does not know (-1) is not broadcast
            if c not in sizes or sizes[c] == 1 or (sizes[c] < 0 and size > 1):
                sizes[c], made[c] = size, _size(operand, d)

    def laid(operand: Any, names: str, first: list[str], second: list[str]) -> Any:
        order = [*batch, *first, *second]
        if names:
            operand = paddle.transpose(operand, [names.index(c) for c in order])
            kept = [size != 1 or sizes[c] == 1 for size, c in zip(operand.shape, order, strict=True)]
            if not all(kept):
                operand = paddle.expand(operand, [-1 if k else made[c] for k, c in zip(kept, order, strict=True)])
        shape = [made[c] for c in batch]
        for group in (first, second):
            total: Any = 1
            for c in group:
                total = made[c] * total
            shape.append(total)
        return paddle.reshape(operand, shape)

    product = paddle.matmul(laid(x, x_names, rows, summed), laid(y, y_names, summed, columns))
    order = [*batch, *rows, *columns]
    return paddle.reshape(product, [made[c] for c in order] or [1]), "".join(order)


def broadcast_tensors(input, name=None):  # noqa: A002
    """The Tensors expanded to their common shape.

    Examples:
        >>> import paddle
        >>> [x.shape for x in paddle.broadcast_tensors([paddle.ones([1, 3]), paddle.ones([2, 1])])]
        [[2, 3], [2, 3]]
    """
    shape: list[int] = list(input[0].shape)
    for x in input[1:]:
        shape = paddle.broadcast_shape(shape, list(x.shape))
    return [paddle.expand(x, shape) for x in input]


def tril_indices(row, col, offset=0, dtype="int64"):
    """Row and column indices of the lower triangle, shape [2, number].

    Examples:
        >>> import paddle
        >>> paddle.tril_indices(2, 2).numpy().tolist()
        [[0, 1, 1], [0, 0, 1]]
    """
    pairs = [(i, j) for i in range(row) for j in range(min(max(i + offset + 1, 0), col))]
    return _columns(pairs, dtype)


def triu_indices(row, col=None, offset=0, dtype="int64"):
    """Row and column indices of the upper triangle, shape [2, number].

    Examples:
        >>> import paddle
        >>> paddle.triu_indices(2).numpy().tolist()
        [[0, 0, 1], [0, 1, 1]]
    """
    col = row if col is None else col
    pairs = [(i, j) for i in range(row) for j in range(min(max(i + offset, 0), col), col)]
    return _columns(pairs, dtype)


def _columns(pairs: list[tuple[int, int]], dtype: Any) -> Any:
    return paddle.assign(np.array(pairs, convert_dtype(dtype)).reshape(-1, 2).T.copy())


def tolist(x):
    """The elements as nested lists.

    Examples:
        >>> import paddle
        >>> paddle.tolist(paddle.to_tensor([1, 2]))
        [1, 2]
    """
    return (x.astype("float32") if x.dtype == "bfloat16" else x).numpy().tolist()


def view(x, shape_or_dtype, name=None):
    """`reshape` for a shape; for an element type the same bytes as that type.

    Examples:
        >>> import paddle
        >>> paddle.view(paddle.ones([2, 3]), [3, 2]).shape
        [3, 2]
    """
    if isinstance(shape_or_dtype, (list, tuple)):
        return paddle.reshape(x, list(shape_or_dtype))
    return paddle.to_tensor(x.numpy().view(convert_dtype(shape_or_dtype)))


def view_as(x, other, name=None):
    """`x` in the shape of `other`.

    Examples:
        >>> import paddle
        >>> paddle.view_as(paddle.ones([6]), paddle.ones([2, 3])).shape
        [2, 3]
    """
    return paddle.reshape(x, other.shape)


def vsplit(x, num_or_sections, name=None):
    """`split` along the first dimension, of at least two.

    Examples:
        >>> import paddle
        >>> len(paddle.vsplit(paddle.ones([4, 1]), 2))
        2
    """
    if len(x.shape) < 2:
        raise ValueError(f"vsplit: x must have at least two dimensions, got {len(x.shape)}")
    return paddle.split(x, num_or_sections, axis=0)


def unflatten(x, axis, shape, name=None):
    """Divides one dimension into those of `shape`; one of its sizes may be -1.

    Examples:
        >>> import paddle
        >>> paddle.unflatten(paddle.ones([2, 6]), 1, [2, -1]).shape
        [2, 2, 3]
    """
    axis %= len(x.shape)
    shape = list(shape)
    if -1 in shape:
        known = 1
        for size in shape:
            known *= size if size != -1 else 1
        shape[shape.index(-1)] = x.shape[axis] // known
    return paddle.reshape(x, [*x.shape[:axis], *shape, *x.shape[axis + 1 :]])


def masked_fill(x, mask, value, name=None):
    """`x` with `value` where `mask` is true.

    Args:
        mask (Tensor): bool, broadcast with `x`.
        value (float|Tensor): a number or a Tensor of one element.

    Examples:
        >>> import paddle
        >>> paddle.masked_fill(paddle.ones([2]), paddle.to_tensor([True, False]), 0.0).numpy().tolist()
        [0.0, 1.0]
    """
    return choose(mask, value if isinstance(value, (int, float)) else paddle.expand(value, x.shape), x)


def index_fill(x, index, axis, value, name=None):
    """`x` with `value` in the slices `index` of dimension `axis`.

    Examples:
        >>> import paddle
        >>> paddle.index_fill(paddle.ones([3]), paddle.to_tensor([0, 2]), 0, -1.0).numpy().tolist()
        [-1.0, 1.0, -1.0]
    """
    axis %= len(x.shape)
    marks = paddle.scatter_nd_add(
        paddle.zeros([x.shape[axis]], "float32"),
        paddle.reshape(paddle.cast(_wrapped(index, x.shape[axis]), "int64"), [-1, 1]),
        paddle.ones([index.shape[0]], "float32"),
    )
    sizes = [1] * len(x.shape)
    sizes[axis] = x.shape[axis]
    return masked_fill(x, paddle.cast(paddle.reshape(marks, sizes), "bool"), value)


def index_add(x, index, axis, value, name=None):
    """`x` with the slices of `value` added to its slices `index` of dimension `axis`.

    Examples:
        >>> import paddle
        >>> paddle.index_add(paddle.zeros([3]), paddle.to_tensor([0, 0]), 0, paddle.ones([2])).numpy().tolist()
        [2.0, 0.0, 0.0]
    """
    axis %= len(x.shape)
    order = [axis, *(d for d in range(len(x.shape)) if d != axis)]
    back = [order.index(d) for d in range(len(order))]
    places = paddle.reshape(paddle.cast(_wrapped(index, x.shape[axis]), "int64"), [-1, 1])
    added = paddle.scatter_nd_add(paddle.transpose(x, order), places, paddle.transpose(value, order))
    return paddle.transpose(added, back)


def unique_consecutive(x, return_inverse=False, return_counts=False, axis=None, dtype="int64", name=None):
    """The elements without repetitions of their predecessor. Dygraph only.

    Returns:
        Tensor, then the inverse indices and the counts where they are requested.

    Examples:
        >>> import paddle
        >>> paddle.unique_consecutive(paddle.to_tensor([1, 1, 2, 1])).numpy().tolist()
        [1, 2, 1]
    """
    values = x.numpy()
    values, at = (values.reshape(-1), 0) if axis is None else (values, axis % values.ndim)
    moved = np.moveaxis(values, at, 0)
    flat = moved.reshape(len(moved), -1)
    first = np.ones(len(moved), bool)
    first[1:] = (flat[1:] != flat[:-1]).any(1)
    starts = np.flatnonzero(first)
    found = [paddle.to_tensor(np.moveaxis(moved[starts], 0, at).copy())]
    if return_inverse:
        found.append(paddle.to_tensor((np.cumsum(first) - 1).astype(convert_dtype(dtype))))
    if return_counts:
        found.append(paddle.to_tensor(np.diff([*starts, len(moved)]).astype(convert_dtype(dtype))))
    return found[0] if len(found) == 1 else tuple(found)


def _at_least(rank: int, inputs: Any) -> Any:
    found = []
    for x in inputs:
        x = x if paddle.is_tensor(x) or hasattr(x, "block") else paddle.to_tensor(x)
        while len(x.shape) < rank:
            x = paddle.unsqueeze(x, 0 if len(x.shape) < 2 else len(x.shape))
        found.append(x)
    return found[0] if len(found) == 1 else found


def atleast_1d(*inputs, name=None):
    """The Tensors with at least one dimension.

    Examples:
        >>> import paddle
        >>> paddle.atleast_1d(paddle.ones([2])).shape
        [2]
    """
    return _at_least(1, inputs)


def atleast_2d(*inputs, name=None):
    """The Tensors with at least two dimensions, new ones first.

    Examples:
        >>> import paddle
        >>> paddle.atleast_2d(paddle.ones([2])).shape
        [1, 2]
    """
    return _at_least(2, inputs)


def atleast_3d(*inputs, name=None):
    """The Tensors with at least three dimensions, as `numpy.atleast_3d`.

    Examples:
        >>> import paddle
        >>> paddle.atleast_3d(paddle.ones([2])).shape
        [1, 2, 1]
    """
    return _at_least(3, inputs)


def vander(x, n=None, increasing=False, name=None):
    """The Vandermonde matrix: powers of `x` as columns, the highest first unless `increasing`.

    Examples:
        >>> import paddle
        >>> paddle.vander(paddle.to_tensor([1.0, 2.0]), 3).numpy().tolist()
        [[1.0, 1.0, 1.0], [4.0, 2.0, 1.0]]
    """
    n = x.shape[0] if n is None else n
    powers: list[Any] = []
    for _ in range(n):
        powers.append(powers[-1] * x if powers else paddle.ones_like(x))
    return paddle.stack(powers if increasing else powers[::-1], axis=1)


def logspace(start, stop, num, base=10.0, dtype=None, name=None):
    """`num` numbers from base ** start to base ** stop, evenly spaced in their exponents.

    Examples:
        >>> import paddle
        >>> paddle.logspace(0, 2, 3).numpy().round(3).tolist()
        [1.0, 10.0, 100.0]
    """
    exponents = paddle.linspace(start, stop, num, "float64")
    return paddle.cast(paddle.pow(paddle.full_like(exponents, base), exponents), dtype or paddle.get_default_dtype())


def randint_like(x, low=0, high=None, dtype=None, name=None):
    """Random integers of [low, high), in the shape of `x` and its type.

    Examples:
        >>> import paddle
        >>> paddle.randint_like(paddle.ones([2, 3]), 5).shape
        [2, 3]
    """
    return paddle.cast(paddle.randint(low, high, x.shape), x.dtype if dtype is None else dtype)


def as_strided(x, shape, stride, offset=0, name=None):
    """Elements of the flattened `x` at offset + sum(index * stride), a copy.

    Examples:
        >>> import paddle
        >>> paddle.as_strided(paddle.arange(4), [2, 2], [1, 1]).numpy().tolist()
        [[0, 1], [1, 2]]
    """
    index = np.full(shape, offset, "int64")
    for dimension, step in enumerate(stride):
        sizes = [1] * len(shape)
        sizes[dimension] = shape[dimension]
        index += (np.arange(shape[dimension]) * step).reshape(sizes)
    return paddle.reshape(paddle.gather(paddle.reshape(x, [-1]), paddle.assign(index.reshape(-1))), list(shape))


def unfold(x, axis, size, step, name=None):
    """Windows of `size` elements along `axis`, `step` apart, as a new last dimension.

    Examples:
        >>> import paddle
        >>> paddle.unfold(paddle.arange(5), 0, 3, 2).numpy().tolist()
        [[0, 1, 2], [2, 3, 4]]
    """
    axis %= len(x.shape)
    starts = range(0, x.shape[axis] - size + 1, step)
    windows = [paddle.slice(x, [axis], [start], [start + size]) for start in starts]
    return moveaxis(paddle.stack(windows, axis), axis + 1, -1)


name_errors(globals())
