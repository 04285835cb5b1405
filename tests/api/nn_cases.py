"""Cases of paddle.nn and paddle.optimizer with values recorded from Paddle 2.6.2: `python nn_cases.py >
nn_values.json`.

Each case is a function without arguments that returns a list of numbers; the same code runs with both packages.
"""

import json
import sys

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def rand(*shape, seed=0):
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


def flat(*values):
    out = []
    for v in values:
        v = v.numpy() if hasattr(v, "numpy") else np.asarray(v)
        out.extend(float(n) for n in v.reshape(-1)[:12])
    return out


def leaf(array):
    return paddle.to_tensor(array, stop_gradient=False)


def with_grad(call, *arrays):
    """Values of the call and gradients of its weighted sum with respect to the arrays."""
    inputs = [leaf(a) for a in arrays]
    y = call(*inputs)
    weights = paddle.to_tensor(rand(*y.shape, seed=9))
    grads = paddle.grad([paddle.sum(y * weights)], inputs)
    return flat(y, *grads)


X = rand(4, 6) * 3
FUNCTIONS = {
    "relu": F.relu,
    "relu6": lambda x: F.relu6(x * 4),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "sigmoid": F.sigmoid,
    "log_sigmoid": F.log_sigmoid,
    "tanh": F.tanh,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, True),
    "hardswish": F.hardswish,
    "swish": F.swish,
    "softplus": lambda x: F.softplus(x, 2, 3),
    "softmax": F.softmax,
    "softmax_axis0": lambda x: F.softmax(x, axis=0),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x * x),
    "normalize": F.normalize,
    "normalize_p3": lambda x: F.normalize(x, p=3, axis=0),
    "layer_norm": lambda x: F.layer_norm(x, [6]),
    "dropout_off": lambda x: F.dropout(x, 0.5, training=False, mode="downscale_in_infer"),
}
for _name, _call in FUNCTIONS.items():
    CASES["f_" + _name] = lambda call=_call: with_grad(call, X)

IMAGE, LINE = rand(2, 3, 7, 7), rand(2, 3, 9)
WINDOWS = {
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "avg_pool2d_inclusive": lambda x: F.avg_pool2d(x, 3, 2, [1, 1], ceil_mode=True, exclusive=False),
    "avg_pool2d_divisor": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, [3, None]),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 3),
    "batch_norm": lambda x: F.batch_norm(
        x, paddle.zeros([3]), paddle.ones([3]), paddle.full([3], 2.0), paddle.ones([3]), training=True
    ),
}
for _name, _call in WINDOWS.items():
    CASES["f_" + _name] = lambda call=_call: with_grad(call, IMAGE)
LINES = {
    "max_pool1d": lambda x: F.max_pool1d(x, 3, 2, 1),
    "avg_pool1d": lambda x: F.avg_pool1d(x, 3, 2, 1),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x, 4),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, 4),
}
for _name, _call in LINES.items():
    CASES["f_" + _name] = lambda call=_call: with_grad(call, LINE)


@case
def linear():
    return with_grad(F.linear, X, rand(6, 3, seed=1), rand(3, seed=2))


@case
def conv2d():
    return with_grad(lambda x, w, b: F.conv2d(x, w, b, 2, [1, 2]), IMAGE, rand(4, 3, 3, 3), rand(4))


@case
def conv2d_same_dilated():
    return with_grad(lambda x, w: F.conv2d(x, w, None, 1, "SAME", 2), IMAGE, rand(4, 3, 3, 3))


@case
def conv2d_depthwise():
    return with_grad(lambda x, w: F.conv2d(x, w, padding=[1, 0, 2, 1], groups=3), IMAGE, rand(6, 1, 3, 3))


@case
def conv2d_nhwc():
    return with_grad(
        lambda x, w, b: F.conv2d(x, w, b, padding=1, data_format="NHWC"), rand(2, 5, 5, 3), rand(4, 3, 3, 3), rand(4)
    )


@case
def conv1d():
    return with_grad(lambda x, w, b: F.conv1d(x, w, b, padding=1, stride=2), LINE, rand(4, 3, 3), rand(4))


@case
def embedding():
    ids = paddle.to_tensor(np.array([[1, 2], [0, 1]]))
    return with_grad(lambda w: F.embedding(ids, w, padding_idx=0), rand(4, 3))


LABEL = np.array([1, 2, 0, 5])
ENTROPY = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "none": {"reduction": "none"},
    "ignored": {"ignore_index": 2},
    "weight": {"weight": True},
    "weight_none": {"weight": True, "reduction": "none"},
    "weight_ignored": {"weight": True, "ignore_index": 2},
}


def entropy(weight=False, **arguments):
    weights = paddle.to_tensor(np.arange(1, 7).astype("float32")) if weight else None
    return with_grad(lambda x: F.cross_entropy(x, paddle.to_tensor(LABEL), weight=weights, **arguments), X)


for _name, _arguments in ENTROPY.items():
    CASES["cross_entropy_" + _name] = lambda arguments=_arguments: entropy(**arguments)


@case
def cross_entropy_soft():
    soft = F.softmax(paddle.to_tensor(rand(4, 6, seed=3)))
    return with_grad(lambda x: F.cross_entropy(x, soft, soft_label=True), X)


@case
def cross_entropy_axis():
    label = paddle.to_tensor(np.array([[1, 2, 0], [0, 1, 1]]))
    return with_grad(lambda x: F.cross_entropy(x, label, axis=1), rand(2, 4, 3))


@case
def bce_with_logits():
    y, w = paddle.to_tensor(np.abs(rand(4, 6, seed=4))), paddle.to_tensor(np.abs(rand(6, seed=5)))
    return with_grad(lambda x: F.binary_cross_entropy_with_logits(x, y, w, "sum"), X)


@case
def small_losses():
    y = paddle.to_tensor(rand(4, 6, seed=4))
    out = []
    for call in (F.mse_loss, F.l1_loss):
        for reduction in ("mean", "sum", "none"):
            out += with_grad(lambda x, call=call, how=reduction: call(x, y, how), X)
    sides = paddle.to_tensor(np.sign(rand(4, 6, seed=5)))
    out += with_grad(lambda x: F.margin_ranking_loss(x, y, sides, 0.1), X)
    out += with_grad(lambda x: F.square_error_cost(x, y), X)
    return out


@case
def focal_and_dice():
    label = F.one_hot(paddle.to_tensor(LABEL), 6)
    out = with_grad(lambda x: F.sigmoid_focal_loss(x, label), X)
    ids = paddle.to_tensor(LABEL.reshape(4, 1))
    out += with_grad(lambda x: F.dice_loss(F.softmax(x), ids), X)
    labels = paddle.to_tensor(np.array([0.0, 0.0, 1.0, 2.0], "float32"))
    return out + with_grad(lambda x, y: F.npair_loss(x, y, labels), X, rand(4, 6, seed=6))


LAYERS = {
    "Linear": lambda: nn.Linear(5, 4),
    "Conv2D": lambda: nn.Conv2D(3, 4, 3),
    "Conv1D": lambda: nn.Conv1D(3, 4, 3),
    "Embedding": lambda: nn.Embedding(6, 3, padding_idx=1),
    "SimpleRNNCell": lambda: nn.SimpleRNNCell(3, 4),
    "LSTMCell": lambda: nn.LSTMCell(3, 4),
    "GRUCell": lambda: nn.GRUCell(3, 4),
    "BatchNorm2D": lambda: nn.BatchNorm2D(3),
    "LayerNorm": lambda: nn.LayerNorm([3, 4]),
    "MultiHeadAttention": lambda: nn.MultiHeadAttention(8, 2),
    "TransformerDecoderLayer": lambda: nn.TransformerDecoderLayer(8, 2, 16),
}


def initial(make):
    paddle.seed(33)
    return flat(*make().parameters())


for _name, _make in LAYERS.items():
    CASES["initial_" + _name] = lambda make=_make: initial(make)


def filled(layer):
    """The layer with parameters that do not depend on a random generator."""
    for i, p in enumerate(layer.parameters()):
        p.set_value(rand(*p.shape, seed=20 + i) * 0.5)
    return layer


@case
def cells():
    x = rand(2, 3)
    rnn, lstm, gru = (filled(LAYERS[name]()) for name in ("SimpleRNNCell", "LSTMCell", "GRUCell"))
    return with_grad(lambda x: rnn(x)[0], x) + with_grad(lambda x: lstm(x)[1][1], x) + with_grad(lambda x: gru(x)[0], x)


@case
def transformer():
    layer = filled(nn.Transformer(8, 2, 1, 1, 16, dropout=0.0))
    mask = layer.generate_square_subsequent_mask(4)
    # Without gradients: those of the encoder's input in 2.6.2 differ from numeric ones.
    return flat(layer(paddle.to_tensor(rand(2, 5, 8)), paddle.to_tensor(rand(2, 4, 8, seed=1)), tgt_mask=mask))


@case
def dropout_of_the_seed():
    paddle.seed(5)
    x = paddle.ones([2, 3, 2, 2])
    return flat(F.dropout(x, 0.5), F.dropout(x, 0.3, axis=1), F.dropout2d(x, 0.5), F.alpha_dropout(x, 0.5))


OPTIMIZERS = {
    "SGD": {},
    "Momentum": {"momentum": 0.8},
    "Adam": {"beta1": 0.8},
    "AdamW": {"weight_decay": 0.1},
    "SGD_decay": {"weight_decay": 0.1},
    "Momentum_nesterov": {"use_nesterov": True, "weight_decay": 0.1},
    "Momentum_l2": {"weight_decay": paddle.regularizer.L2Decay(0.1)},
    "Adam_norm": {"grad_clip": nn.ClipGradByGlobalNorm(0.5)},
    "SGD_value": {"grad_clip": nn.ClipGradByValue(0.01)},
}


def losses(name, scheduled, arguments):
    """Losses of six steps, and parameters after them."""
    # 2.6.2's AdamW decays by the parameter's learning rate, 2.0.2's by the optimizer's.
    factor = 1.0 if name == "AdamW" else 0.5
    net = nn.Sequential(nn.Linear(6, 5, weight_attr=paddle.ParamAttr(learning_rate=factor)), nn.Tanh(), nn.Linear(5, 3))
    filled(net)
    rate = paddle.optimizer.lr.ExponentialDecay(0.1, 0.7) if scheduled else 0.1
    optimizer = getattr(paddle.optimizer, name.partition("_")[0])(rate, parameters=net.parameters(), **arguments)
    x, y = paddle.to_tensor(X), paddle.to_tensor(LABEL % 3)
    out = []
    for _ in range(6):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if scheduled:
            rate.step()
        out += flat(loss)
    return out + flat(*net.parameters())


for _name, _arguments in OPTIMIZERS.items():
    for _scheduled in (False, True):
        CASES[f"train_{_name}{'_scheduled' if _scheduled else ''}"] = (
            lambda name=_name, scheduled=_scheduled, arguments=_arguments: losses(name, scheduled, arguments)
        )


def main():
    values = {name: [float(f"{n:.7g}") for n in call()] for name, call in CASES.items()}
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in values.items())
    sys.stdout.write("{\n" + rows + "\n}\n")


if __name__ == "__main__":
    main()
