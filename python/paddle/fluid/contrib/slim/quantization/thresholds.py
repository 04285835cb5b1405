"""Thresholds of int8 quantization: least Kullback-Leibler divergence, and magnitudes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .op_slots import _channelwise_quant_axis1_ops, has_channels

__all__: list[str] = []

BINS = 2048


def kl_threshold(hist: np.ndarray, edges: np.ndarray, levels: int = 255) -> float:
    """The threshold whose quantized distribution has the least Kullback-Leibler divergence from the observed one.

    Args:
        hist (ndarray): number of magnitudes in each bin.
        edges (ndarray): the edges of the bins.
        levels (int): number of quantization levels.
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
    """The divergence between the distribution clipped after `count` bins and its quantization to `levels`."""
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
    """A weight as a matrix with a row for each output channel."""
    return np.moveaxis(weight, int(op_type in _channelwise_quant_axis1_ops), 0).reshape(
        weight.shape[int(op_type in _channelwise_quant_axis1_ops)], -1
    )


def of_weight(function: Any, kind: str, op_type: str, weight: np.ndarray) -> Any:
    """`function` (np.max, np.min) of a weight, or a list with its value for each channel."""
    if kind == "abs_max" or not has_channels(op_type):
        return float(function(weight))
    return [float(function(row)) for row in by_channel(op_type, weight)]
