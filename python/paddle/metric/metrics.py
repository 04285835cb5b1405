"""Metrics that accumulate over the batches of an epoch."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np

import paddle._core as core
from paddle import _ops
from paddle._basics.element_types import HALF_FLOATS
from paddle._core import Tensor
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.tensor.manipulation import reshape, slice
from paddle.tensor.math import cast
from paddle.tensor.search import argmax, argsort

__all__ = ["Metric", "Accuracy", "Precision", "Recall", "Auc", "accuracy"]


def _array(value: Any, name: str) -> np.ndarray:
    """The data of a Tensor or ndarray; ValueError for other types."""
    if isinstance(value, core.Tensor):
        return value.numpy()
    if not isinstance(value, (np.ndarray, np.generic)):
        raise ValueError(f"The '{name}' must be a numpy ndarray or Tensor.")
    return np.asarray(value)


class Metric(abc.ABC):
    """Base of all metrics: `update` adds a batch, `accumulate` returns the current value, `reset` clears the state.

    `compute` receives the network's outputs and labels as Tensors and returns the arguments of `update`; by default its
    own arguments.

    Examples:
        >>> import paddle
        >>> class Mean(paddle.metric.Metric):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.reset()
        ...     def reset(self):
        ...         self.values = []
        ...     def update(self, value):
        ...         self.values.append(float(value))
        ...     def accumulate(self):
        ...         return sum(self.values) / len(self.values)
        ...     def name(self):
        ...         return "mean"
        >>> mean = Mean()
        >>> mean.update(1), mean.update(2), mean.accumulate()
        (None, None, 1.5)
    """

    def __init__(self) -> None:
        super().__init__()

    @abc.abstractmethod
    def reset(self) -> None:
        """Discards all batches."""
        raise NotImplementedError(f"{type(self).__name__} defines no reset")

    @abc.abstractmethod
    def update(self, *args: Any) -> Any:
        """Adds a batch: the result of `compute`."""
        raise NotImplementedError(f"{type(self).__name__} defines no update")

    @abc.abstractmethod
    def accumulate(self) -> Any:
        """The value over all batches since `reset`."""
        raise NotImplementedError(f"{type(self).__name__} defines no accumulate")

    @abc.abstractmethod
    def name(self) -> Any:
        """The metric's name, or a list of names if it has several values."""
        raise NotImplementedError(f"{type(self).__name__} defines no name")

    def compute(self, *args: Any) -> Any:
        """The arguments of `update` from outputs and labels."""
        return args


class Accuracy(Metric):
    """The fraction of samples whose label is among the `k` highest scores, for each k of `topk`.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> scores = paddle.to_tensor(np.float32([[0.1, 0.2, 0.7], [0.1, 0.4, 0.5]]))
        >>> labels = paddle.to_tensor(np.int64([[2], [1]]))
        >>> accuracy = paddle.metric.Accuracy()
        >>> _ = accuracy.update(accuracy.compute(scores, labels))
        >>> accuracy.accumulate()
        0.5
    """

    def __init__(self, topk: Sequence[int] = (1,), name: str | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.topk = topk
        self.maxk = max(topk)
        name = name or "acc"
        self._name = [name] if self.maxk == 1 else [f"{name}_top{k}" for k in topk]
        self.total: list[Any]
        self.count: list[int]
        self.reset()

    def compute(self, pred: Any, label: Any, *args: Any) -> Any:
        """Whether the label is at each of the `maxk` highest scores.

        Args:
            pred: scores, float32 or float64, [..., classes].
            label: int64, [N], [..., 1], or one-hot [..., classes].

        Returns:
            float32 Tensor [..., maxk], 1 at the position of the label.
        """
        pred = argsort(pred, descending=True)
        pred = slice(pred, axes=[len(pred.shape) - 1], starts=[0], ends=[self.maxk])
        if len(label.shape) == 1 or (len(label.shape) == 2 and label.shape[-1] == 1):
            # In static mode the batch size may be unknown.
            label = reshape(label, (-1, 1))
        elif label.shape[-1] != 1:
            label = argmax(label, axis=-1, keepdim=True)
        return cast(pred == label, dtype="float32")

    def update(self, correct: Any, *args: Any) -> float | list[float]:
        """Adds a batch, the result of `compute`; returns its accuracy, or a list with one entry per k."""
        correct = _array(correct, "correct")
        num_samples = int(np.prod(correct.shape[:-1], dtype=np.int64))
        accs = []
        for i, k in enumerate(self.topk):
            num_corrects = correct[..., :k].sum()
            accs.append(float(num_corrects) / num_samples if num_samples else 0.0)
            self.total[i] += num_corrects
            self.count[i] += num_samples
        return accs[0] if len(self.topk) == 1 else accs

    def reset(self) -> None:
        """Discards all batches."""
        self.total = [0.0] * len(self.topk)
        self.count = [0] * len(self.topk)

    def accumulate(self) -> float | list[float]:
        """The accuracy over all batches, or a list with one entry per k; 0.0 without samples."""
        accs = [float(total) / count if count > 0 else 0.0 for total, count in zip(self.total, self.count, strict=True)]
        return accs[0] if len(self.topk) == 1 else accs

    def name(self) -> list[str]:
        """The names, one per k."""
        return self._name


class Precision(Metric):
    """The fraction of true positives among the samples that a binary classifier predicts positive (score rounds to 1).

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> precision = paddle.metric.Precision()
        >>> precision.update(np.array([0.1, 0.5, 0.6, 0.7]), np.array([0, 1, 1, 1]))
        >>> precision.accumulate()
        1.0
    """

    def __init__(self, name: str = "precision", *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tp = 0
        self.fp = 0
        self._name = name

    def update(self, preds: Any, labels: Any) -> None:
        """Adds scores and labels (0 or 1) of one shape, [N] or [N, 1]."""
        # 0.5 rounds up here, but to even in Recall, as in 2.0.2.
        called = np.floor(_array(preds, "preds") + 0.5).astype("int32").ravel() == 1
        positive = _array(labels, "labels").ravel() == 1
        self.tp += int((called & positive).sum())
        self.fp += int((called & ~positive).sum())

    def reset(self) -> None:
        """Discards all batches."""
        self.tp = 0
        self.fp = 0

    def accumulate(self) -> float:
        """The precision over all batches; 0.0 without positive predictions."""
        called = self.tp + self.fp
        return float(self.tp) / called if called != 0 else 0.0

    def name(self) -> str:
        """The metric's name."""
        return self._name


class Recall(Metric):
    """The fraction of positive samples that a binary classifier predicts positive (score rounds to 1).

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> recall = paddle.metric.Recall()
        >>> recall.update(np.array([0.1, 0.5, 0.6, 0.7]), np.array([1, 0, 1, 1]))
        >>> round(recall.accumulate(), 4)
        0.6667
    """

    def __init__(self, name: str = "recall", *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tp = 0
        self.fn = 0
        self._name = name

    def update(self, preds: Any, labels: Any) -> None:
        """Adds scores and labels (0 or 1) of one shape, [N] or [N, 1]."""
        called = np.rint(_array(preds, "preds")).astype("int32").ravel() == 1
        positive = _array(labels, "labels").ravel() == 1
        self.tp += int((called & positive).sum())
        self.fn += int((~called & positive).sum())

    def accumulate(self) -> float:
        """The recall over all batches; 0.0 without positive samples."""
        positive = self.tp + self.fn
        return float(self.tp) / positive if positive != 0 else 0.0

    def reset(self) -> None:
        """Discards all batches."""
        self.tp = 0
        self.fn = 0

    def name(self) -> str:
        """The metric's name."""
        return self._name


class Auc(Metric):
    """The area under the ROC curve of a binary classifier, from a histogram with `num_thresholds` + 1 bins.

    `curve` is ignored and "ROC" is used, as in 2.0.2.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> auc = paddle.metric.Auc()
        >>> scores = np.array([0.1, 0.4, 0.35, 0.8])
        >>> auc.update(np.stack([1 - scores, scores], 1), np.array([[0], [0], [1], [1]]))
        >>> auc.accumulate()
        0.75
    """

    def __init__(
        self, curve: str = "ROC", num_thresholds: int = 4095, name: str = "auc", *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._curve = curve
        self._num_thresholds = num_thresholds
        self._name = name
        self._stat_pos: np.ndarray
        self._stat_neg: np.ndarray
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Adds probabilities [N, 2] of the classes 0 and 1, and labels (0 or 1) [N, 1] or [N].

        Raises AssertionError for a probability outside [0, 1].
        """
        positive = _array(labels, "labels").reshape(-1).astype(bool)
        score = _array(preds, "preds")[: len(positive), 1]
        bins = (score * self._num_thresholds).astype(np.int64)
        assert np.all((bins >= 0) & (bins <= self._num_thresholds)), "the probabilities must be between 0 and 1"
        np.add.at(self._stat_pos, bins[positive], 1.0)
        np.add.at(self._stat_neg, bins[~positive], 1.0)

    @staticmethod
    def trapezoid_area(x1: float, x2: float, y1: float, y2: float) -> float:
        """The area between x1 and x2 under the line from y1 to y2."""
        return abs(x1 - x2) * (y1 + y2) / 2.0

    def accumulate(self) -> float:
        """The area over all batches; 0.0 unless both classes occur."""
        pos = np.concatenate([[0.0], np.cumsum(self._stat_pos[::-1])])
        neg = np.concatenate([[0.0], np.cumsum(self._stat_neg[::-1])])
        # Integers below 2**53: the sum is exact in any order.
        area = float(np.sum((neg[1:] - neg[:-1]) * (pos[1:] + pos[:-1]) / 2.0))
        tot_pos, tot_neg = float(pos[-1]), float(neg[-1])
        return area / tot_pos / tot_neg if tot_pos > 0.0 and tot_neg > 0.0 else 0.0

    def reset(self) -> None:
        """Discards all batches."""
        self._stat_pos = np.zeros(self._num_thresholds + 1)
        self._stat_neg = np.zeros(self._num_thresholds + 1)

    def name(self) -> str:
        """The metric's name."""
        return self._name


def accuracy(
    input: Any, label: Any, k: int = 1, correct: Any = None, total: Any = None, name: str | None = None
) -> Tensor:
    """The fraction of samples whose label is among the `k` highest scores, as an operator.

    Args:
        input: scores, float32 or float64, [N, classes].
        label: int32 or int64, [N, 1].
        correct: int32 variable that receives the number of correct samples.
        total: int32 variable that receives N.

    Returns:
        float32, [1].

    Examples:
        >>> import paddle
        >>> scores = paddle.to_tensor([[0.2, 0.1, 0.7], [0.5, 0.3, 0.2]], dtype="float32")
        >>> label = paddle.to_tensor([[2], [1]], dtype="int64")
        >>> paddle.metric.accuracy(scores, label).numpy().tolist()
        [0.5]
    """
    check_variable_and_dtype(input, "input", HALF_FLOATS, "accuracy")
    values, indices = _ops.top_k(input, k=k)
    given = {slot: var for slot, var in (("Correct", correct), ("Total", total)) if var is not None}
    return _ops.accuracy(values, indices, label, **given)[0]
