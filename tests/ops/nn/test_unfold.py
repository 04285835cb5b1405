"""unfold, im2sequence, deformable convolution, bilinear_tensor_product, fc, row_conv, conv_shift."""

import numpy as np
from case import case, ints, real, table
from images import conv, taps

SOME = "float16 float32"


def columns(x, kernel, strides, paddings, dilations):
    """[N, C, taps, height, width]; paddings are top, left, bottom, right."""
    top, left, bottom, right = paddings
    x = np.pad(x, [(0, 0), (0, 0), (top, bottom), (left, right)])
    sizes = zip(x.shape[2:], kernel, strides, dilations, strict=True)
    out = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in sizes]
    return np.stack([x[at] for _, at in taps(x, out, kernel, strides, dilations)], 2)


def unfold(x, kernel_sizes, strides, paddings, dilations):
    y = columns(x, kernel_sizes, strides, paddings, dilations)
    return y.reshape(y.shape[0], y.shape[1] * y.shape[2], y.shape[3] * y.shape[4])


def unfolds(x, kernel, strides=(1, 1), paddings=(0, 0, 0, 0), dilations=(1, 1)):
    attrs = {"kernel_sizes": kernel, "strides": list(strides), "paddings": list(paddings), "dilations": list(dilations)}
    return case("unfold", [x], attrs, unfold, grad="X", dtypes=SOME)


PLAIN = {"kernel_sizes": [2, 2], "strides": [1, 1], "paddings": [0, 0, 0, 0], "dilations": [1, 1]}

test_unfold = table(
    unfolds(real(2, 3, 4, 5), [2, 3]),
    unfolds(real(1, 2, 5, 6), [3, 2], strides=[2, 1], paddings=[1, 0, 2, 1]),
    unfolds(real(1, 2, 6, 7), [2, 3], strides=[1, 3], paddings=[2, 3, 0, 1], dilations=[3, 2]),
    unfolds(real(2, 1, 3, 3), [1, 1]),
    unfolds(real(1, 2, 1, 1), [3, 3], paddings=[4, 4, 4, 4]),
    unfolds(real(0, 2, 3, 3), [2, 2]),
    case("unfold", [real(2, 3, 3)], PLAIN, raises=ValueError, match="4 dimensions"),
    case("unfold", [real(1, 2, 3, 3)], PLAIN | {"paddings": [0, 0]}, raises=ValueError, match="paddings 4"),
    case("unfold", [real(1, 2, 3, 3)], PLAIN | {"kernel_sizes": [5, 2]}, raises=ValueError, match="empty"),
    case("unfold", [real(1, 2, 3, 3)], PLAIN | {"kernel_sizes": [0, 2]}, raises=ValueError, match="positive"),
    case("unfold", [real(1, 2, 3, 3)], PLAIN | {"strides": [1, 0]}, raises=ValueError, match="positive"),
)


def im2sequence(x, sizes=None, kernels=(), strides=(1, 1), paddings=(0, 0, 0, 0), out_stride=(1, 1)):
    rows = []
    y = columns(x, kernels, strides, paddings, (1, 1))
    for n in range(len(x)):
        h, w = y.shape[3:]
        if sizes is not None:
            shrunk = [-(-int(v) // s) for v, s in zip(sizes[n], out_stride, strict=True)]
            pad = [paddings[0] + paddings[2], paddings[1] + paddings[3]]
            h, w = [(v + p - k) // s + 1 for v, p, k, s in zip(shrunk, pad, kernels, strides, strict=True)]
        part = y[n, :, :, :h, :w]
        rows.append(part.reshape(-1, h * w).T)
    return np.concatenate(rows)


SIZES = np.array([[4, 5], [3, 4]], "float32")

test_im2sequence = table(
    case(
        "im2sequence",
        [real(2, 3, 4, 5)],
        {"kernels": [2, 3]},
        im2sequence,
        grad="X",
        dtypes="float32",
        out_lod={"Out": [[0, 9, 18]]},
    ),
    case(
        "im2sequence",
        [real(1, 2, 5, 6)],
        {"kernels": [3, 2], "strides": [2, 3], "paddings": [1, 0, 2, 1]},
        im2sequence,
        grad="X",
        out_lod={"Out": [[0, 6]]},
    ),
    case(
        "im2sequence",
        [real(2, 2, 4, 5), SIZES],
        {"kernels": [2, 2], "strides": [1, 2]},
        im2sequence,
        out_lod={"Out": [[0, 6, 10]]},
    ),
    case(
        "im2sequence",
        [real(2, 2, 2, 3), SIZES],
        {"kernels": [2, 2], "out_stride": [2, 2]},
        im2sequence,
        out_lod={"Out": [[0, 2, 3]]},
    ),
    # Windows outside of the image are zero.
    case(
        "im2sequence",
        [real(2, 2, 3, 3), SIZES],
        {"kernels": [2, 2]},
        lambda x, sizes, kernels: im2sequence(np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 2))), sizes, kernels),
        out_lod={"Out": [[0, 12, 18]]},
    ),
    case("im2sequence", [real(2, 2, 3, 3), 20 * SIZES], {"kernels": [2, 2]}, raises=ValueError, match="Y says"),
    case("im2sequence", [real(2, 2, 4, 5), SIZES[:1]], {"kernels": [2, 2]}, raises=ValueError, match="Y must have"),
    case("im2sequence", [real(2, 2, 3)], {"kernels": [2, 2]}, raises=ValueError, match="4 dimensions"),
    case("im2sequence", [real(1, 2, 3, 3)], {"kernels": [5, 5]}, raises=ValueError, match="empty"),
)


def bilinear(plane, y, x):
    """The value at (y, x); pixels outside of the plane are zero."""
    h, w = plane.shape
    if not (-1 < y < h and -1 < x < w):
        return 0.0
    total = 0.0
    top, left = int(np.floor(y)), int(np.floor(x))
    for r in (top, top + 1):
        for c in (left, left + 1):
            if 0 <= r < h and 0 <= c < w:
                total += plane[r, c] * (1 - abs(y - r)) * (1 - abs(x - c))
    return total


def deformable(
    x, offset, mask, w, strides=(1, 1), paddings=(0, 0), dilations=(1, 1), groups=1, deformable_groups=1, im2col_step=64
):
    n, channels = x.shape[:2]
    kh, kw = w.shape[2:]
    h, v = offset.shape[2:]
    moved = np.zeros((n, channels, kh * kw, h, v))
    per = channels // deformable_groups
    for b, c, t, i, j in np.ndindex(*moved.shape):
        unit = c // per * kh * kw + t
        y = i * strides[0] - paddings[0] + t // kw * dilations[0] + offset[b, 2 * unit, i, j]
        z = j * strides[1] - paddings[1] + t % kw * dilations[1] + offset[b, 2 * unit + 1, i, j]
        scale = 1 if mask is None else mask[b, unit, i, j]
        moved[b, c, t, i, j] = bilinear(x[b, c], y, z) * scale
    # every window is an image that the filters cover
    stacked = moved.transpose(0, 3, 4, 1, 2).reshape(n * h * v, channels, kh, kw)
    return conv(stacked, w, groups=groups).reshape(n, h, v, -1).transpose(0, 3, 1, 2)


def first(x, offset, w, **attrs):
    return deformable(x, offset, None, w, **attrs)


def deforms(x, w, out, grad_tol=1e-4, **attrs):
    places = attrs.get("deformable_groups", 1) * w.shape[2] * w.shape[3]
    # away from integers, where the derivative is discontinuous
    offset = real(len(x), 2 * places, *out, seed=5)
    offset = np.round(offset * 2) / 2 + np.clip(offset, -0.2, 0.2) + 0.25
    inputs = {"Input": x, "Offset": offset, "Mask": real(len(x), places, *out, seed=7), "Filter": w}
    two = {k: v for k, v in inputs.items() if k != "Mask"}
    return [
        case(
            "deformable_conv",
            inputs,
            attrs,
            deformable,
            grad="Input Offset Mask Filter",
            dtypes="float32",
            tol=1e-4,
            grad_tol=grad_tol,
        ),
        case(
            "deformable_conv_v1",
            two,
            attrs,
            first,
            grad="Input Offset Filter",
            dtypes="float32",
            tol=1e-4,
            grad_tol=grad_tol,
        ),
    ]


def wrong(match, offset=(1, 8, 2, 2), mask=(1, 4, 2, 2), x=(1, 2, 3, 3), **attrs):
    inputs = [real(*x), real(*offset), real(*mask), real(2, 2 // attrs.get("groups", 1), 2, 2)]
    return case("deformable_conv", inputs, attrs, raises=ValueError, match=match)


test_deformable = table(
    *deforms(real(1, 2, 4, 4), real(3, 2, 2, 2), (3, 3)),
    *deforms(
        real(2, 4, 5, 4),
        real(4, 2, 3, 2),
        (3, 5),
        strides=[2, 1],
        paddings=[1, 1],
        groups=2,
        deformable_groups=2,
        im2col_step=1,
    ),
    *deforms(real(1, 2, 5, 5), real(2, 2, 2, 2), (3, 4), dilations=[2, 1]),
    wrong("Offset", offset=(1, 4, 2, 2)),
    wrong("Offset", offset=(1, 8, 2, 3)),
    wrong("Mask", mask=(1, 8, 2, 2)),
    wrong("deformable_groups", deformable_groups=3),
    wrong("deformable_groups", deformable_groups=0),
    wrong("im2col_step", x=(3, 2, 3, 3), im2col_step=2),
    wrong("empty", x=(1, 2, 1, 1), offset=(1, 8, 1, 1), mask=(1, 4, 1, 1)),
)


def product(x, y, w, bias=None):
    out = np.einsum("bm,kmn,bn->bk", x, w, y)
    return out if bias is None else out + bias


test_bilinear_tensor_product = table(
    case(
        "bilinear_tensor_product",
        [real(3, 4), real(3, 5), real(2, 4, 5), real(1, 2)],
        expected=product,
        grad="X Y Weight Bias",
        dtypes=SOME,
        tol=1e-2,
    ),
    case(
        "bilinear_tensor_product",
        [real(1, 2), real(1, 2), real(6, 2, 2)],
        expected=product,
        grad="X Y Weight",
        dtypes="float32",
    ),
    case("bilinear_tensor_product", [real(0, 2), real(0, 3), real(4, 2, 3)], expected=product, grad="X Y Weight"),
    case("bilinear_tensor_product", [real(3, 4), real(2, 5), real(2, 4, 5)], raises=ValueError, match="fit each other"),
    case("bilinear_tensor_product", [real(3, 4), real(3, 5), real(2, 5, 4)], raises=ValueError, match="fit each other"),
    case("bilinear_tensor_product", [real(3, 4), real(3, 5), real(4, 5)], raises=ValueError, match="dimensions"),
    case("bilinear_tensor_product", [real(3, 4), real(3, 5), real(2, 4, 5), real(2)], raises=ValueError, match="Bias"),
)


def fc(x, w, bias=None, in_num_col_dims=1, activation_type="", padding_weights=False):
    if padding_weights:
        w = w[:-4, :-4]
    y = x.reshape(-1, w.shape[0]) @ w + (0 if bias is None else bias.reshape(1, -1))
    y = y.reshape(*x.shape[:in_num_col_dims], -1)
    return np.maximum(y, 0) if activation_type else y


RELU = {"activation_type": "relu"}

test_fc = table(
    case("fc", [real(3, 4), real(4, 5), real(5)], expected=fc, dtypes=SOME, tol=1e-2),
    case("fc", [real(2, 3, 2, 2), real(4, 5), real(1, 5)], {"in_num_col_dims": 2, **RELU}, fc, dtypes="float32"),
    case("fc", [real(3, 2, 2), real(4, 5)], expected=fc),
    case("fc", [real(3, 4), real(8, 9), real(5)], {"padding_weights": True, **RELU}, fc),
    case(
        "fc",
        [real(2, 4), real(4, 3), real(3)],
        {"in_num_col_dims": 1},
        fc,
        lod={"Input": [[0, 1, 2]]},
        out_lod={"Out": [[0, 1, 2]]},
    ),
    case("fc", [real(3, 4), real(5, 4), real(4)], raises=ValueError, match="columns"),
    case("fc", [real(3, 4), real(4, 5), real(4)], raises=ValueError, match="Bias"),
    case("fc", [real(3, 4), real(4, 5)], RELU, raises=RuntimeError, match="needs Bias"),
    case("fc", [real(3, 4), real(4, 5), real(5)], {"activation_type": "tanh"}, raises=ValueError, match="relu"),
    case("fc", [real(3, 4), real(4, 5), real(5)], {"in_num_col_dims": 2}, raises=ValueError, match="in_num_col_dims"),
)


def row_conv(x, w, spans):
    flat = x.reshape(-1, x.shape[-1])
    y = np.zeros_like(flat)
    for start, end in spans:
        for i in range(start, end):
            for k in range(min(len(w), end - i)):
                y[i] += flat[i + k] * w[k]
    return y.reshape(x.shape)


test_row_conv = table(
    case(
        "row_conv",
        [real(7, 3), real(3, 3)],
        expected=lambda x, w: row_conv(x, w, [(0, 4), (4, 4), (4, 7)]),
        lod={"X": [[0, 4, 4, 7]]},
        out_lod={"Out": [[0, 4, 4, 7]]},
        grad="X Filter",
        dtypes="float32",
    ),
    case(
        "row_conv",
        [real(2, 3, 4), real(2, 4)],
        expected=lambda x, w: row_conv(x, w, [(0, 3), (3, 6)]),
        grad="X Filter",
        dtypes=SOME,
    ),
    case(
        "row_conv", [real(2, 2, 4), real(5, 4)], expected=lambda x, w: row_conv(x, w, [(0, 2), (2, 4)]), grad="X Filter"
    ),
    case("row_conv", [real(2, 3, 4), real(2, 3)], raises=ValueError, match="last size"),
    case("row_conv", [real(6, 4), real(2, 4)], raises=ValueError, match="without LoD"),
    case("row_conv", [real(2, 3, 4), real(2, 3, 4)], raises=ValueError, match="Filter"),
)


def conv_shift(x, y):
    half = y.shape[1] // 2
    return sum(np.roll(x, half - j, 1) * y[:, j : j + 1] for j in range(y.shape[1]))


test_conv_shift = table(
    case("conv_shift", [real(2, 7), real(2, 3)], expected=conv_shift, grad="X Y", dtypes=SOME),
    case("conv_shift", [real(3, 5), real(3, 5)], expected=conv_shift, grad="X Y"),
    case("conv_shift", [real(2, 7), real(2, 2)], raises=ValueError, match="odd"),
    case("conv_shift", [real(2, 3), real(2, 5)], raises=ValueError, match="at most"),
    case("conv_shift", [real(2, 7), real(3, 3)], raises=ValueError, match="first size"),
    case("conv_shift", [real(2, 7), ints(2, 3).astype("float64")[0]], raises=ValueError, match="2 dimensions"),
)
