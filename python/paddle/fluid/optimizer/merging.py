"""LookaheadOptimizer: slow weights around another optimizer."""

from __future__ import annotations

from typing import Any

from paddle._basics import mode
from paddle._basics.flags import is_18
from paddle._basics.mode import in_static_mode
from paddle._programs.guards import default_startup_program, program_guard
from paddle.incubate.optimizer.gradient_merge import like
from paddle.incubate.optimizer.lookahead import append_moves, checked
from paddle.optimizer.base import Pairs

__all__ = ["LookaheadOptimizer"]


class LookaheadOptimizer:
    """Lookahead (Zhang et al., 2019): every `k` steps of the inner optimizer, slow weights move towards the parameters
    (slow += alpha * (param - slow)), which restart from there. See the API page of
    fluid.optimizer.LookaheadOptimizer.

    Args:
        inner_optimizer: the optimizer of each step.
        alpha: step size of the slow weights: 0 to 1 (AssertionError otherwise).
        k: number of inner steps, a positive integer (AssertionError otherwise).

    Raises:
        Exception: in dygraph mode (paddle.incubate.LookAhead supports both).

    Examples:
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [None, 2], "float32")
        >>> loss = fluid.layers.mean(fluid.layers.fc(x, 1))
        >>> lookahead = fluid.optimizer.LookaheadOptimizer(fluid.optimizer.SGD(0.1), alpha=0.5, k=5)
        >>> _ = lookahead.minimize(loss)
        >>> paddle.disable_static()
    """

    def __init__(self, inner_optimizer: Any, alpha: float = 0.5, k: int = 5) -> None:
        if not in_static_mode():
            raise Exception("In dygraph, don't support LookaheadOptimizer.")
        self.inner_optimizer = checked(inner_optimizer, alpha, k)
        self.alpha = alpha
        self.k = k
        self.type = "lookahead"

    def minimize(self, loss: Any, startup_program: Any = None) -> tuple[list[Any], Pairs]:
        """Calls the inner optimizer's `minimize`, appends the update of the slow weights, and returns its result."""
        result = self.inner_optimizer.minimize(loss, startup_program=startup_program)
        startup_program = startup_program or default_startup_program()
        block, startup = loss.block, startup_program.global_block()
        pairs = []
        for param in block.all_parameters():
            name = param.name + "@SLOW"
            pairs.append((param, like(name, param, block)))
            startup.append_op(
                type="assign", inputs={"X": startup.var(param.name)}, outputs={"Out": like(name, param, startup)}
            )
        with program_guard(block.program, startup_program):
            append_moves(pairs, self.alpha, self.k, from_start=is_18())
        return result
