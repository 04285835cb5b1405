"""Where values are: Tensors and variables stay on their device, and nothing is transferred that is not needed."""

import copy
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import paddle
import pytest
from paddle import _core, fluid

HERE = Path(__file__).parent
PLACE = "CUDAPlace(0)"


def place():
    return paddle.CUDAPlace(0)


def matrix(*shape, **more):
    shape = shape or (4, 3)
    return paddle.to_tensor(np.arange(np.prod(shape), dtype="float32").reshape(shape), place=place(), **more)


@pytest.fixture
def current(shim):
    """All operators run on the device."""
    paddle.set_device("gpu")
    yield shim
    paddle.set_device("cpu")


@pytest.fixture
def static(shim):
    """A Program under construction and an Executor of the device."""
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    scope = paddle.static.Scope() if hasattr(paddle.static, "Scope") else fluid.Scope()
    with paddle.static.scope_guard(scope), paddle.static.program_guard(main, startup), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield main, startup, paddle.static.Executor(place())
    paddle.disable_static()


def stays(shim, tensor, *, uploads=(), downloads=()):
    """Asserts that a Tensor is on the device, and the transfers since the last call."""
    assert str(tensor.place) == PLACE
    assert (shim.uploads, shim.downloads) == (list(uploads), list(downloads))
    shim.forget()


class TestEager:
    def test_assigning_a_value(self, shim):
        x, other = matrix(), matrix()
        shim.forget()
        x.set_value(np.zeros((4, 3), "float32"))
        stays(shim, x, uploads=[48])
        x.set_value(other)
        stays(shim, x)
        x.copy_(other)
        stays(shim, x)
        on_cpu = paddle.to_tensor(np.ones((4, 3), "float32"), place=paddle.CPUPlace())
        x.copy_(on_cpu)
        stays(shim, x, uploads=[48])
        assert x.numpy().tolist() == np.ones((4, 3)).tolist()
        on_cpu.copy_(other)
        assert on_cpu.place == paddle.CPUPlace() and on_cpu.numpy().tolist() == other.numpy().tolist()

    def test_a_layer(self, current):
        net, other = paddle.nn.Linear(3, 3), paddle.nn.Linear(3, 3)
        arrays = {name: p.numpy() for name, p in other.state_dict().items()}
        current.forget()
        net.set_state_dict(other.state_dict())
        stays(current, net.weight)
        net.set_state_dict(arrays)
        stays(current, net.weight, uploads=[36, 12])
        copied = copy.deepcopy(net)
        stays(current, copied.weight)
        assert copied.weight.numpy().tolist() == other.weight.numpy().tolist()

    @pytest.mark.parametrize("stop_gradient", [True, False])
    def test_reading_parts(self, stop_gradient, shim):
        x = matrix(stop_gradient=stop_gradient)
        whole = np.arange(12, dtype="float32").reshape(4, 3)
        for index in (0, slice(0, 2), (slice(None), 1), (slice(0, 4, 2), slice(1, 3)), (1, 2), (None, 0), (..., 1)):
            shim.forget()
            part = x[index]
            stays(shim, part)
            assert part.numpy().reshape(-1).tolist() == whole[index].reshape(-1).tolist()

    @pytest.mark.parametrize("stop_gradient", [True, False])
    @pytest.mark.parametrize("on_device", [True, False])
    def test_reading_parts_beyond_an_int32(self, on_device, stop_gradient, shim):
        """Indices have 64 bits, though the attributes of slice have 32. The tensor has no elements, but rows."""
        where = place() if on_device else paddle.CPUPlace()
        x = paddle.to_tensor(np.zeros((2**31 + 17, 0), "float32"), place=where, stop_gradient=stop_gradient)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            parts = [x[2**31 - 4 : 2**31 + 4], x[2**31 :], x[2**31 + 1 : 2**31 + 3, :], x[2**31 - 4 :: 2]]
        assert [p.shape[0] for p in parts] == [8, 17, 2, 11]
        assert all(str(p.place) == str(where) for p in parts)

    def test_bounds_of_slices_that_are_tensors(self, shim):
        x, whole = matrix(), np.arange(12, dtype="float32").reshape(4, 3)
        one, three = (paddle.to_tensor(np.array([n])) for n in (1, 3))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            parts = [_core.ops.slice(x, one, three, axes=[0])]
            parts += [_core.ops.slice(x, None, None, [one], [three], axes=[0])]
            parts += [_core.ops.strided_slice(x, one, three, one, axes=[0])]
        for part in parts:
            assert str(part.place) == PLACE and part.numpy().tolist() == whole[1:3].tolist()

    def test_looking_at_a_tensor(self, shim):
        x = matrix()
        shim.forget()
        stays(shim, x.detach())
        assert paddle.shape(x).numpy().tolist() == [4, 3] and x.shape == [4, 3] and len(x) == 4
        assert paddle.shape(x).place == paddle.CPUPlace()
        stays(shim, x)

    def test_writing_parts(self, shim):
        x = matrix()
        expected = np.arange(12, dtype="float32").reshape(4, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for index in (0, (slice(None), 1), (1, 2), (slice(0, 4, 2), slice(None))):
                x[index] = 7.5
                expected[index] = 7.5
                assert str(x.place) == PLACE and x.numpy().tolist() == expected.tolist()
            i = paddle.to_tensor(np.arange(6), place=place())
            i[1:3] = np.array([8, 9])
            assert str(i.place) == PLACE and i.numpy().tolist() == [0, 8, 9, 3, 4, 5]
            x[x.numpy() > 7] = 0.0
            assert str(x.place) == PLACE and x.numpy().max() <= 7

    def test_values_that_are_passed_on(self, shim):
        x = matrix()
        shim.forget()
        for made in (
            paddle.reshape(x, [3, 4]),
            paddle.flatten(x),
            paddle.unsqueeze(x, 0),
            paddle.squeeze(paddle.unsqueeze(x, 0)),
            paddle.assign(x),
            x.clone(),
        ):
            assert _core.device_address(made) == _core.device_address(x)
            stays(shim, made)

    def test_the_memory_of_a_value_that_was_passed_on_is_not_written(self, shim):
        x, rate, grad = matrix(2), matrix(1) + 1.0, matrix(2)
        kept = paddle.assign(x)
        _core.ops.sgd(x, rate, grad, ParamOut=x)
        assert kept.numpy().tolist() == [0.0, 1.0] and x.numpy().tolist() == [0.0, 0.0]


class TestStatic:
    def test_loading(self, static, shim, tmp_path):
        main, startup, exe = static
        x = paddle.static.data("x", [2, 3])
        y = paddle.static.nn.fc(x, 4)
        weight = main.all_parameters()[0].name
        exe.run(startup)
        tensor = paddle.static.global_scope().find_var(weight).get_tensor()
        assert str(tensor._place()) == PLACE
        state = {weight: np.full((3, 4), 0.5, "float32")}
        paddle.static.save(main, str(tmp_path / "net"))
        paddle.static.load(main, str(tmp_path / "net"))
        assert str(tensor._place()) == PLACE
        paddle.static.set_program_state(main, state)
        assert str(tensor._place()) == PLACE
        exe.run(main, feed={"x": np.ones((2, 3), "float32")}, fetch_list=[y])
        shim.forget()
        (out,) = exe.run(main, feed={"x": np.ones((2, 3), "float32")}, fetch_list=[y])
        assert out.tolist() == np.full((2, 4), 1.5).tolist()
        assert (shim.uploads, shim.downloads) == ([24], [32])

    def test_a_place_of_a_lod_tensor(self, shim):
        tensor = fluid.LoDTensor()
        for where in (place(), paddle.CPUPlace()):
            tensor.set(np.ones(3, "float32"), where)
            assert str(tensor._place()) == str(where)
        tensor.set([1.0, 2.0], place())
        assert str(tensor._place()) == PLACE and np.array(tensor).tolist() == [1.0, 2.0]
        assert str(tensor._copy()._place()) == PLACE and str(tensor._copy(paddle.CPUPlace())._place()) != PLACE

    def test_feeds_are_uploaded_once_a_run(self, static, shim):
        main, _, exe = static
        x = paddle.static.data("x", [8, 8])
        h = paddle.nn.functional.relu(x) + paddle.tanh(x) * paddle.exp(x) + paddle.sqrt(x)
        feed = {"x": np.ones((8, 8), "float32")}
        exe.run(main, feed=feed, fetch_list=[h])
        shim.forget()
        exe.run(main, feed=feed, fetch_list=[h])
        assert (shim.uploads, shim.downloads) == ([256], [256])

    def test_a_fed_tensor_of_the_device_is_not_moved(self, static, shim):
        main, _, exe = static
        x = paddle.static.data("x", [4, 3])
        y = paddle.nn.functional.relu(x)
        paddle.disable_static()
        fed = matrix()
        paddle.enable_static()
        shim.forget()
        (out,) = exe.run(main, feed={"x": fed}, fetch_list=[y], return_numpy=False)
        assert str(out._place()) == PLACE and not shim.uploads and not shim.downloads

    def test_a_weight_on_the_host_is_moved_once(self, static, shim):
        main, startup, exe = static
        x = paddle.static.data("x", [2, 3])
        y = paddle.static.nn.fc(x, 4, bias_attr=False)
        exe.run(startup)
        weight = paddle.static.global_scope().find_var(main.all_parameters()[0].name).get_tensor()
        weight.set(np.ones((3, 4), "float32"), paddle.CPUPlace())
        feed = {"x": np.ones((2, 3), "float32")}
        exe.run(main, feed=feed, fetch_list=[y])
        assert str(weight._place()) == PLACE
        shim.forget()
        exe.run(main, feed=feed, fetch_list=[y])
        assert shim.uploads == [24]

    def test_counters_stay_on_the_host(self, static, shim):
        main, _, exe = static
        layers = fluid.layers
        x = paddle.static.data("x", [4, 8])
        i = layers.fill_constant([1], "int64", 0, force_cpu=True)
        n = layers.fill_constant([1], "int64", 5, force_cpu=True)
        h = layers.relu(x)
        array = layers.array_write(h, i)
        condition = layers.less_than(i, n)
        loop = layers.While(condition)
        with loop.block():
            h = layers.tanh(layers.array_read(array, i))
            layers.increment(i)
            layers.array_write(h, i, array=array)
            layers.less_than(i, n, cond=condition)
        last = layers.array_read(array, n)
        feed = {"x": np.full((4, 8), 0.5, "float32")}
        exe.run(main, feed=feed, fetch_list=[last])
        shim.forget()
        out, count = exe.run(main, feed=feed, fetch_list=[last, i])
        assert (shim.uploads, shim.downloads) == ([128], [128]) and count.tolist() == [5]
        expected = 0.5
        for _ in range(5):
            expected = np.tanh(expected)
        np.testing.assert_allclose(out, expected, rtol=1e-5)

    def test_lod_reset(self, static, shim):
        main, _, exe = static
        x = paddle.static.data("x", [6, 1])
        y = fluid.layers.lod_reset(x, target_lod=[0, 2, 6])
        shim.forget()
        (out,) = exe.run(main, feed={"x": np.ones((6, 1), "float32")}, fetch_list=[y], return_numpy=False)
        assert out.lod() == [[0, 2, 6]] and str(out._place()) == PLACE
        assert (shim.uploads, shim.downloads) == ([24], [])


REGISTERED_DURING_A_RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import tempfile
from pathlib import Path
import numpy as np, paddle, paddle.fluid as fluid
from paddle import _cuda
from shim import ShimMachine
paddle.enable_static()
L, main, calls = fluid.layers, fluid.Program(), []
with fluid.program_guard(main, fluid.Program()):
    x = fluid.data("x", [4, 8])
    i, n = L.fill_constant([1], "int64", 0), L.fill_constant([1], "int64", 3)
    total, less = L.fill_constant([4, 8], "float32", 0.0), L.less_than(i, n)
    loop = L.While(less)
    with loop.block():
        h = L.sigmoid(L.exp(L.scale(L.tanh(L.relu(L.scale(x, 2.0))), 0.5)) + x)
        given = main.current_block().create_var(name="given", dtype="float32", shape=[4, 8])
        def function(a):
            calls.append(1)
            if len(calls) == 1:
                _cuda.use(ShimMachine(Path(tempfile.mkdtemp())))
            return np.asarray(a)
        L.py_func(function, h, given)
        more = L.sigmoid(L.exp(L.scale(L.tanh(L.relu(L.scale(given, 2.0))), 0.5)) + x)
        L.assign(total + more, total)
        L.increment(i)
        L.less_than(i, n, cond=less)
exe = fluid.Executor(fluid.CPUPlace())
first, = exe.run(main, feed={"x": np.ones((4, 8), "float32")}, fetch_list=[total])
assert len(calls) == 3, calls
again, = exe.run(main, feed={"x": np.ones((4, 8), "float32")}, fetch_list=[total])
assert first.tolist() == again.tolist()
"""

LOOKED_AT_DURING_A_RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import faulthandler, tempfile, threading, warnings
from pathlib import Path
import numpy as np, paddle
from paddle import _cuda
from shim import ShimMachine
warnings.simplefilter("ignore")
_cuda.use(ShimMachine(Path(tempfile.mkdtemp())))
paddle.enable_static()
L, main = paddle.fluid.layers, paddle.static.Program()
with paddle.static.program_guard(main):
    i, n = L.fill_constant([1], "int64", 0), L.fill_constant([1], "int64", 20)
    array, less = L.array_write(L.fill_constant([64, 64], "float32", 0.1), i), None
    less = L.less_than(i, n)
    loop = L.While(less)
    with loop.block():
        v = L.relu(L.array_read(array, i) * 1.0)
        L.increment(i)
        L.array_write(v, i, array=array)
        L.less_than(i, n, cond=less)
main.global_block().var(array.name).persistable = True
exe, scope, stop = paddle.static.Executor(paddle.CUDAPlace(0)), paddle.static.global_scope(), []
def look():
    while not stop:
        found = scope.find_var(array.name)
        if found is not None:
            try:
                len(found.get_lod_tensor_array())
            except Exception:
                pass
faulthandler.dump_traceback_later(60, exit=True)
thread = threading.Thread(target=look, daemon=True)
thread.start()
for _ in range(3):
    exe.run(main, fetch_list=[])
stop.append(1)
thread.join(10)
"""


@pytest.mark.parametrize("program", [REGISTERED_DURING_A_RUN, LOOKED_AT_DURING_A_RUN], ids=["registered", "looked-at"])
def test_other_threads_and_registration_during_a_run(program, built):
    done = subprocess.run([sys.executable, "-c", program, str(HERE)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]


def test_plans_of_the_cpu_keep_their_passes(shim):
    """A registered backend does not change how CPU operands are computed."""
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            x = paddle.static.data("x", [512, 512])
            y = paddle.exp(paddle.tanh(paddle.nn.functional.relu(x))) * 0.5
        exe = paddle.static.Executor(paddle.CPUPlace())
        feed = {"x": np.ones((512, 512), "float32")}
        exe.run(main, feed=feed, fetch_list=[y])
        (out,) = exe.run(main, feed=feed, fetch_list=[y])
        np.testing.assert_allclose(out, np.full((512, 512), 0.5 * np.exp(np.tanh(1.0))), rtol=1e-6)
        assert not shim.started and not shim.uploads
    finally:
        paddle.disable_static()


@pytest.mark.parametrize("stacked", [False, True])
def test_an_array_becomes_a_tensor_on_the_device(static, shim, stacked):
    main, startup, executor = static
    layers = fluid.layers
    x = paddle.static.data("x", [2, 3], "float32")
    x.stop_gradient = False
    array = layers.create_array("float32")
    for i in range(3):
        layers.array_write(x * float(i + 1), layers.fill_constant([1], "int64", i), array)
    out, _ = layers.tensor_array_to_tensor(array, axis=1, use_stack=stacked)
    (grad,) = paddle.static.gradients([paddle.sum(out * out)], [x])
    value = np.arange(6, dtype="float32").reshape(2, 3)
    got, dx = executor.run(main, {"x": value}, [out, grad])
    items = [value * (i + 1) for i in range(3)]
    np.testing.assert_allclose(got, np.stack(items, 1) if stacked else np.concatenate(items, 1))
    np.testing.assert_allclose(dx, 2 * 14 * value)
    # The indices of the array, and what is fetched.
    assert [n for n in shim.uploads + shim.downloads if n > 8] == [24, 72, 24]


def test_a_number_and_a_tensor_need_no_upload(shim):
    x = matrix()
    shim.forget()
    above, power = x > 2.5, 2.0**x
    stays(shim, above)
    np.testing.assert_allclose(above.numpy(), np.arange(12).reshape(4, 3) > 2.5)
    np.testing.assert_allclose(power.numpy(), 2.0 ** np.arange(12).reshape(4, 3), rtol=1e-5)
