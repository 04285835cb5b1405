"""The VGG models."""

from __future__ import annotations

from typing import Any

from paddle import nn
from paddle.tensor import flatten

from .pretrained import trained

__all__ = ["VGG", "vgg11", "vgg13", "vgg16", "vgg19"]

# Number of convolutions in each of the five stages, and the stages' channels.
_CHANNELS = (64, 128, 256, 512, 512)
_STAGES = {"A": (1, 1, 2, 2, 2), "B": (2, 2, 2, 2, 2), "D": (2, 2, 3, 3, 3), "E": (2, 2, 4, 4, 4)}


def _configuration(counts: tuple[int, ...]) -> list[Any]:
    """A network as a list: the channels of its convolutions, and "M" for a pooling."""
    stages = [[channels] * count + ["M"] for channels, count in zip(_CHANNELS, counts, strict=True)]
    return [part for stage in stages for part in stage]


# The configurations of the paper, by its letters.
cfgs = {letter: _configuration(counts) for letter, counts in _STAGES.items()}
_LETTERS = {11: "A", 13: "B", 16: "D", 19: "E"}


class VGG(nn.Layer):
    """VGG, for images of 224 x 224 (Simonyan and Zisserman, arXiv:1409.1556).

    Args:
        features (Layer): the convolutional part.
        num_classes (int): size of the output; 0 omits the linear layers.
        with_pool (bool): whether features are average pooled to 7 x 7.

    Examples:
        >>> import paddle
        >>> features = paddle.nn.Conv2D(3, 512, 8, stride=8)
        >>> paddle.vision.models.VGG(features, num_classes=0)(paddle.ones([1, 3, 56, 56])).shape
        [1, 512, 7, 7]
    """

    def __init__(self, features: Any, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.features = features
        self.num_classes = num_classes
        self.with_pool = with_pool
        if with_pool:
            self.avgpool = nn.AdaptiveAvgPool2D((7, 7))
        if num_classes > 0:
            self.classifier = nn.Sequential(
                nn.Linear(512 * 7 * 7, 4096),
                nn.ReLU(),
                nn.Dropout(),
                nn.Linear(4096, 4096),
                nn.ReLU(),
                nn.Dropout(),
                nn.Linear(4096, num_classes),
            )

    def forward(self, x: Any) -> Any:
        """The scores of the classes."""
        x = self.features(x)
        if self.with_pool:
            x = self.avgpool(x)
        return self.classifier(flatten(x, 1)) if self.num_classes > 0 else x


def make_layers(cfg: list[Any], batch_norm: bool = False) -> nn.Sequential:
    """The convolutional part of a configuration.

    Args:
        cfg: channels of 3 x 3 convolutions, and "M" for a 2 x 2 pooling; see `cfgs`.
        batch_norm: add BatchNorm2D after each convolution.

    Examples:
        >>> import paddle
        >>> from paddle.vision.models.vgg import make_layers
        >>> make_layers([8, "M"])(paddle.ones([1, 3, 4, 4])).shape
        [1, 8, 2, 2]
    """
    layers: list[Any] = []
    before = 3
    for part in cfg:
        if part == "M":
            layers.append(nn.MaxPool2D(kernel_size=2, stride=2))
            continue
        layers.append(nn.Conv2D(before, part, kernel_size=3, padding=1))
        layers += [nn.BatchNorm2D(part), nn.ReLU()] if batch_norm else [nn.ReLU()]
        before = part
    return nn.Sequential(*layers)


def _vgg(depth: int, pretrained: bool, batch_norm: bool, **kwargs: Any) -> VGG:
    name = f"vgg{depth}_bn" if batch_norm else f"vgg{depth}"
    return trained(VGG(make_layers(cfgs[_LETTERS[depth]], batch_norm), **kwargs), name, pretrained)


def vgg11(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG with 8 convolutions.

    Args:
        pretrained (bool): load trained weights; there are none.
        batch_norm (bool): add BatchNorm2D after each convolution.
        **kwargs: further arguments of VGG.
    """
    return _vgg(11, pretrained, batch_norm, **kwargs)


def vgg13(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG with 10 convolutions; see :func:`vgg11`."""
    return _vgg(13, pretrained, batch_norm, **kwargs)


def vgg16(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG with 13 convolutions; see :func:`vgg11`. Trained weights are available without batch_norm."""
    return _vgg(16, pretrained, batch_norm, **kwargs)


def vgg19(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG with 16 convolutions; see :func:`vgg11`."""
    return _vgg(19, pretrained, batch_norm, **kwargs)
