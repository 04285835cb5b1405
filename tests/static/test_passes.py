"""Plans with and without passes: the same results bit for bit, and what each pass does."""

from __future__ import annotations

import gc

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle import _core
from paddle._programs.scope import scope_guard

layers = fluid.layers
PASSES = ["dead", "release", "inplace", "fuse", "schedule"]
VARIANTS = [*PASSES, *(f"{p},always" for p in PASSES), "release,inplace,fuse,always", "all", "all,always"]


@pytest.fixture(autouse=True)
def passes_of_the_process():
    before = ",".join(_core.plan_passes())
    yield
    _core.plan_passes(before)


def held(tensor):
    return tensor.lod(), np.array(tensor)


def outcome(static, passes, fetch, feeds, seed=7):
    """The fetched values of each run, and the persistable variables after it, as bytes."""
    _core.plan_passes(passes)
    main, startup = static.default_main_program(), static.default_startup_program()
    scope = static.Scope()
    with scope_guard(scope):
        exe = static.Executor(paddle.CPUPlace())
        paddle.seed(seed)
        if startup.global_block().ops:
            exe.run(startup)
        found = []
        for feed in feeds:
            fetched = exe.run(main, feed=feed, fetch_list=fetch, return_numpy=False)
            found += [(t.lod(), np.array(t).dtype.name, np.array(t).shape, np.array(t).tobytes()) for t in fetched]
        for var in sorted(main.list_vars(), key=lambda v: v.name):
            if var.persistable and var.name not in ("feed", "fetch"):
                value = scope.find_var(var.name)
                if value is not None and value.get_tensor()._is_initialized():
                    found.append((var.name, np.array(value.get_tensor()).tobytes()))
    return found


def same_everywhere(static, fetch, feeds, variants=VARIANTS):
    plain = outcome(static, "none", fetch, feeds)
    for passes in variants:
        assert outcome(static, passes, fetch, feeds) == plain, passes
    return plain


def plan(static, fetch, feeds=(), passes="all"):
    exe = _core.Executor(paddle.CPUPlace())
    return exe.plan(static.default_main_program().desc, list(feeds), [v.name for v in fetch], passes)


def batches(n, **shapes):
    r = np.random.default_rng(5)
    return [{k: r.standard_normal(s).astype("float32") for k, s in shapes.items()} for _ in range(n)]


# programs


def test_lenet_step(static):
    x, label = static.data("x", [None, 1, 28, 28]), static.data("label", [None, 1], "int64")
    y = fluid.nets.simple_img_conv_pool(x, 6, 5, 2, 2, act="relu")
    y = fluid.nets.simple_img_conv_pool(y, 16, 5, 2, 2, act="relu")
    y = static.nn.fc(static.nn.fc(y, 120, activation="relu"), 10)
    loss = layers.mean(layers.softmax_with_cross_entropy(y, label))
    accuracy = static.accuracy(layers.softmax(y), label)
    paddle.optimizer.Adam(learning_rate=1e-3).minimize(loss)
    feeds = [f | {"label": np.arange(8).reshape(8, 1) % 10} for f in batches(4, x=(8, 1, 28, 28))]
    same_everywhere(static, [loss, accuracy, y], feeds)
    found = plan(static, [loss], ["x", "label"])
    assert ["elementwise_add", "relu"] in found["tasks"]


def test_mlp_with_dropout_and_clipping(static):
    x = static.data("x", [None, 32])
    y = layers.dropout(static.nn.fc(x, 64, activation="gelu"), 0.3)
    y = layers.dropout(layers.tanh(static.nn.fc(y, 64)) * 0.5 + y, 0.2)
    loss = layers.mean(layers.square(static.nn.fc(y, 1)))
    clip = paddle.nn.ClipGradByGlobalNorm(0.1)
    paddle.optimizer.Adam(learning_rate=1e-2, weight_decay=1e-3, grad_clip=clip).minimize(loss)
    same_everywhere(static, [loss], batches(5, x=(16, 32)))


def test_while_with_gradient(static):
    x = static.data("x", [4, 8])
    x.stop_gradient = False
    i, n = layers.zeros([1], "int64"), layers.fill_constant([1], "int64", 3)
    memory = layers.array_write(layers.tanh(x), i)
    going = layers.less_than(i, n)
    loop = layers.While(going)
    with loop.block():
        state = layers.relu(layers.array_read(memory, i) * 1.5 + x) - 0.1
        layers.increment(i)
        layers.array_write(state, i, array=memory)
        layers.less_than(i, n, cond=going)
    last = layers.array_read(memory, i)
    loss = layers.mean(layers.exp(last) * last)
    (grad,) = static.gradients(loss, x)
    same_everywhere(static, [loss, grad, last], batches(2, x=(4, 8)))


def test_cond_with_gradient(static):
    x = static.data("x", [4])
    x.stop_gradient = False
    y = static.nn.cond(layers.mean(x) > 0.0, lambda: layers.tanh(x) * x, lambda: layers.exp(x) - x)
    (grad,) = static.gradients(layers.mean(layers.relu(y) + y), x)
    same_everywhere(static, [y, grad], [{"x": np.full(4, v, "float32")} for v in (1.5, -0.5)])


def test_lod_is_propagated(static):
    x = static.data("x", [None, 3], lod_level=1)
    y = layers.relu(layers.scale(x, 2.0) + layers.tanh(x))
    feed = {"x": fluid.create_lod_tensor(np.arange(15, dtype="float32").reshape(5, 3) - 7, [[2, 3]], fluid.CPUPlace())}
    found = same_everywhere(static, [y], [feed])
    assert found[0][0] == [[0, 2, 5]]


def test_names_written_repeatedly(static):
    """Operators that write a name which they or other operators read: x = f(x), and a value read between two writes."""
    block = static.default_main_program().global_block()
    x, y = static.data("x", [64, 8]), block.create_var(name="y", shape=[64, 8], dtype="float32")
    z, w = (block.create_var(name=n, shape=[64, 8], dtype="float32") for n in "zw")

    def append(op, out, attrs=None, **ins):
        block.append_op(op, {k: [v] for k, v in ins.items()}, {"Out": [out]}, attrs or {})

    append("scale", y, {"scale": 3.0}, X=x)
    append("tanh", y, X=y)
    append("elementwise_add", z, X=y, Y=x)
    append("relu", y, X=z)
    append("elementwise_mul", z, X=z, Y=y)
    append("scale", w, {"scale": 2.0}, X=y)
    append("elementwise_sub", y, X=z, Y=w)
    append("exp", y, X=y)
    feeds = batches(2, x=(64, 8))
    same_everywhere(static, [y, z, w], feeds)
    same_everywhere(static, [z, y, x, y], feeds)
    same_everywhere(static, [w], feeds)


def test_in_place_operators_and_kept_values(static):
    counter = layers.create_global_var([1], 0.0, "float32", persistable=True, name="counter")
    x = static.data("x", [32])
    layers.increment(counter)
    total = layers.create_global_var([32], 1.0, "float32", persistable=True, name="total")
    layers.assign(layers.tanh(total * 0.5 + x) * counter, total)
    y = layers.relu(total) + counter
    same_everywhere(static, [y], batches(3, x=(32,)))
    found = same_everywhere(static, [], batches(3, x=(32,)))
    assert dict(found)["counter"] == np.array([3.0], "float32").tobytes()


def test_fed_data_is_not_changed(static):
    x = static.data("x", [128, 128])
    y = layers.exp(layers.relu(x) * -0.5)
    tensor = fluid.LoDTensor()
    array = np.random.default_rng(1).standard_normal((128, 128)).astype("float32")
    tensor.set(array, fluid.CPUPlace())
    exe = static.Executor()
    _core.plan_passes("all,always")
    for feed in (tensor, array):
        before = array.copy()
        (out,) = exe.run(feed={"x": feed}, fetch_list=[y])
        np.testing.assert_array_equal(np.array(feed), before)
        (again,) = exe.run(feed={"x": feed}, fetch_list=[y])
        np.testing.assert_array_equal(out, again)


def test_shapes_that_do_not_match_are_not_fused(static):
    x, y = static.data("x", [None, None]), static.data("y", [None, None])
    out = layers.tanh(layers.relu(x) + layers.exp(y)) * 0.5
    for a, b in (((3, 4), (3, 4)), ((3, 4), (1, 4)), ((3, 1), (3, 4)), ((2, 1), (1, 5)), ((0, 4), (0, 4))):
        same_everywhere(static, [out], batches(1, x=a, y=b), ["fuse,inplace,always", "all,always"])


@pytest.mark.filterwarnings("ignore:The data type of .* is float16")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_data_types(static, dtype):
    x, b = static.data("x", [6, 33], dtype), static.data("b", [33], dtype)
    out = layers.elementwise_mul(layers.sigmoid(layers.elementwise_add(x, b)), x)
    r = np.random.default_rng(3)
    feed = {"x": r.standard_normal((6, 33)).astype(dtype), "b": r.standard_normal(33).astype(dtype)}
    same_everywhere(static, [out], [feed], ["fuse,always", "all,always"])


UNARY = ["relu", "tanh", "sigmoid", "exp", "square", "abs", "softplus", "gelu", "sin", "leaky_relu"]
BINARY = ["elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_max", "elementwise_min"]


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(static, seed):
    """Elementwise operators with shared operands, reused names, repeated operands, fetched intermediate results."""
    r = np.random.default_rng(seed)
    block = static.default_main_program().global_block()
    shape = [int(r.integers(1, 5)), int(r.integers(1, 40)), int(r.integers(1, 60))]
    full = [static.data("a", shape), static.data("b", shape)]
    feed = {"a": r.standard_normal(shape), "b": r.standard_normal(shape)}
    small = []
    for k, (dims, axis) in enumerate([(shape[2:], -1), (shape[1:2], 1), ([1], -1), (shape[:1], 0)]):
        small.append((static.data(f"s{k}", dims), axis))
        feed[f"s{k}"] = r.standard_normal(dims)
    names = [block.create_var(name=f"v{k}", shape=shape, dtype="float32") for k in range(4)]
    for _ in range(25):
        out = names[r.integers(4)] if r.random() < 0.6 else block.create_var(shape=shape, dtype="float32")
        x = full[r.integers(len(full))]
        kind = r.random()
        if kind < 0.4:
            block.append_op(UNARY[r.integers(len(UNARY))], {"X": [x]}, {"Out": [out]})
        elif kind < 0.5:
            attrs = {"scale": float(r.random()), "bias": 0.25, "bias_after_scale": bool(r.random() < 0.5)}
            block.append_op("scale", {"X": [x]}, {"Out": [out]}, attrs)
        elif kind < 0.6:
            terms = [x, full[r.integers(len(full))], full[r.integers(len(full))]]
            block.append_op("sum", {"X": terms}, {"Out": [out]})
        else:
            y, axis = (full[r.integers(len(full))], -1) if r.random() < 0.6 else small[r.integers(len(small))]
            op = BINARY[r.integers(len(BINARY))]
            block.append_op(op, {"X": [x], "Y": [y]}, {"Out": [out]}, {"axis": axis})
        if all(out is not v for v in full):
            full.append(out)
    feeds = [{k: v.astype("float32") for k, v in feed.items()}]
    fetch = [full[i] for i in sorted({*map(int, r.integers(2, len(full), 3)), len(full) - 1})]
    same_everywhere(static, fetch, feeds, ["fuse,always", "inplace,always", "all", "all,always"])
    same_everywhere(static, fetch[:1], feeds, ["all,always"])


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_with_gradients(static, seed):
    r = np.random.default_rng(100 + seed)
    x, b = static.data("x", [16, 24]), static.data("b", [24])
    x.stop_gradient = b.stop_gradient = False
    values = [x, layers.elementwise_add(x, b)]
    for _ in range(8):
        v, w = values[r.integers(len(values))], values[r.integers(len(values))]
        unary = getattr(layers, ["tanh", "sigmoid", "relu", "square", "softplus"][r.integers(5)])
        values.append(
            unary(v) if r.random() < 0.5 else [v * w, v + w, v - w, v / (layers.square(w) + 1.0)][r.integers(4)]
        )
    grads = static.gradients(layers.mean(layers.tanh(layers.sums(values[-3:]))), [x, b])
    grads = [g for g in grads if g is not None]
    same_everywhere(static, [values[-1], *grads], batches(2, x=(16, 24), b=(24,)), ["fuse,always", "all", "all,always"])


# effects of the passes


def test_dead_code_is_eliminated(static):
    x, w = static.data("x", [None, 8]), static.data("w", [8])
    layers.softmax(layers.tanh(x + w))  # not fetched
    y = layers.relu(x)
    found = plan(static, [y], ["x", "w"])
    assert found["tasks"] == [["relu"]] and sorted(found["dropped"]) == ["elementwise_add", "softmax", "tanh"]
    assert plan(static, [y], ["x", "w"], "none")["dropped"] == []


def test_operators_that_may_fail_or_are_observed_are_kept(static):
    x, z = static.data("x", [None, 8]), static.data("z", [None, 8])
    ids = static.data("ids", [None, 1], "int64")
    kept = layers.create_global_var([1], 0.0, "float32", persistable=True)
    layers.relu(x + z)  # batch sizes may differ
    static.nn.embedding(ids, [4, 2])  # ids may be out of range
    layers.dropout(x, 0.5)  # advances the random generator
    layers.assign(layers.mean(x), kept)
    layers.Print(layers.tanh(x))
    y = layers.exp(x)
    found = plan(static, [y], ["x", "z", "ids"])
    names = sum(found["tasks"], [])
    assert {"elementwise_add", "lookup_table_v2", "dropout", "mean", "assign", "print", "tanh", "exp"} <= set(names)
    exe = static.Executor()
    exe.run(static.default_startup_program())
    good = {"x": np.ones((2, 8), "float32"), "z": np.ones((2, 8), "float32"), "ids": np.zeros((1, 1), "int64")}
    exe.run(feed=good, fetch_list=[y])
    for bad in ({"z": np.ones((3, 8), "float32")}, {"ids": np.full((1, 1), 9)}):
        with pytest.raises(Exception):  # noqa: B017
            exe.run(feed=good | bad, fetch_list=[y])


def test_a_missing_operand_is_still_an_error(static):
    x = static.data("x", [None, 4])
    static.nn.fc(x, 3)
    y = layers.relu(x)
    assert plan(static, [y], ["x"])["dropped"]
    with pytest.raises(Exception, match="mul|matmul"):
        static.Executor().run(feed={"x": np.ones((2, 4), "float32")}, fetch_list=[y])
    with pytest.raises(Exception):  # noqa: B017
        static.Executor().run(fetch_list=[])


def test_errors_name_the_operator(static):
    x, y = static.data("x", [None, None]), static.data("y", [None, None])
    out = layers.tanh(layers.relu(layers.exp(x) + layers.square(y)))
    for passes in ["none", *VARIANTS]:
        _core.plan_passes(passes)
        with pytest.raises(Exception, match="elementwise_add"):
            static.Executor().run(
                feed={"x": np.ones((2, 3), "float32"), "y": np.ones((2, 4), "float32")}, fetch_list=[out]
            )


def test_the_first_error_of_the_program_is_raised(static):
    x, y = static.data("x", [None, None]), static.data("y", [None, None])
    for k in range(3):
        y = layers.scale(y, 2.0 + k)
    first = layers.elementwise_sub(y, x)
    second = layers.elementwise_add(x, static.data("y", [None, None]))
    _core.plan_passes("schedule,always")
    for _ in range(20):
        with pytest.raises(Exception, match="elementwise_sub"):
            static.Executor().run(
                feed={"x": np.ones((2, 3), "float32"), "y": np.ones((2, 4), "float32")}, fetch_list=[first, second]
            )


def peak(static, passes, fetch, feed):
    _core.plan_passes(passes)
    exe = static.Executor()
    exe.run(feed=feed, fetch_list=fetch)
    gc.collect()
    _core.reset_peak_memory()
    before = _core.memory_stats()[0]
    exe.run(feed=feed, fetch_list=fetch)
    return _core.memory_stats()[1] - before


def test_in_place_and_fusion_need_less_memory(static):
    x = static.data("x", [256, 1024])
    y = x
    for k in range(6):
        y = layers.tanh(layers.scale(y, 1.0 + k))
    feed = batches(1, x=(256, 1024))[0]
    size = 256 * 1024 * 4
    plain = peak(static, "none", [y], feed)
    assert peak(static, "inplace,always", [y], feed) <= plain - size
    assert peak(static, "fuse,inplace", [y], feed) <= plain - size


def test_only_shapes_are_kept_for_gradients(static):
    x, b = static.data("x", [256, 1024]), static.data("b", [1024])
    x.stop_gradient = b.stop_gradient = False
    y = layers.elementwise_add(layers.elementwise_add(x, b), b)
    (grad,) = static.gradients(layers.mean(layers.tanh(layers.softmax(y))), b)
    feed = batches(1, x=(256, 1024), b=(1024,))[0]
    assert peak(static, "release", [grad], feed) < peak(static, "none", [grad], feed)


def test_edges(static):
    x = static.data("x", [4])
    a, b = layers.softmax(x), layers.reduce_sum(x)
    noise = layers.uniform_random([4])
    c = layers.softmax(a)
    more = layers.uniform_random([4])
    layers.Print(c)
    found = plan(static, [b, c, noise, more], ["x"], "schedule")
    units = [u[0] for u in found["tasks"]]
    at = {name: units.index(name) for name in ("softmax", "reduce_sum", "uniform_random", "print")}
    second, drawn = units.index("softmax", at["softmax"] + 1), units.index("uniform_random", at["uniform_random"] + 1)
    assert found["after"][second] == [at["softmax"]] and found["after"][at["reduce_sum"]] == []
    assert found["after"][drawn] == [at["uniform_random"]] and found["barriers"][at["print"]]
    chain = plan(static, [c], ["x"], "dead,schedule")
    assert chain["after"] or chain["dropped"]


def test_a_chain_is_not_scheduled(static):
    y = static.data("x", [4])
    for _ in range(5):
        y = layers.softmax(y)
    assert plan(static, [y], ["x"], "schedule")["after"] == []


# switches


def test_switches(static, monkeypatch):
    with pytest.raises(ValueError, match="no pass 'fusion'"):
        _core.plan_passes("fusion")
    assert _core.plan_passes("fuse, dead") == ["dead", "fuse"]
    x = static.data("x", [None, 4])
    y = layers.relu(layers.tanh(x) + 1.0)
    main = static.default_main_program()
    assert static.CompiledProgram(main)._passes() is None
    build, run = static.BuildStrategy(), static.ExecutionStrategy()
    assert static.CompiledProgram(main, build)._passes() is None
    build.enable_inplace = False
    assert static.CompiledProgram(main, build)._passes() == "dead,release,fuse,schedule"
    build.memory_optimize = build.fuse_elewise_add_act_ops = False
    build.enable_sequential_execution = True
    assert static.CompiledProgram(main, build)._passes() == "dead"
    run.num_threads = 1
    compiled = static.CompiledProgram(main).with_data_parallel(exec_strategy=run, places=paddle.CPUPlace())
    assert compiled._passes() == "dead,release,fuse,inplace"
    _core.plan_passes("all")
    feed = batches(1, x=(3, 4))[0]
    exe = static.Executor()
    (want,) = exe.run(feed=feed, fetch_list=[y])
    (got,) = exe.run(static.CompiledProgram(main, build), feed=feed, fetch_list=[y])
    np.testing.assert_array_equal(got, want)
