"""Matrix products."""

import numpy as np
from case import case, ints, real, table

SOME = "float16 float32"


def v2(x, y, trans_x=False, trans_y=False):
    x = np.swapaxes(x, -1, -2) if trans_x and x.ndim > 1 else x
    y = np.swapaxes(y, -1, -2) if trans_y and y.ndim > 1 else y
    return np.atleast_1d(np.matmul(x, y))


def v1(x, y, transpose_X=False, transpose_Y=False, alpha=1.0):
    return alpha * v2(x, y, transpose_X, transpose_Y)


def mul(x, y, x_num_col_dims=1, y_num_col_dims=1):
    rows, cols = x.shape[:x_num_col_dims], y.shape[y_num_col_dims:]
    k = int(np.prod(x.shape[x_num_col_dims:]))
    return (x.reshape(int(np.prod(rows)), k) @ y.reshape(k, int(np.prod(cols)))).reshape(rows + cols)


def turned(x, yes):
    return np.ascontiguousarray(np.swapaxes(x, -1, -2)) if yes else x


def transposes(op, x, y, names, f, **attrs):
    """The product with all combinations of transposes."""
    return [
        case(
            op,
            [turned(x, tx), turned(y, ty)],
            {names[0]: tx, names[1]: ty, **attrs},
            f,
            grad="X Y",
            second=True,
            dtypes=SOME,
        )
        for tx in (False, True)
        for ty in (False, True)
    ]


V2, V1 = ("trans_x", "trans_y"), ("transpose_X", "transpose_Y")

test_matmul_v2 = table(
    *transposes("matmul_v2", real(3, 4), real(4, 2), V2, v2),
    *transposes("matmul_v2", real(2, 3, 4), real(2, 4, 2), V2, v2),
    *transposes("matmul_v2", real(2, 3, 4), real(4, 2), V2, v2),
    *transposes("matmul_v2", real(3, 4), real(2, 4, 2), V2, v2),
    *transposes("matmul_v2", real(2, 1, 3, 4), real(3, 4, 2), V2, v2),
    *transposes("matmul_v2", real(2, 1, 2, 3), real(1, 3, 3, 2), V2, v2),
    case("matmul_v2", [real(4), real(4, seed=1)], expected=v2, grad="X Y", second=True),
    case("matmul_v2", [real(4), real(4, 3)], expected=v2, grad="X Y", second=True),
    case("matmul_v2", [real(3, 4), real(4)], expected=v2, grad="X Y", second=True),
    case("matmul_v2", [real(4), real(2, 4, 3)], expected=v2, grad="X Y"),
    case("matmul_v2", [real(4), real(2, 3, 4)], {"trans_y": True}, v2, grad="X Y"),
    case("matmul_v2", [real(2, 3, 4), real(4)], expected=v2, grad="X Y"),
    case("matmul_v2", [real(2, 4, 3), real(4)], {"trans_x": True}, v2, grad="X Y"),
    case("matmul_v2", [real(0, 4), real(4, 3)], expected=v2, grad="X Y"),
    case("matmul_v2", [real(3, 0), real(0, 2)], expected=v2, grad="X Y"),
    case("matmul_v2", [real(0, 3, 4), real(4, 2)], expected=v2, grad="X Y"),
    case("matmul_v2", [real(0, 4, 3), real(4, 2)], {"trans_x": True}, v2, grad="X Y"),
    case("matmul_v2", [real(70, 65), real(65, 66)], expected=v2, dtypes=SOME, tol=1e-4),
    case("matmul_v2", [ints(3, 4), ints(4, 2)], expected=v2, dtypes="int32"),
    case("matmul_v2", [real(5, 4), real(4, 2)], expected=v2, lod={"X": [[0, 2, 5]]}, out_lod={"Out": [[0, 2, 5]]}),
    case("matmul_v2", [real(3, 4), real(3, 4)], raises=ValueError, match="width of X"),
    case("matmul_v2", [real(2, 3, 4), real(3, 4, 2)], raises=ValueError),
    case("matmul_v2", [real(3, 4), ints(4, 2)], raises=ValueError, match="data type"),
)

test_matmul = table(
    *transposes("matmul", real(3, 4), real(4, 2), V1, v1, alpha=0.5),
    *transposes("matmul", real(2, 3, 4), real(2, 4, 2), V1, v1),
    *transposes("matmul", real(2, 3, 4), real(4, 2), V1, v1, alpha=2.0),
    *transposes("matmul", real(3, 4), real(2, 4, 2), V1, v1),
    *transposes("matmul", real(2, 3, 2, 4), real(2, 3, 4, 2), V1, v1),
    case("matmul", [real(4), real(4, seed=1)], {"alpha": 3.0}, v1, grad="X Y", second=True),
    case("matmul", [real(4), real(4, 3)], expected=v1, grad="X Y", second=True),
    case("matmul", [real(3, 4), real(4)], expected=v1, grad="X Y", second=True),
    case("matmul", [real(2, 3, 4), real(4)], expected=v1, grad="X Y"),
    # A transposed vector is a column; the product of a column and a row is a matrix.
    case(
        "matmul",
        [real(3), real(2, seed=1)],
        {"transpose_X": True, "transpose_Y": True},
        lambda x, y, **_: np.outer(x, y),
        grad="X Y",
    ),
    case("matmul", [real(2, 3, 4), real(3, 4, 2)], raises=ValueError),
    case("matmul", [real(2, 3), real(3, 2)], {"fused_reshape_X": [2, 3]}, raises=NotImplementedError),
)

test_mul = table(
    case("mul", [real(3, 4), real(4, 2)], expected=mul, grad="X Y", second=True, dtypes=SOME),
    case("mul", [real(2, 3, 4), real(12, 5)], expected=mul, grad="X Y", second=True),
    case("mul", [real(2, 3, 4), real(4, 5)], {"x_num_col_dims": 2}, mul, grad="X Y", second=True),
    case("mul", [real(2, 6), real(2, 3, 4)], {"y_num_col_dims": 2}, mul, grad="X Y", second=True),
    case("mul", [real(0, 4), real(4, 2)], expected=mul, grad="X Y"),
    case("mul", [real(5, 4), real(4, 2)], expected=mul, lod={"X": [[0, 2, 5]]}, out_lod={"Out": [[0, 2, 5]]}),
    case("mul", [real(2, 3), real(2, 3)], raises=ValueError),
    case("mul", [real(2, 3), real(3, 2)], {"x_num_col_dims": 2}, raises=ValueError, match="num_col_dims"),
    case("mul", [real(2, 3), real(3, 2)], {"x_num_col_dims": -1}, raises=ValueError, match="num_col_dims"),
)
