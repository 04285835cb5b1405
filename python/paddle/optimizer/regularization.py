"""Adds the weight decay of regularizers to gradients."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from paddle import _ops
from paddle._basics.dtypes import VarType
from paddle._basics.mode import in_static_mode
from paddle._programs.guards import default_main_program
from paddle._programs.name_scope import name_scope
from paddle.regularizer import WeightDecayRegularizer

__all__ = ["append_regularization_ops"]


def _create_regularization_of_grad(param: Any, grad: Any, regularization: WeightDecayRegularizer | None = None) -> Any:
    """`grad` plus the decay of the parameter's regularizer, or else of `regularization`."""
    # The parameter's regularizer takes precedence.
    own = getattr(param, "regularizer", None)
    regularizer = own if own is not None else regularization
    if grad is None or regularizer is None:
        return grad
    if not in_static_mode():
        return _ops.sum([grad, regularizer(param, grad, default_main_program().global_block())])
    term = regularizer(param, grad, grad.block)
    out = grad
    if grad.type == VarType.SELECTED_ROWS:
        # SelectedRows plus a dense term is dense, which the gradient's variable cannot hold.
        out = grad.block.create_var(
            name=grad.name + "@NEWGRAD@", dtype=param.dtype, shape=param.shape, lod_level=param.lod_level
        )
    grad.block.append_op(type="sum", inputs={"X": [grad, term]}, outputs={"Out": [out]})
    return out


def log_precedence(regularization: Any, argument: str = "regularization") -> None:
    """Logs that parameters with a regularizer do not use the optimizer's, which is its `argument`."""
    logging.info(
        "a regularizer set in the ParamAttr of a Parameter takes precedence over %s=%s of the optimizer, which "
        "applies to the other Parameters",
        argument,
        regularization,
    )


def append_regularization_ops(
    parameters_and_grads: Iterable[tuple[Any, Any]], regularization: WeightDecayRegularizer | None = None
) -> list[tuple[Any, Any]]:
    """The pairs of parameters and gradients with the weight decay added to the gradients.

    A parameter's regularizer takes precedence over `regularization`. In static mode operators are appended to the
    Programs, in dygraph mode they run.
    """
    if not in_static_mode():
        return [
            (param, _create_regularization_of_grad(param, grad, regularization)) for param, grad in parameters_and_grads
        ]
    pairs = []
    warned = False
    with name_scope("regularization"):
        for param, grad in parameters_and_grads:
            if not warned and getattr(param, "regularizer", None) is not None and regularization is not None:
                warned = True
                log_precedence(regularization)
            with param.block.program._optimized_guard([param, grad]):
                pairs.append((param, _create_regularization_of_grad(param, grad, regularization)))
    return pairs
