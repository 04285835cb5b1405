"""random_crop: a region of random position of every instance. Positions are those of `std::minstd_rand`, as on the CPU;
the seed stays on the device."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..call import Call
from ..units import Unit, grid_of

SOURCE = r"""
typedef unsigned long long u64;
#define MODULUS 2147483647ull

__device__ __forceinline__ u64 seeded(i64 seed) {
    u64 s = (u64)seed % MODULUS;
    return s ? s : 1;
}

// The state after n numbers.
__device__ __forceinline__ u64 after(u64 state, u64 n) {
    for (u64 step = 48271; n > 0; n >>= 1, step = step * step % MODULUS)
        if (n & 1) state = state * step % MODULUS;
    return state;
}

// places[instance][axis] in [0, room[axis]]; instance i begins i * axes numbers after the seed. next: the new seed.
__global__ void crop_places(const i64* seed, const i64* room, i64* places, i64* next, i64 instances, i64 axes) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i <= instances; i += (i64)gridDim.x * blockDim.x) {
        u64 state = after(seeded(seed[0]), (u64)(i * axes));
        if (i == instances) {
            next[0] = (i64)(state * 48271 % MODULUS);
            continue;
        }
        for (i64 k = 0; k < axes; k++) {
            u64 wanted = (u64)room[k] + 1, scale = (MODULUS - 2) / wanted, drawn;
            do {
                state = state * 48271 % MODULUS;
                drawn = state - 1;
            } while (drawn >= wanted * scale);
            places[i * axes + k] = (i64)(drawn / scale);
        }
    }
}
"""
UNIT = Unit("random_crop", SOURCE, ("crop_places",))


def _crop(call: Call) -> dict:
    x, xp, part = call.array("X"), call.xp, list(call.attrs["shape"])
    given, n = call.ins.get("Seed"), len(part)
    if given is None or given.size == 0:
        seed = xp.full((1,), call.attrs["startup_seed"], "int64")
    else:
        seed = xp.ascontiguousarray(given.reshape(-1)[:1].astype("int64"))
    instances, sizes = math.prod(x.shape[: x.ndim - n]), x.shape[x.ndim - n :]
    places, after = call.empty((instances, n), "int64"), call.empty((1,), "int64")
    room = xp.asarray(np.asarray([d - p for d, p in zip(sizes, part, strict=True)], "int64"))
    numbers = map(np.int64, (instances, n))
    call.launch(UNIT, "crop_places", grid_of(instances + 1), 256, seed, room, places, after, *numbers)
    if 0 in part:
        return {"Out": call.out("Out"), "SeedOut": after}
    # Flat positions of the elements of the regions.
    flat = xp.arange(instances, dtype="int64").reshape(instances, *(1,) * n) * math.prod(sizes)
    step = math.prod(sizes)
    for k, (size, length) in enumerate(zip(sizes, part, strict=True)):
        step //= size
        wide = (instances, *(1,) * n)
        along = xp.arange(length, dtype="int64").reshape([-1 if i == k else 1 for i in range(n)])
        flat = flat + (places[:, k].reshape(wide) + along[None]) * step
    return {"Out": xp.take(x.reshape(-1), flat).reshape(call.shape("Out")), "SeedOut": after}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"random_crop": _crop}
