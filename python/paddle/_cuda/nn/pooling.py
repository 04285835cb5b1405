"""Maximum and average pooling over two and three axes with their gradients, unpool and spp: a thread per window, in
gradients a thread per element of the input (of maxima over two axes four), which visits its windows in order; averages
of whole images are sums of rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..call import Call, Declined, ctype, same_dtype
from ..halves import wide_only
from ..math.reduction import reduce
from ..units import FLOATS, Unit, instances
from .patches import lead, paddings, turned

SOURCE = r"""
struct Axis {
    int size, out, kernel, stride, pad, after, adaptive;
    // The elements [from, to) of window o, and how many an average counts with padding.
    __device__ void window(int o, int& from, int& to, int& all) const {
        if (adaptive) {
            from = (int)((i64)o * size / out);
            to = (int)(((i64)(o + 1) * size + out - 1) / out);
            all = to - from;
            return;
        }
        int start = o * stride - pad, end = start + kernel;
        if (end > size + after) end = size + after;
        all = end - start;
        from = start < 0 ? 0 : start;
        to = end > size ? size : end;
    }
    // Windows before `first` and from `last` on do not contain element i.
    __device__ void windows(int i, int& first, int& last) const {
        if (adaptive) {
            first = (int)((i64)i * out / size);
            last = (int)(((i64)(i + 1) * out + size - 1) / size);
            if (last > out) last = out;
            return;
        }
        first = i + pad < kernel ? 0 : (i + pad - kernel) / stride + 1;
        last = (i + pad) / stride + 1;
        if (last > out) last = out;
    }
};
#define AXES int D, int H, int W, int od, int oh, int ow, int kd, int kh, int kw, int sd, int sh, int sw, int pd, \
             int ph, int pw, int ad, int ah, int aw, int adaptive
#define MAKE_AXES Axis z = {D, od, kd, sd, pd, ad, adaptive}, y = {H, oh, kh, sh, ph, ah, adaptive}, \
                       v = {W, ow, kw, sw, pw, aw, adaptive}

// A block is lanes x rows x planes. A thread has one place (row, column) of planes of `height` x `width`, and visits
// several planes there, so that the windows of the place are computed once.
struct Place {
    int row, column;
    i64 plane, step;
    __device__ Place(int height, int width, int lanes, int rows) {
        int across = (width + lanes - 1) / lanes, t = threadIdx.x / lanes, depth = blockDim.x / (lanes * rows);
        column = blockIdx.x % across * lanes + (threadIdx.x & (lanes - 1));
        row = blockIdx.x / across * rows + (t & (rows - 1));
        plane = (i64)blockIdx.y * depth + t / rows;
        step = (i64)gridDim.y * depth;
    }
};

// What a pool makes of the elements of a window, in their order. `count`: the size of the window. As in 2.0.2 NaN
// replaces the maximum so far and is replaced by the next element (Most), or is ignored (MostPlace).
template <typename A, bool Ignores> struct Maximum {
    A most = A(-3.402823466e+38);
    int place = -1;  // of the first element that is the maximum
    __device__ __forceinline__ void add(A value, int at) {
        if (Ignores ? most < value : !(most >= value)) {
            most = value;
            place = value == value ? at : -1;
        } else if (place < 0 && most == value) {
            place = at;
        }
    }
    __device__ __forceinline__ A result(i64) const { return most; }
    __device__ __forceinline__ void write(int* at, i64 to) const {
        if (at) at[to] = place;
    }
};
template <typename A> struct Most : Maximum<A, false> {};
template <typename A> struct MostPlace : Maximum<A, true> {};
template <typename A> struct Mean {
    A sum = A(0);
    __device__ __forceinline__ void add(A value, int) { sum += value; }
    __device__ __forceinline__ A result(i64 count) const { return sum / A(count); }
    __device__ __forceinline__ void write(int*, i64) const {}
};

// at (of maxima, may be null): the position of the maximum in its image.
template <typename T, template <typename> class Op> __global__ void pool(const T* x, T* out, int* at, int exclusive,
                                                                         int images, AXES, int lanes, int rows) {
    typedef typename acc<T>::type A;
    MAKE_AXES;
    Place here(oh, ow, lanes, rows);
    if (here.row >= oh || here.column >= ow) return;
    int z0 = 0, z1 = 1, y0, y1, v0, v1, az = 1, ay, av;
    y.window(here.row, y0, y1, ay);
    v.window(here.column, v0, v1, av);
    for (i64 n = here.plane; n < (i64)images * od; n += here.step) {
        i64 image = n;
        if (D > 1 || od > 1) {
            image = n / od;
            z.window((int)(n - image * od), z0, z1, az);
        }
        const T* from = x + image * D * H * W;
        Op<A> made;
        for (int a = z0; a < z1; a++)
            for (int b = y0; b < y1; b++)
                for (int c = v0; c < v1; c++) made.add(wide(from[(a * H + b) * W + c]), (a * H + b) * W + c);
        i64 to = (n * oh + here.row) * ow + here.column;
        i64 count = exclusive ? (i64)(z1 - z0) * (y1 - y0) * (v1 - v0) : (i64)az * ay * av;
        out[to] = narrow_to<T>::of(made.result(count));
        made.write(at, to);
    }
}

// Of windows that contain an element: the gradient of those whose maximum it is (at), or their average's share.
template <typename T> __global__ void pool_grad(const int* at, const T* d, T* dx, int exclusive, int images, AXES,
                                                int lanes, int rows) {
    typedef typename acc<T>::type A;
    MAKE_AXES;
    Place here(H, W, lanes, rows);
    if (here.row >= H || here.column >= W) return;
    int z0 = 0, z1 = 1, y0, y1, v0, v1, a = 0;
    y.windows(here.row, y0, y1);
    v.windows(here.column, v0, v1);
    for (i64 n = here.plane; n < (i64)images * D; n += here.step) {
        i64 image = n;
        if (D > 1 || od > 1) {
            image = n / D;
            a = (int)(n - image * D);
            z.windows(a, z0, z1);
        }
        int me = (a * H + here.row) * W + here.column;
        A sum = A(0);
        for (int p = z0; p < z1; p++)
            for (int q = y0; q < y1; q++)
                for (int r = v0; r < v1; r++) {
                    i64 window = ((image * od + p) * oh + q) * ow + r;
                    if (at) {
                        if (at[window] == me) sum += wide(d[window]);
                        continue;
                    }
                    int f0, f1, g0, g1, h0, h1, az, ay, av;
                    z.window(p, f0, f1, az);
                    y.window(q, g0, g1, ay);
                    v.window(r, h0, h1, av);
                    if (a < f0 || a >= f1 || here.row < g0 || here.row >= g1 || here.column < h0 || here.column >= h1)
                        continue;
                    i64 count = exclusive ? (i64)(f1 - f0) * (g1 - g0) * (h1 - h0) : (i64)az * ay * av;
                    sum += wide(d[window]) / A(count);
                }
        dx[(n * H + here.row) * W + here.column] = narrow_to<T>::of(sum);
    }
}

// The gradient of maxima over two axes. A block computes 16 rows and 64 columns of a plane: the places and gradients of
// the windows that contain them are in shared memory, so that x and d are read once, and four elements written at once.
template <typename T> __global__ void max_pool_grad(const T* x, const T* d, T* dx, i64 planes, int H, int W, int oh,
                                                    int ow, int kh, int kw, int sh, int sw, int ph, int pw, int ah,
                                                    int aw) {
    typedef typename acc<T>::type A;
    __shared__ int places[2048];
    __shared__ A grads[2048];
    Axis y = {H, oh, kh, sh, ph, ah, 0}, v = {W, ow, kw, sw, pw, aw, 0};
    int across = (W + 63) / 64;
    int first_row = (int)(blockIdx.x / across) * 16, first_column = (int)(blockIdx.x % across) * 64;
    int q0, q1, r0, r1, other, last_row = first_row + 15 < H ? first_row + 15 : H - 1;
    int last_column = first_column + 63 < W ? first_column + 63 : W - 1;
    y.windows(first_row, q0, other);
    y.windows(last_row, other, q1);
    v.windows(first_column, r0, other);
    v.windows(last_column, other, r1);
    int wide_ = r1 - r0, count = (q1 - q0) * wide_;
    // The four elements of this thread, and the windows that contain one of them.
    int row = first_row + (int)threadIdx.x / 16, column = first_column + (int)threadIdx.x % 16 * 4;
    int end = column + 3 < W ? column + 3 : W - 1, a0 = 0, a1 = 0, b0 = 0, b1 = 0;
    bool mine = row < H && column < W, whole = W % 4 == 0 && aligned(dx);
    if (mine) {
        y.windows(row, a0, a1);
        v.windows(column, b0, other);
        v.windows(end, other, b1);
    }
    for (i64 n = blockIdx.y; n < planes; n += gridDim.y) {
        const T* from = x + n * H * W;
        for (int k = threadIdx.x; k < count; k += blockDim.x) {
            int q = q0 + k / wide_, r = r0 + k % wide_, y0, y1, v0, v1, all;
            y.window(q, y0, y1, all);
            v.window(r, v0, v1, all);
            Most<A> found;
            for (int b = y0; b < y1; b++)
                for (int c = v0; c < v1; c++) found.add(wide(from[b * W + c]), b * W + c);
            places[k] = found.place;
            grads[k] = wide(d[(n * oh + q) * ow + r]);
        }
        __syncthreads();
        if (mine) {
            A sums[4] = {A(0), A(0), A(0), A(0)};
            int me = row * W + column;
            for (int q = a0; q < a1; q++)
                for (int r = b0; r < b1; r++) {
                    int k = (q - q0) * wide_ + r - r0, at = places[k] - me;
                    A own = grads[k];
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        if (at == e) sums[e] += own;
                }
            T* to = dx + n * H * W + me;
            Pack<T, 4> made;
#pragma unroll
            for (int e = 0; e < 4; e++) made.v[e] = narrow_to<T>::of(sums[e]);
            if (whole) {
                write_pack<4>(to, made);
            } else {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (column + e < W) to[e] = made.v[e];
            }
        }
        __syncthreads();
    }
}
"""
UNIT = Unit(
    "pooling",
    SOURCE,
    instances("pool", FLOATS, ("Most", "MostPlace", "Mean"))
    + instances("pool_grad", FLOATS)
    + instances("max_pool_grad", FLOATS),
)
_BLOCK = 256
# Blocks that keep a device busy; more planes are visited by a thread one after the other.
_BLOCKS = 4096
_LARGEST = 2**31
# Rows and columns that a block of max_pool_grad computes, and the windows in its shared memory.
_TILE, _WINDOWS = (16, 64), 2048


class Pool:
    """The geometry of a pooling of x, whose result has `out_shape`."""

    def __init__(self, call: Call, x_shape, out_shape, kernel=None, stride=None, pads=None) -> None:
        a, self.call = call.attrs, call
        self.last = a.get("data_format") in ("NHWC", "NDHWC")
        size = tuple(x_shape[1:-1] if self.last else x_shape[2:])
        out = tuple(out_shape[1:-1] if self.last else out_shape[2:])
        self.exclusive = bool(a.get("exclusive", True))
        adaptive = bool(a.get("adaptive"))
        if kernel is None:
            kernel, stride = tuple(a["ksize"]), tuple(a["strides"])
            pads = [(0, 0)] * len(size) if adaptive else paddings(a, size, kernel, stride)
        if a.get("global_pooling"):
            kernel, pads = size, [(0, 0)] * len(size)
        self.size, self.out = size, out
        parts = (size, out, kernel, stride, [p for p, _ in pads], [p for _, p in pads])
        numbers = [v for i, part in enumerate(parts) for v in lead(tuple(part), 0 if i > 3 else 1)]
        self.numbers = [*numbers, int(adaptive)]
        #: elements of an image and of its result
        self.elements = (math.prod(size), math.prod(out))
        #: a window is a whole image
        self.whole = adaptive or (tuple(kernel) == size and not any(v for p in pads for v in p))

    def first(self, x):
        if not self.last:
            return x
        n, *size, channels = x.shape
        return turned(self.call, x, math.prod(size), channels, (n, channels, *size))

    def back(self, x):
        if not self.last:
            return x
        n, channels, *size = x.shape
        return turned(self.call, x, channels, math.prod(size), (n, *size, channels))

    def _launch(self, kernel: str, planes: int, size, *args) -> None:
        """Start a kernel with a thread for each place of planes of `size`."""
        height, width = lead(tuple(size), 1)[1:]
        if planes >= _LARGEST or max(self.elements) >= _LARGEST:
            raise Declined
        lanes = _power(width, _BLOCK)
        rows = _power(height, _BLOCK // lanes)
        places = -(-width // lanes) * -(-height // rows)
        deep = -(-planes // (_BLOCK // lanes // rows))
        grid = (places, min(deep, 65535, max(1, _BLOCKS // places)))
        numbers = map(np.int32, (*self.numbers, lanes, rows))
        self.call.launch(UNIT, kernel, grid, _BLOCK, *args, *numbers)

    def _pooled(self, x, op: str, positions: bool = False):
        """The results of windows and (None without `positions`) the positions of maxima, channels first."""
        shape = (*x.shape[:2], *self.out)
        out, at = self.call.empty(shape, x.dtype), self.call.empty(shape, "int32") if positions else None
        images = x.shape[0] * x.shape[1]
        planes = images * (1 if len(self.out) == 2 else self.out[0])
        given = (x, out, np.uint64(0) if at is None else at, np.int32(self.exclusive), np.int32(images))
        self._launch(f"pool<{ctype(x, FLOATS)}, {op}>", planes, self.out, *given)
        return out, at

    def maxima(self, x, positions: bool = False, kind: str = "Most"):
        return self._pooled(x, kind, positions)

    def averages(self, x):
        size = math.prod(self.size)
        if math.prod(self.out) == 1 and self.whole and size >= 16:
            return reduce(self.call, x.reshape(-1, size), [1], "Sum", size).reshape(*x.shape[:2], *self.out)
        return self._pooled(x, "Mean")[0]

    def maxima_grad(self, x, d):
        """The gradient of x from that of its maxima."""
        if len(self.size) == 2 and not self.numbers[-1]:
            made = self._tiled(x, d)
            if made is not None:
                return made
        return self.grad(d, self.maxima(x, True)[1])

    def _tiled(self, x, d):
        """The same of two axes; None if the windows of a tile are too many or the image is too large."""
        parts = [self.numbers[i : i + 3][1:] for i in range(0, 18, 3)]
        (height, width), _, kernel, stride, _, _ = parts
        near = [(t + k - 2) // s + 1 for t, k, s in zip(_TILE, kernel, stride, strict=True)]
        planes = x.shape[0] * x.shape[1]
        if near[0] * near[1] > _WINDOWS or max(self.elements) >= _LARGEST:
            return None
        dx = self.call.empty(x.shape, x.dtype)
        grid = -(-height // _TILE[0]) * -(-width // _TILE[1]), min(planes, 65535)
        numbers = np.int64(planes), *(np.int32(v) for part in parts for v in part)
        self.call.launch(UNIT, f"max_pool_grad<{ctype(x, FLOATS)}>", grid, _BLOCK, x, d, dx, *numbers)
        return dx

    def grad(self, d, at=None):
        """The gradient of x; `at` are the positions of maxima, None for averages."""
        dx = self.call.empty((*d.shape[:2], *self.size), d.dtype)
        images = d.shape[0] * d.shape[1]
        planes = images * (1 if len(self.size) == 2 else self.size[0])
        at = np.uint64(0) if at is None else at
        given = (at, d, dx, np.int32(self.exclusive), np.int32(images))
        self._launch(f"pool_grad<{ctype(d, FLOATS)}>", planes, self.size, *given)
        return dx


def _power(n: int, most: int) -> int:
    """The least power of two that is at least n, at most `most`, which is one."""
    return min(most, 1 << max(0, n - 1).bit_length())


def _floats(call: Call, *slots: str) -> list:
    """Operands of one floating-point type with elements."""
    arrays = [call.array(slot) for slot in slots]
    same_dtype(*arrays)
    ctype(arrays[0], FLOATS)
    if any(v.size == 0 for v in arrays):
        raise Declined
    return arrays


def _pool(call: Call) -> dict:
    (x,) = _floats(call, "X")
    pool = Pool(call, x.shape, call.shape("Out"))
    x = pool.first(x)
    out = pool.maxima(x)[0] if call.attrs["pooling_type"] == "max" else pool.averages(x)
    return {"Out": pool.back(out)}


def _pool_grad(call: Call) -> dict:
    x, d = _floats(call, "X", "Out@GRAD")
    pool = Pool(call, x.shape, d.shape)
    d = pool.first(d)
    dx = pool.maxima_grad(pool.first(x), d) if call.attrs["pooling_type"] == "max" else pool.grad(d)
    return {"X@GRAD": pool.back(dx)}


def _indexed(call: Call) -> dict:
    (x,) = _floats(call, "X")
    out, at = Pool(call, x.shape, call.shape("Out")).maxima(x, True, "MostPlace")
    kind = call.dtype("Mask")
    return {"Out": out, "Mask": at if at.dtype.name == kind else at.astype(kind)}


def _indexed_grad(call: Call) -> dict:
    (d,), shape, at = _floats(call, "Out@GRAD"), tuple(call.ins["X"].shape), call.array("Mask")
    at = at if at.dtype.name == "int32" else at.astype("int32")
    return {"X@GRAD": Pool(call, shape, d.shape).grad(d, at)}


def _places(call: Call, shape, indices):
    """Flat positions of an unpool's elements in `shape`; and for each position of it the last element that goes there,
    and whether there is one."""
    xp, rows, plane = call.xp, shape[0] * shape[1], int(np.prod(shape[2:]))
    at = xp.clip(indices.reshape(rows, -1).astype("int64"), 0, plane - 1)
    flat = (at + xp.arange(rows).reshape(-1, 1) * plane).reshape(-1)
    order = xp.argsort(flat, kind="stable")
    ranked, wanted = flat[order], xp.arange(rows * plane)
    ends = xp.searchsorted(ranked, wanted, side="right")
    source = order[xp.clip(ends - 1, 0, flat.size - 1)]
    return flat, source, (ends > 0) & (flat[source] == wanted)


def _unpool(call: Call) -> dict:
    (x,), xp, shape = call.filled("X"), call.xp, call.shape("Out")
    _, source, hit = _places(call, shape, call.array("Indices"))
    return {"Out": xp.where(hit, x.reshape(-1)[source], x.dtype.type(0)).reshape(shape)}


def _unpool_grad(call: Call) -> dict:
    (d,), xp, indices = call.filled("Out@GRAD"), call.xp, call.array("Indices")
    flat, source, _ = _places(call, d.shape, indices)
    last = source[flat] == xp.arange(flat.size)
    return {"X@GRAD": xp.where(last, d.reshape(-1)[flat], d.dtype.type(0)).reshape(call.ins["X"].shape)}


def _levels(call: Call, shape):
    """The pools of a pyramid, with the columns of its result that each fills."""
    c, start, found = shape[1], 0, []
    for level in range(call.attrs["pyramid_height"]):
        bins = 2**level
        kernel = [-(-n // bins) for n in shape[2:]]
        pads = [((k * bins - n + 1) // 2,) * 2 for k, n in zip(kernel, shape[2:], strict=True)]
        pool = Pool(call, shape, (*shape[:2], bins, bins), kernel, kernel, pads)
        found.append((pool, bins, slice(start, start + c * bins * bins)))
        start += c * bins * bins
    return found


def _spp(call: Call) -> dict:
    (x,) = call.filled("X")
    most, parts = call.attrs["pooling_type"] == "max", []
    for pool, _, _ in _levels(call, x.shape):
        parts.append((pool.maxima(x)[0] if most else pool.averages(x)).reshape(x.shape[0], -1))
    return {"Out": call.xp.concatenate(parts, 1)}


def _spp_grad(call: Call) -> dict:
    x, d = call.filled("X", "Out@GRAD")
    most, total = call.attrs["pooling_type"] == "max", None
    for pool, bins, columns in _levels(call, x.shape):
        part = call.xp.ascontiguousarray(d[:, columns]).reshape(*x.shape[:2], bins, bins)
        g = pool.grad(part, pool.maxima(x, True)[1] if most else None)
        total = g if total is None else total + g
    return {"X@GRAD": total}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    **dict.fromkeys(("pool2d", "pool3d"), _pool),
    **dict.fromkeys(("pool2d_grad", "pool3d_grad"), _pool_grad),
    **dict.fromkeys(("max_pool2d_with_index", "max_pool3d_with_index"), _indexed),
    **dict.fromkeys(("max_pool2d_with_index_grad", "max_pool3d_with_index_grad"), _indexed_grad),
    "unpool": wide_only(_unpool),
    "unpool_grad": wide_only(_unpool_grad),
    "spp": wide_only(_spp),
    "spp_grad": wide_only(_spp_grad),
}
