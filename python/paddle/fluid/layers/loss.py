"""Losses of fluid.layers."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.element_types import FLOATS, takes
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.functional.loss import softmax_loss

from . import nn

__all__ = [
    "cross_entropy",
    "square_error_cost",
    "softmax_with_cross_entropy",
    "sigmoid_cross_entropy_with_logits",
    "mse_loss",
]

kIgnoreIndex = -100


def cross_entropy(input, label, soft_label=False, ignore_index=kIgnoreIndex):  # noqa: A002
    """-log of the probability of the label.

    Args:
        input (Variable): probabilities, [N1, ..., Nk, D], float16, float32 or float64.
        label (Variable): int64 [N1, ..., Nk, 1]; with `soft_label` probabilities of the shape of `input`.
        soft_label (bool): whether labels are probabilities.
        ignore_index (int): a label that costs nothing.

    Returns:
        Variable: [N1, ..., Nk, 1].
    """
    check_variable_and_dtype(input, "input", takes("cross_entropy"), "cross_entropy")
    if not soft_label:
        return _ops.cross_entropy2(input, label, ignore_index=ignore_index)[0]
    return _ops.cross_entropy(input, label, soft_label=True, ignore_index=ignore_index)


def square_error_cost(input, label):  # noqa: A002
    """(input - label) squared, element by element.

    Args:
        input, label (Variable): float32 or float64 of one shape.
    """
    check_variable_and_dtype(input, "input", FLOATS, "square_error_cost")
    check_variable_and_dtype(label, "label", FLOATS, "square_error_cost")
    return _ops.square(_ops.elementwise_sub(input, label))


def softmax_with_cross_entropy(
    logits,
    label,
    soft_label=False,
    ignore_index=kIgnoreIndex,
    numeric_stable_mode=True,
    return_softmax=False,
    axis=-1,
):
    """The cross entropy of softmax(logits) along `axis`.

    Args:
        logits (Variable): float32 or float64.
        label (Variable): int64, size 1 along `axis`; with `soft_label` probabilities of the shape of `logits`.
        ignore_index (int): a label that costs nothing.
        return_softmax (bool): give the probabilities, too.

    Returns:
        Variable: the loss, size 1 along `axis`; with `return_softmax` a pair.
    """
    return softmax_loss(logits, label, soft_label, ignore_index, numeric_stable_mode, return_softmax, axis)


def sigmoid_cross_entropy_with_logits(x, label, ignore_index=kIgnoreIndex, name=None, normalize=False):
    """The cross entropy of sigmoid(x), element by element.

    Args:
        x, label (Variable): float16, float32 or float64 of one shape.
        ignore_index (int): elements with this label cost nothing.
        normalize (bool): divide by the number of elements that are not ignored.
    """
    where = "sigmoid_cross_entropy_with_logits"
    check_variable_and_dtype(x, "input", takes(where), where)
    return named(name, _ops.sigmoid_cross_entropy_with_logits, x, label, ignore_index=ignore_index, normalize=normalize)


def mse_loss(input, label):  # noqa: A002
    """The mean of (input - label) squared.

    Args:
        input, label (Variable): float32 or float64 of one shape.
    """
    check_variable_and_dtype(input, "input", FLOATS, "mse_loss")
    check_variable_and_dtype(label, "label", FLOATS, "mse_loss")
    return nn.reduce_mean(square_error_cost(input, label))
