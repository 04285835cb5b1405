"""Metrics over all workers, from each worker's counts.

Every function takes arrays, or Variables or names with values in `scope` (the global one by default), and sums over
the workers by `util` (`fleet.util` by default). Source: paddle.distributed.fleet.metrics of 2.0.2.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from paddle._programs.program import Variable
from paddle.static import global_scope

__all__: list[str] = []


def _array(value: Any, scope: Any) -> np.ndarray:
    name = value.name if isinstance(value, Variable) else value
    if isinstance(name, str):
        found = (scope or global_scope()).find_var(name)
        if found is None:
            raise ValueError(f"fleet.metrics: the scope has no variable {name!r}")
        return np.array(found.get_tensor())
    return np.asarray(value)


def _of_fleet() -> Any:
    """The current `paddle.distributed.fleet.util`, which a script may replace."""
    return sys.modules["paddle.distributed.fleet"].util


def _over_workers(value: Any, mode: str, scope: Any, util: Any) -> np.ndarray:
    array = _array(value, scope)
    return np.asarray((util or _of_fleet()).all_reduce(array, mode)).reshape(array.shape)


def _ratio(part: Any, whole: Any, scope: Any, util: Any) -> float:
    """The quotient of two sums over the workers: first elements."""
    part, whole = (_over_workers(v, "sum", scope, util).reshape(-1) for v in (part, whole))
    return float(part[0]) / float(whole[0])


def sum(input: Any, scope: Any = None, util: Any = None) -> np.ndarray:  # noqa: A001, A002
    """The sum over the workers, element by element.

    Examples:
        >>> import numpy as np
        >>> from paddle.distributed import fleet
        >>> class Twice:  # stands for fleet.util in a job of two workers that counted the same
        ...     def all_reduce(self, input, mode):
        ...         return input * 2 if mode == "sum" else input
        >>> print(fleet.metrics.sum(np.float32([1, 2]), util=Twice()))
        [2. 4.]
    """
    return _over_workers(input, "sum", scope, util)


def max(input: Any, scope: Any = None, util: Any = None) -> np.ndarray:  # noqa: A001, A002
    """The maximum over the workers, element by element."""
    return _over_workers(input, "max", scope, util)


def min(input: Any, scope: Any = None, util: Any = None) -> np.ndarray:  # noqa: A001, A002
    """The minimum over the workers, element by element."""
    return _over_workers(input, "min", scope, util)


def auc(stat_pos: Any, stat_neg: Any, scope: Any = None, util: Any = None) -> float:
    """The area under the ROC curve of all workers' predictions.

    Args:
        stat_pos, stat_neg: [1, buckets], the numbers of positive and negative examples in each bucket of scores, as
            counted by `fluid.layers.auc`.

    Returns:
        float: 0.5 without positive or without negative examples.
    """
    # cumulative counts from the highest score down
    positive, negative = (_over_workers(s, "sum", scope, util)[0][::-1].astype("float64") for s in (stat_pos, stat_neg))
    above = np.cumsum(positive)
    if not above.size or above[-1] * negative.sum() == 0:
        return 0.5
    area = np.sum(negative * (above - positive / 2))
    return float(area / (above[-1] * negative.sum()))


def mae(abserr: Any, total_ins_num: Any, scope: Any = None, util: Any = None) -> float:
    """The mean absolute error: the sum of absolute errors over the number of examples."""
    return _ratio(abserr, total_ins_num, scope, util)


def rmse(sqrerr: Any, total_ins_num: Any, scope: Any = None, util: Any = None) -> float:
    """The root of the mean squared error."""
    return math.sqrt(_ratio(sqrerr, total_ins_num, scope, util))


def mse(sqrerr: Any, total_ins_num: Any, scope: Any = None, util: Any = None) -> float:
    """The mean squared error: the sum of squared errors over the number of examples."""
    return _ratio(sqrerr, total_ins_num, scope, util)


def acc(correct: Any, total: Any, scope: Any = None, util: Any = None) -> float:
    """The accuracy: correct predictions over all predictions."""
    return _ratio(correct, total, scope, util)
