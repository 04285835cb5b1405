"""paddle.distribution: probability distributions: sampling, entropy, densities and divergences."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from paddle import _ops
from paddle._basics.checks import check_type
from paddle._basics.dtypes import convert_dtype
from paddle._basics.element_types import FLOATS
from paddle._basics.mode import in_static_mode
from paddle._dispatch.append import layer_name
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.tensor import arange, cast, concat, expand, reshape, unsqueeze
from paddle.tensor import random as _random
from paddle.tensor.creation import assign

__all__ = ["Categorical", "Distribution", "Normal", "Uniform"]


def _check(value: Any, name: str, kinds: Any, where: str) -> None:
    """Argument check of static mode, as in 2.0.2; in dygraph mode operators report invalid arguments."""
    if in_static_mode():
        check_type(value, name, kinds, where)


def _named(method: Callable[..., Any]) -> Callable[..., Any]:
    """In Programs the method's outputs are named ``<name of the distribution>_<method>``."""

    @functools.wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        with layer_name(f"{self.name}_{method.__name__}"):
            return method(self, *args, **kwargs)

    return called


def _unknown(shape: Any) -> bool:
    return any(n < 0 for n in shape)


class Distribution:
    """Base of distributions: a subclass implements the supported methods."""

    def sample(self) -> Any:
        """Draws samples."""
        raise NotImplementedError(f"{type(self).__name__} defines no sample")

    def entropy(self) -> Any:
        """The entropy, in nats."""
        raise NotImplementedError(f"{type(self).__name__} defines no entropy")

    def kl_divergence(self, other: Any) -> Any:
        """The Kullback-Leibler divergence from this distribution to another."""
        raise NotImplementedError(f"{type(self).__name__} defines no kl_divergence")

    def log_prob(self, value: Any) -> Any:
        """The log density at `value`."""
        raise NotImplementedError(f"{type(self).__name__} defines no log_prob")

    def probs(self, value: Any) -> Any:
        """The density at `value`."""
        raise NotImplementedError(f"{type(self).__name__} defines no probs")

    def _tensors(self, *args: Any) -> tuple[tuple[Any, ...], str]:
        """Parameters as Tensors of one shape and type, and the name of the type.

        Raises:
            ValueError: for Tensors mixed with other parameters. TypeError: for another type of parameter.
        """
        given = [isinstance(a, Variable) for a in args]
        if any(given) and not all(given):
            raise ValueError("if one argument is Tensor, all arguments should be Tensor")
        if all(given):
            return args, convert_dtype(args[0].dtype)
        for a in args:
            if not isinstance(a, (int, float, list, np.ndarray, np.number)):
                raise TypeError(f"parameters must be floats, lists, arrays or Tensors, got {type(a)}")
        dtype = next((str(a.dtype) for a in args if isinstance(a, np.ndarray) and str(a.dtype) in FLOATS), "float32")
        arrays = [np.atleast_1d(np.asarray(a)) for a in args]
        if any(isinstance(a, np.ndarray) and str(a.dtype) not in FLOATS for a in args):
            warnings.warn("parameters of distributions must be float32 or float64; converted to float32", stacklevel=4)
        # constants of Programs are float32, so float64 values are rounded to it, as in Paddle
        tensors = [assign(np.ascontiguousarray(a, "float32")) for a in np.broadcast_arrays(*arrays)]
        return tuple(cast(t, dtype) if dtype == "float64" else t for t in tensors), dtype

    @staticmethod
    def _like(value: Any, parameter: Any) -> Any:
        """`value` converted to the type of the parameters."""
        check_variable_and_dtype(value, "value", FLOATS, "log_prob")
        if value.dtype == parameter.dtype:
            return value
        warnings.warn("the value is converted to the type of the distribution's parameters", stacklevel=3)
        return cast(value, parameter.dtype)


class _LocationScale(Distribution):
    """A distribution with two parameters; scalar parameters do not add a dimension to the samples."""

    _all_numbers: bool
    dtype: str
    _takes: tuple[type, ...] = (int, float, np.ndarray, Variable, list)

    def _start(self, first: Any, second: Any, names: tuple[str, str]) -> tuple[Any, Any]:
        kind = type(self).__name__
        for name, value in zip(names, (first, second), strict=True):
            _check(value, name, self._takes, kind)
        self._all_numbers = all(isinstance(v, (int, float)) for v in (first, second))
        tensors, self.dtype = self._tensors(first, second)
        return tensors[0], tensors[1]

    def _draw(self, builtin: Any, like: Any, shape: Any, seed: int, **limits: float) -> Any:
        """Random numbers of shape `shape` + the shape of `like`."""
        _check(shape, "shape", list, "sample")
        _check(seed, "seed", int, "sample")
        whole: dict[str, Any] = {"shape": [*shape, *like.shape]}
        if _unknown(like.shape):
            whole = {"ShapeTensor": concat([assign(np.array(shape, "int32")), _ops.shape(like)])}
        return builtin(seed=seed, dtype=like.dtype, **limits, **whole)

    def _finished(self, spread: Any, start: Any, shape: Any) -> Any:
        samples = _ops.elementwise_add(spread, start)
        return reshape(samples, shape) if self._all_numbers else samples


class Uniform(_LocationScale):
    """The uniform distribution on [low, high).

    Args:
        low (int|float|list|numpy.ndarray|Tensor): the lower bound.
        high (int|float|list|numpy.ndarray|Tensor): the upper bound; both are broadcast.
        name (str, optional): prefix of the names of results in Programs.

    Raises:
        ValueError: if only one is a Tensor. TypeError: for other types.

    Examples:
        >>> import paddle
        >>> uniform = paddle.distribution.Uniform([3.0], [7.0])
        >>> uniform.sample([2, 4]).shape, uniform.probs(paddle.to_tensor([5.0])).numpy().tolist()
        ([2, 4, 1], [0.25])
    """

    def __init__(self, low: Any, high: Any, name: str | None = None) -> None:
        self.name = "Uniform" if name is None else name
        self.low, self.high = self._start(low, high, ("low", "high"))

    @_named
    def sample(self, shape: Any, seed: int = 0) -> Any:
        """Draws samples.

        Args:
            shape (list): shape of the samples, followed by that of the parameters.
            seed (int): if not 0, the seed of a separate generator.
        """
        drawn = self._draw(_ops.uniform_random, self.low + self.high, shape, seed, min=0.0, max=1.0)
        return self._finished(drawn * (self.high - self.low), self.low, shape)

    def _inside(self, value: Any) -> Any:
        """1 between the limits, else 0."""
        return cast(self.low < value, value.dtype) * cast(value < self.high, value.dtype)

    @_named
    def log_prob(self, value: Any) -> Any:
        """The log density at a Tensor of values."""
        value = self._like(value, self.low)
        return _ops.elementwise_sub(_ops.log(self._inside(value)), _ops.log(self.high - self.low))

    @_named
    def probs(self, value: Any) -> Any:
        """The density at a Tensor of values."""
        value = self._like(value, self.low)
        return _ops.elementwise_div(self._inside(value), self.high - self.low)

    @_named
    def entropy(self) -> Any:
        """log(high - low)."""
        return _ops.log(self.high - self.low)


class Normal(_LocationScale):
    """The normal distribution.

    Args:
        loc (int|float|list|numpy.ndarray|Tensor): the mean.
        scale (int|float|list|numpy.ndarray|Tensor): the standard deviation; both are broadcast.
        name (str, optional): prefix of the names of results in Programs.

    Raises:
        ValueError: if only one is a Tensor. TypeError: for other types.

    Examples:
        >>> import paddle
        >>> a, b = paddle.distribution.Normal([0.0], [1.0]), paddle.distribution.Normal([2.0], [1.0])
        >>> a.sample([3]).shape, a.kl_divergence(b).numpy().tolist()
        ([3, 1], [2.0])
    """

    def __init__(self, loc: Any, scale: Any, name: str | None = None) -> None:
        self.name = "Normal" if name is None else name
        self.loc, self.scale = self._start(loc, scale, ("loc", "scale"))

    @_named
    def sample(self, shape: Any, seed: int = 0) -> Any:
        """Draws samples.

        Args:
            shape (list): shape of the samples, followed by that of the parameters.
            seed (int): if not 0, the seed of a separate generator.
        """
        drawn = self._draw(_ops.gaussian_random, self.loc + self.scale, shape, seed, mean=0.0, std=1.0)
        return self._finished(drawn * self.scale, self.loc, shape)

    @_named
    def entropy(self) -> Any:
        """0.5 + 0.5 log(2 pi) + log(scale)."""
        return _ops.scale(_ops.log(self.scale + (self.loc - self.loc)), bias=0.5 + 0.5 * math.log(2 * math.pi))

    @_named
    def log_prob(self, value: Any) -> Any:
        """The log density at a Tensor of values."""
        off = self._like(value, self.loc) - self.loc
        exponent = off * off * -1.0 / (self.scale * self.scale * 2.0)
        return _ops.elementwise_sub(exponent, _ops.log(self.scale) + 0.5 * math.log(2 * math.pi))

    @_named
    def probs(self, value: Any) -> Any:
        """The density at a Tensor of values."""
        off = self._like(value, self.loc) - self.loc
        bell = _ops.exp(off * off * -1.0 / (self.scale * self.scale * 2.0))
        return _ops.elementwise_div(bell, self.scale * math.sqrt(2 * math.pi))

    @_named
    def kl_divergence(self, other: Any) -> Any:
        """The Kullback-Leibler divergence to another Normal."""
        _check(other, "other", Normal, "kl_divergence")
        ratio = self.scale / other.scale
        ratio = ratio * ratio
        off = (self.loc - other.loc) / other.scale
        return _ops.elementwise_add(ratio * 0.5, (off * off - 1.0 - _ops.log(ratio)) * 0.5)


class Categorical(Distribution):
    """The categorical distribution over 0 to n - 1.

    Args:
        logits (list|numpy.ndarray|Tensor): [..., n]. `sample` and `probs` use them as unnormalized weights, `entropy`
            and `kl_divergence` as log-weights, as in Paddle.
        name (str, optional): prefix of the names of results in Programs.

    Examples:
        >>> import paddle
        >>> die = paddle.distribution.Categorical(paddle.to_tensor([1.0, 1.0, 2.0]))
        >>> die.probs(paddle.to_tensor([0, 2])).numpy().tolist()
        [0.25, 0.5]
    """

    def __init__(self, logits: Any, name: str | None = None) -> None:
        _check(logits, "logits", (np.ndarray, Variable, list), "Categorical")
        self.name = "Categorical" if name is None else name
        (self.logits,), self.dtype = self._tensors(logits)

    @_named
    def sample(self, shape: Any) -> Any:
        """Draws int64 samples.

        Args:
            shape (list): shape of the samples, followed by that of the distributions.
        """
        _check(shape, "shape", list, "sample")
        *batch, n = self.logits.shape
        weights = reshape(self.logits, [-1, n]) if batch else self.logits
        drawn = _random.multinomial(weights, int(np.prod(shape)), True)  # type: ignore[attr-defined]
        if not batch:
            return reshape(drawn, shape)
        # [distributions, draws] in memory, which Paddle reshapes to this shape
        return reshape(drawn, [*shape, *batch])

    def _parts(self) -> tuple[Any, Any]:
        """The probabilities whose logarithms are the logits, and their logarithms."""
        shifted = self.logits - self.logits.max(axis=-1, keepdim=True)
        weights = _ops.exp(shifted)
        total = weights.sum(axis=-1, keepdim=True)
        return weights / total, shifted - _ops.log(total)

    @_named
    def kl_divergence(self, other: Any) -> Any:
        """The Kullback-Leibler divergence to another Categorical, [..., 1]."""
        _check(other, "other", Categorical, "kl_divergence")
        probabilities, logs = self._parts()
        return (probabilities * (logs - other._parts()[1])).sum(axis=-1, keepdim=True)

    @_named
    def entropy(self) -> Any:
        """The entropy, [..., 1]."""
        probabilities, logs = self._parts()
        return _ops.scale((probabilities * logs).sum(axis=-1, keepdim=True), scale=-1.0)

    @_named
    def probs(self, value: Any) -> Any:
        """The probabilities of categories.

        Args:
            value (Tensor): category indices. For one distribution any shape; for several, the leading dimensions are
                those of the distributions, or a vector is looked up in each of them.

        Raises:
            ValueError: if the leading dimensions differ.
        """
        probabilities = self.logits / self.logits.sum(axis=-1, keepdim=True)
        *batch, n = probabilities.shape
        shape = list(value.shape)
        if not batch:
            return reshape(_ops.gather_nd(probabilities, reshape(value, [-1, 1])), shape)
        if len(shape) == 1:
            shape = [*batch, *shape]
            value = expand(value, shape)
        if batch != shape[:-1]:
            raise ValueError(f"shape of value {shape[:-1]} must match shape of logits {batch}")
        count = int(np.prod(batch))
        numbers = reshape(value, [count, -1, 1])
        rows = expand(unsqueeze(unsqueeze(arange(count, dtype=numbers.dtype), -1), -1), [count, shape[-1], 1])
        found = _ops.gather_nd(reshape(probabilities, [count, n]), concat([rows, numbers], axis=-1))
        return reshape(found, shape)

    @_named
    def log_prob(self, value: Any) -> Any:
        """The logarithms of :meth:`probs`."""
        return _ops.log(self.probs(value))
