"""fluid.layers.distributions: those of paddle.distribution, and a multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paddle import _ops, distribution
from paddle._programs.variable import Variable
from paddle.tensor.creation import assign

__all__ = ["Categorical", "MultivariateNormalDiag", "Normal", "Uniform"]

# Integers are not accepted, unlike in 2.0.
_TAKEN = (float, np.ndarray, Variable, list)


class Uniform(distribution.Uniform):
    """The uniform distribution over [low, high) (Paddle 2.0: paddle.fluid.layers.Uniform).

    Args:
        low, high (float|list|numpy.ndarray|Variable): the bounds; broadcast, float32.

    Raises:
        ValueError: if only one is a Variable. TypeError: for other types.

    Examples:
        >>> import paddle
        >>> u = paddle.fluid.layers.Uniform([0.0], [4.0])
        >>> u.sample([2]).shape, u.entropy().numpy().tolist()
        ([2, 1], [1.3862943649291992])
    """

    _takes = _TAKEN

    def __init__(self, low: Any, high: Any) -> None:
        super().__init__(low, high)


class Normal(distribution.Normal):
    """The normal distribution (Paddle 2.0: paddle.fluid.layers.Normal).

    Args:
        loc, scale (float|list|numpy.ndarray|Variable): mean and standard deviation; broadcast, float32.

    Raises:
        ValueError: if only one is a Variable. TypeError: for other types.

    Examples:
        >>> import paddle
        >>> a, b = paddle.fluid.layers.Normal([0.0], [1.0]), paddle.fluid.layers.Normal([1.0], [1.0])
        >>> a.sample([3]).shape, a.kl_divergence(b).numpy().tolist()
        ([3, 1], [0.5])
    """

    _takes = _TAKEN

    def __init__(self, loc: Any, scale: Any) -> None:
        super().__init__(loc, scale)


class Categorical(distribution.Categorical):
    """The categorical distribution by log weights (Paddle 2.0: paddle.fluid.layers.Categorical). It has
    `entropy` and `kl_divergence`; for samples and probabilities use paddle.distribution.Categorical.

    Args:
        logits (list|numpy.ndarray|Variable): [..., categories], float32.

    Examples:
        >>> import paddle
        >>> paddle.fluid.layers.Categorical([0.0, 0.0]).entropy().numpy().tolist()
        [0.6931471824645996]
    """

    def __init__(self, logits: Any) -> None:
        super().__init__(logits)

    def sample(self) -> Any:
        """Raises NotImplementedError."""
        return distribution.Distribution.sample(self)

    def log_prob(self, value: Any) -> Any:
        """Raises NotImplementedError."""
        return distribution.Distribution.log_prob(self, value)


class MultivariateNormalDiag(distribution.Distribution):
    """A multivariate normal distribution with a diagonal covariance (Paddle 2.0:
    paddle.fluid.layers.MultivariateNormalDiag).

    Args:
        loc (list|numpy.ndarray|Variable): the means, [k].
        scale (list|numpy.ndarray|Variable): the covariance, [k, k], of which the diagonal is used.

    Raises:
        ValueError: if only one is a Variable. TypeError: for other types.

    Examples:
        >>> import paddle
        >>> a = paddle.fluid.layers.MultivariateNormalDiag([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
        >>> b = paddle.fluid.layers.MultivariateNormalDiag([1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]])
        >>> a.kl_divergence(b).numpy().tolist()
        [2.5]
    """

    def __init__(self, loc: Any, scale: Any) -> None:
        given = [isinstance(v, Variable) for v in (loc, scale)]
        if any(given) and not all(given):
            raise ValueError("if one argument is Variable, all arguments should be Variable")
        for name, value in (("loc", loc), ("scale", scale)):
            if not isinstance(value, (list, np.ndarray, Variable)):
                raise TypeError(f"MultivariateNormalDiag: {name} must be a list, array or Variable, got {type(value)}")
        if not all(given):
            loc, scale = (assign(np.ascontiguousarray(v, "float32")) for v in (loc, scale))
        self.loc, self.scale = loc, scale

    def _variances(self) -> Any:
        return _ops.reduce_sum(self.scale * _ops.eye(num_rows=self.scale.shape[0], dtype=self.scale.dtype), dim=[1])

    def entropy(self) -> Any:
        """The entropy, [1]."""
        logs = _ops.reduce_sum(_ops.log(self._variances()), reduce_all=True)
        return logs * 0.5 + 0.5 * self.scale.shape[0] * (1.0 + math.log(2 * math.pi))

    def kl_divergence(self, other: Any) -> Any:
        """The Kullback-Leibler divergence to another MultivariateNormalDiag, [1].

        Raises:
            TypeError: if `other` is not a MultivariateNormalDiag.
        """
        if not isinstance(other, MultivariateNormalDiag):
            raise TypeError(f"kl_divergence: other must be a MultivariateNormalDiag, got {type(other)}")
        own, theirs, off = self._variances(), other._variances(), other.loc - self.loc
        ratio = own / theirs
        return _ops.reduce_sum((ratio + off * off / theirs - 1.0 - _ops.log(ratio)) * 0.5, reduce_all=True)
