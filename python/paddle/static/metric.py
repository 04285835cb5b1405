"""accuracy of static Programs."""

from __future__ import annotations

from paddle import _ops
from paddle._programs.variable_checks import check_variable_and_dtype

__all__ = ["accuracy"]


def accuracy(input, label, k=1, correct=None, total=None):  # noqa: A002
    """The share of rows whose label is among the `k` greatest of `input`.

    Args:
        input (Variable): scores, [N, classes], float16, float32 or float64.
        label (Variable): int64 [N, 1].
        k (int): how many of the greatest count.
        correct, total (Variable, optional): int32; take the numbers of right rows and of rows.

    Returns:
        Variable: float32, one element.
    """
    check_variable_and_dtype(input, "input", ["float16", "float32", "float64"], "accuracy")
    values, indices = _ops.top_k(input, k=k)
    values.stop_gradient = indices.stop_gradient = True
    return _ops.accuracy(values, indices, label, Correct=correct, Total=total)[0]
