"""Element types that static mode accepts as inputs of operators, checked by the builtins when they append an operator.

2.0.2 checks these while a Program is built, and its tests look for the TypeError. In dygraph mode the kernel itself
reports a type that it does not support. An operator without a row is not checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from paddle._basics.element_types import (
    BOOL_HALF_NUMERIC,
    BOOL_NUMERIC,
    FLOATS,
    HALF_FLOATS,
    HALF_NUMERIC,
    INDICES,
    NUMERIC,
    ORDERED,
    takes,
)
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


_rows("abs square", ("x", HALF_NUMERIC))
_rows("exp log sqrt rsqrt reciprocal tanh erf sin cos sinh cosh asin acos atan", ("x", HALF_FLOATS))
_rows("floor ceil round sign", ("x", HALF_FLOATS))
_rows("log2 log10 log1p", ("x", FLOATS))
_rows("relu relu6 sigmoid gelu softmax log_softmax", ("x", HALF_FLOATS))
_rows("gather_tree", ("ids", None), ("parents", INDICES))
_rows("warpctc", ("input", None), ("label", ("int32",)), ("LogitsLength", ("int64",)), ("LabelLength", ("int64",)))
_rows("label_smooth", ("label", FLOATS))
_rows("bilinear_tensor_product", ("x1", FLOATS), ("x2", FLOATS), function="bilinear")
_rows("nll_loss", ("input", FLOATS), ("label", ("int64",)))
_rows("kldiv_loss", ("input", FLOATS), ("label", FLOATS), function="kl_div")
_rows("bce_loss", ("input", FLOATS), ("label", FLOATS), function="binary_cross_entropy")
_rows("log_loss", ("input", ("float32",)), ("label", ("float32",)))
_rows("affine_grid", ("theta", None), ("out_shape", ("int32",)))
_rows("grid_sampler", ("x", None), ("grid", FLOATS), function="grid_sample")
_rows("batch_norm", ("input", None), function="BatchNorm")
_rows("layer_norm", ("input", None), function="LayerNorm")
_rows("instance_norm", ("input", FLOATS), function="InstanceNorm")
_rows("equal not_equal less_than less_equal greater_than greater_equal", *((v, BOOL_HALF_NUMERIC) for v in "xy"))
_rows("logical_and logical_or logical_xor", ("x", None), ("y", None))
_rows("logical_not real imag", ("x", None))
_rows("stanh conj bernoulli multinomial increment", ("x", None))
_rows("logsumexp maxout pixel_shuffle temporal_shift", ("x", FLOATS))
_rows("is_empty", ("x", NUMERIC))
_rows("matmul_v2", ("x", HALF_FLOATS), ("y", HALF_FLOATS), function="matmul")
_rows("dot", ("x", NUMERIC), ("y", NUMERIC))
_rows("kron", ("x", HALF_NUMERIC), ("y", HALF_NUMERIC))
_rows("addmm", ("Input", None), ("X", None), ("Y", None))
_rows("mv", ("x", FLOATS), ("vec", FLOATS))
_rows("inverse", ("x", None))
_rows("cholesky", ("dtype", None))
_rows("histogram", ("X", None))
_rows("frobenius_norm", ("input", FLOATS))
_rows("p_norm", ("input", None))
_rows("dist", ("dtype", None), ("dtype", None))
_rows("allclose", ("input", None), ("input", None))
_rows("scatter", ("dtype", NUMERIC))
_rows("gather_nd", ("input", BOOL_NUMERIC), ("index", INDICES))
_rows("multiplex", ("index", INDICES), ("input", NUMERIC))
_rows("shard_index", ("input", ("int64",)))
_rows("argsort", ("x", ORDERED))
_rows("index_select", ("x", NUMERIC), ("index", INDICES), function="paddle.tensor.search.index_select")
_rows("index_sample", ("x", NUMERIC), ("index", INDICES), function="paddle.tensor.search.index_sample")
_rows("masked_select", ("x", NUMERIC), ("mask", ("bool",)), function="paddle.tensor.search.masked_select")
_rows("isfinite_v2", ("x", HALF_NUMERIC), function="isfinite")
_rows("isinf_v2", ("x", HALF_NUMERIC), function="isinf")
_rows("isnan_v2", ("x", HALF_NUMERIC), function="isnan")


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
