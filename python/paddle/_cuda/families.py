"""The launchers of all families, by operator type."""

from __future__ import annotations

from collections.abc import Callable

import paddle._core as _core

from . import arrays, conversion, formula, halves, maps, ordering, rows, sticky, strided
from .call import NUMPY_NAMES, Call, Declined, Rows
from .comm import rings
from .detection import (
    bins,
    boxes,
    deform,
    fpn,
    matching,
    nms,
    precise,
    psroi,
    quads,
    retinanet_detection_output,
    rois,
    yolo,
)
from .fused import compositions
from .fused import sequences as fused_sequences
from .host import DECLINED_TYPES
from .loss import cross_entropy, elements, hierarchical_sigmoid, metrics, nce, regression, sample_logits
from .math import addmm, binary, dot, elementwise, elementwise_grad, matmul, norms, order, products, reduction, second
from .nn import (
    batch_norm,
    bilateral_slice,
    channels,
    conv,
    correlation,
    data_norm,
    deformable_conv,
    embedding,
    features,
    instance_norm,
    layer_norm,
    patches,
    pooling,
    rank_attention,
    resize,
    similarity_focus,
    softmax,
    tdm,
    tree_conv,
)
from .optim import dgc, dpsgd, optimizer, scaling, states
from .quant import fake_quantize, quantize
from .random import philox, random_crop
from .rnn import alignment, attention_lstm, cells, crf, gru, lstm, rnn, warpctc
from .sequence import beam_search, filter_by_instag, match_matrix_tensor, var_conv_2d
from .sequence import hash as sequence_hash
from .sequence import pool as sequence_pool
from .sequence import rows as sequence_rows
from .sequence import windows as sequence_windows
from .shape import creation, indexing, joins, layout, memory, ranges
from .units import Unit

# Families with kernels for float16 and bfloat16, or that only move elements.
_NATIVE = (
    formula,
    binary,
    elementwise_grad,
    reduction,
    matmul,
    addmm,
    dot,
    batch_norm,
    conv,
    pooling,
    layout,
    joins,
    indexing,
    softmax,
    embedding,
    layer_norm,
    philox,
    rings,
    scaling,
    sequence_rows,
)
_FAMILIES = (
    *_NATIVE,
    elementwise,
    products,
    bilateral_slice,
    boxes,
    compositions,
    creation,
    cross_entropy,
    elements,
    fake_quantize,
    features,
    metrics,
    norms,
    order,
    ranges,
    second,
    regression,
    resize,
    rois,
    instance_norm,
    optimizer,
    states,
    sequence_pool,
    sequence_windows,
    fused_sequences,
    crf,
    gru,
    lstm,
    rnn,
    warpctc,
    alignment,
    attention_lstm,
    beam_search,
    correlation,
    data_norm,
    deform,
    deformable_conv,
    dgc,
    dpsgd,
    filter_by_instag,
    fpn,
    hierarchical_sigmoid,
    match_matrix_tensor,
    matching,
    memory,
    nce,
    nms,
    precise,
    psroi,
    quads,
    quantize,
    random_crop,
    rank_attention,
    retinanet_detection_output,
    sample_logits,
    sequence_hash,
    similarity_focus,
    tdm,
    tree_conv,
    var_conv_2d,
    yolo,
)

#: operators without recipes: collectives, and results whose size or LoD depends on values
_UNRECORDED = frozenset(rings.LAUNCHERS)

_ROWS = {op["type"]: op for op in _core.op_table()}


def _empty(call: Call, is_gradient: bool) -> dict | None:
    """The results where none has elements, and the zeros that are the gradients of empty outputs; None otherwise."""
    wanted = [slot for slot, is_wanted in call.wanted.items() if is_wanted]
    lists = {s["name"] for s in _ROWS[call.op]["outputs"] if s["duplicable"]}
    if not wanted or any(slot in lists or slot not in call._rule or -1 in call._rule[slot][0] for slot in wanted):
        return None
    if all(0 in call._rule[slot][0] for slot in wanted):
        return {slot: call.out(slot) for slot in wanted if slot not in call._old}
    given = [value for slot, value in call.ins.items() if slot.endswith("@GRAD") and value is not None]
    if not is_gradient or not given or any(isinstance(v, list | Rows) or v.size for v in given):
        return None
    if not all(slot.endswith("@GRAD") for slot in wanted):
        return None
    return {slot: strided.full(call, *_shape_and_dtype(call, slot)) for slot in wanted}


def _shape_and_dtype(call: Call, slot: str) -> tuple:
    shape, dtype = call._rule[slot]
    return shape, NUMPY_NAMES.get(dtype, dtype)


def _lacks_elements(call: Call) -> bool:
    """Whether an operand has no elements."""
    given = (v for value in call.ins.values() for v in (value if isinstance(value, list) else [value]))
    return any(v is not None and (v.value if isinstance(v, Rows) else v).size == 0 for v in given)


def _with_empties(op: str, launch: Callable[[Call], dict]) -> Callable[[Call], dict]:
    """A launcher that also takes operands without elements, which `launch` may decline or be unable to reshape."""
    is_gradient = _ROWS[op]["is_gradient"]

    def run(call: Call) -> dict:
        try:
            return launch(call)
        except (Declined, ValueError, ZeroDivisionError) as e:
            if not isinstance(e, Declined) and not _lacks_elements(call):
                raise
            made = _empty(call, is_gradient)
            if made is None:
                raise Declined from e
            call.launched = None  # zeros are no launch: no recipe
            return made

    return run


# Operator type -> its launcher.
LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    op: _with_empties(op, halves.through_float32(arrays.through_launches(launch), family in _NATIVE))
    for family in _FAMILIES
    for op, launch in family.LAUNCHERS.items()
}

# Operator type -> the module of its launcher.
FAMILY = {op: family.__name__.split("._cuda.")[1] for family in _FAMILIES for op in family.LAUNCHERS}
RECORDED = frozenset(set(LAUNCHERS) - _UNRECORDED)


def takes(op: str) -> list[str]:
    """The data types that an operator's launcher takes: those of the operator's row without DECLINED_TYPES."""
    return [t for t in _ROWS[op]["dtypes"] if t not in DECLINED_TYPES.get(op, ())]


def units() -> list[Unit]:
    """All units of CUDA source that launchers may compile."""
    found = [
        formula.all_rows(),
        conversion.UNIT,
        rows.UNIT,
        sticky.UNIT,
        maps.UNIT,
        ordering.UNIT,
        strided.UNIT,
        cells.UNIT,
        patches.UNIT,
        channels.UNIT,
        bins.UNIT,
        arrays.UNIT,
        *(f.UNIT for f in _FAMILIES if hasattr(f, "UNIT")),
    ]
    return list({unit.name: unit for unit in found}.values())
