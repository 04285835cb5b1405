"""Static Programs as CUDA graphs on a fake driver: from the third run with feeds of the same sizes on a run is one
launch, or several between the operators that no graph repeats, and gives what a run of the operators gives."""

import gc

import numpy as np
import paddle
import pytest
from paddle import _core, _cuda
from shim import DriverMachine

W = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")


@pytest.fixture(scope="session")
def captured(built):
    return DriverMachine(built.folder)


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
        return [paddle.nn.functional.relu(x) * 2.0 + 1.0]

    gpu = Run(build, paddle.CUDAPlace(0))
    for x in [*feeds(4), *feeds(3, rows=5), *feeds(2)]:
        starts = driver.fake.graph_starts
        np.testing.assert_allclose(gpu(x)[0], np.maximum(x, 0) * 2 + 1, rtol=1e-6)
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


def counting(x, w):
    """An operator of the host that writes a variable of the scope, between two graphs."""
    y = paddle.nn.functional.relu(x * w - 0.5) + x
    count = paddle.static.create_global_var([1], 0, "int64", persistable=True, force_cpu=True, name="count")
    paddle.fluid.layers.increment(count)
    y = y * 2.0 - x
    return [paddle.nn.functional.softmax(y * w), count]


def on_the_host(x, w):
    """An operator without a CUDA kernel in the middle, whose result later graphs read."""
    y = paddle.nn.functional.relu(x * w) + x
    y = y * y - 0.25
    hashed = paddle.fluid.layers.hash(paddle.cast(y * 100, "int64"), hash_size=7, num_hash=1)
    z = paddle.cast(paddle.reshape(hashed, [-1, 1]), "float32") * 0.5
    z = (z - y) * y + w
    return [z, y]


def through_python(x, w):
    """A launcher without a recipe in the middle, whose result has a size that depends on the feed."""
    y = paddle.nn.functional.relu(x) * 2.0 + w - 1.0
    y = y * y
    some = paddle.masked_select(y, y > 1.0)
    return [paddle.sum(some * some) - paddle.mean(some), y]


def accumulating(x, w):
    """A result that is a variable of the scope, not in place: it is shared memory of a temporary."""
    y = paddle.nn.functional.relu(x * w) + x
    y = y * 2.0 + 1.0
    last = paddle.static.create_global_var([3, 4], 0.0, "float32", persistable=True, name="last")
    before = last * 1.0
    paddle.assign(y, last)
    z = y * y - before
    return [z + 1.0, last]


def runs_between_graphs(build, driver, count):
    """Runs on the device start graphs, and give what runs on the CPU give."""
    gpu, cpu = Run(build, paddle.CUDAPlace(0)), Run(build, paddle.CPUPlace())
    held, starts = [], []
    for x in feeds(count):
        before = driver.fake.graph_starts
        held.append((gpu(x, return_numpy=False), cpu(x)))
        starts.append(driver.fake.graph_starts - before)
    assert starts[-1] > 0, starts
    # Compared at the end: no later run has written what was fetched.
    for got, want in held:
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(np.array(g), w, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gpu.value("w"), cpu.value("w"), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:operator .* has no CUDA kernel")
@pytest.mark.parametrize("build", [counting, on_the_host, through_python, accumulating])
def test_operators_of_the_host_run_between_graphs(build, driver):
    runs_between_graphs(build, driver, 12)


def test_random_operators_draw_anew_between_graphs(driver):
    def random(x, w):
        y = paddle.nn.functional.relu(x) * w + 1.0
        y = paddle.nn.functional.dropout(y * 2.0, 0.5, mode="upscale_in_train")
        y = y + x * 3.0
        return [paddle.nn.functional.softmax(y * 0.5 - 1.0) + 1.0, y]

    def results(graphs):
        driver.graphs = graphs
        _cuda.use(driver)
        paddle.seed(3)
        gpu = Run(random, paddle.CUDAPlace(0))
        return [gpu(np.ones((3, 4), "float32"))[0] for _ in range(7)]

    starts = driver.fake.graph_starts
    try:
        plain = results(1)
        assert driver.fake.graph_starts == starts
    finally:
        driver.graphs = 2
    kept = results(2)
    assert driver.fake.graph_starts > starts
    np.testing.assert_array_equal(kept, plain)
    assert len({v.tobytes() for v in kept}) == len(kept)


def test_a_variable_that_the_host_sets_is_copied_at_each_run(driver):
    def scaled(x, w):
        rate = paddle.static.create_global_var([1], 1.0, "float32", persistable=True, name="rate")
        return [paddle.nn.functional.relu(x * w) * rate - 0.5, (x + w) * rate]

    gpu, cpu = Run(scaled, paddle.CUDAPlace(0)), Run(scaled, paddle.CPUPlace())
    starts = []
    for i, x in enumerate(feeds(14)):
        for run, place in ((gpu, paddle.CUDAPlace(0) if i % 2 else paddle.CPUPlace()), (cpu, paddle.CPUPlace())):
            rate = np.array([1.0 / (1 + i)], "float32")
            run.scope.var("rate").get_tensor().set(rate, place)
        before = driver.fake.graph_starts
        for g, w in zip(gpu(x), cpu(x), strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(gpu.value("rate"), [1.0 / (1 + i)], rtol=1e-6)
        starts.append(driver.fake.graph_starts - before)
    assert sum(starts[8:]) > 0, starts


def test_graphs_are_dropped_where_memory_is_short(driver):
    gpu, cpu = Run(inference, paddle.CUDAPlace(0)), Run(inference, paddle.CPUPlace())
    xs = feeds(9)
    for x in xs[:5]:
        gpu(x)
    graphs = driver.fake.graphs
    assert _core.release_device_graphs() > 0
    assert driver.fake.graphs < graphs
    for x in xs:
        np.testing.assert_allclose(gpu(x)[0], cpu(x)[0], rtol=1e-5, atol=1e-6)


def looping(x, w):
    """A loop between two graphs, which reads the feed and the results of the first."""
    n = paddle.full([1], 3, "int64")
    y = paddle.nn.functional.relu(x * w) * 2.0 - 1.0
    y = y * y
    y = paddle.static.nn.while_loop(
        lambda i, y: i < n, lambda i, y: [i + 1, y * w + x], [paddle.full([1], 0, "int64"), y]
    )[1]
    return [paddle.nn.functional.softmax(y * 0.5 - 1.0) * w, y]


def branching(x, w):
    """Branches that depend on the feed; one writes a variable of the scope, not in place, that later steps read."""
    last = paddle.static.create_global_var([3, 4], 0.5, "float32", persistable=True, name="last")
    y = (paddle.nn.functional.relu(x * w) + x) * last

    def positive():
        paddle.assign(x * 2.0, last)
        return y + 1.0

    y = paddle.static.nn.cond(paddle.mean(x) > 0.0, positive, lambda: y * 0.5)
    z = (y * last - 1.0) * w
    return [paddle.nn.functional.softmax(z), z, last]


def counting_in_a_branch(x, w):
    """A branch that writes a variable of the scope in place, which no step of the outer block names there."""
    total = paddle.static.create_global_var([1], 0.0, "float32", persistable=True, name="total")
    before = (x * w - 0.5) * total + x
    inner = paddle.tanh(before)

    def add():
        paddle.fluid.layers.increment(total, 0.25)
        return inner * 1.0

    y = paddle.static.nn.cond(paddle.mean(x) > 0.0, add, lambda: inner * 2.0)
    z = y + before
    return [((z * total + before) * w - z) * z, total]


def trained_in_a_loop(x, w):
    """Gradients through a loop and a branch, and an update between graphs."""
    n = paddle.full([1], 2, "int64")
    y = paddle.tanh(x * w) * 0.5 + x
    y = paddle.static.nn.while_loop(
        lambda i, y: i < n, lambda i, y: [i + 1, paddle.tanh(y * w)], [paddle.full([1], 0, "int64"), y]
    )[1]
    y = paddle.static.nn.cond(paddle.mean(x) > 0.0, lambda: y * w, lambda: y - w)
    loss = paddle.mean(y * y)
    paddle.optimizer.Adam(0.1).minimize(loss)
    return [loss]


def recurring(x, w):
    """A StaticRNN with its gradient."""
    y = paddle.tanh(x * w) * 0.5 + x
    steps = paddle.reshape(paddle.tanh(y) - w, [3, 1, 4])
    rnn = paddle.fluid.layers.StaticRNN()
    with rnn.step():
        step = rnn.step_input(steps)
        held = rnn.memory(shape=[-1, 4], batch_ref=step)
        now = paddle.tanh(step + held * 0.5)
        rnn.update_memory(held, now)
        rnn.step_output(now)
    loss = paddle.mean(rnn() * 2.0)
    paddle.optimizer.SGD(0.5).minimize(loss)
    return [loss]


HELD = []


def by_a_function(x, w):
    """A function of the user that keeps its operand."""
    y = paddle.nn.functional.relu(x * w) + x
    y = y * 2.0 - 0.5
    out = paddle.static.default_main_program().global_block().create_var(name="out", dtype="float32", shape=[3, 4])

    def function(a):
        HELD.append(a)
        return np.array(a) * 3.0

    paddle.static.py_func(function, y, out)
    z = (out * w - y) * 0.5
    return [paddle.nn.functional.softmax(z), z]


@pytest.mark.filterwarnings("ignore:operator .* has no CUDA kernel")
@pytest.mark.parametrize(
    "build", [looping, branching, counting_in_a_branch, trained_in_a_loop, recurring, by_a_function]
)
def test_blocks_and_functions_run_between_graphs(build, driver):
    runs_between_graphs(build, driver, 24)


def test_a_function_may_keep_its_operands(driver):
    HELD.clear()
    gpu, cpu = Run(by_a_function, paddle.CUDAPlace(0)), Run(by_a_function, paddle.CPUPlace())
    xs = feeds(8)
    for x in xs:
        gpu(x)
    on_device = [np.array(a) for a in HELD]
    HELD.clear()
    for x in xs:
        cpu(x)
    for got, want in zip(on_device, HELD, strict=True):
        np.testing.assert_allclose(got, np.array(want), rtol=1e-5, atol=1e-6)


def test_a_function_may_set_a_variable_of_the_scope(driver):
    def setting(x, w):
        y = (x * w - 0.5) * 2.0
        out = paddle.static.default_main_program().global_block().create_var(name="out", dtype="float32", shape=[3, 4])

        def function(a):
            if np.array(a).mean() > 0.0:
                scope, place = paddle.static.global_scope(), paddle.CUDAPlace(0) if is_gpu else paddle.CPUPlace()
                scope.var("w").get_tensor().set(np.array(a) * 0.5, place)
            return np.array(a) + 1.0

        paddle.static.py_func(function, y, out)
        return [(out * w - y) * w + 1.0]

    is_gpu = True
    gpu, cpu = Run(setting, paddle.CUDAPlace(0)), Run(setting, paddle.CPUPlace())
    for x in feeds(20):
        is_gpu = True
        got = gpu(x)[0]
        is_gpu = False
        np.testing.assert_allclose(got, cpu(x)[0], rtol=1e-4, atol=1e-5)


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


def attention():
    """Dropout, a learning rate that the host sets, clipping by the global norm."""
    x, label = paddle.static.data("x", [None, 5, 8]), paddle.static.data("t", [None, 1], "int64")
    layer = paddle.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2)
    logits = paddle.static.nn.fc(paddle.mean(layer(x), axis=1), 3)
    rate = paddle.optimizer.lr.NoamDecay(d_model=8, warmup_steps=3)
    clip = paddle.nn.ClipGradByGlobalNorm(1.0)
    optimizer = paddle.optimizer.Adam(rate, grad_clip=clip)
    return paddle.mean(paddle.nn.functional.cross_entropy(logits, label)), optimizer, (5, 8), rate


def losses(build, place, steps=7):
    paddle.seed(5)
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.fluid.unique_name.guard():
        loss, optimizer, shape, *rates = build()
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
            for rate in rates:
                rate.step()
    return found


@pytest.mark.parametrize("build", [perceptron, lenet, recurrent])
def test_training_is_a_graph(build, driver):
    starts = driver.fake.graph_starts
    got = losses(build, paddle.CUDAPlace(0))
    assert driver.fake.graph_starts == starts + 4
    np.testing.assert_allclose(got, losses(build, paddle.CPUPlace()), rtol=1e-4, atol=1e-5)


def test_training_with_dropout_and_a_schedule_is_pieces(driver):
    def trained(graphs):
        driver.graphs = graphs
        _cuda.use(driver)
        starts = driver.fake.graph_starts
        return losses(attention, paddle.CUDAPlace(0), steps=14), driver.fake.graph_starts - starts

    try:
        plain, none = trained(0)
    finally:
        driver.graphs = 2
    kept, some = trained(2)
    assert none == 0 and some > 0
    np.testing.assert_allclose(kept, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "optimizer, launches",
    [
        (lambda: paddle.optimizer.SGD(0.1), 1),
        (lambda: paddle.optimizer.Momentum(0.1, 0.9, use_nesterov=True), 1),
        (lambda: paddle.optimizer.Adam(0.01), 2),
    ],
)
def test_all_parameters_are_updated_by_one_launch(optimizer, launches, driver, monkeypatch):
    def build():
        x, label = paddle.static.data("x", [None, 6]), paddle.static.data("t", [None, 1], "int64")
        h = x
        for width in (8, 5, 70, 3):
            h = paddle.static.nn.fc(h, width, activation="tanh")
        return paddle.mean(paddle.nn.functional.cross_entropy(h, label)), optimizer(), (6,)

    def run():
        _cuda.use(driver)
        nodes = driver.fake.graph_nodes
        return losses(build, paddle.CUDAPlace(0), steps=6), (driver.fake.graph_nodes - nodes) / 3

    monkeypatch.setattr("paddle._cuda.optim.multi._rule_of", lambda kernel: "")
    want, each = run()
    monkeypatch.undo()
    got, all_at_once = run()
    # Of 8 parameters; three of six runs are graphs.
    assert each - all_at_once == 7 * launches
    np.testing.assert_allclose(got, want, rtol=1e-6)
    np.testing.assert_allclose(got, losses(build, paddle.CPUPlace(), steps=6), rtol=1e-4, atol=1e-5)


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
