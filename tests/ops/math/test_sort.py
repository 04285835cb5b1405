"""cumsum, arg_max, arg_min, argsort, top_k, top_k_v2; accuracy."""

import numpy as np
from case import apart, case, ints, real, table

X = apart(2, 5, 3)
NUMBERS = "float16 float32 int32 int64"
TIES = np.array([[3, 1, 3, 2], [0, 0, 0, 0]])


def cumsum(x, axis=-1, flatten=False, exclusive=False, reverse=False):
    if flatten:
        x, axis = x.reshape(-1), 0
    y = np.flip(x, axis) if reverse else x
    out = np.cumsum(y, axis, dtype=x.dtype)
    out = out - y if exclusive else out
    return np.flip(out, axis) if reverse else out


def arg(f):
    def g(x, axis, keepdims=False, flatten=False, dtype=3):
        out = f(x.reshape(-1), 0) if flatten else f(x, axis)
        out = np.expand_dims(out, axis) if keepdims and not flatten else out
        return np.atleast_1d(out).astype("int32" if dtype == 2 else "int64")

    return g


def argsort(x, axis=-1, descending=False):
    key = -x if descending else x
    at = np.argsort(key, axis, kind="stable")
    return np.take_along_axis(x, at, axis), at


def top_k(x, *tensor, k=1, axis=-1, largest=True, sorted=True):
    k = int(tensor[0][0]) if tensor else k
    values, at = argsort(x, axis, largest)
    cut = tuple(slice(k) if i == axis % x.ndim else slice(None) for i in range(x.ndim))
    return values[cut], at[cut]


test_cumsum = table(
    case("cumsum", [X], expected=cumsum, grad="X", second=True, dtypes=NUMBERS, tol=1e-3),
    case("cumsum", [X], {"axis": 1}, cumsum, grad="X", second=True),
    case("cumsum", [X], {"axis": -3, "exclusive": True}, cumsum, grad="X", second=True),
    case("cumsum", [X], {"axis": 0, "reverse": True}, cumsum, grad="X"),
    case("cumsum", [X], {"exclusive": True, "reverse": True}, cumsum, grad="X"),
    case("cumsum", [X], {"flatten": True}, cumsum, grad="X"),
    case("cumsum", [real(0, 3)], expected=cumsum, grad="X"),
    case("cumsum", [X], {"axis": 3}, raises=IndexError),
)

test_arg = table(
    *(
        case(name, [x], attrs, arg(f), dtypes=NUMBERS)
        for name, f in [("arg_max", np.argmax), ("arg_min", np.argmin)]
        for x, attrs in [
            (X, {"axis": -1}),
            (X, {"axis": 1, "keepdims": True}),
            (X, {"axis": 0, "dtype": 2}),
            (X, {"axis": 0, "flatten": True}),
            (TIES, {"axis": 1}),
            (TIES[0], {"axis": 0}),
        ]
    ),
    case("arg_max", [X], {"axis": 3}, raises=ValueError),
    case("arg_max", [X], {"axis": 0, "dtype": 5}, raises=ValueError, match="dtype"),
    case("arg_max", [real(0, 3)], {"axis": 0}, raises=ValueError),
    case("arg_max", [real(0, 3)], {"axis": 1}, arg(np.argmax)),
)

test_argsort = table(
    case("argsort", [X], expected=argsort, grad="X", dtypes=NUMBERS),
    case("argsort", [X], {"axis": 1, "descending": True}, argsort, grad="X"),
    case("argsort", [X], {"axis": 0}, argsort, grad="X"),
    case("argsort", [TIES], {"descending": True}, argsort),
    case("argsort", [real(0, 3)], {"axis": 0}, argsort, grad="X"),
    case("argsort", [real(4, 1)], {"axis": 0}, argsort, lod={"X": [[0, 4]]}, out_lod={"Out": [[0, 4]]}),
    case("argsort", [X], {"axis": -4}, raises=ValueError),
)

test_top_k = table(
    case("top_k", [X], {"k": 2}, top_k, grad="X", dtypes=NUMBERS),
    case("top_k", [apart(6)], {"k": 6}, top_k, grad="X"),
    case("top_k", [X, np.array([3], "int32")], {"k": 1}, top_k, grad="X"),
    case("top_k", [X], {"k": 4}, raises=ValueError, match="at least 4"),
    case("top_k", [X], {"k": 0}, raises=ValueError),
    case("top_k_v2", [X], {"k": 2, "axis": 1}, top_k, grad="X", dtypes=NUMBERS),
    case("top_k_v2", [X], {"k": 1, "axis": 0, "largest": False}, top_k, grad="X"),
    case("top_k_v2", [X, np.array([2])], {"axis": -2}, top_k, grad="X"),
    case("top_k_v2", [TIES], {"k": 3, "sorted": False}, top_k),
    case("top_k_v2", [real(0, 3)], {"k": 2}, top_k, grad="X"),
    case("top_k_v2", [X], {"k": 6, "axis": 1}, raises=ValueError),
    case("top_k_v2", [X], {"axis": 3}, raises=ValueError),
)

INDICES = np.array([[0, 2], [1, 0], [2, 1]])
VALUES = real(3, 2, dtype="float32")


def score(correct, total):
    return np.array([correct / total], "float32"), np.array([correct], "int32"), np.array([total], "int32")


test_accuracy = table(
    case("accuracy", [VALUES, INDICES, np.array([[2], [2], [1]])], expected=score(2, 3)),
    case("accuracy", [VALUES, INDICES, np.array([[0], [1], [2]], "int32")], expected=score(3, 3)),
    case(
        "accuracy",
        [VALUES[:0], INDICES[:0], INDICES[:0, :1]],
        expected=(np.zeros(1, "float32"), np.zeros(1, "int32"), np.zeros(1, "int32")),
    ),
    case("accuracy", [VALUES, INDICES, np.array([[2], [-1], [1]])], raises=ValueError, match="negative"),
    case("accuracy", [VALUES, INDICES, ints(3)], raises=ValueError, match="two dimensions"),
    case("accuracy", [VALUES, INDICES, np.array([[2], [1]])], raises=ValueError),
)
