"""auto_cast: operators of the white list compute in float16 or bfloat16."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from paddle._basics import autocast, flags, mode
from paddle._programs import building

__all__ = ["amp_guard", "auto_cast"]

WHITE_LIST, BLACK_LIST = autocast.WHITE_LIST, autocast.BLACK_LIST
_LEVELS = ("O0", "O1", "O2")


def low_precision_of(what: str, dtype: str = "float16") -> str | None:
    """The element type of mixed precision on the current device; None, with 2.0.2's warning, where there is none."""
    place = mode._current_expected_place()
    if place.is_gpu_place():
        return dtype
    found = "bfloat16" if dtype == "bfloat16" else flags.cpu_amp()
    if found is None:
        warnings.warn(
            f"{what} can only be enabled on CUDAPlace; on {place} it has no effect, unless FLAGS_cpu_amp is float16 or "
            "bfloat16",
            stacklevel=5,
        )
    return found


@contextlib.contextmanager
def _guard(
    what: str, enable: bool, white: Iterable[str] | None, black: Iterable[str] | None, level: str, dtype: str
) -> Iterator[None]:
    if mode.in_static_mode() and building.current is None:
        raise ValueError(f"{what} requires dygraph mode: call paddle.disable_static() first")
    if level not in _LEVELS:
        raise ValueError(f"{what}: level must be one of {', '.join(_LEVELS)}, got {level!r}")
    if dtype not in autocast.LOW_TYPES:
        raise ValueError(f"{what}: dtype must be float16 or bfloat16, got {dtype!r}")
    if enable and level == "O2":
        raise NotImplementedError(f"{what}: level O2, parameters of low precision, is not there; pass level='O1'")
    low = low_precision_of(what, dtype) if enable and level == "O1" else None
    former = autocast.switch(autocast.state_of(low, white, black))
    try:
        yield
    finally:
        autocast.switch(former)


def amp_guard(enable: bool = True, custom_white_list: Any = None, custom_black_list: Any = None) -> Any:
    """:func:`auto_cast` as Paddle 1.8 spells it."""
    return _guard("amp_guard", enable, custom_white_list, custom_black_list, "O1", "float16")


def auto_cast(
    enable: bool = True,
    custom_white_list: Any = None,
    custom_black_list: Any = None,
    level: str = "O1",
    dtype: str = "float16",
) -> Any:
    """A context in which operators of the white list compute in low precision.

    Inputs of matrix products and convolutions are cast to `dtype`, inputs of the black list (losses, softmax, sums) to
    float32; other operators compute in float32 if one of their inputs is float32. Parameters and their gradients stay
    float32.

    On a CUDA device both types take effect. On the CPU ``dtype="bfloat16"`` does; the default has none and warns, as in
    Paddle 2.0.2, unless ``FLAGS_cpu_amp`` is "float16" or "bfloat16", which is then the type.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/amp/auto_cast_en.html

    Args:
        enable (bool): whether to enable it.
        custom_white_list, custom_black_list (set|list, optional): operator types that compute in low precision, and in
            float32, regardless of the default lists.
        level (str): "O1", or "O0" for no effect.
        dtype (str): "float16" or "bfloat16".

    Raises:
        ValueError: in static mode, for an operator in both lists, for another level or type.
        NotImplementedError: for level "O2".

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(4, 2)
        >>> with paddle.amp.auto_cast(dtype="bfloat16"):
        ...     y = paddle.matmul(paddle.ones([3, 4]), net.weight)
        >>> y.dtype
        VarType.BF16
        >>> y.sum().backward()
        >>> net.weight.grad.dtype
        dtype('float32')
    """
    return _guard("auto_cast", enable, custom_white_list, custom_black_list, level, dtype)
