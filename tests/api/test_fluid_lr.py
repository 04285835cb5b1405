"""fluid.dygraph's learning rate schedules, bit for bit equal to PaddlePaddle 1.8.5 in float32.

LinearLrWarmup is checked by its formula: 1.8.5 ignores `start_lr`, 2.0.2 adds it.
"""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("paddle._core")

import paddle  # noqa: E402
from paddle import fluid  # noqa: E402

D = fluid.dygraph

STEPS = {
    "noam": lambda: D.NoamDecay(16, 5, learning_rate=2.0),
    "noam_begin": lambda: D.NoamDecay(16, 5, begin=3, step=2),
    "piecewise": lambda: D.PiecewiseDecay([2, 5, 7], [0.1, 0.2, 0.3, 0.4], 0),
    "natural_exp": lambda: D.NaturalExpDecay(0.3, 3, 0.7),
    "natural_exp_stairs": lambda: D.NaturalExpDecay(0.3, 3, 0.7, staircase=True),
    "exponential": lambda: D.ExponentialDecay(0.3, 3, 0.7),
    "exponential_stairs": lambda: D.ExponentialDecay(0.3, 3, 0.7, True, begin=1, step=2),
    "inverse_time": lambda: D.InverseTimeDecay(0.3, 3, 0.7),
    "polynomial": lambda: D.PolynomialDecay(0.3, 7, 0.01, power=1.5),
    "polynomial_cycle": lambda: D.PolynomialDecay(0.3, 4, 0.01, power=2.0, cycle=True),
    "cosine": lambda: D.CosineDecay(0.3, 2, 5),
}
EPOCHS = {
    "step": lambda: D.StepDecay(0.3, 3, 0.7),
    "multi_step": lambda: D.MultiStepDecay(0.3, [2, 4, 8], 0.7),
    "lambda": lambda: D.LambdaDecay(0.3, lambda epoch: 0.95**epoch),
}
PLATEAUS = {
    "min": ("rel", [5, 4, 4, 4, 4, 4, 3, 3, 3, 3, 3, 3]),
    "max": ("abs", [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2.00001]),
}
RATES = json.loads(Path(__file__).with_name("fluid_lr_rates.json").read_text())


@pytest.fixture(autouse=True)
def dygraph():
    paddle.disable_static()


def number(tensor):
    assert list(tensor.shape) == [1]
    return float(tensor.numpy()[0])


def loss_of(value):
    return paddle.to_tensor(np.float32([value]))


def plateau(mode):
    return D.ReduceLROnPlateau(
        1.0, mode=mode, threshold_mode=PLATEAUS[mode][0], decay_rate=0.5, patience=1, cooldown=1, min_lr=0.2
    )


def linear():
    one = fluid.ParamAttr(initializer=fluid.initializer.Constant(1.0))
    return D.Linear(1, 1, param_attr=one, bias_attr=False)


def train(net, optimizer):
    """One update."""
    loss = fluid.layers.reduce_mean(net(paddle.ones([1, 1])))
    loss.backward()
    optimizer.minimize(loss)
    net.clear_gradients()
    return loss


@pytest.mark.parametrize("name", STEPS)
def test_steps(name):
    rate = STEPS[name]()
    assert [number(rate()) for _ in range(12)] == RATES[name]


@pytest.mark.parametrize("name", EPOCHS)
def test_epochs(name):
    rate = EPOCHS[name]()
    got = []
    for _ in range(12):
        got.append(number(rate()))
        rate.epoch()
    assert got == RATES[name]
    rate.epoch(3)
    assert number(rate()) == RATES[name][3]


@pytest.mark.parametrize("mode", PLATEAUS)
def test_plateau(mode, capsys):
    rate = plateau(mode)
    rate.verbose = True
    got = []
    for loss in PLATEAUS[mode][1]:
        rate.step(loss_of(loss))
        got.append(number(rate()))
    assert got == RATES[f"plateau_{mode}"]
    changes = sum(a != b for a, b in zip([1.0, *got], got, strict=False))
    assert capsys.readouterr().out.count("reducing learning rate from") == changes


def test_warmup():
    rate = D.LinearLrWarmup(0.3, 4, 0.05, 0.2)
    np.testing.assert_allclose(
        [number(rate()) for _ in range(5)], [0.05 + 0.15 * step / 4 for step in (1, 2, 3)] + [0.3, 0.3], rtol=1e-6
    )
    # The inner decay also advances during the warmup.
    rate = D.LinearLrWarmup(STEPS["exponential"](), 4, 0.05, 0.2)
    got = [number(rate()) for _ in range(12)]
    assert got[3:] == RATES["exponential"][3:]
    assert isinstance(D.LinearLrWarmup(1, 1, 0.0, 0.5)(), paddle.Tensor)


@pytest.mark.parametrize("name", ["noam", "polynomial"])
def test_training(name):
    net = linear()
    sgd = fluid.optimizer.SGD(STEPS[name](), parameter_list=net.parameters())
    got = [float(sgd.current_step_lr())]
    for _ in range(5):
        train(net, sgd)
        got += [float(sgd.current_step_lr()), float(net.weight.numpy()[0, 0])]
    assert got == RATES[f"train_{name}"]
    with pytest.raises(RuntimeError, match="LearningRateDecay"):
        sgd.set_lr(0.1)


def test_parameter_factor():
    """A parameter's learning rate factor multiplies the rate of each step."""
    attr = fluid.ParamAttr(learning_rate=0.5, initializer=fluid.initializer.Constant(1.0))
    net = D.Linear(1, 1, param_attr=attr, bias_attr=False)
    sgd = fluid.optimizer.SGD(D.PiecewiseDecay([1], [0.5, 0.25], 0), parameter_list=net.parameters())
    train(net, sgd)
    assert net.weight.numpy().item() == 0.75
    train(net, sgd)
    assert net.weight.numpy().item() == 0.625


FUNCTIONS = {
    "noam_decay": ("NoamDecay", (16, 5, 2.0)),
    "exponential_decay": ("ExponentialDecay", (0.3, 3, 0.7)),
    "natural_exp_decay": ("NaturalExpDecay", (0.3, 3, 0.7)),
    "inverse_time_decay": ("InverseTimeDecay", (0.3, 3, 0.7)),
    "polynomial_decay": ("PolynomialDecay", (0.3, 7, 0.01, 1.5)),
    "piecewise_decay": ("PiecewiseDecay", ([2, 5, 7], [0.1, 0.2, 0.3, 0.4])),
    "cosine_decay": ("CosineDecay", (0.3, 2, 5)),
    "linear_lr_warmup": ("LinearLrWarmup", (0.3, 5, 0.05, 0.2)),
}
RECORDED = dict(
    zip(
        FUNCTIONS,
        ["noam", "exponential", "natural_exp", "inverse_time", "polynomial", "piecewise", "cosine", None],
        strict=True,
    )
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    """fluid.layers' functions return these objects in dygraph mode, Variables with the same values in static mode."""
    kind, args = FUNCTIONS[name]
    rate = getattr(fluid.layers, name)(*args)
    assert type(rate) is getattr(D, kind)
    here = [number(rate()) for _ in range(8)]
    if RECORDED[name]:
        assert here == RATES[RECORDED[name]][:8]
    paddle.enable_static()
    try:
        main = fluid.Program()
        startup = fluid.Program()
        with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
            variable = getattr(fluid.layers, name)(*args)
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(startup)
            there = [exe.run(main, fetch_list=[variable])[0].item() for _ in range(9)]
    finally:
        paddle.disable_static()
    # The dygraph warmup starts with step 1, its Program with step 0.
    first = 1 if name == "linear_lr_warmup" else 0
    np.testing.assert_allclose(here, there[first : first + 8], rtol=2e-6)


@pytest.mark.parametrize("name", [*STEPS, *EPOCHS, "min"])
def test_saved(name, tmp_path):
    """fluid.save_dygraph and load_dygraph restore an optimizer and its learning rate."""
    make = {**STEPS, **EPOCHS, "min": lambda: plateau("min")}[name]

    def optimizer():
        return fluid.optimizer.Momentum(make(), 0.9, parameter_list=net.parameters())

    def go_on(opt):
        rate = opt._learning_rate
        for _ in range(3):
            with fluid.unique_name.guard():  # accumulators are named as in a new process
                loss = train(net, opt)
            if name in EPOCHS:
                rate.epoch()
            elif name == "min":
                rate.step(loss)

    net = linear()
    first = optimizer()
    go_on(first)
    path = str(tmp_path / "state")
    fluid.save_dygraph(net.state_dict(), path)
    fluid.save_dygraph(first.state_dict(), path)
    weight = net.weight.numpy()
    go_on(first)
    wanted = net.weight.numpy(), first.current_step_lr()

    parameters, state = fluid.load_dygraph(path)
    assert ("global_step" in state) == (name not in EPOCHS)
    net.set_dict(parameters)
    assert net.weight.numpy() == weight
    again = optimizer()
    again.set_dict(state)
    go_on(again)
    assert (net.weight.numpy(), again.current_step_lr()) == wanted


def test_state_errors():
    rate = STEPS["noam"]()
    assert rate.state_dict() == {"step_num": 1}
    with pytest.raises(RuntimeError, match="step_num"):
        rate.set_state_dict({})
    with pytest.warns(UserWarning, match="does not use"):
        rate.set_dict({"step_num": 3, "other": 1})
    assert rate.step_num == 3
    sgd = fluid.optimizer.SGD(rate, parameter_list=linear().parameters())
    with pytest.raises(RuntimeError, match="LR_Scheduler"):
        sgd.set_state_dict({})
    with pytest.raises(AssertionError, match="global_step"):
        sgd.set_state_dict({"LR_Scheduler": {"step_num": 4}})
    with pytest.raises(RuntimeError, match="global_step"):
        sgd.set_state_dict({"LR_Scheduler": {"step_num": 4}, "global_step": "4"})
    sgd.set_state_dict({"LR_Scheduler": {"step_num": 4}, "global_step": np.int32([9])})
    assert rate.step_num == 9


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: D.LinearLrWarmup("0.5", 5, 0.0, 0.5), TypeError),
        (lambda: D.LinearLrWarmup(0.5, 5, 0.5, 0.5), AssertionError),
        (lambda: D.ReduceLROnPlateau("0.5"), TypeError),
        (lambda: D.ReduceLROnPlateau(0.5, mode="mean"), ValueError),
        (lambda: D.ReduceLROnPlateau(0.5, decay_rate=1.0), ValueError),
        (lambda: D.ReduceLROnPlateau(0.5, threshold_mode="none"), ValueError),
        (lambda: D.ReduceLROnPlateau(0.5).step(1.0), TypeError),
        (lambda: D.ReduceLROnPlateau(0.5).step(paddle.ones([2])), AssertionError),
        (lambda: D.StepDecay("0.5", 2), TypeError),
        (lambda: D.StepDecay(-1, 2), ValueError),
        (lambda: D.StepDecay(0.5, 1.5), TypeError),
        (lambda: D.StepDecay(0.5, 2, 1.0), ValueError),
        (lambda: D.MultiStepDecay(0.5, {1, 2}), TypeError),
        (lambda: D.MultiStepDecay(0.5, [2, 2]), ValueError),
        (lambda: D.MultiStepDecay(0.5, [1, 2], 1.0), ValueError),
        (lambda: D.LambdaDecay(0.5, 0.9), TypeError),
        (lambda: D.learning_rate_scheduler.LearningRateDecay()(), NotImplementedError),
        (lambda: fluid.optimizer.SGD("0.5", parameter_list=[]), TypeError),
        (lambda: paddle.optimizer.SGD(D.StepDecay(0.5, 2), parameters=[]), TypeError),
    ],
)
def test_wrong_arguments(make, error):
    with pytest.raises(error):
        make()
