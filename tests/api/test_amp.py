"""paddle.amp on the CPU: without effect and with 2.0.2's warning, in bfloat16, and by FLAGS_cpu_amp."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import fluid
from paddle._basics import autocast

F = paddle.nn.functional
VarType = fluid.core.VarDesc.VarType


@pytest.fixture
def by_flag():
    """Sets FLAGS_cpu_amp for one test."""
    yield lambda dtype: fluid.set_flags({"FLAGS_cpu_amp": dtype})
    fluid.set_flags({"FLAGS_cpu_amp": ""})


def train(amp: bool, **more) -> list[float]:
    paddle.seed(3)
    net = paddle.nn.Linear(4, 2)
    opt = paddle.optimizer.Adam(0.1, parameters=net.parameters())
    scaler = paddle.amp.GradScaler(enable=amp, init_loss_scaling=1024)
    losses = []
    x = paddle.to_tensor(np.random.RandomState(0).randn(8, 4).astype("float32"))
    for _ in range(3):
        with paddle.amp.auto_cast(enable=amp, custom_black_list={"mul"}, **more):
            y = net(x)
            loss = (y * y).mean()
        assert y._dtype_name == "float32"
        scaled = scaler.scale(loss)
        scaled.backward()
        scaler.minimize(opt, scaled)
        opt.clear_grad()
        losses.append(float(loss))
    return losses


def test_the_cpu_warns_and_nothing_changes():
    with pytest.warns(UserWarning, match="can only be enabled on CUDAPlace"):
        with_amp = train(True)
    assert with_amp == train(False) and with_amp[0] > with_amp[-1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_flag_trains_unmodified_code(by_flag, dtype, recwarn):
    plain = train(False)
    by_flag(dtype)
    found = train(True)
    assert found != plain and not recwarn.list
    np.testing.assert_allclose(found, plain, rtol=3e-2)


def test_former_names():
    scaler = fluid.dygraph.AmpScaler(enable=False)
    x = paddle.ones([2])
    with fluid.dygraph.amp_guard(enable=False):
        assert scaler.scale(x) is x
    assert issubclass(paddle.amp.GradScaler, fluid.dygraph.amp.AmpScaler)
    assert "conv2d" in fluid.dygraph.amp.auto_cast.WHITE_LIST and "exp" in fluid.dygraph.amp.auto_cast.BLACK_LIST


def test_errors(by_flag):
    with (
        pytest.raises(ValueError, match="both the custom white list"),
        paddle.amp.auto_cast(enable=False, custom_white_list=["mul"], custom_black_list=["mul"]),
    ):
        pass
    for more, kind, text in (
        ({"level": "O3"}, ValueError, "level must be one of"),
        ({"level": "O2", "dtype": "bfloat16"}, NotImplementedError, "level O2"),
        ({"dtype": "float32"}, ValueError, "dtype must be float16 or bfloat16"),
    ):
        with pytest.raises(kind, match=text), paddle.amp.auto_cast(**more):
            pass
    with pytest.raises(ValueError, match="FLAGS_cpu_amp must be one of '', 'float16', 'bfloat16'"):
        by_flag("float64")
    by_flag("float16")
    with pytest.raises(TypeError, match="must be Tensor"):
        paddle.amp.GradScaler().scale(3)
    with pytest.raises(AssertionError, match="incr_ratio must be above 1"):
        paddle.amp.GradScaler(incr_ratio=1.0)
    with pytest.raises(AssertionError, match="decr_ratio must be below 1"):
        paddle.amp.GradScaler(decr_ratio=1.0)
    paddle.enable_static()
    try:
        with pytest.raises(ValueError, match="dygraph"):
            paddle.amp.GradScaler()
        with pytest.raises(ValueError, match="dygraph"), paddle.amp.auto_cast():
            pass
    finally:
        paddle.disable_static()


def half(**more):
    return paddle.amp.auto_cast(dtype="bfloat16", **more)


def test_lists_decide_the_type():
    x, w = paddle.rand([2, 3, 8, 8]), paddle.rand([4, 3, 3, 3])
    with half():
        conv = F.conv2d(x, w)
        assert conv.dtype == VarType.BF16
        assert F.relu(conv).dtype == VarType.BF16  # follows its input
        assert (conv + 1.0).dtype == VarType.BF16
        assert paddle.add(conv, paddle.ones([4, 6, 6])).dtype == VarType.FP32  # float32 prevails
        assert F.softmax(conv).dtype == fluid.layers.mean(conv).dtype == VarType.FP32  # black
        assert paddle.matmul(x, x).dtype == VarType.BF16
        assert paddle.sum(paddle.ones([2], "int64")).dtype == VarType.INT64
        with half(custom_black_list=["conv2d"], custom_white_list=["tanh"]):
            assert F.conv2d(x, w).dtype == VarType.FP32 and paddle.tanh(x).dtype == VarType.BF16
        with paddle.amp.auto_cast(enable=False):
            assert F.conv2d(x, w).dtype == VarType.FP32
        with half(level="O0"):
            assert F.conv2d(x, w).dtype == VarType.FP32
        assert F.conv2d(x, w).dtype == VarType.BF16
    assert x.dtype == w.dtype == F.conv2d(x, w).dtype == VarType.FP32


def test_an_exception_ends_the_context():
    with pytest.raises(KeyError), half():
        raise KeyError
    assert autocast.low() is None and paddle.matmul(paddle.ones([2, 2]), paddle.ones([2, 2])).dtype == VarType.FP32


def test_threads_have_contexts_of_their_own():
    import threading

    found = []
    with half():
        x = paddle.ones([2, 2])
        thread = threading.Thread(target=lambda: found.append(paddle.matmul(x, x).dtype))
        thread.start()
        thread.join()
        assert paddle.matmul(x, x).dtype == VarType.BF16
    assert found == [VarType.FP32]


def test_norms_keep_scales_and_statistics_in_float32():
    x = paddle.rand([4, 3, 6, 6])
    net = paddle.nn.Sequential(paddle.nn.Conv2D(3, 8, 3, bias_attr=False), paddle.nn.BatchNorm2D(8), paddle.nn.ReLU())
    with half():
        y = net(x)
    assert y.dtype == VarType.BF16
    y.sum().backward()
    for p in net.parameters():
        assert p.dtype == VarType.FP32 and (p.stop_gradient or p.grad.dtype == np.float32)
    assert net[1]._mean.dtype == VarType.FP32 and abs(net[1]._mean.numpy()).max() > 0
    layer = paddle.nn.LayerNorm(6)
    with half(custom_white_list=["layer_norm"]):
        assert layer(x).dtype == VarType.BF16
    with half():
        assert layer(x).dtype == VarType.FP32


def test_operators_without_half_precision_compute_in_float32():
    net = paddle.nn.LSTM(4, 3)
    with half():
        x = paddle.matmul(paddle.rand([2, 5, 4]), paddle.rand([4, 4]))
        assert x.dtype == VarType.BF16
        out, _ = net(x)
    assert out.dtype == VarType.FP32


def values(low: bool):
    paddle.seed(5)
    net = paddle.nn.Sequential(paddle.nn.Linear(16, 32), paddle.nn.GELU(), paddle.nn.Linear(32, 4))
    x = paddle.to_tensor(np.random.RandomState(1).randn(8, 16).astype("float32"), stop_gradient=False)
    with paddle.amp.auto_cast(enable=low, dtype="bfloat16"):
        loss = F.cross_entropy(net(x), paddle.to_tensor(np.arange(8) % 4))
    loss.backward()
    return [float(loss), x.grad, *(p.grad for p in net.parameters())]


def test_gradients_are_those_of_float32_up_to_rounding():
    for got, want in zip(values(True), values(False), strict=True):
        got, want = np.asarray(got), np.asarray(want)
        assert got.dtype == want.dtype and not np.array_equal(got, want)
        np.testing.assert_allclose(got, want, atol=2e-2 * np.abs(want).max())


def test_a_traced_layer_has_the_casts():
    net = paddle.nn.Linear(4, 2)
    x = paddle.rand([3, 4])
    with half():
        out, traced = paddle.jit.TracedLayer.trace(net, [x])
    types = [op.type for op in traced.program.global_block().ops]
    assert types.count("cast") >= 2
    np.testing.assert_array_equal(traced([x])[0], out.numpy())


def test_the_scale_follows_infinite_gradients(by_flag, capsys):
    by_flag("float16")
    w = paddle.create_parameter([2], "float32", default_initializer=paddle.nn.initializer.Constant(1.0))
    opt = paddle.optimizer.SGD(0.5, parameters=[w])
    scaler = paddle.amp.GradScaler(init_loss_scaling=8.0, incr_every_n_steps=2, decr_every_n_nan_or_inf=1)

    def step(factor):
        loss = scaler.scale((w * factor).sum())
        loss.backward()
        result = scaler.minimize(opt, loss)
        opt.clear_grad()
        return result

    assert step(1.0)[0] == [] and w.numpy().tolist() == [0.5, 0.5] and not scaler._found_inf.numpy()
    assert step(float("inf")) == (None, None) and w.numpy().tolist() == [0.5, 0.5] and scaler._found_inf.numpy()
    assert float(scaler._scale) == 4.0 and "Found inf or nan" in capsys.readouterr().out
    step(0.0)
    step(0.0)
    assert float(scaler._scale) == 8.0
    fixed = paddle.amp.GradScaler(init_loss_scaling=8.0, use_dynamic_loss_scaling=False)
    assert fixed.scale(paddle.ones([1])).numpy() == 8


def test_the_tracer_tells_its_lists():
    tracer = fluid.framework._dygraph_tracer()
    assert not tracer._enable_autocast
    with half(custom_white_list=["log"], custom_black_list=["conv2d"]):
        white, black = tracer._get_amp_op_list()
        assert tracer._enable_autocast
        assert white == (autocast.WHITE_LIST | {"log"}) - {"conv2d"}
        assert black == (autocast.BLACK_LIST - {"log"}) | {"conv2d"}
    assert tracer._get_amp_op_list() == (autocast.WHITE_LIST, autocast.BLACK_LIST)
