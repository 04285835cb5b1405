"""Metrics of a model's outputs."""

from paddle.metric import metrics
from paddle.metric.metrics import Accuracy, Auc, Metric, Precision, Recall

__all__ = ["Metric", "Accuracy", "Precision", "Recall", "Auc"]
