"""Element types that static mode accepts as inputs of operators, checked by the builtins when they append an operator.

2.0.2 checks these while a Program is built, and its tests look for the TypeError. In dygraph mode the kernel itself
reports a type that it does not support. An operator without a row is not checked.

A row accepts all types of the operator's kernels but bfloat16, which 2.0.2 refuses. A function that accepts fewer than
its operator checks its arguments itself by `check_variable_and_dtype`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from paddle._basics.element_types import FLOATS, HALF_FLOATS, HALF_NUMERIC, INDICES, takes
from paddle._programs.variable_checks import check_variable_and_dtype

__all__: list[str] = []


class Row(NamedTuple):
    """The checks of one operator.

    `function` is its name in messages; `inputs` has a pair (argument name in messages, element types) for each input
    slot in order. None as types means those of the operator's kernels, None as a pair skips the slot.
    """

    function: str
    inputs: tuple[tuple[str, Sequence[str] | None] | None, ...]


ROWS: dict[str, Row] = {}


def _rows(op_types: str, *inputs: tuple[str, Sequence[str] | None] | None, function: str | None = None) -> None:
    ROWS.update((op_type, Row(function or op_type, inputs)) for op_type in op_types.split())


_rows("log sqrt rsqrt reciprocal tanh erf sin cos sinh cosh asin acos atan ceil round sign", ("x", HALF_FLOATS))
_rows("relu relu6 leaky_relu brelu soft_relu elu selu gelu sigmoid logsigmoid hard_sigmoid", ("x", HALF_FLOATS))
_rows("swish hard_swish softplus softsign softshrink hard_shrink tanh_shrink thresholded_relu", ("x", HALF_FLOATS))
_rows("softmax log_softmax", ("x", HALF_FLOATS))
_rows("prelu", ("x", HALF_FLOATS), ("weight", HALF_FLOATS))
_rows("conv2d conv3d depthwise_conv2d conv2d_transpose conv3d_transpose depthwise_conv2d_transpose", ("x", None))
_rows("square", ("x", HALF_NUMERIC))
_rows("dropout stanh conj bernoulli multinomial increment real imag logical_not", ("x", None))
_rows("logical_and logical_or logical_xor", ("x", None), ("y", None))
_rows("isfinite_v2", ("x", HALF_NUMERIC), function="isfinite")
_rows("isinf_v2", ("x", HALF_NUMERIC), function="isinf")
_rows("isnan_v2", ("x", HALF_NUMERIC), function="isnan")
_rows("addmm", ("Input", None), ("X", None), ("Y", None))
_rows("inverse", ("x", None))
_rows("cholesky", ("dtype", None))
_rows("histogram", ("X", None))
_rows("p_norm", ("input", None))
_rows("dist", ("dtype", None), ("dtype", None))
_rows("allclose", ("input", None), ("input", None))
_rows("gather_tree", ("ids", None), ("parents", INDICES))
_rows("grid_sampler", ("x", None), ("grid", FLOATS), function="grid_sample")
_rows("affine_grid", ("theta", None))
_rows("warpctc", ("input", None))
_rows("batch_norm", ("input", None), function="BatchNorm")
_rows("sync_batch_norm", ("input", None), function="SyncBatchNorm")
_rows("spectral_norm", ("weight", None), function="SpectralNorm")
_rows("layer_norm", ("input", None), function="LayerNorm")


def types_of(op_type: str) -> Sequence[str]:
    """The element types that the row of `op_type` accepts for its first input."""
    first = ROWS[op_type].inputs[0]
    assert first is not None
    return first[1] or takes(op_type)


def check_inputs(op_type: str, slots: Sequence[Any], inputs: dict[str, Any]) -> None:
    """TypeError unless the inputs are Variables of the types in the operator's row.

    Args:
        op_type (str): the operator.
        slots (sequence of OpProto.Var): its input slots in order.
        inputs (dict): slot name to Variable or list; an absent slot is left out or None.
    """
    row = ROWS.get(op_type)
    if row is None:
        return
    for slot, pair in zip(slots, row.inputs, strict=False):
        value = inputs.get(slot.name)
        if pair is None or value is None and slot.dispensable:
            continue
        name, types = pair[0], pair[1] or takes(op_type)
        if slot.duplicable and isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                check_variable_and_dtype(item, f"{name}[{i}]", types, row.function)
        else:
            check_variable_and_dtype(value, name, types, row.function)
