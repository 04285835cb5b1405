"""The rewrite of a module's source: arguments of conversions to numbers pass through `numbers.single`.

``float(x)``, ``int(x)``, ``map(float, x)``, ``"%f" % x``, ``"{:f}".format(x)``, ``f"{x:f}"``, ``math.log(x)``,
``log.info("%f", x)``, ``a[i] = x``.
New nodes have the position of the argument, so lines and marks of tracebacks are those of the source.
"""

from __future__ import annotations

import ast
from typing import Any

__all__ = ["OPERANDS", "SINGLE", "compiled"]

#: names of the functions in the builtins of a rewritten module
SINGLE, OPERANDS = "__paddle_legacy_single__", "__paddle_legacy_operands__"
_CONVERSIONS = frozenset({"float", "int", "complex", "long", "range", "xrange", "format"})
_MODULES = frozenset({"math", "cmath", "struct"})
#: methods of loggers, whose arguments are formatted in the module logging
_LOGGERS = frozenset({"debug", "info", "warning", "warn", "error", "critical", "exception", "log"})
_PLAIN = (ast.Constant, ast.JoinedStr, ast.Lambda, ast.Compare)


def _through(function: str, argument: Any) -> Any:
    """The call ``function(argument)``, at the argument's position."""
    if isinstance(argument, _PLAIN):
        return argument
    name = ast.copy_location(ast.Name(function, ast.Load()), argument)
    return ast.copy_location(ast.Call(name, [argument], []), argument)


def _single(argument: Any) -> Any:
    if isinstance(argument, ast.Starred):
        argument.value = _through(OPERANDS, ast.copy_location(_tuple(argument.value), argument.value))
        return argument
    return _through(SINGLE, argument)


def _tuple(sequence: Any) -> Any:
    """``(*sequence,)``"""
    return ast.Tuple([ast.copy_location(ast.Starred(sequence, ast.Load()), sequence)], ast.Load())


class _Rewriter(ast.NodeTransformer):
    def __init__(self) -> None:
        self.imported: set[str] = set()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:  # noqa: N802 (ast's names)
        if node.module in _MODULES:
            self.imported.update(name.asname or name.name for name in node.names)
        return node

    def _converts(self, function: Any) -> bool:
        """Whether a function takes numbers: `float`, `np.float`, `math.log`, `log` of ``from math import log``."""
        if isinstance(function, ast.Name):
            return function.id in _CONVERSIONS or function.id in self.imported
        if not isinstance(function, ast.Attribute):
            return False
        module = function.value.id if isinstance(function.value, ast.Name) else ""
        return module in _MODULES or function.attr in _CONVERSIONS

    def visit_Call(self, node: ast.Call) -> Any:  # noqa: N802
        self.generic_visit(node)
        function = node.func
        if self._converts(function):
            node.args = [_single(a) for a in node.args]
            if isinstance(function, ast.Attribute):
                for keyword in node.keywords:
                    if keyword.arg is not None:
                        keyword.value = _single(keyword.value)
        elif isinstance(function, ast.Attribute) and function.attr in _LOGGERS:
            node.args = [_single(a) if isinstance(a, ast.Starred) else _through(OPERANDS, a) for a in node.args]
        elif isinstance(function, ast.Name) and function.id == "map" and node.args and self._converts(node.args[0]):
            node.args[1:] = [self._mapped(function, a) for a in node.args[1:]]
        return node

    @staticmethod
    def _mapped(function: Any, argument: Any) -> Any:
        """``map(single, argument)``"""
        if isinstance(argument, ast.Starred):
            return argument
        name = ast.copy_location(ast.Name(SINGLE, ast.Load()), argument)
        return ast.copy_location(ast.Call(function, [name, argument], []), argument)

    def visit_BinOp(self, node: ast.BinOp) -> Any:  # noqa: N802
        self.generic_visit(node)
        left = node.left
        number = isinstance(left, ast.Constant) and not isinstance(left.value, (str, bytes))
        if isinstance(node.op, ast.Mod) and not number:
            node.right = _through(OPERANDS, node.right)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:  # noqa: N802
        self.generic_visit(node)
        if isinstance(node.op, ast.Mod):
            node.value = _through(OPERANDS, node.value)
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:  # noqa: N802
        self.generic_visit(node)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            node.value = _single(node.value)
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:  # noqa: N802
        self.generic_visit(node)
        if node.format_spec is not None and node.conversion == -1:
            node.value = _single(node.value)
        return node


def compiled(source: bytes | str, path: str) -> Any:
    """The code of a module, rewritten.

    Raises:
        SyntaxError: for a source that is not Python 3; the message says so of one that is Python 2.
    """
    try:
        tree = ast.parse(source, path)
    except SyntaxError as error:
        if "print" in str(error.msg) or "except" in str(error.msg):
            error.msg = f"{error.msg} (the file is Python 2: convert it by the tool 2to3 first)"
        raise
    return compile(_Rewriter().visit(tree), path, "exec")
