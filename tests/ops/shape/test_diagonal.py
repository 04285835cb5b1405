"""Diagonals and triangles: diag, diag_v2, diag_embed, trace, eye, tril_triu."""

import numpy as np
from case import bools, case, complexes, ints, real, table

V = real(4)
M = real(3, 5)
X = real(2, 3, 4)


def diag_v2(x, offset=0, padding_value=0.0):
    if x.ndim == 2:
        return np.diag(x, offset)
    out = np.diag(x, offset)
    return np.where(np.diag(np.ones(len(x)), offset) == 1, out, np.float64(np.float32(padding_value)))


test_diag = table(
    case("diag", [V], {}, np.diag, dtypes="float32"),
    case("diag", [ints(3)], {}, np.diag),
    case("diag", [M], {}, raises=ValueError),
    case("diag_v2", [V], {}, diag_v2, dtypes="float32"),
    case("diag_v2", [V], {"offset": 2, "padding_value": 1.5}, diag_v2),
    case("diag_v2", [V], {"offset": -1}, diag_v2),
    case("diag_v2", [ints(3)], {"padding_value": 7.0}, lambda x, padding_value: diag_v2(x, 0, 7).astype("int64")),
    case("diag_v2", [M], {}, diag_v2),
    case("diag_v2", [M], {"offset": 3}, diag_v2),
    case("diag_v2", [M], {"offset": -2}, diag_v2),
    case("diag_v2", [M], {"offset": 5}, np.zeros(0)),
    case("diag_v2", [M], {"offset": -7}, np.zeros(0)),
    case("diag_v2", [X], {}, raises=ValueError),
    case("diag_v2", [V], {"offset": 2**31 - 1}, raises=MemoryError),
)


def embedded(x, offset=0, dim1=-2, dim2=-1):
    n = x.shape[-1] + abs(offset)
    out = np.zeros((*x.shape[:-1], n, n), x.dtype)
    k = np.arange(x.shape[-1])
    out[..., k - min(offset, 0), k + max(offset, 0)] = x
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


test_diag_embed = table(
    case("diag_embed", [X], {}, embedded, dtypes="float32"),
    case("diag_embed", [X], {"offset": 1, "dim1": 0, "dim2": 2}, embedded),
    case("diag_embed", [X], {"offset": -2, "dim1": 3, "dim2": 1}, embedded),
    case("diag_embed", [V], {"offset": -1}, embedded),
    case("diag_embed", [ints(2, 3)], {"dim1": 1, "dim2": 0}, embedded),
    case("diag_embed", [X], {"dim1": 1, "dim2": 1}, raises=ValueError),
    case("diag_embed", [X], {"dim1": 4}, raises=IndexError),
    case("diag_embed", [X], {"dim2": -5}, raises=IndexError),
)


def traced(x, offset=0, axis1=0, axis2=1):
    axis1, axis2 = sorted((axis1 % x.ndim, axis2 % x.ndim))
    return np.trace(x, offset, axis1, axis2).reshape(-1) if x.ndim == 2 else np.trace(x, offset, axis1, axis2)


test_trace = table(
    case("trace", [M], {}, traced, grad="Input", dtypes="float32"),
    case("trace", [X], {"offset": 1, "axis1": 0, "axis2": 2}, traced, grad="Input"),
    case("trace", [X], {"offset": -1, "axis1": -1, "axis2": 1}, traced, grad="Input"),
    case("trace", [real(2, 3, 4, 5)], {"offset": 2, "axis1": 3, "axis2": 1}, traced, grad="Input"),
    case("trace", [ints(3, 3)], {}, traced),
    case("trace", [complexes(2, 3, 3)], {"axis1": 2, "axis2": 1}, traced, grad="Input"),
    case("trace", [complexes(3, 3)], {}, traced, grad="Input"),
    case("trace", [M], {"offset": 9}, np.zeros(1), grad="Input"),
    case("trace", [V], {}, raises=IndexError),
    case("trace", [X], {"axis1": 3}, raises=IndexError),
    case("trace", [X], {"axis1": -2}, raises=ValueError),
)

test_eye = table(
    case("eye", [], {"num_rows": 3}, np.eye(3, dtype="float32"), out_dtype="float32"),
    case("eye", [], {"num_rows": 2, "num_columns": 4, "dtype": 6}, np.eye(2, 4), out_dtype="float64"),
    case("eye", [], {"num_rows": 3, "num_columns": 2, "dtype": 3}, np.eye(3, 2, dtype="int64")),
    case("eye", [], {"num_rows": 0, "dtype": 2}, np.zeros((0, 0), "int32")),
    case("eye", [], {"num_rows": -1}, raises=ValueError),
    case("eye", [], {"num_rows": 2, "num_columns": -2}, raises=ValueError),
    case("eye", [], {"num_rows": 1 << 40}, raises=MemoryError),
)

LOWER, UPPER = {"lower": True}, {"lower": False}

test_tril_triu = table(
    case("tril_triu", [M], LOWER, lambda x, lower: np.tril(x), grad="X", dtypes="float32 float16"),
    case("tril_triu", [M], UPPER, lambda x, lower: np.triu(x), grad="X"),
    case("tril_triu", [X], {**LOWER, "diagonal": 1}, lambda x, lower, diagonal: np.tril(x, 1), grad="X"),
    case("tril_triu", [X], {**LOWER, "diagonal": -2}, lambda x, lower, diagonal: np.tril(x, -2), grad="X"),
    case("tril_triu", [X], {**UPPER, "diagonal": 2}, lambda x, lower, diagonal: np.triu(x, 2), grad="X"),
    case("tril_triu", [X], {**UPPER, "diagonal": -9}, lambda x, lower, diagonal: x, grad="X"),
    case("tril_triu", [ints(3, 3)], UPPER, lambda x, lower: np.triu(x)),
    case("tril_triu", [bools(3, 3)], LOWER, lambda x, lower: np.tril(x)),
    case("tril_triu", [complexes(3, 3)], LOWER, lambda x, lower: np.tril(x)),
    case("tril_triu", [real(0, 3)], LOWER, lambda x, lower: x),
    case("tril_triu", [real(500, 70)], LOWER, lambda x, lower: np.tril(x)),
    case("tril_triu", [V], LOWER, raises=ValueError),
)
