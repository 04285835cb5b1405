"""bilateral_slice."""

import itertools

import numpy as np
from case import case, real, table


def slices(x, grid, guide, has_offset=False):
    n, c, h, w = x.shape
    each = c + has_offset
    depth, rows, cols = grid.shape[2:]
    out = np.zeros((n, grid.shape[1] // each, h, w))
    for b, i, j in itertools.product(range(n), range(h), range(w)):
        gx, gy, gz = (j + 0.5) * cols / w, (i + 0.5) * rows / h, guide[b, i, j] * depth
        numbers = np.zeros(grid.shape[1])
        for dx, dy, dz in itertools.product((0, 1), repeat=3):
            fx, fy, fz = np.floor(gx - 0.5) + dx, np.floor(gy - 0.5) + dy, np.floor(gz - 0.5) + dz
            weight = max(1 - abs(fx + 0.5 - gx), 0) * max(1 - abs(fy + 0.5 - gy), 0)
            weight *= max(1 - np.sqrt((fz + 0.5 - gz) ** 2 + 1e-8), 0)
            at = [int(min(max(f, 0), size - 1)) for f, size in ((fz, depth), (fy, rows), (fx, cols))]
            numbers += weight * grid[(b, slice(None), *at)]
        pixel = np.append(x[b, :, i, j], [1.0] * has_offset)
        out[b, :, i, j] = numbers.reshape(-1, each) @ pixel
    return out


GUIDE = real(2, 5, 4, low=0.03, high=0.97)
test_bilateral_slice = table(
    case(
        "bilateral_slice",
        [real(2, 3, 5, 4), real(2, 12, 3, 2, 3), GUIDE],
        {"has_offset": True},
        slices,
        grad="X Grid Guide",
        dtypes="float32",
        tol=1e-4,
    ),
    case("bilateral_slice", [real(2, 3, 5, 4), real(2, 6, 3, 4, 2), GUIDE], {}, slices, grad="X Grid Guide", tol=1e-6),
    case("bilateral_slice", [real(2, 3, 5, 4), real(2, 7, 3, 4, 2), GUIDE], {}, raises=ValueError, match="multiple"),
    case("bilateral_slice", [real(2, 3, 5, 4), real(1, 6, 3, 4, 2), GUIDE], {}, raises=ValueError, match="do not fit"),
    case("bilateral_slice", [real(2, 3, 5), real(2, 6, 3, 4, 2), GUIDE], {}, raises=NotImplementedError, match="4 dim"),
    case(
        "bilateral_slice",
        [real(2, 3, 5, 4), real(2, 6, 0, 4, 2), GUIDE],
        {},
        raises=ValueError,
        match="must have elements",
    ),
)
