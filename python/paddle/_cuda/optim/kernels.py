"""The kernels of sgd, momentum and adam, whose operands are arguments or the tensors of a table, and those that clip
and pack the tensors of a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..units import REALS, Unit, instances

SOURCE = r"""
// Slots of operands: parameter, gradient, learning rate, two states (velocity, or first and second moment), powers of
// beta1 and beta2. A rule computes an element of S tensors: e[0] is the gradient; e[1], the parameter, and e[2] .., the
// states, get the values of the next step.
template <typename T> struct Sgd {
    static const int S = 2;
    T step;
    template <typename From> __device__ Sgd(const From& from, T, T, T, int) : step(-from.at(2)[0]) {}
    __device__ __forceinline__ void operator()(T* e) const { e[1] = fma(step, e[0], e[1]); }
};

template <typename T> struct Momentum {
    static const int S = 3;
    T rate, mu, rescale, decay;
    int nesterov;
    template <typename From> __device__ Momentum(const From& from, T mu, T rescale, T decay, int nesterov)
        : rate(from.at(2)[0]), mu(mu), rescale(rescale), decay(decay), nesterov(nesterov) {}
    __device__ __forceinline__ void operator()(T* e) const {
        T g = e[0] * rescale + decay * e[1], v = mu * e[2] + g;
        e[2] = v;
        e[1] = e[1] - rate * (nesterov ? g + mu * v : v);
    }
};

// A parameter is multiplied by its factor (AdamW's decay) first.
template <typename T> struct Adam {
    static const int S = 4;
    T step, small, factor, beta1, beta2;
    template <typename From> __device__ Adam(const From& from, T beta1, T beta2, T epsilon, int)
        : factor(from.factor()), beta1(beta1), beta2(beta2) {
        T left = sqrt(T(1) - from.at(6)[0]);
        step = from.at(2)[0] * (left / (T(1) - from.at(5)[0])), small = epsilon * left;
    }
    __device__ __forceinline__ void operator()(T* e) const {
        T g = e[0], m = fma(beta1, e[2], (T(1) - beta1) * g), v = fma(beta2, e[3], (T(1) - beta2) * g * g);
        e[2] = m;
        e[3] = v;
        e[1] = factor * e[1] - step * (m / (sqrt(v) + small));
    }
};

// `step` of element i of S tensors, the first of which is read only: the others get the values that it changes.
template <int S, typename T, typename F>
__device__ __forceinline__ void update_element(T* const* tensors, i64 i, const F& step) {
    T e[S];
#pragma unroll
    for (int s = 0; s < S; s++) e[s] = tensors[s][i];
    step(e);
#pragma unroll
    for (int s = 1; s < S; s++) tensors[s][i] = e[s];
}

template <typename T> struct Arguments {
    T* slots[7];
    __device__ T* at(int slot) const { return slots[slot]; }
    __device__ T factor() const { return T(1); }
};

template <typename T, template <typename> class Rule>
__global__ void update(T* param, T* grad, T* rate, T* first, T* second, T* power1, T* power2, T a, T b, T c, int flag,
                       i64 n) {
    const int S = Rule<T>::S;
    Rule<T> step(Arguments<T>{{param, grad, rate, first, second, power1, power2}}, a, b, c, flag);
    T* const tensors[4] = {grad, param, first, second};
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x)
        update_element<S>(tensors, i, step);
}

// Multiplies the powers of the tensors of a table, or those given if `table` is null, after all blocks have read them.
template <typename T> __global__ void powers(const i64* table, T* power1, T* power2, i64 count, T beta1, T beta2) {
    for (i64 t = blockIdx.x * (i64)blockDim.x + threadIdx.x; t < count; t += (i64)gridDim.x * blockDim.x) {
        (table ? (T*)table[5 * count + t] : power1)[0] *= beta1;
        (table ? (T*)table[6 * count + t] : power2)[0] *= beta2;
    }
}

// `table` has the addresses of slot s and tensor t at s * count + t; block b takes `piece` elements of the tensor
// pieces[2 * b] from element pieces[2 * b + 1] on.
template <typename T> struct Piece {
    const i64* table;
    const T* factors;
    i64 tensor, count, from, end;
    __device__ Piece(const i64* table, const i64* sizes, const i64* pieces, i64 count, i64 piece, const T* factors = 0)
        : table(table), factors(factors), count(count) {
        tensor = pieces[2 * (i64)blockIdx.x], from = pieces[2 * (i64)blockIdx.x + 1];
        end = from + piece < sizes[tensor] ? from + piece : sizes[tensor];
    }
    __device__ T* at(int slot) const { return (T*)table[slot * count + tensor]; }
    __device__ T factor() const { return factors[tensor]; }
};

// update_element for the elements of a piece, by packs where all tensors are aligned.
template <int S, typename T, typename F>
__device__ __forceinline__ void update_piece(const Piece<T>& own, T* const (&tensors)[S], F step) {
    const int N = packed<T>::N;
    i64 packs = (own.end - own.from) / N;
#pragma unroll
    for (int s = 0; s < S; s++)
        if (!aligned(tensors[s] + own.from)) packs = 0;
#pragma unroll 2
    for (i64 j = own.from + threadIdx.x * N; j < own.from + packs * N; j += blockDim.x * N) {
        Pack<T, N> all[S];
#pragma unroll
        for (int s = 0; s < S; s++) all[s] = read_pack<N>(tensors[s] + j);
#pragma unroll
        for (int k = 0; k < N; k++) {
            T one[S];
#pragma unroll
            for (int s = 0; s < S; s++) one[s] = all[s].v[k];
            step(one);
#pragma unroll
            for (int s = 1; s < S; s++) all[s].v[k] = one[s];
        }
#pragma unroll
        for (int s = 1; s < S; s++) write_pack<N>(tensors[s] + j, all[s]);
    }
    for (i64 i = own.from + packs * N + threadIdx.x; i < own.end; i += blockDim.x) update_element<S>(tensors, i, step);
}

template <typename T, template <typename> class Rule>
__global__ void update_all(const i64* table, const i64* sizes, const i64* pieces, const T* factors, i64 count,
                           i64 piece, T a, T b, T c, int flag) {
    const int S = Rule<T>::S;
    Piece<T> own(table, sizes, pieces, count, piece, factors);
    Rule<T> step(own, a, b, c, flag);
    T* tensors[S] = {own.at(1), own.at(0)};
    for (int s = 2; s < S; s++) tensors[s] = own.at(s + 1);
    update_piece(own, tensors, step);
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

// out (all tensors in a row, tensor t from starts[t] on; its address follows the tensors' in the table) = x or, if they
// are clipped, x * most / max(most, norm); every block adds up the sums of squares.
template <typename T, bool Clip>
__global__ void pack_all(const i64* table, const i64* sizes, const i64* pieces, const i64* starts, i64 count, i64 piece,
                         const T* sums, i64 blocks, T most) {
    Piece<T> own(table, sizes, pieces, count, piece);
    T *x = own.at(0), *to = (T*)table[count] + starts[own.tensor], factor = T(1);
    if (Clip) {
        T sum = T(0);
        for (i64 b = threadIdx.x; b < blocks; b += blockDim.x) sum += sums[b];
        T norm = sqrt(block_join<Sum>(sum));
        factor = most / (norm > most ? norm : most);
    }
    for (i64 i = own.from + threadIdx.x; i < own.end; i += blockDim.x) to[i] = x[i] * factor;
}
"""
#: the rules of operators
RULES = {"sgd": "Sgd", "momentum": "Momentum", "adam": "Adam"}
UNIT = Unit(
    "optimizer",
    SOURCE,
    instances("update", REALS, RULES)
    + instances("update_all", REALS, RULES)
    + instances("powers", REALS)
    + instances("squares_all", REALS)
    + instances("pack_all", REALS, ("false", "true")),
)


def numbers(op: str, attrs: dict, of: Any) -> tuple:
    """The numbers of a rule as its kernels take them, in the data type `of`."""
    names = {"sgd": (), "momentum": ("mu", "rescale_grad"), "adam": ("beta1", "beta2", "epsilon")}[op]
    found = [attrs[name] for name in names]
    if op == "momentum":
        found.append(attrs["regularization_coeff"] if attrs["regularization_method"] == "l2_decay" else 0.0)
    flag = np.int32(op == "momentum" and attrs["use_nesterov"])
    return (*(of(v) for v in [*found, 0.0, 0.0, 0.0][:3]), flag)
