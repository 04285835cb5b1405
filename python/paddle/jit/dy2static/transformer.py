"""The translation of a function's tree: control flow becomes calls of the runtime over nested functions.

`if`, `while` and `for` become `_jst.run_if`, `run_while` and `run_for`. Their parts are nested functions that share the
function's names by `nonlocal`; a getter and a setter give the runtime the values of the names that the parts change.
"""

from __future__ import annotations

import ast
from typing import Any

from .analysis import Reads, dotted, modified
from .errors import unsupported
from .exits import LowerLoops, lower_returns
from .source import RUNTIME, define, literal, parameters

#: calls that look at the frame of their caller
_FRAME_CALLS = frozenset("locals globals vars dir eval exec".split())
#: names of nested functions that the translation makes
_PARTS = "_jst_f_"


def translate(function: Any, filename: str, free: tuple[str, ...]) -> None:
    """Translate a definition in place.

    Raises:
        UnsupportedSyntaxError: for a construct that cannot become part of a Program.
    """
    _refuse(function, filename)
    function.decorator_list = []
    function.returns = None
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    # Defaults are those of the original function.
    function.args.defaults = [ast.copy_location(ast.Constant(value=None), d) for d in function.args.defaults]
    function.args.kw_defaults = [
        None if d is None else ast.copy_location(ast.Constant(value=None), d) for d in function.args.kw_defaults
    ]
    lower_returns(function)
    LowerLoops().lower(function)
    _Lower(function, filename).run()


class _Refuse(ast.NodeVisitor):
    def __init__(self, filename: str) -> None:
        self.filename = filename

    def _stop(self, node: Any, construct: str, instead: str) -> None:
        raise unsupported(construct, self.filename, node.lineno, node.col_offset, instead)

    def visit_FunctionDef(self, node: Any) -> None:
        pass

    visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_FunctionDef

    def visit_Yield(self, node: Any) -> None:
        self._stop(node, "a generator (yield)", "Return a list")

    visit_YieldFrom = visit_Yield

    def visit_Await(self, node: Any) -> None:
        self._stop(node, "a coroutine (await)", "Await outside of the function")

    visit_AsyncFor = visit_AsyncWith = visit_Await


def _refuse(function: Any, filename: str) -> None:
    if isinstance(function, ast.AsyncFunctionDef):
        raise unsupported("a coroutine (async def)", filename, function.lineno, function.col_offset)
    visitor = _Refuse(filename)
    for stmt in function.body:
        visitor.visit(stmt)


def _attribute(name: str) -> ast.expr:
    return ast.Attribute(value=ast.Name(id=RUNTIME, ctx=ast.Load()), attr=name, ctx=ast.Load())


def _thunk(value: ast.expr) -> ast.expr:
    return ast.Lambda(args=parameters(()), body=value)


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(func=_attribute(name), args=list(args), keywords=[])


def _binds(node: ast.AST) -> bool:
    """Whether an expression binds a name: a lambda around it would bind another one."""
    return any(isinstance(each, (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)) for each in ast.walk(node))


def _has_slice(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Slice) for each in ast.walk(node))


def _pattern(target: Any) -> ast.expr:
    """The structure of a target: None for a name, a list for nested targets."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return ast.List(elts=[_pattern(item) for item in target.elts], ctx=ast.Load())
    return ast.Constant(value=None)


class _Values(ast.NodeTransformer):
    """`x.numpy()` and `x.item()` in a condition: the Tensor itself while a Program is built."""

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in ("numpy", "item") and not node.args:
            return ast.copy_location(_call("value_of", function.value, literal(function.attr)), node)
        return node


class _Lower(ast.NodeTransformer):
    def __init__(self, function: Any, filename: str) -> None:
        self.function, self.filename = function, filename
        self.count = 0
        self.tries = 0
        self.globals = {name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names}
        self.outer = {name for node in ast.walk(function) if isinstance(node, ast.Nonlocal) for name in node.names}
        #: names that nested parts share
        self.shared: set[str] = set()
        arguments = function.args
        first = [*arguments.posonlyargs, *arguments.args]
        self.first_argument = first[0].arg if first else None
        self.reads = Reads(function)

    def run(self) -> None:
        body = []
        for i, stmt in enumerate(self.function.body):
            if i == 0 and ast.get_docstring(self.function, clean=False) is not None:
                body.append(stmt)
                continue
            made = self.visit(stmt)
            body += made if isinstance(made, list) else [made]
        doc = 1 if ast.get_docstring(self.function, clean=False) is not None else 0
        self.function.body = [*body[:doc], *self._bindings(), *body[doc:]]
        ast.fix_missing_locations(self.function)

    def _bindings(self) -> list:
        """A statement that makes the shared names local to the function, and never runs."""
        arguments = {a.arg for a in ast.walk(self.function.args) if isinstance(a, ast.arg)}
        names = sorted(self.shared - arguments - self.globals - self.outer)
        if not names:
            return []
        targets: list[ast.expr] = [ast.Name(id=name, ctx=ast.Store()) for name in names]
        bound = ast.Assign(targets=targets, value=ast.Constant(value=None))
        return self._placed([ast.If(test=ast.Constant(value=False), body=[bound], orelse=[])], self.function)

    # ------------------------------------------------------------------ statements

    def visit_FunctionDef(self, node: Any) -> Any:
        return node  # translated when it is called

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef

    def visit_Try(self, node: Any) -> Any:
        self.tries += 1
        self.generic_visit(node)
        self.tries -= 1
        return node

    visit_TryStar = visit_Try

    def _place(self, node: Any) -> ast.expr:
        place = (self.filename, node.lineno, node.col_offset, self.tries > 0)
        return literal(place)

    def _part(self, name: str, body: list, names: list[str], args: list[str] | None = None) -> ast.FunctionDef:
        """A nested function that shares `names`."""
        made = define(name, parameters(args or ()), body or [ast.Pass()])
        shared = [name for name in names if "." not in name]
        self.shared.update(shared)
        for kind, chosen in (
            (ast.Global, [n for n in shared if n in self.globals]),
            (ast.Nonlocal, [n for n in shared if n not in self.globals]),
        ):
            if chosen:
                made.body.insert(0, kind(names=chosen))
        return made

    def _state(self, names: list[str], k: int) -> list:
        """The getter and the setter of `names`."""
        getters = [_thunk(ast.parse(name, mode="eval").body) for name in names]
        get = self._part(f"{_PARTS}get_{k}", [ast.Return(value=_call("values", *getters))], [])
        lines = []
        for i, name in enumerate(names):
            if "." in name:
                owner, _, attribute = name.rpartition(".")
                lines.append(f"{RUNTIME}.set_attribute({owner}, {attribute!r}, _jst_v[{i}])")
            else:
                lines.append(
                    f"if _jst_v[{i}] is {RUNTIME}.UNBOUND:\n    {name} = None\n    del {name}\n"
                    f"else:\n    {name} = _jst_v[{i}]"
                )
        body = ast.parse("\n".join(lines)).body if lines else [ast.Pass()]
        put = self._part(f"{_PARTS}put_{k}", body, names, ["_jst_v"])
        return [get, put]

    def _names(self, node: Any, stmts: list) -> tuple[list[str], ast.expr, ast.expr]:
        names = [n for n in modified(stmts) if not n.startswith(_PARTS)]
        # A chain over a name that the statements change is another attribute each time.
        plain = {n for n in names if "." not in n}
        names = [n for n in names if "." not in n or n.split(".")[0] not in plain]
        live = tuple(self.reads.live(node, n) for n in names)
        return names, literal(tuple(names)), literal(live)

    def _placed(self, made: list, node: Any) -> list:
        for each in made:
            for inner in ast.walk(each):
                if "lineno" in inner._attributes and not hasattr(inner, "lineno"):
                    ast.copy_location(inner, node)
        return made

    def visit_If(self, node: ast.If) -> Any:
        node.test = _Values().visit(node.test)
        names, listed, live = self._names(node, node.body + node.orelse)
        self.generic_visit(node)
        self.count += 1
        k = self.count
        then, other = f"{_PARTS}then_{k}", f"{_PARTS}else_{k}"
        made: list = [self._part(then, node.body, names), self._part(other, node.orelse, names)]
        made += self._state(names, k)
        parts = [ast.Name(id=n, ctx=ast.Load()) for n in (then, other, f"{_PARTS}get_{k}", f"{_PARTS}put_{k}")]
        call = _call("run_if", node.test, *parts, listed, live, self._place(node))
        return self._placed([*made, ast.Expr(value=call)], node)

    def visit_While(self, node: ast.While) -> Any:
        node.test = _Values().visit(node.test)
        test = node.test
        names, listed, live = self._names(node, [*node.body, ast.Expr(value=test)])
        self.generic_visit(node)
        self.count += 1
        k = self.count
        body = f"{_PARTS}body_{k}"
        made: list = [self._part(body, node.body, names)]
        if _binds(node.test):
            made.append(self._part(f"{_PARTS}test_{k}", [ast.Return(value=node.test)], names))
            test = ast.Name(id=f"{_PARTS}test_{k}", ctx=ast.Load())
        else:
            test = _thunk(node.test)
        made += self._state(names, k)
        parts = [ast.Name(id=n, ctx=ast.Load()) for n in (body, f"{_PARTS}get_{k}", f"{_PARTS}put_{k}")]
        call = _call("run_while", test, *parts, listed, live, self._place(node))
        return self._placed([*made, ast.Expr(value=call)], node)

    def visit_For(self, node: ast.For) -> Any:
        node.iter = _Values().visit(node.iter)
        item: ast.expr = ast.Name(id="_jst_item", ctx=ast.Load())
        if isinstance(node.target, (ast.Tuple, ast.List)):
            item = _call("unpack", item, _pattern(node.target))
        bound = ast.Assign(targets=[node.target], value=item)
        names, listed, live = self._names(node, [bound, *node.body])
        node.iter = self.visit(node.iter)
        self.count += 1
        k = self.count
        inner = [new for stmt in node.body for new in _listed(self.visit(stmt))]
        body = f"{_PARTS}body_{k}"
        made: list = [self._part(body, [bound, *inner], names, ["_jst_item"]), *self._state(names, k)]
        flag = getattr(node, "flag", None)
        stop = ast.Constant(value=None) if flag is None else _thunk(ast.Name(id=flag, ctx=ast.Load()))
        parts = [ast.Name(id=n, ctx=ast.Load()) for n in (body, f"{_PARTS}get_{k}", f"{_PARTS}put_{k}")]
        targets = literal(tuple(modified([bound])))
        call = _call("run_for", node.iter, *parts, stop, targets, listed, live, self._place(node))
        return self._placed([*made, ast.Expr(value=call)], node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load) and not _has_slice(node.slice):
            return self._new(_call("get_item", node.value, node.slice), node)
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Subscript) and not _has_slice(target.slice):
            made = ast.Expr(value=_call("set_item", target.value, target.slice, node.value))
            return self._placed([made], node)
        targets = [t for t in node.targets if isinstance(t, (ast.Tuple, ast.List))]
        if targets and not isinstance(node.value, (ast.Tuple, ast.List)):
            node.value = self._new(_call("unpack", node.value, _pattern(targets[0])), node)
        return node

    def visit_Assert(self, node: ast.Assert) -> Any:
        self.generic_visit(node)
        message = node.msg or ast.Constant(value=None)
        call = _call("run_assert", node.test, _thunk(message), self._place(node))
        return self._placed([ast.Expr(value=call)], node)

    # ------------------------------------------------------------------ expressions

    def _new(self, made: ast.expr, node: ast.AST) -> ast.expr:
        return self._placed([made], node)[0]

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if _binds(node):
            return self.generic_visit(node)
        self.generic_visit(node)
        name = "convert_logical_and" if isinstance(node.op, ast.And) else "convert_logical_or"
        made = node.values[-1]
        for value in reversed(node.values[:-1]):
            made = _call(name, _thunk(value), _thunk(made))
        return self._new(made, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return self._new(_call("convert_logical_not", node.operand), node)
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) < 2 or _binds(node):
            return self.generic_visit(node)
        self.generic_visit(node)
        kinds = literal(tuple(type(op).__name__ for op in node.ops))
        return self._new(_call("compare", kinds, *(_thunk(v) for v in (node.left, *node.comparators))), node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        if _binds(node):
            return self.generic_visit(node)
        self.generic_visit(node)
        made = _call("choose", node.test, _thunk(node.body), _thunk(node.orelse), self._place(node))
        return self._new(made, node)

    def visit_Call(self, node: ast.Call) -> Any:
        function = node.func
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            if function.value.id == RUNTIME:
                return self.generic_visit(node)
        if isinstance(function, ast.Name):
            if function.id == "super" and not node.args and not node.keywords and self.first_argument:
                node.args = [
                    ast.Name(id="__class__", ctx=ast.Load()),
                    ast.Name(id=self.first_argument, ctx=ast.Load()),
                ]
                return self._new(node, node)
            if function.id in _FRAME_CALLS or function.id in ("super", RUNTIME):
                return self.generic_visit(node)
        if isinstance(function, ast.Attribute) and function.attr in ("append", "pop") and not node.keywords:
            self.generic_visit(node)
            made = _call(f"list_{function.attr}", node.func.value, *node.args)  # type: ignore[attr-defined]
            return self._new(made, node)
        self.generic_visit(node)
        node.func = self._new(_call("convert_call", node.func), node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        self.generic_visit(node)
        if node.attr == "shape" and isinstance(node.ctx, ast.Load):
            return self._new(_call("shape_of", node.value), node)
        return node

    def _comprehension(self, node: Any) -> Any:
        self.generic_visit(node)
        for part in node.generators:
            part.iter = self._new(_call("unrolled", part.iter, self._place(node)), node)
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        return self.generic_visit(node)


def _listed(value: Any) -> list:
    return value if isinstance(value, list) else [value]


__all__ = ["dotted", "translate"]
