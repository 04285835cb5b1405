"""The strategy `fp16_allreduce`: gradients are exchanged as float16."""

from __future__ import annotations

from typing import Any

from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._programs.name_scope import name_scope
from paddle.optimizer.base import Pairs

from ..base.strategy_registry import Flag, register
from .common import OP_ROLE_KEY, OP_ROLE_VAR_KEY, OpRole
from .dgc_optimizer import DGCOptimizer
from .gradient_merge_optimizer import GradientMergeOptimizer
from .graph_execution_optimizer import GraphExecutionOptimizer
from .lamb_optimizer import LambOptimizer
from .lars_optimizer import LarsOptimizer
from .localsgd_optimizer import AdaptiveLocalSGDOptimizer, LocalSGDOptimizer
from .meta_optimizer_base import MetaOptimizerBase
from .recompute_optimizer import RecomputeOptimizer

__all__ = ["FP16AllReduceOptimizer"]


def _cast(block: Any, grad: Any, dtype: Any, suffix: str) -> tuple[Any, Any]:
    """A gradient cast to `dtype`, and the operator that casts it."""
    name = unique_name.generate(f"{grad.name}.cast_{suffix}")
    out = block.create_var(name=name, dtype=dtype, persistable=False, stop_gradient=True)
    attrs = {"in_dtype": grad.dtype, "out_dtype": dtype}
    return out, block.append_op(type="cast", inputs={"X": grad}, outputs={"Out": out}, attrs=attrs)


@register
class FP16AllReduceOptimizer(MetaOptimizerBase):
    """Casts gradients to float16 before they are exchanged, and back for the update."""

    flag = Flag("fp16_allreduce", 25, "bool: gradients are exchanged as float16. False by default.", error=TypeError)
    auto_configs: dict[str, Any] = {}
    inner = (
        LarsOptimizer,
        LambOptimizer,
        RecomputeOptimizer,
        LocalSGDOptimizer,
        GradientMergeOptimizer,
        GraphExecutionOptimizer,
        AdaptiveLocalSGDOptimizer,
    )
    conflicts = (DGCOptimizer,)

    @staticmethod
    def fp16_compression(param_and_grads: Pairs) -> Pairs:
        """Casts each float32 gradient to float16, which ranks exchange, and back to float32 for the update.

        All casts to float16 precede the first one to float32, so that the exchanges are adjacent.
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
        """The inner optimizer's update, by gradients that were exchanged as float16."""
        return super().apply_optimize(loss, startup_program, self.fp16_compression(params_grads))
