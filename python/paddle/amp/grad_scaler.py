"""Loss scaling in dygraph mode."""

from __future__ import annotations

from typing import Any

import paddle._core as _core
from paddle import _ops
from paddle._basics import numpy as np
from paddle._basics.mode import _current_expected_place, in_static_mode
from paddle._basics.place import device_number

from .auto_cast import low_precision_of

__all__ = ["AmpScaler", "GradScaler"]


def _on_current_device(array: Any) -> Any:
    made = _core.tensor_from_array(array, True)
    device = device_number(_current_expected_place())
    return made if device < 0 else _core.copy_to_device(made, device)


class AmpScaler:
    """Scales the loss so that small float16 gradients do not underflow, and unscales gradients before the update.

    On the CPU it has no effect and warns, unless ``FLAGS_cpu_amp`` is "float16" or "bfloat16". A step with infinite
    gradients or NaN does not change the parameters.

    Args:
        enable (bool): whether to enable it.
        init_loss_scaling (float): the initial scale.
        incr_ratio, decr_ratio (float): factors of the scale after `incr_every_n_steps` consecutive steps with finite
            gradients, and after `decr_every_n_nan_or_inf` consecutive steps with others; above and below 1.
        use_dynamic_loss_scaling (bool): whether the scale changes.

    Raises:
        ValueError: in static mode. AssertionError: for a ratio on the other side of 1.
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
        name = type(self).__name__
        if in_static_mode():
            raise ValueError(f"{name} requires dygraph mode: call paddle.disable_static() first")
        self._enable = enable and low_precision_of(name) is not None
        if not self._enable:
            return
        assert incr_ratio > 1.0, f"{name}: incr_ratio must be above 1, got {incr_ratio}"
        assert decr_ratio < 1.0, f"{name}: decr_ratio must be below 1, got {decr_ratio}"
        self._init_loss_scaling = init_loss_scaling
        self._incr_ratio = incr_ratio
        self._decr_ratio = decr_ratio
        self._incr_every_n_steps = incr_every_n_steps
        self._decr_every_n_nan_or_inf = decr_every_n_nan_or_inf
        self._use_dynamic_loss_scaling = use_dynamic_loss_scaling
        #: consecutive steps with finite gradients, and with others
        self._incr_count = self._decr_count = 0
        self._found_inf = _on_current_device(np.array([False]))
        self._scale = _on_current_device(np.array([init_loss_scaling], "float32"))
        self._cache_founf_inf: bool | None = None

    def scale(self, var: Any) -> Any:
        """`var` times the scale; `var` itself if scaling is disabled.

        Raises:
            TypeError: when `var` is no Tensor.
        """
        if not isinstance(var, _core.Tensor):
            raise TypeError(f"The type of 'var' in {type(self).__name__}.scale() must be Tensor, got {type(var)}")
        return var * self._scale if self._enable else var

    def minimize(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients, then `optimizer.minimize(*args, **kwargs)` if they are finite; then update the scale.

        Returns:
            tuple: of `optimizer.minimize`; (None, None) where a gradient is not finite.
        """
        if not self._enable:
            return optimizer.minimize(*args, **kwargs)
        self._unscale(optimizer)
        found = bool(self._found_inf)
        result = (None, None) if found else optimizer.minimize(*args, **kwargs)
        self._cache_founf_inf = found
        if self._use_dynamic_loss_scaling:
            self._update()
        return result

    def _unscale(self, optimizer: Any) -> None:
        """Divide the gradients by the scale in place."""
        grads = [p._grad_ivar() for p in optimizer._parameter_list if p._grad_ivar() is not None]
        if grads:
            with_inf = {"Out": grads, "FoundInfinite": self._found_inf}
            _ops.check_finite_and_unscale(grads, self._scale, **with_inf)

    def _update(self) -> None:
        """Change the scale after as many finite or other steps as the arguments say."""
        if self._cache_founf_inf:
            self._incr_count, self._decr_count = 0, self._decr_count + 1
            if self._decr_count == self._decr_every_n_nan_or_inf:
                scale = float(self._scale)
                print(f"Found inf or nan, current scale is: {scale}, decrease to: {scale}*{self._decr_ratio}")
                self._scale, self._decr_count = self._scale * self._decr_ratio, 0
        else:
            self._incr_count, self._decr_count = self._incr_count + 1, 0
            if self._incr_count == self._incr_every_n_steps:
                self._scale, self._incr_count = self._scale * self._incr_ratio, 0


class GradScaler(AmpScaler):
    """Scales the loss so that small float16 gradients do not underflow, and unscales gradients before the update.

    On the CPU it has no effect and warns, unless ``FLAGS_cpu_amp`` is "float16" or "bfloat16". The arguments are those
    of AmpScaler, except that the scale decreases after two steps with non-finite gradients.

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
