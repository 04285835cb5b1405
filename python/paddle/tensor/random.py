"""Random Tensors, with the same numbers as Paddle's CPU generator."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.default_dtype import get_default_dtype
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.append import named
from paddle._dispatch.argument_checks import check_arguments
from paddle._dispatch.arguments import shape_arguments
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_shape

from .creation import _dtype

__all__ = ["standard_normal", "normal", "uniform", "randn", "rand", "randint", "randperm", "bernoulli", "multinomial"]


def _drawn(dtype, where: str):
    """The element type of random numbers; the default dtype must be float32 or float64."""
    if dtype is None and get_default_dtype() not in ("float32", "float64"):
        raise TypeError(f"{where}: dtype must be float32 or float64, but the default is {get_default_dtype()}")
    return _dtype(dtype)


def uniform(shape, dtype=None, min=-1.0, max=1.0, seed=0, name=None) -> Tensor:  # noqa: A002
    """Numbers drawn uniformly from [min, max).

    Args:
        shape (list|tuple|Tensor): sizes.
        dtype (str, optional): float32 or float64.
        seed (int): if not 0, the seed of a separate generator: every call returns the same numbers.

    Examples:
        >>> import paddle
        >>> paddle.uniform([2, 3]).shape
        [2, 3]
    """
    dtype = _drawn(dtype, "uniform/rand")
    check_arguments("uniform/rand", shape, dtype)
    return named(
        name, _ops.uniform_random, min=float(min), max=float(max), seed=seed, dtype=dtype, **shape_arguments(shape)
    )


def rand(shape, dtype=None, name=None) -> Tensor:
    """Numbers drawn uniformly from [0, 1)."""
    return uniform(shape, dtype, 0.0, 1.0, name=name)


def gaussian(shape, mean=0.0, std=1.0, dtype=None, name=None) -> Tensor:
    """Numbers drawn from the normal distribution."""
    dtype = _drawn(dtype, "gaussian/standard_normal/randn/normal")
    check_shape(shape, "gaussian")
    check_arguments("gaussian/standard_normal/randn/normal", dtype)
    return named(
        name, _ops.gaussian_random, mean=float(mean), std=float(std), seed=0, dtype=dtype, **shape_arguments(shape)
    )


def standard_normal(shape, dtype=None, name=None) -> Tensor:
    """Numbers drawn from the normal distribution with mean 0 and standard deviation 1."""
    return gaussian(shape, 0.0, 1.0, dtype, name)


def randn(shape, dtype=None, name=None) -> Tensor:
    """The same as `standard_normal`."""
    return standard_normal(shape, dtype, name)


def normal(mean=0.0, std=1.0, shape=None, name=None) -> Tensor:
    """Numbers drawn from normal distributions.

    Args:
        mean, std (float|Tensor): a Tensor gives each element its own distribution.
        shape (list|tuple|Tensor, optional): sizes, if both are numbers.
    """
    check_arguments("normal", mean, std)
    like = mean if isinstance(mean, Variable) else std if isinstance(std, Variable) else None
    if like is None:
        check_shape(shape, "normal")
        return gaussian(shape, mean, std, name=name)
    if isinstance(mean, Variable) and isinstance(std, Variable) and mean.dtype != std.dtype:
        std = std.astype(mean.dtype)  # type: ignore[attr-defined]  # added by monkey_patch_variable
    drawn = standard_normal(_ops.shape(like) if in_static_mode() else like.shape, like.dtype)
    out = _ops.elementwise_mul(drawn, std) if isinstance(std, Variable) else _ops.scale(drawn, scale=float(std))
    if isinstance(mean, Variable):
        out = _ops.elementwise_add(out, mean)
    else:
        out = _ops.scale(out, bias=float(mean))
    out.stop_gradient = True
    return out


def randint(low=0, high=None, shape=[1], dtype=None, name=None) -> Tensor:  # noqa: B006
    """Integers drawn uniformly from [low, high), or from [0, low) without `high`.

    Examples:
        >>> import paddle
        >>> paddle.randint(0, 10, [3]).shape
        [3]
    """
    if high is None:
        if low <= 0:
            raise ValueError(f"randint: low must be positive where high is None, got {low!s:.200}")
        low, high = 0, low
    dtype = _dtype(dtype, "int64")
    check_shape(shape, "randint")
    check_arguments("randint", dtype)
    if low >= high:
        raise ValueError(f"randint: low must be below high, got {low!s:.200} and {high!s:.200}")
    return named(name, _ops.randint, low=int(low), high=int(high), seed=0, dtype=dtype, **shape_arguments(shape))


def randperm(n, dtype="int64", name=None) -> Tensor:
    """The numbers 0 to n - 1 in random order.

    Examples:
        >>> import paddle
        >>> sorted(paddle.randperm(4).numpy().tolist())
        [0, 1, 2, 3]
    """
    if n < 1:
        raise ValueError("randperm: n must be positive")
    dtype = _dtype(dtype)
    check_arguments("randperm", dtype)
    out = named(name, _ops.randperm, n=n, seed=0, dtype=dtype)
    out.stop_gradient = True
    return out


def bernoulli(x, name=None) -> Tensor:
    """Zeros and ones; the elements of `x` are the probabilities of a one.

    Args:
        x (Tensor): probabilities, float32 or float64.

    Raises:
        IndexError: for a probability outside [0, 1].

    Examples:
        >>> import paddle
        >>> paddle.bernoulli(paddle.to_tensor([0.0, 1.0])).numpy().tolist()
        [0.0, 1.0]
    """
    out = named(name, _ops.bernoulli, x)
    out.stop_gradient = True
    return out


def multinomial(x, num_samples=1, replacement=False, name=None) -> Tensor:
    """Categories drawn with the probabilities (or weights) in each row of `x`.

    Args:
        x (Tensor): one or two dimensions; float32 or float64, not negative.
        num_samples (int): number of draws from each row.
        replacement (bool): whether a category may be drawn more than once.

    Returns:
        Tensor: int64, [num_samples] or [rows, num_samples].

    Raises:
        ValueError: for negative weights, or too few categories without replacement.

    Examples:
        >>> import paddle
        >>> paddle.multinomial(paddle.to_tensor([0.0, 1.0]), 3, replacement=True).numpy().tolist()
        [1, 1, 1]
    """
    out = named(name, _ops.multinomial, x, num_samples=num_samples, replacement=replacement)
    out.stop_gradient = True
    return out
