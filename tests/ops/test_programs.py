"""Operators that need a Program: sub-blocks, arrays, files, readers, py_func. Each test names the operators it covers,
and the fixture checks that its Program contains them."""

from __future__ import annotations

import contextlib

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from case import covers
from paddle.fluid import layers
from paddle.static import Executor

X = np.float32([[1, 2], [3, 4], [5, np.nan], [7, -np.inf]])


@pytest.fixture(autouse=True)
def program(request):
    """Empty default Programs in static mode and an empty Scope."""
    wanted = {name for mark in request.node.iter_markers("operators") for name in mark.args}
    main, startup, scope = paddle.static.Program(), paddle.static.Program(), paddle.static.Scope()
    paddle.enable_static()
    try:
        with paddle.static.program_guard(main, startup), paddle.static.scope_guard(scope):
            yield main
    finally:
        paddle.disable_static()
    held = {op.type for p in (main, startup, *getattr(main, "others", [])) for b in p.blocks for op in b.ops}
    assert wanted <= held, f"the test does not use {wanted - held}"


def run(fetch, numpy=True, **feed):
    return Executor().run(feed=feed, fetch_list=fetch, return_numpy=numpy)


def data(name, *shape, dtype="float32", **more):
    var = paddle.static.data(name, list(shape), dtype, **more)
    var.stop_gradient = dtype == "int64"
    return var


def append(op, inputs, outs, **attrs):
    """Appends an operator; its outputs are new variables, `outs` being slot=dtype."""
    block = paddle.static.default_main_program().current_block()
    made = {slot: block.create_var(dtype=dtype) for slot, dtype in outs.items()}
    block.append_op(type=op, inputs=inputs, outputs=made, attrs=attrs)
    return list(made.values())


def number(i):
    return layers.fill_constant([1], "int64", i)


def second_order(out, x, dout):
    """[d out / d x, and its derivative with respect to `dout`, both weighted by ones]."""
    (dx,) = paddle.static.gradients([out], [x], target_gradients=[dout])
    return [dx, *paddle.static.gradients([dx], [dout])]


# Arrays


@covers("write_to_array", "read_from_array", "lod_array_length")
def test_arrays():
    x, d = data("x", 2, 3), data("d", 2, 3)
    array = layers.array_write(x * 2.0, number(0))
    layers.array_write(x * 3.0, number(2), array=array)
    out = layers.array_read(array, number(2))
    grads = second_order(out, x, d)
    value = np.arange(6, dtype="float32").reshape(2, 3)
    got = run([out, layers.array_length(array), *grads], x=value, d=value + 1)
    for g, want in zip(got, [value * 3, [3], (value + 1) * 3, np.full((2, 3), 3)], strict=True):
        np.testing.assert_array_equal(g, want)
    nothing = layers.array_read(array, number(7))
    with pytest.raises(IndexError):
        run([nothing], x=value, d=value)


@covers("write_to_array", "read_from_array", "lod_array_length")
def test_an_array_of_other_types_and_no_elements():
    x, i = data("x", 0, 3, dtype="int64"), data("i", 1, dtype="int64")
    array = layers.array_write(x, i)
    got = run([layers.array_read(array, i), layers.array_length(array)], x=np.zeros((0, 3), "int64"), i=[4])
    assert got[0].shape == (0, 3) and got[0].dtype == np.int64 and got[1].tolist() == [5]
    with pytest.raises(IndexError):
        run([layers.array_length(array)], x=np.zeros((0, 3), "int64"), i=[-1])


@covers("tensor_array_to_tensor")
@pytest.mark.parametrize("stack, axis", [(False, 0), (False, 1), (True, 0), (True, 1)])
def test_array_to_tensor(stack, axis):
    parts = [data(f"p{i}", 2, 3) for i in range(3)]
    array = layers.create_array("float32")
    for i, p in enumerate(parts):
        layers.array_write(p, number(i), array)
    out, index = layers.tensor_array_to_tensor(array, axis=axis, use_stack=stack)
    weight = np.arange(18, dtype="float32")
    values = [np.arange(6, dtype="float32").reshape(2, 3) + i for i in range(3)]
    want = (np.stack if stack else np.concatenate)(values, axis)
    grads = paddle.static.gradients([layers.reduce_sum(out * layers.assign(weight.reshape(want.shape)))], parts)
    got = run([out, index, *grads], **{f"p{i}": v for i, v in enumerate(values)})
    np.testing.assert_array_equal(got[0], want)
    assert got[1].tolist() == [values[0].shape[axis]] * 3  # also of a stack
    cut = np.moveaxis(weight.reshape(want.shape), axis, 0)
    for g, w in zip(got[2:], cut if stack else np.split(cut, 3), strict=True):
        np.testing.assert_array_equal(g, w if stack else np.moveaxis(w, 0, axis))


@covers("delete_var")
def test_delete_var(program):
    kept = fluid.layers.create_global_var([2], 3.0, "float32", persistable=True, name="kept")
    gone = fluid.layers.create_global_var([2], 4.0, "float32", persistable=True, name="gone")
    total = kept + gone
    program.global_block().append_op(type="delete_var", inputs={"X": [gone]}, outputs={})
    exe = Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    assert exe.run(program, fetch_list=[total])[0].tolist() == [7, 7]
    scope = paddle.static.global_scope()
    assert np.array(scope.find_var("kept").get_tensor()).tolist() == [3, 3]
    assert not scope.find_var("gone").get_tensor()._is_initialized()


@covers("reverse")
def test_reversed_array():
    array = layers.array_write(data("x", 2), number(0))
    layers.array_write(data("y", 3), number(1), array=array)
    turned = layers.reverse(array, 0)
    got = run([layers.array_read(turned, number(i)) for i in (0, 1)], x=np.float32([1, 2]), y=np.float32([3, 4, 5]))
    assert [g.tolist() for g in got] == [[3, 4, 5], [1, 2]]
    with pytest.raises((RuntimeError, ValueError)):
        run([layers.array_length(layers.reverse(array, 1))], x=np.float32([1, 2]), y=np.float32([3, 4, 5]))


# Branches and loops


def split(x, mask, level=0):
    return append("split_lod_tensor", {"X": x, "Mask": mask}, {"OutTrue": x.dtype, "OutFalse": x.dtype}, level=level)


@covers("split_lod_tensor", "merge_lod_tensor")
@pytest.mark.parametrize("rows", [[1, 0, 0, 1], [0] * 4, [1] * 4, []])
def test_rows_by_a_mask(rows):
    n, chosen = len(rows), np.array(rows, bool)
    x, d, mask = data("x", -1, 2), data("d", -1, 2), data("mask", -1, 1, dtype="bool")
    yes, no = split(x, mask)
    inputs = {"X": x, "Mask": mask, "InTrue": yes * 2.0, "InFalse": no * 3.0}
    (out,) = append("merge_lod_tensor", inputs, {"Out": "float32"}, level=0)
    grads = second_order(out, x, d)
    value, seed = X[:n], np.arange(2 * n, dtype="float32").reshape(n, 2)
    got = run([yes, no, out, *grads], x=value, d=seed, mask=chosen[:, None])
    factor = np.where(chosen, 2, 3).astype("float32")[:, None]
    wants = [value[chosen], value[~chosen], value * factor, seed * factor, factor * np.ones((n, 2), "float32")]
    for g, want in zip(got, wants, strict=True):
        np.testing.assert_array_equal(g.reshape(want.shape), want)


@covers("split_lod_tensor")
def test_sequences_by_a_mask():
    x, mask = data("x", -1, 1, dtype="int64", lod_level=1), data("mask", -1, 1, dtype="bool")
    fed = fluid.create_lod_tensor(np.arange(6)[:, None], [[3, 1, 2]], None)
    yes, no = run(split(x, mask), numpy=False, x=fed, mask=np.array([[True], [False], [True]]))
    assert np.array(yes).ravel().tolist() == [0, 1, 2, 4, 5] and yes.recursive_sequence_lengths() == [[3, 2]]
    assert np.array(no).ravel().tolist() == [3] and no.recursive_sequence_lengths() == [[1]]


@covers("while", "increment", "less_than")
@pytest.mark.parametrize("times", [0, 1, 4])
def test_while(times):
    i, n, x = number(0), data("n", 1, dtype="int64"), data("x", 3)
    array = layers.array_write(x, i)
    going = layers.less_than(i, n)
    loop = layers.While(going)
    with loop.block():
        value = layers.array_read(array, i)
        layers.increment(i)
        layers.array_write(value * value, i, array=array)
        layers.less_than(i, n, cond=going)
    out = layers.array_read(array, i)
    value, power = np.float32([1.5, -1.0, np.nan]), 2**times
    got, count = run([out, i], x=value, n=[times])
    np.testing.assert_allclose(got, value**power, rtol=1e-6)
    assert count.tolist() == [times]
    (grad,) = paddle.static.gradients([out], [x])
    got, count = run([grad, i], x=value, n=[times])
    assert count.tolist() == [times]  # 2.0.2's gradient of increment counts down
    np.testing.assert_allclose(got, power * value ** (power - 1), rtol=1e-6)


@covers("conditional_block")
@pytest.mark.parametrize("value, out, grad", [(2.0, 4.0, 4.0), (-3.0, -9.0, 3.0)])
def test_conditional_block(value, out, grad):
    x = data("x", 1)
    y = layers.cond(x > 0.0, lambda: x * x, lambda: x * 3.0)
    (dx,) = paddle.static.gradients([y], [x])
    got = run([y, dx], x=np.float32([value]))
    assert [g.item() for g in got] == [out, grad]


@covers("conditional_block_infer")
@pytest.mark.parametrize("chosen", [True, False])
def test_conditional_block_of_inference(program, chosen):
    x, condition = data("x", 2), data("condition", 1, dtype="bool")
    out = layers.zeros([2], "float32")
    scopes = program.current_block().create_var(type=fluid.core.VarDesc.VarType.STEP_SCOPES)
    block = program._create_block()
    block.append_op(type="scale", inputs={"X": x}, outputs={"Out": out}, attrs={"scale": 5.0})
    program._rollback()
    program.current_block().append_op(
        type="conditional_block_infer",
        inputs={"Cond": [condition], "Input": [x]},
        outputs={"Out": [out], "Scope": [scopes]},
        attrs={"sub_block": block, "is_scalar_condition": True},
    )
    (got,) = run([out], x=np.float32([1, 2]), condition=[chosen])
    assert got.tolist() == ([5, 10] if chosen else [0, 0])


# Python, feeds and fetches


@covers("feed", "fetch")
def test_feed_and_fetch(program):
    holders = {}
    for name, kind in (("feed", "FEED_MINIBATCH"), ("fetch", "FETCH_LIST")):
        kind = getattr(fluid.core.VarDesc.VarType, kind)
        holders[name] = program.global_block().create_var(name=name, type=kind, persistable=True)
    x = data("x", -1, 2)
    block = program.global_block()
    block._prepend_op(type="feed", inputs={"X": [holders["feed"]]}, outputs={"Out": [x]}, attrs={"col": 0})
    out = x * 2.0
    block.append_op(type="fetch", inputs={"X": [out]}, outputs={"Out": [holders["fetch"]]}, attrs={"col": 0})
    np.testing.assert_array_equal(run([out], x=X)[0], X * 2)
    assert run([out], x=X[:0])[0].shape == (0, 2)


@pytest.mark.filterwarnings("ignore:the Program has no operators to run")
def test_fetch_of_a_missing_name():
    data("x", 1)
    with pytest.raises(RuntimeError, match="nowhere.*no operator of the Program has written it"):
        run(["nowhere"], x=np.float32([1]))


def test_fetch_of_a_variable_that_is_never_written():
    """As in Paddle, all variables of the Program exist before a run; this one is empty."""
    x, y = data("x", 1), data("y", 1)
    assert [v is None for v in run([x * 2.0, y], x=np.float32([1]))] == [False, True]
    exe = fluid.Executor()
    assert not exe.run(feed={"x": np.float32([1])}, fetch_list=[y], return_numpy=False)[0]._is_initialized()


@covers("print")
def test_print(capfd):
    x, d = data("x", 2, 2), data("d", 2, 2)
    out = layers.Print(x, message="the rows", summarize=2, print_phase="both")
    got = run([out, *second_order(out, x, d)], x=X[2:], d=X[:2])
    for g, want in zip(got, [X[2:], X[:2], np.ones((2, 2))], strict=True):
        np.testing.assert_array_equal(g, want)
    printed = "".join(capfd.readouterr())
    assert "the rows" in printed and "shape" in printed


@covers("py_func")
def test_py_func(program):
    x, d = data("x", 2), data("d", 2)
    out = program.current_block().create_var(name="out", dtype="float32", shape=[2])
    layers.py_func(
        lambda a: np.tanh(np.array(a)),
        x,
        out,
        backward_func=lambda a, y, dy: np.array(dy) * (1 - np.square(np.array(y))),
    )
    (dx,) = paddle.static.gradients([out], [x], target_gradients=[d])
    value = np.float32([0.5, -2])
    got = run([out, dx], x=value, d=np.float32([1, 10]))
    np.testing.assert_allclose(got[0], np.tanh(value), rtol=1e-6)
    np.testing.assert_allclose(got[1], [1, 10] * (1 - np.tanh(value) ** 2), rtol=1e-5)


@covers("py_func")
def test_py_func_that_raises(program):
    out = program.current_block().create_var(name="out", dtype="float32", shape=[2])

    def wrong(a):
        raise KeyError("from within")

    layers.py_func(wrong, data("x", 2), out)
    with pytest.raises(KeyError, match="from within"):
        run([out], x=np.zeros(2, "float32"))


@covers("py_func")
def test_py_func_without_outputs(program):
    seen = []
    x = data("x", 2)
    layers.py_func(lambda a: seen.append(np.array(a).tolist()), x, None)
    run([x * 1.0], x=np.float32([0.5, -2]))
    assert seen == [[0.5, -2]]


@pytest.mark.filterwarnings("ignore:fluid.layers.py_reader is deprecated")
@covers("create_py_reader", "create_double_buffer_reader", "read")
def test_readers():
    reader = layers.py_reader(2, [[-1, 2], [-1, 1]], ["float32", "int64"], use_double_buffer=True)
    x, y = layers.read_file(reader)
    reader.decorate_batch_generator(lambda: ((X[:i], np.full((i, 1), i)) for i in range(3)))
    exe = Executor()
    exe.run(paddle.static.default_startup_program())
    for _ in range(2):
        reader.start()
        got = []
        with contextlib.suppress(fluid.core.EOFException):
            while True:
                got.append(exe.run(fetch_list=[x, y]))
        assert [len(a) for a, _ in got] == [0, 1, 2]
        for i, (a, b) in enumerate(got):
            np.testing.assert_array_equal(a, X[:i])
            assert b.dtype == np.int64 and (b == i).all()
        reader.reset()


# Files


@covers("save", "load")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
@pytest.mark.parametrize("rows", [4, 0])
def test_save_and_load(program, tmp_path, dtype, rows):
    path, value = str(tmp_path / "deep" / "file"), np.nan_to_num(X[:rows], posinf=7, neginf=-7).astype(dtype)
    x = data("x", -1, 2, dtype=dtype, lod_level=1)
    program.global_block().append_op(type="save", inputs={"X": [x]}, outputs={}, attrs={"file_path": path})
    lengths = [[1, rows - 1]] if rows else [[0, 0]]
    run([], x=fluid.create_lod_tensor(value, lengths, None))
    loading = paddle.static.Program()
    program.others = [loading]
    out = loading.global_block().create_var(name="out", dtype=dtype, persistable=True)
    loading.global_block().append_op(type="load", inputs={}, outputs={"Out": [out]}, attrs={"file_path": path})
    (got,) = Executor().run(loading, fetch_list=[out], return_numpy=False)
    np.testing.assert_array_equal(np.array(got), value)
    assert np.array(got).dtype == value.dtype and got.recursive_sequence_lengths() == lengths
    (tmp_path / "deep" / "file").unlink()
    with pytest.raises(RuntimeError, match="file"):
        Executor().run(loading)


@covers("save_combine", "load_combine")
@pytest.mark.parametrize("in_memory", [False, True])
def test_save_and_load_combine(program, tmp_path, in_memory):
    path = str(tmp_path / "file")
    xs = [data("x", -1, 2), data("y", -1, dtype="int64")]
    held = program.global_block().create_var(name="held", type=fluid.core.VarDesc.VarType.RAW, persistable=True)
    attrs = {"file_path": path, "save_to_memory": in_memory}
    program.global_block().append_op(type="save_combine", inputs={"X": xs}, outputs={"Y": held}, attrs=attrs)
    run([], x=X, y=np.arange(300))
    content = paddle.static.global_scope().find_var("held").get_bytes() if in_memory else path

    def load(content, n=2):
        loading = paddle.static.Program()
        program.others = [loading]
        outs = [loading.global_block().create_var(name=f"out{i}", dtype="float32", persistable=True) for i in range(n)]
        attrs = {"file_path": content, "model_from_memory": in_memory}
        loading.global_block().append_op(type="load_combine", inputs={}, outputs={"Out": outs}, attrs=attrs)
        again = paddle.static.Program.parse_from_string(loading.desc.serialize_to_string())
        return [Executor().run(p, fetch_list=["out0"])[0] for p in (loading, again)] + [
            np.array(paddle.static.global_scope().find_var(f"out{i}").get_tensor()) for i in range(n)
        ]

    first, again, one, two = load(content)
    for got in (first, again, one):
        np.testing.assert_array_equal(got, X)
    assert two.dtype == np.int64 and two.tolist() == list(range(300))
    with pytest.raises((RuntimeError, ValueError)):
        load(content, 1)
    with pytest.raises((RuntimeError, ValueError)):
        load(content, 3)
    if in_memory:
        for broken in (content[:-1], content[:40], b"", b"\xff\xfe"):
            with pytest.raises((RuntimeError, ValueError)):
                load(broken)


def test_missing_models(tmp_path):
    """The errors of 2.0.2: Python's own for files, ValueError for a missing folder or path."""
    exe, nowhere = Executor(), str(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        paddle.static.load_inference_model(nowhere, exe)
    with pytest.raises(ValueError, match="There is no directory named"):
        fluid.io.load_inference_model(nowhere, exe)
    with pytest.raises(FileNotFoundError):
        fluid.io.load_inference_model(str(tmp_path), exe)
    with pytest.raises(ValueError, match="to load model not exists"):
        paddle.load(nowhere)
    x = data("x", -1, 2)
    out = paddle.static.nn.fc(x, 3)
    exe.run(paddle.static.default_startup_program())
    paddle.static.save_inference_model(str(tmp_path / "net"), [x], [out], exe)
    (tmp_path / "net.pdiparams").unlink()
    with pytest.raises(FileNotFoundError):
        paddle.static.load_inference_model(str(tmp_path / "net"), exe)
