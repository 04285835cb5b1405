"""Decoupled weight decay for any optimizer of 1.x."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddle._basics.mode import in_dygraph_mode, in_static_mode
from paddle._programs.name_scope import name_scope
from paddle._programs.variable import Variable
from paddle.fluid import layers
from paddle.fluid.optimizer import Optimizer

__all__ = ["extend_with_decoupled_weight_decay"]


class DecoupledWeightDecay:
    """Mixin that `extend_with_decoupled_weight_decay` adds to an optimizer.

    Args:
        coeff (float|Variable): the decay coefficient.
        apply_decay_param_fun (callable, optional): name of a parameter -> whether it decays; None: all do.
        kwargs: the optimizer's own arguments.
    """

    def __init__(
        self, coeff: Any = 0.0, apply_decay_param_fun: Callable[[str], bool] | None = None, **kwargs: Any
    ) -> None:
        if not isinstance(coeff, (float, Variable)):
            raise TypeError(f"weight_decay must be a float or a Variable, got {type(coeff)}")
        self._params_name: set[str] = set()
        self._apply_decay_param_fun = apply_decay_param_fun
        self._coeff = coeff
        super().__init__(**kwargs)

    def _scale_parameters(self, params_and_grads: list[tuple[Any, Any]]) -> list[tuple[Any, Any, Any]]:
        """(parameter, gradient, decay) for each parameter that decays."""
        scaled: list[tuple[Any, Any, Any]] = []
        if isinstance(self._coeff, float) and self._coeff == 0.0:
            return scaled
        chosen = self._apply_decay_param_fun
        for param, grad in params_and_grads:
            if grad is None or (chosen is not None and not chosen(param.name)):
                continue
            if isinstance(self._coeff, Variable) and self._coeff.dtype != param.dtype:
                what = f"weight_decay is {self._coeff.dtype}, the parameter {param.name} {param.dtype}"
                raise TypeError(f"decoupled weight decay: {what}")
            if param.name in self._params_name:
                raise ValueError(f"decoupled weight decay: the parameter {param.name} decays already")
            with param.block.program._optimized_guard([param, grad]), name_scope("weight decay"):
                scaled.append((param, grad, param * self._coeff))
            self._params_name.add(param.name)
        return scaled

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """As the optimizer's; the decay is subtracted before the update.

        Returns:
            (update operators, pairs of parameter and gradient).
        """
        if not in_static_mode():
            raise NotImplementedError("decoupled weight decay is of static mode; in dygraph: paddle.optimizer.AdamW")
        own: Any = self
        params_grads = own.backward(
            loss=loss, startup_program=startup_program, parameter_list=parameter_list, no_grad_set=no_grad_set
        )
        for param, grad, taken in self._scale_parameters(params_grads):
            with param.block.program._optimized_guard([param, grad]), name_scope("weight decay"):
                layers.assign(param - taken, output=param)
        operators = own.apply_optimize(loss=loss, params_grads=params_grads, startup_program=startup_program)
        return operators, params_grads

    def __str__(self) -> str:
        return "Weight Decay, params: " + ",".join(sorted(self._params_name))


def extend_with_decoupled_weight_decay(base_optimizer: type[Any]) -> type[Any]:
    """A class of optimizers that also decays the parameters independently of the gradient: the update is applied to
    parameter - coefficient * parameter, with the gradient at the undecayed parameter.

    Source: https://arxiv.org/abs/1711.05101, paddle.fluid.contrib.extend_with_decoupled_weight_decay of Paddle 2.0.2.

    Args:
        base_optimizer (type): a class of fluid.optimizer, such as fluid.optimizer.Adam.

    Returns:
        type: takes ``weight_decay`` (float|Variable), ``apply_decay_param_fun`` (callable, optional: by a
        parameter's name, whether it decays) and the arguments of `base_optimizer`, all by name.

    Raises:
        TypeError: if `base_optimizer` is not a class of optimizers; when called, for a coefficient of another type.

    Examples:
        >>> import numpy as np, paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> main, startup = fluid.Program(), fluid.Program()
        >>> with fluid.program_guard(main, startup):
        ...     two = fluid.initializer.Constant(2.0)
        ...     w = fluid.layers.create_parameter([2], "float32", "w", default_initializer=two)
        ...     loss = fluid.layers.reduce_sum(w)
        ...     Decayed = fluid.contrib.extend_with_decoupled_weight_decay(fluid.optimizer.SGD)
        ...     _ = Decayed(learning_rate=1.0, weight_decay=0.25).minimize(loss)
        >>> exe = fluid.Executor(fluid.CPUPlace())
        >>> _ = exe.run(startup)
        >>> exe.run(main, fetch_list=[w])[0]
        array([0.5, 0.5], dtype=float32)
    """
    if not (isinstance(base_optimizer, type) and issubclass(base_optimizer, Optimizer)):
        raise TypeError(f"extend_with_decoupled_weight_decay needs a class of fluid.optimizer, got {base_optimizer!r}")

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecay, base_optimizer):
        """The optimizer with decoupled weight decay."""

        def __init__(
            self, weight_decay: Any, apply_decay_param_fun: Callable[[str], bool] | None = None, **kwargs: Any
        ) -> None:
            super().__init__(weight_decay, apply_decay_param_fun, **kwargs)

    return OptimizerWithDecoupledWeightDecay
