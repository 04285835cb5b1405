"""break, continue and return as flags: after this pass loops end by their conditions and a function by its last line.

Statements that follow an `if` which leaves are moved into its other branch, so that most functions need no flags.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from enum import Enum
from typing import Any

VALUE = "_jst_value"
RETURNED = "_jst_returned"

_LOOPS = (ast.For, ast.While)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Leaves(Enum):
    """Whether a list of statements is left by an exit."""

    NEVER = 0
    MAYBE = 1
    ALWAYS = 2


def named(name: str) -> ast.expr:
    return ast.Name(id=name, ctx=ast.Load())


def assigned(name: str, value: ast.expr, at: ast.AST) -> ast.stmt:
    made = ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=value)
    return ast.fix_missing_locations(ast.copy_location(made, at))


def contains(node: Any, kinds: tuple, across_loops: bool) -> bool:
    """Whether a statement contains one of `kinds`, outside of nested functions (and of nested loops)."""
    if isinstance(node, kinds):
        return True
    if isinstance(node, _SCOPES):
        return False
    if isinstance(node, _LOOPS) and not across_loops:
        return any(contains(child, kinds, False) for child in node.orelse)
    return any(contains(child, kinds, across_loops) for child in ast.iter_child_nodes(node))


class Restructure:
    """Replaces exits, and guards the statements after those that may leave.

    Args:
        exit_of: the replacement of an exit, None for other statements.
        flags: names of the flags, of which one is True after an exit.
        loop: for a loop that contains exits: the statements in its place; None if loops contain none.
    """

    def __init__(self, exit_of: Callable, flags: list[str], loop: Callable | None = None) -> None:
        self.exit_of, self.flags, self.loop = exit_of, flags, loop
        self.guards = False

    def _guarded(self, rest: list, at: ast.AST) -> list:
        if not rest:
            return []
        self.guards = True
        held: ast.expr = named(self.flags[0])
        if len(self.flags) > 1:
            held = ast.BoolOp(op=ast.Or(), values=[named(flag) for flag in self.flags])
        made = ast.If(test=ast.UnaryOp(op=ast.Not(), operand=held), body=rest, orelse=[])
        return [ast.fix_missing_locations(ast.copy_location(made, at))]

    def __call__(self, stmts: list) -> tuple[list, Leaves]:
        out: list = []
        for i, stmt in enumerate(stmts):
            replaced = self.exit_of(stmt)
            if replaced is not None:
                return out + replaced, Leaves.ALWAYS
            if isinstance(stmt, ast.If):
                status = self._branches(stmt)
            elif isinstance(stmt, (ast.With, ast.AsyncWith)):
                stmt.body, status = self(stmt.body)
            elif isinstance(stmt, ast.Try) or type(stmt).__name__ == "TryStar":
                status = self._try(stmt)
            elif isinstance(stmt, ast.Match):
                status = Leaves.NEVER
                for case in stmt.cases:
                    case.body, left = self(case.body)
                    status = Leaves.MAYBE if left is not Leaves.NEVER else status
            elif isinstance(stmt, _LOOPS) and self.loop is not None:
                made = self.loop(stmt)
                out += [stmt] if made is None else made
                if made is None:
                    continue
                rest, after = self(stmts[i + 1 :])
                return out + self._guarded(rest, stmt), after if after is Leaves.ALWAYS else Leaves.MAYBE
            else:
                status = Leaves.NEVER
            if status is Leaves.NEVER:
                out.append(stmt)
                continue
            if status is Leaves.ALWAYS:
                return [*out, stmt], status
            rest, after = self(stmts[i + 1 :])
            end = Leaves.ALWAYS if after is Leaves.ALWAYS else Leaves.MAYBE
            if isinstance(stmt, ast.If) and Leaves.ALWAYS in self.sides[id(stmt)]:
                first, second = self.sides[id(stmt)]
                into, left = (stmt.orelse, second) if first is Leaves.ALWAYS else (stmt.body, first)
                into += rest if left is Leaves.NEVER else self._guarded(rest, stmt)
                return [*out, stmt], end
            return [*out, stmt, *self._guarded(rest, stmt)], end
        return out, Leaves.NEVER

    sides: dict = {}

    def _branches(self, stmt: ast.If) -> Leaves:
        stmt.body, first = self(stmt.body)
        stmt.orelse, second = self(stmt.orelse)
        stmt.body = stmt.body or [ast.copy_location(ast.Pass(), stmt)]
        self.sides = {**self.sides, id(stmt): (first, second)}
        return first if first is second else Leaves.MAYBE

    def _try(self, stmt: Any) -> Leaves:
        parts = []
        stmt.body, left = self(stmt.body)
        parts.append(left)
        for handler in stmt.handlers:
            handler.body, caught = self(handler.body)
            parts.append(caught)
        stmt.orelse, other = self(stmt.orelse)
        if left is not Leaves.NEVER:
            stmt.orelse = self._guarded(stmt.orelse, stmt)
        stmt.finalbody, last = self(stmt.finalbody)
        if last is Leaves.ALWAYS or all(part is Leaves.ALWAYS for part in parts):
            return Leaves.ALWAYS
        return Leaves.MAYBE if any(p is not Leaves.NEVER for p in (*parts, other, last)) else Leaves.NEVER


def without(stmts: list, name: str) -> list:
    """The statements without assignments to a flag that no guard reads."""

    class Drop(ast.NodeTransformer):
        def visit_Assign(self, node: ast.Assign) -> Any:
            target = node.targets[0]
            if isinstance(target, ast.Name) and target.id == name:
                return ast.copy_location(ast.Pass(), node)
            return node

    return [Drop().visit(stmt) for stmt in stmts]


def lower_returns(function: ast.FunctionDef) -> None:
    """Leave one `return` at most, at the end of the function."""
    body = function.body
    if not any(contains(stmt, (ast.Return,), True) for stmt in body):
        return
    if not any(contains(stmt, (ast.Return,), True) for stmt in body[:-1]) and isinstance(body[-1], ast.Return):
        return

    def exit_of(stmt: ast.stmt) -> list | None:
        if not isinstance(stmt, ast.Return):
            return None
        value = stmt.value or ast.Constant(value=None)
        return [
            assigned(RETURNED, ast.Constant(value=True), stmt),
            assigned(VALUE, value, stmt),
        ]

    def in_loop(stmts: list) -> list:
        out: list = []
        for stmt in stmts:
            replaced = exit_of(stmt)
            if replaced is not None:
                return [*out, *replaced, ast.copy_location(ast.Break(), stmt)]
            if isinstance(stmt, _SCOPES):
                out.append(stmt)
                continue
            again = isinstance(stmt, _LOOPS) and contains(stmt, (ast.Return,), True)
            for field in ("body", "orelse", "finalbody"):
                if getattr(stmt, field, None):
                    setattr(stmt, field, in_loop(getattr(stmt, field)))
            for part in (*getattr(stmt, "handlers", ()), *getattr(stmt, "cases", ())):
                part.body = in_loop(part.body)
            out.append(stmt)
            if again:
                leave = ast.If(test=named(RETURNED), body=[ast.Break()], orelse=[])
                out.append(ast.fix_missing_locations(ast.copy_location(leave, stmt)))
        return out

    def loop(stmt: Any) -> list | None:
        if not contains(stmt, (ast.Return,), True):
            return None
        loops.append(stmt)
        stmt.body = in_loop(stmt.body)
        stmt.orelse, _ = restructure(stmt.orelse)
        return [stmt]

    loops: list = []
    doc = [body[0]] if ast.get_docstring(function, clean=False) is not None else []
    restructure = Restructure(exit_of, [RETURNED], loop)
    new, status = restructure(body[len(doc) :])
    start = []
    if restructure.guards or loops:
        start.append(assigned(RETURNED, ast.Constant(value=False), function))
    else:
        new = without(new, RETURNED)
    if status is not Leaves.ALWAYS:
        start.append(assigned(VALUE, ast.Constant(value=None), function))
    end = ast.fix_missing_locations(ast.copy_location(ast.Return(value=named(VALUE)), body[-1]))
    function.body = [*doc, *start, *new, end]


class LowerLoops(ast.NodeTransformer):
    """Replaces break and continue of each loop; sets `flag` of a For to the name of its break flag."""

    def __init__(self) -> None:
        self.count = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_FunctionDef  # type: ignore[assignment]

    def lower(self, function: ast.FunctionDef) -> None:
        function.body = [new for stmt in function.body for new in _listed(self.visit(stmt))]

    def _loop(self, node: Any) -> Any:
        breaks = any(contains(stmt, (ast.Break,), False) for stmt in node.body)
        continues = any(contains(stmt, (ast.Continue,), False) for stmt in node.body)
        self.count += 1
        stop, skip = f"_jst_break_{self.count}", f"_jst_continue_{self.count}"
        before, after = [], node.orelse
        node.orelse = []
        if breaks or continues:

            def exit_of(stmt: ast.stmt) -> list | None:
                kinds = {ast.Break: stop, ast.Continue: skip}
                name = kinds.get(type(stmt))
                return None if name is None else [assigned(name, ast.Constant(value=True), stmt)]

            flags = [flag for flag, used in ((stop, breaks), (skip, continues)) if used]
            restructure = Restructure(exit_of, flags)
            node.body, _ = restructure(node.body)
            if continues and not restructure.guards:
                node.body = without(node.body, skip)
            elif continues:
                node.body.insert(0, assigned(skip, ast.Constant(value=False), node))
        if breaks:
            before.append(assigned(stop, ast.Constant(value=False), node))
            left = ast.UnaryOp(op=ast.Not(), operand=named(stop))
            if isinstance(node, ast.While):
                node.test = ast.BoolOp(op=ast.And(), values=[left, node.test])
            else:
                node.flag = stop
            if after:
                after = [ast.If(test=ast.UnaryOp(op=ast.Not(), operand=named(stop)), body=after, orelse=[])]
                ast.copy_location(after[0], node)
        made = [*before, node, *after]
        for each in made:
            ast.fix_missing_locations(each)
        return made

    def visit_While(self, node: ast.While) -> Any:
        self.generic_visit(node)
        return self._loop(node)

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        return self._loop(node)


def _listed(value: Any) -> list:
    return value if isinstance(value, list) else [value]
