"""The Adam and AdamW optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle._core as core
from paddle import _ops
from paddle._basics.dtypes import VarType
from paddle._programs.name_scope import name_scope
from paddle._programs.variable import Variable

from .base import Pairs, below_one, needed
from .optimizer import Optimizer
from .rules import AdamRule

__all__ = ["Adam", "AdamW"]


class Adam(AdamRule, Optimizer):
    """Adam (Kingma and Ba, 2014).

    Args:
        learning_rate, parameters, weight_decay, grad_clip, name: see :class:`Optimizer`.
        beta1, beta2: the decay rates of the means of gradients and of their squares: numbers in [0, 1) (ValueError
            otherwise), or Tensors.
        epsilon: added to the divisor; not negative (ValueError).
        lazy_mode: sparse gradients (SelectedRows) update only the means of their rows.
        multi_precision: in static Programs: keep float32 copies of float16 parameters.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> adam = paddle.optimizer.Adam(learning_rate=0.1, parameters=net.parameters())
        >>> net(paddle.ones([1, 2])).sum().backward()
        >>> adam.step()
        >>> len(adam.state_dict())
        8
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: float = 1e-08,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        needed(ValueError, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon)
        below_one(beta1=beta1, beta2=beta2)
        if not 0 <= epsilon:
            raise ValueError("epsilon must not be negative")
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._init_rule(beta1, beta2, epsilon, lazy_mode, multi_precision)

    def _gradients(self, parameters: Any) -> Pairs:
        pairs = super()._gradients(parameters)
        if self.regularization is not None and any(grad._is_sparse() for _, grad in pairs):
            raise RuntimeError("Adam: weight_decay must be None if a parameter is sparse")
        return pairs


class AdamW(Adam):
    """Adam with decoupled weight decay: param *= 1 - learning_rate * weight_decay before each step.

    Args:
        learning_rate, beta1, beta2, epsilon, parameters, grad_clip, lazy_mode, multi_precision, name: see
            :class:`Adam`.
        weight_decay: a float, or a Tensor of shape [1] (TypeError otherwise).
        apply_decay_param_fun: maps a parameter's name to whether it is decayed; None: all are.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> adamw = paddle.optimizer.AdamW(0.1, parameters=net.parameters(), weight_decay=0.01)
        >>> net(paddle.ones([1, 2])).sum().backward()
        >>> adamw.step()
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: float = 1e-08,
        parameters: Any = None,
        weight_decay: Any = 0.01,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        grad_clip: Any = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        if not isinstance(weight_decay, (float, Variable)):
            raise TypeError("AdamW: coeff must be a float or a Tensor")
        self._params_name: set[str] = set()
        self._apply_decay_param_fun = apply_decay_param_fun
        self._coeff = weight_decay
        # learning rate (a number or variable) -> decay factor of the weights
        self._lr_to_coeff: dict[Any, Any] = {}
        # dygraph: the last factor, and a Tensor of it
        self._decay: tuple[float, Any] | None = None
        super().__init__(
            learning_rate=learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            parameters=parameters,
            grad_clip=grad_clip,
            lazy_mode=lazy_mode,
            multi_precision=multi_precision,
            name=name,
        )

    def _decays(self, param: Any) -> bool:
        if self._apply_decay_param_fun is not None and not self._apply_decay_param_fun(param.name):
            return False
        self._params_name.add(param.name)
        return True

    def _factor(self, rate: Any) -> Any:
        """1 - rate * coefficient: a number if both are, else a Tensor."""
        factor = self._lr_to_coeff.get(rate)
        if factor is None:
            factor = self._lr_to_coeff[rate] = 1.0 - rate * self._coeff
        return factor

    def _dygraph_pass(self, pairs: Pairs) -> None:
        self._lr_to_coeff.clear()
        super()._dygraph_pass(pairs)
        self._lr_to_coeff.clear()

    def _update(self, param: Any, grad: Any, lr: Any) -> None:  # type: ignore[override]
        more = {}
        if self._decays(param):
            factor = self._factor(self._learning_rate if isinstance(self._learning_rate, float) else lr)
            if isinstance(factor, core.Tensor):
                _ops.elementwise_mul(param, factor, Out=param)
            elif self._in_one_pass(param, grad):
                more["Decay"] = self._factor_tensor(factor)
            else:
                _ops.scale(param, scale=factor, Out=param)
        self._run(param, grad, lr, **more)

    def _factors(self, pairs: Pairs) -> list | None:
        return [self._factor(self._learning_rate) if self._decays(p) else 1.0 for p, _ in pairs]

    def _update_together(self, pairs: Pairs, rate: Any) -> bool:
        # A factor that is a Tensor is applied by its own operator.
        if not isinstance(self._learning_rate, float) or isinstance(self._coeff, Variable):
            return False
        return super()._update_together(pairs, rate)

    @staticmethod
    def _in_one_pass(param: Any, grad: Any) -> bool:
        """Whether the adam operator can apply the decay itself, bit for bit like scale followed by adam."""
        real = param.dtype in (VarType.FP32, VarType.FP64)
        return real and core.device_of(param) == -1 and not grad._is_sparse()

    def _factor_tensor(self, factor: float) -> Any:
        if self._decay is None or self._decay[0] != factor:
            self._decay = factor, _ops.fill_constant(shape=[1], dtype=VarType.FP32, value=factor)
        return self._decay[1]

    def _append_optimize_op(self, block: Any, param_and_grad: tuple[Any, Any]) -> Any:
        param, grad = param_and_grad
        if self._decays(param):
            fixed = isinstance(self._learning_rate, float)
            rate = self._learning_rate if fixed else self._create_param_lr(param_and_grad)
            with block.program._optimized_guard([param, grad]), name_scope("weight decay"):
                weight = self._master_weights[param.name] if self._has_master(param) else param
                _ops.assign(weight * self._factor(rate), Out=weight)
        return super()._append_optimize_op(block, param_and_grad)

    def _create_optimization_pass(self, parameters_and_grads: Pairs) -> list[Any]:
        operators = super()._create_optimization_pass(parameters_and_grads)
        self._lr_to_coeff.clear()
        return operators

    def __str__(self) -> str:
        return " ".join(["Weight Decay, params:", ",".join(self._params_name)])
