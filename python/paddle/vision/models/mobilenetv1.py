"""The MobileNetV1 model."""

from __future__ import annotations

from typing import Any

from paddle import nn
from paddle.tensor import flatten

from .pretrained import trained

__all__ = ["MobileNetV1", "mobilenet_v1"]

# name, input and output channels, stride of each block
_BLOCKS = [
    ("conv2_1", 32, 64, 1),
    ("conv2_2", 64, 128, 2),
    ("conv3_1", 128, 128, 1),
    ("conv3_2", 128, 256, 2),
    ("conv4_1", 256, 256, 1),
    ("conv4_2", 256, 512, 2),
    *((f"conv5_{i}", 512, 512, 1) for i in range(1, 6)),
    ("conv5_6", 512, 1024, 2),
    ("conv6", 1024, 1024, 1),
]


class ConvBNLayer(nn.Layer):
    """Convolution, BatchNorm2D, ReLU."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int, num_groups: int = 1
    ) -> None:
        super().__init__()
        self._conv = nn.Conv2D(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, groups=num_groups, bias_attr=False
        )
        self._norm_layer = nn.BatchNorm2D(out_channels)
        self._act = nn.ReLU()

    def forward(self, x: Any) -> Any:
        """ReLU of the normalized features."""
        return self._act(self._norm_layer(self._conv(x)))


class DepthwiseSeparable(nn.Layer):
    """Depthwise convolution followed by a 1 x 1 convolution."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self._depthwise_conv = ConvBNLayer(in_channels, in_channels, 3, stride, 1, num_groups=in_channels)
        self._pointwise_conv = ConvBNLayer(in_channels, out_channels, 1, 1, 0)

    def forward(self, x: Any) -> Any:
        """[N, in_channels, H, W] to [N, out_channels, H / stride, W / stride]."""
        return self._pointwise_conv(self._depthwise_conv(x))


class MobileNetV1(nn.Layer):
    """MobileNetV1, for images of 224 x 224 (Howard et al., arXiv:1704.04861).

    Args:
        scale (float): factor of the numbers of channels.
        num_classes (int): size of the output; 0 omits the linear layer.
        with_pool (bool): whether to apply global average pooling before it.

    Shape:
        [N, 3, H, W] to [N, num_classes].

    Examples:
        >>> import paddle
        >>> net = paddle.vision.models.MobileNetV1(scale=0.25, num_classes=7)
        >>> net(paddle.ones([1, 3, 32, 32])).shape
        [1, 7]
    """

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.scale = scale
        self.num_classes = num_classes
        self.with_pool = with_pool
        self.conv1 = ConvBNLayer(3, int(32 * scale), kernel_size=3, stride=2, padding=1)
        self.dwsl = [
            self.add_sublayer(name, DepthwiseSeparable(int(before * scale), int(after * scale), stride))
            for name, before, after, stride in _BLOCKS
        ]
        if with_pool:
            self.pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.fc = nn.Linear(int(1024 * scale), num_classes)

    def forward(self, x: Any) -> Any:
        """The scores of the classes."""
        x = self.conv1(x)
        for block in self.dwsl:
            x = block(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        return self.fc(flatten(x, 1)) if self.num_classes > 0 else x


def mobilenet_v1(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV1:
    """MobileNetV1.

    Args:
        pretrained (bool): load trained weights, which are downloaded; available for scale 1.0.
        scale (float): factor of the numbers of channels.
        **kwargs: further arguments of MobileNetV1.
    """
    return trained(MobileNetV1(scale=scale, **kwargs), f"mobilenetv1_{scale}", pretrained)
