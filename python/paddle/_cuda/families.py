"""The launchers of all families, by operator type."""

from __future__ import annotations

from collections.abc import Callable

import paddle._core as _core

from . import formula, halves, maps, rows, sticky
from .call import Call
from .comm import rings
from .detection import boxes, rois
from .fused import compositions
from .loss import cross_entropy, elements, metrics, regression
from .math import elementwise, matmul, norms, order, products, reduction, second
from .nn import (
    batch_norm,
    conv,
    embedding,
    features,
    instance_norm,
    layer_norm,
    patches,
    pooling,
    resize,
    softmax,
)
from .optim import optimizer, scaling, states
from .quant import fake_quantize
from .random import philox
from .rnn import cells, crf, gru, lstm, rnn, warpctc
from .sequence import pool as sequence_pool
from .sequence import rows as sequence_rows
from .sequence import windows as sequence_windows
from .shape import creation, indexing, joins, layout, ranges
from .units import Unit

# Families with kernels for float16 and bfloat16, or that only move elements.
_NATIVE = (formula, reduction, layout, joins, indexing, softmax, embedding, philox, rings, scaling, sequence_rows)
_FAMILIES = (
    *_NATIVE,
    elementwise,
    matmul,
    products,
    batch_norm,
    boxes,
    compositions,
    conv,
    creation,
    cross_entropy,
    elements,
    fake_quantize,
    features,
    metrics,
    norms,
    order,
    pooling,
    ranges,
    second,
    regression,
    resize,
    rois,
    layer_norm,
    instance_norm,
    optimizer,
    states,
    sequence_pool,
    sequence_windows,
    crf,
    gru,
    lstm,
    rnn,
    warpctc,
)

_ROWS = {op["type"]: op for op in _core.op_table()}

# Operator type -> its launcher.
LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    op: halves.through_float32(launch, family in _NATIVE)
    for family in _FAMILIES
    for op, launch in family.LAUNCHERS.items()
}

# Operator type -> the module of its launcher.
FAMILY = {op: family.__name__.split("._cuda.")[1] for family in _FAMILIES for op in family.LAUNCHERS}
_HALVES = ("float16", "bfloat16")


def takes(op: str) -> tuple[str, ...]:
    """The floating-point types that an operator's launcher takes: those of the operator's row."""
    row = _ROWS[op]["dtypes"]
    return tuple(t for t in (*_HALVES, "float32", "float64") if t in row)


def units() -> list[Unit]:
    """All units of CUDA source that launchers may compile."""
    found = [
        formula.all_rows(),
        halves.UNIT,
        rows.UNIT,
        sticky.UNIT,
        maps.UNIT,
        cells.UNIT,
        patches.UNIT,
        *(f.UNIT for f in _FAMILIES if hasattr(f, "UNIT")),
    ]
    return list({unit.name: unit for unit in found}.values())
