"""Results of names of Paddle 2.2 to 2.6: the functions of `CASES` run with Oar and with Paddle.

python tests/api/later_cases.py tests/api/later_values.json    # with Paddle 2.6.2
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import paddle

POTENTIALS = np.random.RandomState(3).randn(4, 6, 5).astype("float32")
TRANSITIONS = np.random.RandomState(4).randn(5, 5).astype("float32")


def _listed(*tensors: Any) -> list:
    return [np.asarray(t).astype("float64").round(7).tolist() for t in tensors]


def viterbi(lengths: list[int], tags: bool) -> list:
    given = paddle.to_tensor(lengths, dtype="int64")
    return _listed(
        *paddle.text.viterbi_decode(paddle.to_tensor(POTENTIALS), paddle.to_tensor(TRANSITIONS), given, tags)
    )


def spectral_norm(make: Any, shape: list[int], **arguments: Any) -> list:
    """Output, gradient, vectors after a step of training; outputs of a second one and in evaluation mode."""
    values = np.random.RandomState(5)
    layer = make()
    layer.weight.set_value(values.randn(*layer.weight.shape).astype("float32"))
    layer.bias.set_value(np.zeros(layer.bias.shape, "float32"))
    paddle.nn.utils.spectral_norm(layer, **arguments)
    for vector in (layer.weight_u, layer.weight_v):
        direction = values.randn(*vector.shape).astype("float32")
        vector.set_value(direction / np.linalg.norm(direction))
    x = paddle.to_tensor(values.randn(*shape).astype("float32"))
    y = layer(x)
    (y * y).sum().backward()
    second = layer(x)
    vectors = [np.array(layer.weight_u), np.array(layer.weight_v)]
    layer.eval()
    return [*_listed(y, layer.weight_orig.grad, *vectors, second, layer(x)), sorted(layer.state_dict())]


def lbfgs(**arguments: Any) -> list:
    """Rosenbrock's function and a quartic: the loss before a step, evaluations until then, and both parameters."""
    x = paddle.create_parameter([2], "float64", default_initializer=paddle.nn.initializer.Constant(0.0))
    x.set_value(np.array([-1.2, 1.0]))
    y = paddle.create_parameter([2, 2], "float64", default_initializer=paddle.nn.initializer.Constant(0.5))
    target = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], dtype="float64")
    optimizer, evaluations = paddle.optimizer.LBFGS(parameters=[x, y], **arguments), [0]

    def closure():
        evaluations[0] += 1
        optimizer.clear_grad()
        rosenbrock = 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
        loss = (rosenbrock + ((y - target) ** 4).sum()).sum()
        loss.backward()
        return loss

    return [[float(optimizer.step(closure)), evaluations[0], *_listed(x, y)] for _ in range(2)]


WOLFE = {"learning_rate": 1.0, "line_search_fn": "strong_wolfe"}
CASES = {
    "viterbi_tags": lambda: viterbi([6, 3, 1, 5], True),
    "viterbi": lambda: viterbi([6, 3, 1, 5], False),
    "viterbi_short_tags": lambda: viterbi([2, 3, 1, 4], True),
    "viterbi_short": lambda: viterbi([2, 3, 1, 4], False),
    "spectral_linear": lambda: spectral_norm(lambda: paddle.nn.Linear(4, 3), [2, 4]),
    "spectral_conv": lambda: spectral_norm(lambda: paddle.nn.Conv2D(2, 3, 2), [1, 2, 4, 4], n_power_iterations=3),
    "spectral_transposed": lambda: spectral_norm(lambda: paddle.nn.Conv2DTranspose(2, 3, 2), [1, 2, 2, 2]),
    "spectral_dim": lambda: spectral_norm(lambda: paddle.nn.Conv2D(2, 3, 2), [1, 2, 4, 4], dim=1, eps=1e-3),
    "lbfgs_fixed": lambda: lbfgs(learning_rate=0.05, max_iter=8),
    "lbfgs_history": lambda: lbfgs(history_size=3, max_iter=7, **WOLFE),
    "lbfgs_evaluations": lambda: lbfgs(max_eval=4, **WOLFE),
}

if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump({name: run() for name, run in CASES.items()}, file, separators=(",", ":"))
        file.write("\n")
