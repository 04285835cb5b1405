"""ImperativeQuantAware and its layers: simulated quantization in dygraph mode."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle.fluid.contrib.slim.quantization import (
    FakeChannelWiseQuantDequantAbsMax,
    FakeQuantAbsMax,
    FakeQuantMovingAverage,
    ImperativeCalcOutScale,
    ImperativeQuantAware,
    MovingAverageAbsMaxScale,
    QuantizedConv2D,
    QuantizedLinear,
    QuantizedNoweightLayer,
)


def rounded(a, most, bits=8):
    levels = (1 << (bits - 1)) - 1
    return np.round(np.clip(a, -most, most) / most * levels) * most / levels


def test_quantized_layers():
    x = np.random.RandomState(0).randn(6, 4).astype("float32")
    np.testing.assert_allclose(FakeQuantAbsMax(quant_bits=4)(paddle.to_tensor(x)), rounded(x, np.abs(x).max(), 4), 1e-5)
    by_channel = FakeChannelWiseQuantDequantAbsMax(channel_num=4, quant_axis=1, quant_on_weight=True)
    most = np.abs(x).max(0)
    np.testing.assert_allclose(by_channel(paddle.to_tensor(x)), rounded(x, most), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(by_channel._scale, most)
    average, measure = FakeQuantMovingAverage(moving_rate=0.5), MovingAverageAbsMaxScale(moving_rate=0.5)
    state = accum = 1.0
    for k in (1, 3):
        state, accum = 0.5 * state + 1, 0.5 * accum + k * np.abs(x).max()
        got = average(paddle.to_tensor(k * x))
        np.testing.assert_allclose(got, rounded(k * x, accum / state), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(measure(paddle.to_tensor(k * x)), [accum / state], rtol=1e-5)
    average.eval()
    np.testing.assert_allclose(average(paddle.to_tensor(x)), rounded(x, accum / state), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(average._scale, [accum / state], rtol=1e-5)


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        conv = paddle.nn.Conv2D(1, 3, 3, padding=1, padding_mode="reflect")
        self.convs = paddle.nn.Sequential(conv, paddle.nn.ReLU())
        self.kept = paddle.nn.Linear(48, 5)
        self.kept.skip_quant = True
        self.last = paddle.nn.Linear(5, 2)

    def forward(self, x):
        return self.last(self.kept(paddle.flatten(self.convs(x), 1)))


@pytest.mark.parametrize("weights", ["abs_max", "channel_wise_abs_max"])
def test_a_model(weights):
    paddle.seed(1)
    net = Net()
    x = paddle.to_tensor(np.random.RandomState(2).rand(8, 1, 4, 4).astype("float32"))
    label = paddle.to_tensor(np.arange(8) % 2)
    before, parameters = net(x).numpy(), [p.name for p in net.parameters()]
    aware = ImperativeQuantAware(
        weight_quantize_type=weights,
        quantizable_layer_type=["Conv2D", "Linear", "ReLU"],
        activation_quantize_type="abs_max",
    )
    aware.quantize(net)
    conv, relu = net.convs
    assert isinstance(conv, QuantizedConv2D) and isinstance(relu, QuantizedNoweightLayer)
    assert type(net.kept) is paddle.nn.Linear and isinstance(net.last, QuantizedLinear)
    assert set(parameters) <= {p.name for p in net.parameters()}
    # the ReLU reads the output of a moving average, which starts at 1 and clips larger numbers initially
    np.testing.assert_allclose(net(x), before, atol=0.2 * np.abs(before).max())
    optimizer = paddle.optimizer.Adam(0.05, parameters=net.parameters())
    losses = []
    for _ in range(12):
        loss = paddle.nn.functional.cross_entropy(net(x), label)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.numpy().item())
    assert losses[-1] < 0.9 * losses[0]
    scales = aware._out_scale._out_scale_dict
    assert len(scales) == 4 and all(float(s.numpy().item()) > 0 for s in scales.values())
    with pytest.raises(NotImplementedError, match=r"jit\.save"):
        aware.save_quantized_model(net, "nowhere")


def test_custom_layers_and_errors():
    class Half(paddle.nn.Layer):
        def forward(self, x):
            return x / 2

    linear = paddle.nn.Linear(3, 2)
    x = paddle.to_tensor([[1.0, 2.0, 3.0]])
    net = paddle.nn.Sequential(linear)
    ImperativeQuantAware(act_quantize_layer=Half, weight_preprocess_layer=Half).quantize(net)
    weight = linear.weight.numpy() / 2
    expected = x.numpy() / 2 @ rounded(weight, np.abs(weight).max()) + linear.bias.numpy()
    np.testing.assert_allclose(net(x), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(AssertionError, match="Conv3D is not supported"):
        ImperativeQuantAware(quantizable_layer_type=["Conv3D"])
    with pytest.raises(ValueError, match="Unknown weight_quantize_type"):
        ImperativeQuantAware(weight_quantize_type="no_such")
    with pytest.raises(AssertionError, match="Layer is expected"):
        ImperativeCalcOutScale().calc_out_scale("no model")
