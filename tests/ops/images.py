"""Windows over images and volumes in numpy, shared by the cases of convolution and pooling."""

import numpy as np


def pads(size, kernel, strides, paddings, algorithm):
    """(before, after) of each axis."""
    if algorithm == "VALID":
        return [(0, 0)] * len(size)
    if algorithm == "SAME":
        total = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(size, kernel, strides, strict=True)]
        return [(t // 2, t - t // 2) for t in total]
    if len(paddings) == len(size):
        return [(p, p) for p in paddings]
    return list(zip(paddings[::2], paddings[1::2], strict=True))


def is_last(data_format):
    return data_format.endswith("C")


def channels_second(x, data_format):
    return np.moveaxis(x, -1, 1) if is_last(data_format) else x


def as_given(y, data_format):
    return np.moveaxis(y, 1, -1) if is_last(data_format) else y


def taps(x, out, kernel, strides, dilations):
    """Yields (filter tap, the elements of padded x that the outputs multiply with it)."""
    for tap in np.ndindex(*kernel):
        at = [slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in zip(tap, dilations, strides, out, strict=True)]
        yield tap, (slice(None), slice(None), *at)


def conv(
    x,
    w,
    bias=None,
    strides=(1, 1),
    paddings=(0, 0),
    dilations=(1, 1),
    groups=1,
    data_format="NCHW",
    padding_algorithm="EXPLICIT",
):
    """Convolution of images with any number of axes."""
    x = channels_second(x, data_format)
    kernel = w.shape[2:]
    if padding_algorithm == "SAME":
        dilations = [1] * len(kernel)
    p = pads(x.shape[2:], kernel, strides, paddings, padding_algorithm)
    x = np.pad(x, [(0, 0), (0, 0), *p])
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    # C++ division: a filter that is too large by less than a stride has one output, over zeros after the input
    out = [int((n - r) / s) + 1 for n, r, s in zip(x.shape[2:], reach, strides, strict=True)]
    x = np.pad(x, [(0, 0), (0, 0), *[(0, max(r - n, 0)) for n, r in zip(x.shape[2:], reach, strict=True)]])
    y = np.zeros((x.shape[0], w.shape[0], *out))
    per_in, per_out = w.shape[1], w.shape[0] // groups
    for tap, at in taps(x, out, kernel, strides, dilations):
        for g in range(groups):
            part = x[at][:, g * per_in : (g + 1) * per_in]
            filters = w[(slice(g * per_out, (g + 1) * per_out), slice(None), *tap)]
            y[:, g * per_out : (g + 1) * per_out] += np.einsum("oc,nc...->no...", filters, part)
    if bias is not None:
        y += bias.reshape(1, -1, *[1] * len(kernel))
    return as_given(y, data_format)


def conv_transpose(
    x,
    w,
    bias=None,
    strides=(1, 1),
    paddings=(0, 0),
    dilations=(1, 1),
    groups=1,
    output_size=(),
    output_padding=(),
    data_format="NCHW",
    padding_algorithm="EXPLICIT",
):
    """Transposed convolution: each element of x adds the filters, scaled, to a window of the result."""
    x = channels_second(x, data_format)
    kernel, size = w.shape[2:], x.shape[2:]
    if padding_algorithm == "SAME":
        dilations = [1] * len(kernel)
    p = pads(size, kernel, strides, paddings, padding_algorithm)
    full = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(size, strides, dilations, kernel, strict=True)]
    out = [n - a - b for n, (a, b) in zip(full, p, strict=True)]
    out = list(output_size) or [n + m for n, m in zip(out, output_padding or [0] * len(out), strict=True)]
    y = np.zeros(
        (
            x.shape[0],
            w.shape[1] * groups,
            *[n + a + s + d for n, (a, _), s, d in zip(full, p, strides, dilations, strict=True)],
        )
    )
    per_in, per_out = w.shape[0] // groups, w.shape[1]
    for tap, at in taps(y, size, kernel, strides, dilations):
        for g in range(groups):
            filters = w[(slice(g * per_in, (g + 1) * per_in), slice(None), *tap)]
            part = np.einsum("co,nc...->no...", filters, x[:, g * per_in : (g + 1) * per_in])
            y[at][:, g * per_out : (g + 1) * per_out] += part
    y = y[(slice(None), slice(None), *[slice(a, a + n) for n, (a, _) in zip(out, p, strict=True)])]
    if bias is not None:
        y = y + bias.reshape(1, -1, *[1] * len(kernel))
    return as_given(y, data_format)
