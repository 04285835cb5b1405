"""Metrics; the expected values were recorded from PaddlePaddle 2.6.2."""

import numpy as np
import pytest

pytest.importorskip("paddle._core")

import paddle  # noqa: E402
from paddle.metric import Accuracy, Auc, Metric, Precision, Recall  # noqa: E402


@pytest.fixture
def data():
    rng = np.random.RandomState(0)
    scores = rng.rand(40).astype("float32").round(1)
    labels = (rng.rand(40) < scores).astype("int64")
    logits = rng.rand(16, 5).astype("float32")
    classes = rng.randint(0, 5, (16, 1)).astype("int64")
    return scores, labels, logits, classes


@pytest.mark.parametrize(("kind", "expected"), [(Precision, 0.7586206896551724), (Recall, 0.76)])
@pytest.mark.parametrize("wrap", [np.asarray, paddle.to_tensor])
def test_precision_recall(data, kind, expected, wrap):
    scores, labels, _, _ = data
    metric = kind()
    assert metric.name() == kind.__name__.lower() and metric.accumulate() == 0.0
    metric.update(wrap(scores[:20]), wrap(labels[:20]))
    metric.update(wrap(scores[20:, None]), wrap(labels[20:, None]))
    assert metric.accumulate() == expected
    metric.reset()
    assert metric.accumulate() == 0.0
    with pytest.raises(ValueError, match="preds"):
        metric.update([0.5], labels)
    with pytest.raises(ValueError, match="labels"):
        metric.update(scores, [1])


@pytest.mark.parametrize("num_thresholds", [4095, 9])
def test_auc(data, num_thresholds):
    scores, labels, _, _ = data
    probabilities = np.stack([1 - scores, scores], 1)
    metric = Auc(num_thresholds=num_thresholds)
    metric.update(probabilities, np.ones_like(labels)[:, None])
    assert metric.accumulate() == 0.0 and metric.name() == "auc"
    metric.update(paddle.to_tensor(probabilities), paddle.to_tensor(labels[:, None]))
    assert metric.accumulate() == 0.7882051282051282
    with pytest.raises(AssertionError):
        metric.update(np.array([[0.0, 1.5]]), np.array([[1]]))


def test_accuracy(data):
    _, _, logits, classes = data
    metric = Accuracy(topk=(1, 3))

    def run(x, y):
        return metric.update(metric.compute(paddle.to_tensor(x), paddle.to_tensor(y)))

    assert run(logits[:8], classes[:8]) == [0.125, 0.375]
    assert run(logits[8:], classes[8:, 0]) == [0.375, 0.625]
    assert metric.accumulate() == [0.25, 0.5] and metric.name() == ["acc_top1", "acc_top3"]
    metric = Accuracy()
    assert run(logits, np.eye(5, dtype="float32")[classes[:, 0]]) == 0.25
    assert metric.accumulate() == 0.25 and metric.name() == ["acc"]
    metric.reset()
    assert metric.accumulate() == 0.0
    assert metric.update(np.float32([[1], [0]])) == 0.5


def test_base():
    with pytest.raises(TypeError):
        Metric()
    assert Precision().compute(1, 2) == (1, 2)
