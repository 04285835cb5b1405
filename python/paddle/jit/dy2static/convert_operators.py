"""Python's operators, builtins and statements over values that may be Tensors of a Program."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import paddle._core as _core
from paddle import _ops
from paddle._basics.dtypes import VarType, convert_dtype, convert_np_dtype_to_dtype_
from paddle._programs import building
from paddle._programs.variable import Variable
from paddle.static.loops import while_loop

from .branches import Place, scalar_bool, two_ways
from .errors import refuse_truth
from .iteration import Items, read_array
from .values import as_var, constant, is_var, variable, write_array
from .variable_trans_func import to_static_variable

__all__ = [
    "cast_bool_if_necessary",
    "convert_assert",
    "convert_ifelse",
    "convert_len",
    "convert_logical_and",
    "convert_logical_not",
    "convert_logical_or",
    "convert_pop",
    "convert_print",
    "convert_shape_compare",
    "convert_var_dtype",
    "convert_var_shape",
    "convert_var_shape_simple",
    "eval_if_exist_else_none",
    "choose_shape_attr_or_api",
    "convert_while_loop",
]

_COMPARE: dict[str, Callable] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}
_SYMBOLS = {
    "==": "Eq",
    "!=": "NotEq",
    "<": "Lt",
    "<=": "LtE",
    ">": "Gt",
    ">=": "GtE",
    "is": "Is",
    "is not": "IsNot",
    "in": "In",
    "not in": "NotIn",
}


_NOWHERE: Place = ("a list", 0, 0, False)


# ------------------------------------------------------------------ conditions


def cast_bool_if_necessary(var: Any) -> Any:
    """A Tensor as bool."""
    assert is_var(var), f"cast_bool_if_necessary: a Tensor is expected, got {type(var).__name__}"
    if convert_dtype(var.dtype) == "bool":
        return var
    return _ops.cast(var, in_dtype=int(var.dtype), out_dtype=int(VarType.BOOL))


def _logical(op: Callable, name: str, x: Any, y: Any) -> Any:
    if tuple(x.shape) != tuple(y.shape):
        x, y = scalar_bool(x), scalar_bool(y)
    return op(cast_bool_if_necessary(x), cast_bool_if_necessary(y))


def convert_logical_and(x_func: Callable[[], Any], y_func: Callable[[], Any]) -> Any:
    """`x_func() and y_func()`: a bool Tensor when both are Tensors; else Python's, a Tensor last."""
    x = variable(x_func())
    if not is_var(x):
        return x and y_func()
    y = variable(y_func())
    if not is_var(y):
        return y and x
    return _logical(_ops.logical_and, "and", x, y)


def convert_logical_or(x_func: Callable[[], Any], y_func: Callable[[], Any]) -> Any:
    """`x_func() or y_func()`, as convert_logical_and."""
    x = variable(x_func())
    if not is_var(x):
        return x or y_func()
    y = variable(y_func())
    if not is_var(y):
        return y or x
    return _logical(_ops.logical_or, "or", x, y)


def convert_logical_not(x: Any) -> Any:
    """`not x`."""
    x = variable(x)
    return _ops.logical_not(cast_bool_if_necessary(x)) if is_var(x) else not x


def compare(kinds: tuple[str, ...], first: Callable[[], Any], *rest: Callable[[], Any]) -> Any:
    """A chained comparison: each operand is evaluated once, and later ones only where the first holds."""
    left = first()
    right = rest[0]()
    result = _COMPARE[kinds[0]](left, right)
    if len(rest) == 1:
        return result
    held = right
    return convert_logical_and(lambda: result, lambda: compare(kinds[1:], lambda: held, *rest[1:]))


def convert_shape_compare(left: Any, *args: Any) -> Any:
    """A chained comparison, given as `left, "==", right, "<", ...`; Tensors are compared as a whole."""
    assert len(args) >= 2 and len(args) % 2 == 0, "convert_shape_compare: pairs of operator and operand are expected"
    result: Any = None
    for symbol, right in zip(args[::2], args[1::2], strict=True):
        kind = _SYMBOLS[symbol]
        held = _COMPARE[kind](left, right)
        if is_var(held) and kind not in ("Is", "IsNot", "In", "NotIn"):
            reduce = _ops.reduce_any if kind == "NotEq" else _ops.reduce_all
            held = reduce(held, reduce_all=True, dim=[0])
        if result is None:
            result = held
        else:
            result = convert_logical_and(functools.partial(_given, result), functools.partial(_given, held))
        if result is False:
            return False
        left = right
    return result


def _given(value: Any) -> Any:
    return value


# ------------------------------------------------------------------ statements


def convert_ifelse(
    pred: Any, true_fn: Callable, false_fn: Callable, true_args: Any, false_args: Any, return_vars: Any
) -> Any:
    """`true_fn(*true_args)` if `pred` holds, else `false_fn(*false_args)`.

    Args:
        pred (bool|Tensor): the condition.
        true_fn, false_fn (callable): the branches.
        true_args, false_args (tuple): their arguments.
        return_vars (tuple): the variables that the branches return.
    """
    pred = variable(pred)
    if not is_var(pred):
        return true_fn(*true_args) if pred else false_fn(*false_args)
    returned = {id(v) for v in return_vars}
    ready = [[to_static_variable(v) if id(v) in returned else v for v in args] for args in (true_args, false_args)]
    place: Place = ("convert_ifelse", 0, 0, False)
    return two_ways(pred, lambda: true_fn(*ready[0]), lambda: false_fn(*ready[1]), place)


def convert_while_loop(cond: Callable, body: Callable, loop_vars: Any) -> Any:
    """`body` on the loop variables while `cond` of them holds; Tensors become a loop of the Program.

    Args:
        cond (callable): takes the loop variables, returns a bool or a bool Tensor.
        body (callable): takes the loop variables, returns their next values.
        loop_vars (list|tuple): the loop variables.
    """
    going = variable(cond(*loop_vars))
    if is_var(going):
        return while_loop(cond, body, [to_static_variable(variable(v)) for v in loop_vars])
    while cond(*loop_vars):
        loop_vars = body(*loop_vars)
    return loop_vars


def convert_assert(cond: Any, message: Any = "") -> Any:
    """`assert cond, message`: an operator that stops a run of the Program, for a Tensor."""
    cond = variable(cond)
    if not is_var(cond):
        assert cond, message
        return None
    return _ops_assert(cast_bool_if_necessary(cond))


def _ops_assert(cond: Any) -> None:
    getattr(_ops, "assert")(cond, [], summarize=20)


def run_assert(cond: Any, message: Callable[[], Any], place: Place) -> None:
    """An assert statement."""
    cond = variable(cond)
    if is_var(cond):
        convert_assert(cond)
    else:
        assert cond, message()


def convert_print(*args: Any, **options: Any) -> Any:
    """print(): Tensors are printed when the Program runs."""
    out = []
    for arg in args:
        arg = variable(arg)
        if is_var(arg):
            _ops.print(arg, first_n=-1, message="", summarize=20, print_phase="FORWARD")
        else:
            out.append(arg)
    if out or not args:
        print(*out, **options)


def unpack(value: Any, pattern: Any) -> Any:
    """A value that is assigned to several targets: the rows of a Tensor."""
    if pattern is None:
        return value
    value = variable(value)
    if is_var(value):
        if value.shape and value.shape[0] < 0:
            raise refuse_truth("unpacking a Tensor", "Its number of rows is not known")
        value = [value[i] for i in range(value.shape[0] if value.shape else 1)]
    if any(part is not None for part in pattern) and isinstance(value, (list, tuple)) and len(value) == len(pattern):
        return [unpack(item, part) for item, part in zip(value, pattern, strict=True)]
    return value


def value_of(x: Any, method: str) -> Any:
    """`x.numpy()` or `x.item()` in a condition."""
    x = variable(x)
    return x if is_var(x) else getattr(x, method)()


# ------------------------------------------------------------------ builtins


def convert_len(var: Any) -> Any:
    """len()."""
    var = variable(var)
    if isinstance(var, Items):
        return var.length()
    if not is_var(var):
        return len(var)
    if var.type == VarType.LOD_TENSOR_ARRAY:
        return building.number(_ops.lod_array_length(var))
    if var.type not in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS):
        raise TypeError(f"len: a Tensor or a TensorArray is expected, got a variable of type {var.type}")
    if building.current is not None and var.shape and var.shape[0] >= 0:
        return var.shape[0]
    return building.number(_ops.slice(_ops.shape(var), axes=[0], starts=[0], ends=[1]))


def convert_var_dtype(var: Any, dtype: str) -> Any:
    """bool(), int() or float() of a Tensor is a cast; of other values Python's.

    Args:
        var: the value.
        dtype (str): "bool", "int" or "float".
    """
    kinds = {"bool": bool, "int": int, "float": float}
    var = variable(var)
    if not is_var(var):
        return kinds[dtype](var)
    source = convert_dtype(var.dtype)
    assert source in ("bool", "float16", "float32", "float64", "int32", "int64", "uint8"), (
        f"{dtype}(): a Tensor of {source} cannot be converted"
    )
    target = {"bool": "bool", "int": "int64" if source == "int64" else "int32", "float": "float32"}[dtype]
    made = _ops.cast(var, in_dtype=int(var.dtype), out_dtype=int(convert_np_dtype_to_dtype_(target)))
    return building.number(made)


def convert_isinstance(value: Any, kinds: Any) -> bool:
    """isinstance(): a Variable of the Program that is built counts as a Tensor."""
    if is_var(value) and building.current is not None:
        listed = kinds if isinstance(kinds, tuple) else (kinds,)
        return any(kind in (_core.Tensor, object) or issubclass(Variable, kind) for kind in listed)
    return isinstance(value, kinds)


# ------------------------------------------------------------------ lists


def convert_pop(target: Any, *args: Any) -> Any:
    """`target.pop(...)` of a list, a dict or a TensorArray."""
    if not (is_var(target) and target.type == VarType.LOD_TENSOR_ARRAY):
        return target.pop(*args)
    index = args[0] if args else -1
    size = _ops.lod_array_length(target)
    place = index if is_var(index) else constant([1], "int64", index)
    if not is_var(index) and index < 0:
        place = size + index
    item = read_array(target, place)
    # Later items move to the front by one.
    rest = target.block.program.current_block().create_var(type=VarType.LOD_TENSOR_ARRAY, dtype=target.dtype)
    # Of an array the zeros are an array without items: the loop may have no pass.
    _ops.fill_zeros_like(target, Out=rest)
    counter = constant([1], "int64", 0)

    def body(i: Any) -> Any:
        taken = _ops.cast(_ops.greater_equal(i, place), in_dtype=int(VarType.BOOL), out_dtype=int(VarType.INT64))
        write_array(rest, i, read_array(target, i + taken))
        return [i + 1]

    last = size - 1
    while_loop(lambda i: _ops.less_than(i, last), body, [counter])
    _ops.assign(rest, Out=target)
    return item


def get_item(owner: Any, index: Any) -> Any:
    """`owner[index]`: also of a TensorArray, and of a list at a place that is a Tensor."""
    owner, index = variable(owner), variable(index)
    if is_var(owner):
        if owner.type == VarType.LOD_TENSOR_ARRAY:
            return read_array(owner, index)
        return owner[index]
    if is_var(index) and isinstance(owner, (list, tuple)) and owner:
        found = owner[0]
        for i, item in enumerate(owner[1:], 1):
            found = two_ways(
                _is_place(index, i, len(owner)),
                functools.partial(_given, item),
                functools.partial(_given, found),
                _NOWHERE,
            )
        return found
    return owner[index]


def set_item(owner: Any, index: Any, value: Any) -> None:
    """`owner[index] = value`, likewise."""
    index = variable(index)
    if is_var(owner) and owner.type == VarType.LOD_TENSOR_ARRAY:
        write_array(owner, index if is_var(index) else constant([1], "int64", index), as_var(value))
    elif is_var(index) and type(owner) is list:
        for i, item in enumerate(owner):
            owner[i] = two_ways(
                _is_place(index, i, len(owner)),
                functools.partial(_given, value),
                functools.partial(_given, item),
                _NOWHERE,
            )
    else:
        owner[index] = value


def _is_place(index: Any, i: int, size: int) -> Any:
    return _ops.logical_or(_ops.equal(index, _like(index, i)), _ops.equal(index, _like(index, i - size)))


def _like(index: Any, value: int) -> Any:
    return constant([1], convert_dtype(index.dtype), value)


# ------------------------------------------------------------------ shapes


class Shape(list):
    """The sizes of a Tensor; a Variable for each that is known at run time only."""


def shape_of(x: Any) -> Any:
    """`x.shape`."""
    x = variable(x)
    if not is_var(x) or x.type == VarType.LOD_TENSOR_ARRAY:
        return x.shape
    known = list(x.shape)
    if building.current is None and all(size >= 0 for size in known):
        return x.shape
    if all(size >= 0 for size in known):
        return known
    sizes = _ops.shape(x)
    return Shape(
        size if size >= 0 else building.number(_ops.slice(sizes, axes=[0], starts=[i], ends=[i + 1]))
        for i, size in enumerate(known)
    )


def _unknown(shape: Any, idx: int | None) -> bool:
    if idx is not None:
        return shape[idx] < 0
    return any(size < 0 for size in shape)


def convert_var_shape(x: Any, idx: int | None = None, in_control_flow: bool = False) -> Any:
    """`x.shape`, or its entry `idx`: a Tensor where a size is unknown, or with `in_control_flow`."""
    if is_var(x) and (in_control_flow or _unknown(x.shape, idx)):
        sizes = _ops.shape(x)
        return sizes if idx is None else sizes[idx]
    return x.shape if idx is None else x.shape[idx]


def convert_var_shape_simple(x: Any) -> Any:
    """The shape of a Variable as a Tensor; `x.shape` of other values."""
    return _ops.shape(x) if is_var(x) else x.shape


def choose_shape_attr_or_api(attr_shape: Any, api_shape: Any, idx: int | None = None) -> Any:
    """The shape `attr_shape` (or its entry `idx`) where it is known, else `api_shape`."""
    if api_shape is None:
        return attr_shape if idx is None else attr_shape[idx]
    if not isinstance(attr_shape, (list, tuple)):
        if isinstance(attr_shape, int) and attr_shape < 0:
            return api_shape if idx is None else api_shape[idx]
        return attr_shape if idx is None else attr_shape[idx]
    chosen = api_shape if _unknown(attr_shape, idx) else attr_shape
    return chosen if idx is None else chosen[idx]


def eval_if_exist_else_none(name: str, local_symbol_table: dict) -> Any:
    """The value of the expression `name` over a table of names, None when it has none."""
    try:
        return eval(name, local_symbol_table)
    except Exception:
        return None


def unrolled(iterable: Any, place: Place) -> Any:
    """What a comprehension runs over."""
    iterable = variable(iterable)
    items = Items.of(iterable)
    if items is None or isinstance(iterable, range):
        return iterable
    if is_var(items.length()):
        raise refuse_truth(
            "a comprehension over a Tensor", "Its number of rows is not known: write a `for` statement with append"
        )
    return items.unrolled()
