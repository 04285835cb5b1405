"""Weights packed at load: shared by clones, absent from saved models, and without effect on results."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.static.nn import fc
from served import operators_of, outputs_of, panels_of, predictor_of


class Attention(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiHeadAttention(64, 4)

    def forward(self, x):
        return self.attention(x, x, x)


def packs(bfloat16: bool = False) -> bool:
    """Whether the processor has the unit that reads packed weights."""
    tensor = paddle.fluid.core.LoDTensor()
    tensor.set(np.ones((64, 64), "float32"))
    return tensor._matrix_panels(bfloat16) is not None


@pytest.fixture
def prefix(export):
    return export(lambda x: fc(fc(x, 200, activation="relu"), 70), ([None, 130], "float32"))


@pytest.mark.parametrize("rows", [1, 2, 17, 50, 200])
def test_rows_are_those_of_the_executor(prefix, rows):
    x = np.random.RandomState(rows).randn(rows, 130).astype("float32")
    exe = paddle.static.Executor(paddle.CPUPlace())
    program, feeds, fetches = paddle.static.load_inference_model(prefix, exe)
    (want,) = exe.run(program, feed={feeds[0]: x}, fetch_list=fetches)
    np.testing.assert_allclose(outputs_of(predictor_of(prefix), x)[0], want, rtol=1e-5, atol=1e-5)


def test_attention(export):
    prefix = export(lambda x: Attention()(x), ([None, 32, 64], "float32"))
    x = np.random.RandomState(0).randn(8, 32, 64).astype("float32")
    predictor = predictor_of(prefix)
    assert operators_of(predictor).count("multihead_matmul") == 1
    assert len(predictor._session.model.panels) == (2 if packs() else 0)
    plain = predictor_of(prefix, lambda c: c.switch_ir_optim(False))
    np.testing.assert_allclose(outputs_of(predictor, x)[0], outputs_of(plain, x)[0], rtol=1e-5, atol=1e-5)


def test_clones_share_them(prefix):
    predictor = predictor_of(prefix)
    clone = predictor.clone()
    names = predictor._session.model.panels
    assert len(names) == (2 if packs() else 0)
    for name in names:
        one, other = (p._session.scope.find_var(name).get_tensor()._ptr() for p in (predictor, clone))
        assert one == other


def test_small_matrices_are_not_packed(export, prefix):
    small = export(lambda x: fc(x, 40), ([None, 130], "float32"))
    assert not predictor_of(small)._session.model.panels
    assert not predictor_of(prefix, lambda c: c.switch_ir_optim(False))._session.model.panels


@pytest.mark.parametrize("rows", [1, 2, 17, 200, 1000])
def test_bfloat16_is_packed_and_equal(prefix, rows, monkeypatch):
    def served():
        predictor = predictor_of(prefix, lambda c: c.enable_mkldnn_bfloat16())
        return len(predictor._session.model.panels), outputs_of(predictor, x)[0]

    x = np.random.RandomState(rows).randn(rows, 130).astype("float32")
    count, got = served()
    assert count == (2 if packs(True) else 0)
    monkeypatch.setattr("paddle.inference.model.pack_weights", lambda graph: set())
    count, want = served()
    assert count == 0
    np.testing.assert_array_equal(got, want)


def test_a_saved_model_is_without_them(prefix, tmp_path):
    config = paddle.fluid.core.AnalysisConfig(prefix + ".pdmodel", prefix + ".pdiparams")
    predictor = paddle.fluid.core.create_paddle_predictor(config)
    folder = tmp_path / "optimised"
    predictor.SaveOptimModel(str(folder))
    block = paddle.static.Program.parse_from_string(predictor.get_serialized_program()).block(0)
    assert not panels_of(block)
    assert not predictor._session.model.panels & set(block.vars)
    x = np.random.RandomState(0).randn(20, 130).astype("float32")
    again = paddle.inference.Config(str(folder / "model"), str(folder / "params"))
    got = outputs_of(paddle.inference.create_predictor(again), x)[0]
    np.testing.assert_array_equal(got, outputs_of(predictor_of(prefix), x)[0])
