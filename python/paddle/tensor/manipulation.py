"""Reshaping, slicing, joining and repeating Tensors."""

from __future__ import annotations

import math

import paddle._core as _core
from paddle import _ops
from paddle._basics.checks import INTS
from paddle._basics.dtypes import convert_dtype
from paddle._basics.flags import is_18
from paddle._basics.mode import in_static_mode
from paddle._basics.shapes import check_axis
from paddle._core import Tensor
from paddle._dispatch.append import checked, named
from paddle._dispatch.argument_checks import check_arguments
from paddle._dispatch.arguments import bounded, number, shape_arguments, split_list
from paddle._dispatch.in_place import in_place_in_dygraph
from paddle._programs.variable import Variable

from . import gather_scatter
from .array import is_array
from .gather_scatter import *  # noqa: F403

__all__ = [
    *gather_scatter.__all__,
    "broadcast_to",
    "chunk",
    "concat",
    "expand",
    "expand_as",
    "flatten",
    "flip",
    "reshape",
    "reshape_",
    "reverse",
    "roll",
    "slice",
    "split",
    "squeeze",
    "squeeze_",
    "stack",
    "strided_slice",
    "tile",
    "unsqueeze",
    "unsqueeze_",
    "unbind",
    "unstack",
]


def in_place(x, out):
    """Assigns `out` to `x`: its value and its gradient edge. Gradients that need the value before are refused."""
    _ops.assign(out, Out=x)
    # `x` is an ordinary output of the operator, which does not count it as written in place.
    x._bump_inplace_version()
    return x


def computed_in_place(name, plain, x, *args, **kwargs):
    """`x` becomes `plain(x, ...)`, whose gradient reads a copy of the value before.

    Raises:
        ValueError: for a leaf that needs a gradient, and where `x` would be broadcast.
    """
    recorded = _core.is_grad_enabled()
    if recorded and not x.stop_gradient and x.is_leaf:
        raise ValueError(f"{name}: a leaf Tensor with stop_gradient=False can not be changed in place but in no_grad()")
    out = plain(_ops.assign(x) if recorded else x, *args, **kwargs)
    if math.prod(out.shape) != math.prod(x.shape):
        raise ValueError(f"{name}: a Tensor of shape {x.shape} can not be changed in place to shape {out.shape}")
    return in_place(x, out)


def _sizes(shape) -> list[int]:
    """A shape given as a list, tuple or Tensor, as ints."""
    if isinstance(shape, Variable):
        return [int(n) for n in shape.numpy().reshape(-1)]
    return [int(number(n)) for n in shape]


def reshape(x, shape, name=None) -> Tensor:
    """`x` with another shape; the memory is shared until either Tensor is written.

    Args:
        x (Tensor): any type.
        shape (list|tuple|Tensor): sizes; one may be -1 (inferred), 0 copies the size of `x`.

    Raises:
        ValueError: when the number of elements differs.

    Examples:
        >>> import paddle
        >>> paddle.reshape(paddle.ones([2, 4, 6]), [-1, 0, 3, 2]).shape
        [2, 4, 3, 2]
    """
    if not in_static_mode():
        return _ops.reshape2(x, shape=shape)  # the builtin converts Tensors in the list to ints
    return append_reshape(x, shape, name)


def _check_new_shape(x, sizes) -> None:
    assert len(sizes) > 0, "reshape: shape must have an entry, got none"
    unknown = None
    for i, size in enumerate(sizes):
        if isinstance(size, Variable):
            continue
        if size == -1:
            assert unknown is None, f"reshape: only one entry of shape may be -1, but shape[{i}] is another"
            unknown = i
        elif size == 0:
            assert i < len(x.shape), f"reshape: shape[{i}] = 0 copies a dimension of x, which has only {len(x.shape)}"
        else:
            assert size > 0, f"reshape: shape may hold one -1, no other negative size: got shape[{i}] = {size}"


def append_reshape(x, shape, name=None, **slots):
    """`reshape` in static mode; 1.x's function also passes `Shape` (known at run time) and `Out`."""
    check_arguments("reshape", x, shape)
    if isinstance(shape, (list, tuple)):
        _check_new_shape(x, shape)
    keywords = shape_arguments(shape, "Shape", "ShapeTensor")
    if "ShapeTensor" in keywords:
        slots.pop("Shape", None)
    return named(name, _ops.reshape2, x, **{**keywords, **slots})


@in_place_in_dygraph(reshape)
def reshape_(x, shape, name=None) -> Tensor:
    """`reshape`, in place."""
    return _ops.reshape2(x, shape=_sizes(shape), Out=x)


def _axes(axis) -> list[int]:
    if axis is None:
        return []
    if isinstance(axis, Variable):
        return [int(n) for n in axis.numpy().reshape(-1)]
    return list(axis) if isinstance(axis, list) or not isinstance(axis, INTS) else [int(axis)]


def squeeze(x, axis=None, name=None) -> Tensor:
    """`x` without the dimensions `axis` of size 1 (by default all dimensions of size 1).

    Examples:
        >>> import paddle
        >>> paddle.squeeze(paddle.ones([5, 1, 10]), axis=1).shape
        [5, 10]
    """
    check_arguments("squeeze", x, axis)
    return named(name, _ops.squeeze2, x, axes=_axes(axis))


@in_place_in_dygraph(squeeze)
def squeeze_(x, axis=None, name=None) -> Tensor:
    """`squeeze`, in place."""
    return _ops.squeeze2(x, axes=_axes(axis), Out=x)


def unsqueeze(x, axis, name=None) -> Tensor:
    """`x` with new dimensions of size 1 at `axis`.

    Examples:
        >>> import paddle
        >>> paddle.unsqueeze(paddle.ones([5, 10]), axis=[0, 2]).shape
        [1, 5, 1, 10]
    """
    if not in_static_mode():
        return _ops.unsqueeze2(x, axes=[int(number(a)) for a in _axes(axis)])
    check_arguments("unsqueeze", axis, x)
    keywords = shape_arguments(axis, "AxesTensor", "AxesTensorList")
    sizes = keywords.pop("shape")
    if "AxesTensorList" not in keywords:  # the operator reads the tensors only if the attribute is absent
        keywords["axes"] = sizes
    return named(name, _ops.unsqueeze2, x, **keywords)


@in_place_in_dygraph(unsqueeze)
def unsqueeze_(x, axis, name=None) -> Tensor:
    """`unsqueeze`, in place."""
    return _ops.unsqueeze2(x, axes=[int(number(a)) for a in _axes(axis)], Out=x)


def flatten(x, start_axis=0, stop_axis=-1, name=None) -> Tensor:
    """`x` with the dimensions `start_axis` to `stop_axis` merged into one.

    Raises:
        ValueError: for axes that are not ints in range and in order.

    Examples:
        >>> import paddle
        >>> paddle.flatten(paddle.ones([3, 4, 5]), 1, 2).shape
        [3, 20]
    """
    if not isinstance(x, Variable):
        raise ValueError("flatten: x must be a Tensor")
    check_arguments("flatten", x)
    rank = len(x.shape)
    for axis, what in ((start_axis, "start_axis"), (stop_axis, "stop_axis")):
        if not isinstance(axis, INTS) or not -rank <= axis <= rank - 1:
            raise ValueError(f"flatten: {what} must be an int in [-rank, rank) of x")
    start, stop = start_axis % rank, stop_axis % rank
    if start > stop:
        raise ValueError("flatten: stop_axis must not be below start_axis")
    return named(name, _ops.flatten_contiguous_range, x, start_axis=start, stop_axis=stop)


def concat(x, axis=0, name=None) -> Tensor:
    """Tensors concatenated along `axis`.

    Args:
        x (list|tuple of Tensor): of one type; sizes are equal except along `axis`.
        axis (int|Tensor): the dimension.

    Examples:
        >>> import paddle
        >>> paddle.concat([paddle.ones([2, 3]), paddle.zeros([1, 3])]).shape
        [3, 3]
    """
    if not in_static_mode():
        if not isinstance(x, (list, tuple)):
            raise ValueError(f"concat: argument 'x' must be a list or tuple of Tensors, got {type(x).__name__}")
        return _ops.concat(list(x), axis=int(number(axis)))
    check_arguments("concat", x, axis)
    inputs = [x] if isinstance(x, Variable) else list(x)
    if any(v.dtype != inputs[0].dtype for v in inputs):
        raise TypeError("concat: the Tensors must share one dtype")
    if inputs and is_array(inputs[0]):
        assert len(inputs) == 1, f"the number of arrays in 'x' in concat must be 1, but received {len(inputs)}"
        return named(name, _ops.tensor_array_to_tensor, inputs[0], axis=axis, use_stack=False)[0]
    if isinstance(axis, Variable):
        axis.stop_gradient = True
        return named(name, _ops.concat, inputs, axis)
    return named(name, _ops.concat, inputs, axis=axis)


def stack(x, axis=0, name=None) -> Tensor:
    """Tensors of one shape joined along a new dimension `axis`.

    Args:
        x (list|tuple of Tensor): of one shape and type; in static mode also a LoDTensorArray.
        axis (int): position of the new dimension.

    Raises:
        TypeError: for a single Tensor (a Variable is a list of one with FLAGS_compat=1.8).

    Examples:
        >>> import paddle
        >>> paddle.stack([paddle.ones([2]), paddle.zeros([2])], axis=1).shape
        [2, 2]
    """
    axis = 0 if axis is None else axis
    if is_array(x) or is_18() and isinstance(x, Variable):
        x = [x]
    if not isinstance(x, (list, tuple)):
        raise TypeError(f"The type of 'x' in stack must be list[Tensor] or tuple[Tensor], but received {type(x)}")
    if x and is_array(x[0]):
        assert len(x) == 1, f"the number of arrays in 'x' in stack must be 1, but received {len(x)}"
        check_arguments("stack", x[0])
        return named(name, _ops.tensor_array_to_tensor, x[0], axis=axis, use_stack=True)[0]
    return named(name, _ops.stack, list(x), axis=axis)


def split(x, num_or_sections, axis=0, name=None) -> list[Tensor]:
    """`x` split along `axis`.

    Args:
        num_or_sections (int|list|tuple): number of equal parts, or the size of each (one may be -1: inferred).
        axis (int|Tensor): the dimension.

    Returns:
        list of Tensor.

    Examples:
        >>> import paddle
        >>> [p.shape for p in paddle.split(paddle.ones([3, 9]), [2, 3, -1], axis=1)]
        [[3, 2], [3, 3], [3, 4]]
    """
    if in_static_mode():
        return _append_split(x, num_or_sections, axis, name)
    axis = int(number(axis))
    if isinstance(num_or_sections, INTS):
        return _ops.split(x, num=num_or_sections, axis=axis)
    if isinstance(num_or_sections, (list, tuple)):
        return _ops.split(x, sections=_sizes(num_or_sections), axis=axis)
    raise TypeError(f"split: num_or_sections must be an int, list or tuple, got {type(num_or_sections)}")


def _append_split(x, num_or_sections, axis, name):
    check_arguments("split", x, num_or_sections, axis)
    keywords: dict = {}
    size = -1
    if isinstance(axis, Variable):
        axis.stop_gradient = True
        keywords["AxisTensor"] = axis
    else:
        keywords["axis"] = axis = check_axis("split", axis, len(x.shape))
        size = x.shape[axis]
    if isinstance(num_or_sections, INTS):
        count = keywords["num"] = num_or_sections
        assert count > 0, f"split: num_or_sections must be above 0, got {count}"
        assert size <= 0 or size % count == 0, f"split: {count} parts do not divide the {size} entries along axis"
    else:
        count = len(num_or_sections)
        assert size <= 0 or count <= size, "split: num_or_sections has more entries than x has along axis"
        known = [n for n in num_or_sections if not isinstance(n, Variable)]
        assert known.count(-1) <= 1, "split: num_or_sections may hold one -1 only"
        keywords["sections"], tensors = split_list(num_or_sections)
        if tensors is not None:
            keywords["SectionsTensorList"] = tensors
    return named(name, _ops.split, x, **keywords)


def chunk(x, chunks, axis=0, name=None) -> list[Tensor]:
    """`x` split into `chunks` equal parts along `axis`; see `split`."""
    check_arguments("chunk", chunks)
    return split(x, num_or_sections=chunks, axis=axis, name=name)


def unstack(x, axis=0, num=None) -> list[Tensor]:
    """The slices of `x` along `axis` without that dimension, the inverse of `stack`; ValueError for a bad axis."""
    axis = check_axis("unstack", axis, len(x.shape))
    count = x.shape[axis] if num is None else num
    parts = split(x, count, axis)
    return [squeeze(p, axis) for p in parts]


def unbind(input, axis=0) -> list[Tensor]:  # noqa: A002
    """The slices of `input` along `axis` without that dimension, as a list.

    Args:
        input (Tensor): float32, float64, int32 or int64 (in dygraph mode any type).
        axis (int): the dimension that is removed.

    Raises:
        TypeError: for an axis that is not an int. ValueError: for one out of range.

    Examples:
        >>> import paddle
        >>> [p.numpy().tolist() for p in paddle.unbind(paddle.to_tensor([[1, 2], [3, 4]]), axis=1)]
        [[1, 3], [2, 4]]
    """
    check_arguments("unbind", input)
    if not isinstance(axis, INTS):
        raise TypeError(f"unbind: axis must be an int, got {type(axis)}")
    return _ops.unbind(input, axis=check_axis("unbind", int(axis), len(input.shape)))


def slice(input, axes, starts, ends) -> Tensor:  # noqa: A001, A002
    """input[start:end] along each of `axes`.

    Examples:
        >>> import paddle
        >>> paddle.slice(paddle.ones([4, 5, 6]), axes=[0, 2], starts=[-3, 2], ends=[3, 4]).shape
        [2, 5, 2]
    """
    if in_static_mode():
        for what, value in (("starts", starts), ("ends", ends)):
            if not isinstance(value, (list, tuple, Variable)):
                raise ValueError(f"slice: {what} must be a list, tuple or Tensor")
    return bounded(_ops.slice, input, axes, starts=starts, ends=ends)


def strided_slice(x, axes, starts, ends, strides, name=None) -> Tensor:
    """input[start:end:stride] along each of `axes`."""
    check_arguments("strided_slice", x, starts, ends, strides)
    return bounded(_ops.strided_slice, x, axes, starts=starts, ends=ends, strides=strides)


def expand(x, shape, name=None) -> Tensor:
    """`x` repeated along dimensions of size 1 to the given shape; -1 keeps a size.

    Examples:
        >>> import paddle
        >>> paddle.expand(paddle.to_tensor([1, 2, 3]), [2, 3]).shape
        [2, 3]
    """
    if not in_static_mode():
        return _ops.expand_v2(x, shape=_sizes(shape))
    check_arguments("expand", x, shape)
    if isinstance(shape, Variable):
        return named(name, _ops.expand_v2, x, shape, shape=[])
    sizes, tensors = split_list(shape)
    return named(name, _ops.expand_v2, x, None, tensors, shape=sizes)


def broadcast_to(x, shape, name=None) -> Tensor:
    """`x` broadcast to the given shape; see `expand`."""
    return expand(x, shape, name)


def expand_as(x, y, name=None) -> Tensor:
    """`x` broadcast to the shape of `y`.

    Examples:
        >>> import paddle
        >>> paddle.expand_as(paddle.to_tensor([1, 2]), paddle.ones([3, 2])).shape
        [3, 2]
    """
    if in_static_mode():
        check_arguments("expand_as", x, y)
        _no_gradient_of_bools(x, "expand_as")
    return named(name, _ops.expand_as_v2, x, target_shape=y.shape)


def _no_gradient_of_bools(x, where: str) -> None:
    if convert_dtype(x.dtype) == "bool" and not x.stop_gradient:
        raise ValueError(f"{where}: x is of type bool and has no gradient; set x.stop_gradient = True")


def tile(x, repeat_times, name=None) -> Tensor:
    """`x` repeated along its dimensions.

    Args:
        x (Tensor): bool, float32, float64, int32 or int64.
        repeat_times (list|tuple|Tensor): repetitions along each dimension. The shorter of it and the shape of `x`
            is padded with leading ones.

    Raises:
        ValueError: for repetitions that are not positive, or more than 6 dimensions.

    Examples:
        >>> import paddle
        >>> paddle.tile(paddle.to_tensor([1, 2]), [2, 1]).numpy().tolist()
        [[1, 2], [1, 2]]
    """
    if not in_static_mode():
        return _ops.tile(x, repeat_times=_sizes(repeat_times))
    check_arguments("tile", repeat_times, x)
    for times in [repeat_times] if isinstance(repeat_times, Variable) else repeat_times:
        is_vector = isinstance(times, Variable) and len(times.shape) == 1
        assert is_vector or isinstance(times, INTS), "tile: repeat_times must be ints or Tensors of one dimension"
        assert isinstance(times, Variable) or times > 0, "tile: all numbers in repeat_times must be positive"
    _no_gradient_of_bools(x, "tile")
    if isinstance(repeat_times, Variable):
        repeat_times.stop_gradient = True
        return named(name, _ops.tile, x, repeat_times, repeat_times=[-1])
    numbers, tensors = split_list(repeat_times)
    return named(name, _ops.tile, x, None, tensors, repeat_times=numbers)


def roll(x, shifts, axis=None, name=None) -> Tensor:
    """The elements of `x` shifted along `axis`; elements that leave at one end re-enter at the other.

    Args:
        x (Tensor): any type.
        shifts (int|list|tuple): the distance for each axis.
        axis (int|list|tuple, optional): the dimensions; by default the flattened Tensor is rolled.

    Raises:
        ValueError: for an axis out of range.

    Examples:
        >>> import paddle
        >>> paddle.roll(paddle.to_tensor([[1, 2, 3], [4, 5, 6]]), 1).numpy().tolist()
        [[6, 1, 2], [3, 4, 5]]
    """
    shape, rank = x.shape, len(x.shape)
    shifts = [shifts] if isinstance(shifts, INTS) else shifts
    axis = [axis] if isinstance(axis, INTS) else axis
    check_arguments("roll", shifts, axis)
    if axis is None:
        flat = _ops.reshape2(x, shape=[-1])
        return reshape(named(name, _ops.roll, flat, axis=[0], shifts=list(shifts)), shape)
    for a in axis:
        if not -rank <= a < rank:
            raise ValueError(f"roll: axis must be in [{-rank}, {rank}), got {axis}")
    return named(name, _ops.roll, x, axis=list(axis), shifts=list(shifts))


def flip(x, axis, name=None) -> Tensor:
    """`x` with the elements along `axis` in reverse order.

    Args:
        x (Tensor): any type.
        axis (list|tuple|int): the dimensions; negative ones count from the end.

    Examples:
        >>> import paddle
        >>> paddle.flip(paddle.to_tensor([[1, 2], [3, 4]]), axis=[0]).numpy().tolist()
        [[3, 4], [1, 2]]
    """
    check_arguments("flip", axis)
    return checked(name, _ops.flip, x, axis=[axis] if isinstance(axis, INTS) else list(axis))


def reverse(x, axis, name=None) -> Tensor:
    """The same as `flip`."""
    return flip(x, axis, name)
