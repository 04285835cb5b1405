"""fluid.metrics: metrics computed in Python from fetched values."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from paddle import _ops
from paddle._basics import unique_name
from paddle._programs.guards import program_guard
from paddle._programs.program import Program
from paddle.fluid.layers import cast, concat, fill_constant
from paddle.fluid.layers.detection import detection_map
from paddle.nn.initializer.base import Constant
from paddle.nn.layer_helper import LayerHelper

__all__ = [
    "Accuracy",
    "Auc",
    "ChunkEvaluator",
    "CompositeMetric",
    "DetectionMAP",
    "EditDistance",
    "MetricBase",
    "Precision",
    "Recall",
]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, np.int64, float)) or isinstance(value, np.ndarray) and value.shape == (1,)


def _array(name: str, value: Any) -> np.ndarray:
    if not isinstance(value, (np.ndarray, np.generic)):
        raise ValueError(f"The '{name}' must be a numpy ndarray.")
    return np.asarray(value)


def _numbers(**values: Any) -> None:
    for name, value in values.items():
        if not _is_number(value) and not isinstance(value, np.ndarray):
            raise ValueError(f"The '{name}' must be a number(int, float) or a numpy ndarray.")


class MetricBase:
    """Base of metrics: `update` adds a batch, `eval` returns the value, `reset` restarts.

    The states of a subclass are its attributes whose names do not begin with "_".

    Args:
        name: the result of `str`; default: the name of the class.
    """

    def __init__(self, name: Any) -> None:
        self._name = str(name) if name is not None else type(self).__name__

    def __str__(self) -> str:
        return self._name

    def _states(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def reset(self) -> None:
        """Sets numbers and arrays to zero, and other attributes to None."""
        for name, value in self._states().items():
            if isinstance(value, (int, float)):
                setattr(self, name, type(value)(0))
            else:
                setattr(self, name, np.zeros_like(value) if isinstance(value, (np.ndarray, np.generic)) else None)

    def get_config(self) -> dict[str, Any]:
        """The name and a copy of the states, as {"name": .., "states": {..}}."""
        return {"name": self._name, "states": copy.deepcopy(self._states())}

    def update(self, preds: Any, labels: Any) -> None:
        """Adds a batch.

        Raises:
            NotImplementedError: in the base class.
        """
        raise NotImplementedError("Should not use it directly, please extend it.")

    def eval(self) -> Any:
        """The value over all batches.

        Raises:
            NotImplementedError: in the base class.
        """
        raise NotImplementedError("Should not use it directly, please extend it.")


class CompositeMetric(MetricBase):
    """Several metrics of the same predictions.

    Examples:
        >>> import numpy as np
        >>> from paddle.fluid import metrics
        >>> both = metrics.CompositeMetric()
        >>> both.add_metric(metrics.Precision())
        >>> both.add_metric(metrics.Recall())
        >>> both.update(np.array([0.9, 0.8, 0.1]), np.array([1, 0, 1]))
        >>> both.eval()
        [0.5, 0.5]
    """

    def __init__(self, name: Any = None) -> None:
        super().__init__(name)
        self._metrics: list[MetricBase] = []

    def add_metric(self, metric: MetricBase) -> None:
        """Adds a metric.

        Raises:
            ValueError: if it is not a MetricBase.
        """
        if not isinstance(metric, MetricBase):
            raise ValueError("SubMetric should be inherit from MetricBase.")
        self._metrics.append(metric)

    def update(self, preds: Any, labels: Any) -> None:
        """Passes the batch to every metric."""
        for metric in self._metrics:
            metric.update(preds, labels)

    def eval(self) -> list[Any]:
        """The values in the order in which the metrics were added."""
        return [metric.eval() for metric in self._metrics]


class Precision(MetricBase):
    """Precision of binary classification: true positives / predicted positives."""

    def __init__(self, name: Any = None) -> None:
        super().__init__(name)
        self.tp = 0
        self.fp = 0

    def update(self, preds: Any, labels: Any) -> None:
        """Adds arrays of probabilities (positive from 0.5 on) and of labels, 0 or 1 (ValueError)."""
        rounded = np.rint(_array("preds", preds)).astype("int32").ravel()
        labels = _array("labels", labels).ravel()
        positive = rounded[: len(labels)] == 1
        self.tp += int((labels[positive] == 1).sum())
        self.fp += int((labels[positive] != 1).sum())

    def eval(self) -> float:
        """The precision; 0.0 without predicted positives."""
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else 0.0


class Recall(MetricBase):
    """Recall of binary classification: true positives / positive labels."""

    def __init__(self, name: Any = None) -> None:
        super().__init__(name)
        self.tp = 0
        self.fn = 0

    def update(self, preds: Any, labels: Any) -> None:
        """Adds arrays of probabilities (positive from 0.5 on) and of labels, 0 or 1 (ValueError)."""
        rounded = np.rint(_array("preds", preds)).astype("int32").ravel()
        labels = _array("labels", labels).ravel()
        found = rounded[: len(labels)][labels == 1]
        self.tp += int((found == 1).sum())
        self.fn += int((found != 1).sum())

    def eval(self) -> float:
        """The recall; 0.0 without positive labels."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else 0.0


class Accuracy(MetricBase):
    """The weighted mean of the accuracies of batches.

    Examples:
        >>> from paddle.fluid import metrics
        >>> accuracy = metrics.Accuracy()
        >>> accuracy.update(value=0.5, weight=2)
        >>> accuracy.update(value=1.0, weight=2)
        >>> accuracy.eval()
        0.75
    """

    def __init__(self, name: Any = None) -> None:
        super().__init__(name)
        self.value: Any = 0.0
        self.weight: Any = 0.0

    def update(self, value: Any, weight: Any) -> None:  # type: ignore[override]
        """Adds the accuracy of a batch and its weight, which must not be negative (ValueError)."""
        _numbers(value=value)
        if not _is_number(weight):
            raise ValueError("The 'weight' must be a number(int, float).")
        if weight < 0:
            raise ValueError("The 'weight' can not be negative")
        self.value += value * weight
        self.weight += weight

    def eval(self) -> Any:
        """The mean.

        Raises:
            ValueError: if no batch was added.
        """
        if self.weight == 0:
            raise ValueError("There is no data in Accuracy: update it with the result of layers.accuracy.")
        return self.value / self.weight


class ChunkEvaluator(MetricBase):
    """Precision, recall and F1 of chunks, from their counts."""

    def __init__(self, name: Any = None) -> None:
        super().__init__(name)
        self.num_infer_chunks = 0
        self.num_label_chunks = 0
        self.num_correct_chunks = 0

    def update(self, num_infer_chunks: Any, num_label_chunks: Any, num_correct_chunks: Any) -> None:  # type: ignore[override]
        """Adds the numbers of inferred, labeled and correct chunks of a batch (ValueError)."""
        _numbers(num_infer_chunks=num_infer_chunks, num_label_chunks=num_label_chunks)
        _numbers(num_correct_chunks=num_correct_chunks)
        self.num_infer_chunks += num_infer_chunks
        self.num_label_chunks += num_label_chunks
        self.num_correct_chunks += num_correct_chunks

    def eval(self) -> tuple[float, float, float]:
        """(precision, recall, F1)."""
        right = float(np.asarray(self.num_correct_chunks).item())
        precision = right / self.num_infer_chunks if self.num_infer_chunks else 0
        recall = right / self.num_label_chunks if self.num_label_chunks else 0
        return precision, recall, 2 * precision * recall / (precision + recall) if right else 0


class EditDistance(MetricBase):
    """The mean edit distance of sequences, and the fraction of sequences with an error."""

    def __init__(self, name: Any) -> None:
        super().__init__(name)
        self.total_distance = 0.0
        self.seq_num: Any = 0
        self.instance_error: Any = 0

    def update(self, distances: Any, seq_num: Any) -> None:  # type: ignore[override]
        """Adds the distances of a batch and the number of its sequences (ValueError)."""
        distances = _array("distances", distances)
        if not _is_number(seq_num):
            raise ValueError("The 'seq_num' must be a number(int, float).")
        self.seq_num += seq_num
        self.instance_error += seq_num - np.sum(distances == 0)
        self.total_distance += np.sum(distances)

    def eval(self) -> tuple[Any, Any]:
        """(mean distance, fraction of sequences with an error).

        Raises:
            ValueError: if no sequence was added.
        """
        if self.seq_num == 0:
            raise ValueError("There is no data in EditDistance: update it with the result of layers.edit_distance.")
        return self.total_distance / self.seq_num, self.instance_error / float(self.seq_num)


class Auc(MetricBase):
    """The area under the ROC curve of binary classification.

    Args:
        name: of the metric.
        curve: "ROC".
        num_thresholds: number of bins of the probability.

    Examples:
        >>> import numpy as np
        >>> from paddle.fluid import metrics
        >>> auc = metrics.Auc("auc")
        >>> auc.update(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0], [1]]))
        >>> auc.eval()
        1.0
    """

    def __init__(self, name: Any, curve: str = "ROC", num_thresholds: int = 4095) -> None:
        super().__init__(name)
        self._curve = curve
        self._num_thresholds = num_thresholds
        self._stat_pos = [0.0] * (num_thresholds + 1)
        self._stat_neg = [0.0] * (num_thresholds + 1)

    def update(self, preds: Any, labels: Any) -> None:
        """Adds probabilities, [N, 2], and labels, [N, 1] (ValueError unless they are arrays)."""
        labels = _array("labels", labels)
        preds = _array("predictions", preds)
        for i, label in enumerate(labels):
            bucket = int(preds[i, 1] * self._num_thresholds)
            assert bucket <= self._num_thresholds, f"Auc: the probability {preds[i, 1]} is above 1"
            (self._stat_pos if label else self._stat_neg)[bucket] += 1.0

    @staticmethod
    def trapezoid_area(x1: float, x2: float, y1: float, y2: float) -> float:
        """The area of a trapezoid from x1 to x2 with the heights y1 and y2."""
        return abs(x1 - x2) * (y1 + y2) / 2.0

    def eval(self) -> float:
        """The area; 0.0 if a class did not occur."""
        pos = neg = area = 0.0
        for p, n in zip(reversed(self._stat_pos), reversed(self._stat_neg), strict=True):
            area += self.trapezoid_area(neg, neg + n, pos, pos + p)
            pos, neg = pos + p, neg + n
        return area / pos / neg if pos > 0.0 and neg > 0.0 else 0.0


class DetectionMAP:
    """The mean average precision of detections, per batch and over all batches since `reset`; its states are variables
    of the Program.

    Args:
        input (Variable): detections [M, 6], (class, score, box), with LoD by images.
        gt_label (Variable): classes of the ground truth, [N, 1], with LoD.
        gt_box (Variable): ground truth boxes, [N, 4], relative to the image.
        gt_difficult (Variable): 1 for difficult objects, [N, 1], or None.
        class_num (int): number of classes.
        background_label (int): ignored, as in Paddle.
        overlap_threshold (float): minimum overlap of a true positive.
        evaluate_difficult (bool): include difficult objects.
        ap_version (str): "integral" or "11point".

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> found = fluid.data("found", [None, 6], lod_level=1)
        >>> label, box = (fluid.data(n, [None, k], lod_level=1) for n, k in (("label", 1), ("box", 4)))
        >>> current, overall = fluid.metrics.DetectionMAP(found, label, box, class_num=3).get_map_var()
        >>> overall.shape
        (1,)
    """

    def __init__(
        self,
        input: Any,  # noqa: A002
        gt_label: Any,
        gt_box: Any,
        gt_difficult: Any = None,
        class_num: Any = None,
        background_label: int = 0,
        overlap_threshold: float = 0.5,
        evaluate_difficult: bool = True,
        ap_version: str = "integral",
    ) -> None:
        self._begin()
        columns = [cast(gt_label, gt_box.dtype), gt_box]
        if gt_difficult is not None:
            columns.insert(1, cast(gt_difficult, gt_box.dtype))
        label = concat(columns, axis=1)

        def precision(**states: Any) -> Any:
            return detection_map(
                input,
                label,
                class_num,
                background_label,
                overlap_threshold=overlap_threshold,
                evaluate_difficult=evaluate_difficult,
                ap_version=ap_version,
                **states,
            )

        self.cur_map = precision()
        self.states = [
            self._variable("accum_pos_count", "int32", None),
            self._variable("accum_true_pos", "float32", None),
            self._variable("accum_false_pos", "float32", None),
        ]
        self.has_state = flag = self._variable("has_state", "int32", [1])
        self.helper.set_variable_initializer(flag, initializer=Constant(value=0))
        self.accum_map = precision(has_state=flag, input_states=self.states, out_states=self.states)
        fill_constant(shape=flag.shape, value=1, dtype=flag.dtype, out=flag)

    def _begin(self) -> None:
        self.helper = LayerHelper("map_eval")

    def _variable(self, suffix: str, dtype: str, shape: Any) -> Any:
        name = "_".join([unique_name.generate(self.helper.name), suffix])
        return self.helper.create_variable(name=name, persistable=True, dtype=dtype, shape=shape)

    def get_map_var(self) -> tuple[Any, Any]:
        """The variables (precision of the batch, precision of all batches), both [1]."""
        return self.cur_map, self.accum_map

    def reset(self, executor: Any, reset_program: Any = None) -> None:
        """Resets the states, by a Program that the executor runs."""
        program = Program() if reset_program is None else reset_program
        flag = self.has_state
        with program_guard(program):
            own = program.current_block().create_var(
                name=flag.name, shape=flag.shape, dtype=flag.dtype, type=flag.type, persistable=True
            )
            _ops.fill_constant(shape=list(own.shape), dtype=own.dtype, value=0.0, Out=own)
        executor.run(program)
