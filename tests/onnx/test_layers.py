"""Layers exported whole: onnxruntime gives the layer's values."""

from __future__ import annotations

import warnings

import numpy as np
import paddle
import pytest
from paddle.static import InputSpec
from running import onnx, session


def exported(layer, path, specs, **more):
    """The session of the exported file."""
    paddle.onnx.export(layer, str(path / "model"), input_spec=specs, **{"opset_version": 13, **more})
    return session(onnx.load(str(path / "model.onnx")))


def same(layer, made, *inputs, tol=1e-4):
    """Outputs of a layer in eval mode and of its model are equal up to `tol` of the largest value."""
    layer.eval()
    with paddle.no_grad():
        want = layer(*[paddle.to_tensor(x) for x in inputs])
    layer.train()
    want = [want] if isinstance(want, paddle.Tensor) else want
    got = made.run(None, dict(zip([i.name for i in made.get_inputs()], inputs, strict=True)))
    for value, right in zip(got, want, strict=True):
        right = right.numpy()
        assert value.shape == right.shape
        np.testing.assert_allclose(value, right, rtol=tol, atol=tol * max(1, np.abs(right).max()))


MODELS = {
    "LeNet": (lambda: paddle.vision.models.LeNet(), (1, 28, 28)),
    "vgg11": (lambda: paddle.vision.models.vgg11(num_classes=10), (3, 224, 224)),
    "vgg11_bn": (lambda: paddle.vision.models.vgg11(batch_norm=True, num_classes=10), (3, 224, 224)),
    "vgg13": (lambda: paddle.vision.models.vgg13(num_classes=10), (3, 224, 224)),
    "vgg16": (lambda: paddle.vision.models.vgg16(num_classes=10), (3, 224, 224)),
    "vgg19": (lambda: paddle.vision.models.vgg19(num_classes=10), (3, 224, 224)),
    "resnet18": (lambda: paddle.vision.models.resnet18(), (3, 64, 64)),
    "resnet34": (lambda: paddle.vision.models.resnet34(), (3, 64, 64)),
    "resnet50": (lambda: paddle.vision.models.resnet50(), (3, 64, 64)),
    "resnet101": (lambda: paddle.vision.models.resnet101(), (3, 64, 64)),
    "resnet152": (lambda: paddle.vision.models.resnet152(), (3, 64, 64)),
    "mobilenet_v1": (lambda: paddle.vision.models.mobilenet_v1(), (3, 64, 64)),
    "mobilenet_v2": (lambda: paddle.vision.models.mobilenet_v2(), (3, 64, 64)),
}
QUICK = ("LeNet", "resnet18", "mobilenet_v1", "mobilenet_v2")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in MODELS])
def test_vision_models(name, tmp_path):
    paddle.seed(1)
    make, size = MODELS[name]
    net = make()
    made = exported(net, tmp_path, [InputSpec([None, *size], "float32", "image")])
    assert net.training
    for batch in (1, 3):
        same(net, made, np.random.default_rng(batch).normal(size=(batch, *size)).astype("float32"))


class Reader(paddle.nn.Layer):
    """Embedding, a recurrent network, a head."""

    def __init__(self, kind, direction):
        super().__init__()
        self.table = paddle.nn.Embedding(20, 6)
        self.network = kind(6, 5, num_layers=2, direction=direction, dropout=0.3)
        self.head = paddle.nn.Linear(5 * (1 if direction == "forward" else 2), 3)

    def forward(self, ids):
        out, _ = self.network(self.table(ids))
        return self.head(out[:, -1])


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("kind", [paddle.nn.LSTM, paddle.nn.GRU, paddle.nn.SimpleRNN])
def test_recurrent_networks(kind, direction, tmp_path):
    net = Reader(kind, direction)
    made = exported(net, tmp_path, [InputSpec([None, None], "int64", "ids")])
    for shape in ((2, 7), (1, 3)):
        same(net, made, np.random.default_rng(2).integers(0, 20, shape))


class Attention(paddle.nn.Layer):
    """A small BERT: embeddings, an encoder, a pooler."""

    def __init__(self):
        super().__init__()
        self.words, self.places = paddle.nn.Embedding(30, 16), paddle.nn.Embedding(32, 16)
        self.norm, self.dropout = paddle.nn.LayerNorm(16), paddle.nn.Dropout(0.1)
        layer = paddle.nn.TransformerEncoderLayer(16, 4, 32, activation="gelu")
        self.encoder = paddle.nn.TransformerEncoder(layer, 2)
        self.pooler = paddle.nn.Linear(16, 16)

    def forward(self, ids, mask):
        places = paddle.cumsum(paddle.ones_like(ids), axis=1) - 1
        x = self.dropout(self.norm(self.words(ids) + self.places(places)))
        hidden = (1.0 - paddle.unsqueeze(paddle.cast(mask, "float32"), [1, 2])) * -1e4
        x = self.encoder(x, hidden)
        return x, paddle.tanh(self.pooler(x[:, 0]))


@pytest.mark.parametrize("opset", [11, 17, 21])
def test_an_encoder_of_unknown_length(opset, tmp_path):
    net = Attention()
    specs = [InputSpec([None, None], "int64", "ids"), InputSpec([None, None], "int64", "mask")]
    made = exported(net, tmp_path, specs, opset_version=opset)
    for shape in ((2, 9), (1, 5)):
        r = np.random.default_rng(3)
        same(net, made, r.integers(0, 30, shape), r.integers(0, 2, shape))


def test_a_transformer(tmp_path):
    net = paddle.nn.Transformer(8, 2, 1, 1, 16)
    specs = [InputSpec([None, None, 8], "float32", name) for name in ("source", "target")]
    made = exported(net, tmp_path, specs)
    r = np.random.default_rng(4)
    same(net, made, r.normal(size=(2, 5, 8)).astype("float32"), r.normal(size=(2, 3, 8)).astype("float32"))


class Click(paddle.nn.Layer):
    """DeepFM: first and second order, and a deep part."""

    def __init__(self):
        super().__init__()
        self.first, self.second = paddle.nn.Embedding(50, 1), paddle.nn.Embedding(50, 4)
        self.deep = paddle.nn.Sequential(paddle.nn.Linear(24, 16), paddle.nn.ReLU(), paddle.nn.Linear(16, 1))

    def forward(self, ids):
        rows = self.second(ids)
        total = paddle.square(paddle.sum(rows, 1)) - paddle.sum(paddle.square(rows), 1)
        deep = self.deep(paddle.flatten(rows, 1))
        logit = paddle.sum(self.first(ids), 1) + 0.5 * paddle.sum(total, 1, keepdim=True) + deep
        return paddle.nn.functional.sigmoid(logit)


def test_a_click_model(tmp_path):
    net = Click()
    made = exported(net, tmp_path, [InputSpec([None, 6], "int64", "ids")])
    same(net, made, np.random.default_rng(5).integers(0, 50, (4, 6)))


def test_tensors_as_input_spec_and_functions(tmp_path):
    x = paddle.ones([2, 3])
    made = exported(lambda x: paddle.nn.functional.softmax(x * 2), tmp_path, [x])
    assert made.get_inputs()[0].shape == [2, 3]
    (got,) = made.run(None, {made.get_inputs()[0].name: np.eye(2, 3, dtype="float32")})
    np.testing.assert_allclose(got.sum(1), 1, rtol=1e-6)


class Two(paddle.nn.Layer):
    def forward(self, x):
        return x + 1, x * 2


def test_a_loaded_layer(tmp_path):
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 3), paddle.nn.BatchNorm1D(3), paddle.nn.Dropout(0.5))
    paddle.jit.save(net, str(tmp_path / "saved"), [InputSpec([None, 4], "float32", "x")])
    made = exported(paddle.jit.load(str(tmp_path / "saved")), tmp_path, None)
    assert [i.name for i in made.get_inputs()] == ["x"]
    same(net, made, np.random.default_rng(6).normal(size=(2, 4)).astype("float32"))


def test_output_spec_chooses(tmp_path):
    net = paddle.jit.to_static(Two())
    net(paddle.ones([2]))
    made = exported(net, tmp_path, None, output_spec=net.forward.outputs[1:])
    (got,) = made.run(None, {made.get_inputs()[0].name: np.float32([3, 4])})
    assert got.tolist() == [6, 8]
    # a Tensor that a call returned, also after the function was built for other arguments
    second = net(paddle.ones([2]))[1]
    with paddle.no_grad():
        net(paddle.ones([3]))
    spec = [InputSpec([2], "float32", "x")]
    (got,) = exported(net, tmp_path, spec, output_spec=[second]).run(None, {"x": np.float32([3, 4])})
    assert got.tolist() == [6, 8]
    with pytest.raises(ValueError, match="no result of a call of the layer"):
        exported(net, tmp_path, None, output_spec=[paddle.ones([1])])


def test_wrong_arguments(tmp_path):
    net, spec, path = paddle.nn.Linear(2, 2), [InputSpec([None, 2], "float32")], str(tmp_path / "m")
    with pytest.raises(ValueError, match="file_prefix is empty"):
        paddle.onnx.export(net, str(tmp_path) + "/", spec)
    with pytest.raises(ValueError, match="11 to 21, got 22"):
        paddle.onnx.export(net, path, spec, opset_version=22)
    with pytest.raises(TypeError, match="opset_version"):
        paddle.onnx.export(net, path, spec, opset_version="13")
    with pytest.raises(ValueError, match="unknown option 'some'"):
        paddle.onnx.export(net, path, spec, opset_version=13, some=1)
    with pytest.raises(TypeError, match="Layer, a function or a Program"):
        paddle.onnx.export(3, path, spec, opset_version=13)
    with pytest.raises(TypeError, match="input_spec must be a list"):
        paddle.onnx.export(net, path, spec[0], opset_version=13)


def test_the_default_operator_set_warns(tmp_path):
    net, spec, path = paddle.nn.Linear(2, 2), [InputSpec([None, 2], "float32")], str(tmp_path / "m")
    with pytest.warns(UserWarning, match="opset 11"):
        paddle.onnx.export(net, path, spec)
    assert onnx.load(path + ".onnx").opset_import[0].version == 11
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        paddle.onnx.export(net, path, spec, opset_version=18)


class Histogram(paddle.nn.Layer):
    def forward(self, x):
        y = x + 1
        return paddle.histogram(y, 4)  # the line of the error


def test_an_operator_without_a_rule(tmp_path):
    with pytest.raises(
        NotImplementedError, match=r"operator histogram has no rule.*test_layers.py.*the line of the er"
    ):
        paddle.onnx.export(Histogram(), str(tmp_path / "m"), [InputSpec([3], "float32")], opset_version=13)
    assert not list(tmp_path.iterdir())


class Steps(paddle.nn.Layer):
    """Python's if and while on Tensors."""

    def __init__(self):
        super().__init__()
        self.near, self.far = paddle.nn.Linear(3, 3), paddle.nn.Linear(3, 3)

    def forward(self, x, n):
        i = paddle.zeros([1], "int64")
        while i < n:
            if paddle.sum(x) > 0:
                x = self.near(x)
            else:
                x = paddle.tanh(self.far(x)) + 1
            i = i + 1
        return x


@pytest.mark.parametrize("opset", [13, 18])
def test_branches_and_loops_of_python(opset, tmp_path):
    paddle.seed(4)
    net = Steps()
    specs = [InputSpec([None, 3], "float32", "x"), InputSpec([1], "int64", "n")]
    made = exported(net, tmp_path, specs, opset_version=opset)
    for n in (0, 1, 4):
        same(net, made, np.random.default_rng(n).normal(size=(2, 3)).astype("float32"), np.int64([n]))


class Translator(paddle.nn.Layer):
    """An encoder and a decoder with beam search."""

    def __init__(self):
        super().__init__()
        self.words, self.head = paddle.nn.Embedding(10, 8), paddle.nn.Linear(8, 10)
        self.encoder, self.cell = paddle.nn.GRU(8, 8), paddle.nn.GRUCell(8, 8)
        self.decoder = paddle.nn.BeamSearchDecoder(self.cell, 0, 1, 3, self.words, self.head)

    def forward(self, ids):
        _, state = self.encoder(self.words(ids))
        found, _ = paddle.nn.dynamic_decode(self.decoder, inits=state[0], max_step_num=6)
        return found


def test_beam_search(tmp_path):
    paddle.seed(1)
    net = Translator()
    made = exported(net, tmp_path, [InputSpec([None, None], "int64", "ids")], opset_version=17)
    for shape in ((2, 4), (1, 6), (3, 2)):
        same(net, made, np.random.default_rng(7).integers(2, 10, shape))
