"""Each operator of the table has a case; gradients are checked by the cases of their forward operators."""

import json

from catalogue import cases, covered
from paddle import _core
from test_table import PATH

TABLE = {op["type"]: op for op in _core.op_table()}
CASES, COVERED = cases(), covered()


def gradients() -> set[str]:
    """Gradient operators."""
    return {name for name, op in TABLE.items() if op["is_gradient"]}


def test_every_operator_has_a_case():
    assert not set(TABLE) - gradients() - set(CASES) - COVERED


def test_every_gradient_is_checked():
    differentiable = {name for name, op in TABLE.items() if op["grad_form"] not in (None, "", "none")} - gradients()
    without = {name for name in differentiable if not any(c.grad for c in CASES.get(name, []))}
    assert not without - COVERED


def test_second_gradients_are_checked():
    double = {op["type"] for op in json.loads(PATH.read_text()) if op.get("double_grad")} & set(TABLE)
    assert double
    without = {name for name in double if not any(c.second for c in CASES.get(name, []))}
    assert not without - COVERED
