"""Metrics of static Programs."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.element_types import HALF_FLOATS, INDICES, takes
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.initializer.base import Constant
from paddle.nn.layer_helper import LayerHelper

__all__ = ["accuracy", "auc"]


def accuracy(input, label, k=1, correct=None, total=None):  # noqa: A002
    """The fraction of rows whose label is among the `k` greatest scores of `input`.

    Args:
        input (Variable): scores, [N, classes], float16, float32 or float64.
        label (Variable): int64 [N, 1].
        k (int): the number of greatest scores.
        correct, total (Variable, optional): int32; receive the number of correct rows, and of rows.

    Returns:
        Variable: float32, one element.
    """
    check_variable_and_dtype(input, "input", HALF_FLOATS, "accuracy")
    values, indices = _ops.top_k(input, k=k)
    values.stop_gradient = indices.stop_gradient = True
    return _ops.accuracy(values, indices, label, Correct=correct, Total=total)[0]


def auc(
    input: Any,  # noqa: A002
    label: Any,
    curve: str = "ROC",
    num_thresholds: int = 2**12 - 1,
    topk: int = 1,
    slide_steps: int = 1,
) -> tuple[Any, Any, list[Any]]:
    """The area under the curve of binary classification, of all batches so far and of the last `slide_steps` ones.

    See the API page of paddle.static.auc.

    Args:
        input: float32 or float64 probabilities, [N, 2], of which the last column is that of the class 1.
        label: int32 or int64 classes, [N, 1]: 0 or 1.
        curve: "ROC"; other values have no effect, as in Paddle.
        num_thresholds: the number of intervals of the probability.
        topk: not used.
        slide_steps: the number of batches of the second area; 0: all.

    Returns:
        (area of all batches, area of the last ones, the four Variables of the counts); areas are float64 [1].

    Raises:
        PreconditionNotMet: in a run, for a probability outside of [0, 1].

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> paddle.enable_static()
        >>> p, y = paddle.static.data("p", [None, 2]), paddle.static.data("y", [None, 1], "int64")
        >>> area, last, counts = paddle.static.auc(p, y)
        >>> exe = paddle.static.Executor()
        >>> _ = exe.run(paddle.static.default_startup_program())
        >>> feed = {"p": np.array([[0.9, 0.1], [0.2, 0.8]], "float32"), "y": np.array([[0], [1]])}
        >>> float(exe.run(feed=feed, fetch_list=[area])[0][0])
        1.0
        >>> paddle.disable_static()
    """
    check_variable_and_dtype(input, "input", takes("auc"), "auc")
    check_variable_and_dtype(label, "label", INDICES, "auc")
    helper = LayerHelper("auc")

    def counts(shape: list[int]) -> Any:
        var = helper.create_global_variable(persistable=True, dtype="int64", shape=shape)
        helper.set_variable_initializer(var, Constant(value=0.0))
        return var

    def area(pos: Any, neg: Any, steps: int) -> Any:
        return named(
            helper.name,
            _ops.auc,
            input,
            label,
            pos,
            neg,
            StatPosOut=pos,
            StatNegOut=neg,
            curve=curve,
            num_thresholds=num_thresholds,
            slide_steps=steps,
        )[0]

    last = [(1 + slide_steps) * (num_thresholds + 1) + 1] if slide_steps else [1, num_thresholds + 1]
    whole = [1, num_thresholds + 1]
    tables = [counts(last), counts(last), counts(whole), counts(whole)]
    of_batch = area(tables[0], tables[1], slide_steps)
    return area(tables[2], tables[3], 0), of_batch, tables
