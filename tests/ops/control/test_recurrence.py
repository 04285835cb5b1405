"""LoD rank tables, recurrent blocks and select operators, which exist only in Programs."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from case import covers
from paddle.fluid.layers import control_flow as flow

#: a startup Program of a network without parameters is empty
pytestmark = pytest.mark.filterwarnings("ignore:the Program has no operators to run")

L = fluid.layers
# Three sequences of 2, 1 and 3 steps; the order by length is 2, 0, 1.
LENGTHS = [2, 1, 3]
X = np.arange(12, dtype="float32").reshape(6, 2)


@pytest.fixture(autouse=True)
def _static():
    with (
        paddle._basics.mode._dygraph_guard(None),
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.scope_guard(fluid.Scope()),
        fluid.unique_name.guard(),
    ):
        yield


def sequences(name="x", lengths=(LENGTHS,), data=X):
    var = fluid.data(name, [None, *data.shape[1:]], str(data.dtype), lod_level=len(lengths))
    var.stop_gradient = False
    return var, fluid.create_lod_tensor(data, [list(n) for n in lengths], fluid.CPUPlace())


def run(feed, *fetched):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe.run(feed=feed, fetch_list=list(fetched), return_numpy=False)


def gradient_of(out, weight, *by):
    """The gradients of sum(out * weight)."""
    loss = L.reduce_sum(out * L.cast(L.assign(weight.astype("float32")), out.dtype))
    return fluid.gradients([loss], list(by))


@covers("lod_rank_table", "max_sequence_len", "lod_tensor_to_array", "array_to_lod_tensor")
def test_to_steps_and_back():
    x, fed = sequences()
    table = flow.lod_rank_table(x)
    array = flow.lod_tensor_to_array(x, table)
    i = L.fill_constant([1], "int64", 1)
    second, back = L.array_read(array, i), flow.array_to_lod_tensor(array, table)
    weight = np.random.RandomState(0).rand(6, 2).astype("float32")
    (dx,) = gradient_of(back, weight, x)
    longest, second, back, dx = run({"x": fed}, flow.max_sequence_len(table), second, back, dx)
    assert np.array(longest).tolist() == [3]
    assert np.array(second).tolist() == [X[4].tolist(), X[1].tolist()]
    np.testing.assert_array_equal(np.array(back), X)
    assert back.lod() == [[0, 2, 3, 6]]
    np.testing.assert_allclose(np.array(dx), weight)


def test_the_table_in_the_scope():
    x, fed = sequences()
    table = flow.lod_rank_table(x)
    table.persistable = True
    fluid.Executor(fluid.CPUPlace()).run(feed={"x": fed})
    assert fluid.global_scope().find_var(table.name).get_lod_rank_table().items() == [(2, 3), (0, 2), (1, 1)]
    with pytest.raises(TypeError, match="no rank table"):
        fluid.global_scope().var("other").get_lod_rank_table()


def test_lod_levels_of_steps_are_known_at_build_time():
    x, _ = sequences(lengths=([2, 1], [2, 1, 3]))
    rnn = L.DynamicRNN()
    with rnn.block():
        assert rnn.step_input(x).lod_level == 1
        rnn.output(rnn.memory(shape=[2]))
    assert rnn().lod_level == 1


@covers("lod_rank_table", "lod_tensor_to_array", "array_to_lod_tensor")
@pytest.mark.parametrize("level", [0, 1])
def test_nested_levels(level):
    lengths = ([2, 1], [2, 1, 3])  # the first sequence has two of the second level
    x, fed = sequences(lengths=lengths)
    table = flow.lod_rank_table(x, level=level)
    array = flow.lod_tensor_to_array(x, table)
    first = L.array_read(array, L.fill_constant([1], "int64", 0))
    back = flow.array_to_lod_tensor(array, table)
    first, back = run({"x": fed}, first, back)
    np.testing.assert_array_equal(np.array(back), X)
    assert back.lod() == [[0, 2, 3], [0, 2, 3, 6]]
    # On level 0 a step is a sequence of level 1, on level 1 a row.
    assert first.lod() == ([[0, 2, 5]] if level == 0 else [])
    want = np.concatenate([X[0:2], X[3:6]]) if level == 0 else X[[3, 0, 2]]
    np.testing.assert_array_equal(np.array(first), want)


@covers("lod_tensor_to_array", "array_to_lod_tensor")
def test_empty_sequences():
    x, fed = sequences(lengths=([2, 0, 4, 0],))
    table = flow.lod_rank_table(x)
    back = flow.array_to_lod_tensor(flow.lod_tensor_to_array(x, table), table)
    (back,) = run({"x": fed}, back)
    np.testing.assert_array_equal(np.array(back), X)
    assert back.lod() == [[0, 2, 2, 6, 6]]


@covers("reorder_lod_tensor_by_rank")
def test_reorder():
    x, fed = sequences()
    rows = fluid.data("rows", [3, 1])
    rows.stop_gradient = False
    table = flow.lod_rank_table(x)
    ordered, plain = L.reorder_lod_tensor_by_rank(x, table), L.reorder_lod_tensor_by_rank(rows, table)
    weight = np.arange(12, 24, dtype="float32").reshape(6, 2)
    dx = gradient_of(ordered, weight, x)[0]
    drows = gradient_of(plain, np.array([[1.0], [2], [3]], "float32"), rows)[0]
    feed = {"x": fed, "rows": np.array([[10.0], [11], [12]], "float32")}
    ordered, plain, dx, drows = run(feed, ordered, plain, dx, drows)
    np.testing.assert_array_equal(np.array(ordered), X[[3, 4, 5, 0, 1, 2]])
    assert ordered.lod() == [[0, 3, 5, 6]]
    assert np.array(plain)[:, 0].tolist() == [12, 10, 11] and np.array(drows)[:, 0].tolist() == [2, 3, 1]
    np.testing.assert_array_equal(np.array(dx), weight[[3, 4, 5, 0, 1, 2]])
    with pytest.raises(TypeError, match="LOD_RANK_TABLE"):
        L.reorder_lod_tensor_by_rank(x, x)


@covers("shrink_rnn_memory")
@pytest.mark.parametrize(("step", "left"), [(0, 3), (1, 2), (2, 1), (3, 0)])
def test_shrink(step, left):
    x, fed = sequences()
    memory = fluid.data("memory", [3, 2])
    memory.stop_gradient = False
    out = flow.shrink_memory(memory, L.fill_constant([1], "int64", step), flow.lod_rank_table(x))
    (d,) = fluid.gradients([L.reduce_sum(out)], [memory])
    value = np.arange(6, dtype="float32").reshape(3, 2)
    out, d = run({"x": fed, "memory": value}, out, d)
    np.testing.assert_array_equal(np.array(out), value[:left])
    np.testing.assert_array_equal(np.array(d), np.arange(3)[:, None] < np.full((1, 2), left))


@pytest.mark.parametrize("level", [-1, 1])
def test_no_such_level(level):
    x, fed = sequences()
    table = flow.lod_rank_table(x, level=level)
    with pytest.raises(ValueError, match="level"):
        run({"x": fed}, flow.max_sequence_len(table))


def numeric(f, x, weight):
    d = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        for sign in (1, -1):
            moved = x.copy()
            moved[i] += sign * 1e-6
            d[i] += sign * (f(moved) * weight).sum() / 2e-6
    return d


@covers("recurrent", "rnn_memory_helper")
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrent(reverse):
    """h = tanh(x w + h u), compared with numpy and central differences."""
    draw = np.random.RandomState(3)
    xs, w, u = draw.rand(4, 2, 3), draw.rand(3, 3), draw.rand(3, 3)
    start, weight = draw.rand(2, 3), draw.rand(4, 2, 3).astype("float32").astype("float64")
    feed = {"x": xs, "boot": start, "w": w, "u": u}
    x, boot, *parameters = (fluid.data(n, v.shape, "float64") for n, v in feed.items())
    for var in (x, boot, *parameters):
        var.stop_gradient = False
    rnn = L.StaticRNN()
    with rnn.step():
        h = rnn.memory(init=boot)
        new = L.tanh(L.matmul(rnn.step_input(x), parameters[0]) + L.matmul(h, parameters[1]))
        rnn.update_memory(h, new)
        rnn.output(new, new * 2.0)
    if reverse:
        next(op for op in fluid.default_main_program().global_block().ops if op.type == "recurrent")._set_attr(
            "reverse", True
        )
    out, twice = rnn()
    assert out.shape == (4, 2, 3)
    grads = gradient_of(out, weight, x, boot, *parameters)
    got = [np.array(t) for t in run(feed, out, twice, *grads)]

    def network(xs, h, w, u):
        states = []
        for step in xs[::-1] if reverse else xs:
            h = np.tanh(step @ w + h @ u)
            states.append(h)
        return np.stack(states[::-1] if reverse else states)

    values = [xs, start, w, u]
    np.testing.assert_allclose(got[0], network(*values), rtol=1e-12)
    np.testing.assert_allclose(got[1], 2 * network(*values), rtol=1e-12)
    for k, d in enumerate(got[2:]):
        want = numeric(lambda v, k=k: network(*values[:k], v, *values[k + 1 :]), values[k], weight)
        np.testing.assert_allclose(d, want, rtol=1e-6, atol=1e-8)


def test_static_rnn_errors():
    x = fluid.data("x", [3, 2, 4])
    rnn = L.StaticRNN()
    with pytest.raises(ValueError, match="in rnn block"):
        rnn.step_input(x)
    with rnn.step():
        rnn.step_input(x)
        with pytest.raises(ValueError, match="shape and batch_ref"):
            rnn.memory()
        with pytest.raises(ValueError, match="seq_len"):
            rnn.step_input(fluid.data("y", [4, 2, 4]))
        with pytest.raises(ValueError, match="after rnn block"):
            rnn()
        rnn.step_output(rnn.inputs[0])


def test_dynamic_rnn_trains():
    """A dynamic network with a static input, a reordered memory and a parameter, compared with numpy."""
    x, fed = sequences(data=X.astype("float64") / 10)
    boot, extra = fluid.data("boot", [3, 2], "float64"), fluid.data("extra", [3, 2], "float64")
    boot.stop_gradient = extra.stop_gradient = False
    rnn = L.DynamicRNN()
    with rnn.block():
        now, more = rnn.step_input(x), rnn.static_input(extra)
        h = rnn.memory(init=boot, need_reorder=True)
        new = L.tanh(now + h * 0.5 + more)
        rnn.update_memory(h, new)
        rnn.output(new)
    out = rnn()
    weight = np.random.RandomState(1).rand(6, 2).astype("float32").astype("float64")
    grads = gradient_of(out, weight, x, boot, extra)
    draw = np.random.RandomState(2)
    start, rest = draw.rand(3, 2), draw.rand(3, 2)
    got = run({"x": fed, "boot": start, "extra": rest}, out, *grads)

    def network(xs, boot, extra):
        rows, at = [], 0
        for n, h, e in zip(LENGTHS, boot, extra, strict=True):
            for step in xs[at : at + n]:
                h = np.tanh(step + h * 0.5 + e)
                rows.append(h)
            at += n
        return np.stack(rows)

    values = [X.astype("float64") / 10, start, rest]
    np.testing.assert_allclose(np.array(got[0]), network(*values), rtol=1e-12)
    assert got[0].lod() == [[0, 2, 3, 6]]
    for k, d in enumerate(got[1:]):
        want = numeric(lambda v, k=k: network(*values[:k], v, *values[k + 1 :]), values[k], weight)
        np.testing.assert_allclose(np.array(d), want, rtol=1e-6, atol=1e-8)


@covers("select_input", "select_output")
@pytest.mark.parametrize("branch", [0, 1])
def test_select(branch):
    a, b = fluid.data("a", [1]), fluid.data("b", [1])
    mask = fluid.data("mask", [1], "int32")
    a.stop_gradient = b.stop_gradient = False
    out = flow.select_input([a, b], mask)
    da, db = fluid.gradients([L.reduce_sum(out * 3.0)], [a, b])
    feed = {"a": np.array([1.0], "float32"), "b": np.array([2.0], "float32"), "mask": np.array([branch], "int32")}
    (got,) = run(feed, out)
    assert np.array(got).tolist() == [branch + 1.0]
    (d,) = run(feed, (da, db)[branch])
    assert np.array(d).tolist() == [3.0]
    with pytest.raises(ValueError, match="branches"):
        run(feed | {"mask": np.array([2], "int32")}, out)


@covers("select_output")
def test_select_output():
    x, mask = fluid.data("x", [1]), fluid.data("mask", [1], "int32")
    outs = [fluid.default_main_program().current_block().create_var(name=n, shape=[1]) for n in ("p", "q")]
    flow.select_output(x, outs, mask)
    feed = {"x": np.array([4.0], "float32"), "mask": np.array([1], "int32")}
    assert np.array(run(feed, outs[1])[0]).tolist() == [4.0]


@covers("merge_lod_tensor_infer")
def test_merge_infer():
    block = fluid.default_main_program().current_block()
    yes, no = fluid.data("yes", [2, 1]), fluid.data("no", [1, 1])
    mask = fluid.data("mask", [3, 1], "bool")
    out = block.create_var(name="out")
    block.append_op(
        type="merge_lod_tensor_infer",
        inputs={"X": mask, "Mask": mask, "InTrue": yes, "InFalse": no},
        outputs={"Out": out},
        attrs={"level": 0},
    )
    feed = {"yes": np.array([[1.0], [2]], "float32"), "no": np.array([[3.0]], "float32")}
    feed["mask"] = np.array([[True], [False], [True]])
    assert np.array(run(feed, out)[0])[:, 0].tolist() == [1, 3, 2]


@covers("get_places")
def test_get_places():
    from paddle.fluid.layers.device import get_places

    places = get_places(device_count=2, device_type="CPU")
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_main_program())
    assert places is not None
