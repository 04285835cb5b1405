"""examples/serve_digits.py: the served model classifies as the trained Layer."""

from __future__ import annotations

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "serve_digits.py"


def test_served_digits(capsys):
    accuracy = runpy.run_path(str(EXAMPLE))["main"](steps=30, count=100)
    assert accuracy > 0.6
    assert "equal to the Layer's 1.000" in capsys.readouterr().out
