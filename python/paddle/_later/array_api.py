"""The functions of the Python array API standard, version 2023.12, over Tensors: `Tensor.__array_namespace__`.

docs/guides/interchange.md lists what deviates. Source: https://data-apis.org/array-api/2023.12/API_specification
"""

from __future__ import annotations

import builtins
import math
import sys
from typing import Any

import numpy as np

import paddle
import paddle._core as _core
from paddle._basics.dtypes import convert_dtype

from .dtypes import (  # noqa: F401 -- names of the standard
    bfloat16,
    bool,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)

__all__: list[str] = []
__array_api_version__ = "2023.12"

e, pi, inf, nan, newaxis = math.e, math.pi, math.inf, math.nan, None

_VERSIONS = ("2021.12", "2022.12", "2023.12")


def array_namespace(self, api_version=None):
    """The module with the functions of the array API standard: the method ``Tensor.__array_namespace__``.

    Args:
        api_version (str, optional): "2021.12", "2022.12" or "2023.12".

    Raises:
        ValueError: for another version.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[1.0, 2.0]])
        >>> xp = x.__array_namespace__()
        >>> xp.permute_dims(x, (1, 0)).shape
        [2, 1]
    """
    if api_version not in (None, *_VERSIONS):
        raise ValueError(f"__array_namespace__: api_version must be one of {', '.join(_VERSIONS)}, got {api_version!r}")
    return sys.modules[__name__]


# Functions whose arguments are the standard's; name of the standard to name of paddle.
_SAME = """
abs acos acosh add=add asin asinh atan atan2 atanh ceil conj cos cosh divide equal exp expm1 floor greater
greater_equal imag isfinite isinf isnan less=less_than less_equal log log1p log2 log10 logaddexp logical_and
logical_not logical_or logical_xor maximum minimum multiply negative=neg not_equal pow real round sign sin sinh sqrt
square subtract tan tanh trunc hypot broadcast_to flip roll expand_dims=unsqueeze squeeze stack unbind moveaxis
matmul meshgrid tril triu where zeros_like ones_like full_like floor_divide remainder
""".split()

_DIRECT = {ours: theirs or ours for ours, _, theirs in (item.partition("=") for item in _SAME)}
_DIRECT["greater"] = "greater_than"

_RANKS = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def __getattr__(name: str) -> Any:
    if name in _DIRECT:
        return _named(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: not in the array API standard, or not here")


def __dir__() -> list[str]:
    return sorted({n for n in globals() if not n.startswith("_")} | set(_DIRECT))


_BINARY = frozenset(
    "add atan2 divide equal floor_divide greater greater_equal hypot less less_equal logaddexp maximum minimum "
    "multiply not_equal pow remainder subtract logical_and logical_or logical_xor".split()
)


def _named(name: str) -> Any:
    function = getattr(paddle, _DIRECT[name])
    if name in _BINARY:

        def binary(x1: Any, x2: Any, /) -> Any:
            return function(*_promoted(x1, x2))

        binary.__name__ = name
        globals()[name] = binary
        return binary
    globals()[name] = function
    return function


def _promoted(*values: Any) -> list:
    """Tensors of the type that holds all of them; Python numbers take the type of the Tensors."""
    tensors = [v for v in values if isinstance(v, _core.Tensor)]
    dtype = result_type(*tensors)
    return [v.astype(dtype) if isinstance(v, _core.Tensor) else paddle.to_tensor(v, dtype) for v in values]


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The type to which the operands are converted.

    Examples:
        >>> import paddle
        >>> xp = paddle.ones([1]).__array_namespace__()
        >>> xp.result_type(xp.int32, xp.int64) == "int64"
        True
    """
    names = [convert_dtype(getattr(v, "dtype", v)) for v in arrays_and_dtypes]
    if not names:
        raise ValueError("result_type: at least one Tensor or type is needed")
    wide = {"complex128", "float64"} & set(names)
    if builtins.any(n.startswith("complex") for n in names):
        return getattr(sys.modules[__name__], "complex128" if wide else "complex64")
    if "uint8" in names and "int8" in names and set(names) <= {"uint8", "int8", "bool"}:
        return int16
    return _dtype(builtins.max(names, key=_RANKS.index))


def _dtype(name: Any) -> Any:
    return getattr(paddle, convert_dtype(name))


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """A Tensor of the values; `copy=False` refuses where one is needed.

    Examples:
        >>> import paddle
        >>> paddle.ones([1]).__array_namespace__().asarray([1.0, 2.0]).shape
        [2]
    """
    if isinstance(obj, _core.Tensor):
        if dtype is not None and convert_dtype(dtype) != convert_dtype(obj.dtype):
            if copy is False:
                raise ValueError("asarray: copy=False, and another dtype needs a copy")
            return obj.astype(dtype)
        return obj.clone() if copy else obj
    if copy is False:
        raise ValueError(f"asarray: copy=False, and {type(obj).__name__} needs a copy; use from_dlpack")
    return paddle.to_tensor(obj, dtype=dtype, place=device)


def astype(x, dtype, /, *, copy=True, device=None):
    """The elements as another type."""
    if convert_dtype(dtype) == convert_dtype(x.dtype):
        return x.clone() if copy else x
    return x.astype(dtype)


def can_cast(from_, to, /):
    """Whether the promotion of types reaches `to`."""
    return result_type(from_, to) == _dtype(to)


def isdtype(dtype, kind):
    """Whether a type is of a kind ("bool", "integral", "real floating", "numeric", ...) or equal to a type.

    Examples:
        >>> import paddle
        >>> xp = paddle.ones([1]).__array_namespace__()
        >>> xp.isdtype(xp.float32, "real floating"), xp.isdtype(xp.int8, ("bool", "unsigned integer"))
        (True, False)
    """
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, k) for k in kind)
    name = convert_dtype(dtype)
    signed, unsigned = name.startswith("int"), name == "uint8"
    floating, complex_ = "float" in name, name.startswith("complex")
    kinds = {
        "bool": name == "bool",
        "signed integer": signed,
        "unsigned integer": unsigned,
        "integral": signed or unsigned,
        "real floating": floating,
        "complex floating": complex_,
        "numeric": signed or unsigned or floating or complex_,
    }
    if isinstance(kind, str) and kind in kinds:
        return kinds[kind]
    return name == convert_dtype(kind)


def finfo(type, /):  # noqa: A002
    """Limits of a floating-point type."""
    return paddle.finfo(getattr(type, "dtype", type))


def iinfo(type, /):  # noqa: A002
    """Limits of an integer type."""
    return paddle.iinfo(getattr(type, "dtype", type))


def from_dlpack(x, /, *, device=None, copy=None):
    """A Tensor over the memory of another library's array."""
    return paddle.from_dlpack(x, device=device, copy=copy)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """Numbers at equal steps."""
    start, stop = (0, start) if stop is None else (start, stop)
    if dtype is None:
        dtype = (
            paddle.get_default_dtype() if builtins.any(isinstance(v, float) for v in (start, stop, step)) else "int64"
        )
    return paddle.arange(start, stop, step, dtype)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """`num` numbers between two."""
    step = (stop - start) / num
    return paddle.linspace(start, stop if endpoint else stop - step, num, dtype)


def _shape(shape: Any) -> list[int]:
    return [shape] if isinstance(shape, int) else list(shape)


def empty(shape, *, dtype=None, device=None):
    """A Tensor of zeros."""
    return zeros(shape, dtype=dtype)


def empty_like(x, /, *, dtype=None, device=None):
    """A Tensor of zeros in the shape of another."""
    return paddle.zeros_like(x, dtype)


def zeros(shape, *, dtype=None, device=None):
    """A Tensor of zeros."""
    return paddle.zeros(_shape(shape), dtype)


def ones(shape, *, dtype=None, device=None):
    """A Tensor of ones."""
    return paddle.ones(_shape(shape), dtype)


def full(shape, fill_value, *, dtype=None, device=None):
    """A Tensor of one value."""
    if dtype is None:
        kinds = {builtins.bool: "bool", int: "int64"}
        dtype = kinds.get(type(fill_value), paddle.get_default_dtype())
    return paddle.full(_shape(shape), fill_value, dtype)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """Ones on a diagonal."""
    columns = n_rows if n_cols is None else n_cols
    return paddle.to_tensor(np.eye(n_rows, columns, k, convert_dtype(dtype or paddle.get_default_dtype())))


def bitwise_and(x1, x2, /):
    """Elementwise and of integers' bits."""
    return _bits(np.bitwise_and, x1, x2)


def bitwise_or(x1, x2, /):
    """Elementwise or of integers' bits."""
    return _bits(np.bitwise_or, x1, x2)


def bitwise_xor(x1, x2, /):
    """Elementwise exclusive or of integers' bits."""
    return _bits(np.bitwise_xor, x1, x2)


def bitwise_left_shift(x1, x2, /):
    """Shifts of integers' bits to the left."""
    return _bits(np.left_shift, x1, x2)


def bitwise_right_shift(x1, x2, /):
    """Shifts of integers' bits to the right."""
    return _bits(np.right_shift, x1, x2)


def bitwise_invert(x, /):
    """Inverts integers' bits."""
    return paddle.to_tensor(np.invert(x.numpy()))


def _bits(function: Any, x1: Any, x2: Any) -> Any:
    a, b = _promoted(x1, x2)
    return paddle.to_tensor(function(a.numpy(), b.numpy()))


def positive(x, /):
    """The elements."""
    return x.clone()


def signbit(x, /):
    """Whether the sign bit is set."""
    return paddle.to_tensor(np.signbit(x.numpy()))


def copysign(x1, x2, /):
    """The magnitude of one operand with the sign of the other."""
    x1, x2 = _promoted(x1, x2)
    return paddle.where(signbit(x2), -paddle.abs(x1), paddle.abs(x1))


def clip(x, /, min=None, max=None):  # noqa: A002
    """Elements limited to an interval."""
    x = x if min is None else _named("maximum")(x, min)
    return x if max is None else _named("minimum")(x, max)


def permute_dims(x, /, axes):
    """The dimensions in another order."""
    return paddle.transpose(x, list(axes))


def matrix_transpose(x, /):
    """The last two dimensions exchanged."""
    rank = x.ndim
    return paddle.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def reshape(x, /, shape, *, copy=None):
    """Another shape."""
    return paddle.reshape(x, _shape(shape))


def concat(arrays, /, *, axis=0):
    """Tensors joined along an axis; along None flattened."""
    values = _promoted(*arrays)
    if axis is None:
        return paddle.concat([paddle.flatten(v) for v in values], 0)
    return paddle.concat(values, axis)


def repeat(x, repeats, /, *, axis=None):
    """Elements repeated."""
    return paddle.repeat_interleave(x, repeats, axis)


def tile(x, repetitions, /):
    """The Tensor repeated along its dimensions."""
    return paddle.tile(x, list(repetitions))


def unstack(x, /, *, axis=0):
    """The Tensors along an axis."""
    return tuple(paddle.unbind(x, axis))


def broadcast_arrays(*arrays):
    """Tensors of one shape."""
    return paddle.broadcast_tensors(list(arrays))


def take(x, indices, /, *, axis=None):
    """The elements at indices along an axis."""
    return paddle.index_select(x, indices, 0 if axis is None else axis)


def nonzero(x, /):
    """Indices of the elements that are not zero, a Tensor for each dimension."""
    return tuple(paddle.to_tensor(i) for i in np.nonzero(x.numpy()))


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where elements would be inserted."""
    x1 = x1 if sorter is None else paddle.index_select(x1, sorter, 0)
    return paddle.searchsorted(x1, x2, right=side == "right")


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """Indices that sort."""
    return paddle.argsort(x, axis, descending)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """Sorted elements."""
    return paddle.sort(x, axis, descending)


def argmax(x, /, *, axis=None, keepdims=False):
    """Indices of the greatest elements."""
    return paddle.argmax(x, axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    """Indices of the least elements."""
    return paddle.argmin(x, axis, keepdims)


def _axes(axis: Any) -> Any:
    return list(axis) if isinstance(axis, tuple) else axis


def _accumulated(x: Any, dtype: Any) -> Any:
    """Sums and products of narrow integers are int64."""
    if dtype is not None:
        return x.astype(dtype)
    return x.astype("int64") if isdtype(x.dtype, ("bool", "integral")) else x


def sum(x, /, *, axis=None, dtype=None, keepdims=False):  # noqa: A001
    """Sums."""
    return paddle.sum(_accumulated(x, dtype), _axes(axis), keepdim=keepdims)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """Products."""
    return paddle.prod(_accumulated(x, dtype), _axes(axis), keepdims)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Sums of all elements up to each one."""
    out = paddle.cumsum(_accumulated(x, dtype), -1 if axis is None else axis)
    if not include_initial:
        return out
    axis = -1 if axis is None else axis
    first = paddle.zeros_like(paddle.index_select(out, paddle.to_tensor([0]), axis))
    return paddle.concat([first, out], axis)


def mean(x, /, *, axis=None, keepdims=False):
    """Means."""
    return paddle.mean(x, _axes(axis), keepdims)


def max(x, /, *, axis=None, keepdims=False):  # noqa: A001
    """The greatest elements."""
    return paddle.max(x, _axes(axis), keepdims)


def min(x, /, *, axis=None, keepdims=False):  # noqa: A001
    """The least elements."""
    return paddle.min(x, _axes(axis), keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Variances, with `correction` subtracted from the number of elements."""
    centred = x - paddle.mean(x, _axes(axis), True)
    total = paddle.sum(centred * centred, _axes(axis), keepdim=keepdims)
    return total / (x.size / total.size - correction)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Standard deviations, with `correction` subtracted from the number of elements."""
    return paddle.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def all(x, /, *, axis=None, keepdims=False):  # noqa: A001
    """Whether all elements are true."""
    return paddle.all(x.astype("bool"), _axes(axis), keepdims)


def any(x, /, *, axis=None, keepdims=False):  # noqa: A001
    """Whether an element is true."""
    return paddle.any(x.astype("bool"), _axes(axis), keepdims)


def unique_values(x, /):
    """The different elements, sorted."""
    return paddle.unique(x)


def unique_counts(x, /):
    """The different elements, and how often each occurs."""
    return tuple(paddle.unique(x, return_counts=True))


def unique_inverse(x, /):
    """The different elements, and the place of each element among them."""
    values, inverse = paddle.unique(x, return_inverse=True)
    return values, paddle.reshape(inverse, x.shape)


def tensordot(x1, x2, /, *, axes=2):
    """Products summed over axes."""
    return paddle.tensordot(*_promoted(x1, x2), axes=axes)


def vecdot(x1, x2, /, *, axis=-1):
    """Inner products along an axis."""
    x1, x2 = _promoted(x1, x2)
    return paddle.sum(paddle.conj(x1) * x2 if paddle.is_complex(x1) else x1 * x2, axis)
