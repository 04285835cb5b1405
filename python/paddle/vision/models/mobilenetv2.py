"""The MobileNetV2 model."""

from __future__ import annotations

from typing import Any

from paddle import nn
from paddle.tensor import flatten

from .pretrained import trained

__all__ = ["MobileNetV2", "mobilenet_v2"]

# for each stage: expansion ratio, channels, number of blocks, stride of the first block
_STAGES = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]


def _make_divisible(channels: float, divisor: int = 8) -> int:
    """The multiple of `divisor` nearest to `channels`, at least 90 % of it."""
    nearest = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return nearest if nearest >= 0.9 * channels else nearest + divisor


class ConvBNReLU(nn.Sequential):
    """Convolution, normalization, ReLU6."""

    def __init__(
        self,
        in_planes: int,
        out_planes: int,
        kernel_size: int = 3,
        stride: int = 1,
        groups: int = 1,
        norm_layer: Any = nn.BatchNorm2D,
    ) -> None:
        super().__init__(
            nn.Conv2D(
                in_planes, out_planes, kernel_size, stride, (kernel_size - 1) // 2, groups=groups, bias_attr=False
            ),
            norm_layer(out_planes),
            nn.ReLU6(),
        )


class InvertedResidual(nn.Layer):
    """Expansion, depthwise convolution, projection; with a residual connection if the shapes agree."""

    def __init__(self, inp: int, oup: int, stride: int, expand_ratio: int, norm_layer: Any = nn.BatchNorm2D) -> None:
        super().__init__()
        assert stride in (1, 2), f"InvertedResidual: stride must be 1 or 2, got {stride}"
        self.stride = stride
        self.use_res_connect = stride == 1 and inp == oup
        hidden = int(round(inp * expand_ratio))
        layers: list[Any] = []
        if expand_ratio != 1:
            layers.append(ConvBNReLU(inp, hidden, kernel_size=1, norm_layer=norm_layer))
        layers += [
            ConvBNReLU(hidden, hidden, stride=stride, groups=hidden, norm_layer=norm_layer),
            nn.Conv2D(hidden, oup, 1, 1, 0, bias_attr=False),
            norm_layer(oup),
        ]
        self.conv = nn.Sequential(*layers)

    def forward(self, x: Any) -> Any:
        """[N, inp, H, W] to [N, oup, H / stride, W / stride]."""
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Layer):
    """MobileNetV2, for images of 224 x 224 (Sandler et al., arXiv:1801.04381).

    Args:
        scale (float): factor of the numbers of channels.
        num_classes (int): size of the output; 0 omits the linear layer.
        with_pool (bool): whether to apply global average pooling before it.

    Shape:
        [N, 3, H, W] to [N, num_classes].

    Examples:
        >>> import paddle
        >>> net = paddle.vision.models.MobileNetV2(scale=0.25, num_classes=7)
        >>> net(paddle.ones([1, 3, 32, 32])).shape
        [1, 7]
    """

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        before = _make_divisible(32 * scale)
        self.last_channel = _make_divisible(1280 * max(1.0, scale))
        features: list[Any] = [ConvBNReLU(3, before, stride=2)]
        for expand_ratio, channels, count, stride in _STAGES:
            after = _make_divisible(channels * scale)
            for i in range(count):
                features.append(InvertedResidual(before, after, stride if i == 0 else 1, expand_ratio))
                before = after
        features.append(ConvBNReLU(before, self.last_channel, kernel_size=1))
        self.features = nn.Sequential(*features)
        if with_pool:
            self.pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(self.last_channel, num_classes))

    def forward(self, x: Any) -> Any:
        """The scores of the classes."""
        x = self.features(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        return self.classifier(flatten(x, 1)) if self.num_classes > 0 else x


def mobilenet_v2(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV2:
    """MobileNetV2.

    Args:
        pretrained (bool): load trained weights, which are downloaded; available for scale 1.0.
        scale (float): factor of the numbers of channels.
        **kwargs: further arguments of MobileNetV2.
    """
    return trained(MobileNetV2(scale=scale, **kwargs), f"mobilenetv2_{scale}", pretrained)
