"""Comparison and logical operators."""

import numpy as np
from case import bools, case, ints, real, table

A, B = ints(3, 4, low=0, high=4), ints(3, 4, low=0, high=4, seed=1)
ALL = "float16 float32 float64 int32"
NEAR = np.array([1.0, 2.0, np.inf, np.nan, 1e-9])


def operator(name, f):
    """The common cases of a comparison."""

    def g(x, y, axis=-1):
        return f(x, y.reshape(y.shape + (1,) * (x.ndim - axis - y.ndim)) if axis != -1 else y)

    return [
        case(name, [A, B], expected=g, dtypes=ALL),
        case(name, [A, B[0]], expected=g),
        case(name, [A[:, :1], B[0]], expected=g),
        case(name, [A, B[:, 0]], {"axis": 0}, g),
        case(name, [ints(0, 4), ints(4)], expected=g),
        case(name, [np.array([3]), np.array([3])], expected=g),
    ]


test_compare = table(
    *operator("equal", np.equal),
    *operator("not_equal", np.not_equal),
    *operator("less_than", np.less),
    *operator("less_equal", np.less_equal),
    *operator("greater_than", np.greater),
    *operator("greater_equal", np.greater_equal),
    # Floating-point numbers within 1e-8 are equal.
    case("equal", [NEAR, np.array([1 + 1e-9, 2.1, np.inf, np.nan, 0.0])], expected=np.array([1, 0, 1, 0, 1], bool)),
    case("not_equal", [NEAR, NEAR], expected=np.array([0, 0, 0, 1, 0], bool)),
    case("less_than", [real(5, 2), real(5, 2)], expected=np.less, lod={"X": [[0, 2, 5]]}, out_lod={"Out": [[0, 2, 5]]}),
    case("equal", [bools(4), bools(4, seed=1)], expected=np.equal),
    case("equal", [A, real(3, 4)], raises=ValueError, match="data types"),
    case("equal", [A, ints(5)], raises=ValueError),
)

test_logical = table(
    *(
        case(name, [x, y], expected=f)
        for name, f in [("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor)]
        for x, y in [(bools(3, 4), bools(3, 4, seed=1)), (bools(2, 3, 4), bools(4)), (bools(0), bools(1))]
    ),
    case("logical_not", [bools(3, 4)], expected=np.logical_not),
    case("logical_not", [bools(0)], expected=np.logical_not),
    case("logical_and", [A, B], raises=NotImplementedError),
)
