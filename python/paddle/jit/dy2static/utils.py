"""Trees and functions: source text, compilation, the original of a wrapper."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable
from itertools import count
from types import FunctionType
from typing import Any

from ..wrapped import Wrapped
from .convert_call_func import is_paddle_func
from .tree_queries import is_control_flow_to_transform

__all__ = [
    "ast_to_func",
    "ast_to_source_code",
    "func_to_source_code",
    "index_in_list",
    "is_control_flow_to_transform",
    "is_dygraph_api",
    "is_paddle_func",
    "type_name",
    "unwrap",
]

_NUMBERS = count()


def type_name(value: Any) -> str:
    """The name of a value's type."""
    return type(value).__name__


def index_in_list(array_list: list, item: Any) -> int:
    """The first place of `item`, -1 without one."""
    try:
        return array_list.index(item)
    except ValueError:
        return -1


def unwrap(func: Any) -> Any:
    """The function under wrappers of functools and of paddle.jit."""
    while True:
        if isinstance(func, Wrapped):
            func = func.dygraph_function
        elif hasattr(func, "__wrapped__"):
            func = func.__wrapped__
        else:
            return func


def ast_to_source_code(ast_node: ast.AST) -> str:
    """The source text of a tree.

    Raises:
        TypeError: when it is no tree.
    """
    if not isinstance(ast_node, ast.AST):
        raise TypeError(f"ast_to_source_code: a tree of Python's ast is expected, got {type_name(ast_node)}")
    return ast.unparse(ast_node)


def func_to_source_code(function: Any, dedent: bool = True) -> str:
    """The source text of a function, from its file."""
    text = inspect.getsource(unwrap(function))
    return textwrap.dedent(text) if dedent else text


def ast_to_func(ast_root: ast.AST, dyfunc: Callable, delete_on_exit: bool = True) -> tuple[Callable, str]:
    """The function that a tree defines, with the globals of `dyfunc`, and the name of its text in tracebacks.

    Args:
        ast_root (ast.AST): a module whose first function has the name of `dyfunc`.
        dyfunc (callable): the original.
        delete_on_exit (bool): has no effect: no file is written.

    Raises:
        TypeError: when `ast_root` is no tree, or `dyfunc` no function.
    """
    if not isinstance(ast_root, ast.AST):
        raise TypeError(f"ast_to_func: Type of ast_root should be gast.AST or ast.AST, but received {type(ast_root)}")
    if not isinstance(dyfunc, FunctionType):
        raise TypeError(f"ast_to_func: a function is expected, got {type_name(dyfunc)}")
    text = ast_to_source_code(ast_root)
    filename = f"<translated {next(_NUMBERS)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    space = dict(dyfunc.__globals__)
    exec(compile(text, filename, "exec"), space)
    made = space[dyfunc.__name__]
    made.__defaults__ = dyfunc.__defaults__
    return made, filename


def is_dygraph_api(node: ast.AST) -> bool:
    """Whether a call in a tree names a function or class of `paddle.fluid.dygraph`."""
    function = getattr(node, "func", None)
    text = ast_to_source_code(function) if isinstance(function, ast.AST) else ""
    return ".dygraph." in f".{text}." and "to_static" not in text
