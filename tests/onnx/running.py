"""Programs exported and run by onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def session(model: Any) -> Any:
    """A checked model as a session of one thread."""
    onnx.checker.check_model(model, full_check=False)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # its fusions are not what is tested
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(model: Any, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a model; inputs that it does not read are left out."""
    made = session(model)
    names = {i.name for i in made.get_inputs()}
    return made.run(None, {k: v for k, v in feed.items() if k in names})


def from_scope(scope: Any) -> Any:
    def parameter(name: str) -> np.ndarray | None:
        found = scope.find_var(name)
        return np.array(found.get_tensor()) if found is not None and found.get_tensor()._is_initialized() else None

    return parameter


def model_of(program: Any, feeds: list[str], fetches: list[str], opset: int, scope: Any = None) -> Any:
    from paddle.onnx.export import model_of_program

    scope = scope or paddle.static.global_scope()
    return model_of_program(program, feeds, fetches, from_scope(scope), opset, "test")
