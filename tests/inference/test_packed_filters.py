"""Filters packed at load: shared by clones, absent from saved models, and without effect on results."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.static.nn import conv2d
from served import operators_of, outputs_of, panels_of, predictor_of


def packs(filters: int = 32) -> bool:
    """Whether the processor has the unit, or for few filters the vectors, that read packed filters."""
    tensor = paddle.fluid.core.LoDTensor()
    tensor.set(np.ones((filters, 32, 3, 3), "float32"))
    return tensor._filter_panels([1, 1], [1, 1], False) is not None


def block(x):
    """A block of a residual network with a stride."""
    y = nn.functional.relu(conv2d(x, 80, 3, stride=2, padding=1))
    y = conv2d(y, 80, 3, padding=1)
    return nn.functional.relu(y + conv2d(x, 80, 1, stride=2))


#: network, channels, height and width, convolutions that have panels
CASES = {
    "residual": (block, 64, (28, 30), 3),
    "stem": (lambda x: conv2d(x, 64, 7, stride=2, padding=3, act="relu"), 3, (64, 64), 1),
    "few": (lambda x: conv2d(x, 16, 5, act="relu6"), 6, (14, 14), 1),
    "dilated": (lambda x: conv2d(x, 48, 3, dilation=2, padding=[0, 4]), 64, (30, 31), 1),
    "no bias": (lambda x: conv2d(x, 64, 3, padding="SAME", bias_attr=False), 96, (14, 14), 1),
    "sigmoid": (lambda x: nn.functional.sigmoid(conv2d(x, 256, 3, padding=1)), 256, (7, 7), 1),
    "groups": (lambda x: conv2d(x, 64, 3, groups=4), 64, (14, 14), 0),
    "wide stride": (lambda x: conv2d(x, 64, 5, stride=3), 32, (40, 40), 0),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("batch", [1, 3])
def test_results_are_those_of_the_filters(export, name, batch):
    build, channels, size, count = CASES[name]
    prefix = export(build, ([None, channels, *size], "float32"))
    x = np.random.RandomState(batch).randn(batch, channels, *size).astype("float32")
    predictor = predictor_of(prefix)
    assert len(predictor._session.model.panels) == (count if packs(16 if name == "few" else 32) else 0)
    (want,) = outputs_of(predictor_of(prefix, lambda c: c.switch_ir_optim(False)), x)
    (got,) = outputs_of(predictor, x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())
    np.testing.assert_array_equal(outputs_of(predictor, x)[0], got)
    threads = predictor_of(prefix, lambda c: c.set_cpu_math_library_num_threads(2))
    np.testing.assert_array_equal(outputs_of(threads, x)[0], got)


@pytest.mark.parametrize("name", ["residual", "stem", "sigmoid"])
def test_bfloat16_is_near(export, name):
    build, channels, size, _ = CASES[name]
    prefix = export(build, ([None, channels, *size], "float32"))
    x = np.random.RandomState(0).randn(2, channels, *size).astype("float32")
    (want,) = outputs_of(predictor_of(prefix), x)
    (got,) = outputs_of(predictor_of(prefix, lambda c: c.enable_mkldnn_bfloat16()), x)
    np.testing.assert_allclose(got, want, rtol=0.03, atol=0.02 * np.abs(want).max())


def test_images_that_are_not_finite(export):
    build, channels, size, _ = CASES["residual"]
    prefix = export(build, ([None, channels, *size], "float32"))
    x = np.random.RandomState(0).randn(2, channels, *size).astype("float32")
    x[1, 5, 7, 9], x[1, 6, 20, 20] = np.nan, np.inf
    (want,) = outputs_of(predictor_of(prefix, lambda c: c.switch_ir_optim(False)), x)
    for change in (None, lambda c: c.enable_mkldnn_bfloat16()):
        (got,) = outputs_of(predictor_of(prefix, change), x)
        np.testing.assert_array_equal(np.isfinite(got[0]), np.isfinite(want[0]))
        rtol, atol = (1e-4, 1e-5) if change is None else (0.03, 0.02)
        np.testing.assert_allclose(got[0], want[0], rtol=rtol, atol=atol * np.abs(want[0]).max())
    (got,) = outputs_of(predictor_of(prefix), x)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-4, atol=1e-5 * np.abs(want[0]).max())


def test_clones_share_them(export):
    build, channels, size, count = CASES["residual"]
    predictor = predictor_of(export(build, ([None, channels, *size], "float32")))
    clone = predictor.clone()
    names = predictor._session.model.panels
    assert len(names) == (count if packs() else 0)
    for name in names:
        one, other = (p._session.scope.find_var(name).get_tensor()._ptr() for p in (predictor, clone))
        assert one == other


def test_without_passes_nothing_is_packed(export):
    build, channels, size, _ = CASES["residual"]
    prefix = export(build, ([None, channels, *size], "float32"))
    assert not predictor_of(prefix, lambda c: c.switch_ir_optim(False))._session.model.panels


def test_a_saved_model_is_without_them(export, tmp_path):
    build, channels, size, _ = CASES["residual"]
    prefix = export(build, ([None, channels, *size], "float32"))
    config = paddle.fluid.core.AnalysisConfig(prefix + ".pdmodel", prefix + ".pdiparams")
    predictor = paddle.fluid.core.create_paddle_predictor(config)
    folder = tmp_path / "optimised"
    predictor.SaveOptimModel(str(folder))
    saved = paddle.static.Program.parse_from_string(predictor.get_serialized_program()).block(0)
    assert not panels_of(saved)
    assert not predictor._session.model.panels & set(saved.vars)
    x = np.random.RandomState(0).randn(1, channels, *size).astype("float32")
    again = paddle.inference.create_predictor(paddle.inference.Config(str(folder / "model"), str(folder / "params")))
    assert operators_of(again).count("conv2d_fusion") == 3
    np.testing.assert_array_equal(outputs_of(again, x)[0], outputs_of(predictor_of(prefix), x)[0])
