"""Metrics of click models over all workers, from the buckets of `auc` and the sums of `ctr_metric_bundle`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

__all__: list[str] = []

#: the width of a span of buckets, and the relative error bound of its rate
_SPAN, _SURE = 0.01, 0.05


def total(fleet: Any, scope: Any, name: str) -> np.ndarray:
    """The sum over the workers of a variable."""
    mine = np.array(scope.find_var(name).get_tensor())
    if fleet.worker_num() == 1:
        return mine
    flat, found = mine.reshape(-1), np.zeros(mine.size, mine.dtype)
    fleet.all_reduce_worker(flat, found)
    return found.reshape(mine.shape)


def auc(clicks: np.ndarray, others: np.ndarray) -> float:
    """The area under the ROC curve from buckets by rising prediction; 0.5 without one of the classes."""
    true, false = (np.concatenate([[0.0], np.cumsum(a.reshape(-1)[::-1], dtype="float64")]) for a in (clicks, others))
    if not true[-1] * false[-1]:
        return 0.5
    return float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2) / (true[-1] * false[-1]))


def bucket_error(clicks: np.ndarray, others: np.ndarray) -> float:
    """The relative error of predicted click rates, over spans of buckets with enough samples."""
    last, error, count = -1.0, 0.0, 0.0
    shown = predicted = clicked = 0.0
    for i, (click, other) in enumerate(zip(clicks.reshape(-1), others.reshape(-1), strict=True)):
        rate, show = i / clicks.size, float(click + other)
        if abs(rate - last) > _SPAN:
            last, shown, predicted, clicked = rate, 0.0, 0.0, 0.0
        shown, predicted, clicked = shown + show, predicted + rate * show, clicked + float(click)
        if not shown or not predicted:
            continue
        mean = predicted / shown
        if math.sqrt((1 - mean) / (mean * shown)) < _SURE:
            error += abs(clicked / shown / mean - 1) * shown
            count += shown
            last = -1.0
    return error / count if count else 0.0


def figures(clicks: np.ndarray, others: np.ndarray, of: Callable[[str], float]) -> list[Any]:
    """auc, bucket_error, mae, rmse, actual and predicted rate, copc, mean of q, count; `of` returns the sums."""
    count, rate = of("total"), of("pos") / of("total")
    predicted = of("prob") / count
    return [
        auc(clicks, others),
        bucket_error(clicks, others),
        of("abserr") / count,
        math.sqrt(of("sqrerr") / count),
        rate,
        predicted,
        rate / predicted if predicted > 1e-6 else 0.0,
        of("q") / count,
        int(count),
    ]
