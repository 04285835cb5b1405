"""`paddle.nn.utils.spectral_norm` of Paddle 2.2: a parameter divided by its largest singular value."""

from __future__ import annotations

from typing import Any

import paddle
from paddle.nn import Conv1DTranspose, Conv2DTranspose, Conv3DTranspose, Layer, Linear
from paddle.nn.functional import normalize

__all__: list[str] = []


class SpectralNorm:
    """Forward pre-hook that computes ``<name>`` from ``<name>_orig``, ``<name>_u`` and ``<name>_v``."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def _matrix(self, weight: Any) -> Any:
        """The parameter with `dim` first, as a matrix."""
        order = [self.dim, *(d for d in range(len(weight.shape)) if d != self.dim)]
        return paddle.reshape(paddle.transpose(weight, order), [weight.shape[self.dim], -1])

    def _unit(self, vector: Any) -> Any:
        return normalize(vector, axis=0, epsilon=self.eps)

    def weight(self, layer: Layer, iterate: bool) -> Any:
        """The normalized parameter; with `iterate`, the singular vectors are improved before."""
        original, u, v = (getattr(layer, self.name + suffix) for suffix in ("_orig", "_u", "_v"))
        matrix = self._matrix(original)
        if iterate:
            with paddle.no_grad():
                left, right = u, v
                for _ in range(self.n_power_iterations):
                    right = self._unit(paddle.matmul(matrix, left, transpose_x=True))
                    left = self._unit(paddle.matmul(matrix, right))
                paddle.assign(left, u)
                paddle.assign(right, v)
                # The gradient reads these, not the buffers, which the next call overwrites.
                u, v = left, right
        return original / paddle.sum(u * paddle.matmul(matrix, v))

    def attach(self, layer: Layer) -> None:
        """Replaces the parameter of a layer by the original and its singular vectors."""
        weight = layer._parameters[self.name]
        with paddle.no_grad():
            rows, columns = self._matrix(weight).shape
            u, v = (self._unit(paddle.randn([size], dtype=weight.dtype)) for size in (rows, columns))
        del layer._parameters[self.name]
        layer.add_parameter(self.name + "_orig", weight)
        setattr(layer, self.name, weight * 1.0)
        layer.register_buffer(self.name + "_u", u)
        layer.register_buffer(self.name + "_v", v)
        layer.register_forward_pre_hook(self)

    def __call__(self, layer: Layer, inputs: Any) -> None:
        setattr(layer, self.name, self.weight(layer, layer.training))


def spectral_norm(layer, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides a layer's parameter by its largest singular value, at each call of the layer.

    Power iteration approximates the singular value; the buffers ``<name>_u`` and ``<name>_v`` have its vectors.
    In evaluation mode they do not change.

    Source: Miyato et al., "Spectral Normalization for Generative Adversarial Networks".

    Args:
        layer (Layer): modified in place.
        name (str): the parameter; it is replaced by ``<name>_orig``.
        n_power_iterations (int): iterations of a call, above 0.
        eps (float): added to norms.
        dim (int, optional): the dimension of the matrix's rows; the others are its columns. Default: 1 for Linear and
            transposed convolutions, 0 for others.

    Returns:
        Layer: the layer itself.

    Raises:
        ValueError: for `n_power_iterations` below 1, a layer without the parameter, or a dim out of range.
        RuntimeError: if it is applied already.

    Examples:
        >>> import paddle
        >>> linear = paddle.nn.utils.spectral_norm(paddle.nn.Linear(3, 3), n_power_iterations=50)
        >>> _ = linear(paddle.ones([1, 3]))
        >>> round(float(paddle.linalg.svd(linear.weight)[1].numpy()[0]), 4)
        1.0
    """
    if n_power_iterations <= 0:
        raise ValueError(f"spectral_norm: n_power_iterations must be above 0, got {n_power_iterations}")
    if any(isinstance(h, SpectralNorm) and h.name == name for h in layer._forward_pre_hooks.values()):
        raise RuntimeError(f"spectral_norm: parameter {name} has a spectral norm already")
    if layer._parameters.get(name) is None:
        raise ValueError(f"spectral_norm: {type(layer).__name__} has no parameter {name!r}")
    if dim is None:
        dim = int(isinstance(layer, (Conv1DTranspose, Conv2DTranspose, Conv3DTranspose, Linear)))
    rank = len(layer._parameters[name].shape)
    if not -rank <= dim < rank:
        raise ValueError(f"spectral_norm: dim must be from -{rank} to {rank - 1}, got {dim}")
    SpectralNorm(name, n_power_iterations, dim % rank, eps).attach(layer)
    return layer
