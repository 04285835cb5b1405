"""correlation: similarity of patches of one feature map with displaced patches of another; a thread per result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..call import Call, Declined, ctype
from ..units import REALS, Unit, grid_of, instances

SOURCE = r"""
#define SIZES i64 images, i64 channels, i64 H, i64 W, i64 rows, i64 columns, i64 pad, i64 kernel, \
              i64 most, i64 stride, i64 step

template <typename T> __global__ void correlate(const T* x, const T* y, T* out, SIZES) {
    i64 radius = most / step, side = 2 * radius + 1, reach = (kernel - 1) / 2;
    i64 n = images * side * side * rows * columns;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 column = i % columns, row = i / columns % rows, k = i / (columns * rows) % (side * side);
        i64 image = i / (columns * rows * side * side);
        i64 down = (k / side - radius) * step, right = (k % side - radius) * step;
        i64 top = row * stride + most - pad, left = column * stride + most - pad;
        T sum = T(0);
        for (i64 c = image * channels; c < (image + 1) * channels; c++)
            for (i64 a = top - reach; a <= top + reach; a++)
                for (i64 b = left - reach; b <= left + reach; b++) {
                    i64 p = a + down, q = b + right;
                    if (a < 0 || a >= H || b < 0 || b >= W || p < 0 || p >= H || q < 0 || q >= W) continue;
                    sum += x[(c * H + a) * W + b] * y[(c * H + p) * W + q];
                }
        out[i] = sum / T(kernel * kernel * channels);
    }
}

// The gradient of the first input (sign 1), of which `other` is the second one, or the reverse (sign -1).
template <typename T> __global__ void correlate_back(const T* d, const T* other, T* grad, int sign, SIZES) {
    i64 radius = most / step, side = 2 * radius + 1, reach = (kernel - 1) / 2, n = images * channels * H * W;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 v = i % W, u = i / W % H, c = i / (W * H), image = c / channels;
        T sum = T(0);
        for (i64 k = 0; k < side * side; k++) {
            i64 down = (k / side - radius) * step, right = (k % side - radius) * step;
            // The other element of the pair, and the place of the first one.
            i64 p = u + sign * down, q = v + sign * right, a = sign > 0 ? u : p, b = sign > 0 ? v : q;
            if (p < 0 || p >= H || q < 0 || q >= W) continue;
            T pairs = T(0);
            for (i64 s = a - reach; s <= a + reach; s++) {
                i64 row = s - most + pad;
                if (row < 0 || row % stride || row / stride >= rows) continue;
                for (i64 t = b - reach; t <= b + reach; t++) {
                    i64 column = t - most + pad;
                    if (column < 0 || column % stride || column / stride >= columns) continue;
                    pairs += d[((image * side * side + k) * rows + row / stride) * columns + column / stride];
                }
            }
            sum += pairs * other[(c * H + p) * W + q];
        }
        grad[i] = sum / T(kernel * kernel * channels);
    }
}
"""
UNIT = Unit("correlation", SOURCE, instances("correlate", REALS) + instances("correlate_back", REALS))


def _sizes(call: Call, x, out_shape) -> list[np.int64]:
    a = call.attrs
    more = (a["pad_size"], a["kernel_size"], a["max_displacement"], a["stride1"], a["stride2"])
    return [np.int64(v) for v in (*x.shape, *out_shape[2:], *more)]


def _forward(call: Call) -> dict:
    x, y = call.filled("Input1", "Input2")
    if x.shape != y.shape:
        raise Declined
    out = call.out("Output")
    if out.size:
        kernel = f"correlate<{ctype(x, REALS)}>"
        call.launch(UNIT, kernel, grid_of(out.size), 256, x, y, out, *_sizes(call, x, out.shape))
    return {"Output": out}


def _backward(call: Call) -> dict:
    x, y, d = call.filled("Input1", "Input2", "Output@GRAD")
    if x.shape != y.shape:
        raise Declined
    made, kernel = {}, f"correlate_back<{ctype(x, REALS)}>"
    for slot, other, sign in (("Input1@GRAD", y, 1), ("Input2@GRAD", x, -1)):
        if call.wanted[slot]:
            grad = made[slot] = call.empty(x.shape, x.dtype)
            sizes = _sizes(call, x, d.shape)
            call.launch(UNIT, kernel, grid_of(x.size), 256, d, other, grad, np.int32(sign), *sizes)
    return made


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"correlation": _forward, "correlation_grad": _backward}
