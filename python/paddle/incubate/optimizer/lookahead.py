"""LookAhead: slow weights that follow an optimizer's."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics import mode, unique_name
from paddle._basics.dtypes import VarType
from paddle._basics.mode import in_static_mode
from paddle._programs.guards import default_main_program, program_guard
from paddle._programs.variable import Variable
from paddle.nn.layer_helper import LayerHelper
from paddle.optimizer import Optimizer
from paddle.optimizer.base import Pairs, global_var, no_recording
from paddle.static.conditional import cond

__all__ = ["LookAhead"]


def checked(inner_optimizer: Any, alpha: float, k: int) -> Any:
    """The inner optimizer; AssertionError for an invalid argument."""
    assert inner_optimizer is not None, "inner optimizer can not be None"
    assert 0.0 <= alpha <= 1.0, f"alpha must be a number from 0 to 1, got {alpha}"
    assert isinstance(k, int) and k > 0, f"k must be an integer above 0, got {k}"
    return inner_optimizer


def _move(param: Any, slow: Any, alpha: Any) -> None:
    between = param * alpha + slow * (1.0 - alpha)
    _ops.assign(between, Out=slow)
    _ops.assign(between, Out=param)


def append_moves(pairs: Pairs, alpha: float, k: int, from_start: bool = False) -> None:
    """Appends to the main program the update of the slow weights of (parameter, slow weights) every k runs.

    The slow weights begin as the parameters after the first step; with `from_start` as those before it.
    """
    every = global_var(unique_name.generate("lookahead_k"), [1], k, "int32")
    step = global_var(unique_name.generate("lookahead_step"), [1], 0, "int32")
    _ops.increment(step, step=1.0, Out=step)
    zero, one = (_ops.fill_constant(shape=[1], dtype=VarType.INT32, value=float(v)) for v in (0, 1))

    def start() -> None:
        for param, slow in pairs:
            _ops.assign(param, Out=slow)

    def move() -> None:
        for param, slow in pairs:
            _move(param, slow, alpha)

    if from_start:
        due = _ops.equal(_ops.elementwise_mod(step, every), zero)
        cond(due, move, None)
        return
    # the first step initializes the slow weights
    first = _ops.equal(step, one)
    cond(first, start, None)
    due = _ops.equal(_ops.elementwise_mod(step, every), zero)
    cond(_ops.logical_and(due, _ops.logical_not(first)), move, None)


class LookAhead(Optimizer):
    """Lookahead (Zhang et al., 2019): every `k` steps of the inner optimizer, slow weights move towards the parameters
    (slow += alpha * (param - slow)), which continue from there. The slow weights start as the parameters after the
    first step. See the API page of paddle.incubate.optimizer.LookAhead.

    Args:
        inner_optimizer: the optimizer of each step; its parameters are used.
        alpha: how far the slow weights move: 0.0 to 1.0 (AssertionError otherwise).
        k: the number of steps in between, an integer above 0 (AssertionError otherwise).
        name: prefix of the names of the slow weights.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 1)
        >>> sgd = paddle.optimizer.SGD(0.1, parameters=net.parameters())
        >>> lookahead = paddle.incubate.optimizer.LookAhead(sgd, alpha=0.2, k=5)
        >>> net(paddle.ones([1, 2])).sum().backward()
        >>> lookahead.step()
        >>> lookahead.clear_grad()
    """

    _slow_str = "slow"

    def __init__(self, inner_optimizer: Any, alpha: float = 0.5, k: int = 5, name: str | None = None) -> None:
        self.inner_optimizer = checked(inner_optimizer, alpha, k)
        parameters = inner_optimizer._parameter_list
        if parameters is None:
            parameters = default_main_program().global_block().all_parameters()
        super().__init__(alpha, parameters, None, None, name)
        self.alpha = alpha
        self.k = k
        self.type = "lookahead"
        self.helper = LayerHelper(type(self).__name__)
        self._steps = 0

    def _slow_of(self, param: Any) -> Any:
        """Dygraph: the slow weights, initialized with the parameter unless they were loaded."""
        name = self._slow_str if self._name is None else f"{self._name}_{self._slow_str}"
        there = param.name in self._accumulators[name]
        slow = self._add_accumulator(self._slow_str, param)
        if not there and slow.name not in self._accumulators_holder:
            _ops.assign(param, Out=slow)
        return slow

    @mode.dygraph_only
    def step(self) -> None:
        """A step of the inner optimizer; the slow weights move every k steps."""
        self.inner_optimizer.step()
        with no_recording():
            self._follow()

    def _follow(self) -> None:
        self._steps += 1
        for param, _ in self._gradients(self._parameter_list):
            slow = self._slow_of(param)
            if self._steps % self.k == 0:
                _move(param, slow, self.alpha)

    def minimize(
        self, loss: Any, startup_program: Any = None, parameters: Any = None, no_grad_set: Any = None
    ) -> tuple[list[Any], Pairs]:
        """`minimize` of the inner optimizer, and the update of the slow weights; returns the result of the former."""
        assert isinstance(loss, Variable), "The loss should be an Tensor."
        result = self.inner_optimizer.minimize(loss, startup_program, parameters, no_grad_set)
        if not in_static_mode():
            with no_recording():
                self._follow()
            return result
        with program_guard(loss.block.program, startup_program):
            params = [param for param, grad in result[1] if grad is not None and param.trainable]
            pairs = [(param, self._add_accumulator(self._slow_str, param)) for param in params]
            append_moves(pairs, self.alpha, self.k)
        return result
