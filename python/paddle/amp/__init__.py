"""Automatic mixed precision in dygraph mode. As in Paddle 2.0.2 it is for CUDA devices: on the CPU it warns, and does
nothing."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from paddle._basics import mode
from paddle._basics.missing import speak as _speak

__all__ = ["auto_cast", "GradScaler"]


def _on_cuda(what: str) -> bool:
    """Whether the current device is one for mixed precision; warns where it is not.

    Raises:
        NotImplementedError: on a CUDA device.
    """
    place = mode._current_expected_place()
    if not place.is_gpu_place():
        warnings.warn(f"{what} can only be enabled on CUDAPlace; on {place} it does nothing", stacklevel=4)
        return False
    raise NotImplementedError(f"{what}: mixed precision on CUDA devices is not there yet; give enable=False")


def _check_lists(white: Iterable[str] | None, black: Iterable[str] | None) -> None:
    if set(white or ()) & set(black or ()):
        raise ValueError("auto_cast: an operator is on both the custom white list and the custom black list")


@contextlib.contextmanager
def _guard(what: str, enable: bool, white: Iterable[str] | None, black: Iterable[str] | None) -> Iterator[None]:
    if not mode.in_dygraph_mode():
        raise ValueError(f"{what} works in dygraph mode only: call paddle.disable_static() before")
    if enable:
        _on_cuda(what)
    _check_lists(white, black)
    yield


def amp_guard(enable: bool = True, custom_white_list: Any = None, custom_black_list: Any = None) -> Any:
    """The older name of :func:`auto_cast`."""
    return _guard("amp_guard", enable, custom_white_list, custom_black_list)


def auto_cast(enable: bool = True, custom_white_list: Any = None, custom_black_list: Any = None) -> Any:
    """A context in which operators that gain by it compute in float16.

    On the CPU nothing changes, and a warning says so.

    Args:
        enable (bool): whether to.
        custom_white_list, custom_black_list (set|list, optional): types of operators that do, and that do not.

    Raises:
        ValueError: in static mode, or when an operator is in both lists.
        NotImplementedError: on a CUDA device.

    Examples:
        >>> import paddle
        >>> with paddle.amp.auto_cast(enable=False):
        ...     y = paddle.ones([2]) + 1
    """
    return _guard("auto_cast", enable, custom_white_list, custom_black_list)


class AmpScaler:
    """Scales the loss, so that small gradients of float16 do not vanish, and takes the scale out before the update.

    On the CPU nothing is scaled, and a warning says so.

    Args:
        enable (bool): whether to.
        init_loss_scaling (float): the first scale.
        incr_ratio, decr_ratio (float): what it is multiplied by after `incr_every_n_steps` good steps, and after
            `decr_every_n_nan_or_inf` steps with values that are not finite.
        use_dynamic_loss_scaling (bool): whether it changes.

    Raises:
        ValueError: in static mode. NotImplementedError: on a CUDA device.
    """

    def __init__(
        self,
        enable: bool = True,
        init_loss_scaling: float = 2.0**15,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        incr_every_n_steps: int = 1000,
        decr_every_n_nan_or_inf: int = 1,
        use_dynamic_loss_scaling: bool = True,
    ) -> None:
        if not mode.in_dygraph_mode():
            raise ValueError(f"{type(self).__name__} works in dygraph mode only: call paddle.disable_static() before")
        self._enable = enable and _on_cuda(type(self).__name__)

    def scale(self, var: Any) -> Any:
        """`var` times the scale; `var` itself where scaling is off."""
        return var

    def minimize(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.minimize(*args, **kwargs)`, with gradients of the right scale."""
        return optimizer.minimize(*args, **kwargs)


class GradScaler(AmpScaler):
    """Scales the loss, so that small gradients of float16 do not vanish, and takes the scale out before the update.

    On the CPU nothing is scaled, and a warning says so. Arguments are those of Paddle's AmpScaler, but that two steps
    with values that are not finite lower the scale.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
        >>> scaler = paddle.amp.GradScaler(enable=False)
        >>> loss = scaler.scale(net(paddle.ones([4, 2])).mean())
        >>> loss.backward()
        >>> _ = scaler.minimize(opt, loss)
    """

    def __init__(
        self,
        enable: bool = True,
        init_loss_scaling: float = 2.0**15,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        incr_every_n_steps: int = 1000,
        decr_every_n_nan_or_inf: int = 2,
        use_dynamic_loss_scaling: bool = True,
    ) -> None:
        super().__init__(
            enable,
            init_loss_scaling,
            incr_ratio,
            decr_ratio,
            incr_every_n_steps,
            decr_every_n_nan_or_inf,
            use_dynamic_loss_scaling,
        )


_speak()
