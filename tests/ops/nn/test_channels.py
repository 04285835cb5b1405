"""Operators on image channels: shuffles, shifts, maxout, prelu, lrn, affine_channel; label_smooth, position
encoding."""

import numpy as np
from case import apart, case, ints, real, table

X = real(2, 8, 3, 4)


def pixels(x, upscale_factor=1, data_format="NCHW"):
    r = upscale_factor
    if data_format == "NHWC":
        x = np.moveaxis(x, 3, 1)
    n, c, h, w = x.shape
    out = np.zeros((n, c // r**2, h * r, w * r), x.dtype)
    for i in range(r):
        for j in range(r):
            out[:, :, i::r, j::r] = x[:, i * r + j :: r * r]
    return np.moveaxis(out, 1, 3) if data_format == "NHWC" else out


def shuffle(x, group=1):
    out = np.empty_like(x)
    per = x.shape[1] // group
    for c in range(x.shape[1]):
        out[:, c % per * group + c // per] = x[:, c]
    return out


def blocks(x, blocksize=2):
    n, c, h, w = x.shape
    b, out_c = blocksize, c // blocksize**2
    out = np.zeros((n, out_c, h * b, w * b), x.dtype)
    for k in range(c):
        out[:, k % out_c, k // out_c // b :: b, k // out_c % b :: b] = x[:, k]
    return out.reshape(n, c * b * b, h // b, w // b)


test_shuffles = table(
    case("pixel_shuffle", [X], {"upscale_factor": 2}, pixels, grad="X", dtypes="float32"),
    case("pixel_shuffle", [real(2, 3, 4, 9)], {"upscale_factor": 3, "data_format": "NHWC"}, pixels, grad="X"),
    case("pixel_shuffle", [X], {"upscale_factor": 1}, pixels, grad="X"),
    case("pixel_shuffle", [X], {"upscale_factor": 3}, raises=ValueError, match="multiple of 9"),
    case("pixel_shuffle", [X], {"upscale_factor": 0}, raises=ValueError, match="upscale_factor"),
    case("pixel_shuffle", [X], {"upscale_factor": 2**31 - 1}, raises=ValueError, match="multiple"),
    case("pixel_shuffle", [real(2, 4)], {"upscale_factor": 2}, raises=ValueError, match="4 dimensions"),
    case("shuffle_channel", [X], {"group": 4}, shuffle, grad="X", dtypes="float32"),
    case("shuffle_channel", [X], {"group": 3}, raises=ValueError, match="multiple of 3"),
    case("shuffle_channel", [X], {"group": 0}, raises=ValueError, match="group"),
    case("space_to_depth", [real(2, 8, 4, 6)], {"blocksize": 2}, blocks, grad="X", dtypes="float32"),
    case("space_to_depth", [ints(1, 9, 3, 6)], {"blocksize": 3}, blocks, dtypes="int32"),
    case("space_to_depth", [X], {"blocksize": 2}, raises=ValueError, match="height"),
    case("space_to_depth", [X], {"blocksize": 1}, raises=ValueError, match="blocksize"),
    case("space_to_depth", [real(0, 4, 0, 2)], {}, raises=ValueError, match="greater than 0"),
)


def shift(x, seg_num, shift_ratio=0.25):
    frames = x.reshape(-1, seg_num, *x.shape[1:])
    c = x.shape[1]
    first, second = int(c * shift_ratio), int(c * 2 * shift_ratio)
    out = np.array(frames)
    out[:, :, :second] = 0
    out[:, 1:, :first] = frames[:, :-1, :first]
    out[:, :-1, first:second] = frames[:, 1:, first:second]
    return out.reshape(x.shape)


test_temporal_shift = table(
    case("temporal_shift", [real(6, 8, 2, 3)], {"seg_num": 3}, shift, grad="X", dtypes="float32"),
    case("temporal_shift", [real(4, 7, 2, 3)], {"seg_num": 2, "shift_ratio": 0.4}, shift, grad="X"),
    case("temporal_shift", [real(2, 8, 2, 3)], {"seg_num": 1}, shift, grad="X"),
    case("temporal_shift", [real(5, 8, 2, 3)], {"seg_num": 2}, raises=ValueError, match="multiple of seg_num"),
    case(
        "temporal_shift", [real(4, 8, 2, 3)], {"seg_num": 2, "shift_ratio": 0.5}, raises=ValueError, match="shift_ratio"
    ),
    case("temporal_shift", [real(4, 8, 2, 3)], {"seg_num": 0}, raises=ValueError, match="seg_num"),
    case("temporal_shift", [real(4, 8, 2)], {"seg_num": 2}, raises=ValueError, match="4 dimensions"),
)


def maxout(x, groups, axis=1):
    axis %= 4
    shape = [*x.shape[:axis], x.shape[axis] // groups, groups, *x.shape[axis + 1 :]]
    return x.reshape(shape).max(axis + 1)


test_maxout = table(
    case("maxout", [apart(2, 6, 3, 2)], {"groups": 2}, maxout, grad="X", dtypes="float32"),
    case("maxout", [apart(2, 3, 2, 6)], {"groups": 3, "axis": 3}, maxout, grad="X"),
    case("maxout", [apart(2, 3, 2, 6)], {"groups": 3, "axis": -1}, maxout, grad="X"),
    case("maxout", [real(0, 6, 3, 2)], {"groups": 2}, maxout, grad="X"),
    case("maxout", [X], {"groups": 1}, raises=ValueError, match="groups"),
    case("maxout", [X], {"groups": 3}, raises=ValueError, match="multiple of groups"),
    case("maxout", [X], {"groups": 2, "axis": 2}, raises=ValueError, match="axis"),
    case("maxout", [real(2, 4)], {"groups": 2}, raises=ValueError, match="4 dimensions"),
)


def prelu(x, alpha, mode="all"):
    a = (
        alpha.reshape((1, -1) + (1,) * (x.ndim - 2))
        if mode == "channel"
        else alpha.reshape((1, *x.shape[1:]) if mode == "element" else (1,) * x.ndim)
    )
    return np.where(x > 0, x, a * x)


test_prelu = table(
    case("prelu", [apart(2, 3, 4), real(1)], {}, prelu, grad="X Alpha", dtypes="float32 float16"),
    case("prelu", [apart(2, 3, 4, 5), real(1, 3, 1, 1)], {"mode": "channel"}, prelu, grad="X Alpha"),
    case("prelu", [apart(4, 3), real(3)], {"mode": "channel"}, prelu, grad="X Alpha"),
    case("prelu", [apart(2, 3, 4), real(1, 3, 4)], {"mode": "element"}, prelu, grad="X Alpha", dtypes="float32"),
    case("prelu", [real(0, 3, 4), real(1)], {}, prelu, grad="X Alpha"),
    case("prelu", [real(30, 40, 50), real(1, 40, 1)], {"mode": "channel"}, prelu),
    case("prelu", [np.array([np.nan, np.inf, -np.inf]), real(1)], {}, prelu),
    case("prelu", [X, real(2)], {}, raises=ValueError, match="1 elements"),
    case("prelu", [X, real(3)], {"mode": "channel"}, raises=ValueError, match="8 elements"),
    case("prelu", [X, real(8)], {"mode": "element"}, raises=ValueError, match="dimensions"),
    case("prelu", [X, real(1, 8, 3, 3)], {"mode": "element"}, raises=ValueError, match="96 elements"),
    case("prelu", [X, real(1)], {"mode": "some"}, raises=ValueError, match="mode"),
)


def lrn(x, n=5, k=2.0, alpha=0.0001, beta=0.75, data_format="AnyLayout"):
    last = data_format == "NHWC"
    x = np.moveaxis(x, 3, 1) if last else x
    mid = np.full(x.shape, k)
    for c in range(x.shape[1]):
        around = x[:, max(c - n // 2, 0) : c + n // 2 + 1]
        mid[:, c] += alpha * (around**2).sum(1)
    out = x / mid**beta
    return {"Out": np.moveaxis(out, 1, 3) if last else out, "MidOut": np.moveaxis(mid, 1, 3) if last else mid}


test_lrn = table(
    case("lrn", [X], {}, lrn, grad="X", grad_of="Out", dtypes="float32"),
    case("lrn", [X], {"n": 3, "k": 1.0, "alpha": 0.5, "beta": 0.5}, lrn, grad="X", grad_of="Out"),
    case(
        "lrn",
        [real(2, 3, 4, 7)],
        {"n": 3, "alpha": 0.5, "beta": 0.5, "data_format": "NHWC"},
        lrn,
        grad="X",
        grad_of="Out",
    ),
    case("lrn", [real(1, 3, 20, 31)], {"n": 9}, lrn, dtypes="float32", tol=1e-4),
    case("lrn", [real(0, 3, 2, 2)], {}, lrn, grad="X", grad_of="Out"),
    case("lrn", [X], {"n": 4}, raises=ValueError, match="odd"),
    case("lrn", [X], {"n": -1}, raises=ValueError, match="positive"),
    case("lrn", [real(2, 3)], {}, raises=ValueError, match="4 dimensions"),
)


def affine(x, scale, bias, data_layout="AnyLayout"):
    shape = (1, -1) + (1,) * (x.ndim - 2) if data_layout == "NCHW" else (1,) * (x.ndim - 1) + (-1,)
    return x * scale.reshape(shape) + bias.reshape(shape)


test_affine_channel = table(
    case(
        "affine_channel",
        [X, real(8), real(8, seed=1)],
        {"data_layout": "NCHW"},
        affine,
        grad="X Scale Bias",
        dtypes="float32",
    ),
    case("affine_channel", [X, real(4), real(4, seed=1)], {"data_layout": "NHWC"}, affine, grad="X Scale Bias"),
    case("affine_channel", [real(5, 3), real(3), real(3, seed=1)], {}, affine, grad="X Scale Bias"),
    case("affine_channel", [X, real(3), real(8)], {"data_layout": "NCHW"}, raises=ValueError, match="Scale"),
    case("affine_channel", [X, real(8), real(8, 1)], {"data_layout": "NCHW"}, raises=ValueError, match="Bias"),
    case("affine_channel", [real(3), real(3), real(3)], {}, raises=ValueError, match="2 dimensions"),
)


def smooth(x, prior=None, epsilon=0.0):
    prior = 1 / x.shape[-1] if prior is None else prior
    e = np.float64(np.float32(epsilon))
    return (1 - e) * x + e * prior


test_label_smooth = table(
    case("label_smooth", [real(4, 5)], {"epsilon": 0.1}, smooth, grad="X", dtypes="float32", tol=1e-6),
    case("label_smooth", [real(3, 4, 5), real(1, 5)], {"epsilon": 0.3}, smooth, grad="X", tol=1e-6),
    case("label_smooth", [real(4, 5)], {}, smooth, grad="X", lod={"X": [[0, 1, 4]]}, out_lod={"Out": [[0, 1, 4]]}),
    case("label_smooth", [real(0, 5)], {"epsilon": 0.1}, smooth, grad="X"),
    case("label_smooth", [real(4, 5), real(1, 4)], {"epsilon": 0.1}, raises=ValueError, match="PriorDist"),
)


def places(x, alpha=1.0, beta=1.0, lengths=None):
    half = x.shape[-1] // 2
    rows = np.concatenate([np.arange(n) for n in lengths or [x.shape[1]] * x.shape[0]])[:, None]
    angle = rows / 10000 ** (np.arange(half) / (half - 1) if half > 1 else np.ones(1))
    table = np.concatenate([np.sin(angle), np.cos(angle)], 1).reshape(x.shape)
    return alpha * x + beta * table


test_add_position_encoding = table(
    case("add_position_encoding", [real(2, 5, 6)], {"alpha": 0.5, "beta": 2.0}, places, grad="X", dtypes="float32"),
    case("add_position_encoding", [real(2, 5, 2)], {}, places, grad="X"),
    case(
        "add_position_encoding",
        [real(7, 4)],
        {},
        lambda x: places(x, lengths=[3, 4]),
        grad="X",
        lod={"X": [[0, 3, 7]]},
        out_lod={"Out": [[0, 3, 7]]},
    ),
    case("add_position_encoding", [real(2, 5, 3)], {}, raises=ValueError, match="even"),
    case("add_position_encoding", [real(2, 4)], {}, raises=ValueError, match="3 dimensions"),
    case("add_position_encoding", [real(2, 5, 4)], {}, raises=ValueError, match="one level", lod={"X": [[0, 2]]}),
)


def spectral(w, u, v, dim=0, power_iters=1, eps=1e-12):
    m = np.moveaxis(w, dim, 0).reshape(w.shape[dim], -1)
    for _ in range(power_iters):
        v = m.T @ u
        v = v / (np.linalg.norm(v) + eps)
        u = m @ v
        u = u / (np.linalg.norm(u) + eps)
    return w / (u @ m @ v)


test_spectral_norm = table(
    case(
        "spectral_norm",
        [real(4, 3), real(4), real(3, seed=1)],
        {"power_iters": 5},
        spectral,
        dtypes="float32",
        tol=1e-4,
    ),
    # The gradient is that of the fixed point.
    case(
        "spectral_norm",
        [real(4, 3, 2, 2), real(3), real(16, seed=1)],
        {"dim": 1, "power_iters": 300},
        spectral,
        grad="Weight",
    ),
    case("spectral_norm", [real(4, 6), real(4), real(6, seed=1)], {"power_iters": 300}, spectral, grad="Weight"),
    case("spectral_norm", [real(2, 3, 2), real(2), real(6, seed=1)], {"power_iters": 0}, spectral, grad="Weight"),
    case("spectral_norm", [real(4, 3), real(3), real(3)], {}, raises=ValueError, match="U must have 4"),
    case("spectral_norm", [real(4, 3), real(4), real(4)], {}, raises=ValueError, match="V must have 3"),
    case("spectral_norm", [real(4, 3), real(4), real(3)], {"dim": 2}, raises=ValueError, match="dim"),
    case("spectral_norm", [real(4, 3), real(4), real(3)], {"power_iters": -1}, raises=ValueError, match="power_iters"),
    case("spectral_norm", [real(4), real(4), real(1)], {}, raises=ValueError, match="2 to 5"),
)
