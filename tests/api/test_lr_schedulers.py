"""Learning rate schedulers, bit for bit equal to the rates of PaddlePaddle 2.6.2."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("paddle._core")

import paddle  # noqa: E402
from paddle.optimizer import lr  # noqa: E402

CASES = {
    "noam": lambda m: m.NoamDecay(d_model=0.01, warmup_steps=5, learning_rate=2.0),
    "piecewise": lambda m: m.PiecewiseDecay([3, 6, 9], [0.1, 0.2, 0.3, 0.4]),
    "natural_exp": lambda m: m.NaturalExpDecay(0.5, 0.1),
    "inverse_time": lambda m: m.InverseTimeDecay(0.5, 0.1),
    "polynomial": lambda m: m.PolynomialDecay(0.5, 5, power=2.0),
    "polynomial_cycle": lambda m: m.PolynomialDecay(0.5, 4, end_lr=0.01, cycle=True),
    "warmup": lambda m: m.LinearWarmup(0.5, 5, 0.0, 0.5),
    "warmup_inner": lambda m: m.LinearWarmup(m.NaturalExpDecay(1.0, 0.3), 4, 0.1, 1.0),
    "exponential": lambda m: m.ExponentialDecay(0.5, 0.9),
    "multi_step": lambda m: m.MultiStepDecay(0.5, [2, 4, 8], 0.8),
    "step": lambda m: m.StepDecay(0.5, 3, 0.8),
    "lambda": lambda m: m.LambdaDecay(0.5, lambda epoch: 0.95**epoch),
    "cosine": lambda m: m.CosineAnnealingDecay(0.5, 4, eta_min=0.05),
    "resumed": lambda m: m.ExponentialDecay(0.5, 0.9, last_epoch=4),
}

# The rates of epochs 0 to 11 (when resumed: 5 to 16), then of step(7).
RATES = json.loads(Path(__file__).with_name("lr_rates.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_rates(name):
    scheduler = CASES[name](lr)
    got = [scheduler()]
    for _ in range(11):
        scheduler.step()
        got.append(scheduler())
    if len(RATES[name]) > 12:
        scheduler.step(7)
        got.append(scheduler())
    assert got == RATES[name]


@pytest.mark.parametrize(
    ("mode", "threshold_mode", "metrics"),
    [("min", "rel", [5, 4, 4, 4, 4, 4, 3, 3, 3, 3, 3, 3]), ("max", "abs", [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2.00001])],
)
@pytest.mark.parametrize("kind", [float, lambda m: np.float32([m]), lambda m: paddle.to_tensor(np.float32([m]))])
def test_plateau(mode, threshold_mode, metrics, kind):
    options = {"factor": 0.5, "patience": 1, "cooldown": 1, "min_lr": 0.2}
    scheduler = lr.ReduceOnPlateau(1.0, mode=mode, threshold_mode=threshold_mode, **options)
    got = []
    for metric in metrics:
        scheduler.step(kind(metric))
        got.append(scheduler())
    assert got == RATES[f"plateau_{mode}"]
    again = lr.ReduceOnPlateau(1.0, mode=mode, threshold_mode=threshold_mode, **options)
    again.set_state_dict(scheduler.state_dict())
    assert again() == scheduler() and again.num_bad_epochs == scheduler.num_bad_epochs


@pytest.mark.parametrize("name", CASES)
def test_state(name):
    scheduler = CASES[name](lr)
    for _ in range(6):
        scheduler.step()
    again = CASES[name](lr)
    again.set_state_dict(scheduler.state_dict())
    for _ in range(5):
        scheduler.step()
        again.step()
        assert again() == scheduler() and again.last_epoch == scheduler.last_epoch


def test_state_errors():
    scheduler = lr.ExponentialDecay(0.5, 0.9)
    assert scheduler.state_dict() == {"last_epoch": 0, "last_lr": 0.5}
    with pytest.raises(RuntimeError, match="last_lr"):
        scheduler.set_dict({"last_epoch": 3})
    with pytest.warns(UserWarning, match="does not use"):
        scheduler.set_state_dict({"last_epoch": 3, "last_lr": 0.1, "other": 1})


def test_custom_scheduler(capsys):
    class Halving(lr.LRScheduler):
        def get_lr(self):
            return self.base_lr * 0.5**self.last_epoch

    scheduler = Halving(1.0, verbose=True)
    scheduler.step()
    assert scheduler() == 0.5
    assert capsys.readouterr().out.splitlines() == [
        "Epoch 0: Halving set learning rate to 1.0.",
        "Epoch 1: Halving set learning rate to 0.5.",
    ]
    with pytest.raises(NotImplementedError):
        lr.LRScheduler()


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: lr.ExponentialDecay("0.5", 0.9), TypeError),
        (lambda: lr.MultiStepDecay(0.5, {1, 2}), TypeError),
        (lambda: lr.MultiStepDecay(0.5, [2, 2]), ValueError),
        (lambda: lr.MultiStepDecay(0.5, [1, 2], gamma=1.0), ValueError),
        (lambda: lr.StepDecay(0.5, 1.5), TypeError),
        (lambda: lr.StepDecay(0.5, 2, gamma=2), ValueError),
        (lambda: lr.LambdaDecay(0.5, 0.9), TypeError),
        (lambda: lr.LinearWarmup("0.5", 5, 0.0, 0.5), TypeError),
        (lambda: lr.LinearWarmup(0.5, 5, 0.5, 0.5), AssertionError),
        (lambda: lr.CosineAnnealingDecay(0.5, 4.0), TypeError),
        (lambda: lr.CosineAnnealingDecay(0.5, 4, eta_min="0"), TypeError),
        (lambda: lr.ReduceOnPlateau("0.5"), TypeError),
        (lambda: lr.ReduceOnPlateau(0.5, mode="mean"), ValueError),
        (lambda: lr.ReduceOnPlateau(0.5, factor=1.0), ValueError),
        (lambda: lr.ReduceOnPlateau(0.5, threshold_mode="none"), ValueError),
        (lambda: lr.ReduceOnPlateau(0.5).step("1"), TypeError),
        (lambda: lr.ReduceOnPlateau(0.5).step(np.ones(2)), AssertionError),
    ],
)
def test_wrong_arguments(make, error):
    with pytest.raises(error):
        make()
