"""affine_grid and grid_sampler."""

import itertools

import numpy as np
from case import case, real, table


def places(n, corners):
    return np.linspace(-1, 1, n) if corners else (np.arange(n) * 2 + 1) / n - 1


def affine(theta, shape=None, output_shape=(), align_corners=True):
    _, _, h, w = output_shape or shape
    y, x = np.meshgrid(places(h, align_corners), places(w, align_corners), indexing="ij")
    return np.einsum("hwk,nck->nhwc", np.stack([x, y, np.ones_like(x)], -1), theta)


THETA = real(2, 2, 3)
test_affine_grid = table(
    case("affine_grid", [THETA], {"output_shape": [2, 3, 4, 5]}, affine, grad="Theta", dtypes="float32"),
    case("affine_grid", [THETA], {"output_shape": [2, 3, 4, 5], "align_corners": False}, affine, grad="Theta"),
    case("affine_grid", [THETA, np.int32([2, 3, 4, 5])], {}, affine, grad="Theta"),
    case("affine_grid", [THETA], {"output_shape": [2, 3, 1, 5]}, affine, grad="Theta"),
    case("affine_grid", [THETA], {"output_shape": [2, 3, 4]}, raises=ValueError, match="4 numbers"),
    case("affine_grid", [THETA], {"output_shape": [2, 3, 4, -1]}, raises=ValueError, match="negative"),
    case("affine_grid", [THETA], {}, raises=Exception, match="must be given"),
    case("affine_grid", [real(2, 3, 3)], {"output_shape": [2, 3, 4, 5]}, raises=ValueError, match="Theta"),
    case("affine_grid", [THETA], {"output_shape": [2, 3, 2**31 - 1, 2**31 - 1]}, raises=(MemoryError, ValueError)),
)


def mirror(at, low, high):
    if high == low:
        return 0.0
    t = (at - low) % (2 * (high - low))
    return low + min(t, 2 * (high - low) - t)


def sample(x, grid, align_corners=True, mode="bilinear", padding_mode="zeros"):
    n, c, h, w = x.shape
    out = np.zeros((n, c, *grid.shape[1:3]))
    for i, k, j in itertools.product(range(n), range(grid.shape[1]), range(grid.shape[2])):
        at = []
        for g, size in zip(grid[i, k, j], (w, h), strict=True):
            p = (g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2
            if padding_mode == "reflection":
                p = mirror(p, 0, size - 1) if align_corners else mirror(p, -0.5, size - 0.5)
            if padding_mode != "zeros":
                p = min(max(p, 0), size - 1)
            at.append(p)
        px, py = at
        if mode == "nearest":
            around = [(np.floor(px + 0.5), np.floor(py + 0.5), 1.0)]
        else:
            corners = [(np.floor(px) + a, np.floor(py) + b) for a in (0, 1) for b in (0, 1)]
            around = [(a, b, (1 - abs(a - px)) * (1 - abs(b - py))) for a, b in corners]
        for xx, yy, weight in around:
            if 0 <= xx < w and 0 <= yy < h:
                out[i, :, k, j] += weight * x[i, :, int(yy), int(xx)]
    return out


IMAGE, GRID = real(2, 3, 4, 5), real(2, 3, 6, 2, low=-1.9, high=1.9)
test_grid_sampler = table(
    *(
        case(
            "grid_sampler",
            [IMAGE, GRID],
            {"align_corners": corners, "mode": mode, "padding_mode": beyond},
            sample,
            grad="X Grid" if mode == "bilinear" else "X",
            dtypes="float32",
            tol=1e-4,
        )
        for corners in (True, False)
        for mode in ("bilinear", "nearest")
        for beyond in ("zeros", "border", "reflection")
    ),
    case("grid_sampler", [real(1, 2, 1, 1), GRID[:1]], {"padding_mode": "reflection"}, sample, grad="X"),
    case("grid_sampler", [real(2, 0, 4, 5), GRID], {}, sample, grad="X"),
    case("grid_sampler", [IMAGE, np.full((2, 1, 1, 2), np.nan)], {}, np.full((2, 3, 1, 1), np.nan)),
    case(
        "grid_sampler",
        [IMAGE, np.full((2, 1, 1, 2), 1e30)],
        {"padding_mode": "border"},
        lambda x, g, **_: x[:, :, -1:, -1:],
    ),
    case("grid_sampler", [IMAGE, real(2, 3, 6, 3)], {}, raises=ValueError, match="Grid"),
    case("grid_sampler", [IMAGE, real(1, 3, 6, 2)], {}, raises=ValueError, match="Grid"),
    case("grid_sampler", [real(2, 3, 4), GRID], {}, raises=ValueError, match="4 dimensions"),
    case("grid_sampler", [IMAGE, GRID], {"mode": "cubic"}, raises=ValueError, match="mode"),
    case("grid_sampler", [IMAGE, GRID], {"padding_mode": "some"}, raises=ValueError, match="padding_mode"),
    case("grid_sampler", [IMAGE, GRID.astype("float32")], {}, raises=ValueError, match="Grid"),
)
