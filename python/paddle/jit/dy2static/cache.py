"""Translated functions by the code of their originals."""

from __future__ import annotations

import ast
import functools
import sys
import threading
import types
import weakref
from typing import Any

from . import logging_utils
from .errors import UnsupportedSyntaxError
from .source import bound_to, define, factory_of, mangled, tree_of
from .transformer import translate

__all__ = ["convert_to_static"]

#: the module whose functions translated code calls; it imports this one
_RUNTIME = f"{__package__}.runtime"
_LOCK = threading.RLock()
#: code of a function -> (factory, source text) or the error of its translation
_FACTORIES: dict[Any, Any] = {}
#: function -> translated function
_FUNCTIONS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
#: codes that a translation compiled
_TRANSLATED: set[int] = set()


def is_translated(function: types.FunctionType) -> bool:
    """Whether a function is, or was made by, a translated one and needs no translation."""
    return id(function.__code__) in _TRANSLATED


def _remember(code: types.CodeType) -> None:
    """Mark the code of a translated function, of its parts and of lambdas inside; not that of functions it defines."""
    _TRANSLATED.add(id(code))
    for const in code.co_consts:
        if isinstance(const, types.CodeType) and (
            const.co_name.startswith(("_jst_", "<")) or const.co_name == code.co_name
        ):
            _remember(const)


def _as_definition(node: Any) -> Any:
    if not isinstance(node, ast.Lambda):
        return node
    end = ast.copy_location(ast.Return(value=node.body), node.body)
    return ast.copy_location(define("_jst_lambda", node.args, [end]), node)


def _factory(function: types.FunctionType) -> tuple[Any, str]:
    code = function.__code__
    found = _FACTORIES.get((code, id(function.__globals__)))
    if found is None:
        try:
            definition = _as_definition(tree_of(function))
            definition = mangled(definition, function.__qualname__)
            translate(definition, code.co_filename, code.co_freevars)
            found = factory_of(definition, code, function.__globals__), ast.unparse(definition)
            logging_utils.log_transformed_code(logging_utils.LOG_AllTransformer, found[1], function.__qualname__)
        except UnsupportedSyntaxError as error:
            found = error
        _FACTORIES[code, id(function.__globals__)] = found
    if isinstance(found, UnsupportedSyntaxError):
        raise found.with_traceback(None)
    return found


def convert_to_static(function: Any) -> Any:
    """The translated form of a function or method, made once.

    Raises:
        UnsupportedSyntaxError: when it cannot be translated.
    """
    if isinstance(function, types.MethodType):
        return types.MethodType(convert_to_static(function.__func__), function.__self__)
    if not isinstance(function, types.FunctionType):
        return function
    with _LOCK:
        made = _FUNCTIONS.get(function)
        if made is None:
            factory, _ = _factory(function)
            made = bound_to(factory, function, sys.modules[_RUNTIME])
            _remember(made.__code__)
            _FUNCTIONS[function] = made
        return made


def code_of(function: Any) -> str:
    """The source text of the translated function."""
    function = getattr(function, "__func__", function)
    if isinstance(function, functools.partial):
        function = function.func
    with _LOCK:
        return _factory(function)[1]
