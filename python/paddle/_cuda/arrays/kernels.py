"""Kernels of arrays of any strides: elementwise functions chosen by number, selection, gathering, sorting, scanning."""

from __future__ import annotations

from ..units import KINDS, Unit, instances

#: numbers of elementwise functions: of one operand, of two, comparisons
ONE = {
    name: i
    for i, name in enumerate(
        """negative absolute sign invert floor ceil rint trunc exp log log1p expm1 log2 sqrt sin cos tanh""".split()
    )
}
TWO = {
    name: i
    for i, name in enumerate(
        """add subtract multiply divide maximum minimum fmax fmin power floor_divide remainder bitwise_and bitwise_or
        bitwise_xor left_shift right_shift""".split()
    )
}
COMPARED = {name: i for i, name in enumerate("less less_equal greater greater_equal equal not_equal".split())}
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "i64"}
SCANNED = ("float", "double", "int", "i64")

SOURCE = r"""
template <typename T> struct kind { static const bool floating = false, logical = false; };
template <> struct kind<float> { static const bool floating = true, logical = false; };
template <> struct kind<double> { static const bool floating = true, logical = false; };
template <> struct kind<bool> { static const bool floating = false, logical = true; };

template <bool Floating> struct functions {
    template <typename T> static __device__ T one(int op, T x) {
        switch (op) {
            case 0: return T(-x);
            case 1: return x < T(0) ? T(-x) : x;
            case 2: return T((x > T(0)) - (x < T(0)));
            case 3: return T(~(i64)x);
            default: return x;
        }
    }
    template <typename T> static __device__ T power(T x, T y) {
        T result = T(1);
        for (; y > T(0); y = T(y / 2), x = T(x * x))
            if (y % 2) result = T(result * x);
        return result;
    }
    template <typename T> static __device__ T remainder(T x, T y) {
        if (y == T(0)) return T(0);
        T r = T(x % y);
        return r != T(0) && (r < T(0)) != (y < T(0)) ? T(r + y) : r;
    }
    template <typename T> static __device__ T quotient(T x, T y) {
        return y == T(0) ? T(0) : T((x - remainder(x, y)) / y);
    }
    template <typename T> static __device__ T bits(int op, T x, T y) {
        switch (op) {
            case 11: return T((i64)x & (i64)y);
            case 12: return T((i64)x | (i64)y);
            case 13: return T((i64)x ^ (i64)y);
            case 14: return T((i64)x << (i64)y);
            default: return T((i64)x >> (i64)y);
        }
    }
};
template <> struct functions<true> {
    template <typename T> static __device__ T one(int op, T x) {
        switch (op) {
            case 0: return -x;
            case 1: return fabs(x);
            case 2: return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;
            case 4: return floor(x);
            case 5: return ceil(x);
            case 6: return rint(x);
            case 7: return trunc(x);
            case 8: return exp(x);
            case 9: return log(x);
            case 10: return log1p(x);
            case 11: return expm1(x);
            case 12: return log2(x);
            case 13: return sqrt(x);
            case 14: return sin(x);
            case 15: return cos(x);
            case 16: return tanh(x);
            default: return x;
        }
    }
    template <typename T> static __device__ T power(T x, T y) { return pow(x, y); }
    template <typename T> static __device__ T remainder(T x, T y) {
        T r = fmod(x, y);
        return r != T(0) && (r < T(0)) != (y < T(0)) ? r + y : r;
    }
    template <typename T> static __device__ T quotient(T x, T y) {
        T q = (x - fmod(x, y)) / y, r = fmod(x, y);
        if (r != T(0) && (r < T(0)) != (y < T(0))) q -= T(1);
        T whole = floor(q);
        return q - whole > T(0.5) ? whole + T(1) : whole;
    }
    template <typename T> static __device__ T bits(int, T x, T) { return x; }
};

template <typename T> __device__ T of_two(int op, T x, T y) {
    typedef functions<kind<T>::floating> F;
    switch (op) {
        case 0: return T(x + y);
        case 1: return T(x - y);
        case 2: return T(x * y);
        case 3: return T(x / y);
        case 4: return y > x || y != y ? y : x;
        case 5: return y < x || y != y ? y : x;
        case 6: return x != x || y > x ? y : x;
        case 7: return x != x || y < x ? y : x;
        case 8: return F::power(x, y);
        case 9: return F::quotient(x, y);
        case 10: return F::remainder(x, y);
        default: return F::bits(op, x, y);
    }
}
template <> __device__ bool of_two(int op, bool x, bool y) {
    bool all = op == 2 || op == 5 || op == 7 || op == 11, differ = op == 13;
    return differ ? x != y : all ? x && y : x || y;
}
template <typename T> __device__ T of_one(int op, T x) { return functions<kind<T>::floating>::one(op, x); }
template <> __device__ bool of_one(int op, bool x) { return op == 3 ? !x : x; }

// The operands of an element: places of arrays, or (of those that are null) numbers.
template <typename X> struct Operands {
    const bool* condition;
    const X *first, *second;
    X one, other;
    i64 x, y, z;
    __device__ __forceinline__ X a() const { return first ? first[x] : one; }
    __device__ __forceinline__ X b() const { return second ? second[y] : other; }
};
struct One {
    template <typename X> static __device__ __forceinline__ X of(int op, const Operands<X>& v) {
        return of_one(op, v.first[v.x]);
    }
};
struct Two {
    template <typename X> static __device__ __forceinline__ X of(int op, const Operands<X>& v) {
        return of_two(op, v.a(), v.b());
    }
};
struct Comparison {
    template <typename X> static __device__ __forceinline__ bool of(int op, const Operands<X>& v) {
        X u = v.a(), w = v.b();
        return op == 0 ? u < w : op == 1 ? u <= w : op == 2 ? u > w : op == 3 ? u >= w : op == 4 ? u == w : u != w;
    }
};
struct Choice {
    template <typename X> static __device__ __forceinline__ X of(int, const Operands<X>& v) {
        return v.condition[v.z] ? v.a() : v.b();
    }
};

// Element i of an array of `rank` dimensions of sizes n0 (which follows from i), s1 .. is made of elements of operands
// with the strides a0 .., b0 .., and c0 .. of the condition.
#define STRIDES(a) i64 a##0, i64 a##1, i64 a##2, i64 a##3, i64 a##4, i64 a##5
#define MOVE(k, at) v.x += (i64)(at) * a##k, v.y += (i64)(at) * b##k, v.z += (i64)(at) * c##k;
#define STEP(k) \
    if (rank > k) { \
        I q = left / (I)s##k, at = left - q * (I)s##k; \
        MOVE(k, at) \
        left = q; \
    }
#define EACH(Index) \
    for (; i < n; i += step) { \
        typedef Index I; \
        I left = (I)i; \
        v.x = v.y = v.z = 0; \
        STEP(5) STEP(4) STEP(3) STEP(2) STEP(1) \
        MOVE(0, left) \
        out[i] = Op::of(op, v); \
    }
template <typename Op, typename X, typename R> __global__ void map_elements(
    int op, const bool* condition, const X* first, const X* second, X one, X other, R* out, i64 n, int rank, i64 s1,
    i64 s2, i64 s3, i64 s4, i64 s5, STRIDES(a), STRIDES(b), STRIDES(c)) {
    Operands<X> v = {condition, first, second, one, other, 0, 0, 0};
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x, step = (i64)gridDim.x * blockDim.x;
    if (n <= 0x7fffffff) {
        EACH(unsigned)
    } else {
        EACH(i64)
    }
}

// The number of elements of the ascending `sorted` that are less than (`right`: not greater than) a value.
template <typename T> __global__ void search_sorted(const T* sorted, const T* values, i64* out, i64 n, i64 m,
                                                    int right) {
    for (i64 k = blockIdx.x * (i64)blockDim.x + threadIdx.x; k < m; k += (i64)gridDim.x * blockDim.x) {
        T v = values[k];
        i64 low = 0, high = n;
        while (low < high) {
            i64 middle = (low + high) / 2;
            if (right ? !(v < sorted[middle]) : sorted[middle] < v) low = middle + 1;
            else high = middle;
        }
        out[k] = low;
    }
}

// Sums (or products) of the elements up to each one of the middle of three dimensions. A block of 256 threads takes a
// chunk of a run (chunks of a run in the order of their numbers): to `out`, from `carry` on, or to `totals` alone.
template <typename T, typename Op> __global__ void scan_runs(const T* x, const T* carry, T* out, T* totals, i64 runs,
                                                             i64 n, i64 inner, i64 chunk, i64 chunks) {
    __shared__ T parts[8];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (i64 b = blockIdx.x; b < runs * chunks; b += gridDim.x) {
        i64 r = b / chunks, c = b % chunks, first = c * chunk, end = first + chunk < n ? first + chunk : n;
        i64 base = r / inner * n * inner + r % inner;
        bool begins = true;
        T sum = T(0);
        if (carry && c) sum = carry[r * chunks + c - 1], begins = false;
        for (i64 k = first; k < end; k += 256) {
            i64 at = k + threadIdx.x;
            bool there = at < end;
            T v = there ? x[base + at * inner] : Op::none(T(0));
            for (int d = 1; d < 32; d *= 2) {
                T other = __shfl_up_sync(0xffffffffu, v, d);
                if (lane >= d) v = Op::join(other, v);
            }
            if (lane == 31) parts[warp] = v;
            __syncthreads();
            T before = sum;
            bool none = begins;
            for (int w = 0; w < warp; w++) before = none ? parts[w] : Op::join(before, parts[w]), none = false;
            if (!none) v = Op::join(before, v);
            if (there && out) out[base + at * inner] = v;
            __syncthreads();
            if (there && at == (k + 255 < end ? k + 255 : end - 1)) parts[0] = v;
            __syncthreads();
            sum = parts[0], begins = false;
            __syncthreads();
        }
        if (totals && threadIdx.x == 0) totals[r * chunks + c] = sum;
    }
}
"""
_ALL = tuple(KINDS.values())
UNIT = Unit(
    "arrays",
    SOURCE,
    tuple(f"map_elements<{op}, {t}, {t}>" for op in ("One", "Two") for t in _ALL)
    + tuple(f"map_elements<Comparison, {t}, bool>" for t in _ALL)
    + tuple(f"map_elements<Choice, {t}, {t}>" for t in WORDS.values())
    + instances("search_sorted", SCANNED)
    + instances("scan_runs", SCANNED, ("Sum", "Prod")),
)
