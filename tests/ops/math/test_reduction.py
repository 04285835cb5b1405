"""Reductions over axes, mean."""

import numpy as np
from case import apart, bools, case, ints, real, table

F32, F64, I64 = 5, 6, 3
SOME = "float16 float32"
X = real(2, 3, 4)


def over(f):
    def g(x, dim=(0,), keep_dim=False, reduce_all=False, in_dtype=-1, out_dtype=-1):
        axis = tuple(range(x.ndim)) if reduce_all else tuple(d % x.ndim for d in dim)
        out = f(x, axis=tuple(sorted(set(axis))), keepdims=keep_dim)
        return np.asarray(out).astype(x.dtype).reshape(out.shape or (1,))

    return g


def shapes(name, f, x, **more):
    """The common cases of a reduction."""
    g = over(f)
    return [
        case(name, [x], {"dim": [1]}, g, dtypes="" if x.dtype == bool else SOME, **more),
        case(name, [x], {}, g, **more),
        case(name, [x], {"dim": [0, -1]}, g, **more),
        case(name, [x], {"dim": [-2], "keep_dim": True}, g, **more),
        case(name, [x], {"reduce_all": True}, g, **more),
        case(name, [x], {"reduce_all": True, "keep_dim": True}, g, **more),
        case(name, [x], {"dim": [0, 1, 2]}, g, **more),
        case(name, [x[0, 0]], {"dim": [0]}, g, **more),
        case(name, [x], {"dim": [3]}, raises=ValueError),
        case(name, [x], {"dim": []}, raises=ValueError),
    ]


WITH_ZEROS = np.array([[1.0, 0.0, 3.0], [2.0, 5.0, 4.0], [0.0, 0.0, 2.0]])

test_reduction = table(
    *shapes("reduce_sum", np.sum, X, grad="X", second=True),
    *shapes("reduce_mean", np.mean, X, grad="X", second=True),
    *shapes("reduce_prod", np.prod, X, grad="X"),
    *shapes("reduce_max", np.max, apart(2, 3, 4), grad="X"),
    *shapes("reduce_min", np.min, apart(2, 3, 4), grad="X"),
    *shapes("reduce_all", np.all, bools(2, 3, 4)),
    *shapes("reduce_any", np.any, bools(2, 3, 4)),
    case("reduce_sum", [ints(3, 4)], {"dim": [1]}, over(np.sum), dtypes="int32"),
    case("reduce_max", [ints(3, 4)], {"dim": [1]}, over(np.max), dtypes="int32"),
    case("reduce_prod", [ints(3, 4)], {"dim": [1]}, over(np.prod), dtypes="int32"),
    case(
        "reduce_sum",
        [ints(3, 4)],
        {"dim": [1], "in_dtype": I64, "out_dtype": F32},
        lambda x, **_: x.sum(1).astype("float32"),
        out_dtype="float32",
    ),
    case("reduce_sum", [bools(3, 4)], {"dim": [1], "in_dtype": 0, "out_dtype": I64}, lambda x, **_: x.sum(1)),
    case("reduce_sum", [X], {"dim": [1], "in_dtype": F64, "out_dtype": F64}, lambda x, **_: x.sum(1), grad="X"),
    case("reduce_sum", [real(0, 3)], {"dim": [0]}, over(np.sum), grad="X"),
    case("reduce_sum", [real(0, 3)], {"dim": [1]}, over(np.sum), grad="X"),
    case("reduce_prod", [real(0, 3)], {"dim": [0]}, over(np.prod), grad="X"),
    case("reduce_mean", [real(2, 0)], {"dim": [0]}, over(np.mean), grad="X"),
    case("reduce_all", [bools(0, 3)], {"dim": [0]}, over(np.all)),
    case("reduce_prod", [WITH_ZEROS], {"dim": [1]}, over(np.prod), grad="X"),
    case("reduce_prod", [WITH_ZEROS], {"reduce_all": True}, over(np.prod), grad="X"),
    case("reduce_sum", [real(1, 2, 1, 2, 1, 2, 3)], {"dim": [1, 6]}, over(np.sum), grad="X"),
    case("reduce_sum", [real(5, 3)], {"dim": [1]}, over(np.sum), lod={"X": [[0, 5]]}, out_lod={"Out": [[0, 5]]}),
    case("reduce_sum", [real(5, 3)], {"dim": [0]}, over(np.sum), lod={"X": [[0, 5]]}, out_lod={"Out": []}),
    case("reduce_sum", [X], {"out_dtype": 99}, raises=ValueError),
    case("reduce_mean", [ints(3)], raises=NotImplementedError),
    case("mean", [X], expected=lambda x: x.mean().reshape(1), grad="X", dtypes=SOME),
    case("mean", [real(5)], expected=lambda x: x.mean().reshape(1), grad="X"),
    case("mean", [ints(5)], raises=NotImplementedError),
)
