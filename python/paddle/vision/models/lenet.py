"""The LeNet model."""

from __future__ import annotations

from typing import Any

from paddle import nn
from paddle.tensor import flatten

__all__ = ["LeNet"]


class LeNet(nn.Layer):
    """LeNet, for gray images of 28 x 28 (LeCun et al., 1998).

    Args:
        num_classes (int): size of the output; 0 omits the linear layers.

    Shape:
        [N, 1, 28, 28] to [N, num_classes].

    Examples:
        >>> import paddle
        >>> paddle.vision.models.LeNet()(paddle.ones([2, 1, 28, 28])).shape
        [2, 10]
    """

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.features = nn.Sequential(
            nn.Conv2D(1, 6, 3, stride=1, padding=1),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
            nn.Conv2D(6, 16, 5, stride=1, padding=0),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
        )
        if num_classes > 0:
            self.fc = nn.Sequential(nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, num_classes))

    def forward(self, inputs: Any) -> Any:
        """The scores of the classes."""
        x = self.features(inputs)
        return self.fc(flatten(x, 1)) if self.num_classes > 0 else x
