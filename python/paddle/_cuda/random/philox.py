"""Random operators by Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011): element i of a
call is made of (seed, i), so that results do not depend on the grid. Without a seed a call takes one number of the
generator of `paddle.seed`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import paddle._core as _core

from .. import formula
from ..call import Call, Declined, Drawn, ctype
from ..units import FLOATS, INTEGERS, Unit, grid_of, instances

SOURCE = r"""
__device__ __forceinline__ void philox(unsigned long long seed, unsigned long long at, unsigned* r) {
    unsigned k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
    r[0] = (unsigned)at, r[1] = (unsigned)(at >> 32), r[2] = 0, r[3] = 0;
    for (int round = 0; round < 10; round++) {
        unsigned long long a = 0xD2511F53ull * r[0], b = 0xCD9E8D57ull * r[2];
        unsigned x = (unsigned)(b >> 32) ^ r[1] ^ k0, y = (unsigned)(a >> 32) ^ r[3] ^ k1;
        r[1] = (unsigned)b, r[3] = (unsigned)a, r[0] = x, r[2] = y;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
}

// A number of [0, 1) with all bits of its type, and one of (0, 1].
__device__ __forceinline__ double unit(const unsigned* r, double) {
    return (double)(((unsigned long long)r[0] << 32 | r[1]) >> 11) * (1.0 / 9007199254740992.0);
}
__device__ __forceinline__ float unit(const unsigned* r, float) { return (float)(r[0] >> 8) * (1.0f / 16777216.0f); }

// kind 0: uniform of [a, b); 1: normal with mean a and deviation b; 2: normal, cut at two deviations.
template <typename T> __device__ __forceinline__ T drawn(const unsigned* r, int kind, double a, double b) {
    typedef typename acc<T>::type A;
    A u = unit(r, A(0));
    if (kind == 0) {
        A v = A(a) + (A(b) - A(a)) * u;
        return narrow_to<T>::of(v < A(b) ? v : A(a));
    }
    if (kind == 1) {
        A w = unit(r + 2, A(0));
        return narrow_to<T>::of(A(a) + A(b) * sqrt(A(-2) * log(A(1) - u)) * cos(A(6.283185307179586) * w));
    }
    // The inverse of the normal distribution between -2 and 2.
    double p = 0.022750131948179195 + u * 0.95449973610364158;
    return narrow_to<T>::of(A(a) + A(b) * A(1.4142135623730951 * erfinv(2.0 * p - 1.0)));
}
// An integer of [low, high).
template <typename T> __device__ __forceinline__ T drawn(const unsigned* r, int, i64 low, i64 high) {
    unsigned long long u = (unsigned long long)r[0] << 32 | r[1];
    return (T)(low + (i64)(u % (unsigned long long)(high - low)));
}

template <typename T, typename P> __global__ void random_fill(T* out, i64 n, unsigned long long seed, int kind, P a,
                                                              P b) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        unsigned r[4];
        philox(seed, (unsigned long long)i, r);
        out[i] = drawn<T>(r, kind, a, b);
    }
}

// out = mask ? x * factor : 0, where an element is dropped with probability p. Four elements share a call of philox. Or
// (not Draws) out = mask ? x / factor : 0 by the mask of the forward operator.
template <typename T, bool Draws> __global__ void dropout(const T* x, T* out, unsigned char* mask, i64 n,
                                                          unsigned long long seed, float p,
                                                          typename acc<T>::type factor) {
    typedef typename acc<T>::type A;
    bool whole = aligned(x, out, mask);
    for (i64 j = blockIdx.x * (i64)blockDim.x + threadIdx.x; 4 * j < n; j += (i64)gridDim.x * blockDim.x) {
        unsigned r[4];
        if (Draws) philox(seed, (unsigned long long)j, r);
        Pack<T, 4> v;
        Pack<unsigned char, 4> kept;
        bool all = whole && 4 * j + 4 <= n;
        if (all) v = read_pack<4>(x + 4 * j);
        if (all && !Draws) kept = read_pack<4>(mask + 4 * j);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            i64 i = 4 * j + k;
            if (i >= n) break;
            A value = wide(all ? v.v[k] : x[i]);
            kept.v[k] = Draws ? unit(r + k, 0.0f) >= p : all ? kept.v[k] : mask[i];
            v.v[k] = narrow_to<T>::of(!kept.v[k] ? A(0) : Draws ? value * factor : value / factor);
            if (!all) out[i] = v.v[k];
            if (!all && Draws) mask[i] = kept.v[k];
        }
        if (all) write_pack<4>(out + 4 * j, v);
        if (all && Draws) write_pack<4>(mask + 4 * j, kept);
    }
}
"""
UNIT = Unit(
    "philox",
    SOURCE,
    instances("random_fill", FLOATS, ("double",))
    + instances("random_fill", INTEGERS, ("i64",))
    + instances("dropout", FLOATS, ("true", "false")),
)


def seed_of(call: Call, number: int = 0) -> np.uint64 | Drawn:
    """A seed for draw `number` of a call: by the attribute seed, or a number of the generator."""
    given = int(call.attrs.get("seed") or 0)
    return np.uint64(given + number * 0x9E3779B97F4A7C15 & (1 << 64) - 1) if given else call.drawn()


def fill(call: Call, shape, dtype: str, kind: int, a: float, b: float, seed: np.uint64 | Drawn):
    """A tensor of random numbers (kinds: see the kernel)."""
    out = call.empty(shape, dtype)
    if out.size:
        kernel = f"random_fill<{ctype(out, FLOATS)}, double>"
        numbers = (np.int64(out.size), seed, np.int32(kind), np.float64(a), np.float64(b))
        call.launch(UNIT, kernel, grid_of(out.size), 256, out, *numbers)
    return out


def _sized(call: Call):
    """The memory of a result whose shape attributes or inputs say."""
    call.shape("Out")  # declines a shape that is not known
    call.sized_by("ShapeTensor", "ShapeTensorList")
    return call.out("Out")


def _made(call: Call, kind: int, first: str, second: str) -> dict:
    out, a = _sized(call), call.attrs
    return {"Out": fill(call, out.shape, out.dtype.name, kind, a[first], a[second], seed_of(call))}


def _uniform(call: Call) -> dict:
    if call.attrs["diag_num"]:
        raise Declined
    return _made(call, 0, "min", "max")


def _normal(call: Call) -> dict:
    return _made(call, 1, "mean", "std")


def _truncated(call: Call) -> dict:
    return _made(call, 2, "mean", "std")


def _integers(call: Call) -> dict:
    out, a = _sized(call), call.attrs
    if out.size:
        kernel = f"random_fill<{ctype(out, INTEGERS)}, i64>"
        numbers = (np.int64(out.size), seed_of(call), np.int32(0), np.int64(a["low"]), np.int64(a["high"]))
        call.launch(UNIT, kernel, grid_of(out.size), 256, out, *numbers)
    return {"Out": out}


def uniforms(call: Call, shape, seed=None, number: int = 0):
    """float64 numbers of [0, 1), by a seed or as draw `number` of the call."""
    return fill(call, shape, "float64", 0, 0.0, 1.0, seed_of(call, number) if seed is None else seed)


def _permutation(call: Call) -> dict:
    """The order of random keys."""
    out = call.out("Out")
    return {"Out": call.xp.argsort(uniforms(call, out.shape), kind="stable").astype(out.dtype)}


def masked(call: Call, x, mask, factor: float, seed: np.uint64 | Drawn | None = None, p: float = 0.0):
    """x * factor, of which elements are dropped with probability p, as `mask` then says; without a seed x / factor by
    the given mask."""
    out, t = call.empty(x.shape, x.dtype), ctype(x, FLOATS)
    by = np.float64(factor) if t == "double" else np.float32(factor)
    if x.size:
        kernel = f"dropout<{t}, {'false' if seed is None else 'true'}>"
        numbers = np.int64(x.size), np.uint64(0) if seed is None else seed, np.float32(p), by
        call.launch(UNIT, kernel, grid_of(-(-x.size // 4), 256, (1 << 31) - 1), 256, x, out, mask, *numbers)
    return out


def _dropout(call: Call) -> dict:
    x, a = call.array("X"), call.attrs
    p, up = float(a["dropout_prob"]), a["dropout_implementation"] == "upscale_in_train"
    if a["is_test"]:
        if up:
            return {"Out": x}
        return {"Out": formula.apply(call, "scale", [x], [1 - p, 0.0])}
    given = call.numbers("Seed")
    seed = np.uint64(given[0]) if given else np.uint64(a["seed"]) if a["fix_seed"] else call.drawn()
    mask, factor = call.empty(x.shape, "uint8"), (0.0 if p == 1 else 1 / (1 - p)) if up else 1.0
    return {"Out": masked(call, x, mask, factor, seed, p), "Mask": mask}


def _dropped(call: Call) -> dict:
    """dropout_grad: applies the mask of the forward operator."""
    d, mask, a = call.array("Out@GRAD"), call.array("Mask"), call.attrs
    if a["is_test"] or mask.shape != d.shape or mask.dtype.itemsize != 1:
        raise Declined
    p, scaled = a["dropout_prob"], a["dropout_implementation"] == "upscale_in_train"
    # With probability 1 no element is kept.
    return {"X@GRAD": masked(call, d, mask, (1 - p if p != 1 else float("inf")) if scaled else 1.0)}


def _bernoulli(call: Call) -> dict:
    (x,) = call.floats("X")
    return {"Out": (uniforms(call, x.shape) < x).astype(x.dtype)}


def _multinomial(call: Call) -> dict:
    """With replacement by the inverse of the cumulative distribution, without by the largest keys u ** (1 / p)."""
    (x,), a, xp = call.floats("X"), call.attrs, call.xp
    if x.size == 0:
        raise Declined
    rows, k = x.reshape(-1, x.shape[-1]).astype("float64"), a["num_samples"]
    if a["replacement"] or k == 1:
        below = xp.cumsum(rows, axis=1)
        u = uniforms(call, (rows.shape[0], k, 1)) * below[:, -1:, None]
        at = xp.minimum((below[:, None, :] <= u).sum(axis=-1), rows.shape[1] - 1)
    else:
        u = xp.maximum(uniforms(call, rows.shape), 1e-300)
        keys = xp.where(rows > 0, xp.log(u) / xp.where(rows > 0, rows, 1.0), -xp.inf)
        at = xp.argsort(-keys, axis=1, kind="stable")[:, :k]
    return {"Out": at.astype("int64").reshape(call.shape("Out"))}


def _seed(call: Call) -> dict:
    given = call.attrs["seed"]
    if not given:
        call.unrecorded()
    value = given if given else int(_core.random_u64() & 0x7FFFFFFF)
    return {"Out": call.xp.full((1,), value, "int32")}


def _sampling_id(call: Call) -> dict:
    """The first column at which the cumulative sum reaches a number of [min, max)."""
    (x,), a, xp = call.floats("X"), call.attrs, call.xp
    u = a["min"] + (a["max"] - a["min"]) * uniforms(call, (x.shape[0], 1))
    at = xp.minimum((xp.cumsum(x.astype("float64"), axis=1) < u).sum(axis=1), x.shape[1] - 1)
    return {"Out": at.astype(call.dtype("Out")).reshape(call.shape("Out"))}


def _shuffle(call: Call) -> dict:
    x, xp = call.array("X"), call.xp
    rows = math.prod(x.shape[:-1])
    seed = int((call.numbers("Seed") or [call.attrs["startup_seed"]])[0])
    order = xp.argsort(uniforms(call, (rows,), np.uint64(seed & (2**64 - 1))), kind="stable").astype("int64")
    out = xp.take(x.reshape(rows, x.shape[-1]), order, axis=0).reshape(x.shape)
    return {"Out": out, "ShuffleIdx": order, "SeedOut": xp.full((1,), (seed * 69069 + 1) & 0x7FFFFFFF, "int64")}


def _shuffle_grad(call: Call) -> dict:
    d, order, xp = call.array("Out@GRAD"), call.array("ShuffleIdx"), call.xp
    back = xp.argsort(order, kind="stable")
    return {"X@GRAD": xp.take(d.reshape(order.size, d.shape[-1]), back, axis=0).reshape(d.shape)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    **dict.fromkeys(("uniform_random", "uniform_random_batch_size_like"), _uniform),
    **dict.fromkeys(("gaussian_random", "gaussian_random_batch_size_like"), _normal),
    "truncated_gaussian_random": _truncated,
    "randint": _integers,
    "randperm": _permutation,
    "dropout": _dropout,
    "dropout_grad": _dropped,
    "bernoulli": _bernoulli,
    "multinomial": _multinomial,
    "seed": _seed,
    "sampling_id": _sampling_id,
    "shuffle_batch": _shuffle,
    "shuffle_batch_grad": _shuffle_grad,
}
