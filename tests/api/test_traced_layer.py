"""paddle.jit.TracedLayer: a layer recorded as a Program, from functions and from Python operators."""

import os

import numpy as np
import paddle
import pytest

trace = paddle.jit.TracedLayer.trace


def numbers(rows, seed=1):
    return paddle.to_tensor(np.random.RandomState(seed).uniform(-1, 1, [rows, 3]).astype("float32"))


class Net(paddle.nn.Layer):
    def __init__(self, run):
        super().__init__()
        self.run = run
        self.linear = paddle.nn.Linear(3, 3)
        self.offset = paddle.to_tensor(np.array([1.0, 2.0, 3.0], "float32"))

    def forward(self, x):
        return self.run(self, x)


def test_traced_layer(tmp_path):
    net = paddle.nn.Sequential(paddle.nn.Linear(3, 4), paddle.nn.ReLU(), paddle.nn.Linear(4, 2))
    x = numbers(5)
    out, traced = trace(net, x)
    np.testing.assert_array_equal(traced([x])[0], out.numpy())
    net[0].weight.set_value(net[0].weight.numpy() * 2)
    np.testing.assert_array_equal(traced([x])[0], net(x).numpy())
    traced.save_inference_model(str(tmp_path))
    assert os.path.exists(tmp_path / "__model__")


OPERATORS = {
    "add": lambda net, x: x + net.offset,
    "add_number": lambda net, x: x + 1,
    "subtract_from": lambda net, x: 1 - x,
    "divide_by_it": lambda net, x: 2.5 / (x + 3),
    "power": lambda net, x: x**2,
    "power_of_number": lambda net, x: 2.5**x,
    "modulo": lambda net, x: (x * 10) % 3,
    "floor_divide": lambda net, x: (x * 10).astype("int32") // 3,
    "types_meet": lambda net, x: x + paddle.ones([1], "int64"),
    "int_to_float": lambda net, x: (x * 4).astype("int64") / 2,
    "compare": lambda net, x: (x > 0.1).astype("float32") * x,
    "equal": lambda net, x: x.astype("int32") == 0,
    "negate": lambda net, x: -x,
    "product": lambda net, x: x @ net.linear.weight,
    "integer": lambda net, x: x[:, 1],
    "step": lambda net, x: x[:, ::2],
    "new_axis": lambda net, x: x[:, None, 1:],
    "ellipsis": lambda net, x: x[..., None],
    "of_recorded": lambda net, x: net.linear(x)[:, 1] * 2 - 1,
    "detached": lambda net, x: net.linear(x).detach() + x.detach(),
    "in_and_out": lambda net, x: [x, x.detach(), net.linear.weight],
}


@pytest.mark.filterwarnings("ignore:the Program has no operators", "ignore:The dtype of left and right variables")
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name, recorded):
    net = Net(OPERATORS[name])
    former = paddle._core.set_grad_enabled(recorded)
    try:
        traced = trace(net, [numbers(5)])[1]
    finally:
        paddle._core.set_grad_enabled(former)
    for x in (numbers(5), numbers(7, seed=2)):
        expected = net(x)
        for got, out in zip(traced([x]), expected if isinstance(expected, list) else [expected], strict=True):
            assert got.dtype == out.numpy().dtype
            np.testing.assert_array_equal(got, out.numpy())


def test_existing_tensors_keep_their_names():
    net = Net(lambda net, x: net.linear(x) + net.offset)
    program = trace(net, [numbers(5)])[1].program
    names = {var.name for var in program.list_vars() if var.persistable}
    assert names == {net.linear.weight.name, net.linear.bias.name, net.offset.name}


def test_attributes_equal_those_of_the_call():
    ops = trace(Net(lambda net, x: (x * 2.5)[:, 1:]), [numbers(5)])[1].program.global_block().ops
    assert [op.type for op in ops] == ["scale", "slice"]
    assert ops[0].attr("scale") == 2.5 and list(ops[1].attr("starts")) == [1]


def test_statistics_are_updated():
    paddle.seed(1)
    norm = paddle.nn.BatchNorm1D(3)
    x = numbers(5)
    traced = trace(Net(lambda net, x: norm(x) + x), [x])[1]
    before = norm._mean.numpy()
    traced([x])
    assert not np.array_equal(norm._mean.numpy(), before)


def assigned(net, x):
    y = x * 1
    y[0] = 0.0
    return y + 1


def gradient(net, x):
    y = x * 1
    y.stop_gradient = False
    return x + paddle.grad([(y * y).sum()], [y])[0]


@pytest.mark.parametrize("run", [assigned, gradient, lambda net, x: x + paddle.to_tensor(x.numpy())])
def test_values_without_an_operator(run):
    x = numbers(5)
    with pytest.raises(RuntimeError, match="TracedLayer: operator .* which got its value from an array"):
        trace(Net(run), [x])
    assert (x + 1).shape == [5, 3] and paddle.in_dynamic_mode()


def test_a_layer_that_fails_ends_tracing():
    def fails(net, x):
        with pytest.raises(RuntimeError, match="traced already"):
            trace(Net(OPERATORS["add"]), [x])
        raise KeyError("forward")

    with pytest.raises(KeyError, match="forward"):
        trace(Net(fails), [numbers(5)])
    assert len(trace(Net(OPERATORS["add"]), [numbers(5)])[1].program.global_block().ops) == 1


def test_wrong_arguments(tmp_path):
    traced = trace(Net(OPERATORS["add"]), [numbers(5)])[1]
    with pytest.raises(AssertionError, match="'build_strategy' .* be fluid.BuildStrategy, but received <class 'int'>"):
        traced.set_strategy(1)
    with pytest.raises(TypeError, match="The type of 'dirname' in .* be <class 'str'>, but received <class 'list'>"):
        traced.save_inference_model([0])
    with pytest.raises(TypeError, match="each element of fetch"):
        traced.save_inference_model(str(tmp_path), [0], [None])


def test_program_desc_tracer():
    """The interface of Paddle's internal class, by which packages make Programs of layers."""
    from paddle.fluid.dygraph.base import program_desc_tracing_guard
    from paddle.fluid.framework import Block, Program, _dygraph_guard, _dygraph_tracer

    layer = paddle.nn.Linear(3, 2)
    tracer = _dygraph_tracer()._get_program_desc_tracer()
    with program_desc_tracing_guard(True):
        x = paddle.to_tensor(np.ones((4, 3), "float32"))
        out = layer(x)
        desc, feeds, fetches, parameters = tracer.create_program_desc([x], "in_", [out], "out_", "tmp_")
        tracer.reset()
    assert (feeds, fetches) == (["in_0"], ["out_0"])
    assert {p.name for p in parameters} == {layer.weight.name, layer.bias.name}
    with _dygraph_guard(None):
        program = Program()
        program.desc = desc
        program.blocks = [Block(program, 0)]
        program._sync_with_cpp()
    assert layer.weight.name in program.global_block().ops[0].input_arg_names
    paddle.jit.TracedLayer.trace(layer, [x])  # the record of the guard has ended
