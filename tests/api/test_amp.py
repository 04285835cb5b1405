"""paddle.amp on the CPU: as in 2.0.2 it warns and computes in float32."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import fluid


def train(amp: bool) -> list[float]:
    paddle.seed(3)
    net = paddle.nn.Linear(4, 2)
    opt = paddle.optimizer.Adam(0.1, parameters=net.parameters())
    scaler = paddle.amp.GradScaler(enable=amp, init_loss_scaling=1024)
    losses = []
    x = paddle.to_tensor(np.random.RandomState(0).randn(8, 4).astype("float32"))
    for _ in range(3):
        with paddle.amp.auto_cast(enable=amp, custom_black_list={"mul"}):
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


def test_former_names():
    scaler = fluid.dygraph.AmpScaler(enable=False)
    x = paddle.ones([2])
    with fluid.dygraph.amp_guard(enable=False):
        assert scaler.scale(x) is x
    assert issubclass(paddle.amp.GradScaler, fluid.dygraph.amp.AmpScaler)


def test_errors():
    with (
        pytest.raises(ValueError, match="both the custom white list"),
        paddle.amp.auto_cast(enable=False, custom_white_list=["mul"], custom_black_list=["mul"]),
    ):
        pass
    paddle.enable_static()
    try:
        with pytest.raises(ValueError, match="dygraph"):
            paddle.amp.GradScaler()
        with pytest.raises(ValueError, match="dygraph"), paddle.amp.auto_cast():
            pass
    finally:
        paddle.disable_static()
