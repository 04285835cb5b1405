"""Kernels of arrays of any strides: elementwise functions chosen by number, selection, gathering, sorting, scanning."""

from __future__ import annotations

from ..units import Unit, instances

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
#: C types by numpy's names
KINDS = {
    "float32": "float",
    "float64": "double",
    "int64": "i64",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "bool",
}
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "i64"}
SCANNED = ("float", "double", "int", "i64")
#: elements that a block sorts, and sorted runs that one launch merges
CHUNK, WAYS = 1024, 64
#: numbers that a launch writes
WRITTEN = 8

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

// The place of element i of an array of `rank` dimensions of sizes n0 (which follows from i), s1 .. in operands with
// the strides a0 .., b0 .., c0 ...
#define SIZES int rank, i64 s1, i64 s2, i64 s3, i64 s4, i64 s5
#define STRIDES(a) i64 a##0, i64 a##1, i64 a##2, i64 a##3, i64 a##4, i64 a##5
template <typename I> __device__ __forceinline__ void split(I& left, i64 size, I& at) {
    I q = left / (I)size;
    at = left - q * (I)size, left = q;
}
#define STEP(k) \
    if (rank > k) { \
        I at; \
        split(left, s##k, at); \
        MOVE(k, at); \
    }
#define WALK \
    STEP(5) STEP(4) STEP(3) STEP(2) STEP(1) \
    MOVE(0, left);
#define EACH(...) \
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x, step = (i64)gridDim.x * blockDim.x; \
    if (n <= 0x7fffffff) { \
        typedef unsigned I; \
        for (; i < n; i += step) __VA_ARGS__ \
    } else { \
        typedef i64 I; \
        for (; i < n; i += step) __VA_ARGS__ \
    }

#define MOVE(k, at) x += (i64)(at) * a##k
template <typename T> __global__ void map_one(int op, const T* from, T* out, i64 n, SIZES, STRIDES(a)) {
    EACH({
        I left = (I)i;
        i64 x = 0;
        WALK
        out[i] = of_one(op, from[x]);
    })
}
#undef MOVE

#define MOVE(k, at) x += (i64)(at) * a##k, y += (i64)(at) * b##k
// An operand that is null is a number.
template <typename T> __global__ void map_two(int op, const T* first, const T* second, T one, T other, T* out, i64 n,
                                              SIZES, STRIDES(a), STRIDES(b)) {
    EACH({
        I left = (I)i;
        i64 x = 0, y = 0;
        WALK
        out[i] = of_two(op, first ? first[x] : one, second ? second[y] : other);
    })
}

template <typename T> __global__ void compare_two(int op, const T* first, const T* second, T one, T other, bool* out,
                                                  i64 n, SIZES, STRIDES(a), STRIDES(b)) {
    EACH({
        I left = (I)i;
        i64 x = 0, y = 0;
        WALK
        T u = first ? first[x] : one, v = second ? second[y] : other;
        out[i] = op == 0 ? u < v : op == 1 ? u <= v : op == 2 ? u > v : op == 3 ? u >= v : op == 4 ? u == v : u != v;
    })
}
#undef MOVE

#define MOVE(k, at) z += (i64)(at) * c##k, x += (i64)(at) * a##k, y += (i64)(at) * b##k
template <typename W> __global__ void choose(const bool* condition, const W* first, const W* second, W one, W other,
                                             W* out, i64 n, SIZES, STRIDES(c), STRIDES(a), STRIDES(b)) {
    EACH({
        I left = (I)i;
        i64 x = 0, y = 0, z = 0;
        WALK
        out[i] = condition[z] ? first ? first[x] : one : second ? second[y] : other;
    })
}
#undef MOVE

// Element (o, j, c) of out [.., m, inner] is element (o, at, c) of x [.., size, inner], where at is index[j] or
// (`along`) the element (o, j, c) of index; from the end if it is negative, and within [0, size).
template <typename W> __global__ void take_elements(const W* x, const i64* index, W* out, i64 n, i64 m, i64 inner,
                                                    i64 size, int along) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        i64 c = i % inner, row = i / inner, at = index[along ? i : row % m];
        if (at < 0) at += size;
        at = at < 0 ? 0 : at < size ? at : size - 1;
        out[i] = x[(row / m * size + at) * inner + c];
    }
}

template <typename T> __global__ void ramp(T* out, T start, T by, i64 n) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x)
        out[i] = T(start + T(i) * by);
}

// out[at .. at + count) of the arguments.
template <typename W> __global__ void write_numbers(W* out, i64 at, int count, W v0, W v1, W v2, W v3, W v4, W v5, W v6,
                                                    W v7) {
    W v[8] = {v0, v1, v2, v3, v4, v5, v6, v7};
    for (int k = threadIdx.x; k < count; k += blockDim.x) out[at + k] = v[k];
}

// The position of the first largest (or smallest) element of each run of the middle dimension; NaN exceeds all.
template <typename T> __global__ void find_extreme(const T* x, i64* out, i64 runs, i64 n, i64 inner, int smallest) {
    for (i64 r = blockIdx.x * (i64)blockDim.x + threadIdx.x; r < runs; r += (i64)gridDim.x * blockDim.x) {
        const T* from = x + r / inner * n * inner + r % inner;
        T best = from[0];
        i64 place = 0;
        for (i64 k = 1; k < n && best == best; k++) {
            T v = from[k * inner];
            if (v != v || (smallest ? v < best : v > best)) best = v, place = k;
        }
        out[r] = place;
    }
}

// Whether element p of a row comes before element q in ascending order: NaN last, equal ones by position.
template <typename T> __device__ __forceinline__ bool precedes(T x, i64 p, T y, i64 q) {
    if (x < y) return true;
    if (y < x) return false;
    bool last = x != x, other = y != y;
    return last != other ? other : p < q;
}

// The positions of chunks of `size` elements (a power of two, at most 1024) of rows of n, in ascending order.
template <typename T> __global__ void order_chunks(const T* x, i64* out, i64 rows, i64 n, i64 chunks, int size) {
    __shared__ T held[1024];
    __shared__ int place[1024];
    for (i64 b = blockIdx.x; b < rows * chunks; b += gridDim.x) {
        i64 row = b / chunks, first = b % chunks * size;
        const T* from = x + row * n + first;
        i64 left = n - first < size ? n - first : size;
        for (int k = threadIdx.x; k < size; k += blockDim.x) {
            place[k] = k;
            if (k < left) held[k] = from[k];
        }
        __syncthreads();
        for (int span = 2; span <= size; span *= 2)
            for (int step = span / 2; step > 0; step /= 2) {
                for (int k = threadIdx.x; k < size / 2; k += blockDim.x) {
                    int i = k / step * 2 * step + k % step, j = i + step;
                    int p = place[i], q = place[j];
                    // Places past the end come last.
                    bool before = q >= left ? p < left || p < q : p < left && precedes(held[p], p, held[q], q);
                    if (before != ((i & span) == 0)) place[i] = q, place[j] = p;
                }
                __syncthreads();
            }
        for (int k = threadIdx.x; k < left; k += blockDim.x) out[row * n + first + k] = first + place[k];
        __syncthreads();
    }
}

// Merges groups of up to `ways` sorted runs of `run` positions: a place is the number of elements before in each run.
template <typename T> __global__ void merge_chunks(const T* x, const i64* order, i64* out, i64 rows, i64 n, i64 run,
                                                   i64 ways) {
    for (i64 k = blockIdx.x * (i64)blockDim.x + threadIdx.x; k < rows * n; k += (i64)gridDim.x * blockDim.x) {
        i64 row = k / n, i = k % n;
        const T* from = x + row * n;
        const i64* own = order + row * n;
        i64 p = own[i], group = i / (run * ways) * (run * ways);
        i64 end = group + run * ways < n ? group + run * ways : n, to = group;
        T value = from[p];
        for (i64 at = group; at < end; at += run) {
            i64 low = at, high = at + run < end ? at + run : end;
            if (i >= low && i < high) {
                to += i - low;
                continue;
            }
            while (low < high) {
                i64 middle = (low + high) / 2, q = own[middle];
                if (precedes(from[q], q, value, p)) low = middle + 1;
                else high = middle;
            }
            to += low - at;
        }
        out[row * n + to] = p;
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
    instances("map_one", _ALL)
    + instances("map_two", _ALL)
    + instances("compare_two", _ALL)
    + instances("choose", tuple(WORDS.values()))
    + instances("take_elements", tuple(WORDS.values()))
    + instances("ramp", _ALL)
    + instances("write_numbers", tuple(WORDS.values()))
    + instances("find_extreme", _ALL)
    + instances("order_chunks", _ALL)
    + instances("merge_chunks", _ALL)
    + instances("search_sorted", SCANNED)
    + instances("scan_runs", SCANNED, ("Sum", "Prod")),
)
