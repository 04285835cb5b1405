"""paddle.metric: metrics of model outputs."""

from paddle._basics.missing import speak as _speak
from paddle.metric import metrics as metrics
from paddle.metric.metrics import Accuracy, Auc, Metric, Precision, Recall, accuracy

__all__ = ["Metric", "Accuracy", "Precision", "Recall", "Auc", "accuracy"]

_speak()
