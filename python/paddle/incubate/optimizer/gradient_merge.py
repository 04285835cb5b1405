"""GradientMergeOptimizer: one update for the gradients of several runs."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics import mode
from paddle._basics.dtypes import VarType
from paddle._basics.mode import in_static_mode
from paddle._basics.names import OP_ROLE_VAR
from paddle._programs.guards import default_main_program, default_startup_program, program_guard
from paddle._programs.variable import Variable
from paddle.optimizer.base import Pairs, global_var
from paddle.static.conditional import cond

__all__ = ["GradientMergeOptimizer"]


def like(name: str, param: Any, block: Any) -> Any:
    """A persistable variable of a parameter's shape and type."""
    return block.create_var(name=name, shape=param.shape, dtype=param.dtype, persistable=True)


class GradientMergeOptimizer:
    """Wraps an optimizer: it updates once in `k_steps` runs, by their accumulated gradients.

    Args:
        inner_optimizer: the optimizer of the update.
        k_steps: the number of runs of a step, an integer above 0 (AssertionError otherwise).
        avg: the mean of the gradients instead of their sum.

    Raises:
        Exception: in dygraph mode, where backward accumulates gradients.

    Examples:
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [None, 2], "float32")
        >>> loss = fluid.layers.mean(fluid.layers.fc(x, 1))
        >>> merged = fluid.optimizer.GradientMergeOptimizer(fluid.optimizer.SGD(0.1), k_steps=4)
        >>> _ = merged.minimize(loss)
        >>> paddle.disable_static()
    """

    GRAD_MERGE_COND_NAME = "grad_merge_cond_name"

    def __init__(self, inner_optimizer: Any, k_steps: int = 1, avg: bool = True) -> None:
        if not in_static_mode():
            raise Exception(
                "GradientMergeOptimizer is for Programs only: in dygraph mode call backward k times before a step"
            )
        assert inner_optimizer is not None, "inner optimizer can not be None"
        assert isinstance(k_steps, int) and k_steps > 0, f"k_steps must be an integer above 0, got {k_steps}"
        self.inner_optimizer = inner_optimizer
        self.k_steps = k_steps
        self.type = "gradient_merge"
        self.avg = avg
        self._optimize_ops: Any = None

    def _set_k_steps(self, k_steps: int) -> None:
        self.k_steps = k_steps

    def _set_avg(self, avg: bool) -> None:
        self.avg = avg

    def backward(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Pairs:
        """The gradient operators of the inner optimizer; parameter_list and no_grad_set must be None."""
        assert isinstance(loss, Variable), "backward: loss must be a Variable"
        assert parameter_list is None, "GradientMergeOptimizer: parameter_list must be None"
        assert no_grad_set is None, "GradientMergeOptimizer: no_grad_set must be None"
        return self.inner_optimizer.backward(loss, startup_program=startup_program)

    def apply_optimize(self, loss: Any, startup_program: Any, params_grads: Pairs) -> list[Any]:
        """`apply_gradients` to the Program of `loss`."""
        with program_guard(loss.block.program, startup_program):
            return self.apply_gradients(params_grads)

    def _due(self, block: Any) -> Any:
        """Appends the counter of runs; returns the condition variable of the update."""
        every = global_var("gradient_merge_k", [1], self.k_steps, "int32")
        zero = global_var("gradient_merge_zero", [1], 0, "int32")
        step = global_var("gradient_merge_step", [1], 0, "int32")
        due = global_var("gradient_merge_cond", [1], 0, "bool")
        with mode.device_guard("cpu"):
            _ops.increment(step, step=1.0, Out=step)
            _ops.elementwise_mod(step, every, Out=step)
            _ops.equal(step, zero, Out=due)
        return due

    def apply_gradients(self, params_grads: Pairs) -> list[Any]:
        """Appends the sums of gradients and, in a branch, the update by them; returns the operators of the update."""
        program = default_main_program()
        block, startup = program.global_block(), default_startup_program().global_block()
        due = self._due(block)
        merged: Pairs = []
        for param, grad in params_grads:
            assert param.type != VarType.SELECTED_ROWS and grad.type != VarType.SELECTED_ROWS, (
                f"GradientMergeOptimizer: the gradient of {param.name} is SelectedRows, which it cannot merge"
            )
            self._give_up_role(param, grad)
            name = param.name + "@GRAD@GradientMerge"
            total = like(name, param, block)
            startup.append_op(
                type="fill_constant",
                outputs={"Out": like(name, param, startup)},
                attrs={"shape": list(param.shape), "dtype": param.dtype, "value": 0.0},
            )
            op = block.append_op(
                type="elementwise_add", inputs={"X": grad, "Y": total}, outputs={"Out": total}, attrs={"axis": -1}
            )
            self._take_role(op, param, total, due)
            merged.append((param, total))
        cond(due, lambda: self._append_update(merged), None)
        return self._optimize_ops

    @staticmethod
    def _give_up_role(param: Any, grad: Any) -> None:
        """Removes the role variables of the gradient's operator: replicas exchange the sum instead."""
        pairs = list(grad.op.all_attrs().get(OP_ROLE_VAR, []))
        assert param.name in pairs and grad.name in pairs, (
            f"GradientMergeOptimizer: {grad.name} is not what backward made for {param.name}, but of {pairs}"
        )
        pairs.remove(param.name)
        pairs.remove(grad.name)
        if len(pairs) > 1:
            grad.op._set_attr(OP_ROLE_VAR, pairs)
        else:
            grad.op._remove_attr(OP_ROLE_VAR)

    def _take_role(self, op: Any, param: Any, total: Any, due: Any) -> None:
        total.op = op
        op._set_attr(self.GRAD_MERGE_COND_NAME, due.name)
        op._set_attr("op_role", 1)
        op._set_attr(OP_ROLE_VAR, [param.name, total.name])

    def _append_update(self, merged: Pairs) -> None:
        """In the branch: appends the update by the sums, and resets them."""
        program = default_main_program()
        block = program.current_block()
        block._set_forward_block_idx(block.idx)
        for _, total in merged:
            if self.avg:
                _ops.scale(total, scale=1.0 / self.k_steps, Out=total)
            # clipping and decay are appended to the block of the gradient
            total.block = block
        self._optimize_ops = self.inner_optimizer.apply_gradients(merged)
        for _, total in merged:
            _ops.fill_constant(shape=list(total.shape), dtype=total.dtype, value=0.0, Out=total)

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[list[Any], Pairs]:
        """`backward` and `apply_optimize` in one; returns (operators, pairs of parameter and gradient)."""
        assert isinstance(loss, Variable), "minimize: loss must be a Variable"
        params_grads = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, params_grads), params_grads
