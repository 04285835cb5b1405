"""hash: buckets of integer rows, by XXH64 of their bytes; a thread per result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..call import Call, ctype
from ..units import INTEGERS, Unit, grid_of, instances

SOURCE = r"""
typedef unsigned long long u64;

#define XXA 0x9E3779B185EBCA87ull
#define XXB 0xC2B2AE3D27D4EB4Full
#define XXC 0x165667B19E3779F9ull
#define XXD 0x85EBCA77C2B2AE63ull
#define XXE 0x27D4EB2F165667C5ull

__device__ __forceinline__ u64 turn(u64 v, int by) { return v << by | v >> (64 - by); }
__device__ __forceinline__ u64 round64(u64 v, u64 word) { return turn(v + word * XXB, 31) * XXA; }

// Rows of `count` elements; result i * hashes + s has the seed s.
template <typename I> __global__ void hash_rows(const I* x, I* out, i64 rows, i64 count, i64 hashes, u64 buckets) {
    i64 n = rows * hashes, bytes = count * (i64)sizeof(I);
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        const unsigned* words = (const unsigned*)(x + i / hashes * count);
        u64 seed = (u64)(i % hashes), h;
        i64 at = 0, left = bytes;
        if (bytes >= 32) {
            u64 v[4] = {seed + XXA + XXB, seed + XXB, seed, seed - XXA};
            for (; left >= 32; left -= 32)
                for (int k = 0; k < 4; k++, at += 2) v[k] = round64(v[k], words[at] | (u64)words[at + 1] << 32);
            h = turn(v[0], 1) + turn(v[1], 7) + turn(v[2], 12) + turn(v[3], 18);
            for (int k = 0; k < 4; k++) h = (h ^ round64(0, v[k])) * XXA + XXD;
        } else {
            h = seed + XXE;
        }
        h += (u64)bytes;
        for (; left >= 8; left -= 8, at += 2)
            h = turn(h ^ round64(0, words[at] | (u64)words[at + 1] << 32), 27) * XXA + XXD;
        if (left >= 4) h = turn(h ^ (u64)words[at] * XXA, 23) * XXB + XXC;
        h = (h ^ h >> 33) * XXB;
        h = (h ^ h >> 29) * XXC;
        out[i] = (I)((h ^ h >> 32) % buckets);
    }
}
"""
UNIT = Unit("hash", SOURCE, instances("hash_rows", INTEGERS))


def _hash(call: Call) -> dict:
    x, a = call.array("X"), call.attrs
    t, hashes = ctype(x, INTEGERS), a["num_hash"]
    out = call.empty((x.shape[0], hashes, 1), x.dtype)
    if out.size:
        buckets = np.uint64(a["mod_by"] & (2**64 - 1))
        numbers = map(np.int64, (x.shape[0], x.shape[1], hashes))
        call.launch(UNIT, f"hash_rows<{t}>", grid_of(out.size), 256, x, out, *numbers, buckets)
    return {"Out": out}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"hash": _hash}
