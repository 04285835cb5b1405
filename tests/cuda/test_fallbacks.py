"""Training steps of networks on the stand-in: no operator runs on the CPU for want of a launcher."""

import warnings

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from paddle import nn

RNG = np.random.default_rng(1)


@pytest.fixture
def device(shim):
    """All operators run on the device; a call that falls back to the CPU is an error."""
    paddle.set_device("gpu")
    paddle.seed(1)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "operator .* has no CUDA kernel", RuntimeWarning)
        yield
    paddle.set_device("cpu")


def image(n: int, c: int, size: int):
    return paddle.to_tensor(RNG.normal(size=(n, c, size, size)).astype("float32"))


def whole(high: int, *shape: int):
    return paddle.to_tensor(RNG.integers(0, high, shape))


def number(*shape: int):
    return paddle.to_tensor(RNG.normal(size=shape).astype("float32"))


class Classifier(nn.Layer):
    """The parts of ResNet, VGG and MobileNetV2 in small."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.stem = nn.Sequential(nn.Conv2D(3, 8, 3, stride=2, padding=1, bias_attr=False), nn.BatchNorm2D(8))
        groups = 8 if kind == "mobilenet" else 1
        self.body = nn.Sequential(
            nn.Conv2D(8, 8, 3, padding=1, groups=groups),
            nn.BatchNorm2D(8),
            nn.ReLU6() if kind == "mobilenet" else nn.ReLU(),
            nn.Conv2D(8, 8, 1),
        )
        self.pool = nn.MaxPool2D(2)
        self.average = nn.AdaptiveAvgPool2D(1)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.pool(F.relu(self.stem(x)))
        y = self.body(x)
        y = F.dropout(y, 0.3) if self.kind == "vgg" else y + x
        return self.head(paddle.flatten(self.average(y), 1))


class LeNet(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2D(1, 6, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
            nn.Conv2D(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
        )
        self.fc = nn.Sequential(nn.Linear(64, 24), nn.Linear(24, 10))

    def forward(self, x):
        return self.fc(paddle.flatten(self.features(x), 1))


class Bert(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.word, self.position, self.kind = nn.Embedding(30, 16), nn.Embedding(8, 16), nn.Embedding(2, 16)
        self.norm, self.dropout = nn.LayerNorm(16), nn.Dropout(0.1)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.pooler = nn.Linear(16, 16)
        self.head = nn.Linear(16, 30)

    def forward(self, ids):
        at = paddle.cumsum(paddle.ones_like(ids), axis=1) - 1
        x = self.word(ids) + self.position(at) + self.kind(paddle.zeros_like(ids))
        x = self.encoder(self.dropout(self.norm(x)))
        return self.head(x) + 0 * paddle.tanh(self.pooler(x[:, 0])).sum()


class DeepFM(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Embedding(40, 1), nn.Embedding(40, 6)
        self.deep = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, ids):
        v = self.second(ids)
        squares = paddle.square(v.sum(axis=1)) - paddle.square(v).sum(axis=1)
        linear = self.first(ids).sum(axis=1) + 0.5 * squares.sum(axis=1, keepdim=True)
        return F.sigmoid(linear + self.deep(paddle.reshape(v, [v.shape[0], -1])))


class Recommender(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.user, self.movie = nn.Embedding(10, 8), nn.Embedding(12, 8)
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, ids):
        u, m = paddle.tanh(self.a(self.user(ids[:, 0]))), paddle.tanh(self.b(self.movie(ids[:, 1])))
        return 5 * F.cosine_similarity(u, m, axis=1)


def step(model, optimizer, loss) -> float:
    value = loss(model)
    value.backward()
    optimizer.step()
    optimizer.clear_grad()
    return float(value)


def train(model, loss, make=None) -> None:
    make = make or (lambda p: paddle.optimizer.Adam(0.01, parameters=p))
    optimizer = make(model.parameters())
    seen = [step(model, optimizer, loss) for _ in range(3)]
    assert np.isfinite(seen).all()


def test_lenet(device):
    x, y = image(2, 1, 16), whole(10, 2, 1)
    train(LeNet(), lambda m: F.cross_entropy(m(x), y))


@pytest.mark.parametrize("kind", ["resnet", "vgg", "mobilenet"])
def test_image_classifiers(kind, device):
    x, y = image(2, 3, 12), whole(5, 2, 1)

    def momentum(p):
        return paddle.optimizer.Momentum(0.1, 0.9, parameters=p, weight_decay=1e-4)

    train(Classifier(kind), lambda m: F.cross_entropy(m(x), y), momentum)


def test_bert(device):
    ids, labels = whole(30, 2, 6), whole(30, 2, 6, 1)

    def adamw(p):
        clip = nn.ClipGradByGlobalNorm(1.0)
        return paddle.optimizer.AdamW(0.01, parameters=p, weight_decay=0.01, grad_clip=clip)

    train(Bert(), lambda m: F.cross_entropy(m(ids), labels), adamw)


def test_transformer(device):
    source, target = number(2, 4, 16), number(2, 3, 16)
    model = nn.Transformer(16, 2, 1, 1, 32, dropout=0.1)
    mask = paddle.tril(paddle.ones([3, 3])) * 1e4 - 1e4
    train(model, lambda m: paddle.mean(paddle.square(m(source, target, None, mask, None))))


@pytest.mark.parametrize("sparse", [False, True])
def test_word2vec(sparse, device):
    ids, words = whole(20, 6, 4), whole(20, 6, 1)
    table = nn.Embedding(20, 8, sparse=sparse)
    model = nn.Sequential(table, nn.Flatten(), nn.Linear(32, 20))
    train(model, lambda m: F.cross_entropy(m(ids), words), lambda p: paddle.optimizer.SGD(0.1, parameters=p))


def test_deepfm_and_ctr(device):
    ids, clicked = whole(40, 8, 4), paddle.to_tensor(RNG.integers(0, 2, (8, 1)).astype("float32"))
    train(DeepFM(), lambda m: F.binary_cross_entropy(m(ids), clicked))


def test_recommender(device):
    ids, score = whole(10, 5, 2), number(5)
    train(Recommender(), lambda m: paddle.mean(paddle.square(m(ids) - score)))


def test_gan(device):
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 64), nn.Tanh())
    up = nn.Conv2DTranspose(4, 1, 4, stride=2, padding=1)
    critic = nn.Sequential(nn.Conv2D(1, 4, 3, stride=2, padding=1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(64, 1))
    noise = number(3, 4)

    class Both(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.LayerList([generator, up, critic])

        def forward(self):
            return critic(up(paddle.reshape(generator(noise), [3, 4, 4, 4])))

    train(Both(), lambda m: F.binary_cross_entropy_with_logits(m(), paddle.ones([3, 1])))
