"""weight_norm: reparametrizes a parameter as a direction and a magnitude."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._dispatch.dygraph import no_grad_
from paddle.nn.layer.layers import Layer
from paddle.tensor import reshape

__all__ = ["weight_norm", "remove_weight_norm"]

_EPSILON = 1e-12


def _lengths(v: Any, dim: int | None) -> Any:
    """The norm over all dimensions but `dim`, with reduced dimensions kept; over all dimensions if None."""
    squares = _ops.square(v)
    if dim is None:
        return _ops.sqrt(_ops.reduce_sum(squares, reduce_all=True) + _EPSILON)
    others = [i for i in range(len(v.shape)) if i != dim]
    total = _ops.reduce_sum(squares, dim=others, keep_dim=True) if others else squares
    return _ops.sqrt(total + _EPSILON)


class WeightNorm:
    """Forward pre-hook that computes ``<name>`` from ``<name>_v`` and ``<name>_g``."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = dim

    def compute_weight(self, layer: Layer) -> Any:
        """The parameter: the direction ``_v`` scaled to the magnitude ``_g``."""
        v, g = getattr(layer, self.name + "_v"), getattr(layer, self.name + "_g")
        if self.dim is not None:
            g = reshape(g, [-1 if i == self.dim else 1 for i in range(len(v.shape))])
        return v / _lengths(v, self.dim) * g

    @staticmethod
    def apply(layer: Layer, name: str, dim: int | None) -> WeightNorm:
        """Replaces a layer's parameter by direction and magnitude."""
        if any(isinstance(h, WeightNorm) and h.name == name for h in layer._forward_pre_hooks.values()):
            raise RuntimeError(f"weight_norm: parameter {name} is weight-normalized already")
        weight = layer._parameters[name]
        rank = len(weight.shape)
        # as in Paddle, -1 means all dimensions
        dim = -1 if dim is None else dim
        assert -rank <= dim < rank, f"weight_norm: dim must be from -{rank} to {rank - 1}, got {dim}"
        hook = WeightNorm(name, None if dim == -1 else dim % rank)
        del layer._parameters[name]
        with no_grad_():
            lengths = reshape(_lengths(weight, hook.dim), [-1])
            for suffix, value in (("_v", weight), ("_g", lengths)):
                parameter = layer.create_parameter(value.shape, dtype=value.dtype)
                layer.add_parameter(name + suffix, parameter)
                _ops.assign(value, Out=parameter)
        setattr(layer, name, hook.compute_weight(layer))
        layer.register_forward_pre_hook(hook)
        return hook

    def remove(self, layer: Layer) -> None:
        """Restores the single parameter."""
        with no_grad_():
            weight = self.compute_weight(layer)
            delattr(layer, self.name)
            for suffix in ("_g", "_v"):
                del layer._parameters[self.name + suffix]
            parameter = layer.create_parameter(weight.shape, dtype=weight.dtype)
            layer.add_parameter(self.name, parameter)
            _ops.assign(weight, Out=parameter)

    def __call__(self, layer: Layer, inputs: Any) -> None:
        setattr(layer, self.name, self.compute_weight(layer))


def weight_norm(layer: Layer, name: str = "weight", dim: int | None = 0) -> Layer:
    """Reparametrizes a layer's parameter as w = g * v / |v|; v and g are trained instead of w.

    Args:
        layer (Layer): modified in place.
        name (str): the parameter; it is replaced by ``<name>_v`` and ``<name>_g``.
        dim (int, optional): the dimension whose slices have a magnitude each; None or -1: one magnitude for all.

    Returns:
        Layer: the layer itself.

    Raises:
        RuntimeError: if it is applied already. AssertionError: for a dim out of range.

    Examples:
        >>> import paddle
        >>> conv = paddle.nn.utils.weight_norm(paddle.nn.Conv2D(3, 5, 3))
        >>> conv.weight_g.shape, conv.weight_v.shape
        ([5], [5, 3, 3, 3])
    """
    WeightNorm.apply(layer, name, dim)
    return layer


def remove_weight_norm(layer: Layer, name: str = "weight") -> Layer:
    """Reverts :func:`weight_norm`; the parameter keeps its last value.

    Raises:
        ValueError: for a parameter without weight_norm.

    Examples:
        >>> import paddle
        >>> linear = paddle.nn.utils.weight_norm(paddle.nn.Linear(2, 3))
        >>> sorted(n for n, _ in paddle.nn.utils.remove_weight_norm(linear).named_parameters())
        ['bias', 'weight']
    """
    for key, hook in layer._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(layer)
            del layer._forward_pre_hooks[key]
            return layer
    raise ValueError(f"weight_norm of '{name}' not found in {layer}")
