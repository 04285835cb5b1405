"""similarity_focus: marks the largest elements of matrices, at most one per row and column; a thread per matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..call import Call, Declined, ctype
from ..units import REALS, Unit, grid_of, instances

SOURCE = r"""
// order[m] has the elements of matrix m from the largest on; `rows` and `columns` are zeros.
template <typename T> __global__ void choose_free(const i64* order, unsigned char* rows, unsigned char* columns,
                                                  T* chosen, i64 matrices, i64 height, i64 width) {
    for (i64 m = blockIdx.x * (i64)blockDim.x + threadIdx.x; m < matrices; m += (i64)gridDim.x * blockDim.x)
        for (i64 k = 0; k < height * width; k++) {
            i64 at = order[m * height * width + k];
            unsigned char *row = rows + m * height + at / width, *column = columns + m * width + at % width;
            if (*row || *column) continue;
            *row = *column = 1;
            chosen[m * height * width + at] = T(1);
        }
}
"""
UNIT = Unit("similarity_focus", SOURCE, instances("choose_free", REALS))


def _focus(call: Call) -> dict:
    (x,), xp, axis = call.floats("X"), call.xp, call.attrs["axis"]
    if x.size == 0:
        raise Declined
    picked = xp.stack([xp.take(x, i, axis=axis) for i in call.attrs["indexes"]], 1)
    n, k, height, width = picked.shape
    order = xp.argsort(-picked.reshape(n * k, -1), axis=1, kind="stable").astype("int64")
    rows, columns = xp.zeros((n * k, height), "uint8"), xp.zeros((n * k, width), "uint8")
    chosen = xp.zeros((n, k, height, width), x.dtype)
    numbers = map(np.int64, (n * k, height, width))
    kernel = f"choose_free<{ctype(x, REALS)}>"
    call.launch(UNIT, kernel, grid_of(n * k, 32), 32, order, rows, columns, chosen, *numbers)
    marks = xp.expand_dims(chosen.max(axis=1), axis)
    return {"Out": xp.ascontiguousarray(xp.broadcast_to(marks, x.shape))}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"similarity_focus": _focus}
