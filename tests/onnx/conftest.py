"""Fixtures of the tests of paddle.onnx."""

from __future__ import annotations

import paddle
import pytest
from paddle._basics import mode, unique_name
from paddle._programs import guards
from paddle._programs.program import Program
from paddle._programs.scope import scope_guard


@pytest.fixture
def static():
    """The module paddle.static, in static mode, with new, empty default Programs and a new global Scope."""
    with (
        mode._dygraph_guard(None),
        unique_name.guard(),
        guards.program_guard_unchecked(Program(), Program()),
        scope_guard(paddle.static.Scope()),
    ):
        yield paddle.static
