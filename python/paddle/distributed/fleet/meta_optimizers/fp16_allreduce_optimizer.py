"""FP16AllReduceOptimizer: the strategy's `fp16_allreduce`."""

from __future__ import annotations

from typing import Any

from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._programs.name_scope import name_scope
from paddle.optimizer.base import Pairs

from .common import OP_ROLE_KEY, OP_ROLE_VAR_KEY, OpRole
from .meta_optimizer_base import MetaOptimizerBase

__all__ = ["FP16AllReduceOptimizer"]


def _cast(block: Any, grad: Any, dtype: Any, suffix: str) -> tuple[Any, Any]:
    """A gradient in another type, and the operator that makes it."""
    name = unique_name.generate(f"{grad.name}.cast_{suffix}")
    out = block.create_var(name=name, dtype=dtype, persistable=False, stop_gradient=True)
    attrs = {"in_dtype": grad.dtype, "out_dtype": dtype}
    return out, block.append_op(type="cast", inputs={"X": grad}, outputs={"Out": out}, attrs=attrs)


class FP16AllReduceOptimizer(MetaOptimizerBase):
    """Gradients travel as float16."""

    field = "fp16_allreduce"
    auto_configs: dict[str, Any] = {}

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self.meta_optimizers_white_list = [
            "LarsOptimizer",
            "LambOptimizer",
            "RecomputeOptimizer",
            "LocalSGDOptimizer",
            "GradientMergeOptimizer",
            "GraphExecutionOptimizer",
            "AdaptiveLocalSGDOptimizer",
        ]
        self.meta_optimizers_black_list = ["DGCOptimizer"]

    @staticmethod
    def fp16_compression(param_and_grads: Pairs) -> Pairs:
        """Casts each float32 gradient to float16, which is what ranks exchange then, and back for the update.

        All casts down stand before the first one up, so that the exchanges stand together.
        """
        half: list[tuple[Any, Any, bool]] = []
        for param, grad in param_and_grads:
            names = [] if grad is None else list(grad.op.attr(OP_ROLE_VAR_KEY))
            if grad is None or grad.dtype != VarType.FP32 or param.name not in names:
                half.append((param, grad, False))
                continue
            names.remove(param.name)
            names.remove(grad.name)
            if names:
                grad.op._set_attr(OP_ROLE_VAR_KEY, names)
            else:
                grad.op._remove_attr(OP_ROLE_VAR_KEY)
            with grad.block.program._backward_role_guard():
                small, op = _cast(grad.block, grad, VarType.FP16, "fp16")
            op._set_attr(OP_ROLE_KEY, int(OpRole.Backward))
            op._set_attr(OP_ROLE_VAR_KEY, [param.name, small.name])
            small.op = op
            half.append((param, small, True))
        pairs: Pairs = []
        for param, grad, small in half:
            if small:
                with grad.block.program._optimized_guard([param, grad]), name_scope("fp16_allreduce"):
                    grad, _ = _cast(grad.block, grad, VarType.FP32, "fp32")
            pairs.append((param, grad))
        return pairs

    def apply_optimize(self, loss: Any, startup_program: Any, params_grads: Pairs) -> list[Any]:
        """The update of the optimizer inside by gradients that travelled as float16."""
        return super().apply_optimize(loss, startup_program, self.fp16_compression(params_grads))
