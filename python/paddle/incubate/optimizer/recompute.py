"""RecomputeOptimizer: backward keeps only the checkpoints and recomputes other activations."""

from __future__ import annotations

from typing import Any

from paddle._basics.mode import in_static_mode
from paddle._basics.old_arguments import takes_old_name
from paddle._programs.guards import program_guard
from paddle._programs.variable import Variable
from paddle.optimizer.base import OptimizerBase, Pairs

from .offload import offload

__all__ = ["RecomputeOptimizer"]


class RecomputeOptimizer(OptimizerBase):
    """Wraps an optimizer: backward keeps only the checkpoints and recomputes the activations between them.

    Args:
        optimizer (Optimizer): the optimizer of the update.

    Raises:
        Exception: in dygraph mode.

    Examples:
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [None, 4], "float32")
        >>> hidden = fluid.layers.fc(x, 8, act="relu")
        >>> loss = fluid.layers.mean(fluid.layers.fc(hidden, 1))
        >>> opt = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(0.1))
        >>> opt._set_checkpoints([hidden])
        >>> _ = opt.minimize(loss)
        >>> paddle.disable_static()
    """

    def __init__(self, optimizer: Any) -> None:
        if not in_static_mode():
            raise Exception("In dygraph, don't support RecomputeOptimizer.")
        self._optimizer = optimizer
        self._checkpoints: list[Any] | None = None
        self._learning_rate = optimizer._learning_rate
        self._learning_rate_map = optimizer._learning_rate_map
        self._param_device_map = optimizer._param_device_map
        self._parameter_list = getattr(optimizer, "_parameter_list", None)
        self.enable_offload = False
        self.checkpoint_shape: list[int] = []

    def _set_checkpoints(self, checkpoints: list[Any]) -> None:
        """Sets the Variables (or names) that are kept."""
        text = "_set_checkpoints: a list of Variable or of names is expected"
        assert isinstance(checkpoints, list), text
        assert all(isinstance(point, (str, Variable)) for point in checkpoints), text
        self._checkpoints = checkpoints

    def _enable_offload(self) -> None:
        """Enables offloading of all checkpoints but the last, of shape `checkpoint_shape`, to pinned memory."""
        self.enable_offload = True

    @takes_old_name("state_dict", "stat_dict")
    def load(self, state_dict: dict) -> None:
        """Not supported, as in Paddle.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("load function is not supported by Recompute Optimizer for now")

    def backward(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Pairs:
        """Appends the gradient operators, recomputing between the checkpoints; returns (parameter, gradient) pairs."""
        assert self._checkpoints is not None, "RecomputeOptimizer: call _set_checkpoints before this"
        if not in_static_mode():
            raise NotImplementedError("RecomputeOptimizer is for Programs only")
        pairs = self._backward(loss, startup_program, parameter_list, no_grad_set, callbacks, self._checkpoints)
        if self.enable_offload:
            with program_guard(loss.block.program, startup_program):
                offload(loss.block, self._checkpoints, self.checkpoint_shape)
        return pairs

    def apply_gradients(self, params_grads: Pairs) -> list[Any]:
        """The inner optimizer's update; returns the appended operators."""
        return self._optimizer.apply_gradients(params_grads)

    def apply_optimize(self, loss: Any, startup_program: Any, params_grads: Pairs) -> list[Any]:
        """The second part of `minimize`."""
        with program_guard(loss.block.program, startup_program):
            return self.apply_gradients(params_grads)

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[list[Any], Pairs]:
        """`backward` and `apply_optimize` in one; returns (operators, pairs of parameter and gradient)."""
        assert isinstance(loss, Variable), "minimize: loss must be a Variable"
        assert self._checkpoints is not None, "RecomputeOptimizer: call _set_checkpoints before this"
        params_grads = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, params_grads), params_grads
