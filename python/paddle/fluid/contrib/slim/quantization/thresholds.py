"""Where the largest level of 8 bits lies for what was seen: the threshold of least divergence, and magnitudes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .op_slots import _channelwise_quant_axis1_ops

__all__: list[str] = []

BINS = 2048


def kl_threshold(hist: np.ndarray, edges: np.ndarray, levels: int = 255) -> float:
    """The threshold whose rounded distribution is nearest to what was seen, by Kullback and Leibler's divergence.

    Args:
        hist (ndarray): how many magnitudes lay in each bin.
        edges (ndarray): the edges of the bins.
        levels (int): to how many levels they are rounded.
    """
    last = len(hist) - 1
    first = int(last * 0.7)
    best, best_at = 0.0, 0
    for count in range(first, last + 1):
        if hist[count - 1] == 0:
            continue
        divergence = _divergence(hist, count, levels)
        if best_at == 0 or divergence < best:
            best, best_at = divergence, count
    if best_at == 0:
        while first > 0 and hist[first] == 0:
            first -= 1
        best_at = first
    return float((best_at + 0.5) * (edges[1] - edges[0]))


def _divergence(hist: np.ndarray, count: int, levels: int) -> float:
    """Between what was seen, cut off behind `count` bins, and the same rounded to `levels`."""
    seen = hist[:count].astype("float64")
    starts = np.arange(levels) * (count // levels)
    mass = np.add.reduceat(seen, starts)
    seen[-1] += hist[count:].sum()
    full = seen != 0
    filled = np.add.reduceat(full.astype("int64"), starts)
    share = np.divide(mass, filled, out=np.zeros(levels), where=filled != 0)
    rounded = np.repeat(share, np.diff([*starts, count]))[full]
    p, total = seen[full], float(hist.sum())
    return float((p * (np.log(rounded.sum() * p) - np.log(total * rounded))).sum() / total)


def by_channel(op_type: str, weight: np.ndarray) -> np.ndarray:
    """A row for each output channel of a weight."""
    return np.moveaxis(weight, int(op_type in _channelwise_quant_axis1_ops), 0).reshape(
        weight.shape[int(op_type in _channelwise_quant_axis1_ops)], -1
    )


def of_weight(function: Any, kind: str, op_type: str, weight: np.ndarray) -> Any:
    """`function` (np.max, np.min) of a weight, or a list of it for each channel."""
    if kind == "abs_max":
        return float(function(weight))
    return [float(function(row)) for row in by_channel(op_type, weight)]
