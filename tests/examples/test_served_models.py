"""examples/served_models.py: losses and answers equal those of Paddle 2.6.2, which ran the same file."""

from __future__ import annotations

import importlib.util
import json
import runpy
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples" / "served_models.py"
#: printed by `python examples/served_models.py --json` under Paddle 2.6.2
REFERENCE = json.loads((HERE / "served_models.json").read_text())
ONNX = importlib.util.find_spec("onnx") is not None and importlib.util.find_spec("onnxruntime") is not None


@pytest.mark.filterwarnings("ignore:to_static:UserWarning", "ignore:a batch norm that trains:UserWarning")
@pytest.mark.parametrize("name", REFERENCE)
def test_a_model_from_training_to_serving(name, tmp_path):
    report, want = runpy.run_path(str(EXAMPLE))["demonstrate"](name, tmp_path, 3, ONNX), REFERENCE[name]
    np.testing.assert_allclose(report["losses"], want["losses"], rtol=1e-4)
    np.testing.assert_allclose(report["answer"], want["answer"], rtol=1e-4, atol=1e-4)
    assert report.get("beams") == want.get("beams")
