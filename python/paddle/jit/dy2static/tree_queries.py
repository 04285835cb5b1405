"""Questions about syntax trees, of Python's ast or of gast: names that loops carry, conditions on Tensors.

The translation itself does not ask them: it decides when the translated function runs. They serve programs that call
them under the names of Paddle 2.0.2's transformers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

__all__ = [
    "NameVisitor",
    "NodeVarType",
    "StaticAnalysisVisitor",
    "cmpop_node_to_str",
    "get_name_ids",
    "is_control_flow_to_transform",
]

_COMPARISONS = {
    "Eq": "==",
    "NotEq": "!=",
    "Lt": "<",
    "LtE": "<=",
    "Gt": ">",
    "GtE": ">=",
    "Is": "is",
    "IsNot": "is not",
    "In": "in",
    "NotIn": "not in",
}
_FUNCTIONS = ("FunctionDef", "AsyncFunctionDef", "Lambda")
_COMPREHENSIONS = ("ListComp", "SetComp", "DictComp", "GeneratorExp")
_STORES = ("Store", "AugStore", "Del")
_PACKAGES = frozenset(("paddle", "fluid", "layers"))


class NodeVarType(Enum):
    """The kinds of values that a name has by the text of a function."""

    NONE = 100
    BOOLEAN = 101
    INT = 102
    FLOAT = 103
    STRING = 104
    TENSOR = 105
    NUMPY_NDARRAY = 106
    UNKNOWN = 1


def _kind(node: Any) -> str:
    return type(node).__name__


def _children(node: Any) -> Iterator[Any]:
    """The nodes of a node's fields, in the order in which they are evaluated: values before the targets they go to."""
    fields = list(getattr(node, "_fields", ()))
    if _kind(node) in ("Assign", "AugAssign", "AnnAssign", "NamedExpr"):
        fields.sort(key=lambda field: field in ("target", "targets"))
    for field in fields:
        value = getattr(node, field, None)
        for each in value if isinstance(value, list) else [value]:
            if hasattr(each, "_fields"):
                yield each


def _walk(node: Any) -> Iterator[Any]:
    yield node
    for child in _children(node):
        yield from _walk(child)


def _dotted(node: Any) -> str:
    """`a.b.c` of a chain of attributes over a name, an empty text for other expressions."""
    parts: list[str] = []
    while _kind(node) == "Attribute":
        parts.insert(0, node.attr)
        node = node.value
    return ".".join([node.id, *parts]) if _kind(node) == "Name" else ""


def _constant(node: Any) -> Any:
    return node.value if _kind(node) == "Constant" else ...


def cmpop_node_to_str(node: Any) -> str:
    """The text of a comparison's operator; KeyError for another node."""
    return _COMPARISONS[_kind(node)]


def get_name_ids(nodes: Iterable[Any]) -> dict[str, list]:
    """The contexts of each name in the trees, in the order of evaluation."""
    found: dict[str, list] = {}
    for root in nodes:
        for node in _walk(root):
            if _kind(node) == "Name":
                found.setdefault(node.id, []).append(node.ctx)
            elif _kind(node) == "arg":
                found.setdefault(node.arg, []).append(ast.Param())
    return found


def _is_api(call: Any) -> bool:
    """Whether a call names a function of this package."""
    return _kind(call) == "Call" and _dotted(call.func).split(".")[0] in _PACKAGES


class StaticAnalysisVisitor:
    """The kinds of names by the constants and calls that are assigned to them.

    Args:
        ast_root: a tree.
    """

    def __init__(self, ast_root: Any) -> None:
        self.kinds: dict[str, set[NodeVarType]] = {}
        for node in _walk(ast_root):
            if _kind(node) == "Assign":
                for target in node.targets:
                    if _kind(target) == "Name":
                        self.kinds.setdefault(target.id, set()).add(self._kind_of(node.value))

    @staticmethod
    def _kind_of(value: Any) -> NodeVarType:
        constants = {
            bool: NodeVarType.BOOLEAN,
            int: NodeVarType.INT,
            float: NodeVarType.FLOAT,
            str: NodeVarType.STRING,
            type(None): NodeVarType.NONE,
        }
        if _is_api(value):
            return NodeVarType.TENSOR
        return constants.get(type(_constant(value)), NodeVarType.UNKNOWN)


def is_control_flow_to_transform(
    node: Any, static_analysis_visitor: StaticAnalysisVisitor | None = None, var_name_to_type: dict | None = None
) -> bool:
    """Whether the text of a condition shows that it is one on a Tensor.

    Args:
        node: the condition.
        static_analysis_visitor (StaticAnalysisVisitor, optional): of the function around it.
        var_name_to_type (dict, optional): the NodeVarTypes of names.

    Raises:
        TypeError: when `node` is no tree.
    """
    if not hasattr(node, "_fields"):
        raise TypeError(f"The type of input node must be gast.AST or ast.AST, but received {type(node)}")
    kinds = dict(static_analysis_visitor.kinds) if static_analysis_visitor else {}
    kinds.update(var_name_to_type or {})

    def shows(part: Any) -> bool:
        if _kind(part) == "Compare" and any(_constant(side) is None for side in (part.left, *part.comparators)):
            return False
        if _is_api(part) or (_kind(part) == "Call" and getattr(part.func, "attr", "") == "numpy"):
            return True
        if _kind(part) == "Name" and NodeVarType.TENSOR in kinds.get(part.id, ()):
            return True
        return any(shows(child) for child in _children(part))

    return shows(node)


class NameVisitor:
    """The names that the loops of a function carry from pass to pass.

    Args:
        root_node: the tree of a function.
    """

    def __init__(self, root_node: Any) -> None:
        #: (place, name, context), in the order of the text
        self.uses: list[tuple[int, str, str]] = []
        #: loop: places of its begin, of its body, of its end
        self.ranges: dict[int, tuple[int, int, int]] = {}
        self.types: set[str] = set()
        self.targets: dict[int, set[str]] = {}
        self.constants = StaticAnalysisVisitor(root_node).kinds
        self.count = 0
        self._visit(root_node, frozenset(), True)

    def _visit(self, node: Any, hidden: frozenset, outermost: bool = False) -> None:
        kind = _kind(node)
        if kind in ("For", "While"):
            begin = self.count
            head = [node.target, node.iter] if kind == "For" else [node.test]
            self.targets[id(node)] = set(get_name_ids([node.target])) if kind == "For" else set()
            for part in head:
                self._visit(part, hidden)
            body = self.count
            for part in (*node.body, *node.orelse):
                self._visit(part, hidden)
            self.ranges[id(node)] = (begin, body, self.count)
            return
        if kind in _FUNCTIONS and not outermost and self.count:
            return  # its names are its own
        if kind in _COMPREHENSIONS:
            hidden = hidden | {name for part in node.generators for name in get_name_ids([part.target])}
        if kind == "Call":
            name = _dotted(node.func)
            if name == "isinstance" and len(node.args) > 1:
                second = node.args[1]
                self.types.update(_dotted(each) for each in getattr(second, "elts", [second]))
            if not name:
                self._visit(node.func, hidden)
            for part in (*node.args, *node.keywords):
                self._visit(part, hidden)
            return
        if kind in ("Name", "Attribute") and _dotted(node):
            name = _dotted(node)
            if name.split(".")[0] not in hidden and not name.startswith("self."):
                self.count += 1
                self.uses.append((self.count, name, _kind(node.ctx)))
            return
        if kind == "arg":
            self.count += 1
            self.uses.append((self.count, node.arg, "Param"))
        for child in _children(node):
            self._visit(child, hidden)

    def get_loop_var_names(self, node: Any) -> tuple[set[str], set[str]]:
        """The names that a loop carries, and those of them that have no value before it.

        Args:
            node: a For or While of the tree.
        """
        begin, body, end = self.ranges[id(node)]
        inner = [
            key for key, (first, _, last) in self.ranges.items() if key != id(node) and begin <= first and last <= end
        ]
        bound = {name for key in inner for name in self.targets[key]} | self.types
        inside = [(name, ctx) for place, name, ctx in self.uses if begin < place <= end]
        head = {name for place, name, _ in self.uses if begin < place <= body}
        before = {name for place, name, _ in self.uses if place <= body}
        after = {name for place, name, ctx in self.uses if place > end and ctx == "Load"}
        written = {name for name, ctx in inside if ctx in _STORES}
        carried: set[str] = set()
        created: set[str] = set()
        for name in {name for name, _ in inside} - bound:
            if name in before:
                if name in head or name in written or not self._is_basic(name):
                    carried.add(name)
            elif name in after or (name in written and next(c for n, c in inside if n == name) == "Load"):
                carried.add(name)
                created.add(name)
        return carried, created

    def _is_basic(self, name: str) -> bool:
        """Whether a name is assigned a constant of Python."""
        basic = {NodeVarType.BOOLEAN, NodeVarType.INT, NodeVarType.FLOAT, NodeVarType.STRING}
        return bool(basic & self.constants.get(name, set()))
