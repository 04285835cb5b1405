"""to_static: values, gradients and Programs of functions without control flow."""

import gc

import numpy as np
import paddle
import pytest
from paddle.jit import to_static
from paddle.static import InputSpec


def test_a_function():
    @to_static
    def f(x, y=2.0):
        return x * y + 1

    x = paddle.to_tensor(np.float32([1, 2]), stop_gradient=False)
    out = f(x)
    assert out.numpy().tolist() == [3, 5]
    out.sum().backward()
    assert x.grad.tolist() == [2, 2]
    assert f(x, 3.0).numpy().tolist() == [4, 7]
    assert f.get_traced_count() == 2


def test_one_tensor_as_two_arguments():
    @to_static
    def f(x, y):
        return x * y

    x = paddle.to_tensor(np.float32([3]), stop_gradient=False)
    f(x, x).backward()
    assert x.grad.tolist() == [6]


@pytest.mark.parametrize("train", [True, False])
def test_a_layer_is_trained_as_in_dygraph(train):
    def model():
        paddle.seed(1)
        net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.BatchNorm1D(8), paddle.nn.ReLU())
        if not train:
            net.eval()
        return net

    x = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    ends = []
    for static in (False, True):
        net = model()
        opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
        if static:
            net = to_static(net)
        for _ in range(3):
            loss = (net(paddle.to_tensor(x)) ** 2).mean()
            loss.backward()
            opt.step()
            opt.clear_grad()
        ends.append([v.numpy() for v in net.state_dict().values()] + [loss.numpy()])
    for a, b in zip(*ends, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_input_spec_keeps_one_program_for_all_sizes():
    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.fc = paddle.nn.Linear(3, 2)

        @to_static(input_spec=[InputSpec([None, 3], name="image")])
        def forward(self, x):
            return self.fc(x)

    net = Net()
    assert [v.name for v in net.forward.inputs] == ["image"]
    for n in (1, 5):
        assert net(paddle.ones([n, 3])).shape == [n, 2]
    assert net.forward.get_traced_count() == 1
    assert isinstance(net.forward.main_program, paddle.static.Program)
    with pytest.raises(ValueError, match=r"argument 'x'.*\[-1, 3\].*\[2, 4\]"):
        net(paddle.ones([2, 4]))


def test_sizes_are_numbers():
    def f(x):
        n = x.shape[0]
        return n * x, n / x, n / 2 * x, len(x) * x

    static = to_static(f, input_spec=[InputSpec([None], name="x")])
    for size in (3, 5):
        x = paddle.arange(1, size + 1).astype("float32") / 4
        for got, want in zip(static(x), f(x), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
    assert static.get_traced_count() == 1


def test_buffers_that_forward_assigns():
    class Counts(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", paddle.zeros([1]))

        @to_static
        def forward(self, x):
            before = self.n
            self.n = before + 1
            return x + before

    net = Counts()
    assert [net(paddle.zeros([1])).item() for _ in range(3)] == [0, 1, 2]
    assert net.n.item() == 3


def test_rollback():
    translator = paddle.jit.ProgramTranslator()
    f = to_static(lambda x: x + 1)
    translator.enable(False)
    try:
        with pytest.warns(UserWarning, match="no effect"):
            assert f(paddle.ones([1])).item() == 2
    finally:
        translator.enable(True)
    assert f.get_traced_count() == 0


class Scaled(paddle.nn.Layer):
    """The input is changed before the first parameter, by an operator of its own and in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = paddle.nn.Linear(3, 2)

    def forward(self, x):
        x = paddle.transpose(x, [1, 0]) * 2.0
        if x.shape[0] > 100:
            x = x + 1.0
        return self.linear(x)


@pytest.mark.parametrize("needed", [False, True])
def test_gradients_that_end_at_the_input_are_not_computed(needed):
    """As in dygraph mode; the gradient of an LSTM's input is 5 % of a step."""
    from paddle.jit.partial_program import PartialProgramLayer

    net, x = Scaled(), paddle.to_tensor(np.ones([3, 4], "float32"), stop_gradient=not needed)
    net(x).sum().backward()
    want = [p.grad.copy() for p in net.parameters()], x.grad
    net.clear_gradients()
    x.clear_gradient()
    static = paddle.jit.to_static(net)
    static(x).sum().backward()
    for p, grad in zip(net.parameters(), want[0], strict=True):
        np.testing.assert_array_equal(p.grad, grad)
    found = [o for o in gc.get_objects() if type(o) is PartialProgramLayer]
    (partial,) = [o for o in found if any(tensor is net.linear.weight for tensor, _ in o._captured)]
    operators = partial._train_program.global_block().ops
    (product,) = [op for op in operators if op.type in ("matmul_grad", "matmul_v2_grad")]
    assert (product.output("X@GRAD") != ["@EMPTY@"]) == needed
    assert any(op.type == "transpose2_grad" for op in operators) == needed
    if needed:
        np.testing.assert_array_equal(x.grad, want[1])


def test_mask_of_an_unknown_length():
    """generate_square_subsequent_mask wanted an int."""

    def f(x):
        return x + paddle.nn.Transformer.generate_square_subsequent_mask(None, x.shape[1])

    static = to_static(f, input_spec=[InputSpec([None, None], name="x")])
    for size in (2, 3):
        x = paddle.rand([size, size])
        np.testing.assert_array_equal(static(x).numpy(), f(x).numpy())
