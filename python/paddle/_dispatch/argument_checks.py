"""Types of arguments that functions of the API accept in static mode: a row for each function.

2.0.2 checks these while a Program is built, and its tests look for the TypeError; in dygraph mode nothing is checked
here, and the kernel reports what it does not support. `input_checks` has the operands of operators; a row is for what
it does not cover: attributes, types of elements to create, operands of functions that are made of several operators.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, NamedTuple

from paddle._basics import mode
from paddle._basics import numpy as np
from paddle._basics.checks import check_dtype, check_type
from paddle._basics.element_types import (
    BOOL_HALF_NUMERIC,
    BOOL_NUMERIC,
    FLOATS,
    HALF_FLOATS,
    HALF_NUMERIC,
    INDICES,
    NUMERIC,
    ORDERED,
)
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype

__all__: list[str] = []


class Kind(NamedTuple):
    """The types of one argument; None accepts all.

    `python` are the accepted Python types (or a function that returns them: numpy is imported at its first use),
    `elements` the element types of a Variable. An argument without Python types
    names an element type itself.
    """

    python: Any = None
    elements: Any = None
    #: the items of a list or tuple are Variables of these element types, too
    items: bool = False


def _tensor(*elements: str) -> Kind:
    return Kind(Variable, elements)


def _optional(*elements: str) -> Kind:
    return Kind((Variable, type(None)), elements)


def _dtype(*elements: str) -> Kind:
    return Kind(None, elements)


ANY = Kind()
BOOL, INT, INT_OR_FLOAT, FLOAT, TEXT = Kind(bool), Kind(int), Kind((float, int)), Kind(float), Kind(str)
TENSOR = Kind(Variable)
AXES = Kind((int, list, tuple, type(None)))
#: sizes of a shape
SIZES = Kind((list, tuple, Variable))
#: a number, or an integer Variable
INDEX = Kind((int, Variable), INDICES)

_Argument = tuple[str, Kind]
#: function -> its checked arguments in order: (name in messages, kind)
ROWS: dict[str, tuple[_Argument, ...]] = {}


def _rows(functions: str, *arguments: _Argument) -> None:
    ROWS.update((function, arguments) for function in functions.split())


_x = ("x", _tensor(*HALF_FLOATS))
# paddle.tensor
_rows("pow", ("x", _tensor(*HALF_NUMERIC)))
_rows("scale", ("x", _tensor(*HALF_FLOATS, "int8", "int16", "int32", "int64", "uint8")))
_rows("add_n", ("inputs", Kind((list, tuple, Variable), NUMERIC, items=True)))
_rows("sum", ("x", _tensor(*BOOL_NUMERIC)), ("axis", AXES), ("dtype", _dtype(*NUMERIC)))
_rows("prod", ("dtype", _dtype(*NUMERIC)))
_rows("reduce_max reduce_min reduce_all reduce_any", ("axis", AXES))
_rows("cast", ("x", _tensor("bool", *HALF_FLOATS, "int32", "int64", "uint8", "int8", "int16", "uint16")))
_rows("cumsum nonzero", ("x", TENSOR))
_bound = Kind((float, int, Variable, type(None)))
_rows("clip", ("x", _tensor(*NUMERIC)), ("min", _bound), ("max", _bound))
_rows("mean/reduce_mean", ("x/input", _tensor("uint16", *HALF_FLOATS)), ("axis/dim", AXES))
_rows("var", ("x", _tensor(*FLOATS)))
_rows("shape", ("input", _tensor(*BOOL_HALF_NUMERIC)))
_rows("rank", ("input", TENSOR))
_rows("logical_and logical_or logical_xor logical_not", ("out", Kind((Variable, type(None)))))
_rows("allclose", ("rtol", FLOAT), ("atol", FLOAT), ("equal_nan", BOOL))
_rows("is_empty", ("name", Kind((str, type(None)))))
_rows("arg_max arg_min", ("dtype", _dtype(*INDICES)))
_rows("argsort sort", ("x", _tensor(*ORDERED)))
_rows("where", ("condition", _tensor("bool")), ("x", _tensor(*NUMERIC)), ("y", _tensor(*NUMERIC)))
_rows("fill_constant", ("dtype", _dtype(*BOOL_HALF_NUMERIC)), ("shape", SIZES))
_rows("full_like", ("x", _tensor(*BOOL_HALF_NUMERIC)), ("dtype", _dtype(*BOOL_HALF_NUMERIC)))
_rows("range/arange randperm", ("dtype", _dtype(*NUMERIC)))


def _assigned() -> tuple[type, ...]:
    return Variable, np.ndarray, list, tuple, float, int, bool


_rows("assign", ("input", Kind(_assigned, BOOL_HALF_NUMERIC)))
_end = Kind((int, float, Variable), NUMERIC)
_count = Kind((int, Variable), ("int32",))
_rows("linspace", ("start", _end), ("stop", _end), ("num", _count), ("dtype", _dtype(*NUMERIC)))
_rows("eye", ("dtype", _dtype(*HALF_NUMERIC)))
_rows("diag_v2", ("x", _tensor(*NUMERIC)), ("offset", INT), ("padding_value", Kind((int, float))))
_rows("tril triu", ("x", _tensor(*HALF_NUMERIC)))
_rows("empty", ("dtype", _dtype(*BOOL_HALF_NUMERIC)), ("shape", Kind((Variable, list, tuple), INDICES)))
_rows("empty_like", ("x", _tensor(*BOOL_HALF_NUMERIC)))
_offsets = Kind((list, tuple, Variable, type(None)))
_rows("crop_tensor", ("x", _tensor(*NUMERIC)), ("shape", SIZES), ("offsets", _offsets))
_gathered = _tensor(*HALF_FLOATS, "int32", "int64", "uint8")
_rows("gather", ("x", _gathered), ("index", _tensor(*INDICES)), ("axis", INDEX))
_rows("scatter", ("overwrite", BOOL))
_rows("multiplex", ("inputs", Kind(list)))
_rows(
    "unique",
    ("input", _tensor(*NUMERIC)),
    ("return_index", BOOL),
    ("return_inverse", BOOL),
    ("return_counts", BOOL),
    ("dtype", _dtype(*INDICES)),
    ("axis", Kind((int, type(None)))),
)
_rows("mm", ("input", _tensor(*HALF_FLOATS)), ("mat2", _tensor(*HALF_FLOATS)))
_rows("transpose", ("x", _tensor(*BOOL_HALF_NUMERIC)), ("perm", Kind((list, tuple))))
_rows("t", ("input", _tensor(*HALF_NUMERIC)))
_rows("trace diag_embed", ("Input", _tensor(*HALF_NUMERIC)))
_rows("cholesky", ("upper", BOOL))
_rows("dist", ("p", INT_OR_FLOAT))
_rows("uniform/rand", ("shape", SIZES), ("dtype", _dtype(*FLOATS)))
_rows("gaussian/standard_normal/randn/normal", ("dtype", _dtype(*FLOATS)))
_rows("normal", ("mean", Kind((int, float, Variable))), ("std", Kind((int, float, Variable))))
_rows("randint", ("dtype", _dtype(*INDICES)))
_rows("reshape", ("x", _tensor(*BOOL_HALF_NUMERIC)), ("shape", SIZES))
_rows("squeeze", ("input", _tensor(*BOOL_HALF_NUMERIC, "int8")), ("axis/axes", AXES))
_axes = Kind((int, list, tuple, Variable))
_rows("unsqueeze", ("axis/axes", _axes), ("input", _tensor(*BOOL_HALF_NUMERIC, "int8")))
_rows("flatten", ("x", _tensor(*FLOATS, "int8", "int32", "int64", "uint8")))
_rows("concat", ("x", Kind((list, tuple, Variable), BOOL_HALF_NUMERIC, items=True)), ("axis", INDEX))
_rows("stack", ("x", _tensor(*HALF_NUMERIC)))
_parts = Kind((list, int, tuple))
_rows("split", ("x", _tensor(*BOOL_HALF_NUMERIC)), ("num_or_sections", _parts), ("axis", INDEX))
_rows("chunk", ("chunks", INT))
_rows("unbind", ("input", _tensor(*NUMERIC)))
_rows("strided_slice", ("x", _tensor(*BOOL_NUMERIC)), ("starts", SIZES), ("ends", SIZES), ("strides", SIZES))
_rows("expand", ("x", _tensor(*BOOL_NUMERIC)), ("shape", SIZES))
_rows("expand_as", ("x", _tensor(*BOOL_NUMERIC)), ("y", TENSOR))
_rows("tile", ("repeat_times", SIZES), ("x", _tensor(*BOOL_NUMERIC)))
_rows("roll", ("shifts", Kind((list, tuple))), ("axis", Kind((list, tuple, type(None)))))
_rows("flip", ("axis", Kind((list, tuple))))
_rows("array_write", ("i", _tensor("int64")), ("x", TENSOR))
_rows("array_read", ("i", _tensor("int64")))

# paddle.nn
_rows("linear", _x)
_rows("dropout alpha_dropout unfold", ("x", _tensor(*FLOATS)))
_rows("label_smooth", ("label", _tensor(*FLOATS)))
_rows("InstanceNorm", ("input", _tensor(*FLOATS)))
_rows("local_response_norm", ("x", _tensor("float32")))
_rows("normalize", ("p", INT_OR_FLOAT), ("axis", INT), ("x", _tensor(*FLOATS)))
_rows("max_pool1d max_pool3d", ("x", _tensor(*FLOATS)), ("return_mask", BOOL))
_rows("max_pool2d", _x, ("return_mask", BOOL))
_rows("avg_pool1d avg_pool2d avg_pool3d", ("x", _tensor(*FLOATS)), ("return_mask", BOOL))
_rows("adaptive_avg_pool1d adaptive_max_pool1d", _x, ("pool_size", INT), ("return_mask", BOOL))
_rows("adaptive_avg_pool2d adaptive_avg_pool3d", _x, ("pool_size", ANY), ("return_mask", BOOL))
_rows("adaptive_max_pool2d adaptive_max_pool3d", _x, ("pool_size", ANY), ("return_mask", BOOL))
_rows("softmax log_softmax", ("dtype", _dtype(*FLOATS)))
_rows("temporal_shift", ("shift_ratio", FLOAT))
_rows("warpctc", ("label", _tensor("int32")), ("LogitsLength", _optional("int64")), ("LabelLength", _optional("int64")))
_rows("pad", ("x", _tensor(*HALF_NUMERIC)))
_rows("embedding", ("input", _tensor(*INDICES)))
_rows("kl_div", ("reduction", TEXT))
_rows("nll_loss", ("input", _tensor(*FLOATS)), ("label", _tensor("int64")))
_rows("square_error_cost mse_loss MSELoss", ("input", _tensor(*FLOATS)), ("label", _tensor(*FLOATS)))
_rows("l1_loss", ("input", _tensor(*NUMERIC)), ("label", _tensor(*NUMERIC)))
_label, _weight = ("label", _tensor(*NUMERIC)), ("weight", _optional(*FLOATS))
_rows("softmax_cross_entropy", ("input", _tensor(*FLOATS)), _label, _weight)
_rows("margin_rank_loss", *((name, _tensor(*FLOATS)) for name in ("input", "other", "label")))
_rows(
    "binary_cross_entropy_with_logits",
    ("logit", _tensor(*FLOATS)),
    ("label", _tensor(*FLOATS)),
    ("pos_weight", _optional(*FLOATS)),
    ("weight", _optional(*FLOATS)),
)
_rows("sigmoid_focal_loss", ("normalizer", _optional(*FLOATS)))
_rows("dice_loss", ("input", _tensor(*FLOATS)))
_rows("npair_loss", ("anchor", _tensor(*FLOATS)), ("positive", _tensor(*FLOATS)), ("labels", _tensor(*FLOATS, "int64")))
_rows("PairwiseDistance.forward", ("x", _tensor(*FLOATS)), ("y", _tensor(*FLOATS)))
_rows("PairwiseDistance", ("porder", INT_OR_FLOAT), ("epsilon", FLOAT), ("keepdim", BOOL))
_states = Kind((Variable, list, tuple, type(None)))
_inputs = Kind((Variable, list, tuple), FLOATS, items=True)
_rows("rnn", ("inputs", _inputs), ("initial_states", _states), ("sequence_length", Kind((Variable, type(None)))))
_rows("BeamSearchDecoder.tile_beam_merge_with_batch", ("x", TENSOR))


def check_arguments(function: str, *values: Any) -> None:
    """In static mode, TypeError for arguments of other types than the row of the function accepts.

    Args:
        function (str): key of `ROWS`, and its name in messages.
        *values: the arguments in the order of the row; the last ones may be left out.
    """
    if not mode.in_static_mode():
        return
    for (name, kind), value in zip(ROWS[function], values, strict=False):
        if kind.python is None:
            if kind.elements is not None and value is not None:  # None is the default
                check_dtype(value, name, kind.elements, function)
            continue
        types = kind.python() if isinstance(kind.python, FunctionType) else kind.python
        check_type(value, name, types, function)
        if kind.elements is None:
            continue
        if isinstance(value, Variable):
            check_dtype(value.dtype, name, kind.elements, function)
        elif kind.items and isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                check_variable_and_dtype(item, f"{name}[{i}]", kind.elements, function)
