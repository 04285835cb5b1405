"""Gradients of loaded Layers: detach, no_grad and stop_gradient of the saved Layer are in its files."""

from __future__ import annotations

import os

import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.static import InputSpec

SPEC = [InputSpec([None, 3], "float32", "x")]


class Base(nn.Layer):
    """Two linear layers and a buffer; one parameter may be frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.g = nn.Linear(3, 3), nn.Linear(3, 3)
        self.register_buffer("b", paddle.to_tensor([1.0, 2.0, 3.0]))


class Detached(Base):
    def forward(self, x):
        h = self.f(x).detach()
        return h * self.g(x)


class NoGrad(Base):
    def forward(self, x):
        with paddle.no_grad():
            h = self.f(x)
            h = h * h
        return h * self.g(x) * self.b


class Decorated(Base):
    @paddle.no_grad()
    def target(self, x):
        return self.f(self.g(x))

    def forward(self, x):
        return self.target(x) * self.g(x)


class Assigned(Base):
    def forward(self, x):
        h = self.f(x)
        h.stop_gradient = True
        return h * self.g(x) + h * x


class InBranch(Base):
    def forward(self, x):
        if x.sum() > 0:
            h = self.f(x).detach()
        else:
            h = self.f(x)
        with paddle.no_grad():
            if x.sum() > -100:
                k = self.g(x) * 2
            else:
                k = self.f(x)
        return h * self.g(x) + k * self.f(x)


class MergedThenStopped(Base):
    def forward(self, x):
        if x.sum() > 0:
            h = self.f(x)
        else:
            h = self.g(x)
        h.stop_gradient = True
        return h * self.g(x)


class InputOfBranch(Base):
    """The branches give the input itself: its stop_gradient is that of each call."""

    def forward(self, x):
        if x.sum() > 0:
            h = x
        else:
            h = -x
        return self.f(h) * self.g(x).detach()


class InLoop(Base):
    def forward(self, x):
        h, i = x, paddle.zeros([1], "int32")
        while i < 3:
            h = self.f(h).detach() * self.g(h)
            i += 1
        return h


class Frozen(Base):
    def __init__(self) -> None:
        super().__init__()
        self.f.weight.stop_gradient = True
        self.g.bias.trainable = False

    def forward(self, x):
        return self.f(x) * self.g(x).detach() + self.g(x * self.b)


class Nothing(nn.Layer):
    """Without parameters."""

    def forward(self, x):
        return x.detach() * x * x


FORMS = [Detached, NoGrad, Decorated, Assigned, InBranch, MergedThenStopped, InputOfBranch, InLoop, Frozen, Nothing]


class Outer(nn.Layer):
    def __init__(self, inner) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x * 2) * 0.5


def gradients(layer, sign=1.0):
    """The result, the gradients of the input and of the parameters by their values."""
    layer.train()
    layer.clear_gradients()
    x = paddle.to_tensor(sign * np.linspace(0.1, 1.0, 6, dtype="float32").reshape(2, 3), stop_gradient=False)
    out = layer(x)
    out.sum().backward()
    of_params = {}
    for param in layer.parameters():
        grad = None if param.grad is None else np.array(param.grad)
        of_params[param.numpy().tobytes()] = np.zeros(param.shape, "float32") if grad is None else grad
    x_grad = np.zeros([2, 3], "float32") if x.grad is None else np.array(x.grad)
    return out.numpy(), x_grad, of_params, {p.numpy().tobytes(): p.stop_gradient for p in layer.parameters()}


def assert_equal(one, other):
    np.testing.assert_allclose(one[0], other[0], rtol=1e-5)
    np.testing.assert_allclose(one[1], other[1], rtol=1e-5, atol=1e-6)
    assert one[3] == other[3]
    for key, grad in one[2].items():
        np.testing.assert_allclose(grad, other[2][key], rtol=1e-5, atol=1e-6)


@pytest.fixture(params=FORMS, ids=lambda form: form.__name__)
def net(request):
    paddle.seed(3)
    made = request.param()
    rng = np.random.RandomState(5)
    for param in made.parameters():  # no two are equal: `gradients` finds them by their values
        param.set_value(rng.uniform(-1, 1, param.shape).astype("float32"))
    return made


def test_a_loaded_layer_has_the_gradients_of_the_original(net, tmp_path):
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    paddle.jit.save(net, first, SPEC)
    loaded = paddle.jit.load(first)
    paddle.jit.save(loaded, second, SPEC)
    for sign in (1.0, -1.0):
        wanted = gradients(net, sign)
        assert_equal(wanted, gradients(loaded, sign))
        assert_equal(wanted, gradients(paddle.jit.load(second), sign))


def test_a_loaded_layer_in_a_layer_that_is_saved(net, tmp_path):
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    paddle.jit.save(net, first, SPEC)
    outer = Outer(paddle.jit.load(first))
    wanted = gradients(Outer(net))
    assert_equal(wanted, gradients(outer))
    outer.forward = paddle.jit.to_static(outer.forward, input_spec=SPEC)
    assert_equal(wanted, gradients(outer))
    with paddle.no_grad():
        paddle.jit.save(outer, second)
    assert_equal(wanted, gradients(paddle.jit.load(second)))


def test_saved_after_calls_under_no_grad(net, tmp_path):
    wanted = gradients(net)
    net.forward = paddle.jit.to_static(net.forward)
    net.train()
    with paddle.no_grad():
        net(paddle.ones([2, 3]))
        paddle.jit.save(net, str(tmp_path / "net"))
    assert_equal(wanted, gradients(paddle.jit.load(str(tmp_path / "net"))))


def test_saved_after_calls_on_inputs_that_stop_gradients(net, tmp_path):
    wanted = gradients(net)
    net.forward = paddle.jit.to_static(net.forward)
    net.train()
    net(paddle.ones([2, 3]))
    paddle.jit.save(net, str(tmp_path / "net"))
    assert_equal(wanted, gradients(paddle.jit.load(str(tmp_path / "net"))))


def test_a_result_that_stops_gradients(tmp_path):
    class Target(Base):
        def forward(self, x):
            return self.f(x).detach(), self.g(x)

    paddle.jit.save(Target(), str(tmp_path / "net"), SPEC)
    loaded = paddle.jit.load(str(tmp_path / "net"))
    loaded.train()
    assert [out.stop_gradient for out in loaded(paddle.ones([2, 3]))] == [True, False]


def test_several_methods(tmp_path):
    class Two(Base):
        @paddle.jit.to_static(input_spec=SPEC)
        def forward(self, x):
            return self.f(x) * self.g(x)

        @paddle.jit.to_static(input_spec=SPEC)
        def half(self, x):
            return self.f(x).detach() * self.g(x)

    net = Two()
    paddle.jit.save(net, str(tmp_path / "net"))
    loaded = paddle.jit.load(str(tmp_path / "net"))
    for method in ("forward", "half"):
        grads = []
        for layer in (net, loaded):
            x = paddle.to_tensor([[1.0, 2.0, 3.0]], stop_gradient=False)
            getattr(layer, method)(x).sum().backward()
            grads.append(np.array(x.grad))
        np.testing.assert_allclose(*grads, rtol=1e-5)


def test_flags_in_the_bytes_of_a_program(tmp_path):
    """A model in which nothing stops gradients has none; a second time they are not written again."""
    from paddle.jit import stop_flags

    paddle.jit.save(nn.Linear(3, 2), str(tmp_path / "net"), SPEC)
    content = (tmp_path / "net.pdmodel").read_bytes()
    assert stop_flags.flags(content) == [set()]
    assert stop_flags.with_flags(content, set()) == content
    flagged = stop_flags.with_flags(content, {"x"})
    assert stop_flags.flags(flagged) == [{"x"}]
    assert stop_flags.with_flags(flagged, {"x"}) == flagged
    (tmp_path / "net.pdmodel").write_bytes(flagged)
    assert paddle.jit.load(str(tmp_path / "net"))(paddle.ones([1, 3])).shape == [1, 2]


def test_predictors_and_static_programs_read_the_files(net, tmp_path):
    from paddle.inference import Config, create_predictor

    net.eval()
    path = str(tmp_path / "net")
    paddle.jit.save(net, path, SPEC)
    x = np.linspace(0.1, 1.0, 6, dtype="float32").reshape(2, 3)
    wanted = net(paddle.to_tensor(x)).numpy()
    params = path + ".pdiparams" if os.path.exists(path + ".pdiparams") else None
    if params is not None:
        predictor = create_predictor(Config(path + ".pdmodel", params))
        predictor.get_input_handle("x").copy_from_cpu(x)
        predictor.run()
        out = predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()
        np.testing.assert_allclose(out, wanted, rtol=1e-5)
        assert set(paddle.load(path)) <= set(net.state_dict())
        paddle.enable_static()
        try:
            executor = paddle.static.Executor()
            program, feeds, fetches = paddle.static.load_inference_model(path, executor)
            (got,) = executor.run(program, feed={feeds[0]: x}, fetch_list=fetches)
        finally:
            paddle.disable_static()
        np.testing.assert_allclose(got, wanted, rtol=1e-5)
