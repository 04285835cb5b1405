"""`paddle.nn.utils` and initializers of Paddle 2.1 to 2.6."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import paddle
from paddle.nn.initializer.base import Initializer, NumpyArrayInitializer

__all__: list[str] = []


def calculate_gain(nonlinearity, param=None):
    """The factor that keeps the variance of activations behind `nonlinearity`.

    Examples:
        >>> import paddle
        >>> round(paddle.nn.initializer.calculate_gain("relu"), 4)
        1.4142
    """
    slope = 0.01 if param is None else float(param)
    gains = {
        **dict.fromkeys(
            [
                "sigmoid",
                "linear",
                "conv1d",
                "conv2d",
                "conv3d",
                "conv1d_transpose",
                "conv2d_transpose",
                "conv3d_transpose",
            ],
            1.0,
        ),
        "tanh": 5.0 / 3,
        "relu": math.sqrt(2.0),
        "leaky_relu": math.sqrt(2.0 / (1 + slope**2)),
        "selu": 3.0 / 4,
    }
    if nonlinearity not in gains:
        raise ValueError(f"calculate_gain: nonlinearity must be one of {', '.join(gains)}, got {nonlinearity!r}")
    return gains[nonlinearity]


class Orthogonal(Initializer):
    """A (semi-)orthogonal matrix, times `gain`; dimensions after the first count as columns.

    The matrix comes from a QR decomposition of normal numbers of numpy's generator, seeded by `paddle.seed`'s.

    Source: Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks".

    Examples:
        >>> import paddle
        >>> layer = paddle.nn.Linear(3, 3, weight_attr=paddle.nn.initializer.Orthogonal())
        >>> (layer.weight @ layer.weight.t()).numpy().round(3).tolist()[0][0]
        1.0
    """

    def __init__(self, gain: float = 1.0, name: str | None = None) -> None:
        if gain is None:
            raise AssertionError("Orthogonal: gain must be a number")
        self._gain = gain

    def __call__(self, param: Any, block: Any = None) -> Any:
        """Fills `param`; ValueError for fewer than two dimensions."""
        shape = [int(s) for s in param.shape]
        if len(shape) < 2:
            raise AssertionError(f"Orthogonal: the parameter must have at least two dimensions, got {len(shape)}")
        rows, columns = shape[0], math.prod(shape[1:])
        with paddle.fluid.dygraph.guard():
            seed = int(paddle.randint(0, 2**31 - 1, [1]).item())
        normal = np.random.RandomState(seed).standard_normal((max(rows, columns), min(rows, columns)))
        q, r = np.linalg.qr(normal)
        q *= np.sign(np.diag(r))
        q = (q.T if rows < columns else q).reshape(shape) * self._gain
        return NumpyArrayInitializer(q.astype("float32"))(param, block)


class Dirac(Initializer):
    """A convolution filter that passes its input channels on: 1 in the middle of filter i, channel i.

    Args:
        groups (int): the groups of the convolution.

    Examples:
        >>> import paddle
        >>> conv = paddle.nn.Conv1D(2, 2, 3, weight_attr=paddle.nn.initializer.Dirac())
        >>> conv.weight.numpy()[:, :, 1].tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, groups: int = 1, name: str | None = None) -> None:
        if groups <= 0 or not isinstance(groups, int):
            raise AssertionError(f"Dirac: groups must be an int above 0, got {groups}")
        self._groups = groups

    def __call__(self, param: Any, block: Any = None) -> Any:
        """Fills `param`; AssertionError for another number of dimensions than 3 to 5."""
        shape = [int(s) for s in param.shape]
        if len(shape) not in (3, 4, 5):
            raise AssertionError(f"Dirac: the parameter must have 3, 4 or 5 dimensions, got {len(shape)}")
        if shape[0] % self._groups:
            raise AssertionError(f"Dirac: {shape[0]} filters are not divisible by groups={self._groups}")
        values = np.zeros(shape, "float32")
        filters = shape[0] // self._groups
        middle = tuple(size // 2 for size in shape[2:])
        for group in range(self._groups):
            for i in range(min(filters, shape[1])):
                values[(group * filters + i, i, *middle)] = 1.0
        return NumpyArrayInitializer(values)(param, block)


def parameters_to_vector(parameters, name=None):
    """All parameters in one vector, in their order.

    Examples:
        >>> import paddle
        >>> paddle.nn.utils.parameters_to_vector(paddle.nn.Linear(2, 3).parameters()).shape
        [9]
    """
    return paddle.concat([paddle.reshape(p, [-1]) for p in parameters])


def vector_to_parameters(vec, parameters, name=None):
    """Sets the parameters to parts of a vector, in their order.

    Examples:
        >>> import paddle
        >>> layer = paddle.nn.Linear(2, 1)
        >>> paddle.nn.utils.vector_to_parameters(paddle.ones([3]), layer.parameters())
        >>> layer.weight.numpy().ravel().tolist()
        [1.0, 1.0]
    """
    start = 0
    for parameter in parameters:
        size = math.prod(parameter.shape)
        parameter.set_value(paddle.reshape(vec[start : start + size], parameter.shape))
        start += size


def _with_gradients(parameters: Any) -> list[Any]:
    parameters = [parameters] if paddle.is_tensor(parameters) else list(parameters)
    return [p for p in parameters if p._grad_ivar() is not None]


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    """Scales all gradients so that the norm of all of them together is at most `max_norm`.

    Returns:
        Tensor: the norm before.

    Raises:
        RuntimeError: for a norm that is not finite, with `error_if_nonfinite`.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([3.0, 4.0], stop_gradient=False)
        >>> (x * x * 0.5).sum().backward()
        >>> paddle.nn.utils.clip_grad_norm_(x, 1.0).item(), x.grad.astype("float64").round(4).tolist()
        (5.0, [0.6, 0.8])
    """
    gradients = [p._grad_ivar() for p in _with_gradients(parameters)]
    if not gradients:
        return paddle.zeros([1])
    with paddle.no_grad():
        norms = paddle.concat([paddle.reshape(paddle.norm(paddle.reshape(g, [-1]), norm_type), [1]) for g in gradients])
        total = paddle.norm(norms, norm_type)
        if error_if_nonfinite and not math.isfinite(total.item()):
            raise RuntimeError(f"clip_grad_norm_: the norm of the gradients is {total.item()}")
        factor = min(max_norm / (total.item() + 1e-6), 1.0)
        for gradient in gradients:
            gradient.set_value(gradient * factor)
    return total


def clip_grad_value_(parameters, clip_value):
    """Limits each element of the gradients to [-clip_value, clip_value].

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([3.0], stop_gradient=False)
        >>> (x * x).sum().backward()
        >>> paddle.nn.utils.clip_grad_value_(x, 1.0)
        >>> x.grad.tolist()
        [1.0]
    """
    with paddle.no_grad():
        for parameter in _with_gradients(parameters):
            gradient = parameter._grad_ivar()
            gradient.set_value(paddle.clip(gradient, -float(clip_value), float(clip_value)))
