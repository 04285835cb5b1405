"""Every test here starts in static mode, with Programs, names and a Scope of its own."""

from __future__ import annotations

import paddle
import pytest
from paddle._basics import mode, unique_name
from paddle._programs import guards
from paddle._programs.program import Program
from paddle._programs.scope import scope_guard


@pytest.fixture
def static():
    """The default Programs are new and empty, the global Scope too."""
    with (
        mode._dygraph_guard(None),
        unique_name.guard(),
        guards.program_guard_unchecked(Program(), Program()),
        scope_guard(paddle.static.Scope()),
    ):
        yield paddle.static
