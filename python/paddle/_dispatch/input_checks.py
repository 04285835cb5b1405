"""Element types that static mode accepts as inputs of operators, checked by the builtins when they append an operator.

2.0.2 checks these while a Program is built, and its tests look for the TypeError. In dygraph mode the kernel itself
reports a type that it does not support.

A row accepts all types of the operator's kernels (None) but bfloat16, which 2.0.2 refuses. An operator without a row
refuses values that are no Variables. A function that accepts fewer types than its operator has a row of `FUNCTIONS` and
calls `append.checked`; `argument_checks` has the rows of attributes and of functions that are made of several
operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from paddle._basics.checks import check_type
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
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype

__all__: list[str] = []


class Row(NamedTuple):
    """The checks of one operator.

    `function` is its name in messages; `inputs` has a pair (argument name in messages, element types) for each input
    slot in order. None as types means those of the operator's kernels, None as a pair skips the slot.
    """

    function: str
    inputs: tuple[tuple[str, Sequence[str] | None] | None, ...]


_Pair = tuple[str, Sequence[str] | None]

#: what an operator accepts from all its callers
ROWS: dict[str, Row] = {}
#: what the function that appends an operator by `append.checked` accepts: fewer types than the operator
FUNCTIONS: dict[str, Row] = {}


def _rows(op_types: str, *inputs: _Pair | None, function: str | None = None) -> None:
    ROWS.update((op_type, Row(function or op_type, inputs)) for op_type in op_types.split())


def _functions(op_types: str, *inputs: _Pair | None, function: str | None = None) -> None:
    FUNCTIONS.update((op_type, Row(function or op_type, inputs)) for op_type in op_types.split())


_rows("log sqrt rsqrt reciprocal tanh erf sin cos sinh cosh asin acos atan ceil round sign", ("x", HALF_FLOATS))
_rows("relu relu6 leaky_relu brelu soft_relu elu selu gelu sigmoid logsigmoid hard_sigmoid", ("x", HALF_FLOATS))
_rows("swish hard_swish softplus softsign softshrink hard_shrink tanh_shrink thresholded_relu", ("x", HALF_FLOATS))
_rows("softmax log_softmax", ("x", HALF_FLOATS))
_rows("prelu", ("x", HALF_FLOATS), ("weight", HALF_FLOATS))
_rows("conv2d conv3d depthwise_conv2d conv2d_transpose conv3d_transpose depthwise_conv2d_transpose", ("x", None))
_rows("reduce_all reduce_any", ("x", None))
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
_rows("sequence_softmax sequence_enumerate", ("input", None))

_functions("exp floor", ("x", HALF_FLOATS))
_functions("log2 log10 log1p", ("x", FLOATS))
_functions("abs", ("x", HALF_NUMERIC))
_functions("equal not_equal", ("x", BOOL_HALF_NUMERIC), ("y", BOOL_HALF_NUMERIC))
_functions("less_than less_equal greater_than greater_equal", ("x", BOOL_HALF_NUMERIC), ("y", BOOL_HALF_NUMERIC))
_functions("elementwise_add elementwise_sub elementwise_mul elementwise_div", ("x", HALF_NUMERIC), ("y", HALF_NUMERIC))
_functions("elementwise_max elementwise_min elementwise_mod", ("x", NUMERIC), ("y", NUMERIC))
_functions("elementwise_floordiv", ("x", INDICES), ("y", INDICES))
_functions("reduce_max reduce_min", ("x", NUMERIC))
_functions("reduce_prod", ("x/input", NUMERIC))
_functions("logsumexp frobenius_norm", ("x", FLOATS))
_functions("mv", ("x", FLOATS), ("vec", FLOATS))
_functions("dot", ("x", NUMERIC), ("y", NUMERIC))
_functions("kron", ("x", HALF_NUMERIC), ("y", HALF_NUMERIC))
_functions("matmul_v2", ("x", HALF_FLOATS), ("y", HALF_FLOATS), function="matmul")
_functions("meshgrid", ("args", HALF_NUMERIC))
_functions("is_empty", ("x", NUMERIC))
_functions("arg_max arg_min", ("x", ORDERED))
_functions("index_select index_sample", ("x", NUMERIC), ("index", INDICES))
_functions("gather_nd", ("input", BOOL_NUMERIC), ("index", INDICES))
_functions("masked_select", ("x", NUMERIC), ("mask", ["bool"]))
_functions("multiplex", ("index", INDICES), ("input", NUMERIC))
_functions("one_hot_v2", ("input", INDICES))
_functions("edit_distance", ("input", ["int64"]), ("label", ["int64"]))
_functions("log_loss", ("input", ["float32"]), ("label", ["float32"]))
_functions("maxout pixel_shuffle temporal_shift", ("x", FLOATS))
_functions("sequence_pool", ("input", FLOATS))
_functions("sequence_concat", ("input", ["int64", *FLOATS]))
_functions("sequence_expand sequence_expand_as", ("x", NUMERIC))
_functions("sequence_reshape", ("input", NUMERIC))
_functions("sequence_scatter", ("input", None), ("index", INDICES), ("updates", NUMERIC))
_functions("sequence_reverse", ("x", [*FLOATS, "int8", "int32", "int64", "uint8"]))
_functions("bce_loss", ("input", FLOATS), ("label", FLOATS), function="binary_cross_entropy")
_functions("kldiv_loss", ("input", FLOATS), ("label", FLOATS), function="kl_div")
_functions("huber_loss", ("input", FLOATS), ("label", FLOATS), function="smooth_l1_loss")
_functions(
    "hierarchical_sigmoid",
    ("input", FLOATS),
    ("weight", FLOATS),
    ("label", ["int64"]),
    ("path_table", ["int64"]),
    ("path_code", ["int64"]),
    ("bias", FLOATS),
    function="hsigmoid_loss",
)
_functions("bilinear_tensor_product", ("x1", FLOATS), ("x2", FLOATS), function="bilinear")
_functions("flip", ("X", BOOL_HALF_NUMERIC))
_functions("scatter", ("dtype", NUMERIC))
_functions("shard_index", ("input", ["int64"]))
_functions("affine_grid", ("theta", None), ("out_shape", ["int32"]))


def types_of(op_type: str) -> Sequence[str]:
    """The element types that the function of `op_type` accepts for its first input."""
    first = (FUNCTIONS.get(op_type) or ROWS[op_type]).inputs[0]
    assert first is not None
    return first[1] or takes(op_type)


def check_inputs(op_type: str, slots: Sequence[Any], inputs: dict[str, Any], row: Row | None = None) -> None:
    """TypeError unless the inputs are Variables of the types in the row.

    Args:
        op_type (str): the operator.
        slots (sequence of OpProto.Var): its input slots in order.
        inputs (dict): slot name to Variable or list; an absent slot is left out or None.
        row (Row, optional): by default that of the operator; without one only the types of values are checked.
    """
    row = row or ROWS.get(op_type) or Row(op_type, ())
    for slot, pair in zip_longest(slots, row.inputs):
        value = inputs.get(slot.name)
        if value is None and (slot.dispensable or pair is None):
            continue
        name = pair[0] if pair else slot.name
        items = isinstance(value, (list, tuple)) and slot.duplicable
        for text, item in [(f"{name}[{i}]", v) for i, v in enumerate(value or ())] if items else [(name, value)]:
            if pair is None:
                check_type(item, text, Variable, row.function)
            else:
                check_variable_and_dtype(item, text, pair[1] or takes(op_type), row.function)
