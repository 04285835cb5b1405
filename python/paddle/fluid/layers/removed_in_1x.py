"""Functions of fluid.layers in release 1.8 that 2.0 removed; they call their replacements."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.checks import check_dtype, check_type
from paddle._basics.dtypes import convert_dtype, convert_np_dtype_to_dtype_
from paddle._basics.element_types import FLOATS, INDICES, NUMERIC
from paddle._dispatch.append import named
from paddle._dispatch.arguments import shape_arguments
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.functional.extension import diag_embed
from paddle.tensor import creation, linalg, logic, manipulation, math, search
from paddle.tensor.linalg import bmm, dist, dot, t
from paddle.tensor.search import index_sample

from .tensor import assign, fill_constant
from .tensor import range as numbers

__all__ = [
    "addcmul",
    "addmm",
    "allclose",
    "arange",
    "bmm",
    "clamp",
    "cross",
    "diag_embed",
    "dist",
    "dot",
    "elementwise_equal",
    "flip",
    "full",
    "full_like",
    "index_sample",
    "index_select",
    "kron",
    "log1p",
    "log_softmax",
    "logsumexp",
    "meshgrid",
    "nonzero",
    "randint",
    "randn",
    "randperm",
    "roll",
    "t",
    "trace",
    "tril",
]


def _assign_to(out, result):
    """`result`; written to `out` if given."""
    return result if out is None else assign(result, out)


def addcmul(input, tensor1, tensor2, value=1.0, out=None, name=None):  # noqa: A002
    """input + value * tensor1 * tensor2, element by element; written to `out` if given.

    Args:
        input, tensor1, tensor2 (Variable): float32, float64, int32 or int64; broadcast.
        value (float|int): an int for integers.
    """
    for x, what in ((input, "input"), (tensor1, "tensor1"), (tensor2, "tensor2")):
        check_variable_and_dtype(x, what, NUMERIC, "addcmul")
    check_type(value, "value", int if "int" in convert_dtype(input.dtype) else float, "addcmul")
    product = _ops.scale(_ops.elementwise_mul(tensor1, tensor2), scale=float(value))
    return _assign_to(out, named(name, _ops.elementwise_add, input, product))


def addmm(input, x, y, alpha=1.0, beta=1.0, name=None):  # noqa: A002
    """beta * input + alpha * (x @ y); see :func:`paddle.addmm`."""
    return linalg.addmm(input, x, y, beta, alpha, name)


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False, name=None):  # noqa: A002
    """Whether all elements are equal within tolerances; see :func:`paddle.allclose`."""
    return logic.allclose(input, other, rtol, atol, equal_nan, name)


def arange(start, end, step=1, dtype=None, name=None):
    """start, start + step, ... before `end`; float32 by default."""
    return numbers(start, end, step, "float32" if dtype is None else dtype, name)


def clamp(input, min=None, max=None, output=None, name=None):  # noqa: A002
    """`input` clipped to [min, max]; written to `output` if given.

    Args:
        input (Variable): float32, float64 or int32.
        min, max (float|Variable, optional): at least one is required; tensors have shape [1].

    Raises:
        AssertionError: if both are None.
    """
    assert min is not None or max is not None, "clamp: either min or max must be given"
    for bound, what in ((min, "min"), (max, "max")):
        if bound is not None:
            check_type(bound, what, (float, Variable), "clamp")
    return _assign_to(output, math.clip(input, min, max, name))


def cross(input, other, dim=None):  # noqa: A002
    """The cross product along `dim`, of size 3; see :func:`paddle.cross`."""
    return linalg.cross(input, other, dim or None)


def elementwise_equal(x, y, name=None):
    """x == y, element by element, as bools."""
    out = named(name, _ops.equal, x, y)
    out.stop_gradient = True
    return out


def flip(input, dims, name=None):  # noqa: A002
    """`input` reversed along `dims`; see :func:`paddle.flip`."""
    check_type(dims, "dims", (list, tuple), "flip")
    assert len(dims) > 0, "flip: dims must name a dimension"
    return manipulation.flip(input, dims, name)


def _with_stop_gradient(out, stop_gradient):
    out.stop_gradient = stop_gradient
    return out


def full(shape, fill_value, out=None, dtype=None, device=None, stop_gradient=True, name=None):
    """A tensor of `shape` filled with `fill_value`; written to `out` if given.

    Args:
        shape (list|tuple|Variable): sizes.
        fill_value (bool|int|float|Variable): one number.
        dtype (str, optional): float32 by default.
        device (str, optional): ignored.
        stop_gradient (bool): whether the result has no gradient.
    """
    made = fill_constant(shape, "float32" if dtype is None else dtype, fill_value, out=out, name=name)
    return _with_stop_gradient(made, stop_gradient)


def full_like(input, fill_value, out=None, dtype=None, device=None, stop_gradient=True, name=None):  # noqa: A002
    """A tensor like `input` filled with `fill_value`; arguments as of :func:`full`."""
    return _with_stop_gradient(_assign_to(out, creation.full_like(input, fill_value, dtype, name)), stop_gradient)


def index_select(input, index, dim=0):  # noqa: A002
    """The slices of `input` along `dim` at `index`; see :func:`paddle.index_select`."""
    return search.index_select(input, index, dim)


def kron(x, y, out=None, name=None):
    """The Kronecker product; written to `out` if given; see :func:`paddle.kron`."""
    return _assign_to(out, linalg.kron(x, y, name))


def log1p(x, out=None, name=None):
    """log(1 + x), element by element; written to `out` if given."""
    check_variable_and_dtype(x, "x", FLOATS, "log1p")
    return named(name, _ops.log1p, x, Out=out)


def log_softmax(input, axis=None, dtype=None, name=None):  # noqa: A002
    """log(softmax) along `axis`, the last one by default; converted to `dtype` first if given."""
    if dtype is not None:
        check_dtype(dtype, "dtype", FLOATS, "log_softmax")
        input = math.cast(input, dtype)  # noqa: A001
    return named(name, _ops.log_softmax, input, axis=-1 if axis is None else axis)


def logsumexp(x, dim=None, keepdim=False, out=None, name=None):
    """The logarithm of the sum of exponentials; written to `out` if given; see :func:`paddle.logsumexp`."""
    return _assign_to(out, math.logsumexp(x, dim, keepdim, name))


def meshgrid(input, name=None):  # noqa: A002
    """Coordinate grids from a list of vectors; see :func:`paddle.meshgrid`."""
    check_type(input, "input", list, "meshgrid")
    return creation.meshgrid(input, name=name)


def nonzero(input, as_tuple=False):  # noqa: A002
    """The indices of the elements that are not zero; see :func:`paddle.nonzero`."""
    return search.nonzero(input, as_tuple)


def randint(low, high=None, shape=None, out=None, dtype=None, device=None, stop_gradient=False, seed=0, name=None):
    """Random integers of the uniform distribution over [low, high), or [0, low) without `high`.

    Args:
        shape (list|tuple|Variable, optional): sizes, [1] by default.
        dtype (str, optional): int32 or int64 (the default).
        device (str, optional): ignored.
        seed (int): not 0: a separate random generator.

    Raises:
        ValueError: for an empty range.
    """
    dtype = "int64" if dtype is None else dtype
    check_dtype(dtype, "dtype", INDICES, "randint")
    low, high = (0, low) if high is None else (low, high)
    if low >= high:
        raise ValueError(f"randint: low must be below high, got {low} and {high}")
    drawn = named(
        name,
        _ops.randint,
        low=low,
        high=high,
        seed=seed,
        dtype=convert_np_dtype_to_dtype_(dtype),
        **shape_arguments([1] if shape is None else shape),
    )
    return _with_stop_gradient(_assign_to(out, drawn), stop_gradient)


def randn(shape, out=None, dtype=None, device=None, stop_gradient=True, name=None):
    """Random numbers of the standard normal distribution; written to `out` if given.

    Args:
        shape (list|tuple): sizes.
        dtype (str, optional): float32 (the default) or float64.
        device (str, optional): ignored.
    """
    check_type(shape, "shape", (list, tuple), "randn")
    assert len(shape) > 0, "randn: shape must have an entry"
    dtype = "float32" if dtype is None else dtype
    check_dtype(dtype, "dtype", FLOATS, "randn")
    drawn = named(name, _ops.gaussian_random, shape=list(shape), dtype=convert_np_dtype_to_dtype_(dtype))
    return _with_stop_gradient(_assign_to(out, drawn), stop_gradient)


def randperm(n, out=None, dtype="int64", device=None, stop_gradient=True, seed=0):
    """A random permutation of 0 to n - 1; written to `out` if given.

    Raises:
        ValueError: if `n` is not positive, or for an unknown device.
    """
    if n < 1:
        raise ValueError(f"randperm: n must be positive, got {n}")
    check_dtype(dtype, "dtype", INDICES, "randperm")
    if device not in (None, "cpu", "gpu"):
        raise ValueError(f"randperm: device must be None, 'cpu' or 'gpu', got {device!r}")
    check_type(stop_gradient, "stop_gradient", bool, "randperm")
    drawn = _ops.randperm(n=n, seed=seed, dtype=convert_np_dtype_to_dtype_(dtype))
    return _with_stop_gradient(_assign_to(out, drawn), stop_gradient)


def roll(input, shifts, dims=None):  # noqa: A002
    """The elements of `input` shifted along `dims`; see :func:`paddle.roll`."""
    return manipulation.roll(input, shifts, dims)


def trace(input, offset=0, dim1=0, dim2=1, out=None, name=None):  # noqa: A002
    """The sum of a diagonal; written to `out` if given; see :func:`paddle.trace`."""
    return _assign_to(out, linalg.trace(input, offset, dim1, dim2, name))


def tril(input, diagonal=0, name=None):  # noqa: A002
    """The lower triangle of matrices; see :func:`paddle.tril`."""
    return creation.tril(input, diagonal, name)
