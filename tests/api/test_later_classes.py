"""Layers, optimizers and tools of Paddle 2.2 to 2.6: values of 2.6.2 (`later_cases.py`), and what they refuse."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import numpy as np
import paddle
import pytest
from later_cases import CASES
from paddle import profiler, static
from paddle.nn import initializer
from paddle.nn.utils import spectral_norm

VALUES = json.loads((Path(__file__).parent / "later_values.json").read_text())


def same(got, want, tolerance):
    if isinstance(want, list):
        assert len(got) == len(want)
        for pair in zip(got, want, strict=True):
            same(*pair, tolerance)
    elif isinstance(want, float):
        assert got == pytest.approx(want, rel=tolerance, abs=tolerance)
    else:
        assert got == want


@pytest.mark.parametrize("name", CASES)
def test_values_of_paddle(name):
    # 2.6.2 has the steps of a line search in float32.
    same(CASES[name](), VALUES[name], 5e-6 if name.startswith("lbfgs") else 2e-6)


def test_viterbi_in_a_program():
    potentials = np.random.RandomState(0).randn(3, 4, 5).astype("float64")
    transitions = np.random.RandomState(1).randn(5, 5)
    lengths = np.array([4, 2, 0])
    eager = paddle.text.ViterbiDecoder(paddle.to_tensor(transitions))(
        paddle.to_tensor(potentials), paddle.to_tensor(lengths)
    )
    main = static.Program()
    paddle.enable_static()
    try:
        with static.program_guard(main):
            given = [static.data(n, [-1, 4, 5][-r:], t) for n, r, t in (("p", 3, "float64"), ("l", 1, "int64"))]
            given[1].desc.set_shape([-1])
            matrix = static.data("t", [5, 5], "float64")
            found = paddle.text.viterbi_decode(given[0], matrix, given[1])
        feed = {"p": potentials, "t": transitions, "l": lengths}
        ran = static.Executor(paddle.CPUPlace()).run(main, feed=feed, fetch_list=list(found))
    finally:
        paddle.disable_static()
    for a, b in zip(eager, ran, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)


@pytest.mark.parametrize(
    "change, error, text",
    [
        ({"potentials": "int64"}, TypeError, "potentials must be float32 or float64, got int64"),
        ({"transitions": "float64"}, TypeError, "must have one data type"),
        ({"lengths": "int32"}, TypeError, "lengths must be int64, got int32"),
        ({"shape": [5, 4]}, ValueError, r"transition_params \[tags, tags\]"),
        ({"most": 7}, ValueError, "lengths must be from 0 to 3"),
        ({"batch": 3}, ValueError, "potentials has 2 sequences, lengths 3"),
    ],
)
def test_viterbi_refuses(change, error, text):
    potentials = paddle.ones([2, 3, 5]).astype(change.get("potentials", "float32"))
    transitions = paddle.ones(change.get("shape", [5, 5]), change.get("transitions", "float32"))
    lengths = paddle.full([change.get("batch", 2)], change.get("most", 3), "int64").astype(
        change.get("lengths", "int64")
    )
    with pytest.raises(error, match="viterbi_decode: .*" + text):
        paddle.text.viterbi_decode(potentials, transitions, lengths)


def test_spectral_norm_trains_and_refuses():
    layer = spectral_norm(paddle.nn.Linear(3, 2), n_power_iterations=100)
    layer(paddle.ones([1, 3])).sum().backward()
    assert np.linalg.norm(layer.weight.numpy(), 2) == pytest.approx(1, abs=1e-5)
    assert layer.weight_orig.grad is not None and layer.weight_u.shape == [2]
    with pytest.raises(RuntimeError, match="has a spectral norm already"):
        spectral_norm(layer)
    with pytest.raises(ValueError, match="n_power_iterations must be above 0"):
        spectral_norm(paddle.nn.Linear(3, 2), n_power_iterations=0)
    with pytest.raises(ValueError, match="Linear has no parameter 'filter'"):
        spectral_norm(paddle.nn.Linear(3, 2), "filter")
    with pytest.raises(ValueError, match="dim must be from -2 to 1"):
        spectral_norm(paddle.nn.Linear(3, 2), dim=2)


def test_lbfgs_finds_the_minimum():
    x = paddle.create_parameter([2], "float64", default_initializer=initializer.Constant(-1.0))
    opt = paddle.optimizer.LBFGS(line_search_fn="strong_wolfe", max_iter=100, parameters=[x])

    def closure():
        opt.clear_grad()
        loss = 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
        loss.backward()
        return loss

    assert opt.step(closure).item() == pytest.approx(404)
    np.testing.assert_allclose(x.numpy(), [1, 1], atol=1e-5)
    assert opt.state_dict()["state"]["n_iter"] < 60
    other = paddle.optimizer.LBFGS(parameters=[x])
    other.set_state_dict(opt.state_dict())
    assert other.state["func_evals"] == opt.state["func_evals"] > 20


def test_lbfgs_refuses():
    parameters = paddle.nn.Linear(2, 2).parameters()
    with pytest.raises(ValueError, match="LBFGS: line_search_fn must be 'strong_wolfe' or None, got 'armijo'"):
        paddle.optimizer.LBFGS(line_search_fn="armijo", parameters=parameters)
    with pytest.raises(NotImplementedError, match="LBFGS: weight_decay and grad_clip"):
        paddle.optimizer.LBFGS(weight_decay=0.1, parameters=parameters)
    with pytest.raises(NotImplementedError, match="call step"):
        paddle.optimizer.LBFGS(parameters=parameters).minimize(paddle.ones([1]))


def test_lazy_guard():
    with paddle.LazyGuard():
        net = paddle.nn.Sequential(paddle.nn.Linear(2, 3), paddle.nn.Linear(3, 1))
        inner = paddle.nn.Linear(1, 1)
    assert paddle.nn.Linear(1, 1).weight._is_initialized()
    assert not any(p._is_initialized() for p in net.parameters()) and net[0].weight.shape == [2, 3]
    with pytest.raises(ValueError, match="has not been initialised"):
        inner.weight.numpy()
    copied = copy.deepcopy(net)
    paddle.seed(1)
    for p in net.parameters():
        p.initialize()
    paddle.seed(1)
    for p in copied.parameters():
        p.initialize()
    paddle.seed(1)
    eager = paddle.nn.Sequential(paddle.nn.Linear(2, 3), paddle.nn.Linear(3, 1))
    for a, b, c in zip(net.parameters(), eager.parameters(), copied.parameters(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        np.testing.assert_array_equal(a.numpy(), c.numpy())
    inner.set_state_dict({"weight": np.full([1, 1], 2.0, "float32"), "bias": np.ones([1], "float32")})
    assert inner(paddle.ones([1, 1])).item() == 3
    assert pickle.loads(pickle.dumps(inner.weight)).numpy().item() == 2


def test_objects_of_one_process():
    found: list = []
    paddle.distributed.all_gather_object(found, {"a": np.arange(3)})
    assert found[0]["a"].tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="all_gather_object: object_list must be a list, got tuple"):
        paddle.distributed.all_gather_object((), 1)
    with pytest.raises(ValueError, match="scatter_object_list: 2 objects for 1 ranks"):
        paddle.distributed.scatter_object_list([], [1, 2])


def test_decorate():
    net = paddle.nn.Linear(2, 2)
    opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    assert paddle.amp.decorate(net, level="O2") is net
    assert paddle.amp.decorate([net], [opt], "O2", "bfloat16") == ([net], [opt])
    with pytest.raises(ValueError, match=r"amp.decorate: level must be 'O1' or 'O2', got 'O3'"):
        paddle.amp.decorate(net, level="O3")
    with pytest.raises(ValueError, match="amp.decorate: dtype must be"):
        paddle.amp.decorate(net, dtype="int8")


def work():
    x = paddle.ones([4, 4])
    x.stop_gradient = False
    paddle.matmul(x, x).sum().backward()


def test_profiler_records_periods(tmp_path):
    periods = []

    def ready(p):
        trace = p.profiler_result.trace()["traceEvents"]
        periods.append([e["name"] for e in trace if e["cat"] != "Operator"])

    scheduler = profiler.make_scheduler(closed=1, ready=1, record=2, repeat=2)
    with profiler.Profiler(scheduler=scheduler, on_trace_ready=ready) as p:
        for _ in range(9):
            with profiler.RecordEvent("work"):
                work()
            p.step()
    steps = [["work", f"ProfileStep#{i}", "work", f"ProfileStep#{i + 1}"] for i in (2, 6)]
    assert periods == steps and p.step_num == 9


def test_profiler_of_everything(tmp_path, capsys):
    export = profiler.export_chrome_tracing(str(tmp_path / "log"), "me")
    with profiler.Profiler(on_trace_ready=export) as p:
        with pytest.raises(RuntimeError, match="another profiler is started"):
            profiler.Profiler(on_trace_ready=export).start()
        with profiler.RecordEvent("work"):
            work()
        p.step(num_samples=4)
    (path,) = (tmp_path / "log").iterdir()
    assert path.name.startswith("me_time_") and path.name.endswith(".paddle_trace.json")
    events = {e["name"]: e for e in json.loads(path.read_text())["traceEvents"]}
    outer = events["work"]
    for name in ("matmul_v2", "matmul_v2_grad", "ProfileStep#0", "ProfileStep#1"):
        assert events[name]["ph"] == "X" and events[name]["dur"] >= 0
    # The two clocks agree to microseconds.
    inner = events["matmul_v2_grad"]
    assert outer["ts"] - 50 <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 50
    p.summary(sorted_by=profiler.SortedKeys.CPUAvg, time_unit="us")
    text = capsys.readouterr().out
    assert "Overview Summary (times in us)" in text and "UserDefined Summary" in text and "matmul_v2_grad" in text
    p.summary(views=profiler.SummaryView.OperatorView, thread_sep=True, op_detail=False)
    assert "Operator Summary, thread" in capsys.readouterr().out
    p.export(str(tmp_path / "p.pb"), "pb")
    assert (tmp_path / "p.pb").stat().st_size > 50
    with pytest.raises(ValueError, match="format must be 'json' or 'pb'"):
        p.export(str(tmp_path / "p"), "csv")
    with pytest.raises(ValueError, match="time_unit must be one of"):
        p.summary(time_unit="h")


def test_profiler_of_time_only():
    with profiler.Profiler(timer_only=True, on_trace_ready=lambda p: None) as p:
        for _ in range(3):
            p.step(num_samples=8)
        assert " batch_cost: " in p.step_info("images") and p.profiler_result is None
        p.step()
        assert p.step_info().endswith("steps/s")


def test_schedulers_refuse():
    with pytest.raises(AssertionError, match="record must be at least 1"):
        profiler.make_scheduler(closed=0, ready=0, record=0)
    with pytest.raises(AssertionError, match="scheduler must be a function or"):
        profiler.Profiler(scheduler=(3, 3), on_trace_ready=print)
    with pytest.raises(NotImplementedError, match="with_flops"):
        profiler.Profiler(with_flops=True, on_trace_ready=print)
    with pytest.warns(UserWarning, match="there is no XPU to profile"):
        profiler.Profiler(targets=[profiler.ProfilerTarget.XPU], on_trace_ready=print)


@pytest.mark.parametrize("targets", ["gpu", [0]])
def test_a_profiler_of_other_targets(targets):
    with pytest.raises(TypeError, match="targets must be a list of ProfilerTarget"):
        paddle.profiler.Profiler(targets=targets)
