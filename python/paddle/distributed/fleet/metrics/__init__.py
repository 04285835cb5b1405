"""Metrics over all workers."""

from __future__ import annotations

from .metric import acc, auc, mae, max, min, mse, rmse, sum  # noqa: A004

__all__: list[str] = []
