"""The registry of fleet's strategies: what it refuses, and the example of docs/dev/add-a-strategy.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from paddle.distributed.fleet.base import strategy_registry as registry
from paddle.distributed.fleet.meta_optimizers.meta_optimizer_base import MetaOptimizerBase

PAGE = Path(__file__).parents[2] / "docs" / "dev" / "add-a-strategy.md"


def test_the_schema_is_ordered_by_number():
    numbers = [field.number for field in registry.schema.values()]
    assert numbers == sorted(set(numbers)) and numbers[0] == 1
    names = [c.__name__ for c in registry.registered()]
    assert names == sorted(set(names)) and "AMPOptimizer" in names


@pytest.mark.parametrize(
    ("flag", "configs", "auto", "message"),
    [
        (registry.Flag("amp", 99, ""), None, None, r"field 99 \(amp\) is taken by 2 \(amp\)"),
        (registry.Flag("other", 2, ""), None, None, r"field 2 \(other\) is taken by 2 \(amp\)"),
        (registry.Flag("other", 99, ""), registry.Configs("C", 199, "", size=1), {"sise": 2}, "auto_configs: sise"),
    ],
)
def test_bad_declarations_are_refused(flag, configs, auto, message):
    before = list(registry.schema), registry.registered()
    bad = type("BadOptimizer", (MetaOptimizerBase,), {"flag": flag, "configs": configs, "auto_configs": auto})
    with pytest.raises(ValueError, match=message):
        registry.register(bad)
    assert (list(registry.schema), registry.registered()) == before


def test_the_page_about_adding_a_strategy_runs(tmp_path):
    """In a process of its own: a registered strategy stays."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "gradient_scale: true\ngradient_scale_configs {\n  factor: 0.5\n}\n\n"
