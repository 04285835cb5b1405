"""Image resizing, compared with dense weight matrices per axis."""

import numpy as np
from case import case, ints, real, table

METHODS = {"linear_interp": 1, "bilinear_interp": 2, "nearest_interp": 2, "bicubic_interp": 2, "trilinear_interp": 3}
NAMES = {op: op.split("_")[0] for op in METHODS}


def cubic(d):
    d = abs(d)
    if d <= 1:
        return 1.25 * d**3 - 2.25 * d**2 + 1
    return -0.75 * d**3 + 3.75 * d**2 - 6 * d + 3 if d < 2 else 0.0


def matrix(n, m, method, corners, mode, scale=None):
    """Row i: the weights of the elements that result i is computed from."""
    a = np.zeros((m, n))
    if n == m:
        return np.eye(n)
    if m == 1:
        ratio = 0.0
    elif corners:
        ratio = (n - 1) / (m - 1)
    else:
        ratio = n / m if scale is None else 1 / scale
    for i in range(m):
        if method == "nearest":
            a[i, min(int(ratio * i + (0.5 if corners else 0)), n - 1)] += 1
        elif method == "bicubic":
            at = ratio * i if corners else ratio * (i + 0.5) - 0.5
            for k in range(int(np.floor(at)) - 1, int(np.floor(at)) + 3):
                a[i, min(max(k, 0), n - 1)] += cubic(at - k)
        else:
            at = ratio * i if corners or mode == 1 else max(ratio * (i + 0.5) - 0.5, 0)
            low = min(int(at), n - 1)
            a[i, low] += 1 - (at - low)
            a[i, min(low + 1, n - 1)] += at - low
    return a


def resized(x, sizes, method, corners=True, mode=1, last=False, scales=None):
    first = 1 if last else 2
    for k, m in enumerate(sizes):
        scale = scales[k] if scales else None
        axis = first + k
        a = matrix(x.shape[axis], m, method, corners, mode, scale)
        x = np.moveaxis(np.tensordot(a, x, (1, axis)), 0, axis)
    return x


def sizes_of(x, last, scale):
    axes = x.shape[1:-1] if last else x.shape[2:]
    scale = [scale] * len(axes) if np.isscalar(scale) else scale
    return [int(np.float32(d) * np.float32(s)) for d, s in zip(axes, scale, strict=True)]


def resize(op, x, sizes, corners=True, mode=1, last=False, v2=False, how="attr", scale=None, **more):
    """A case; `how` selects the form of the sizes."""
    method = NAMES[op]
    attrs = {"interp_method": method, "align_corners": corners, "align_mode": mode}
    if last:
        attrs["data_layout"] = "NHWC"
    inputs = {"X": x}
    scales = None
    if scale is not None:
        sizes = sizes_of(x, last, scale)
        each = [scale] * len(sizes) if np.isscalar(scale) else list(scale)
        scales = each if v2 else None
        if how == "tensor":
            inputs["Scale"] = np.float32([scale] if np.isscalar(scale) else scale)
        else:
            attrs["scale"] = each if v2 else scale
    elif how == "attr":
        attrs.update(zip(["out_d", "out_h", "out_w"][3 - len(sizes) :], sizes, strict=True))
    elif how == "tensor":
        inputs["OutSize"] = np.int32(sizes)
    else:
        inputs["SizeTensor"] = [np.int32([s]) for s in sizes]

    def expected(x, *_, **__):
        return resized(x, sizes, method, corners, mode, last, scales)

    more = {"grad": "X", "tol": 1e-5} | more
    return case(op + ("_v2" if v2 else ""), inputs, attrs, expected, **more)


SHAPES = {1: (2, 3, 5), 2: (2, 3, 5, 4), 3: (2, 2, 3, 5, 4)}
LAST = {1: (2, 5, 3), 2: (2, 5, 4, 3), 3: (1, 3, 5, 4, 2)}
UP = {1: [8], 2: [9, 7], 3: [4, 9, 7]}
DOWN = {1: [3], 2: [2, 3], 3: [1, 2, 3]}
PLACES = [(True, 1), (False, 0), (False, 1)]

test_v1 = table(
    *(
        resize(op, real(*(LAST if last else SHAPES)[n]), sizes[n], corners, mode, last, dtypes="float32")
        for op, n in METHODS.items()
        for sizes in (UP, DOWN)
        for corners, mode in PLACES
        for last in (False, True)
    )
)
test_v2 = table(
    *(
        resize(op, real(*(LAST if last else SHAPES)[n]), None, corners, mode, last, True, scale=scale)
        for op, n in METHODS.items()
        for scale in (2.0, [1.5, 0.6, 2.5][:n])
        for corners, mode in PLACES
        for last in (False, True)
    )
)
test_sizes = table(
    *(
        resize("bilinear_interp", real(*SHAPES[2]), [9, 7], v2=v2, how=how, corners=False)
        for v2 in (False, True)
        for how in ("tensor", "list")
    ),
    *(
        resize("bicubic_interp", real(*SHAPES[2]), None, v2=v2, how=how, scale=1.7, corners=False)
        for v2 in (False, True)
        for how in ("tensor", "attr")
    ),
    resize("trilinear_interp", real(*SHAPES[3]), None, v2=True, how="tensor", scale=[2.0, 1.5, 0.5]),
    resize("bilinear_interp", real(*SHAPES[2]), [5, 4], v2=True),
    resize("bilinear_interp", real(*SHAPES[2]), [5, 9], corners=False, mode=0),
    resize("nearest_interp", real(*SHAPES[2]), [1, 1], corners=False),
    resize("bilinear_interp", real(1, 1, 1, 1), [3, 3]),
    resize("bicubic_interp", real(1, 2, 40, 70), [70, 30], corners=False, tol=1e-3),
    resize("linear_interp", real(0, 3, 5), [7]),
    resize("bilinear_interp", real(2, 8, 96, 130), [150, 77], corners=False, mode=0, grad="", tol=1e-3),
    resize("bilinear_interp", real(2, 3, 8, 8), [17, 9], dtypes="float16", corners=False, mode=0, v2=True),
)


def of_bytes(x, **attrs):
    return resized(x, [10, 8], attrs["interp_method"], False).astype("uint8")


test_bytes = table(
    *(
        case(
            f"{m}_interp_v2",
            [ints(2, 3, 5, 4, high=255).astype("uint8")],
            {"interp_method": m, "out_h": 10, "out_w": 8, "align_corners": False},
            of_bytes,
        )
        for m in ("nearest", "bilinear")
    )
)

X = real(*SHAPES[2])


def wrong(match, error=ValueError, x=X, op="bilinear_interp", inputs=None, **attrs):
    return case(op, {"X": x, **(inputs or {})}, attrs, raises=error, match=match)


test_wrong = table(
    wrong("3, 4 or 5 dimensions", NotImplementedError, real(2, 3)),
    wrong("interp_method", interp_method="linear", out_h=2, out_w=2),
    wrong("interp_method", x=real(2, 3, 4), out_w=2),
    wrong("greater than 0"),
    wrong("greater than 0", out_h=2, out_w=-3),
    wrong("greater than 0", scale=0.1),
    wrong("greater than 0", op="bilinear_interp_v2", scale=[2.0, -1.0]),
    wrong("one number or one per axis", op="bilinear_interp_v2", scale=[2.0, 1.0, 3.0]),
    wrong("SizeTensor", inputs={"SizeTensor": [np.int32([3])]}),
    wrong("OutSize", inputs={"OutSize": np.int32([3, 4, 5])}),
    wrong("OutSize", inputs={"OutSize": np.int32([3, 0])}),
    wrong("Scale", inputs={"Scale": np.int32([3])}),
    wrong("", (MemoryError, ValueError), out_h=2**31 - 1, out_w=2**31 - 1),
    wrong("elements", x=real(2, 3, 0, 4), out_h=2, out_w=4),
    wrong("int32", NotImplementedError, x=ints(2, 3, 4, 4).astype("int32"), out_h=2, out_w=2),
)
