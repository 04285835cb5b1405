"""Arithmetic, products, reductions and logical operators of fluid.layers.nn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddle import _ops
from paddle._basics import flags, mode
from paddle._basics.checks import INTS, check_type
from paddle._basics.dtypes import convert_dtype
from paddle._basics.element_types import FLOATS, HALF_FLOATS, HALF_NUMERIC, INDICES, NUMERIC, takes
from paddle._basics.mode import in_static_mode
from paddle._dispatch.append import activated, named
from paddle._dispatch.arguments import number
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype, check_variables
from paddle.tensor.math import add_n


def _c_remainder(x, y, axis):
    """The remainder of integers with the sign of `x`, as in 1.8."""
    quotient = _ops.elementwise_floordiv(x, y, axis=axis)
    return _ops.elementwise_sub(x, _ops.elementwise_mul(quotient, y, axis=axis))


def _elementwise(op_type: str, what: str):
    def function(x, y, axis=-1, act=None, name=None):
        kinds = HALF_NUMERIC
        check_variable_and_dtype(x, "x", kinds, op_type)
        check_variable_and_dtype(y, "y", kinds, op_type)
        if op_type == "elementwise_mod" and flags.is_18() and convert_dtype(x.dtype) in INDICES:
            return activated(named(name, _c_remainder, x, y, axis), act, name)
        return activated(named(name, getattr(_ops, op_type), x, y, axis=axis), act, name)

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"""{what}, element by element; `y` is broadcast to `x`.

    Args:
        x, y (Variable): of one type: float16, float32, float64, int32 or int64.
        axis (int): the dimension of `x` that the first of `y` belongs to; -1 aligns the last ones.
        act (str, optional): an activation operator.
        name (str, optional): a name for the output.

    Returns:
        Variable.
    """
    return function


elementwise_add = _elementwise("elementwise_add", "x + y")
elementwise_sub = _elementwise("elementwise_sub", "x - y")
elementwise_mul = _elementwise("elementwise_mul", "x * y")
elementwise_div = _elementwise("elementwise_div", "x / y")
elementwise_max = _elementwise("elementwise_max", "The greater of x and y")
elementwise_min = _elementwise("elementwise_min", "The lesser of x and y")
elementwise_pow = _elementwise("elementwise_pow", "x to the power y")
elementwise_mod = _elementwise("elementwise_mod", "The remainder of x / y")
elementwise_floordiv = _elementwise("elementwise_floordiv", "x // y")


def _reduction(op_type: str, what: str, kinds: Sequence[str]):
    def function(input, dim=None, keep_dim=False, name=None):  # noqa: A002
        check_variable_and_dtype(input, "input", kinds, op_type)
        if dim is not None and not isinstance(dim, (*INTS, list, tuple)):
            raise TypeError(f"The type of dim must be int, list or tuple, but received {type(dim)}")
        dims = [dim] if isinstance(dim, INTS) else list(dim or [])
        reduce_all = not dims or len(dims) == len(input.shape)
        return named(name, getattr(_ops, op_type), input, dim=dims or [0], keep_dim=keep_dim, reduce_all=reduce_all)

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"""{what} over the dimensions `dim`, or over all.

    Args:
        input (Variable): {", ".join(kinds)}.
        dim (int|list|tuple, optional): which dimensions; negative ones count from the end.
        keep_dim (bool): keep them with size 1.
        name (str, optional): a name for the output.

    Returns:
        Variable.
    """
    return function


reduce_sum = _reduction("reduce_sum", "The sum", NUMERIC)
reduce_mean = _reduction("reduce_mean", "The mean", ["float32", "float64", "int32", "int64"])
reduce_max = _reduction("reduce_max", "The maximum", NUMERIC)
reduce_min = _reduction("reduce_min", "The minimum", NUMERIC)
reduce_prod = _reduction("reduce_prod", "The product", NUMERIC)
reduce_all = _reduction("reduce_all", "Whether all hold", ["bool"])
reduce_any = _reduction("reduce_any", "Whether any holds", ["bool"])

__all__ = [
    "elementwise_add",
    "elementwise_sub",
    "elementwise_mul",
    "elementwise_div",
    "elementwise_max",
    "elementwise_min",
    "elementwise_pow",
    "elementwise_mod",
    "elementwise_floordiv",
    "reduce_sum",
    "reduce_mean",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_all",
    "reduce_any",
    "mean",
    "mul",
    "matmul",
    "scale",
    "sum",
    "clip",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "pow",
    "log",
    "smooth_l1",
    "mean_iou",
]


def mean(x, name=None):
    """The mean of all elements.

    Args:
        x (Variable): float16, float32 or float64.

    Returns:
        Variable: one element.
    """
    check_variable_and_dtype(x, "x", takes("mean"), "mean")
    return named(name, _ops.mean, x)


def mul(x, y, x_num_col_dims=1, y_num_col_dims=1, name=None):
    """The product of `x` and `y` flattened to matrices.

    Args:
        x, y (Variable): float16, float32 or float64.
        x_num_col_dims, y_num_col_dims (int): number of leading dimensions that form the rows.

    Returns:
        Variable: x.shape[:x_num_col_dims] + y.shape[y_num_col_dims:].
    """
    check_variable_and_dtype(x, "x", HALF_FLOATS, "mul")
    check_variable_and_dtype(y, "y", HALF_FLOATS, "mul")
    return named(name, _ops.mul, x, y, x_num_col_dims=x_num_col_dims, y_num_col_dims=y_num_col_dims)


def _check_product(x, y, transpose_x: bool, transpose_y: bool) -> None:
    shapes = []
    for name, var, transposed, lone in (("x", x, transpose_x, 0), ("y", y, transpose_y, 1)):
        check_variable_and_dtype(var, name, HALF_FLOATS, "matmul")
        shape = list(var.shape)
        if len(shape) == 1:
            shape.insert(lone, 1)
        if transposed:
            shape[-2:] = shape[:-3:-1]
        shapes.append(shape)
    a, b = shapes
    assert a[-1] == b[-2] or a[-1] < 0 or b[-2] < 0, (
        f"matmul: the inner sizes of x and y differ (after transpose_x and transpose_y), got shapes {a} and {b}"
    )
    if len(a) > 2 and len(b) > 2:
        for i, (m, n) in enumerate(zip(a[:-2], b[:-2], strict=False)):
            if m >= 0 and n >= 0 and m != n:
                raise ValueError(f"matmul: batch dimension {i} of x and y differs, got shapes {a} and {b}")


def matmul(x, y, transpose_x=False, transpose_y=False, alpha=1.0, name=None):
    """alpha * (x @ y), with batch dimensions.

    Args:
        x, y (Variable): float16, float32 or float64; one dimension is a vector.
        transpose_x, transpose_y (bool): swap the last two dimensions first.
        alpha (float): a factor.

    Raises:
        AssertionError, ValueError: for incompatible shapes.
    """
    if in_static_mode():
        _check_product(x, y, transpose_x, transpose_y)
    return named(name, _ops.matmul, x, y, transpose_X=transpose_x, transpose_Y=transpose_y, alpha=float(alpha))


def scale(x, scale=1.0, bias=0.0, bias_after_scale=True, act=None, name=None):
    """scale * x + bias, or scale * (x + bias).

    Args:
        x (Variable): numbers.
        scale (float|Variable): a factor; a tensor of shape [1] is accepted.
        bias (float): the summand.
        bias_after_scale (bool): add after the multiplication.
        act (str, optional): name of an activation operator.
    """
    check_variable_and_dtype(x, "x", [*HALF_FLOATS, "int8", "int16", "int32", "int64", "uint8"], "scale")
    keywords = {"bias": float(bias), "bias_after_scale": bias_after_scale}
    if isinstance(scale, Variable) and in_static_mode():
        keywords["ScaleTensor"] = scale
    else:
        keywords["scale"] = float(number(scale))
    return activated(named(name, _ops.scale, x, **keywords), act, name)


def sum(x):  # noqa: A001
    """The sum of several tensors.

    Args:
        x (Variable|list of Variable): of the same shape and type.
    """
    return add_n(x)


def clip(x, min, max, name=None):  # noqa: A002
    """`x` clipped to [min, max], element by element.

    Args:
        x (Variable): float16, float32 or float64.
        min, max (float): the bounds.
    """
    check_variable_and_dtype(x, "x", HALF_FLOATS, "clip")
    return named(name, _ops.clip, x, min=float(min), max=float(max))


def _logical(op_type, args, out, name):
    for which, x in zip("xy", args, strict=False):
        check_variable_and_dtype(x, which, ["bool"], op_type)
    if out is not None:
        check_type(out, "out", Variable, op_type)
    return named(name, getattr(_ops, op_type), *args, Out=out)


def _logical_of_two(op_type, x, y, out, name):
    if in_static_mode():
        check_type(y, "y", Variable, op_type)
        if x.dtype != y.dtype:
            raise TypeError(f"{op_type}: x and y differ in type: {convert_dtype(x.dtype)} and {convert_dtype(y.dtype)}")
    return _logical(op_type, (x, y), out, name)


def logical_and(x, y, out=None, name=None):
    """x and y of bool tensors, element by element; written to `out` if given."""
    return _logical_of_two("logical_and", x, y, out, name)


def logical_or(x, y, out=None, name=None):
    """x or y of bool tensors, element by element; written to `out` if given."""
    return _logical_of_two("logical_or", x, y, out, name)


def logical_xor(x, y, out=None, name=None):
    """x xor y of bool tensors, element by element; written to `out` if given."""
    return _logical_of_two("logical_xor", x, y, out, name)


def logical_not(x, out=None, name=None):
    """not x of a bool tensor, element by element; written to `out` if given."""
    return _logical("logical_not", (x,), out, name)


def pow(x, factor=1.0, name=None):  # noqa: A001
    """x to the power `factor`, element by element.

    Args:
        x (Variable): float32, float64, int32 or int64.
        factor (float|Variable): a number, or a tensor of shape [1].
    """
    check_variable_and_dtype(x, "x", HALF_NUMERIC, "pow")
    if isinstance(factor, Variable) and in_static_mode():
        check_variable_and_dtype(factor, "factor", ["float32"], "pow")
        factor.stop_gradient = True
        return named(name, _ops.pow, x, factor)
    return named(name, _ops.pow, x, factor=float(number(factor)))


def log(x, name=None):
    """The natural logarithm, element by element.

    Args:
        x (Variable): float32 or float64.
    """
    check_variable_and_dtype(x, "x", FLOATS, "log")
    return named(name, _ops.log, x)


def smooth_l1(x: Any, y: Any, inside_weight: Any = None, outside_weight: Any = None, sigma: float | None = None) -> Any:
    """Smooth L1 loss: the sum over each row of outside_weight * f(inside_weight * (x - y)), with f(d) =
    0.5 * (sigma * d) squared below 1 / sigma squared, and abs(d) - 0.5 / sigma squared above.

    Args:
        x, y (Variable): [N, ...], float32 or float64.
        inside_weight, outside_weight (Variable): of the same shape; both or none.
        sigma (float): default 1.0.

    Returns:
        Variable: [N, 1].
    """
    check_variables("smooth_l1_loss", FLOATS, X=x, Y=y)
    return _ops.smooth_l1_loss(x, y, inside_weight, outside_weight, sigma=1.0 if sigma is None else sigma)[1]


def mean_iou(input: Any, label: Any, num_classes: int) -> Any:  # noqa: A002
    """The mean over the classes of intersection over union of predictions and labels.

    Args:
        input, label (Variable): int32 or int64 classes, of the same shape.
        num_classes (int): number of classes.

    Returns:
        tuple: the mean, float32 [1], and the numbers of wrong and of correct elements per class, int32 [num_classes].

    Raises:
        ValueError: for an element that is not a class.

    Examples:
        >>> import paddle
        >>> p, y = paddle.to_tensor([0, 1, 1]), paddle.to_tensor([0, 1, 0])
        >>> float(paddle.fluid.layers.mean_iou(p, y, 2)[0])
        0.5
    """
    check_variables("mean_iou", ["int32", "int64"], Predictions=input, Labels=label)
    return _ops.mean_iou(input, label, num_classes=num_classes)
