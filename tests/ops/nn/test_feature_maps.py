"""fsp, similarity_focus and correlation of feature maps, compared with numpy, gradients numerically."""

import numpy as np
from case import apart, case, real, table

FLOW = {"pad_size": 2, "kernel_size": 1, "max_displacement": 2, "stride1": 1, "stride2": 1}


def fsp(x, y):
    return np.einsum("bihw,bjhw->bij", x, y) / (x.shape[2] * x.shape[3])


def focus(x, axis, indexes):
    out = np.zeros_like(x)
    for b in range(len(x)):
        for index in indexes:
            matrix = x[b].take(index, axis - 1)
            left = np.ones(matrix.shape, bool)
            while left.any():
                i, j = np.unravel_index(np.argmax(np.where(left, matrix, -np.inf)), matrix.shape)
                left[i] = left[:, j] = False
                np.moveaxis(out[b], axis - 1, 0)[:, i, j] = 1
    return out


def correlation(x, y, pad_size, kernel_size, max_displacement, stride1, stride2, **_):
    k, far = (kernel_size - 1) // 2, max_displacement // stride2
    # a kernel extends beyond the padding by its radius, over zeros
    first, second = (np.pad(v, [(0, 0), (0, 0), *[(pad_size + k, pad_size + k)] * 2]) for v in (x, y))
    border = k + max_displacement
    rows, columns = (-(-(n + 2 * pad_size - 2 * border) // stride1) for n in x.shape[2:])
    out = np.zeros((len(x), (2 * far + 1) ** 2, rows, columns))
    for d, (dy, dx) in enumerate(np.ndindex(2 * far + 1, 2 * far + 1)):
        for i, j in np.ndindex(rows, columns):
            at = np.array([i, j]) * stride1 + max_displacement
            to = at + (np.array([dy, dx]) - far) * stride2
            a, b = (v[:, :, p[0] : p[0] + 2 * k + 1, p[1] : p[1] + 2 * k + 1] for v, p in ((first, at), (second, to)))
            out[:, d, i, j] = (a * b).sum((1, 2, 3)) / (kernel_size**2 * x.shape[1])
    return out


test_feature_maps = table(
    case("fsp", [real(2, 3, 4, 2), real(2, 2, 4, 2)], {}, fsp, grad="X Y", dtypes="float32"),
    case("fsp", [real(0, 3, 4, 2), real(0, 2, 4, 2)], {}, np.zeros((0, 3, 2)), grad="X Y"),
    case("fsp", [real(1, 3, 4, 2), real(1, 2, 2, 4)], raises=ValueError, match="Y"),
    case("similarity_focus", [apart(2, 3, 4, 5)], {"axis": 1, "indexes": [0, 2]}, focus, dtypes="float32"),
    case("similarity_focus", [apart(2, 3, 4, 5)], {"axis": 2, "indexes": [3]}, focus),
    case("similarity_focus", [apart(2, 3, 4, 5)], {"axis": 3, "indexes": [1, 1]}, focus),
    case("similarity_focus", [np.array([[[[np.nan, 1.0]]]])], {"axis": 1, "indexes": [0]}, np.array([[[[0.0, 1.0]]]])),
    case("similarity_focus", [apart(0, 3, 4, 5)], {"axis": 3, "indexes": [1]}, np.zeros((0, 3, 4, 5))),
    case("similarity_focus", [apart(1, 2, 2, 2)], {"axis": 0, "indexes": [0]}, raises=ValueError, match="axis"),
    case("similarity_focus", [apart(1, 2, 2, 2)], {"axis": 1, "indexes": [2]}, raises=ValueError, match="indexes"),
    case(
        "correlation",
        [real(2, 3, 4, 5), real(2, 3, 4, 5, seed=1)],
        FLOW,
        correlation,
        grad="Input1 Input2",
        dtypes="float32",
    ),
    case(
        "correlation",
        [real(1, 2, 5, 5), real(1, 2, 5, 5, seed=1)],
        {"pad_size": 3, "kernel_size": 3, "max_displacement": 2, "stride1": 2, "stride2": 2},
        correlation,
        grad="Input1 Input2",
    ),
    case("correlation", [real(0, 2, 5, 5), real(0, 2, 5, 5)], FLOW, np.zeros((0, 25, 5, 5)), grad="Input1 Input2"),
    case("correlation", [real(1, 2, 5, 5)] * 2, {**FLOW, "stride2": 0}, raises=ValueError, match="stride"),
    case(
        "correlation",
        [real(1, 2, 5, 5)] * 2,
        {**FLOW, "pad_size": 0, "max_displacement": 3},
        raises=ValueError,
        match="larger than 6",
    ),
    case(
        "correlation",
        [real(1, 2, 5, 5)] * 2,
        {**FLOW, "pad_size": 2**31 - 1},
        raises=MemoryError,
        match="exceed the limit",
    ),
)
