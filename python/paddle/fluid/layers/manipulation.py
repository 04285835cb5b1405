"""Shapes, slices and indices of fluid.layers."""

from __future__ import annotations

from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import check_dtype, check_type
from paddle._basics.shapes import check_axis, check_permutation
from paddle._dispatch.append import activated, named
from paddle._dispatch.arguments import bounded, number, shape_arguments, split_list
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.tensor.array import is_array

__all__ = [
    "reshape",
    "squeeze",
    "unsqueeze",
    "transpose",
    "split",
    "stack",
    "slice",
    "strided_slice",
    "gather",
    "scatter",
    "flatten",
    "shape",
]

_NUMBERS = ["float16", "float32", "float64", "int32", "int64"]


def _check_new_shape(x, sizes) -> None:
    assert len(sizes) > 0, "reshape: shape must have an entry, got none"
    unknown = None
    for i, size in enumerate(sizes):
        if isinstance(size, Variable):
            continue
        if size == -1:
            assert unknown is None, f"reshape: only one entry of shape may be -1, and shape[{i}] is a second"
            unknown = i
        elif size == 0:
            assert i < len(x.shape), f"reshape: shape[{i}] = 0 copies a dimension of x, which has only {len(x.shape)}"
        else:
            assert size > 0, f"reshape: shape may hold no negative size but one -1, got shape[{i}] = {size}"


def reshape(x, shape, actual_shape=None, act=None, inplace=False, name=None):
    """`x` with another shape.

    Args:
        x (Variable): numbers or bools.
        shape (list|tuple|Variable): sizes: one may be -1 (what is left), 0 takes the size of `x`; tensors of shape
            [1] go.
        actual_shape (Variable, optional): the shape at run time.
        act (str, optional): an activation operator.
        inplace (bool): write `x` itself (static mode).

    Raises:
        AssertionError: for sizes that cannot be.
    """
    check_variable_and_dtype(x, "x", [*_NUMBERS, "bool"], "reshape")
    check_type(shape, "shape", (list, tuple, Variable), "reshape")
    check_type(actual_shape, "actual_shape", (Variable, type(None)), "reshape")
    if isinstance(shape, (list, tuple)) and not mode.in_dygraph_mode():
        _check_new_shape(x, shape)
    keywords = shape_arguments(shape, "Shape", "ShapeTensor")
    if actual_shape is not None and "ShapeTensor" not in keywords and not mode.in_dygraph_mode():
        actual_shape.stop_gradient = True
        keywords["Shape"] = actual_shape
    if inplace and not mode.in_dygraph_mode():
        keywords["Out"] = x
    out = named(name, _ops.reshape2, x, **keywords)
    out = out[0] if isinstance(out, tuple) else out
    return activated(out, act, name, "reshape2")


def _first(result):
    """Without the shape that operators of the second version keep for their gradient."""
    return result[0] if isinstance(result, tuple) else result


def squeeze(input, axes, name=None):  # noqa: A002
    """`input` without the dimensions `axes`, where their size is 1 (all of size 1 when empty).

    Args:
        input (Variable): numbers or bools.
        axes (list of int): which.
    """
    check_variable_and_dtype(input, "input", [*_NUMBERS, "bool", "int8"], "squeeze")
    check_type(axes, "axis/axes", (list, tuple), "squeeze")
    return _first(named(name, _ops.squeeze2, input, axes=list(axes)))


def unsqueeze(input, axes, name=None):  # noqa: A002
    """`input` with new dimensions of size 1 at `axes`.

    Args:
        input (Variable): numbers or bools.
        axes (int|list|tuple|Variable): positions in the result; tensors go.
    """
    check_type(axes, "axis/axes", (int, list, tuple, Variable), "unsqueeze")
    check_variable_and_dtype(input, "input", [*_NUMBERS, "bool", "int8"], "unsqueeze")
    keywords = shape_arguments(axes, "AxesTensor", "AxesTensorList")
    sizes = keywords.pop("shape")
    if "AxesTensorList" not in keywords:  # the operator looks at tensors only where it has no attribute
        keywords["axes"] = sizes
    return _first(named(name, _ops.unsqueeze2, input, **keywords))


def transpose(x, perm, name=None):
    """`x` with its dimensions in the order `perm`.

    Args:
        x (Variable): numbers.
        perm (list|tuple of int): dimension `i` of the result is dimension perm[i] of `x`.

    Raises:
        ValueError: when `perm` is no permutation.
    """
    check_variable_and_dtype(x, "x", _NUMBERS, "transpose")
    check_type(perm, "perm", (list, tuple), "transpose")
    if not mode.in_dygraph_mode():
        check_permutation(perm, len(x.shape))
    return _first(named(name, _ops.transpose2, x, axis=list(perm)))


def split(input, num_or_sections, dim=-1, name=None):  # noqa: A002
    """`input` cut along `dim`.

    Args:
        input (Variable): numbers or bools.
        num_or_sections (int|list|tuple): how many equal parts, or their sizes: one may be -1, tensors of shape [1] go.
        dim (int|Variable): where.

    Returns:
        list of Variable.

    Raises:
        AssertionError: when the size cannot be cut so.
        ValueError: for a dimension that is not there.
    """
    check_variable_and_dtype(input, "input", [*_NUMBERS, "bool"], "split")
    check_type(num_or_sections, "num_or_sections", (list, int, tuple), "split")
    check_type(dim, "dim", (int, Variable), "split")
    keywords: dict = {}
    size = -1
    if isinstance(dim, Variable) and not mode.in_dygraph_mode():
        check_dtype(dim.dtype, "dim", ["int32", "int64"], "split")
        dim.stop_gradient = True
        keywords["AxisTensor"] = dim
    else:
        keywords["axis"] = dim = check_axis("split", int(number(dim)), len(input.shape))
        size = input.shape[dim]
    if isinstance(num_or_sections, int):
        count = num_or_sections
        keywords["num"] = count
        if not mode.in_dygraph_mode():
            assert count > 1, "split: num_or_sections must be above 1"
            assert size <= 0 or size % count == 0, (
                f"split: {count} parts do not divide the {size} entries along dim evenly"
            )
    elif isinstance(num_or_sections, (list, tuple)):
        count = len(num_or_sections)
        if not mode.in_dygraph_mode():
            assert size <= 0 or count <= size, "split: num_or_sections has more entries than input has along dim"
            known = [n for n in num_or_sections if not isinstance(n, Variable)]
            assert known.count(-1) <= 1, "split: num_or_sections may hold one -1 only"
        sections, tensors = split_list(num_or_sections)
        keywords["sections"] = sections
        if tensors is not None:
            keywords["SectionsTensorList"] = tensors
    else:
        raise TypeError(f"split: num_or_sections must be an int, list or tuple, got {type(num_or_sections)}")
    return named(name, _ops.split, input, **keywords)


def stack(x, axis=0, name=None):
    """Tensors of one shape along a new dimension.

    Args:
        x (list|tuple of Variable): of one shape and type; a LoDTensorArray goes in static mode.
        axis (int): where the new dimension comes.

    Raises:
        TypeError: for a lone tensor.
    """
    axis = 0 if axis is None else axis
    if is_array(x):
        x = [x]
    if not isinstance(x, (list, tuple)):
        raise TypeError(
            f"The type of 'x' in stack must be list[Tensor], tuple[Tensor] or TensorArray, but received {type(x)}"
        )
    if x and is_array(x[0]):
        assert len(x) == 1, f"the number of arrays in 'x' in stack must be 1, but received {len(x)}"
        check_variable_and_dtype(x[0], "x", _NUMBERS, "stack")
        return named(name, _ops.tensor_array_to_tensor, x[0], axis=axis, use_stack=True)[0]
    return named(name, _ops.stack, list(x), axis=axis)


def slice(input, axes, starts, ends):  # noqa: A001, A002
    """Parts of `input` from `starts` to `ends` along `axes`.

    Args:
        input (Variable): any type.
        axes (list|tuple of int): which dimensions.
        starts, ends (list|tuple|Variable): negative ones count from the end; tensors of shape [1] go.

    Raises:
        ValueError: for bounds of other types.
    """
    for what, value in (("starts", starts), ("ends", ends)):
        if not isinstance(value, (list, tuple, Variable)):
            raise ValueError(f"slice: {what} must be a list, tuple or Variable")
    return bounded(_ops.slice, input, axes, starts=starts, ends=ends)


def strided_slice(input, axes, starts, ends, strides):  # noqa: A002
    """Parts of `input` from `starts` to `ends` along `axes`, every `strides`-th.

    Args:
        input (Variable): bool, float32, float64, int32 or int64.
        axes (list|tuple of int): which dimensions.
        starts, ends, strides (list|tuple|Variable): negative ones count from the end; tensors of shape [1] go.
    """
    check_variable_and_dtype(input, "input", ["bool", *_NUMBERS[1:]], "strided_slice")
    for what, value in (("starts", starts), ("ends", ends), ("strides", strides)):
        check_type(value, what, (list, tuple, Variable), "strided_slice")
    return bounded(_ops.strided_slice, input, axes, starts=starts, ends=ends, strides=strides)


def gather(input, index, overwrite=True):  # noqa: A002
    """The rows of `input` with the numbers `index`.

    Args:
        input (Variable): at least one dimension.
        index (Variable): int32 or int64, one dimension.
        overwrite (bool): how equal rows count in the gradient: the last one (True), or all.
    """
    check_variable_and_dtype(input, "x", [*_NUMBERS, "uint8"], "gather")
    check_variable_and_dtype(index, "index", ["int32", "int64"], "gather")
    return _ops.gather(input, index, overwrite=overwrite)


def scatter(input, index, updates, name=None, overwrite=True):  # noqa: A002
    """`input` with the rows `index` replaced by `updates`, or with these added.

    Args:
        input (Variable): at least one dimension.
        index (Variable): int32 or int64, one dimension.
        updates (Variable): one row for each index.
        overwrite (bool): replace, rather than add up.
    """
    return named(name, _ops.scatter, input, index, updates, overwrite=overwrite)


def flatten(x, axis=1, name=None):
    """`x` as a matrix: the dimensions before `axis` make the rows.

    Args:
        x (Variable): at least `axis` dimensions.
        axis (int): from 0 to the number of dimensions.

    Raises:
        ValueError: for another axis, or when `x` is no Variable.
    """
    if not isinstance(x, Variable):
        raise ValueError("flatten: x must be a Variable")
    rank = len(x.shape)
    if not isinstance(axis, int) or not 0 <= axis <= rank:
        raise ValueError("flatten: axis must be an int in [0, rank] of x")
    rows = 1
    for n in x.shape[:axis]:
        rows = -1 if n < 0 or rows < 0 else rows * n
    columns = 1
    for n in x.shape[axis:]:
        columns = -1 if n < 0 or columns < 0 else columns * n
    if rows < 0 and columns < 0:
        raise ValueError(f"flatten of the shape {x.shape} at {axis} leaves two sizes unknown")
    return _first(named(name, _ops.reshape2, x, shape=[rows, columns]))


def shape(input):  # noqa: A002
    """The sizes of `input` as an int32 tensor."""
    out = _ops.shape(input)
    out.stop_gradient = True
    return out
