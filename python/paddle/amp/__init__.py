"""Automatic mixed precision in dygraph mode. As in Paddle 2.0.2 it requires a CUDA device: on the CPU it warns and has
no effect."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from paddle._basics import mode
from paddle._basics.mode import in_static_mode

__all__ = ["auto_cast", "GradScaler"]


def _on_cuda(what: str) -> bool:
    """Whether the current device supports mixed precision; warns if not.

    Raises:
        NotImplementedError: on a CUDA device.
    """
    place = mode._current_expected_place()
    if not place.is_gpu_place():
        warnings.warn(f"{what} can only be enabled on CUDAPlace; on {place} it has no effect", stacklevel=4)
        return False
    raise NotImplementedError(f"{what}: mixed precision on CUDA devices is not implemented; pass enable=False")


def _check_lists(white: Iterable[str] | None, black: Iterable[str] | None) -> None:
    if set(white or ()) & set(black or ()):
        raise ValueError("auto_cast: an operator is on both the custom white list and the custom black list")


@contextlib.contextmanager
def _guard(what: str, enable: bool, white: Iterable[str] | None, black: Iterable[str] | None) -> Iterator[None]:
    if in_static_mode():
        raise ValueError(f"{what} requires dygraph mode: call paddle.disable_static() first")
    if enable:
        _on_cuda(what)
    _check_lists(white, black)
    yield


def amp_guard(enable: bool = True, custom_white_list: Any = None, custom_black_list: Any = None) -> Any:
    """The former name of :func:`auto_cast`."""
    return _guard("amp_guard", enable, custom_white_list, custom_black_list)


def auto_cast(enable: bool = True, custom_white_list: Any = None, custom_black_list: Any = None) -> Any:
    """A context in which selected operators compute in float16.

    On the CPU it has no effect and warns.

    Args:
        enable (bool): whether to enable it.
        custom_white_list, custom_black_list (set|list, optional): operator types to run in float16, and not to.

    Raises:
        ValueError: in static mode, or if an operator is in both lists.
        NotImplementedError: on a CUDA device.

    Examples:
        >>> import paddle
        >>> with paddle.amp.auto_cast(enable=False):
        ...     y = paddle.ones([2]) + 1
    """
    return _guard("auto_cast", enable, custom_white_list, custom_black_list)


class AmpScaler:
    """Scales the loss so that small float16 gradients do not underflow, and unscales gradients before the update.

    On the CPU it has no effect and warns.

    Args:
        enable (bool): whether to enable it.
        init_loss_scaling (float): the initial scale.
        incr_ratio, decr_ratio (float): factors of the scale after `incr_every_n_steps` steps with finite gradients, and
            after `decr_every_n_nan_or_inf` steps with non-finite ones.
        use_dynamic_loss_scaling (bool): whether the scale changes.

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
        if in_static_mode():
            raise ValueError(f"{type(self).__name__} requires dygraph mode: call paddle.disable_static() first")
        self._enable = enable and _on_cuda(type(self).__name__)

    def scale(self, var: Any) -> Any:
        """`var` times the scale; `var` itself if scaling is disabled."""
        return var

    def minimize(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.minimize(*args, **kwargs)` with unscaled gradients."""
        return optimizer.minimize(*args, **kwargs)


class GradScaler(AmpScaler):
    """Scales the loss so that small float16 gradients do not underflow, and unscales gradients before the update.

    On the CPU it has no effect and warns. The arguments are those of AmpScaler, except that the scale decreases after
    two steps with non-finite gradients.

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
