"""scale, sum, cast, assign."""

import numpy as np
from case import Rows, case, ints, real, table

F32, F64, I64, BOOL = 5, 6, 3, 0


def scale(x, *tensor, scale=1.0, bias=0.0, bias_after_scale=True):
    scale = tensor[0][0] if tensor else scale
    out = scale * x + bias if bias_after_scale else scale * (x + bias)
    return out.astype(x.dtype)


def total(xs, **_):
    return sum(xs[1:], xs[0])


test_scale_sum_cast = table(
    case("scale", [real(3, 4)], {"scale": 2.5, "bias": -1.0}, scale, grad="X", second=True, dtypes="float16 float32"),
    case("scale", [real(3, 4)], {"scale": 2.5, "bias": -1.0, "bias_after_scale": False}, scale, grad="X"),
    case("scale", [real(3, 4), real(1)], {"bias": 1.0}, scale, grad="X"),
    case("scale", [ints(5)], {"scale": 3.0, "bias": 2.0}, scale, dtypes="int32"),
    case("scale", [np.uint8([1, 2, 3])], {"scale": -1.0, "bias": 2.0}, np.uint8([1, 0, 255])),
    case("scale", [np.int8([1, 2, 3])], {"scale": 300.0}, np.int8([44, 88, -124])),
    case("scale", [real(0, 4)], {"scale": 2.0}, scale, grad="X"),
    case("scale", [Rows([2, 0], 4, real(2, 3))], {"scale": 2.0}, {"Out": Rows([2, 0], 4, 2 * real(2, 3)).dense()}),
    case(
        "sum",
        [[real(2, 3), real(2, 3, seed=1), real(2, 3, seed=2)]],
        expected=total,
        grad="X",
        second=True,
        dtypes="float16 float32",
    ),
    case("sum", [[real(2, 3)]], expected=total, grad="X"),
    case("sum", [[ints(4), ints(4, seed=1)]], expected=total, dtypes="int32"),
    case("sum", [[real(2, 3), real(3, 2)]], raises=ValueError),
    case("cast", [real(2, 3) * 3], {"in_dtype": F64, "out_dtype": I64}, lambda x, **_: x.astype("int64")),
    case("cast", [real(2, 3)], {"in_dtype": F64, "out_dtype": F32}, lambda x, **_: x, out_dtype="float32"),
    case("cast", [real(2, 3)], {"in_dtype": F64, "out_dtype": F64}, lambda x, **_: x, grad="X", second=True),
    case("cast", [ints(2, 3)], {"in_dtype": I64, "out_dtype": BOOL}, lambda x, **_: x != 0),
    case("cast", [real(2)], {"in_dtype": F64, "out_dtype": 77}, raises=ValueError),
    case("assign", [real(2, 3)], expected=lambda x: x, grad="X", second=True, dtypes="float32 int64"),
    case("assign", [real(5, 3)], expected=lambda x: x, lod={"X": [[0, 5]]}, out_lod={"Out": [[0, 5]]}),
)
