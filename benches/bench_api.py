"""Cost of a small call through the API: `make bench`, or `pytest benches --benchmark-only`.

Each case runs on `paddle` as installed; where torch is installed, on torch as well, for a ratio in one run.
"""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

RNG = np.random.default_rng(0)
SMALL, OTHER = RNG.random((2, 64, 64), dtype=np.float32)

PADDLE = {
    "add_1": lambda a, b: (lambda x, y: lambda: x + y)(paddle.to_tensor(a[0, :1]), paddle.to_tensor(b[0, :1])),
    "add_64x64": lambda a, b: (lambda x, y: lambda: x + y)(paddle.to_tensor(a), paddle.to_tensor(b)),
    "matmul_64x64": lambda a, b: (lambda x, y: lambda: paddle.matmul(x, y))(paddle.to_tensor(a), paddle.to_tensor(b)),
    "relu_64x64": lambda a, b: (lambda x: lambda: F.relu(x))(paddle.to_tensor(a)),
    "softmax_64x64": lambda a, b: (lambda x: lambda: F.softmax(x))(paddle.to_tensor(a)),
    "sum_64x64": lambda a, b: (lambda x: lambda: x.sum())(paddle.to_tensor(a)),
    "slice": lambda a, b: (lambda x: lambda: x[3:5])(paddle.to_tensor(a)),
}
TORCH = {
    "add_1": lambda a, b: (lambda x, y: lambda: x + y)(torch.tensor(a[0, :1]), torch.tensor(b[0, :1])),
    "add_64x64": lambda a, b: (lambda x, y: lambda: x + y)(torch.tensor(a), torch.tensor(b)),
    "matmul_64x64": lambda a, b: (lambda x, y: lambda: x @ y)(torch.tensor(a), torch.tensor(b)),
    "relu_64x64": lambda a, b: (lambda x: lambda: torch.relu(x))(torch.tensor(a)),
    "softmax_64x64": lambda a, b: (lambda x: lambda: torch.softmax(x, -1))(torch.tensor(a)),
    "sum_64x64": lambda a, b: (lambda x: lambda: x.sum())(torch.tensor(a)),
    "slice": lambda a, b: (lambda x: lambda: x[3:5])(torch.tensor(a)),
}


@pytest.mark.parametrize("name", PADDLE)
def test_paddle(benchmark, name):
    benchmark.group = name
    benchmark(PADDLE[name](SMALL, OTHER))


@pytest.mark.skipif(torch is None, reason="torch is not installed")
@pytest.mark.parametrize("name", TORCH)
def test_torch(benchmark, name):
    benchmark.group = name
    benchmark(TORCH[name](SMALL, OTHER))
