"""paddle.metric: metrics of model outputs."""

from paddle.metric import metrics as metrics
from paddle.metric.metrics import Accuracy, Auc, Metric, Precision, Recall, accuracy

__all__ = ["Metric", "Accuracy", "Precision", "Recall", "Auc", "accuracy"]
