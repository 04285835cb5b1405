"""run_program: the operators of a Program's block as one dygraph operator, with its gradient."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle import _core
from paddle.static import Program, program_guard

rng = np.random.default_rng(3)


def built(model):
    """(Program, number of forward operators, parameters by name, names of the outputs of `model`) with gradients."""
    paddle.enable_static()
    main, startup, scope = Program(), Program(), fluid.core.Scope()
    with program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(scope):
        inputs, outs = model()
        forward = len(main.global_block().ops)
        fluid.gradients(outs, inputs)
        if startup.global_block().ops:
            fluid.Executor().run(startup)
        params = {p.name: np.array(scope.find_var(p.name).get_tensor()) for p in main.list_vars() if p.persistable}
    paddle.disable_static()
    return main, forward, params, [v.name for v in outs]


def tensor(name, value, stop_gradient=True):
    t = paddle.to_tensor(value, stop_gradient=stop_gradient)
    t.name = name
    return t


def run(main, forward, xs, params, outs, **attrs):
    made = [tensor(n, np.zeros(1, "float32")) for n in outs]
    _core.ops.run_program(
        xs, params, Out=made, global_block=main.desc.block(0), start_op_index=0, end_op_index=forward, **attrs
    )
    return made


def net():
    x = paddle.static.data("x", [None, 4], "float32")
    x.stop_gradient = False
    w = paddle.static.create_parameter([4, 3], "float32", name="w")
    h = paddle.tanh(paddle.matmul(x, w))
    return [x, w], [h * h]


@pytest.mark.operators("run_program", "run_program_grad")
def test_values_and_gradients():
    main, forward, params, outs = built(net)
    x, w = rng.normal(size=(5, 4)).astype("float32"), params["w"]
    want = {}
    for way in ("dygraph", "program"):
        a, b = tensor("x", x, False), tensor("w", w, False)
        if way == "dygraph":
            h = paddle.tanh(paddle.matmul(a, b))
            out = h * h
        else:
            (out,) = run(main, forward, [a], [b], outs)
        (out * 2).sum().backward()
        want[way] = (out.numpy(), a.grad, b.grad)
    for got, value in zip(want["program"], want["dygraph"], strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-6)


def test_calls_are_independent():
    """Two forward calls before the backward of both."""
    main, forward, params, outs = built(net)
    one, two = (rng.normal(size=(2, 4)).astype("float32") for _ in range(2))
    grads = []
    for together in (True, False):
        w = tensor("w", params["w"], False)
        if together:
            total = sum(run(main, forward, [tensor("x", x, False)], [w], outs)[0].sum() for x in (one, two))
            total.backward()
        else:
            for x in (one, two):
                run(main, forward, [tensor("x", x, False)], [w], outs)[0].sum().backward()
        grads.append(w.grad)
    np.testing.assert_allclose(grads[0], grads[1], rtol=1e-6)


def test_loops():
    def model():
        x = paddle.static.data("x", [2], "float32")
        x.stop_gradient = False
        n, i = paddle.full([1], 3, "int64"), paddle.zeros([1], "int64")
        n.stop_gradient = i.stop_gradient = True
        _, y = paddle.static.nn.while_loop(lambda i, y: i < n, lambda i, y: [i + 1, y * x], [i, x * 1.0])
        return [x], [y]

    main, forward, _, outs = built(model)
    x = tensor("x", np.float32([2, 3]), False)
    (y,) = run(main, forward, [x], [], outs)
    y.sum().backward()
    assert y.numpy().tolist() == [16, 81] and x.grad.tolist() == [32, 108]


def test_statistics_are_updated_in_their_variables():
    def model():
        x = paddle.static.data("x", [None, 2], "float32")
        x.stop_gradient = False
        return [x], [paddle.static.nn.batch_norm(x, moving_mean_name="mean", moving_variance_name="variance")]

    main, forward, params, outs = built(model)
    given = [tensor(n, v, n in ("mean", "variance")) for n, v in params.items()]
    mean = next(t for t in given if t.name == "mean")
    run(main, forward, [tensor("x", np.float32([[1, 2], [3, 6]]), False)], given, outs)[0].sum().backward()
    np.testing.assert_allclose(mean.numpy(), [0.2, 0.4], rtol=1e-5)


def test_sparse_gradients():
    def model():
        ids = paddle.static.data("ids", [None], "int64")
        rows = fluid.input.embedding(ids, [6, 2], is_sparse=True, param_attr=fluid.ParamAttr(name="table"))
        return [main_parameter("table")], [rows]

    def main_parameter(name):
        return paddle.static.default_main_program().global_block().var(name)

    main, forward, params, outs = built(model)
    table = tensor("table", params["table"], False)
    run(main, forward, [tensor("ids", np.int64([4, 1, 4]))], [table], outs)[0].sum().backward()
    assert table.gradient()[0].shape[1:] == (2,) if isinstance(table.gradient(), tuple) else table.gradient().sum() == 6


def test_the_tracer_runs_it_by_variable_names():
    main, forward, params, outs = built(net)
    x, w, out = tensor("x", np.ones((1, 4), "float32")), tensor("w", params["w"], False), tensor(outs[0], [0.0])
    attrs = {"global_block": main.desc.block(0), "start_op_index": 0, "end_op_index": forward}
    with fluid.dygraph.guard():
        fluid.framework._dygraph_tracer().trace_op(
            "run_program", {"X": [x], "Params": [w]}, {"Out": [out], "OutScope": [tensor("scope", [0.0])]}, attrs
        )
    np.testing.assert_allclose(out.numpy(), np.tanh(np.ones((1, 4), "float32") @ params["w"]) ** 2, rtol=1e-5)
    out.backward()
    assert w.grad.shape == (4, 3)


def test_wrong_calls():
    main, forward, params, outs = built(net)
    x, w = tensor("x", np.ones((1, 4), "float32")), tensor("w", params["w"])
    with pytest.raises(IndexError, match="end_op_index"):
        run(main, 99, [x], [w], outs)
    with pytest.raises(RuntimeError, match="must not be empty"):
        run(main, forward, [], [w], outs)
    with pytest.raises(RuntimeError, match="no_such"):
        run(main, forward, [x], [w], ["no_such"])
    with pytest.raises((ValueError, TypeError, RuntimeError), match="global_block"):
        _core.ops.run_program([x], [w], Out=[x], global_block=0, start_op_index=0, end_op_index=1)
    (y,) = run(main, forward, [x], [w], outs, is_test=True)
    assert y.shape == [1, 3]
