"""Layers that quantize and dequantize their inputs."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics import unique_name
from paddle.nn import functional as F
from paddle.nn.initializer import Constant
from paddle.nn.layer.layers import Layer
from paddle.nn.param_attr import ParamAttr

__all__ = [
    "FakeQuantMovingAverage",
    "FakeQuantAbsMax",
    "FakeChannelWiseQuantDequantAbsMax",
    "QuantizedConv2D",
    "QuantizedLinear",
    "QuantizedNoweightLayer",
    "MovingAverageAbsMaxScale",
]


class _Rounding(Layer):
    """Base of these Layers: parameters without training."""

    def _number(self, name: str, dtype: Any, start: float, count: int = 1) -> Any:
        attr = ParamAttr(name=unique_name.generate(name), initializer=Constant(start), trainable=False)
        made = self.create_parameter(shape=[count], attr=attr, dtype=dtype)
        made.stop_gradient = True
        return made

    def _average(self, prefix: str, dtype: Any, scale: float) -> None:
        self._scale = self._number(f"{prefix}.scale", dtype, scale)
        self._state = self._number(f"{prefix}.state", dtype, 1)
        self._accum = self._number(f"{prefix}.accum", dtype, 1)

    def _moving_average_slots(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Inputs and outputs of the operator that update the moving average: in training only."""
        if not self.training:
            return {"is_test": True}, {"OutScale": self._scale}
        before = {"is_test": False, "InAccum": self._accum, "InState": self._state}
        return before, {"OutScale": self._scale, "OutState": self._state, "OutAccum": self._accum}


class FakeQuantMovingAverage(_Rounding):
    """Quantizes with a moving average of the largest magnitude as scale.

    Args:
        name (str): prefix of the parameters' names.
        moving_rate (float): decay of the moving average.
        quant_bits (int): bit width.
        dtype (str): of the parameters.

    Examples:
        >>> import paddle
        >>> from paddle.fluid.contrib.slim.quantization import FakeQuantMovingAverage
        >>> layer = FakeQuantMovingAverage(quant_bits=2)
        >>> layer(paddle.to_tensor([0.3, -1.0])).numpy().tolist()
        [0.0, -1.0]
    """

    def __init__(self, name=None, moving_rate=0.9, quant_bits=8, dtype="float32") -> None:
        super().__init__()
        self._moving_rate, self._quant_bits = moving_rate, quant_bits
        self._average(name or "quant_dequant", dtype, 0.001)

    def forward(self, input: Any) -> Any:  # noqa: A002 (Paddle's name)
        """The float32 tensor, quantized and dequantized."""
        before, after = self._moving_average_slots()
        how = {"moving_rate": self._moving_rate, "bit_length": self._quant_bits, **before, **after}
        return _ops.fake_quantize_dequantize_moving_average_abs_max(X=input, InScale=self._scale, **how)[0]


class FakeQuantAbsMax(_Rounding):
    """Quantizes with the largest magnitude as scale.

    Args:
        name (str): prefix of the scale's name.
        quant_bits (int): bit width.
        dtype (str): of the scale.
        quant_on_weight (bool): store the scale as a parameter.
    """

    def __init__(self, name=None, quant_bits=8, dtype="float32", quant_on_weight=False) -> None:
        super().__init__()
        self._quant_bits = quant_bits
        scale = f"{name or 'quant_dequant'}.scale"
        self._scale = self._number(scale, self._dtype, 0.0) if quant_on_weight else None

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The float32 tensor, quantized and dequantized."""
        kept = {} if self._scale is None else {"OutScale": self._scale}
        return _ops.fake_quantize_dequantize_abs_max(X=input, bit_length=self._quant_bits, **kept)[0]


class FakeChannelWiseQuantDequantAbsMax(_Rounding):
    """Quantizes a weight with the largest magnitude of each channel as its scale.

    Args:
        name (str): prefix of the scales' name.
        channel_num (int): number of channels.
        quant_bits (int): bit width.
        quant_axis (int): the axis of the channels, 0 or 1.
        dtype (str): of the scales.
        quant_on_weight (bool): must be True.
    """

    def __init__(
        self, name=None, channel_num=None, quant_bits=8, quant_axis=0, dtype="float32", quant_on_weight=False
    ) -> None:
        assert quant_on_weight, "Channel_wise only can be used on weight quantization."
        assert channel_num is not None, "channel_num must be given for channel_wise_abs_max"
        super().__init__()
        self._quant_bits, self._quant_axis = quant_bits, quant_axis
        self._scale = self._number(f"{name or 'quant_dequant'}.scale", dtype, 0.0, channel_num)

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The float32 tensor, quantized and dequantized."""
        how = {"bit_length": self._quant_bits, "quant_axis": self._quant_axis, "OutScale": self._scale}
        return _ops.fake_channel_wise_quantize_dequantize_abs_max(X=input, **how)[0]


class MovingAverageAbsMaxScale(_Rounding):
    """Measures a moving average of the largest magnitude of a tensor.

    Args:
        name (str): prefix of the parameters' names.
        moving_rate (float): decay of the moving average.
        dtype (str): of the parameters.
    """

    def __init__(self, name=None, moving_rate=0.9, dtype="float32") -> None:
        super().__init__()
        self._moving_rate = moving_rate
        self._average(name or "outscale", dtype, 1)

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The average, a tensor of shape [1]."""
        before, after = self._moving_average_slots()
        how = {"moving_rate": self._moving_rate, **before, **after}
        return _ops.moving_average_abs_max_scale(X=input, **how)[0]


def _rounding(
    kind: str, name: str, bits: int, dtype: Any, moving_rate: float, weight: Any = None, axis: int = 0
) -> Layer:
    if kind == "moving_average_abs_max":
        return FakeQuantMovingAverage(name, moving_rate, bits, dtype)
    if kind == "abs_max":
        return FakeQuantAbsMax(name, bits, dtype, weight is not None)
    return FakeChannelWiseQuantDequantAbsMax(name, weight.shape[axis], bits, axis, dtype, True)


class _Weighted(Layer):
    """A Layer with a weight, whose inputs are quantized."""

    _axis = 0

    def __init__(
        self,
        layer,
        weight_bits=8,
        activation_bits=8,
        moving_rate=0.9,
        weight_quantize_type="abs_max",
        activation_quantize_type="abs_max",
        weight_pre_layer=None,
        act_pre_layer=None,
        weight_quant_layer=None,
        act_quant_layer=None,
    ) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        if weight_quant_layer is not None:
            self._fake_quant_weight = weight_quant_layer()
        else:
            how = self.weight.name, weight_bits, self._dtype, moving_rate, self.weight, self._axis
            self._fake_quant_weight = _rounding(weight_quantize_type, *how)
        if act_quant_layer is not None:
            self._fake_quant_input = act_quant_layer()
        else:
            kept = layer.full_name(), activation_bits, self._dtype, moving_rate
            self._fake_quant_input = _rounding(activation_quantize_type, *kept)
        self._act_preprocess = None if act_pre_layer is None else act_pre_layer()
        self._weight_preprocess = None if weight_pre_layer is None else weight_pre_layer()

    def _rounded(self, x: Any) -> tuple[Any, Any]:
        x = x if self._act_preprocess is None else self._act_preprocess(x)
        weight = self.weight if self._weight_preprocess is None else self._weight_preprocess(self.weight)
        return self._fake_quant_input(x), self._fake_quant_weight(weight)


class QuantizedConv2D(_Weighted):
    """A Conv2D with quantized inputs and weights.

    Args:
        layer (Conv2D): its parameters are shared.
        weight_bits, activation_bits (int), moving_rate (float), weight_quantize_type, activation_quantize_type (str),
            weight_pre_layer, act_pre_layer, weight_quant_layer, act_quant_layer (type): as of ImperativeQuantAware.
    """

    def __init__(self, layer, *args: Any, **kwargs: Any) -> None:
        super().__init__(layer, *args, **kwargs)
        for name in ("_groups", "_stride", "_padding", "_padding_mode", "_dilation", "_data_format"):
            setattr(self, name, getattr(layer, name))

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The convolution of the quantized input."""
        x, weight = self._rounded(input)
        padding = self._padding
        if self._padding_mode != "zeros":
            x = F.pad(x, [padding] * 4, mode=self._padding_mode, data_format=self._data_format)
            padding = 0
        how = {"stride": self._stride, "dilation": self._dilation, "groups": self._groups}
        return F.conv2d(x, weight, bias=self.bias, padding=padding, data_format=self._data_format, **how)


class QuantizedLinear(_Weighted):
    """A Linear with quantized inputs and weights.

    Args:
        layer (Linear): its parameters are shared.
        weight_bits, activation_bits (int), moving_rate (float), weight_quantize_type, activation_quantize_type (str),
            weight_pre_layer, act_pre_layer, weight_quant_layer, act_quant_layer (type): as of ImperativeQuantAware.
    """

    _axis = 1

    def __init__(self, layer, *args: Any, **kwargs: Any) -> None:
        super().__init__(layer, *args, **kwargs)
        self.name = layer.name

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The product of the quantized input."""
        x, weight = self._rounded(input)
        return F.linear(x=x, weight=weight, bias=self.bias, name=self.name)


class QuantizedNoweightLayer(Layer):
    """Any Layer of one input, which is quantized with a moving average as scale.

    Args:
        layer (Layer): receives the quantized input.
        weight_bits (int): ignored.
        activation_bits (int), moving_rate (float): as of FakeQuantMovingAverage.
    """

    def __init__(self, layer, weight_bits=8, activation_bits=8, moving_rate=0.9, *args, **kwargs) -> None:
        super().__init__()
        self._layer = layer
        self._fake_quant_input = FakeQuantMovingAverage(layer.full_name(), moving_rate, activation_bits, self._dtype)

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The Layer's output for the quantized input."""
        return self._layer.forward(self._fake_quant_input(input))
