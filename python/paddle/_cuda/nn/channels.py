"""Statistics and affine functions of channels: kernels of the batch normalizations.

x is [outer, channels, inner], or [outer, channels] (channels last). A channel is reduced by many blocks, each of which
writes a partial result; a warp joins those of a channel. The order of all sums is fixed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..call import Call, Declined, ctype
from ..units import FLOATS, Unit, instances

SOURCE = r"""
template <typename T> struct alignas(4 * sizeof(T)) Four { T v[4]; };
template <typename T> __device__ __forceinline__ bool aligned(const T* p) { return (size_t)p % (4 * sizeof(T)) == 0; }

// Number, mean and sum of squared differences from the mean of what a thread has seen (Chan, Golub, LeVeque 1979:
// "Updating formulae and a pairwise algorithm for computing sample variances"). Values are collected about the mean so
// far.
template <typename A> struct Moments {
    static const bool gradient = false;
    static const int size = 3;
    A n, mean, squares, count, sum, dot;
    __device__ void start(const A*, int, A first) { n = squares = count = sum = dot = A(0), mean = first; }
    __device__ void value(A x, A) {
        x -= mean;
        sum += x, dot += x * x, count += A(1);
    }
    __device__ void join(A m, A with, A more) {
        if (m == A(0)) return;
        A total = n + m, d = with - mean, part = m / total;
        squares += more + d * d * n * part;
        mean += d * part;
        n = total;
    }
    __device__ void flush() {
        if (count == A(0)) return;
        A by = sum / count;
        join(count, mean + by, dot - sum * by);
        count = sum = dot = A(0);
    }
    __device__ void join(const Moments& b) { join(b.n, b.mean, b.squares); }
    __device__ A get(int i) const { return i == 0 ? n : i == 1 ? mean : squares; }
    __device__ void set(A a, A b, A c) { n = a, mean = b, squares = c; }
};

// The sums of d and of d * (x - mean).
template <typename A> struct Dots {
    static const bool gradient = true;
    static const int size = 2;
    A sum, dot, mean;
    __device__ void start(const A* means, int c, A) { sum = dot = A(0), mean = means ? means[c] : A(0); }
    __device__ void value(A x, A d) { sum += d, dot += d * (x - mean); }
    __device__ void flush() {}
    __device__ void join(const Dots& b) { sum += b.sum, dot += b.dot; }
    __device__ A get(int i) const { return i == 0 ? sum : dot; }
    __device__ void set(A a, A b, A) { sum = a, dot = b; }
};

// Joins the results of the threads of a block whose numbers are equal modulo `lanes`; threads below `lanes` get them.
template <typename A, typename R> __device__ void join_block(R& r, int lanes) {
    __shared__ A parts[R::size][256];
    for (int i = 0; i < R::size; i++) parts[i][threadIdx.x] = r.get(i);
    __syncthreads();
    for (int half = blockDim.x / 2; half >= lanes; half /= 2) {
        if ((int)threadIdx.x < half) {
            int at = threadIdx.x + half;
            R other;
            other.set(parts[0][at], parts[1][at], parts[R::size - 1][at]);
            r.join(other);
            for (int i = 0; i < R::size; i++) parts[i][threadIdx.x] = r.get(i);
        }
        __syncthreads();
    }
}

// Activations: 1 relu, 2 tanh, 3 sigmoid, 4 leaky_relu, 5 elu.
template <typename A> __device__ __forceinline__ A activated(int act, A alpha, A v) {
    switch (act) {
        case 1: return v > A(0) || v != v ? v : A(0);
        case 2: return tanh(v);
        case 3: return A(1) / (A(1) + exp(-v));
        case 4: return v > A(0) ? v : v * alpha;
        case 5: return v > A(0) ? v : alpha * (exp(v) - A(1));
        default: return v;
    }
}
// The gradient before the activation, from its result y and the gradient d of that.
template <typename A> __device__ __forceinline__ A before(int act, A y, A d) {
    switch (act) {
        case 1: return y > A(0) ? d : A(0);
        case 2: return d * (A(1) - y * y);
        case 3: return d * y * (A(1) - y);
        default: return d;
    }
}

// The element of R from one of x, d and y (of which only gradients are read).
template <typename R, typename T> __device__ __forceinline__ void collect(R& r, T x, T d, T y, int act) {
    typedef typename acc<T>::type A;
    A by = R::gradient ? wide(d) : A(0);
    r.value(wide(x), R::gradient && act ? before(act, A(wide(y)), by) : by);
}

// Block (part, channel): images [first, last) and elements [from, to) of their planes. `lanes` threads read a plane.
// With channels last (inner is 1): block (part, channels), rows [first, last), a channel per lane.
template <typename T, typename R, bool Last> __global__ void channel_parts(const T* x, const T* d, const T* y, int act,
        const typename acc<T>::type* mean, typename acc<T>::type* out, int outer, int channels, int inner, int lanes,
        int slices, int images, int slice) {
    typedef typename acc<T>::type A;
    int lane = threadIdx.x & (lanes - 1), row = threadIdx.x / lanes, rows = blockDim.x / lanes, part = blockIdx.x;
    int first = (Last ? part : part / slices) * images, last = min(first + images, outer);
    int from = Last ? 0 : part % slices * slice, to = Last ? 1 : min(from + slice, inner);
    bool four = !Last && inner % 4 == 0 && aligned(x) && (!R::gradient || aligned(d)) && (!act || aligned(y));
    for (int b = blockIdx.y; b < (Last ? (channels + lanes - 1) / lanes : channels); b += gridDim.y) {
        int own = Last ? b * lanes + lane : b, c = min(own, channels - 1);
        R r;
        i64 start = ((i64)min(first + row, outer - 1) * channels + c) * (Last ? 1 : inner) + from;
        r.start(mean, c, R::gradient ? A(0) : wide(x[start]));
        for (int o = first + row, seen = 1; o < last && own == c; o += rows, seen++) {
            i64 plane = ((i64)o * channels + c) * (Last ? 1 : inner);
            if (four) {
                for (int i = from + lane * 4; i < to; i += lanes * 4) {
                    Four<T> v = *(const Four<T>*)(x + plane + i), g = v, u = v;
                    if (R::gradient) g = *(const Four<T>*)(d + plane + i);
                    if (R::gradient && act) u = *(const Four<T>*)(y + plane + i);
                    for (int k = 0; k < 4; k++) collect(r, v.v[k], g.v[k], u.v[k], act);
                }
            } else {
                for (int i = Last ? 0 : from + lane; i < to; i += Last ? 1 : lanes) {
                    T v = x[plane + i], g = R::gradient ? d[plane + i] : v;
                    collect(r, v, g, R::gradient && act ? y[plane + i] : v, act);
                }
            }
            if (!Last || seen % 16 == 0) r.flush();
        }
        if (Last) r.flush();
        join_block<A, R>(r, Last ? lanes : 1);
        if ((int)threadIdx.x < (Last ? lanes : 1) && own == c)
            for (int i = 0; i < R::size; i++) out[((i64)i * channels + c) * gridDim.x + part] = r.get(i);
        __syncthreads();
    }
}

// A warp joins the partial results of channel c; its first thread gets them.
template <typename A, typename R> __device__ void join_parts(R& r, const A* parts, int c, int channels, int count) {
    r.start((const A*)0, 0, A(0));
    for (int p = threadIdx.x; p < count; p += 32) {
        R other;
        const A* at = parts + (i64)c * count + p;
        i64 step = (i64)channels * count;
        other.set(at[0], at[step], at[(R::size - 1) * step]);
        r.join(other);
    }
    for (int d = 16; d > 0; d >>= 1) {
        A a = __shfl_down_sync(0xffffffffu, r.get(0), d), b = __shfl_down_sync(0xffffffffu, r.get(1), d);
        A e = __shfl_down_sync(0xffffffffu, r.get(R::size - 1), d);
        R other;
        other.set(a, b, e);
        if ((int)threadIdx.x + d < 32) r.join(other);
    }
}

// The factors of y = b * (x - m) + k, in `factors` after the unused one of a gradient. Statistics are those of the
// parts, by which old ones (0 and 1 where null) are updated, or (no parts) the old ones.
template <typename A> __global__ void moments_end(const A* parts, int count, int channels, const A* scale,
        const A* bias, const A* old_mean, const A* old_variance, A* new_mean, A* new_variance, A* mean, A* inverse,
        A* factors, const A* momentum, A keep, A epsilon) {
    int c = blockIdx.x;
    A m, variance;
    if (parts) {
        Moments<A> r;
        join_parts<A>(r, parts, c, channels, count);
        m = r.mean, variance = r.squares / r.n;
        if (momentum) keep = momentum[0];
    }
    if (threadIdx.x) return;
    if (parts) {
        new_mean[c] = (old_mean ? old_mean[c] : A(0)) * keep + m * (A(1) - keep);
        new_variance[c] = (old_variance ? old_variance[c] : A(1)) * keep + variance * (A(1) - keep);
    } else {
        m = old_mean[c], variance = old_variance[c];
    }
    A u = A(1) / sqrt(variance + epsilon);
    mean[c] = m, inverse[c] = u;
    factors[channels + c] = scale[c] * u;
    factors[2 * channels + c] = m;
    factors[3 * channels + c] = bias[c];
}

// Gradients of scale and bias, and the factors of dx = a * d + b * (x - m) + k. `inverse` is 1 / sqrt(variance +
// epsilon), or (null) computed from `variance`; `fixed`: the statistics do not depend on x. With `shift`, x is the
// normalized value times scale plus shift.
template <typename A> __global__ void dots_end(const A* parts, int count, int channels, A n, const A* scale,
        const A* mean, const A* inverse, const A* variance, const A* shift, A epsilon, int fixed, A* dscale, A* dbias,
        A* factors) {
    int c = blockIdx.x;
    Dots<A> r;
    join_parts<A>(r, parts, c, channels, count);
    if (threadIdx.x) return;
    if (dbias) dbias[c] = r.sum;
    if (!scale) return;
    A u = inverse ? inverse[c] : A(1) / sqrt(variance[c] + epsilon), per = shift ? A(1) / scale[c] : u;
    A ds = r.dot * per, a = scale[c] * u;
    if (dscale) dscale[c] = ds;
    factors[c] = a;
    factors[channels + c] = fixed ? A(0) : -a * per * ds / n;
    factors[2 * channels + c] = shift ? shift[c] : mean[c];
    factors[3 * channels + c] = fixed ? A(0) : -a * r.sum / n;
}

// out = activation(b * (x - m) + k + z), or (gradient) a * d + b * (x - m) + k and dz = d, where d is before the
// activation whose result is y. z, dz and (without an activation) y may be null.
template <typename T, bool G> struct Affine {
    typedef typename acc<T>::type A;
    A a, b, m, k;
    __device__ __forceinline__ void load(const A* factors, int channels, int c) {
        a = factors[c], b = factors[channels + c], m = factors[2 * channels + c], k = factors[3 * channels + c];
    }
    // d becomes the gradient before the activation; `other` is z or y, where that is read.
    __device__ __forceinline__ T of(T x, T& d, T other, bool reads, int act, A alpha) const {
        A w = b * (wide(x) - m) + k;
        if (G) {
            A by = wide(d);
            if (act) by = before(act, A(wide(other)), by);
            d = narrow_to<T>::of(by);
            return narrow_to<T>::of(a * by + w);
        }
        if (reads) w += wide(other);
        return narrow_to<T>::of(act ? activated(act, alpha, w) : w);
    }
};
// `lanes` threads write a plane of one channel, or (Last) a channel each of rows of all channels.
template <typename T, bool G, bool Last> __global__ void channel_affine(const T* x, const T* d, const T* other, T* out,
        T* dz, const typename acc<T>::type* factors, int act, typename acc<T>::type alpha, int planes, int channels,
        int inner, int lanes) {
    int lane = threadIdx.x & (lanes - 1), row = threadIdx.x / lanes, rows = blockDim.x / lanes;
    int column = blockIdx.x * lanes + lane;
    if (Last && column >= channels) return;
    bool reads = G ? act != 0 : other != 0;
    bool four = !Last && inner % 4 == 0 && aligned(x) && aligned(out) && (!other || aligned(other)) &&
                (!G || aligned(d) && (!dz || aligned(dz)));
    Affine<T, G> f;
    if (Last) f.load(factors, channels, column);
    for (i64 p = (i64)blockIdx.y * rows + row; p < planes; p += (i64)gridDim.y * rows) {
        if (!Last) f.load(factors, channels, (int)p % channels);
        i64 plane = p * inner;
        if (four) {
            for (int i = column * 4; i < inner; i += gridDim.x * lanes * 4) {
                Four<T> v = *(const Four<T>*)(x + plane + i), g = v, u = v, r;
                if (G) g = *(const Four<T>*)(d + plane + i);
                if (reads) u = *(const Four<T>*)(other + plane + i);
                for (int k = 0; k < 4; k++) r.v[k] = f.of(v.v[k], g.v[k], u.v[k], reads, act, alpha);
                *(Four<T>*)(out + plane + i) = r;
                if (G && dz) *(Four<T>*)(dz + plane + i) = g;
            }
            continue;
        }
        for (i64 i = plane + column; i < plane + inner; i += gridDim.x * lanes) {
            T v = x[i], g = G ? d[i] : v, u = reads ? other[i] : v;
            T r = f.of(v, g, u, reads, act, alpha);
            if (G && dz) dz[i] = g;
            out[i] = r;
            if (Last) break;
        }
    }
}
"""
_WIDE = {"float": "float", "double": "double", "half_t": "float", "bf16_t": "float"}
_BOTH = ("true", "false")
UNIT = Unit(
    "channels",
    SOURCE,
    tuple(f"channel_parts<{t}, {r}<{a}>, {b}>" for t, a in _WIDE.items() for r in ("Moments", "Dots") for b in _BOTH)
    + instances("channel_affine", FLOATS, _BOTH, _BOTH)
    + sum((instances(k, ("float", "double")) for k in ("moments_end", "dots_end")), ()),
)
ACTIVATIONS = {"": 0, "identity": 0, "relu": 1, "tanh": 2, "sigmoid": 3, "leaky_relu": 4, "elu": 5}
_BLOCK = 256
# Blocks of a reduction that keep a device busy, and elements that are worth one.
_BLOCKS, _EACH = 1024, 4096
_NULL = np.uint64(0)


def _power(n: int) -> int:
    """The least power of two that is at least n, at most a block."""
    return min(_BLOCK, 1 << max(0, n - 1).bit_length())


class Channels:
    """x as [outer, channels, inner]; `last`: as [outer, channels]."""

    def __init__(self, call: Call, x, last: bool) -> None:
        self.call, self.x, self.t = call, x, ctype(x, FLOATS)
        if x.size == 0 or x.ndim < 2:
            raise Declined
        self.channels = x.shape[-1] if last else x.shape[1]
        self.outer = math.prod(x.shape[:-1]) if last else x.shape[0]
        self.inner = 1 if last else math.prod(x.shape[2:])
        # Without further axes channels are last, too.
        self.rows = self.inner == 1
        self.count = self.outer * self.inner
        # A step of channel_affine's loop over a plane is up to a quarter of it.
        if max(self.count, self.outer * self.channels) >= 2**31 or self.inner > 2**30:
            raise Declined
        self.a = _WIDE[self.t]
        #: the data type of statistics and parameters
        self.dtype = np.dtype("float64" if self.a == "double" else "float32")

    def parameter(self, slot: str):
        """An input of the type of the statistics, one element a channel."""
        value = self.call.array(slot)
        if value.dtype != self.dtype or value.size != self.channels:
            raise Declined
        return value

    def per_channel(self, times: int = 1):
        return self.call.empty((times * self.channels,) if times > 1 else (self.channels,), self.dtype)

    def _parts(self, of: str, d, y, act: int, mean) -> tuple[Any, int]:
        """The partial results [numbers, channels, parts] of a reduction, and the number of parts."""
        numbers, wanted = 3 if of == "Moments" else 2, max(1, min(_BLOCKS // self.channels, -(-self.count // _EACH)))
        kernel = f"channel_parts<{self.t}, {of}<{self.a}>, {'true' if self.rows else 'false'}>"
        given = (self.x, _or_null(d), _or_null(y), np.int32(act), _or_null(mean))
        sizes: tuple[int, ...]
        if self.rows:
            lanes = min(32, _power(self.channels))
            across = -(-self.channels // lanes)
            wanted = max(1, min(_BLOCKS // across, -(-self.outer // 256)))
            each = -(-self.outer // wanted)
            parts = -(-self.outer // each)
            out = self.call.empty((numbers * self.channels * parts,), self.dtype)
            sizes = (self.outer, self.channels, 1, lanes, 1, each, 1)
            grid = (parts, min(across, 65535))
            self.call.launch(UNIT, kernel, grid, _BLOCK, *given, out, *map(np.int32, sizes))
            return out, parts
        images = -(-self.outer // min(wanted, self.outer))
        along = -(-self.outer // images)
        slices = max(1, min(wanted // along, -(-self.inner // _EACH)))
        slice_ = (self.inner // slices + 4) // 4 * 4
        slices = -(-self.inner // slice_)
        lanes = _power(-(-slice_ // 4) if self.inner % 4 == 0 else min(slice_, self.inner))
        out = self.call.empty((numbers * self.channels * along * slices,), self.dtype)
        sizes = (self.outer, self.channels, self.inner, lanes, slices, images, slice_)
        grid = (along * slices, min(self.channels, 65535))
        self.call.launch(UNIT, kernel, grid, _BLOCK, *given, out, *map(np.int32, sizes))
        return out, along * slices

    def _number(self, value: float):
        return self.dtype.type(value)

    def statistics(self, scale, bias, old, new, momentum, epsilon: float, fixed: bool):
        """Mean and inverse deviation of the channels, or (`fixed`) of the old statistics, and the factors of `affine`.

        `new` are updated by `old` (None: 0 and 1) and those of x; `momentum` is a number or an array of one.
        """
        parts, count = (_NULL, 0) if fixed else self._parts("Moments", None, None, 0, None)
        mean, inverse, factors = self.per_channel(), self.per_channel(), self.per_channel(4)
        given = (parts, np.int32(count), np.int32(self.channels), scale, bias, *map(_or_null, old), *map(_or_null, new))
        is_array = hasattr(momentum, "dtype") and hasattr(momentum, "shape") and momentum.shape != ()
        last = (momentum, self._number(0)) if is_array else (_NULL, self._number(momentum))
        self.call.launch(UNIT, f"moments_end<{self.a}>", self.channels, 32, *given, mean, inverse, factors, *last,
                         self._number(epsilon))  # fmt: skip
        return mean, inverse, factors

    def gradients(
        self, d, scale, mean=None, inverse=None, variance=None, shift=None, epsilon=0.0, fixed=False, y=None, act=0
    ):
        """Gradients of scale and bias, and the factors of `affine_grad`."""
        parts, count = self._parts("Dots", d, y, act, mean if shift is None else shift)
        dscale, dbias, factors = self.per_channel(), self.per_channel(), self.per_channel(4)
        given = (parts, np.int32(count), np.int32(self.channels), self._number(self.count), scale)
        arrays = map(_or_null, (mean, inverse, variance, shift))
        self.call.launch(UNIT, f"dots_end<{self.a}>", self.channels, 32, *given, *arrays, self._number(epsilon),
                         np.int32(fixed), dscale, dbias, factors)  # fmt: skip
        return dscale, dbias, factors

    def sums(self):
        """The sum of each channel, in the type of statistics."""
        parts, count = self._parts("Dots", self.x, None, 0, None)
        sums = self.per_channel()
        none = (_NULL,) * 5
        self.call.launch(UNIT, f"dots_end<{self.a}>", self.channels, 32, parts, np.int32(count),
                         np.int32(self.channels), self._number(1), *none, self._number(0), np.int32(0), _NULL, sums,
                         _NULL)  # fmt: skip
        return sums

    def _affine(self, d, other, dz, factors, act: int, alpha: float, gradient: bool):
        out = self.call.empty(self.x.shape, self.x.dtype)
        flag = "true" if gradient else "false"
        sizes: tuple[int, ...]
        given = (self.x, _or_null(d), _or_null(other), out, _or_null(dz), factors, np.int32(act), self._number(alpha))
        if self.rows:
            lanes = _power(self.channels)
            down = -(-self.outer // (_BLOCK // lanes))
            grid = (-(-self.channels // lanes), min(65535, max(1, down // 4)))
            sizes = (self.outer, self.channels, self.channels, lanes)
        else:
            units = -(-self.inner // 4) if self.inner % 4 == 0 else self.inner
            lanes = _power(units)
            planes = self.outer * self.channels
            grid = (max(1, units // (lanes * 4)), min(65535, -(-planes // (_BLOCK // lanes))))
            sizes = (planes, self.channels, self.inner, lanes)
        kernel = f"channel_affine<{self.t}, {flag}, {'true' if self.rows else 'false'}>"
        self.call.launch(UNIT, kernel, grid, _BLOCK, *given, *map(np.int32, sizes))
        return out

    def affine(self, factors, z=None, act: int = 0, alpha: float = 0.0):
        """activation(b * (x - m) + k + z)"""
        return self._affine(None, z, None, factors, act, alpha, False)

    def affine_grad(self, d, factors, y=None, act: int = 0, dz=None):
        """a * d + b * (x - m) + k, where d is the gradient before the activation, which is written to dz."""
        return self._affine(d, y if act else None, dz, factors, act, 0.0, True)


def _or_null(array):
    return _NULL if array is None else array
