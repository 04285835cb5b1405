"""convert_call: the translated form of what translated code calls."""

from __future__ import annotations

import builtins
import functools
import os
import sys
import types
from typing import Any

import paddle._core as _core
from paddle import _ops
from paddle._basics import mode
from paddle._basics.dtypes import VarType
from paddle._programs import building
from paddle._programs.parameter import ParamBase
from paddle.nn.layer.layers import Layer

from ..wrapped import unwrap_decorators
from . import logging_utils
from .cache import convert_to_static, is_translated
from .convert_operators import (
    convert_isinstance,
    convert_len,
    convert_pop,
    convert_print,
    convert_var_dtype,
)
from .errors import UnsupportedSyntaxError
from .iteration import convert_enumerate, convert_range, convert_zip
from .values import as_var, is_var, variable, write_array

__all__ = ["convert_call"]

#: The attribute of a function that not_to_static sets.
CONVERSION_OPTIONS = "An attribute for a function that indicates conversion flags of the function in dynamic-to-static."


class ConversionOptions:
    """How a function is translated.

    Args:
        not_convert (bool): whether it stays as it is.
    """

    def __init__(self, not_convert: bool = False) -> None:
        self.not_convert = not_convert


def _converted(dtype: str) -> Any:
    kind = getattr(builtins, dtype)

    def convert(*args: Any, **options: Any) -> Any:
        return convert_var_dtype(args[0], dtype) if len(args) == 1 and not options else kind(*args, **options)

    return convert


_BUILTINS: dict[Any, Any] = {
    len: convert_len,
    print: convert_print,
    range: convert_range,
    enumerate: convert_enumerate,
    zip: convert_zip,
    isinstance: convert_isinstance,
    bool: _converted("bool"),
    int: _converted("int"),
    float: _converted("float"),
}

_TENSORS = (_core.Tensor, ParamBase)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
#: where files of libraries are: other files are the user's, whatever their module is called
_LIBRARIES = (_PACKAGE, os.path.dirname(os.__file__), "<frozen")
_SKIPPED = frozenset({"paddle", "numpy", "scipy", "six", *sys.stdlib_module_names})


def is_paddle_func(func: Any) -> bool:
    """Whether a function belongs to this package."""
    if isinstance(func, functools.partial):
        func = func.func
    module = getattr(func, "__module__", None) or ""
    return module.split(".")[0] == "paddle"


def _is_foreign(func: Any) -> bool:
    """Whether a function belongs to a library that does not use Tensors."""
    code = getattr(func, "__code__", None)
    if code is not None and not code.co_filename.startswith(_LIBRARIES):
        return False
    module = (getattr(func, "__module__", None) or "").split(".")[0]
    return module in _SKIPPED


def convert_call(func: Any) -> Any:
    """The translated form of a callable: of functions, methods, partials and objects with `__call__`.

    Functions of this package, of Python's library and of numpy, functions under `not_to_static`, and functions that
    cannot be translated stay as they are.

    Args:
        func (callable): what is called.

    Examples:
        >>> import paddle
        >>> from paddle.jit.dy2static import convert_call
        >>> paddle.enable_static()
        >>> def sign(x):
        ...     if paddle.mean(x) < 0:
        ...         return x - 1
        ...     else:
        ...         return x + 1
        >>> x = paddle.full([3, 3], 0.0)
        >>> y = convert_call(sign)(x)
        >>> paddle.static.Executor().run(fetch_list=[y])[0].tolist()[0]
        [1.0, 1.0, 1.0]
    """
    try:
        found = _BUILTINS.get(func)
    except TypeError:  # not hashable
        found = None
    if found is not None:
        return found if mode.in_static_mode() else func
    _, func = unwrap_decorators(func)
    options = getattr(func, CONVERSION_OPTIONS, None)
    if options is not None and options.not_convert:
        return func
    if isinstance(func, functools.partial):
        return functools.partial(convert_call(func.func), *func.args, **func.keywords)
    if isinstance(func, types.FunctionType):
        return _function(func)
    owner = getattr(func, "__self__", None)
    if building.current is not None and type(owner) in _TENSORS and mode.in_static_mode():
        return getattr(variable(owner), func.__name__)
    if isinstance(func, (type, types.BuiltinFunctionType, types.MethodWrapperType)):
        return func
    if isinstance(func, types.MethodType):
        inner = func.__func__
        if isinstance(inner, types.FunctionType):
            made = _function(inner)
            return func if made is inner else types.MethodType(made, func.__self__)
        return func
    if isinstance(func, Layer):
        return _with_variables(func)  # its forward is translated when it is called
    call = getattr(type(func), "__call__", None)  # noqa: B004 (the function itself is wanted)
    if isinstance(call, types.FunctionType) and not _is_foreign(call):
        made = _function(call)
        return func if made is call else types.MethodType(made, func)
    return func


def _function(func: types.FunctionType) -> Any:
    if is_translated(func):
        return func
    if _is_foreign(func):
        return _with_variables(func) if is_paddle_func(func) else func
    try:
        return convert_to_static(func)
    except UnsupportedSyntaxError as error:
        logging_utils.log(1, f"{func.__qualname__} is called as it is: {error}")
        return func


def _with_variables(func: Any) -> Any:
    """A callable of this package, called with Variables in place of eager Tensors."""
    builder = building.current
    if builder is None or not mode.in_static_mode():
        return func

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        if builder.has_tensors((args, kwargs)):
            args, kwargs = builder.variables(args), builder.variables(kwargs)
        return func(*args, **kwargs)

    return call


def list_append(owner: Any, *args: Any) -> Any:
    """`owner.append(...)`."""
    if is_var(owner) and owner.type == VarType.LOD_TENSOR_ARRAY:
        return write_array(owner, _ops.lod_array_length(owner), as_var(*args))
    return convert_call(owner.append)(*args)


def list_pop(owner: Any, *args: Any) -> Any:
    """`owner.pop(...)`."""
    if is_var(owner) and owner.type == VarType.LOD_TENSOR_ARRAY:
        return convert_pop(owner, *args)
    return convert_call(owner.pop)(*args)


def forward_of(layer: Layer) -> Any:
    """The translated forward of a Layer."""
    return convert_call(layer.forward)
