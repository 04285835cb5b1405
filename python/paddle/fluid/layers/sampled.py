"""fluid.layers that draw classes: nce, sampling_id, sampled_softmax_with_cross_entropy."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle.static.nn.sampled import nce

__all__ = ["nce", "sampled_softmax_with_cross_entropy", "sampling_id"]


def sampling_id(x: Any, min: float = 0.0, max: float = 1.0, seed: int = 0, dtype: str = "float32") -> Any:
    """An index for each row of probabilities: the first at which their sum is above a random number.

    Args:
        x (Variable): [N, classes], float32 or float64.
        min, max (float): between which the random number lies; min must be less (ValueError).
        seed (int): of the draws; 0 for the global generator.
        dtype (str): not used: the indices are int64.

    Returns:
        Variable: int64 [N].

    Examples:
        >>> import paddle
        >>> p = paddle.to_tensor([[0.0, 1.0], [1.0, 0.0]])
        >>> paddle.fluid.layers.sampling_id(p).numpy().tolist()
        [1, 0]
    """
    return _ops.sampling_id(x, min=min, max=max, seed=seed)


def sampled_softmax_with_cross_entropy(
    logits: Any,
    label: Any,
    num_samples: int,
    num_true: int = 1,
    remove_accidental_hits: bool = True,
    use_customized_samples: bool = False,
    customized_samples: Any = None,
    customized_probabilities: Any = None,
    seed: int = 0,
) -> Any:
    """The cross entropy of the softmax over the labels and classes drawn from a log-uniform distribution, less the
    logarithms of their probabilities (Paddle 2.0: paddle.fluid.layers.sampled_softmax_with_cross_entropy).

    Args:
        logits (Variable): [N, classes], float32 or float64.
        label (Variable): int64 [N, num_true].
        num_samples (int): how many classes are drawn, all of them different, the same for all rows.
        num_true (int): labels of a row; the loss is divided by it.
        remove_accidental_hits (bool): a class drawn that is a label of the row does not count.
        use_customized_samples (bool): classes and probabilities are given:
        customized_samples (Variable, optional): int64 [N, num_true + num_samples], labels first.
        customized_probabilities (Variable, optional): their probabilities, of the type of `logits`.
        seed (int): of the draws; 0 for the global generator.

    Returns:
        Variable: [N, 1].

    Raises:
        ValueError: for labels that are no classes, or more samples than classes.

    Examples:
        >>> import paddle
        >>> logits, label = paddle.rand([4, 100]), paddle.to_tensor([[3], [5], [7], [9]])
        >>> paddle.fluid.layers.sampled_softmax_with_cross_entropy(logits, label, num_samples=25).shape
        [4, 1]
    """
    sampled, labels = _ops.sample_logits(
        logits,
        label,
        customized_samples,
        customized_probabilities,
        use_customized_samples=use_customized_samples,
        uniq=True,
        remove_accidental_hits=remove_accidental_hits,
        num_samples=num_samples,
        seed=seed,
    )[4:]
    soft = _ops.one_hot(labels, depth=num_samples + 1)
    loss = _ops.softmax_with_cross_entropy(sampled, soft, soft_label=True, numeric_stable_mode=False)[1]
    return loss / num_true
