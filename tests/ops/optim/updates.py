"""Learning rates and sparse gradients shared by the optimizer cases."""

import numpy as np
from case import Rows, real

RATE = np.array([0.1])
SOME = "float16 float32"
ROWS = Rows([4, 1, 4], 6, real(3, 2, seed=5))
EMPTY = Rows([], 6, np.zeros((0, 2)))
LARGE = Rows(list(np.arange(3000) * 7919 % 4096), 4096, real(3000, 40, seed=5))


def grad_of(g):
    return g.dense() if isinstance(g, Rows) else g


def f4(*values):
    """Attributes are float32."""
    return [float(np.float32(v)) for v in values]


def lazily(new, old, grad):
    """The new values, with the old ones in rows without a gradient."""
    if isinstance(grad, Rows):
        idle = np.setdiff1d(np.arange(len(old[0])), grad.rows)
        for a, b in zip(new, old, strict=True):
            a[idle] = b[idle]
    return tuple(new)


def positive(*shape, seed=0):
    return real(*shape, low=0.1, high=1, seed=seed)
