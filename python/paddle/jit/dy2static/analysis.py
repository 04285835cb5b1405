"""Names that statements set, and names that are read after a statement."""

from __future__ import annotations

import ast
from typing import Any

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
#: methods that change a list or dict
_CHANGES = frozenset("append extend insert pop remove clear update setdefault popitem sort reverse".split())


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` of a chain of attributes over a name, None for other expressions."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def modified(stmts: list) -> list[str]:
    """Names and attribute chains that the statements set, delete, or change as containers, in order."""
    found: dict[str, None] = {}

    def target(node: Any) -> None:
        if isinstance(node, ast.Name):
            found[node.id] = None
        elif isinstance(node, ast.Attribute):
            name = dotted(node)
            if name is not None:
                found[name] = None
        elif isinstance(node, ast.Subscript):
            name = dotted(node.value)
            if name is not None:
                found[name] = None
        elif isinstance(node, ast.Starred):
            target(node.value)
        elif isinstance(node, (ast.Tuple, ast.List)):
            for item in node.elts:
                target(item)

    def visit(node: Any) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found[node.name] = None
            return
        if isinstance(node, ast.Lambda):
            return
        if isinstance(node, ast.Assign):
            for each in node.targets:
                target(each)
        elif isinstance(node, (ast.AugAssign, ast.For, ast.NamedExpr)):
            target(node.target)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target(node.target)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            target(node.optional_vars)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                found[(alias.asname or alias.name).split(".")[0]] = None
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found[node.name] = None
        elif isinstance(node, ast.Delete):
            for each in node.targets:
                target(each)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            found[node.name] = None
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            name = dotted(node.func.value)
            if name is not None:
                found[name] = None
        if isinstance(node, _COMPREHENSIONS):
            for child in ast.walk(node):
                if isinstance(child, ast.NamedExpr):
                    target(child.target)
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    for stmt in stmts:
        visit(stmt)
    return list(found)


class Reads:
    """Where a function reads each name: the places in the order of the text.

    Args:
        function: the definition, whose statements get the attributes `first` and `last`, the range of their places.
    """

    def __init__(self, function: Any) -> None:
        self.places: dict[str, list[int]] = {}
        self.always: set[str] = set()
        self.count = 0
        for stmt in function.body:
            self._visit(stmt, ())

    def _visit(self, node: Any, loops: tuple) -> None:
        self.count += 1
        is_statement = isinstance(node, ast.stmt)
        if isinstance(node, _SCOPES):
            # A nested function may be called at any time.
            self.always |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            self.always |= set(node.names)
        node.first = self.count
        if is_statement:
            node.loops = loops
        inner = (*loops, node) if isinstance(node, (ast.For, ast.While)) else loops
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            self.places.setdefault(node.id, []).append(self.count)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self.places.setdefault(node.target.id, []).append(self.count)
        for child in ast.iter_child_nodes(node):
            self._visit(child, inner)
        node.last = self.count

    def live(self, stmt: Any, name: str) -> bool:
        """Whether `name` may be read after the statement."""
        if name.startswith("_jst_") or "." in name or name in self.always or not hasattr(stmt, "last"):
            return True
        places = self.places.get(name, ())
        loops = stmt.loops
        if any(place > stmt.last for place in places):
            return True
        return any(loop.first <= place <= loop.last for loop in loops for place in places)
