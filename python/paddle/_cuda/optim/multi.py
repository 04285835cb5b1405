"""Steps of an optimizer over all parameters by one launch, and clipping by the global norm in two: kernels read the
addresses of the tensors from a table, and a block takes a piece of one tensor."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..units import REALS, Unit, instances

#: elements of a block
PIECE = 16384

SOURCE = r"""
// `table` has the addresses of slot s and tensor t at s * count + t; block b takes `piece` elements of the tensor
// pieces[2 * b] from element pieces[2 * b + 1] on.
template <typename T> struct Piece {
    const i64* table;
    i64 tensor, count, from, end;
    __device__ Piece(const i64* table, const i64* sizes, const i64* pieces, i64 count, i64 piece)
        : table(table), count(count) {
        tensor = pieces[2 * (i64)blockIdx.x], from = pieces[2 * (i64)blockIdx.x + 1];
        end = from + piece < sizes[tensor] ? from + piece : sizes[tensor];
    }
    __device__ T* at(int slot) const { return (T*)table[slot * count + tensor]; }
};

// Slots: parameter, gradient, learning rate.
template <typename T> __global__ void sgd_all(const i64* table, const i64* sizes, const i64* pieces, i64 count,
                                              i64 piece) {
    Piece<T> own(table, sizes, pieces, count, piece);
    T *param = own.at(0), *grad = own.at(1), step = -own.at(2)[0];
    for (i64 i = own.from + threadIdx.x; i < own.end; i += blockDim.x) param[i] = fma(step, grad[i], param[i]);
}

// Slots: parameter, gradient, learning rate, velocity.
template <typename T> __global__ void momentum_all(const i64* table, const i64* sizes, const i64* pieces, i64 count,
                                                   i64 piece, T mu, T rescale, T decay, int nesterov) {
    Piece<T> own(table, sizes, pieces, count, piece);
    T *param = own.at(0), *grad = own.at(1), rate = own.at(2)[0], *velocity = own.at(3);
    for (i64 i = own.from + threadIdx.x; i < own.end; i += blockDim.x) {
        T g = grad[i] * rescale;
        g = g + decay * param[i];
        T v = mu * velocity[i] + g;
        velocity[i] = v;
        param[i] = param[i] - rate * (nesterov ? g + mu * v : v);
    }
}

// Slots: parameter, gradient, learning rate, first and second moment, powers of beta1 and beta2. A parameter is
// multiplied by its factor (AdamW's decay) first.
template <typename T> __global__ void adam_all(const i64* table, const i64* sizes, const i64* pieces, const T* factors,
                                               i64 count, i64 piece, T beta1, T beta2, T epsilon) {
    Piece<T> own(table, sizes, pieces, count, piece);
    T *param = own.at(0), *grad = own.at(1), *first = own.at(3), *second = own.at(4);
    T left = sqrt(T(1) - own.at(6)[0]), factor = factors[own.tensor];
    T step = own.at(2)[0] * (left / (T(1) - own.at(5)[0])), small = epsilon * left;
    for (i64 i = own.from + threadIdx.x; i < own.end; i += blockDim.x) {
        T g = grad[i];
        T m = fma(beta1, first[i], (T(1) - beta1) * g);
        T v = fma(beta2, second[i], (T(1) - beta2) * g * g);
        first[i] = m;
        second[i] = v;
        param[i] = factor * param[i] - step * (m / (sqrt(v) + small));
    }
}
// The powers, after all blocks have read them.
template <typename T> __global__ void adam_all_powers(const i64* table, i64 count, T beta1, T beta2) {
    for (i64 t = blockIdx.x * (i64)blockDim.x + threadIdx.x; t < count; t += (i64)gridDim.x * blockDim.x) {
        ((T*)table[5 * count + t])[0] *= beta1;
        ((T*)table[6 * count + t])[0] *= beta2;
    }
}

// The sum of the squares of a block's elements.
template <typename T> __global__ void squares_all(const i64* table, const i64* sizes, const i64* pieces, i64 count,
                                                  i64 piece, T* sums) {
    Piece<T> own(table, sizes, pieces, count, piece);
    T *x = own.at(0), sum = T(0);
    for (i64 i = own.from + threadIdx.x; i < own.end; i += blockDim.x) sum += x[i] * x[i];
    sum = block_join<Sum>(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
// out (all tensors in a row, tensor t from starts[t] on) = x * most / max(most, norm); every block adds up the sums.
template <typename T> __global__ void clip_all(const i64* table, const i64* sizes, const i64* pieces, const i64* starts,
                                               i64 count, i64 piece, const T* sums, i64 blocks, T most, T* out) {
    Piece<T> own(table, sizes, pieces, count, piece);
    T *x = own.at(0), *to = out + starts[own.tensor], sum = T(0);
    for (i64 b = threadIdx.x; b < blocks; b += blockDim.x) sum += sums[b];
    T norm = sqrt(block_join<Sum>(sum));
    T factor = most / (norm > most ? norm : most);
    for (i64 i = own.from + threadIdx.x; i < own.end; i += blockDim.x) to[i] = x[i] * factor;
}
"""
_KERNELS = ("sgd_all", "momentum_all", "adam_all", "adam_all_powers", "squares_all", "clip_all")
UNIT = Unit("optimizer_all", SOURCE, sum((instances(kernel, REALS) for kernel in _KERNELS), ()))


@functools.lru_cache(maxsize=64)
def _pieces(sizes: tuple[int, ...]) -> np.ndarray:
    """(tensor, first element) of each block."""
    counts = [-(-n // PIECE) for n in sizes]
    tensor = np.repeat(np.arange(len(sizes)), counts)
    first = np.arange(tensor.size) - np.repeat(np.cumsum([0, *counts[:-1]]), counts)
    return np.stack([tensor, first * PIECE], 1).astype(np.int64)


class Launcher:
    """The device copies of a table, and the launches that read it. All numbers go in one upload."""

    def __init__(self, machine: Any, device: int, dtype: str, addresses: list[int], sizes: list[int]) -> None:
        self.machine, self.t, self.of = machine, REALS[dtype], np.dtype(dtype).type
        pieces = _pieces(tuple(sizes))
        self.count, self.blocks = len(sizes), len(pieces)
        starts = np.cumsum([0, *sizes[:-1]])
        parts = [np.asarray(p, np.int64).reshape(-1) for p in (addresses, sizes, pieces, starts)]
        flat = machine.xp.empty(sum(p.size for p in parts), np.int64)
        machine.upload_arguments(flat.view(np.uint8), np.concatenate(parts))
        ends = np.cumsum([p.size for p in parts]).tolist()
        self.table, self.sizes, self.pieces, self.starts = (
            flat[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)
        )

    def start(self, kernel: str, grid: int, block: int, *args: Any, unit: Unit = UNIT) -> None:
        self.machine.kernel(unit, f"{kernel}<{self.t}>")((grid,), (block,), args)

    def over(self, kernel: str, *args: Any, after: tuple = (), unit: Unit = UNIT) -> None:
        """A launch over all pieces; `args` follow the pieces, `after` the counts."""
        counts = np.int64(self.count), np.int64(PIECE)
        self.start(kernel, self.blocks, 256, self.table, self.sizes, self.pieces, *args, *counts, *after, unit=unit)


def step(machine: Any, op: str, table: tuple, attrs: dict, factors: list[float] | None) -> None:
    """One step of sgd, momentum or adam over the tensors of a table (`paddle._core.device_table`)."""
    device, dtype, addresses, sizes = table
    with machine.on(device):
        own = Launcher(machine, device, dtype, addresses, sizes)
        numbers = {name: own.of(attrs[name]) for name in _NUMBERS[op]}
        if op == "sgd":
            own.over("sgd_all")
        elif op == "momentum":
            decays = attrs["regularization_method"] == "l2_decay"
            decay = own.of(attrs["regularization_coeff"] if decays else 0.0)
            more = numbers["mu"], numbers["rescale_grad"], decay, np.int32(attrs["use_nesterov"])
            own.over("momentum_all", after=more)
        else:
            given = np.ones(own.count, dtype) if factors is None else np.asarray(factors, dtype)
            on_device = machine.xp.empty(own.count, dtype)
            machine.upload_arguments(on_device.view(np.uint8), given)
            own.over("adam_all", on_device, after=tuple(numbers.values()))
            betas = numbers["beta1"], numbers["beta2"]
            own.start("adam_all_powers", -(-own.count // 256), 256, own.table, np.int64(own.count), *betas)


_NUMBERS = {"sgd": (), "momentum": ("mu", "rescale_grad"), "adam": ("beta1", "beta2", "epsilon")}


def clip(machine: Any, table: tuple, most: float, out: int) -> None:
    """Writes the tensors of a table, scaled to a joint norm of at most `most`, one after the other to the address
    `out`."""
    device, dtype, addresses, sizes = table
    with machine.on(device):
        own = Launcher(machine, device, dtype, addresses, sizes)
        sums = machine.xp.empty(own.blocks, dtype)
        own.over("squares_all", after=(sums,))
        own.over("clip_all", own.starts, after=(sums, np.int64(own.blocks), own.of(most), np.uint64(out)))
