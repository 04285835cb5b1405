"""Each pass over a model: it replaces the operators that it names, and the results stay within 1e-5."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.inference.passes import CPU_PASSES, known
from paddle.inference.passes.registry import NO_EFFECT, PASSES
from paddle.static.nn import batch_norm, conv2d, conv2d_transpose, fc
from served import operators_of, outputs_of, predictor_of

IMAGE = ([None, 3, 8, 8], "float32")
ROWS = ([None, 6], "float32")
SEQUENCE = ([None, 5, 16], "float32")


def conv(x, channels=4, **kwargs):
    return conv2d(x, channels, 3, padding=1, bias_attr=kwargs.pop("bias", False), **kwargs)


def affine(x):
    scale, bias = (paddle.static.create_parameter([4], "float32") for _ in range(2))
    return paddle.fluid.layers.affine_channel(x, scale, bias)


def residual(x):
    y = conv(x)
    return nn.functional.relu(conv(y, bias=None) + y)


class Attention(nn.Layer):
    """Self-attention with or without a mask."""

    def __init__(self, mask: bool) -> None:
        super().__init__()
        self.attention, self.mask = nn.MultiHeadAttention(16, 4), mask

    def forward(self, x):
        mask = None
        if self.mask:
            mask = paddle.fluid.layers.fill_constant([1, 1, 5, 5], "float32", -2.0)
        return self.attention(x, x, x, mask)


def parameter(shape):
    return paddle.static.create_parameter(shape, "float32")


def flatten2(x, axis=1):
    block = paddle.static.default_main_program().current_block()
    out, shape = (block.create_var(dtype="float32", shape=[0]) for _ in range(2))
    block.append_op("flatten2", inputs={"X": x}, outputs={"Out": out, "XShape": shape}, attrs={"axis": axis})
    return out


def product(x):
    return paddle.fluid.layers.mul(x, parameter([192, 5])) + parameter([5])


def linear_bn(x):
    return batch_norm(fc(x, 7), is_test=True)


#: pass, network, inputs, operators that go, operator that comes
CASES = [
    ("conv_bn_fuse_pass", lambda x: batch_norm(conv(x)), [IMAGE], "batch_norm", "conv2d_fusion"),
    ("conv_bn_fuse_pass", lambda x: batch_norm(conv(x, 6, groups=3)), [IMAGE], "batch_norm", "conv2d_fusion"),
    ("conv_eltwiseadd_bn_fuse_pass", lambda x: batch_norm(conv(x, bias=None)), [IMAGE], "batch_norm", "conv2d_fusion"),
    (
        "conv_transpose_bn_fuse_pass",
        lambda x: batch_norm(conv2d_transpose(x, 4, filter_size=3, bias_attr=False)),
        [IMAGE],
        "batch_norm",
        "conv2d_transpose",
    ),
    (
        "conv_transpose_eltwiseadd_bn_fuse_pass",
        lambda x: batch_norm(conv2d_transpose(x, 6, filter_size=3, groups=3)),
        [IMAGE],
        "batch_norm",
        "conv2d_transpose",
    ),
    ("conv_affine_channel_fuse_pass", lambda x: affine(conv(x)), [IMAGE], "affine_channel", "conv2d_fusion"),
    (
        "conv_eltwiseadd_affine_channel_fuse_pass",
        lambda x: affine(conv(x, bias=None)),
        [IMAGE],
        "affine_channel",
        "conv2d_fusion",
    ),
    ("conv_elementwise_add_fuse_pass", lambda x: conv(x, bias=None), [IMAGE], "conv2d", "conv2d_fusion"),
    (
        "conv_elementwise_add_act_fuse_pass",
        lambda x: nn.functional.relu(conv(x, bias=None)),
        [IMAGE],
        "relu",
        "conv2d_fusion",
    ),
    (
        "conv_elementwise_add_act_fuse_pass",
        lambda x: nn.functional.relu6(conv(x)),
        [IMAGE],
        "relu6",
        "conv2d_fusion",
    ),
    ("conv_elementwise_add2_act_fuse_pass", residual, [IMAGE], "elementwise_add", "conv2d_fusion"),
    ("fc_fuse_pass", lambda x: fc(x, 4, activation="relu"), [ROWS], "mul", "fc"),
    ("map_matmul_v2_to_mul_pass", lambda x: nn.Linear(6, 3)(x), [ROWS], "matmul", "fc"),
    (
        "flatten2_matmul_fuse_pass",
        lambda x: nn.Linear(192, 5)(nn.Flatten()(x)),
        [IMAGE],
        "flatten_contiguous_range",
        "fc",
    ),
    (
        "flatten2_matmul_fuse_pass",
        lambda x: paddle.matmul(flatten2(x), parameter([5, 192]), transpose_y=True) + parameter([5]),
        [IMAGE],
        "flatten2",
        "fc",
    ),
    ("flatten2_matmul_fuse_pass", lambda x: product(flatten2(x)), [IMAGE], "flatten2", "fc"),
    ("flatten2_matmul_fuse_pass", lambda x: product(x.reshape([0, -1])), [IMAGE], "reshape2", "fc"),
    ("fc_bn_fuse_pass", linear_bn, [ROWS], "batch_norm", "fc"),
    ("multihead_matmul_fuse_pass_v2", lambda x: Attention(False)(x), [SEQUENCE], "softmax", "multihead_matmul"),
    ("multihead_matmul_fuse_pass_v2", lambda x: Attention(True)(x), [SEQUENCE], "softmax", "multihead_matmul"),
    ("simplify_with_basic_ops_pass", lambda x: nn.functional.dropout(x, 0.3) + 1, [ROWS], "dropout", "scale"),
    (
        "constant_folding_pass",
        lambda x: x + paddle.exp(paddle.static.create_parameter([2, 3], "float32")).reshape([6]),
        [ROWS],
        "exp",
        "elementwise_add",
    ),
]


@pytest.mark.parametrize("name, build, specs, gone, made", CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_a_pass_keeps_the_results(export, name, build, specs, gone, made):
    prefix = export(build, *specs)
    r = np.random.RandomState(0)
    arrays = [r.randn(*[2 if d is None else d for d in shape]).astype(dtype) for shape, dtype in specs]
    off = predictor_of(prefix, lambda c: c.switch_ir_optim(False))
    on = predictor_of(prefix)
    for want, got in zip(outputs_of(off, *arrays), outputs_of(on, *arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * max(1.0, np.abs(want).max()))
    assert gone in operators_of(off) and made in operators_of(on)
    assert operators_of(on).count(gone) < operators_of(off).count(gone)


def test_a_deleted_pass_is_not_applied(export):
    prefix = export(lambda x: batch_norm(conv(x)), IMAGE)
    without = predictor_of(prefix, lambda c: c.delete_pass("conv_bn_fuse_pass"))
    assert "batch_norm" in operators_of(without)
    assert "batch_norm" not in operators_of(predictor_of(prefix))


def test_without_optimisation_the_operators_are_those_of_the_file(export):
    prefix = export(lambda x: nn.functional.relu(batch_norm(conv(x))), IMAGE)
    off = predictor_of(prefix, lambda c: c.switch_ir_optim(False))
    assert operators_of(off) == ["conv2d", "batch_norm", "relu", "scale"]


@pytest.mark.parametrize(
    "flatten, rows",
    [
        (lambda x: nn.Flatten(0)(x), 384),
        (lambda x: nn.Flatten(1, 2)(x), 8),
        (lambda x: x.reshape([-1, 192]), 192),
        (lambda x: x.reshape([8, -1]), 48),
        (lambda x: flatten2(x, 2), 64),
        (lambda x: flatten2(x, 0), 384),
    ],
)
def test_a_flatten_of_other_dimensions_stays(export, flatten, rows):
    prefix = export(lambda x: paddle.matmul(flatten(x), parameter([rows, 5])), ([2, 3, 8, 8], "float32"))
    on = predictor_of(prefix)
    x = np.random.RandomState(0).randn(2, 3, 8, 8).astype("float32")
    want = outputs_of(predictor_of(prefix, lambda c: c.switch_ir_optim(False)), x)
    np.testing.assert_allclose(outputs_of(on, x)[0], want[0], rtol=1e-5, atol=1e-5)
    assert any(op.startswith(("flatten", "reshape")) for op in operators_of(on))


def test_a_flatten_that_is_read_twice_stays(export):
    def build(x):
        y = nn.Flatten()(x)
        return nn.Linear(192, 5)(y), y

    assert "flatten_contiguous_range" in operators_of(predictor_of(export(build, IMAGE)))


def test_a_result_that_is_fetched_stays(export):
    def build(x):
        y = conv(x)
        return batch_norm(y), y

    prefix = export(build, IMAGE)
    x = np.random.RandomState(1).randn(1, 3, 8, 8).astype("float32")
    off, on = (outputs_of(predictor_of(prefix, lambda c, v=v: c.switch_ir_optim(v)), x) for v in (False, True))
    for want, got in zip(off, on, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_filter_that_two_convolutions_share_is_not_changed(export):
    def build(x):
        attr = paddle.ParamAttr(name="shared_filter")
        one = conv2d(x, 3, 3, padding=1, param_attr=attr, bias_attr=False)
        return batch_norm(one) + conv2d(x, 3, 3, padding=1, param_attr=attr, bias_attr=False)

    prefix = export(build, IMAGE)
    x = np.random.RandomState(1).randn(1, 3, 8, 8).astype("float32")
    off, on = (outputs_of(predictor_of(prefix, lambda c, v=v: c.switch_ir_optim(v)), x)[0] for v in (False, True))
    np.testing.assert_allclose(on, off, rtol=1e-5, atol=1e-5)


def test_every_pass_of_a_config_is_known():
    assert all(known(name) for name in CPU_PASSES)
    assert not NO_EFFECT & set(PASSES)


def test_gru_and_its_product_become_one_operator(tmp_path):
    main, startup = paddle.static.Program(), paddle.static.Program()
    exe = paddle.static.Executor(paddle.CPUPlace())
    with paddle.static.program_guard(main, startup):
        x = paddle.fluid.data("x", [None, 4], "float32", lod_level=1)
        gates = paddle.fluid.layers.fc(x, 15)
        y = paddle.fluid.layers.dynamic_gru(gates, 5)
        exe.run(startup)
        paddle.fluid.io.save_inference_model(str(tmp_path), ["x"], [y], exe, main)
    from paddle.fluid.core import AnalysisConfig, PaddleTensor, create_paddle_predictor

    data = np.random.RandomState(2).randn(7, 4).astype("float32")
    results = []
    for optimise in (False, True):
        config = AnalysisConfig(str(tmp_path))
        config.switch_ir_optim(optimise)
        predictor = create_paddle_predictor(config)
        tensor = PaddleTensor(data)
        tensor.lod = [[0, 3, 7]]
        (out,) = predictor.run([tensor])
        assert out.lod == [[0, 3, 7]]
        results.append(out.as_ndarray())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-6)
    assert "fusion_gru" in operators_of(predictor)
