"""jit.save and jit.load: the loaded Layer computes, trains and is saved as the original."""

from __future__ import annotations

import pickle

import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.inference import Config, create_predictor
from paddle.static import InputSpec

IMAGE = InputSpec([None, 1, 8, 8], "float32", "img")


class Net(nn.Layer):
    """Convolution, batch_norm, dropout, linear: what differs between training and test."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2D(1, 4, 3), nn.BatchNorm2D(4)
        self.drop, self.linear = nn.Dropout(0.3), nn.Linear(4 * 6 * 6, 5)

    def forward(self, x):
        y = nn.functional.relu(self.norm(self.conv(x)))
        return self.linear(self.drop(y.reshape([-1, 4 * 6 * 6])))


class Several(nn.Layer):
    """Two methods that share a parameter, two inputs, several outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    @paddle.jit.to_static(input_spec=[InputSpec([None, 3], "float32", "x"), InputSpec([None, 3], "float32", "y")])
    def forward(self, x, y):
        return self.linear(x), x * 2, self.linear(y)

    @paddle.jit.to_static(input_spec=[InputSpec([None, 3], "float32", "x")])
    def half(self, x):
        return self.linear(x) * 0.5


@pytest.fixture
def trained():
    paddle.seed(11)
    net = Net()
    net.train()
    for _ in range(3):
        net(paddle.randn([6, 1, 8, 8]))
    return net


@pytest.fixture
def prefix(trained, tmp_path):
    path = str(tmp_path / "net")
    paddle.jit.save(trained, path, [IMAGE])
    return path


def train(net, x):
    net.train()
    optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())
    paddle.seed(3)
    losses = []
    for _ in range(4):
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    return losses


def test_test_mode_gives_the_same_numbers(trained, prefix):
    loaded = paddle.jit.load(prefix)
    assert not loaded.training
    trained.eval()
    x = paddle.randn([2, 1, 8, 8])
    np.testing.assert_array_equal(loaded(x).numpy(), trained(x).numpy())
    np.testing.assert_array_equal(loaded(x.numpy()).numpy(), trained(x).numpy())


def test_fine_tuning_equals_that_of_the_original(trained, prefix):
    loaded, x = paddle.jit.load(prefix), paddle.randn([6, 1, 8, 8])
    assert train(loaded, x) == train(trained, x)
    trained.eval()
    loaded.eval()
    np.testing.assert_array_equal(loaded(x).numpy(), trained(x).numpy())


def test_parameters_and_buffers(trained, prefix):
    loaded = paddle.jit.load(prefix)
    assert len(loaded.parameters()) == len(trained.parameters()) and len(loaded.buffers()) == len(trained.buffers())
    assert {p.stop_gradient for p in loaded.parameters()} == {p.stop_gradient for p in trained.parameters()}
    other = paddle.jit.load(prefix)
    names = [t.name for layer in (trained, loaded, other) for t in layer.state_dict().values()]
    assert len(names) == len(set(names))


def test_gradients_of_inputs(trained, prefix):
    loaded = paddle.jit.load(prefix)
    trained.eval()
    grads = []
    for net in (trained, loaded):
        x = paddle.ones([2, 1, 8, 8])
        x.stop_gradient = False
        net(x).sum().backward()
        grads.append(x.gradient())
    np.testing.assert_allclose(grads[1], grads[0], rtol=1e-6)


def test_saved_again(prefix, tmp_path):
    loaded = paddle.jit.load(prefix)
    train(loaded, paddle.randn([6, 1, 8, 8]))
    loaded.eval()
    paddle.jit.save(loaded, str(tmp_path / "again"))
    again, x = paddle.jit.load(str(tmp_path / "again")), paddle.randn([2, 1, 8, 8])
    np.testing.assert_array_equal(again(x).numpy(), loaded(x).numpy())


def test_part_of_another_layer_that_is_translated_and_saved(prefix, tmp_path):
    class Outer(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.last = paddle.jit.load(prefix), nn.Linear(5, 2)

        @paddle.jit.to_static(input_spec=[IMAGE])
        def forward(self, img):
            return self.last(self.inner(img)) + self.last(self.inner(img * 2))

    outer, x = Outer(), paddle.randn([2, 1, 8, 8])
    outer.eval()
    want = outer.last(outer.inner(x)) + outer.last(outer.inner(x * 2))
    np.testing.assert_allclose(outer(x).numpy(), want.numpy(), rtol=1e-6)
    outer(x).sum().backward()
    assert all(p.gradient() is not None for p in outer.parameters() if not p.stop_gradient)
    paddle.jit.save(outer, str(tmp_path / "outer"))
    np.testing.assert_allclose(paddle.jit.load(str(tmp_path / "outer"))(x).numpy(), want.numpy(), rtol=1e-6)


def test_several_methods_share_parameters(tmp_path):
    net, x = Several(), paddle.randn([4, 3])
    paddle.jit.save(net, str(tmp_path / "net"))
    assert {p.name for p in tmp_path.iterdir() if p.name[0] != "."} == {
        "net.pdmodel",
        "net.pdiparams",
        "net.half.pdmodel",
        "net.half.pdiparams",
        "net.pdiparams.info",
    }
    loaded = paddle.jit.load(str(tmp_path / "net"))
    for got, want in zip(loaded(x, x), net(x, x), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())
    np.testing.assert_array_equal(loaded.half(x).numpy(), net.half(x).numpy())
    assert len(loaded.parameters()) == 2
    with pytest.raises(ValueError, match="input_spec must be None"):
        paddle.jit.save(net, str(tmp_path / "net"), [InputSpec([None, 3], "float32", "x")])


class Pruned(nn.Layer):
    """Two inputs and two outputs, of which one needs one input only."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)

    @paddle.jit.to_static(input_spec=[InputSpec([None, 3], "float32", "x"), InputSpec([None, 3], "float32", "y")])
    def forward(self, x, y):
        return self.one(x), self.two(y)


def test_fewer_specs_prune(tmp_path):
    net, x = Pruned(), paddle.randn([4, 3])
    path = str(tmp_path / "net")
    paddle.jit.save(net, path, [InputSpec([None, 3], "float32", "x")], output_spec=net.forward.outputs[:1])
    loaded = paddle.jit.load(path)
    np.testing.assert_array_equal(loaded(x).numpy(), net.one(x).numpy())
    assert len(loaded.parameters()) == 2 and [s.name for s in loaded._input_spec()] == ["x"]
    with pytest.raises(ValueError, match="no input 'z' of forward"):
        paddle.jit.save(net, path, [InputSpec([None, 3], "float32", "z")])
    with pytest.raises(ValueError, match="has no name"):
        paddle.jit.save(net, path, [InputSpec([None, 3], "float32")])
    with pytest.raises(ValueError, match="no output"):
        paddle.jit.save(net, path, output_spec=[x])


def test_output_spec_of_a_call(tmp_path):
    net, x, path = Pruned(), paddle.randn([4, 3]), str(tmp_path / "net")
    second = net(x, x)[1]
    net.eval()
    net(x, x)
    paddle.jit.save(net, path, [InputSpec([None, 3], "float32", "y")], output_spec=[second])
    np.testing.assert_array_equal(paddle.jit.load(path)(x).numpy(), net.two(x).numpy())


@pytest.mark.parametrize("other", [lambda x: None, lambda x: [x, x]], ids=["nothing", "another structure"])
def test_results_that_depend_on_a_tensor(tmp_path, other):
    class Choice(nn.Layer):
        @paddle.jit.to_static(input_spec=[InputSpec([None, 3], "float32", "x")])
        def forward(self, x):
            if x.sum() > 0:
                return x
            return other(x)

    net, path = Choice(), tmp_path / "net"
    assert net(paddle.ones([1, 3])).shape == [1, 3]
    with pytest.raises(ValueError, match=r"jit.save: .*forward\(\) returns another structure .*test_save_load.py:\d+"):
        paddle.jit.save(net, str(path))
    assert not path.with_suffix(".pdmodel").exists()


def test_the_files_are_read_by_other_functions(trained, prefix):
    trained.eval()
    state = paddle.load(prefix)
    assert set(state) == set(trained.state_dict())
    fresh = Net()
    fresh.set_state_dict(state)
    fresh.eval()
    x = paddle.randn([2, 1, 8, 8])
    np.testing.assert_array_equal(fresh(x).numpy(), trained(x).numpy())
    paddle.enable_static()
    try:
        exe = paddle.static.Executor(paddle.CPUPlace())
        program, feeds, fetches = paddle.static.load_inference_model(prefix, exe)
        (got,) = exe.run(program, feed={feeds[0]: x.numpy()}, fetch_list=fetches)
    finally:
        paddle.disable_static()
    assert feeds == ["img"]
    np.testing.assert_array_equal(got, trained(x).numpy())


def test_the_table_of_variables_is_a_plain_pickle(trained, prefix):
    with open(prefix + ".pdiparams.info", "rb") as file:
        info = pickle.load(file)
    assert info["conv2d_0.w_0" if "conv2d_0.w_0" in info else next(iter(info))].keys() <= {
        "structured_name",
        "stop_gradient",
        "trainable",
    }
    assert {row["structured_name"] for row in info.values()} == set(trained.state_dict())


def test_a_table_with_other_objects_is_refused(prefix):
    class Evil:
        def __reduce__(self):
            return (print, ("this must not run",))

    with open(prefix + ".pdiparams.info", "wb") as file:
        pickle.dump(Evil(), file, protocol=2)
    with pytest.raises(ValueError, match="cannot be read"):
        paddle.jit.load(prefix)


def test_program_of_a_method(prefix):
    loaded = paddle.jit.load(prefix)
    types = [op.type for op in loaded.program().global_block().ops]
    assert "conv2d" in types and "feed" not in types
    with pytest.raises(ValueError, match="no method 'backward'"):
        loaded.program("backward")


def test_a_folder_of_1x(trained, tmp_path):
    trained.eval()
    x = paddle.randn([2, 1, 8, 8])
    _, traced = paddle.jit.TracedLayer.trace(trained, [x])
    traced.save_inference_model(str(tmp_path / "old"))
    loaded = paddle.jit.load(str(tmp_path / "old"))
    np.testing.assert_allclose(loaded(x).numpy(), trained(x).numpy(), rtol=1e-6)
    runner = paddle.fluid.dygraph.static_runner.StaticModelRunner(str(tmp_path / "old"))
    np.testing.assert_allclose(runner(x).numpy(), trained(x).numpy(), rtol=1e-6)
    assert isinstance(runner, paddle.jit.TranslatedLayer)
    loaded.train()
    loaded(x).sum().backward()
    assert all(p.gradient() is not None for p in loaded.parameters())


@pytest.mark.parametrize(
    "args, kwargs, error, text",
    [
        ((3, "p"), {}, TypeError, "must be a Layer"),
        ((nn.Linear, "p"), {}, TypeError, "must be a Layer"),
        ((None, "folder/"), {}, ValueError, "a folder and a name"),
        ((None, "p"), {"other": 1}, ValueError, "'other' is not known"),
        ((None, "p"), {"output_spec": 1}, TypeError, "output_spec must be a list"),
        ((None, "p", InputSpec([2, 3])), {}, TypeError, "input_spec must be a list"),
        ((None, "p", [3]), {}, TypeError, "must hold InputSpecs"),
        ((None, "p"), {}, ValueError, "give input_spec"),
    ],
)
def test_wrong_arguments_of_save(tmp_path, monkeypatch, args, kwargs, error, text):
    monkeypatch.chdir(tmp_path)
    layer = nn.Linear(3, 3) if args[0] is None else args[0]
    with pytest.raises(error, match=text):
        paddle.jit.save(layer, *args[1:], **kwargs)
    assert not list(tmp_path.glob("*.pd*"))


def test_wrong_arguments_of_load(prefix, tmp_path):
    for path, kwargs, text in [
        (str(tmp_path / "nowhere"), {}, "not exists"),
        (prefix, {"other": 1}, "'other' is not known"),
        (prefix, {"model_filename": ""}, "must not be empty"),
        (str(tmp_path), {}, "no file"),
    ]:
        with pytest.raises(ValueError, match=text):
            paddle.jit.load(path, **kwargs)
    with pytest.raises(ValueError, match="there are 1 inputs"):
        paddle.jit.load(prefix)()
    with pytest.raises(TypeError, match="Tensors or arrays"):
        paddle.jit.load(prefix)([1.0])


def test_an_incomplete_model(prefix):
    import os

    with open(prefix + ".pdiparams", "rb") as file:
        values = file.read()
    with open(prefix + ".pdiparams", "wb") as file:
        file.write(values[:-5])
    with pytest.raises((RuntimeError, ValueError)):
        paddle.jit.load(prefix)
    os.remove(prefix + ".pdiparams")
    with pytest.raises(ValueError, match="not complete"):
        paddle.jit.load(prefix)


def test_a_model_has_the_branches_of_all_sizes_that_were_called(tmp_path):
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.one, self.many = nn.Linear(3, 3), nn.Linear(3, 3)

        @paddle.jit.to_static
        def forward(self, x):
            if x.shape[0] == 1:
                return self.one(x)
            return self.many(x) + x.shape[0]

    net, inputs = Net(), [paddle.rand([rows, 3]) for rows in (4, 1, 2)]
    wants = [net(x).numpy() for x in inputs]
    paddle.jit.save(net, str(tmp_path / "net"))
    loaded = paddle.jit.load(str(tmp_path / "net"))
    for x, want in zip(inputs, wants, strict=True):
        np.testing.assert_allclose(loaded(x).numpy(), want, rtol=1e-6)


def test_without_a_program_for_all_sizes_the_latest_is_saved(tmp_path):
    class Net(nn.Layer):
        @paddle.jit.to_static
        def forward(self, x):
            return paddle.concat([x[i] * i for i in range(x.shape[0])])

    net, inputs = Net(), [paddle.rand([rows, 3]) for rows in (4, 2)]
    want = [net(x).numpy() for x in inputs][-1]
    with pytest.warns(UserWarning, match="no Program for all of them"):
        paddle.jit.save(net, str(tmp_path / "net"))
    np.testing.assert_allclose(paddle.jit.load(str(tmp_path / "net"))(inputs[-1]).numpy(), want, rtol=1e-6)


def test_a_tensor_of_a_later_call_stands_for_its_input(tmp_path):
    class Net(nn.Layer):
        @paddle.jit.to_static
        def forward(self, x, label):
            return x * 2, (x - label).sum()

    net = Net()
    for _ in range(2):
        x = paddle.rand([2, 3])
        y, _ = net(x, paddle.rand([2, 3]))
    paddle.jit.save(net, str(tmp_path / "net"), [x], output_spec=[y])
    np.testing.assert_allclose(paddle.jit.load(str(tmp_path / "net"))(x).numpy(), y.numpy())


class Repeated(nn.Layer):
    """A loop on a Tensor: `while` in the Program."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        i = paddle.zeros([1], "int64")
        while i < 3:
            x = paddle.tanh(self.linear(x))
            i += 1
        return x, x > 0


@pytest.mark.parametrize("training", [True, False])
def test_gradients_through_a_loop(tmp_path, training):
    net = Repeated()
    net.train() if training else net.eval()
    paddle.jit.save(net, str(tmp_path / "net"), [InputSpec([None, 3])])
    loaded = paddle.jit.load(str(tmp_path / "net"))
    loaded.train() if training else loaded.eval()
    grads = []
    for each in (net, loaded):
        x = paddle.to_tensor([[0.1, -0.2, 0.3], [1.0, 2.0, -3.0]], stop_gradient=False)
        each(x)[0].sum().backward()
        grads.append([x.gradient(), *(p.gradient() for p in sorted(each.parameters(), key=lambda p: p.ndim))])
    for one, other in zip(*grads, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_results_of_bool(tmp_path):
    net = Repeated()
    paddle.jit.save(net, str(tmp_path / "net"), [InputSpec([None, 3])])
    loaded = paddle.jit.load(str(tmp_path / "net"))
    x = paddle.randn([4, 3])
    want = net(x)[1].numpy()
    np.testing.assert_array_equal(loaded(x)[1].numpy(), want)
    predictor = create_predictor(Config(str(tmp_path / "net.pdmodel"), str(tmp_path / "net.pdiparams")))
    predictor.get_input_handle(predictor.get_input_names()[0]).copy_from_cpu(x.numpy())
    predictor.run()
    np.testing.assert_array_equal(predictor.get_output_handle(predictor.get_output_names()[1]).copy_to_cpu(), want)


def test_a_loaded_layer_under_no_grad(tmp_path):
    paddle.jit.save(Repeated(), str(tmp_path / "net"), [InputSpec([None, 3])])

    class Outer(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner = paddle.jit.load(str(tmp_path / "net"))

        def forward(self, x):
            with paddle.no_grad():
                y = self.inner(x)[0]
            return y * x

    layer = Outer()
    x = paddle.to_tensor([[1.0, -2.0, 3.0]], stop_gradient=False)
    paddle.jit.to_static(layer)(x).sum().backward()
    assert all(p.gradient() is None or not p.gradient().any() for p in layer.parameters())
    np.testing.assert_allclose(x.gradient(), layer.inner(x)[0].numpy(), rtol=1e-6)
