"""What optimizers of a strategy share: each stands around another, and rewrites what that makes."""

from __future__ import annotations

import logging
from typing import Any

from paddle.nn.clip import ClipGradBase
from paddle.optimizer.base import OptimizerBase, Pairs
from paddle.optimizer.rule import Rule
from paddle.optimizer.rules import MomentumRule
from paddle.regularizer import L2Decay

__all__ = ["MetaOptimizerBase"]

logger = logging.getLogger(__name__)


class MetaOptimizerBase(OptimizerBase):
    """An optimizer of a strategy, around another one.

    Args:
        optimizer (Optimizer): the user's, until `_update_inner_optimizer` names another.
    """

    #: the field of the strategy that asks for it
    field = ""
    #: what `auto` sets besides the field
    auto_configs: dict[str, Any] | None = None

    def __init__(self, optimizer: Any) -> None:
        self.inner_opt = optimizer
        self._learning_rate = self.inner_opt._learning_rate
        self._learning_rate_map = self.inner_opt._learning_rate_map
        self._param_device_map = self.inner_opt._param_device_map
        #: names of those that may stand inside, and of those that can not be applied besides
        self.meta_optimizers_white_list: list[str] = []
        self.meta_optimizers_black_list: list[str] = []

    def _set_basic_info(
        self, loss: Any, role_maker: Any, user_defined_optimizer: Any, user_defined_strategy: Any
    ) -> None:
        self.loss = loss
        self.role_maker = role_maker
        self.user_defined_optimizer = user_defined_optimizer
        self.user_defined_strategy = user_defined_strategy

    def _update_inner_optimizer(self, optimizer: Any) -> None:
        self.inner_opt = optimizer

    def _asked_for(self) -> bool:
        """Whether a job of workers alone has the field set."""
        return self.role_maker._is_collective and bool(self.field) and getattr(self.user_defined_strategy, self.field)

    def _can_apply(self) -> bool:
        return bool(self._asked_for())

    def _is_graph_out(self) -> bool:
        return False

    def _can_update(self, optimizer: Any) -> bool:
        return type(optimizer).__name__ in self.meta_optimizers_white_list

    def _disable_strategy(self, dist_strategy: Any) -> None:
        if not self.field:
            raise NotImplementedError(f"{type(self).__name__} has no field of the strategy to clear")
        setattr(dist_strategy, self.field, False)
        if hasattr(dist_strategy, f"{self.field}_configs"):
            setattr(dist_strategy, f"{self.field}_configs", {})

    def _enable_strategy(self, dist_strategy: Any, context: Any = None) -> None:
        """Sets the field, where `auto` may."""
        if not self.field:
            raise NotImplementedError(f"{type(self).__name__} has no field of the strategy to set")
        if self.auto_configs is not None:
            setattr(dist_strategy, self.field, True)
            if self.auto_configs:
                setattr(dist_strategy, f"{self.field}_configs", self.auto_configs)

    def _wrapped(self) -> Any:
        """What does the work: the optimizer inside, unless a subclass makes another."""
        return self.inner_opt

    def backward(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Pairs:
        """Appends the gradient operators; returns pairs of parameter and gradient."""
        return self._wrapped().backward(loss, startup_program, parameter_list, no_grad_set, callbacks)

    def apply_gradients(self, params_grads: Pairs) -> list[Any]:
        """Appends the update to the current Program; returns its operators."""
        return self._wrapped().apply_gradients(params_grads)

    def apply_optimize(self, loss: Any, startup_program: Any, params_grads: Pairs) -> list[Any]:
        """Appends the update to the Program of `loss`; returns its operators."""
        inner = self._wrapped()
        apply = getattr(inner, "apply_optimize", None) or inner._apply_optimize
        return apply(loss, startup_program, params_grads)

    def minimize_impl(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[Any, Any]:
        """What `minimize` does."""
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, pairs), pairs

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[Any, Any]:
        """Appends backward and update; returns (operators of the update, pairs of parameter and gradient)."""
        return self.minimize_impl(loss, startup_program, parameter_list, no_grad_set)


class AroundAnother(MetaOptimizerBase):
    """One that hands its work to an optimizer that it makes at the first call."""

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self.wrapped_opt: Any = None

    def _make(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what it hands its work to")

    def _wrapped(self) -> Any:
        if self.wrapped_opt is None:
            self.wrapped_opt = self._make()
        return self.wrapped_opt

    def minimize_impl(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[Any, Any]:
        """What the other's `minimize` does."""
        return self._wrapped().minimize(loss, startup_program, parameter_list, no_grad_set)


def applies_to(optimizer: Any, rule: type[Rule], strategy: str) -> bool:
    """Whether the updates of `optimizer` are by `rule`, which `strategy` replaces; logs where they are not."""
    if isinstance(optimizer, rule):
        return True
    name = rule.__name__.removesuffix("Rule")
    logger.warning("%s needs the optimizer %s, but got %s: it is not applied", strategy, name, type(optimizer).__name__)
    return False


def updated_by(optimizer: Any, rule: type[Rule], **numbers: Any) -> Any:
    """An optimizer with the learning rate, parameters, decay, clipping and name of `optimizer`, and another update.

    It is of the family of the given one, fluid's or that of paddle.optimizer.
    """
    base = next(k for k in type(optimizer).__mro__ if k.__bases__ == (OptimizerBase,) and not issubclass(k, Rule))
    made: Any = object.__new__(type(rule.__name__.removesuffix("Rule"), (rule, base), {}))
    clip: ClipGradBase | None = optimizer._grad_clip
    made._init_state(optimizer._parameter_list, clip, optimizer._name)
    made._learning_rate = optimizer._learning_rate
    made._learning_rate_map = dict(optimizer._learning_rate_map)
    made.regularization = optimizer.regularization
    if isinstance(optimizer, MomentumRule) and optimizer._regularization_method == "l2_decay":
        made.regularization = L2Decay(optimizer._regularization_coeff)
    made._set(**numbers)
    return made
