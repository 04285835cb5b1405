"""Operators routed to a device and back, with numpy memory as the device's."""

import gc
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import paddle
import pytest
from fake_cupy import Cupy
from paddle import _core, _cuda
from paddle._cuda.call import Declined, number
from paddle._cuda.host import HOST_BY_NATURE, PASSED_ON

rng = np.random.default_rng(7)


def place():
    return paddle.CUDAPlace(0)


def on_device(a, **more):
    return paddle.to_tensor(a, place=place(), **more)


@pytest.fixture
def current(shim):
    """All operators run on the device."""
    paddle.set_device("gpu")
    yield shim
    paddle.set_device("cpu")


def test_there_and_back(shim):
    for a in (rng.normal(size=(3, 4)).astype("float32"), np.arange(6), np.array([True, False]), np.zeros((0, 3))):
        t = on_device(a)
        assert t.place == place() and str(t.place) == "CUDAPlace(0)"
        assert t.numpy().tolist() == a.tolist() and t.numpy().dtype == a.dtype
        back = t.cpu()
        assert back.place == paddle.CPUPlace() and back.numpy().tolist() == a.tolist()
        assert back.cuda().place == place() and t.cuda() is t
    assert float(on_device([2.5])) == 2.5 and "CUDAPlace(0)" in repr(on_device([1.0]))


def test_a_launcher_runs_where_its_operands_are(shim):
    x = on_device(rng.normal(size=(5, 7)))
    y = paddle.nn.functional.softmax(x)
    assert y.place == place() and shim.started == ["softmax<double, false, Axis, 0, 0>"]
    np.testing.assert_allclose(y.numpy().sum(-1), 1)


def test_an_operand_on_the_cpu_is_copied_to_the_device(shim):
    y = on_device([1.0, 2.0]) + paddle.to_tensor([3.0, 4.0], place=paddle.CPUPlace())
    assert y.place == place() and y.numpy().tolist() == [4.0, 6.0]


def test_an_operator_without_a_launcher_warns_once(shim):
    x = on_device([3.0, 1.0, 2.0])
    launcher = _cuda.LAUNCHERS.pop("argsort")
    try:
        _cuda.use(shim)
        with pytest.warns(RuntimeWarning, match="operator argsort has no CUDA kernel") as seen:
            values = paddle.sort(x)
            again = paddle.sort(x)
    finally:
        _cuda.LAUNCHERS["argsort"] = launcher
    assert len([w for w in seen if "argsort" in str(w.message)]) == 1
    assert values.place == place() and values.numpy().tolist() == again.numpy().tolist() == [1.0, 2.0, 3.0]


def test_a_declined_call_runs_on_the_cpu(shim, monkeypatch):
    def decline(call):
        raise Declined

    monkeypatch.setitem(_cuda.LAUNCHERS, "abs", decline)
    _cuda.use(shim)
    x = on_device(np.array([-2, 3]))
    with pytest.warns(RuntimeWarning, match="operator elementwise_div"):
        y = _core.ops.elementwise_div(x, paddle.abs(x))
    assert y.place == place() and y.numpy().tolist() == [-1, 1] and not shim.started


def test_gradients_stay_on_the_device(shim):
    def losses(where):
        x = paddle.to_tensor(np.linspace(-1, 1, 12).reshape(3, 4), place=where, stop_gradient=False)
        w = paddle.to_tensor(np.linspace(0, 1, 20).reshape(4, 5), place=where, stop_gradient=False)
        h = paddle.nn.functional.relu(paddle.matmul(x, w))
        loss = paddle.mean(paddle.nn.functional.softmax(h + h * h))
        loss.backward()
        return loss, x, w

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss, x, w = losses(place())
    assert loss.place == place() and x._grad_ivar().place == place()
    for a, b in zip((loss, x, w), losses(paddle.CPUPlace()), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
        if a is not loss:
            np.testing.assert_allclose(a.grad, b.grad, rtol=1e-10, atol=1e-12)


def test_written_memory_is_not_shared(shim):
    x = on_device([1.0, 2.0])
    y = x.detach()
    x.set_value(np.array([5.0, 6.0], "float32"))
    assert y.numpy().tolist() in ([1.0, 2.0], [5.0, 6.0])
    a = on_device([1.0, 2.0])
    b = paddle.to_tensor(a.numpy(), place=place())
    rate = on_device([0.5])
    _core.ops.sgd(a, rate, b, ParamOut=a)
    assert a.numpy().tolist() == [0.5, 1.0] and b.numpy().tolist() == [1.0, 2.0]


def optimizer_run(op, where, dtype, rows):
    """Three steps of an optimizer; returns the parameter and the states."""
    n = np.random.default_rng(3)

    def tensor(a):
        return paddle.to_tensor(np.asarray(a, dtype), place=where)

    table = tensor(n.normal(size=(6, 5)))
    rate = tensor([0.1])
    state = [tensor(np.zeros((6, 5))), tensor(np.zeros((6, 5))), tensor([0.9]), tensor([0.99])]
    for step in range(3):
        if rows:
            w = paddle.to_tensor(table.numpy(), place=where, stop_gradient=False)
            ids = paddle.to_tensor(np.array([4, 1, 4, step]), place=where)
            out = _core.ops.lookup_table_v2(w, ids, is_sparse=True)
            (out * tensor(n.normal(size=(4, 5)))).sum().backward()
            grad = w._grad_ivar()
            assert grad._is_sparse()
            if op == "adam" and where != place():
                # 2.0.2's GPU kernel treats it like a dense gradient, its CPU kernel reads the next powers.
                held = grad.value().get_selected_rows()
                full = np.zeros((6, 5))
                np.add.at(full, held.rows(), np.array(held.get_tensor()))
                grad = tensor(full)
        else:
            grad = tensor(n.normal(size=(6, 5)))
        if op == "sgd":
            _core.ops.sgd(table, rate, grad, ParamOut=table)
        else:
            names = ("ParamOut", "Moment1Out", "Moment2Out", "Beta1PowOut", "Beta2PowOut")
            outs = dict(zip(names, [table, *state], strict=True))
            _core.ops.adam(table, grad, rate, *state, beta1=0.9, beta2=0.99, **outs)
    return [table, *state]


@pytest.mark.parametrize("rows", [False, True], ids=["dense", "rows"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["sgd", "adam"])
def test_optimizers(op, dtype, rows, shim):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = optimizer_run(op, place(), dtype, rows)
    assert any(k.startswith("add_rows" if rows else "update<") for k in shim.started)
    tol = 1e-5 if dtype == "float32" else 1e-12
    for g, w in zip(got, optimizer_run(op, paddle.CPUPlace(), dtype, rows), strict=True):
        assert g.place == place()
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=tol, atol=tol)


def test_steps_in_place_keep_their_memory(shim):
    p, g, rate = on_device([1.0, 2.0]), on_device([1.0, 1.0]), on_device([0.5])
    at = _core.device_address(p)
    _core.ops.sgd(p, rate, g, ParamOut=p)
    assert _core.device_address(p) == at
    kept = p.detach().cpu()  # the host has a copy: the next step must not change it
    _core.ops.sgd(p, rate, g, ParamOut=p)
    assert kept.numpy().tolist() == [0.5, 1.5] and p.numpy().tolist() == [0.0, 1.0]


def test_ids_out_of_range_are_an_error(shim):
    table = on_device(np.ones((3, 2)))
    for bad in (3, -1, -7):
        rows = _core.ops.lookup_table_v2(table, on_device(np.array([0, bad])))
        # The error is raised by the next read of device memory, once.
        with pytest.raises(IndexError, match=f"lookup_table_v2: .*expected 0 <= id < 3, got {bad}"):
            rows.numpy()
        assert rows.numpy()[1].tolist() == [0, 0]


def test_wrong_shapes_raise_the_errors_of_the_cpu(shim):
    for where in (place(), paddle.CPUPlace()):
        x, y = (paddle.to_tensor(np.ones(s), place=where) for s in ((2, 3), (4, 5)))
        with pytest.raises(ValueError, match="matmul_v2"):
            paddle.matmul(x, y)


def test_operators_run_on_the_current_device(current):
    assert paddle.get_device() == "gpu:0"
    made = paddle.to_tensor([1.0])
    assert made.place == place() and paddle.ones([2]).place == place()
    layer = paddle.nn.Linear(3, 2)
    assert layer.weight.place == place()
    assert layer(paddle.ones([4, 3])).place == place()


def test_training_agrees_with_the_cpu(shim):
    def train(device):
        paddle.set_device(device)
        try:
            paddle.seed(11)
            layer = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 1))
            for i, parameter in enumerate(layer.parameters()):  # a device has random numbers of its own
                parameter.set_value(np.random.default_rng(i).normal(size=parameter.shape).astype("float32"))
            adam = paddle.optimizer.Adam(learning_rate=0.05, parameters=layer.parameters())
            x = paddle.to_tensor(np.random.default_rng(1).normal(size=(16, 4)).astype("float32"))
            seen = []
            for _ in range(4):
                loss = paddle.mean(paddle.square(layer(x) - 1.0))
                loss.backward()
                adam.step()
                adam.clear_grad()
                seen.append(float(loss))
            return seen
        finally:
            paddle.set_device("cpu")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        np.testing.assert_allclose(train("gpu"), train("cpu"), rtol=1e-4)


def test_a_program_runs_on_the_device(shim):
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            x = paddle.static.data("x", [None, 6], "float32")
            y = paddle.nn.functional.softmax(paddle.nn.functional.relu(x * 2.0))
        a = rng.normal(size=(3, 6)).astype("float32")
        got = [
            paddle.static.Executor(p).run(main, feed={"x": a}, fetch_list=[y])[0] for p in (place(), paddle.CPUPlace())
        ]
    finally:
        paddle.disable_static()
    np.testing.assert_allclose(got[0], got[1], rtol=1e-6)
    assert "softmax<float, false, Axis, 0, 0>" in shim.started and "row_relu<float>" in shim.started


def test_memory_is_freed(shim):
    held = len(gc.get_objects())
    for _ in range(50):
        paddle.nn.functional.relu(on_device(np.ones(1000, "float32")))
        on_device(np.ones(1000, "float32")).numpy()
    _core.drain_device()
    gc.collect()
    assert len(gc.get_objects()) - held < 50
    t = on_device(np.ones(10))
    del t
    assert _core.drain_device() == 1


def test_the_cupy_machine(built, monkeypatch):
    cupy = Cupy(built)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(_cuda.CupyMachine, "library", str(cupy.fake.path))
    _cuda.use(_cuda.CupyMachine())
    try:
        with pytest.raises(RuntimeError, match="there are 1 CUDA devices"):
            paddle.CUDAPlace(1)
        x = on_device(np.arange(6, dtype="float32").reshape(2, 3))
        y = paddle.nn.functional.softmax((x - 1.0) * x)
        np.testing.assert_allclose(y.numpy().sum(-1), 1, rtol=1e-6)
        table = on_device(np.ones((3, 2)), stop_gradient=False)
        _core.ops.lookup_table_v2(table, on_device(np.array([2, 0, 2]))).sum().backward()
        assert table.grad.tolist() == [[1, 1], [0, 0], [2, 2]]
        again = paddle.nn.functional.softmax(x)
        launches = cupy.fake.launches
        paddle.nn.functional.softmax(x)  # known by now: started by libcuda
        assert cupy.fake.launches == launches + 1
    finally:
        _cuda.use(None)
    assert again.numpy().shape == (2, 3)  # memory outlives the backend's registration
    compiled = [a for a in cupy.asked if isinstance(a, str)]
    assert compiled.count("softmax<float, false, Axis, 0, 0>") == 1 and set(cupy.asked) - set(compiled) == {0}


def test_without_a_gpu_errors_name_the_missing_package():
    code = """
import sys
sys.modules["cupy"] = None
import paddle
assert "paddle._cuda" not in sys.modules
one = paddle.to_tensor([1.0])
for call in (
    lambda: paddle.CUDAPlace(0),
    lambda: paddle.set_device("gpu"),
    lambda: paddle.to_tensor([1.0], place="gpu"),
    lambda: one.cuda(),
):
    try:
        call()
    except (RuntimeError, ValueError) as e:
        assert "cupy" in str(e), e
    else:
        raise AssertionError("no error")
assert not paddle.is_compiled_with_cuda() and paddle.to_tensor([1.0]).place == paddle.CPUPlace()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_import_loads_neither_cupy_nor_launchers():
    code = "import sys, paddle; assert not {'cupy', 'paddle._cuda'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_list_of_operators_without_a_launcher():
    done = subprocess.run([sys.executable, "-m", "paddle._cuda"], capture_output=True, text=True, check=True)
    listed = done.stdout.split("without one:")[1].split()
    assert "softmax" not in listed and sorted(listed) == listed
    assert "shape" in HOST_BY_NATURE and not set(HOST_BY_NATURE) & set(_cuda.LAUNCHERS) and len(HOST_BY_NATURE) <= 35
    assert "  shape: " in done.stdout and "math.matmul" in done.stdout


def test_operators_that_pass_a_value_on_are_those_of_the_engine():
    source = Path(__file__).parents[2] / "rust" / "core" / "src" / "op" / "backend.rs"
    body = source.read_text().split("pub fn passes_on")[1].split("}")[0]
    known = set(re.findall(r'"(\w+)"', body))
    assert PASSED_ON == known - set(HOST_BY_NATURE) - set(_cuda.LAUNCHERS)


@pytest.mark.gpu
def test_route_on_a_gpu(gpu):
    test_gradients_stay_on_the_device(None)


def test_numbers_are_converted_as_on_the_cpu():
    types = {20: "uint8", 21: "int8", 1: "int16", 2: "int32", 3: "int64", 5: "float32", 4: "float16", 0: "bool"}
    for value in (
        -1.0,
        3e9,
        float("nan"),
        300.0,
        -129.0,
        2.5,
        1e30,
        -1e30,
        2147483647.5,
        -2147483648.5,
        9.3e18,
        -9.3e18,
    ):
        value = float(np.float32(value))
        for number_of, dtype in types.items():
            want = _core.ops.fill_constant(shape=[1], dtype=number_of, value=value).numpy()[0]
            got = number(value, dtype)
            assert got.dtype == want.dtype and (got == want or got != got and want != want), (value, dtype, got, want)


def test_constants_are_created_on_the_current_device(current):
    full = paddle.full([2, 3], 2.5, "float64")
    assert full.place == place() and full.numpy().tolist() == [[2.5] * 3] * 2
    large = _core.ops.fill_constant(shape=[1], dtype=3, str_value="9007199254740993")
    assert large.place == place() and large.numpy().tolist() == [9007199254740993]
