"""random_crop: positions are those of std::minstd_rand."""

import numpy as np
from case import case, ints, real, table

SEED = np.int64([77])
M = 2**31 - 1


def draws(seed):
    state = seed % 2**64 % M or 1
    while True:
        state = state * 48271 % M
        yield state


def crop(x, seed, shape, startup_seed=0):
    n = len(shape)
    batch = x.reshape(-1, *x.shape[x.ndim - n :])
    out = np.empty((len(batch), *shape), x.dtype)
    numbers = draws(int(seed[0]))
    for k, one in enumerate(batch):
        at = []
        for size, part in zip(one.shape, shape, strict=True):
            scale = (M - 2) // (size - part + 1)
            at.append((next(numbers) - 1) // scale)
        out[k] = one[tuple(slice(a, a + p) for a, p in zip(at, shape, strict=True))]
    return {"Out": out.reshape(*x.shape[: x.ndim - n], *shape), "SeedOut": np.int64([next(numbers)])}


test_random_crop = table(
    case("random_crop", [real(5, 4, 7), SEED], {"shape": [2, 3]}, crop, dtypes="float32"),
    case("random_crop", [real(2, 3, 4, 7, 5), SEED], {"shape": [2, 3, 5]}, crop),
    case("random_crop", [ints(6, 9).astype("int32"), np.int64([-5])], {"shape": [4]}, crop),
    case("random_crop", [real(3, 4), SEED], {"shape": [0]}, crop),
    case("random_crop", [real(3, 4), SEED], {"shape": [5]}, raises=ValueError, match="does not fit"),
    case("random_crop", [real(3, 4), SEED], {"shape": [3, 4]}, raises=ValueError, match="more dimensions"),
    case("random_crop", [real(3, 4), SEED], {"shape": [-1]}, raises=ValueError, match="does not fit"),
)
