"""Optimizer: the base of fluid.optimizer."""

from __future__ import annotations

from typing import Any

import numpy as np

import paddle._core as _core
from paddle import _ops
from paddle._basics import mode
from paddle._basics.dtypes import VarType
from paddle._basics.mode import in_static_mode
from paddle._programs import guards
from paddle._programs.variable import Variable
from paddle.fluid.lr_decay.base import LearningRateDecay
from paddle.fluid.lr_decay.decays import ReduceLROnPlateau
from paddle.fluid.lr_decay.epochs import _LearningRateEpochDecay
from paddle.optimizer.base import OptimizerBase, Pairs
from paddle.optimizer.lr_scheduler import LRScheduler

__all__ = ["Optimizer"]


class Optimizer(OptimizerBase):
    """Base of the optimizers of fluid.

    Args:
        learning_rate: a float or an LRScheduler; in dygraph mode also a LearningRateDecay of fluid.dygraph, in static
            mode a Variable; the decay functions of fluid.layers return the type of the mode (TypeError otherwise).
        parameter_list: the Tensors to train; needed in dygraph mode (AttributeError).
        regularization: L1Decay or L2Decay; a parameter's own regularizer has precedence.
        grad_clip: GradientClipByValue, GradientClipByNorm or GradientClipByGlobalNorm (TypeError otherwise).
        name: prefix of the accumulators' names.
    """

    def __init__(
        self,
        learning_rate: Any,
        parameter_list: Any = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        if parameter_list is None:
            mode.choose_static()
        allowed = (float, LRScheduler, Variable if in_static_mode() else LearningRateDecay)
        if not isinstance(learning_rate, allowed):
            raise TypeError(f"learning_rate must be a float or an LRScheduler, got {type(learning_rate)}")
        self._init_state(parameter_list, grad_clip, name)
        self._init_eager(regularization, "parameter_list", "regularization")
        self.regularization = regularization
        self._learning_rate = learning_rate
        if isinstance(learning_rate, Variable):
            self._learning_rate_map[guards.default_main_program()] = learning_rate

    def _rate_dtype(self) -> Any:
        return "float32" if self._dtype is None else self._dtype

    def _dygraph_rate(self) -> Any:
        rate = self._learning_rate
        if isinstance(rate, LearningRateDecay):
            # The optimizer calls it in each pass, which advances the step.
            self._rate_tensor = rate()
            self._scaled_rates.clear()
            return self._rate_tensor
        # Set by `set_lr` to a tensor, which is used unchanged.
        if isinstance(rate, Variable):
            return rate
        return super()._dygraph_rate()

    @mode.dygraph_only
    def state_dict(self) -> dict[str, Any]:
        """The accumulators by name, and for a variable learning rate "LR_Scheduler", its state, and "global_step".

        Examples:
            >>> import paddle
            >>> from paddle import fluid
            >>> rate = fluid.dygraph.ExponentialDecay(0.1, decay_steps=10, decay_rate=0.5)
            >>> sgd = fluid.optimizer.SGD(rate, parameter_list=paddle.nn.Linear(2, 2).parameters())
            >>> sorted(sgd.state_dict())
            ['LR_Scheduler', 'global_step']
        """
        state = super().state_dict()
        rate = self._learning_rate
        if isinstance(rate, LearningRateDecay):
            state["LR_Scheduler"] = rate.state_dict()
            if not isinstance(rate, _LearningRateEpochDecay):
                step = _ops.fill_constant(shape=[1], dtype=VarType.INT32, value=float(rate.step_num))
                step.name = "global_step"
                state["global_step"] = step
        return state

    @mode.dygraph_only
    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a `state_dict()`, or one loaded from a file; accumulators created later are restored as well.

        Raises:
            AssertionError: if an accumulator is missing, or has another shape or type.
            RuntimeError: if a value is neither Tensor nor array, or the state belongs to another learning rate.
        """
        rate = self._learning_rate
        if isinstance(rate, LearningRateDecay):
            if "LR_Scheduler" not in state_dict:
                raise RuntimeError("set_dict: the state_dict has no LR_Scheduler: its learning rate was constant")
            rate.set_state_dict(state_dict["LR_Scheduler"])
            if not isinstance(rate, _LearningRateEpochDecay):
                rate.step_num = self._step_of(state_dict)
        super().set_state_dict(state_dict)

    set_dict = set_state_dict

    @staticmethod
    def _step_of(state_dict: dict[str, Any]) -> int:
        assert "global_step" in state_dict, (
            "set_dict: the state_dict lacks global_step, which a LearningRateDecay needs"
        )
        step = state_dict["global_step"]
        if not isinstance(step, (_core.Tensor, np.ndarray)):
            raise RuntimeError(f"set_dict: global_step must be a Tensor or an array, got {type(step)}")
        assert list(step.shape) == [1], f"global step shape is (1,), the shape is {step.shape}"
        return int(np.asarray(step)[0])

    @mode.dygraph_only
    def set_lr(self, value: Any) -> None:
        """Changes the learning rate: a float, or a Tensor of the shape [1].

        Raises:
            TypeError: for another type.
            RuntimeError: if the rate is a scheduler's.
        """
        if not isinstance(value, (Variable, float)):
            raise TypeError(f"set_lr: value must be a float or a Variable, got {type(value)}")
        if isinstance(self._learning_rate, (LRScheduler, LearningRateDecay)):
            raise RuntimeError("set_lr: the learning rate is a LearningRateDecay, which sets its own values")
        if isinstance(value, Variable):
            assert list(value.shape) == [1], "set_lr: the learning rate must be a Tensor of shape [1]"
        self._learning_rate = value
        self._scaled_rates.clear()

    @mode.dygraph_only
    def current_step_lr(self) -> float:
        """The learning rate of the last update, or, before the first one, of the next.

        Examples:
            >>> import paddle
            >>> net = paddle.nn.Linear(2, 2)
            >>> paddle.fluid.optimizer.SGD(0.5, parameter_list=net.parameters()).current_step_lr()
            0.5
        """
        rate = self._learning_rate
        if isinstance(rate, LearningRateDecay):
            if self._rate_tensor is not None:
                rate = self._rate_tensor
            else:  # reads the rate without advancing the step
                rate = rate() if isinstance(rate, (_LearningRateEpochDecay, ReduceLROnPlateau)) else rate.step()
        if isinstance(rate, LRScheduler):
            return self._rate()
        return rate.numpy()[0] if isinstance(rate, Variable) else rate

    def backward(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Pairs:
        """The first part of `minimize`: in static mode appends the gradient operators of `loss`.

        Returns:
            Pairs of parameter and gradient; in dygraph mode those from `loss.backward()`.
        """
        return self._backward(loss, startup_program, parameter_list, no_grad_set, callbacks)

    def apply_optimize(self, loss: Any, startup_program: Any, params_grads: Pairs) -> list[Any]:
        """The second part of `minimize`: gradient clipping, regularization and update."""
        return self._apply_optimize(loss, startup_program, params_grads)

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[list[Any], Pairs]:
        """`backward` and `apply_gradients`; in dygraph mode call `loss.backward()` before.

        Returns:
            (update operators, pairs of parameter and gradient).
        """
        return self._minimize(loss, startup_program, parameter_list, no_grad_set)

    @mode.dygraph_only
    def clear_gradients(self) -> None:
        """Clears the gradients of all trainable parameters."""
        self._clear()
