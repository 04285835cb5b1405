"""The base of fleet's strategies: an optimizer that wraps another one and rewrites its Program."""

from __future__ import annotations

import logging
from typing import Any

from paddle.nn.clip import ClipGradBase
from paddle.optimizer.base import OptimizerBase, Pairs
from paddle.optimizer.rule import Rule
from paddle.optimizer.rules import MomentumRule
from paddle.regularizer import L2Decay

from ..base.strategy_registry import Configs, Flag

__all__ = ["MetaOptimizerBase"]

logger = logging.getLogger(__name__)


class MetaOptimizerBase(OptimizerBase):
    """A strategy: an optimizer around an inner one.

    Args:
        optimizer (Optimizer): the user's, until `_update_inner_optimizer` sets another.
    """

    #: the flag of DistributedStrategy that selects this strategy; None: no flag does
    flag: Flag | None = None
    #: its configuration, ``NAME_configs`` of DistributedStrategy
    configs: Configs | None = None
    #: the settings that `auto` makes besides the flag; None: `auto` does not select this strategy
    auto_configs: dict[str, Any] | None = None
    #: strategies that this one may wrap
    inner: tuple[type, ...] = ()
    #: strategies that cannot be applied together with this one
    conflicts: tuple[type, ...] = ()

    def __init__(self, optimizer: Any) -> None:
        self.inner_opt = optimizer
        self._learning_rate = self.inner_opt._learning_rate
        self._learning_rate_map = self.inner_opt._learning_rate_map
        self._param_device_map = self.inner_opt._param_device_map

    @property
    def meta_optimizers_white_list(self) -> list[str]:
        """The names of `inner`, as in 2.0.2."""
        return [c.__name__ for c in self.inner]

    @property
    def meta_optimizers_black_list(self) -> list[str]:
        """The names of `conflicts`, as in 2.0.2."""
        return [c.__name__ for c in self.conflicts]

    def _set_basic_info(
        self, loss: Any, role_maker: Any, user_defined_optimizer: Any, user_defined_strategy: Any
    ) -> None:
        self.loss = loss
        self.role_maker = role_maker
        self.user_defined_optimizer = user_defined_optimizer
        self.user_defined_strategy = user_defined_strategy

    def _update_inner_optimizer(self, optimizer: Any) -> None:
        self.inner_opt = optimizer

    def _config(self) -> dict[str, Any]:
        """The configuration that the user's strategy has for this one."""
        return getattr(self.user_defined_strategy, f"{self._flag_name('read')}_configs")

    def _flag_name(self, verb: str) -> str:
        if self.flag is None:
            raise NotImplementedError(f"{type(self).__name__} has no flag of DistributedStrategy to {verb}")
        return self.flag.name

    def _can_apply(self) -> bool:
        """Whether a job of workers alone has the flag set."""
        collective = self.role_maker._is_collective and self.flag is not None
        return bool(collective and getattr(self.user_defined_strategy, self._flag_name("read")))

    def _is_graph_out(self) -> bool:
        """Whether the strategy acts on the compiled Program instead of the Program."""
        return False

    def _can_update(self, optimizer: Any) -> bool:
        """Whether this one may wrap `optimizer`."""
        return type(optimizer) in self.inner

    def _disable_strategy(self, dist_strategy: Any) -> None:
        """Clears the flag."""
        name = self._flag_name("clear")
        setattr(dist_strategy, name, False)
        if self.configs is not None:
            setattr(dist_strategy, f"{name}_configs", {})

    def _enable_strategy(self, dist_strategy: Any, context: Any = None) -> None:
        """Sets the flag and `auto_configs`, where `auto` selects this strategy."""
        name = self._flag_name("set")
        if self.auto_configs is not None:
            setattr(dist_strategy, name, True)
            if self.auto_configs:
                setattr(dist_strategy, f"{name}_configs", self.auto_configs)

    def _wrapped(self) -> Any:
        """The optimizer to which the methods below delegate."""
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
        """The rewrite: strategies that are more than a wrapped optimizer override it."""
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, pairs), pairs

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[Any, Any]:
        """Appends backward and update; returns (operators of the update, pairs of parameter and gradient)."""
        return self.minimize_impl(loss, startup_program, parameter_list, no_grad_set)


class AroundAnother(MetaOptimizerBase):
    """A strategy that delegates to an optimizer, which `_make` makes at the first call."""

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self.wrapped_opt: Any = None

    def _make(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must override _make, which returns the optimizer it wraps")

    def _wrapped(self) -> Any:
        if self.wrapped_opt is None:
            self.wrapped_opt = self._make()
        return self.wrapped_opt

    def minimize_impl(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[Any, Any]:
        """The `minimize` of the wrapped optimizer."""
        return self._wrapped().minimize(loss, startup_program, parameter_list, no_grad_set)


def applies_to(optimizer: Any, rule: type[Rule], strategy: str) -> bool:
    """Whether `optimizer` updates by `rule`, which `strategy` replaces; logs a warning where it does not."""
    if isinstance(optimizer, rule):
        return True
    name = rule.__name__.removesuffix("Rule")
    logger.warning("%s needs the optimizer %s, but got %s: it is not applied", strategy, name, type(optimizer).__name__)
    return False


def updated_by(optimizer: Any, rule: type[Rule], **numbers: Any) -> Any:
    """An optimizer that updates by `rule`, with the learning rate, parameters, decay, clipping and name of `optimizer`.

    Its base is that of the given one: fluid's optimizers or those of paddle.optimizer. `numbers` are the rule's.
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
