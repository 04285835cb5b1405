"""Functions as syntax trees, and translated trees as functions over the original closure, globals and lines."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from collections.abc import Sequence
from types import CodeType, FunctionType
from typing import Any

from .errors import unsupported

#: The name under which translated code finds the conversion functions.
RUNTIME = "_jst"


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _file_tree(lines: list[str]) -> ast.Module | None:
    try:
        return _parsed("".join(lines))
    except SyntaxError:  # a cell of a notebook, or a file that has changed
        return None


def _first_line(node: Any) -> int:
    decorators = getattr(node, "decorator_list", None)
    return min([node.lineno, *(d.lineno for d in decorators)]) if decorators else node.lineno


def _contains(node: ast.Lambda, code: CodeType) -> bool:
    """Whether the instructions of `code` are in the lambda's body."""
    for line, end_line, column, end_column in code.co_positions():
        if line is None or end_line is None or column is None or end_column is None:
            continue
        if column == end_column == 0:
            continue  # the entry of the function
        start, end = (line, column), (end_line, end_column)
        body = node.body
        if (body.lineno, body.col_offset) <= start and end <= (body.end_lineno, body.end_col_offset):
            return True
    return False


def _matching(tree: ast.AST, code: CodeType, offset: int) -> Any:
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            if code.co_name == "<lambda>" and _first_line(node) + offset <= code.co_firstlineno:
                if code.co_firstlineno <= (node.end_lineno or 0) + offset and (offset or _contains(node, code)):
                    return node
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.name == code.co_name and _first_line(node) + offset == code.co_firstlineno:
                return node
    return None


def tree_of(function: FunctionType) -> Any:
    """A copy of the function's definition, with the lines of its file.

    Raises:
        UnsupportedSyntaxError: when the source text is not there.
    """
    code = function.__code__
    try:
        lines, _ = inspect.findsource(code)
        whole = _file_tree(lines)
        found, offset = (None, 0) if whole is None else (_matching(whole, code, 0), 0)
        if found is None:
            part, start = inspect.getsourcelines(code)
            offset = start - 1
            found = _matching(ast.parse(textwrap.dedent("".join(part))), code, offset)
    except (OSError, TypeError, SyntaxError, IndexError):
        found = None
    if found is None:
        raise unsupported("a function whose source text is not there", code.co_filename, code.co_firstlineno)
    found = _copied(found)
    if offset:
        ast.increment_lineno(found, offset)
    return found


def _copied(node: Any) -> Any:
    if isinstance(node, ast.AST):
        new = type(node)(**{name: _copied(value) for name, value in ast.iter_fields(node)})
        return ast.copy_location(new, node)
    return [_copied(item) for item in node] if isinstance(node, list) else node


class _Mangle(ast.NodeTransformer):
    """Private names (`self.__x`) of a class, as the compiler names them within the class."""

    def __init__(self, owner: str) -> None:
        self.owner = owner.lstrip("_")

    def _name(self, name: str) -> str:
        private = name.startswith("__") and not name.endswith("__") and "." not in name
        return f"_{self.owner}{name}" if private and self.owner else name

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        node.attr = self._name(node.attr)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._name(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._name(node.arg)
        return node


def mangled(node: Any, qualname: str) -> Any:
    """The tree with private names of the class in `qualname` ("Net.forward")."""
    parts = qualname.split(".")
    if len(parts) < 2 or parts[-2] == "<locals>":
        return node
    return _Mangle(parts[-2]).visit(node)


def parameters(names: Sequence[str]) -> ast.arguments:
    """Positional parameters."""
    listed = [ast.arg(arg=name) for name in names]
    return ast.arguments(
        posonlyargs=[], args=listed, vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
    )


def define(name: str, arguments: ast.arguments, body: Sequence[ast.stmt]) -> ast.FunctionDef:
    """A function without decorators."""
    fields: dict[str, Any] = {"decorator_list": [], "returns": None}
    if sys.version_info >= (3, 12):
        fields["type_params"] = []
    return ast.FunctionDef(name=name, args=arguments, body=list(body), **fields)


def literal(value: Any) -> ast.Constant:
    """A constant: also tuples of constants."""
    return ast.Constant(value=value)


def factory_of(definition: Any, code: CodeType, global_names: dict[str, Any]) -> Any:
    """The function that makes the translated function: of the runtime and the free variables of the original."""
    free = code.co_freevars
    name = definition.name
    end: ast.stmt = ast.Return(value=ast.Name(id=name, ctx=ast.Load()))
    made = define("_jst_factory", parameters((RUNTIME, *free)), [definition, end])
    for each in (made, end):
        ast.copy_location(each, definition)
    module = ast.fix_missing_locations(ast.Module(body=[made], type_ignores=[]))
    space: dict[str, Any] = {}
    exec(compile(module, code.co_filename, "exec"), global_names, space)
    return space["_jst_factory"]


def bound_to(factory: Any, function: FunctionType, runtime: Any) -> FunctionType:
    """The translated function over the closure cells of `function`."""
    free = function.__code__.co_freevars
    template = factory(runtime, *[None] * len(free))
    cells = dict(zip(free, function.__closure__ or (), strict=True))
    closure = tuple(
        cells.get(name, cell)
        for name, cell in zip(template.__code__.co_freevars, template.__closure__ or (), strict=True)
    )
    made = FunctionType(template.__code__, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__doc__, made.__qualname__, made.__module__ = function.__doc__, function.__qualname__, function.__module__
    made.__annotations__ = function.__annotations__
    return made
