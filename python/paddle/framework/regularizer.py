"""Weight decay: what a regularizer adds to a parameter's gradient."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from paddle import _ops
from paddle.framework.block import Block
from paddle.framework.dtypes import VarType
from paddle.framework.guards import default_main_program, name_scope
from paddle.framework.mode import in_dygraph_mode
from paddle.framework.variable import Parameter

__all__ = ["L1Decay", "L2Decay", "L1DecayRegularizer", "L2DecayRegularizer"]


class WeightDecayRegularizer:
    """Base of all regularizers: `decay(param, grad, block)` gives the term to add to `grad`."""

    def __call__(self, param: Any, grad: Any, block: Any) -> Any:
        """The term to add to the gradient; given by the subclass."""
        raise NotImplementedError(f"'__call__' not implement in class {type(self).__name__}")

    def __str__(self) -> str:
        raise NotImplementedError(f"'__str__' not implement in class {type(self).__name__}")


class _Decay(WeightDecayRegularizer):
    """Adds regularization_coeff * param, or where `_of_sign` the same of sign(param)."""

    _label = ""
    _of_sign = False

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        assert regularization_coeff is not None
        super().__init__()
        self._regularization_coeff = regularization_coeff

    def __call__(self, param: Any, grad: Any, block: Any) -> Any:
        """The term to add to the gradient of `param`; in static mode `block` gets its operators."""
        assert isinstance(param, Parameter), f"param must be a Parameter, but got {type(param)}"
        factor = self._regularization_coeff
        if in_dygraph_mode():
            return _ops.scale(_ops.sign(param) if self._of_sign else param, scale=factor)
        assert isinstance(block, Block), f"block must be a Block, but got {type(block)}"
        decay = block.create_var(dtype=param.dtype, shape=param.shape, lod_level=param.lod_level)
        if self._of_sign:
            block.append_op(type="sign", inputs={"X": param}, outputs={"Out": decay})
        source = decay if self._of_sign else param
        block.append_op(type="scale", inputs={"X": source}, outputs={"Out": decay}, attrs={"scale": factor})
        return decay

    def __str__(self) -> str:
        return f"{self._label}, regularization_coeff={self._regularization_coeff:f}"


class L2DecayRegularizer(_Decay):
    """Adds regularization_coeff * param."""

    _label = "L2Decay"


class L1DecayRegularizer(_Decay):
    """Adds regularization_coeff * sign(param)."""

    _label = "L1Decay"
    _of_sign = True



def _create_regularization_of_grad(param: Any, grad: Any, regularization: WeightDecayRegularizer | None = None) -> Any:
    """`grad` with the decay of the parameter's own regularizer, or else of `regularization`, added."""
    # The parameter's own regularizer goes before the optimizer's.
    own = getattr(param, "regularizer", None)
    regularizer = own if own is not None else regularization
    if grad is None or regularizer is None:
        return grad
    if in_dygraph_mode():
        return _ops.sum([grad, regularizer(param, grad, default_main_program().global_block())])
    term = regularizer(param, grad, grad.block)
    out = grad
    if grad.type == VarType.SELECTED_ROWS:
        # Rows plus a dense term are dense, which the gradient's variable cannot hold.
        out = grad.block.create_var(
            name=grad.name + "@NEWGRAD@", dtype=param.dtype, shape=param.shape, lod_level=param.lod_level
        )
    grad.block.append_op(type="sum", inputs={"X": [grad, term]}, outputs={"Out": [out]})
    return out


def tell_own_goes_first(regularization: WeightDecayRegularizer) -> None:
    """Logs that parameters with regularizers of their own do not get the optimizer's."""
    logging.info(
        "a regularizer set in the ParamAttr of a Parameter goes before regularization=%s of the optimizer, which holds "
        "for the other Parameters",
        regularization,
    )


def append_regularization_ops(
    parameters_and_grads: Iterable[tuple[Any, Any]], regularization: WeightDecayRegularizer | None = None
) -> list[tuple[Any, Any]]:
    """The pairs of parameters and gradients with the weight decay added to the gradients.

    A parameter's own regularizer is used, or else `regularization`. In static mode the operators are appended to
    the Programs, in dygraph mode they run.
    """
    if in_dygraph_mode():
        return [
            (param, _create_regularization_of_grad(param, grad, regularization)) for param, grad in parameters_and_grads
        ]
    pairs = []
    told = False
    with name_scope("regularization"):
        for param, grad in parameters_and_grads:
            if not told and param.regularizer is not None and regularization is not None:
                told = True
                tell_own_goes_first(regularization)
            with param.block.program._optimized_guard([param, grad]):
                pairs.append((param, _create_regularization_of_grad(param, grad, regularization)))
    return pairs


L1Decay = L1DecayRegularizer
L2Decay = L2DecayRegularizer
