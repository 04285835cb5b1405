"""CTCLoss: connectionist temporal classification as a layer."""

from __future__ import annotations

from typing import Any

from paddle.nn.functional.decode import ctc_loss
from paddle.nn.layer.layers import Layer

__all__ = ["CTCLoss"]


class CTCLoss(Layer):
    """-log of the probability of the labels under the scores of all steps: `functional.ctc_loss` as a layer.

    Args:
        blank: the class of the blank label.
        reduction: "mean", "sum" or "none".

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.0-rc/api/paddle/nn/layer/loss/CTCLoss_en.html

    Examples:
        >>> import paddle
        >>> scores, labels = paddle.zeros([3, 1, 2]), paddle.to_tensor([[1]], "int32")
        >>> loss = paddle.nn.CTCLoss(reduction="none")(scores, labels, paddle.to_tensor([3]), paddle.to_tensor([1]))
        >>> loss.shape
        [1]
    """

    def __init__(self, blank: int = 0, reduction: str = "mean") -> None:
        super().__init__()
        self.blank = blank
        self.reduction = reduction

    def forward(self, log_probs: Any, labels: Any, input_lengths: Any, label_lengths: Any) -> Any:
        """The loss; see `functional.ctc_loss`."""
        return ctc_loss(log_probs, labels, input_lengths, label_lengths, self.blank, self.reduction)
