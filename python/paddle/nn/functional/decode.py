"""Connectionist temporal classification (CTC) and the backtracking of beam search."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.argument_checks import check_arguments

__all__ = ["ctc_loss", "gather_tree"]


def warp_ctc(
    scores: Any,
    label: Any,
    blank: int = 0,
    norm_by_times: bool = False,
    steps: Any = None,
    label_length: Any = None,
) -> Any:
    """The CTC loss of each sequence, [batch, 1]; shared by ctc_loss and fluid.layers.warpctc."""
    if steps is None or label_length is None:
        if not in_static_mode():
            raise ValueError("warpctc: input_length and label_length must not be None in dygraph mode")
        steps = label_length = None
    check_arguments("warpctc", label, steps, label_length)
    return _ops.warpctc(scores, label, steps, label_length, blank=blank, norm_by_times=norm_by_times)[1]


def ctc_loss(
    log_probs: Any,
    labels: Any,
    input_lengths: Any,
    label_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
) -> Tensor:
    """Connectionist temporal classification: -log of the probability of the labels under the scores of all steps.

    Args:
        log_probs: float32 or float64 Tensor [steps, batch, classes]: raw scores; softmax is applied here.
        labels: int32 Tensor [batch, labels], each within the classes (ValueError otherwise).
        input_lengths, label_lengths: int64 Tensors [batch]: number of steps and of labels of each sequence.
        blank: the class of the blank label.
        reduction: "mean" (of the losses divided by the lengths of the labels), "sum" or "none" (AssertionError
            otherwise).

    Returns:
        Tensor [1], with "none" [batch]. The loss is 0 if no alignment is possible within the steps.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.0-rc/api/paddle/nn/functional/loss/ctc_loss_en.html

    Examples:
        >>> import paddle
        >>> scores, labels = paddle.zeros([3, 1, 2]), paddle.to_tensor([[1]], "int32")
        >>> loss = paddle.nn.functional.ctc_loss(scores, labels, paddle.to_tensor([3]), paddle.to_tensor([1]))
        >>> round(float(loss), 4)
        0.2877
    """
    loss = _ops.squeeze2(warp_ctc(log_probs, labels, blank, False, input_lengths, label_lengths), axes=[-1])
    assert reduction in ("mean", "sum", "none"), f"ctc_loss: reduction {reduction!s:.200}"
    if reduction == "mean":
        return _ops.mean(loss / _ops.cast(label_lengths, in_dtype=label_lengths.dtype, out_dtype=loss.dtype))
    return _ops.reduce_sum(loss, reduce_all=True) if reduction == "sum" else loss


def gather_tree(ids: Any, parents: Any) -> Tensor:
    """The sequences of a beam search, traced back from the last step.

    Args:
        ids: int32 or int64 Tensor [steps, batch, beams]: the id that each beam chose at each step.
        parents: Tensor like `ids`: the beam of the previous step that each beam extends.

    Returns:
        Tensor like `ids`: the complete sequence of each beam of the last step.

    Raises:
        ValueError: if a parent is out of range, or the shapes differ.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.0-rc/api/paddle/nn/functional/extension/gather_tree_en.html

    Examples:
        >>> import paddle
        >>> ids = paddle.to_tensor([[[1, 2]], [[3, 4]]])
        >>> parents = paddle.to_tensor([[[0, 0]], [[1, 0]]])
        >>> paddle.nn.functional.gather_tree(ids, parents).numpy().tolist()
        [[[2, 1]], [[3, 4]]]
    """
    return _ops.gather_tree(ids, parents)
