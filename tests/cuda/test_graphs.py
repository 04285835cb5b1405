"""Static Programs as CUDA graphs on a fake driver: from the third run with feeds of the same sizes on a run is one
launch, and gives what a run of the operators gives."""

import gc

import numpy as np
import paddle
import pytest
from paddle import _core, _cuda
from shim import DriverMachine

W = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")


@pytest.fixture(scope="session")
def captured(built):
    machine = DriverMachine(built.folder)
    machine.graphs = 2
    return machine


@pytest.fixture
def driver(captured):
    """CUDAPlace(0) captures Programs during the test."""
    captured.forget()
    _cuda.use(captured)
    paddle.enable_static()
    with paddle.static.scope_guard(paddle.static.Scope()):
        yield captured
    paddle.disable_static()
    _cuda.use(None)


class Run:
    """A Program in a scope of its own on a place; `build(x, w)` returns the variables to fetch."""

    def __init__(self, build, place):
        self.main, startup = paddle.static.Program(), paddle.static.Program()
        self.scope, self.executor = paddle.static.Scope(), paddle.static.Executor(place)
        with paddle.static.program_guard(self.main, startup):
            x = paddle.static.data("x", [None, 4], "float32")
            w = paddle.static.create_parameter([3, 4], "float32", name="w")
            self.fetches = build(x, w)
        with paddle.static.scope_guard(self.scope):
            self.executor.run(startup)
        self.set("w", W)

    def set(self, name, value):
        self.scope.var(name).get_tensor().set(value, self.executor.place)

    def value(self, name):
        return np.array(self.scope.var(name).get_tensor())

    def __call__(self, x, return_numpy=True):
        with paddle.static.scope_guard(self.scope):
            return self.executor.run(self.main, {"x": x}, self.fetches, return_numpy=return_numpy)


def inference(x, w):
    f = paddle.nn.functional
    y = f.softmax(f.relu(x * w) - 0.5)
    return [y, paddle.sum(y * y, axis=1)]


def training(x, w):
    """A step of SGD by a gradient that is computed from the feed."""
    grad = x * w - 1.0
    block = paddle.static.default_main_program().global_block()
    rate = paddle.static.create_global_var([1], 0.25, "float32", persistable=True, name="rate")
    block.append_op("sgd", {"Param": [w], "Grad": [grad], "LearningRate": [rate]}, {"ParamOut": [w]})
    return [grad]


def feeds(n, rows=3):
    return [np.random.default_rng(i).normal(size=(rows, 4)).astype("float32") for i in range(n)]


@pytest.mark.parametrize("build", [inference, training])
def test_runs_of_a_graph_give_what_operators_give(build, driver):
    gpu, cpu = Run(build, paddle.CUDAPlace(0)), Run(build, paddle.CPUPlace())
    for i, x in enumerate(feeds(8)):
        starts, launches = driver.fake.graph_starts, driver.fake.launches
        got = gpu(x, return_numpy=False)
        # Two plain runs, and the one that is kept.
        assert driver.fake.graph_starts - starts == (i >= 3), i
        assert i < 3 or driver.fake.launches == launches
        for g, w in zip(got, cpu(x), strict=True):
            np.testing.assert_allclose(np.array(g), w, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gpu.value("w"), cpu.value("w"), rtol=1e-5, atol=1e-6)


def test_fetched_values_stay_when_the_graph_runs_again(driver):
    gpu, xs = Run(inference, paddle.CUDAPlace(0)), feeds(7)
    held = [gpu(x, return_numpy=False)[0] for x in xs]
    cpu = Run(inference, paddle.CPUPlace())
    for got, x in zip(held, xs, strict=True):
        np.testing.assert_allclose(np.array(got), cpu(x)[0], rtol=1e-5, atol=1e-6)


def test_other_sizes_run_plainly_and_keep_the_graph(driver):
    def build(x, w):
        return [paddle.nn.functional.relu(x) * 2.0]

    gpu = Run(build, paddle.CUDAPlace(0))
    for x in [*feeds(4), *feeds(3, rows=5), *feeds(2)]:
        starts = driver.fake.graph_starts
        np.testing.assert_allclose(gpu(x)[0], np.maximum(x, 0) * 2, rtol=1e-6)
    assert driver.fake.graph_starts == starts + 1


def test_a_parameter_that_is_set_ends_the_graph(driver):
    gpu, cpu = Run(training, paddle.CUDAPlace(0)), Run(training, paddle.CPUPlace())
    for i, x in enumerate(feeds(12)):
        if i == 5:
            for run in (gpu, cpu):
                run.set("w", W * 2)
                run.set("rate", np.array([0.125], "float32"))
        np.testing.assert_allclose(gpu(x)[0], cpu(x)[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gpu.value("w"), cpu.value("w"), rtol=1e-5, atol=1e-6)
    # 3 and 4 before the change; three runs later there is another graph.
    assert driver.fake.graph_starts > 2


def test_a_parameter_that_the_host_has_read_is_not_written_under_it(driver):
    gpu, cpu = Run(training, paddle.CUDAPlace(0)), Run(training, paddle.CPUPlace())
    for x in feeds(10):
        for g, w in zip(gpu(x), cpu(x), strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(gpu.value("w"), cpu.value("w"), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:operator .* has no CUDA kernel")
def test_what_runs_on_the_host_is_no_graph(driver):
    def counting(x, w):
        count = paddle.static.create_global_var([1], 0, "int64", persistable=True, force_cpu=True, name="count")
        paddle.fluid.layers.increment(count)
        return [x * w, count]

    def random(x, w):
        return [paddle.nn.functional.dropout(x * w, 0.5, mode="upscale_in_train")]

    for build in (counting, random):
        gpu, starts, found = Run(build, paddle.CUDAPlace(0)), driver.fake.graph_starts, []
        for x in feeds(6):
            found.append(gpu(np.ones_like(x)))
        assert driver.fake.graph_starts == starts
        if build is counting:
            assert [int(f[1][0]) for f in found] == [1, 2, 3, 4, 5, 6]
        else:
            assert len({f[0].tobytes() for f in found}) > 1


def test_an_error_in_a_run_that_is_kept_leaves_plain_runs(driver):
    gpu, xs = Run(inference, paddle.CUDAPlace(0)), feeds(6)
    for x in xs[:2]:
        gpu(x)
    with pytest.raises(Exception, match="x"):
        gpu(np.zeros((7, 5), "float32"))
    cpu = Run(inference, paddle.CPUPlace())
    for x in xs:
        np.testing.assert_allclose(gpu(x)[0], cpu(x)[0], rtol=1e-5, atol=1e-6)


def test_memory_is_freed_with_the_program(driver):
    gc.collect()
    _core.drain_device()
    graphs, blocks = driver.fake.graphs, driver.fake.blocks
    gpu = Run(inference, paddle.CUDAPlace(0))
    for x in feeds(5):
        gpu(x)
    assert driver.fake.graphs == graphs + 1
    del gpu
    gc.collect()
    _core.drain_device()
    assert (driver.fake.graphs, driver.fake.blocks) == (graphs, blocks)


def perceptron():
    nn, x, label = paddle.static.nn, paddle.static.data("x", [None, 6]), paddle.static.data("t", [None, 1], "int64")
    logits = nn.fc(nn.fc(x, 8, activation="relu"), 3)
    return paddle.mean(paddle.nn.functional.cross_entropy(logits, label)), paddle.optimizer.Adam(0.01), (6,)


def lenet():
    nn, x, label = (
        paddle.static.nn,
        paddle.static.data("x", [None, 1, 8, 8]),
        paddle.static.data("t", [None, 1], "int64"),
    )
    h = paddle.fluid.layers.pool2d(nn.conv2d(x, 3, 3, act="relu"), 2, "max", 2)
    logits = nn.fc(nn.fc(h, 8, activation="relu"), 3)
    return (
        paddle.mean(paddle.nn.functional.cross_entropy(logits, label)),
        paddle.optimizer.Momentum(0.1, 0.9),
        (1, 8, 8),
    )


def recurrent():
    x, label = paddle.static.data("x", [None, 5, 4]), paddle.static.data("t", [None, 1], "int64")
    out, _ = paddle.nn.LSTM(4, 6, 2)(x)
    logits = paddle.static.nn.fc(paddle.sum(out, axis=1), 3)
    return paddle.mean(paddle.nn.functional.cross_entropy(logits, label)), paddle.optimizer.SGD(0.1), (5, 4)


def losses(build, place, steps=7):
    paddle.seed(5)
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.fluid.unique_name.guard():
        loss, optimizer, shape = build()
        optimizer.minimize(loss)
    with paddle.static.scope_guard(paddle.static.Scope()):
        executor = paddle.static.Executor(place)
        executor.run(startup)
        for i, p in enumerate(main.all_parameters()):
            value = np.random.default_rng(i).normal(scale=0.3, size=p.shape).astype("float32")
            paddle.static.global_scope().var(p.name).get_tensor().set(value, place)
        rng, found = np.random.default_rng(8), []
        for _ in range(steps):
            feed = {"x": rng.normal(size=(4, *shape)).astype("float32"), "t": rng.integers(0, 3, (4, 1))}
            found.append(float(executor.run(main, feed, [loss])[0].reshape(-1)[0]))
    return found


@pytest.mark.parametrize("build", [perceptron, lenet, recurrent])
def test_training_is_a_graph(build, driver):
    starts = driver.fake.graph_starts
    got = losses(build, paddle.CUDAPlace(0))
    assert driver.fake.graph_starts == starts + 4
    np.testing.assert_allclose(got, losses(build, paddle.CPUPlace()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode, direction", [("LSTM", "forward"), ("GRU", "bidirect")])
def test_a_long_recipe_is_a_graph_from_its_second_replay_on(mode, direction, driver):
    paddle.disable_static()
    starts, found = driver.fake.graph_starts, []

    def steps(place):
        paddle.set_device("cpu")
        network = getattr(paddle.nn, mode)(4, 6, 2, direction)
        paddle.set_device(place)
        for i, p in enumerate(network.parameters()):
            p.set_value(np.random.default_rng(i).normal(scale=0.4, size=p.shape).astype("float32"))
        for i in range(4):
            x = np.random.default_rng(i).normal(size=(3, 40, 4)).astype("float32")
            given = paddle.to_tensor(x, stop_gradient=False)
            out, _ = network(given)
            (out * out).sum().backward()
            yield out, given.grad, [p.grad for p in network.parameters()]
            network.clear_gradients()

    try:
        got = list(steps("gpu"))
        # Forward and backward, of the second call on.
        assert driver.fake.graph_starts == starts + 6
        found = [[out.numpy(), dx, *grads] for out, dx, grads in got]
        want = [[out.numpy(), dx, *grads] for out, dx, grads in steps("cpu")]
    finally:
        paddle.set_device("cpu")
    for a, b in zip(found, want, strict=True):
        for g, w in zip(a, b, strict=True):
            np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=2e-4, atol=2e-5)
