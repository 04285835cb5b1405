"""The ResNet models."""

from __future__ import annotations

from typing import Any

from paddle import nn
from paddle.tensor import flatten

from .pretrained import trained

__all__ = ["ResNet", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"]

# number of blocks in each of the four stages
_STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


class BasicBlock(nn.Layer):
    """Two 3 x 3 convolutions with a residual connection.

    Args:
        inplanes, planes (int): input channels, and channels of the convolutions.
        stride (int): stride of the first convolution.
        downsample (Layer, optional): projects the input to the shape of the output.
        groups, base_width, dilation (int): only 1, 64 and 1.
        norm_layer (callable, optional): BatchNorm2D when None.
    """

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Any = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Any = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2D
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        self.conv1 = nn.Conv2D(inplanes, planes, 3, padding=1, stride=stride, bias_attr=False)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2D(planes, planes, 3, padding=1, bias_attr=False)
        self.bn2 = norm(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Any) -> Any:
        """[N, inplanes, H, W] to [N, planes, H / stride, W / stride]."""
        kept = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + kept)


class BottleneckBlock(nn.Layer):
    """1 x 1, 3 x 3 and 1 x 1 convolutions (the last with four times the channels) with a residual connection.

    Args:
        inplanes, planes (int): input channels, and a quarter of the output channels.
        stride (int): stride of the 3 x 3 convolution.
        downsample (Layer, optional): projects the input to the shape of the output.
        groups, base_width, dilation (int): of the convolution of 3 x 3.
        norm_layer (callable, optional): BatchNorm2D when None.
    """

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Any = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Any = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2D
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = nn.Conv2D(inplanes, width, 1, bias_attr=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2D(
            width, width, 3, padding=dilation, stride=stride, groups=groups, dilation=dilation, bias_attr=False
        )
        self.bn2 = norm(width)
        self.conv3 = nn.Conv2D(width, planes * self.expansion, 1, bias_attr=False)
        self.bn3 = norm(planes * self.expansion)
        self.relu = nn.ReLU()
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Any) -> Any:
        """[N, inplanes, H, W] to [N, 4 * planes, H / stride, W / stride]."""
        kept = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        return self.relu(self.bn3(self.conv3(out)) + kept)


class ResNet(nn.Layer):
    """ResNet, for images of 224 x 224 (He et al., arXiv:1512.03385).

    Args:
        block (type): BasicBlock or BottleneckBlock.
        depth (int): 18, 34, 50, 101 or 152.
        num_classes (int): size of the output; 0 omits the linear layer.
        with_pool (bool): whether to apply global average pooling before it.

    Shape:
        [N, 3, H, W] to [N, num_classes].

    Examples:
        >>> import paddle
        >>> from paddle.vision.models.resnet import BasicBlock
        >>> net = paddle.vision.models.ResNet(BasicBlock, 18, num_classes=7)
        >>> net(paddle.ones([1, 3, 32, 32])).shape
        [1, 7]
    """

    def __init__(self, block: Any, depth: int, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        if depth not in _STAGES:
            raise KeyError(f"ResNet: depth must be one of {sorted(_STAGES)}, got {depth!r:.200}")
        self.num_classes = num_classes
        self.with_pool = with_pool
        self._norm_layer = nn.BatchNorm2D
        self.inplanes = 64
        self.dilation = 1
        self.conv1 = nn.Conv2D(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias_attr=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2D(kernel_size=3, stride=2, padding=1)
        counts = _STAGES[depth]
        self.layer1 = self._make_layer(block, 64, counts[0])
        self.layer2 = self._make_layer(block, 128, counts[1], stride=2)
        self.layer3 = self._make_layer(block, 256, counts[2], stride=2)
        self.layer4 = self._make_layer(block, 512, counts[3], stride=2)
        if with_pool:
            self.avgpool = nn.AdaptiveAvgPool2D((1, 1))
        if num_classes > 0:
            self.fc = nn.Linear(512 * block.expansion, num_classes)

    def _make_layer(self, block: Any, planes: int, blocks: int, stride: int = 1, dilate: bool = False) -> nn.Sequential:
        """A stage; with `dilate` its convolutions are dilated instead of strided."""
        former = self.dilation
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        out = planes * block.expansion
        downsample = None
        if stride != 1 or self.inplanes != out:
            downsample = nn.Sequential(
                nn.Conv2D(self.inplanes, out, 1, stride=stride, bias_attr=False), self._norm_layer(out)
            )
        layers = [block(self.inplanes, planes, stride, downsample, 1, 64, former, self._norm_layer)]
        self.inplanes = out
        layers += [block(out, planes, norm_layer=self._norm_layer) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def forward(self, x: Any) -> Any:
        """The scores of the classes."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        if self.with_pool:
            x = self.avgpool(x)
        return self.fc(flatten(x, 1)) if self.num_classes > 0 else x


def _resnet(block: Any, depth: int, pretrained: bool, **kwargs: Any) -> ResNet:
    return trained(ResNet(block, depth, **kwargs), f"resnet{depth}", pretrained)


def resnet18(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet with 18 layers.

    Args:
        pretrained (bool): load trained weights, which are downloaded.
        **kwargs: further arguments of ResNet.
    """
    return _resnet(BasicBlock, 18, pretrained, **kwargs)


def resnet34(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet with 34 layers; see :func:`resnet18`."""
    return _resnet(BasicBlock, 34, pretrained, **kwargs)


def resnet50(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet with 50 layers; see :func:`resnet18`."""
    return _resnet(BottleneckBlock, 50, pretrained, **kwargs)


def resnet101(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet with 101 layers; see :func:`resnet18`."""
    return _resnet(BottleneckBlock, 101, pretrained, **kwargs)


def resnet152(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet with 152 layers; see :func:`resnet18`."""
    return _resnet(BottleneckBlock, 152, pretrained, **kwargs)
