"""Five models from training to serving: trained in dygraph mode and through to_static, saved, loaded, served, exported.

    python examples/served_models.py [resnet18 mobilenet_v3 bert lstm seq2seq] [--steps 3] [--onnx] [--json]

Parameters and data are drawn from seeds by numpy, so that other versions of Paddle that run this file print the same
numbers. --onnx exports the models and runs them in onnxruntime. The seq2seq model has two saved methods: `forward`, and
`translate`, a beam search.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import zlib
from pathlib import Path

import numpy as np
import paddle
from paddle import nn
from paddle.inference import Config, create_predictor
from paddle.nn import functional as F
from paddle.static import InputSpec

WORDS, START, END, LENGTH = 20, 1, 2, 6


class SqueezeExcite(nn.Layer):
    """Channels scaled by a gate of their averages."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.squeeze = nn.Conv2D(channels, channels // 4, 1)
        self.excite = nn.Conv2D(channels // 4, channels, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.excite(F.relu(self.squeeze(self.pool(x)))))


class Bottleneck(nn.Layer):
    """The block of MobileNetV3 (arXiv:1905.02244): expansion, depthwise convolution, squeeze and excite, projection."""

    def __init__(self, cin: int, wide: int, cout: int, kernel: int, stride: int, gate: bool, act: type) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2D(cin, wide, 1, bias_attr=False),
            nn.BatchNorm2D(wide),
            act(),
            nn.Conv2D(wide, wide, kernel, stride, kernel // 2, groups=wide, bias_attr=False),
            nn.BatchNorm2D(wide),
            *([SqueezeExcite(wide)] if gate else []),
            act(),
            nn.Conv2D(wide, cout, 1, bias_attr=False),
            nn.BatchNorm2D(cout),
        )
        self.residual = stride == 1 and cin == cout

    def forward(self, x):
        y = self.body(x)
        return x + y if self.residual else y


class MobileNetV3(nn.Layer):
    """A narrow MobileNetV3 for images of 32 x 32."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2D(3, 8, 3, 2, 1, bias_attr=False),
            nn.BatchNorm2D(8),
            nn.Hardswish(),
            Bottleneck(8, 8, 8, 3, 2, True, nn.ReLU),
            Bottleneck(8, 24, 16, 3, 2, False, nn.ReLU),
            Bottleneck(16, 40, 16, 5, 1, True, nn.Hardswish),
            nn.AdaptiveAvgPool2D(1),
            nn.Flatten(),
        )
        self.classifier = nn.Sequential(nn.Linear(16, 32), nn.Hardswish(), nn.Linear(32, 10))

    def forward(self, image):
        return self.classifier(self.features(image))


class Bert(nn.Layer):
    """Two encoder layers over word and position embeddings; the first position is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.word, self.position = nn.Embedding(WORDS, 32), nn.Embedding(64, 32)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu"), 2)
        self.head = nn.Linear(32, 3)

    def forward(self, words):
        places = paddle.arange(words.shape[1], dtype="int64")
        return self.head(self.encoder(self.word(words) + self.position(places))[:, 0])


class Lstm(nn.Layer):
    """Two LSTM layers; the last step is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(8, 16, num_layers=2), nn.Linear(16, 3)

    def forward(self, series):
        return self.head(self.rnn(series)[0][:, -1])


class Seq2Seq(nn.Layer):
    """A GRU encoder and a GRU decoder, which begins with the encoder's last state."""

    def __init__(self) -> None:
        super().__init__()
        self.word = nn.Embedding(WORDS, 16)
        self.encoder = nn.GRU(16, 32)
        self.cell = nn.GRUCell(16, 32)
        self.decoder = nn.RNN(self.cell)
        self.head = nn.Linear(32, WORDS)

    def forward(self, source, target):
        """The logits of the words that follow those of `target`."""
        state = self.encoder(self.word(source))[1][0]
        return self.head(self.decoder(self.word(target), state)[0])

    def translate(self, source):
        """The best words by a beam search of width 3: [batch, length, 3]."""
        state = self.encoder(self.word(source))[1][0]
        search = nn.BeamSearchDecoder(self.cell, START, END, 3, embedding_fn=self.word, output_fn=self.head)
        return nn.dynamic_decode(search, inits=state, max_step_num=LENGTH)[0]


def resnet18() -> nn.Layer:
    return paddle.vision.models.resnet18(num_classes=10)


IMAGE = InputSpec([None, 3, 32, 32], "float32", "image")
SOURCE, TARGET = (InputSpec([None, None], "int64", name) for name in ("source", "target"))
#: maker, InputSpecs of forward
MODELS = {
    "resnet18": (resnet18, [IMAGE]),
    "mobilenet_v3": (MobileNetV3, [IMAGE]),
    "bert": (Bert, [InputSpec([None, None], "int64", "words")]),
    "lstm": (Lstm, [InputSpec([None, None, 8], "float32", "series")]),
    "seq2seq": (Seq2Seq, [SOURCE, TARGET]),
}


def data(name: str, count: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """The inputs and the labels of a batch."""
    r = np.random.RandomState(seed)
    if name in ("resnet18", "mobilenet_v3"):
        labels = r.randint(0, 10, count)
        images = r.randn(count, 3, 32, 32) * 0.5
        images[np.arange(count), labels % 3, labels] += 2
        return [images.astype("float32")], labels
    if name == "lstm":
        series = r.randn(count, 12, 8).astype("float32")
        return [series], np.digitize(series.mean(axis=(1, 2)), [-0.05, 0.05])
    words = r.randint(3, WORDS, (count, LENGTH))
    if name == "bert":
        return [words], words[:, 0] % 3
    start, end = np.full((count, 1), START), np.full((count, 1), END)
    target = words[:, ::-1]
    return [words, np.concatenate([start, target], 1)], np.concatenate([target, end], 1)


def initialise(net: nn.Layer) -> None:
    """Weights from a seed by name: normal, scaled by their inputs."""
    for name, parameter in net.named_parameters():
        if len(parameter.shape) > 1:
            fan_in = np.prod(parameter.shape[1:]) if len(parameter.shape) == 4 else parameter.shape[0]
            values = np.random.RandomState(zlib.crc32(name.encode())).randn(*parameter.shape) / np.sqrt(fan_in)
            parameter.set_value(values.astype("float32"))


def train(name: str, net: nn.Layer, steps: int, seed: int) -> list[float]:
    """Steps of Momentum; the losses."""
    net.train()
    # at a higher rate the first steps of ResNet amplify rounding
    rate = 0.00001 if name == "resnet18" else 0.02
    optimizer = paddle.optimizer.Momentum(rate, 0.9, parameters=net.parameters())
    losses = []
    for step in range(steps):
        inputs, labels = data(name, 16, seed + step)
        logits = net(*map(paddle.to_tensor, inputs))
        loss = F.cross_entropy(logits.reshape([-1, logits.shape[-1]]), paddle.to_tensor(labels.reshape(-1, 1)))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    net.eval()
    return losses


def serve(prefix: str, inputs: list[np.ndarray]) -> np.ndarray:
    """The answer of a predictor."""
    predictor = create_predictor(Config(prefix + ".pdmodel", prefix + ".pdiparams"))
    for name, value in zip(predictor.get_input_names(), inputs, strict=True):
        predictor.get_input_handle(name).copy_from_cpu(np.ascontiguousarray(value))
    predictor.run()
    return predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()


def run_onnx(net: nn.Layer, prefix: str, specs: list, inputs: list[np.ndarray]) -> np.ndarray:
    """The answer of the exported model in onnxruntime."""
    import onnxruntime

    paddle.onnx.export(net, prefix, input_spec=specs, opset_version=17)
    session = onnxruntime.InferenceSession(prefix + ".onnx", providers=["CPUExecutionProvider"])
    return session.run(None, {spec.name: value for spec, value in zip(specs, inputs, strict=True)})[0]


def demonstrate(name: str, folder: Path, steps: int, onnx: bool = False) -> dict:
    """The losses and the answers of a model on its way from training to serving; they agree within 1e-4."""
    maker, specs = MODELS[name]
    paddle.seed(0)
    net, prefix = maker(), str(folder / name)
    initialise(net)
    losses = train(name, net, steps, 0)
    inputs, _ = data(name, 2, 99)
    tensors = [paddle.to_tensor(value) for value in inputs]
    if name == "seq2seq":
        net.translate = paddle.jit.to_static(net.translate, input_spec=[SOURCE])
    net = paddle.jit.to_static(net, input_spec=specs)
    losses += train(name, net, steps, steps)
    answer = net(*tensors).numpy()
    paddle.jit.save(net, prefix)
    loaded = paddle.jit.load(prefix)
    loaded.eval()
    others = {"loaded": loaded(*tensors).numpy(), "served": serve(prefix, inputs)}
    if onnx:
        others["onnx"] = run_onnx(net, prefix, specs, inputs)
    for where, other in others.items():
        np.testing.assert_allclose(other, answer, rtol=1e-4, atol=1e-4, err_msg=f"{name}: {where}")
    report = {"losses": losses, "answer": np.ravel(answer)[:16].tolist()}
    if name == "seq2seq":
        words = net.translate(tensors[0]).numpy()
        np.testing.assert_array_equal(serve(prefix + ".translate", inputs[:1]), words)
        report["beams"] = words.tolist()
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="model", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--onnx", action="store_true", help="export the models, and run them in onnxruntime")
    parser.add_argument("--json", action="store_true", help="print all numbers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        reports = {name: demonstrate(name, Path(folder), options.steps, options.onnx) for name in options.models}
    if options.json:
        print(json.dumps(reports))
        return
    for name, report in reports.items():
        print(
            f"{name:13} loss {report['losses'][0]:.4f} to {report['losses'][-1]:.4f}; loaded, served: the same answers"
        )


if __name__ == "__main__":
    main()
