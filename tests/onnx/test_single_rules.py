"""Rules whose operators have no table case that is exported."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import paddle
import pytest
from paddle import _ops
from running import model_of, run


def both(static, fetches, feed, opset=17):
    """Values of the Program in test mode, and of its model."""
    program = static.default_main_program()
    test = program.clone(for_test=True)
    names = [v.name for v in fetches]
    want = static.Executor().run(test, feed=feed, fetch_list=names)
    return run(model_of(program, list(feed), names, opset), feed), want


def same(static, fetches, feed, opset=17):
    for got, want in zip(*both(static, fetches, feed, opset), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")


def test_unbind(static):
    x = static.data("x", [2, 3, 4])
    same(static, paddle.unbind(x, 1), {"x": X})


def test_empty_and_aliases(static):
    x = static.data("x", [2, 3, 4])
    y = _ops.rnn_memory_helper(x)
    z = _ops.memcpy(x, dst_place_type=2)
    same(static, [y * 1.0, z * 1.0], {"x": X})
    made = paddle.empty([2, 3])
    (got,) = run(model_of(static.default_main_program(), [], [made.name], 17), {})
    assert got.shape == (2, 3)


def test_draws_of_a_batch_size(static):
    x = static.data("x", [None, 3, 4])
    outs = [
        _ops.gaussian_random_batch_size_like(x, shape=[-1, 5], mean=2.0, std=0.5),
        _ops.uniform_random_batch_size_like(x, shape=[-1, 5], min=3.0, max=4.0),
    ]
    (normal, uniform), want = both(static, outs, {"x": X})
    assert normal.shape == uniform.shape == want[0].shape == (2, 5)
    assert ((uniform >= 3) & (uniform < 4)).all()


def test_multinomial(static):
    x = static.data("x", [None, 3])
    out = paddle.multinomial(x, 50, replacement=True)
    (got,), (want,) = both(static, [out], {"x": np.float32([[0, 1, 3], [1, 0, 0]])})
    assert got.shape == want.shape and got.dtype == want.dtype
    assert set(got[0]) == {1, 2} and set(got[1]) == {0}


def test_channel_scales_of_training(static):
    x = static.data("x", [2, 3, 4])
    block = static.default_main_program().global_block()
    scale = block.create_var(name="scale", shape=[3], dtype="float32", persistable=True)
    out = block.create_var(name="out", shape=[2, 3, 4], dtype="float32")
    block.append_op(
        type="fake_channel_wise_quantize_abs_max",
        inputs={"X": [x]},
        outputs={"Out": [out], "OutScale": [scale]},
        attrs={"quant_axis": 1, "is_test": True},
    )
    static.global_scope().var("scale").get_tensor().set(np.float32([1, 2, 0.5]), paddle.CPUPlace())
    same(static, [out], {"x": X})


def test_quantized_and_back(static):
    x = static.data("x", [2, 3, 4])
    same(static, [_ops.fake_quantize_dequantize_abs_max(x)[0]], {"x": X})


def test_repeated_fc_relu(static):
    x = static.data("x", [2, 4])
    block, r = static.default_main_program().global_block(), np.random.default_rng(1)
    held = {}
    for name, shape in {"w0": [4, 3], "w1": [3, 2], "b0": [3], "b1": [2]}.items():
        held[name] = block.create_var(name=name, shape=shape, dtype="float32", persistable=True)
        value = r.normal(size=shape).astype("float32")
        static.global_scope().var(name).get_tensor().set(value, paddle.CPUPlace())
    middle = block.create_var(name="middle", shape=[2, 3], dtype="float32")
    out = block.create_var(name="out", shape=[2, 2], dtype="float32")
    block.append_op(
        type="fusion_repeated_fc_relu",
        inputs={"X": [x], "W": [held["w0"], held["w1"]], "Bias": [held["b0"], held["b1"]]},
        outputs={"ReluOut": [middle], "Out": [out]},
    )
    same(static, [out], {"x": X[:, 0]})


def test_gather_tree_of_any_length(static):
    ids, parents = static.data("ids", [-1, -1, 3], "int64"), static.data("parents", [-1, -1, 3], "int64")
    r = np.random.default_rng(2)
    feed = {"ids": r.integers(0, 9, (4, 2, 3)), "parents": r.integers(0, 3, (4, 2, 3))}
    same(static, [paddle.nn.functional.gather_tree(ids, parents)], feed)


@pytest.mark.parametrize("opset", [11, 17])
def test_unknown_sizes(static, opset):
    """Operators whose results depend on sizes that are not known during export."""
    x = static.data("x", [-1, -1, 4])
    rows = paddle.shape(x)[1]
    outs = [
        paddle.reshape(x, [0, -1]),
        paddle.flatten(x, 0, 1),
        paddle.expand(x[:, :1], [-1, 3, -1]),
        paddle.argsort(x, 1),
        paddle.fluid.layers.fill_constant_batch_size_like(x, [-1, 2], "float32", 3.0),
        paddle.full([rows, 2], 1.5),
        paddle.arange(0, rows, dtype="int32"),
        paddle.nn.functional.pad(x, [1, 2], data_format="NCL"),
        paddle.slice(x, [1], [1], [rows]),
        paddle.nn.functional.layer_norm(x, [4]),
    ]
    same(static, outs, {"x": X}, opset)


def test_the_list_of_operators():
    from paddle.onnx import rules  # noqa: F401
    from paddle.onnx.registry import RULES

    made = subprocess.run([sys.executable, "-m", "paddle.onnx"], capture_output=True, text=True, check=True)
    assert made.stdout.split() == sorted(RULES) and len(RULES) >= 280
