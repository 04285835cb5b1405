"""The rules by operator type."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .call import Call

__all__ = ["RULES", "rule"]

Rule = Callable[["Call"], None]

#: operator type -> the function that adds its nodes to the graph
RULES: dict[str, Rule] = {}


def rule(*op_types: str) -> Callable[[Rule], Rule]:
    """Registers the decorated function as the rule of these operators.

    Raises:
        ValueError: for an operator that has a rule.
    """

    def register(function: Rule) -> Rule:
        for op_type in op_types:
            if op_type in RULES:
                raise ValueError(f"operator {op_type} has two rules")
            RULES[op_type] = function
        return function

    return register
