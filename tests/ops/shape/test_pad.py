"""Pads and crops."""

import numpy as np
from case import case, ints, real, table

X = real(2, 3, 4)
PADS = [1, 0, 0, 2, 3, 1]


def pad(x, paddings, pad_value=0.0):
    return np.pad(x, np.reshape(paddings, (-1, 2)), constant_values=pad_value)


test_pad = table(
    case("pad", [X], {"paddings": PADS}, pad, grad="X", second=True, dtypes="float32 float16"),
    case("pad", [X], {"paddings": PADS, "pad_value": 2.5}, pad, grad="X", second=True),
    case("pad", [X], {"paddings": [0] * 6}, pad, grad="X"),
    case("pad", [ints(3, 2)], {"paddings": [0, 1, 2, 0], "pad_value": -1.0}, pad, dtypes="int32"),
    case("pad", [real(0, 2)], {"paddings": [2, 1, 0, 0], "pad_value": 3.0}, pad, grad="X"),
    case("pad", [real(3, 2)], {"paddings": [0, 0, 1, 1]}, pad, lod={"X": [[0, 1, 3]]}, out_lod={"Out": [[0, 1, 3]]}),
    case("pad", [X], {"paddings": [1, 1]}, raises=ValueError, match="two numbers per dimension"),
    case("pad", [X], {"paddings": [0, 0, 0, 0, -1, 0]}, raises=ValueError, match="negative"),
    case("pad", [X], {"paddings": [2**31 - 1] * 6}, raises=(MemoryError, ValueError)),
    case(
        "pad_constant_like",
        [real(3, 4, 5), X],
        {"pad_value": 1.5},
        lambda x, y, pad_value: pad(y, [0, 1, 0, 1, 0, 1], pad_value),
        grad="Y",
        dtypes="float32",
    ),
    case("pad_constant_like", [ints(3, 2), ints(2, 2)], {}, lambda x, y: pad(y, [0, 1, 0, 0]), dtypes="int32"),
    case("pad_constant_like", [X, real(2, 3, 5)], raises=ValueError, match="none of them smaller"),
    case("pad_constant_like", [X, real(2, 3)], raises=ValueError, match="dimensions"),
)


def crop(x, offsets=(), shape=()):
    ends = [x.shape[i] if s == -1 else o + s for i, (o, s) in enumerate(zip(offsets, shape, strict=True))]
    return x[tuple(slice(o, e) for o, e in zip(offsets, ends, strict=True))]


def cropped(x, *_, **__):
    return x[1:2, 0:2, 2:4]


AT, SIZE = [1, 0, 2], [1, 2, 2]
test_crop = table(
    case("crop", [X], {"offsets": AT, "shape": SIZE}, crop, grad="X", dtypes="float32"),
    case("crop", [X, None, np.int32(AT)], {"shape": SIZE}, cropped, grad="X"),
    case("crop", [X, real(*SIZE)], {"offsets": AT}, cropped, grad="X"),
    case("crop", [X], {"offsets": [0, 1, 0], "shape": [-1, 2, 4]}, crop),
    case("crop", [X, None, np.int32(AT)], {"shape": SIZE, "offsets": AT}, raises=ValueError, match="not both"),
    case("crop", [X], {"offsets": [1, 0], "shape": SIZE}, raises=ValueError, match="one number per dimension"),
    case("crop", [X], {"offsets": AT, "shape": [1, 2]}, raises=ValueError, match="rank of X"),
    case("crop", [X], {"offsets": [2, 0, 0], "shape": SIZE}, raises=ValueError, match="does not lie within"),
    case("crop", [X], {"offsets": [-1, 0, 0], "shape": SIZE}, raises=ValueError, match="does not lie within"),
)
test_crop_tensor = table(
    case("crop_tensor", [X], {"offsets": AT, "shape": SIZE}, crop, grad="X", dtypes="float32"),
    case("crop_tensor", [X], {"offsets": AT, "shape": [-1, 2, -1]}, crop, grad="X"),
    case("crop_tensor", [ints(3, 4)], {"offsets": [1, 1], "shape": [2, 2]}, crop, dtypes="int32"),
    case("crop_tensor", {"X": X, "Shape": np.int32(SIZE), "Offsets": np.int32(AT)}, {}, cropped, grad="X"),
    case("crop_tensor", {"X": X, "ShapeTensor": [np.int32([s]) for s in SIZE]}, {"offsets": AT}, cropped, grad="X"),
    case("crop_tensor", {"X": X, "OffsetsTensor": [np.int32([s]) for s in AT]}, {"shape": SIZE}, cropped, grad="X"),
    case("crop_tensor", [X], {"offsets": AT, "shape": [0, 2, 2]}, raises=ValueError, match="greater than 0"),
    case("crop_tensor", [X], {"offsets": AT, "shape": [-2, 2, 2]}, raises=ValueError, match="greater than 0"),
    case("crop_tensor", [X], {"offsets": AT, "shape": [1, 2]}, raises=ValueError, match="one number per dimension"),
    case("crop_tensor", [X], {"offsets": AT, "shape": [1, 2, 3]}, raises=ValueError, match="does not lie within"),
    case(
        "crop_tensor", {"X": X, "Offsets": np.float32(AT)}, {"shape": SIZE}, raises=ValueError, match="int32 or int64"
    ),
)

MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "replicate": "edge", "circular": "wrap"}


def images(x, paddings, mode="constant", data_format="NCHW", value=0.0):
    pairs = np.reshape(paddings, (-1, 2))
    if len(pairs) == 3:
        pairs = pairs[::-1]
    none = [(0, 0)]
    pairs = [*none, *map(tuple, pairs), *none] if data_format.endswith("C") else [*none, *none, *map(tuple, pairs)]
    cut = tuple(slice(max(-b, 0), n - max(-a, 0)) for (b, a), n in zip(pairs, x.shape, strict=True))
    rest = [(max(b, 0), max(a, 0)) for b, a in pairs]
    more = {"constant_values": value} if mode == "constant" else {}
    return np.pad(x[cut], rest, mode=MODES[mode], **more)


def pad2d(x, paddings=None, pad_value=0.0, mode="constant", data_format="NCHW"):
    return images(x, paddings, mode, data_format, pad_value)


def of_tensor(x, tensor, **attrs):
    return pad2d(x, **attrs | {"paddings": tensor})


I2, I2L = real(2, 3, 4, 5), real(2, 4, 5, 3)
I3, I3L = real(2, 2, 3, 4, 5), real(1, 3, 4, 5, 2)
P2, P3 = [1, 2, 3, 0], [1, 2, 3, 0, 0, 2]


def pad3d(x, paddings=None, value=0.0, mode="constant", data_format="NCDHW"):
    return images(x, paddings, mode, data_format, value)


test_pad2d = table(
    *(
        case(
            "pad2d",
            [x],
            {"paddings": P2, "mode": mode, "data_format": layout},
            pad2d,
            grad="X",
            dtypes="float32 float16",
        )
        for mode in ("constant", "reflect", "edge")
        for x, layout in ((I2, "NCHW"), (I2L, "NHWC"))
    ),
    case("pad2d", [I2], {"paddings": P2, "pad_value": 1.5}, pad2d, grad="X"),
    case("pad2d", [I2, np.int32(P2)], {"paddings": [0] * 4, "mode": "reflect"}, of_tensor, grad="X"),
    case("pad2d", [I2], {"paddings": [-1, 2, 0, -2], "pad_value": 1.5}, pad2d, grad="X"),
    case("pad2d", [ints(1, 2, 3, 3)], {"paddings": P2[:2] + [1, 1], "mode": "edge"}, pad2d, dtypes="int32"),
    case("pad2d", [real(0, 3, 4, 5)], {"paddings": P2}, pad2d, grad="X"),
    case("pad2d", [I2], {"paddings": [4, 0, 0, 0], "mode": "reflect"}, raises=ValueError, match="longer than its"),
    case("pad2d", [I2], {"paddings": [1, 2]}, raises=ValueError, match="4 numbers"),
    case("pad2d", [I3], {"paddings": P2}, raises=ValueError, match="4 dimensions"),
    case("pad2d", [I2], {"paddings": P2, "mode": "circular"}, raises=ValueError, match="unknown mode"),
    case("pad2d", [I2], {"paddings": [-3, -2, 0, 0]}, raises=ValueError, match="take more than"),
    case("pad2d", [I2, np.int32(P3)], {"paddings": P2}, raises=ValueError, match="4 numbers"),
    case("pad2d", [real(1, 1, 0, 2)], {"paddings": P2, "mode": "edge"}, raises=ValueError, match="cannot be padded"),
    case("pad2d", [I2], {"paddings": [2**31 - 1] * 4}, raises=(MemoryError, ValueError)),
)
test_pad3d = table(
    *(
        case(
            "pad3d",
            [x],
            {"paddings": [1, 2, 3, 0, 0, 2], "mode": mode, "data_format": layout},
            pad3d,
            grad="X",
            second=True,
            dtypes="float32",
        )
        for mode in ("constant", "reflect", "replicate", "circular")
        for x, layout in ((I3, "NCDHW"), (I3L, "NDHWC"))
    ),
    case("pad3d", [I3], {"paddings": P3, "value": 1.5}, pad3d, grad="X", second=True),
    case("pad3d", [I3, np.int32(P3)], {"paddings": [0] * 6}, lambda x, p, **_: pad3d(x, p), grad="X", second=True),
    case("pad3d", [I3], {"paddings": [7, 6, 0, 0, 0, 0], "mode": "circular"}, pad3d, grad="X"),
    case("pad3d", [I3], {"paddings": P3, "mode": "edge"}, raises=ValueError, match="unknown mode"),
    case("pad3d", [I2], {"paddings": P3}, raises=ValueError, match="5 dimensions"),
    case("pad3d", [I3], {"paddings": [5, 0, 0, 0, 0, 0], "mode": "reflect"}, raises=ValueError, match="longer than"),
)
