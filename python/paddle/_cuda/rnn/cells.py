"""The cell kernels of recurrent operators: one launch for a step of all rows, after one product."""

from __future__ import annotations

from ..units import REALS, Unit, instances

SOURCE = r"""
// Activations: 0 identity, 1 sigmoid (of arguments within -40 .. 13, as in Paddle 1.x), 2 tanh, 3 relu.
template <typename T> __device__ __forceinline__ T act(int kind, T x) {
    if (kind == 1) {
        x = x < T(-40) ? T(-40) : x > T(13) ? T(13) : x;
        return T(1) / (T(1) + exp(-x));
    }
    return kind == 2 ? tanh(x) : kind == 3 ? (x > T(0) ? x : T(0)) : x;
}
// The slope by the result.
template <typename T> __device__ __forceinline__ T slope(int kind, T y) {
    return kind == 1 ? y * (T(1) - y) : kind == 2 ? T(1) - y * y : kind == 3 ? (y > T(0) ? T(1) : T(0)) : T(1);
}
template <typename T> __device__ __forceinline__ T plain_sigmoid(T x) { return T(1) / (T(1) + exp(-x)); }
template <typename T> __device__ __forceinline__ bool is_clipped(T x, T by) {
    return by > T(0) && (x >= by || x <= -by);
}
template <typename T> __device__ __forceinline__ T clipped(T x, T by) {
    return by > T(0) ? (x < -by ? -by : x > by ? by : x) : x;
}

// A step of an LSTM with gates candidate, input, forget, output: `gates` holds the sums of the inputs, `own` (or null)
// those of the state; `before` (or null: zeros) the cells before, `peep` (or null) the three peephole weights.
template <typename T> __global__ void lstm_cell(T* gates, const T* own, const T* before, const T* peep, T* cell,
                                                T* act_out, T* hidden, i64 n, i64 total, int gate, int of_cell,
                                                int candidate, T clip) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += (i64)gridDim.x * blockDim.x) {
        i64 k = i % n, at = i / n * 4 * n + k;
        T s[4];
        for (int g = 0; g < 4; g++) s[g] = gates[at + g * n] + (own ? own[at + g * n] : T(0));
        T old = before ? before[i] : T(0);
        if (peep && before) s[1] += old * peep[k], s[2] += old * peep[n + k];
        s[0] = act(candidate, s[0]), s[1] = act(gate, s[1]), s[2] = act(gate, s[2]);
        T c = clipped(s[0] * s[1] + old * s[2], clip);
        if (peep) s[3] += c * peep[2 * n + k];
        s[3] = act(gate, s[3]);
        T a = act(of_cell, c);
        for (int g = 0; g < 4; g++) gates[at + g * n] = s[g];
        cell[i] = c, act_out[i] = a, hidden[i] = s[3] * a;
    }
}

// Its gradient: `d` gets those of the sums; that of the cells before is added to `dc_before`.
template <typename T> __global__ void lstm_cell_grad(const T* gates, const T* before, const T* cell, const T* acts,
                                                     const T* peep, const T* dh, const T* dc, T* dc_before, T* d, i64 n,
                                                     i64 total, int gate, int of_cell, int candidate, T clip) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += (i64)gridDim.x * blockDim.x) {
        i64 k = i % n, at = i / n * 4 * n + k;
        T c = gates[at], in = gates[at + n], forget = gates[at + 2 * n], out = gates[at + 3 * n];
        T d_out = dh[i] * acts[i] * slope(gate, out);
        T total_c = dc[i] + dh[i] * out * slope(of_cell, acts[i]) + (peep ? d_out * peep[2 * n + k] : T(0));
        T own = is_clipped(cell[i], clip) ? T(0) : total_c, old = before ? before[i] : T(0);
        T d_in = own * c * slope(gate, in), d_forget = own * old * slope(gate, forget);
        d[at] = own * in * slope(candidate, c);
        d[at + n] = d_in, d[at + 2 * n] = d_forget, d[at + 3 * n] = d_out;
        T back = own * forget;
        if (peep) back += d_in * peep[k] + d_forget * peep[n + k];
        dc_before[i] += back;
    }
}

// The recurrent projection of lstmp, in place, and its gradient by the result.
template <typename T> __global__ void projected(T* x, i64 total, int kind, T clip) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += (i64)gridDim.x * blockDim.x)
        x[i] = clipped(act(kind, x[i]), clip);
}
template <typename T> __global__ void projected_grad(const T* y, T* d, i64 total, int kind, T clip) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += (i64)gridDim.x * blockDim.x)
        d[i] = is_clipped(y[i], clip) ? T(0) : d[i] * slope(kind, y[i]);
}

// The gates of a GRU (update, reset, candidate): the first two, and the state times the reset gate.
template <typename T> __global__ void gru_gates(T* gates, const T* own, const T* before, T* reset, i64 n, i64 total,
                                                int gate) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += (i64)gridDim.x * blockDim.x) {
        i64 row = i / n, k = i % n, at = row * 3 * n + k, from = row * 2 * n + k;
        T u = act(gate, gates[at] + (own ? own[from] : T(0)));
        T r = act(gate, gates[at + n] + (own ? own[from + n] : T(0)));
        gates[at] = u, gates[at + n] = r, reset[i] = r * (before ? before[i] : T(0));
    }
}
template <typename T> __global__ void gru_state(T* gates, const T* own, const T* before, T* hidden, i64 n, i64 total,
                                                int candidate, int origin) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += (i64)gridDim.x * blockDim.x) {
        i64 at = i / n * 3 * n + i % n;
        T c = act(candidate, gates[at + 2 * n] + (own ? own[i] : T(0))), u = gates[at], h = before ? before[i] : T(0);
        gates[at + 2 * n] = c;
        hidden[i] = origin ? (T(1) - u) * c + u * h : (T(1) - u) * h + u * c;
    }
}
// The gradient of the state before is added to `carry`.
template <typename T> __global__ void gru_state_grad(const T* gates, const T* before, const T* dh, T* d, T* carry,
                                                     i64 n, i64 total, int candidate, int origin) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += (i64)gridDim.x * blockDim.x) {
        i64 at = i / n * 3 * n + i % n;
        T u = gates[at], c = gates[at + 2 * n], change = dh[i] * (c - before[i]);
        d[at] = origin ? -change : change;
        d[at + 2 * n] = dh[i] * (origin ? T(1) - u : u) * slope(candidate, c);
        carry[i] += dh[i] * (origin ? u : T(1) - u);
    }
}
template <typename T> __global__ void gru_gates_grad(const T* gates, const T* before, const T* dreset, T* d, T* carry,
                                                     i64 n, i64 total, int gate) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += (i64)gridDim.x * blockDim.x) {
        i64 at = i / n * 3 * n + i % n;
        T u = gates[at], r = gates[at + n];
        d[at] *= slope(gate, u);
        d[at + n] = dreset[i] * before[i] * slope(gate, r);
        carry[i] += dreset[i] * r;
    }
}

// A step of the operator rnn (mode 0 tanh, 1 relu, 2 LSTM with gates i f g o, 3 GRU with r z c). `gates` holds the sums
// of the input and, except for a GRU, of the state, whose sums of a GRU are `own`; biases are added here. Rows past
// their length (`lengths` null: none) keep their state and give zeros. `extra`: the cells, or the state's sum of a
// GRU's candidate. The states before are `h_before` and `c_before`, which may be `h` and `c`. A row of `out` has
// `stride` elements.
template <typename T> __global__ void rnn_cell(int mode, T* gates, const T* own, const T* bias_ih, const T* bias_hh,
                                               T* extra, const T* h_before, const T* c_before, T* h, T* c, T* out,
                                               i64 stride, const i64* lengths, i64 step, i64 n, i64 total) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += (i64)gridDim.x * blockDim.x) {
        i64 row = i / n, k = i % n, count = mode < 2 ? 1 : mode == 2 ? 4 : 3, at = row * count * n + k;
        bool on = !lengths || step < lengths[row];
        T state = T(0), s[4];
        if (on)
            for (int g = 0; g < count; g++) {
                s[g] = gates[at + g * n] + bias_ih[k + g * n];
                if (mode != 3) s[g] += bias_hh[k + g * n];
            }
        if (mode < 2) {
            if (on) gates[i] = state = act(mode == 0 ? 2 : 3, s[0]);
        } else if (mode == 2) {
            T cell = c_before[i];
            if (on) {
                T in = plain_sigmoid(s[0]), forget = plain_sigmoid(s[1]), g = tanh(s[2]), o = plain_sigmoid(s[3]);
                cell = forget * cell + in * g;
                gates[at] = in, gates[at + n] = forget, gates[at + 2 * n] = g, gates[at + 3 * n] = o;
                state = o * tanh(cell);
            }
            c[i] = extra[i] = cell;
        } else {
            T sum = own[at + 2 * n] + bias_hh[k + 2 * n];
            if (on) {
                T r = plain_sigmoid(s[0] + own[at] + bias_hh[k]);
                T z = plain_sigmoid(s[1] + own[at + n] + bias_hh[k + n]), g = tanh(s[2] + r * sum);
                gates[at] = r, gates[at + n] = z, gates[at + 2 * n] = g;
                state = (h_before[i] - g) * z + g;
            }
            extra[i] = on ? sum : T(0);
        }
        h[i] = on ? state : h_before[i];
        out[row * stride + k] = state;
    }
}

// Its gradient: `d` gets those of the input's sums, `inner` (of a GRU) those of the state's; `dh_after` and `dc_after`
// (null: zeros) are those of the state after the step, `dh` and `dc`, which may be the same memory, get the direct part
// of those before. `cell_before` (or null): the cells of the step computed before, whose number is `earlier`; `first`:
// the initial cells.
template <typename T> __global__ void rnn_cell_grad(int mode, const T* gates, const T* extra, const T* before,
                                                    const T* cell_before, const T* first, const T* dout, i64 stride,
                                                    const T* dh_after, const T* dc_after, T* dh, T* dc, T* d, T* inner,
                                                    const i64* lengths, i64 step, i64 earlier, i64 n, i64 total) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += (i64)gridDim.x * blockDim.x) {
        i64 row = i / n, k = i % n;
        bool on = !lengths || step < lengths[row];
        T after = dh_after ? dh_after[i] : T(0), grad = on ? dout[row * stride + k] + after : T(0);
        if (mode < 2) {
            d[i] = on ? grad * slope(mode == 0 ? 2 : 3, gates[i]) : T(0);
            dh[i] = on ? T(0) : after;
        } else if (mode == 2) {
            i64 at = row * 4 * n + k;
            T dcell = dc_after ? dc_after[i] : T(0);
            if (!on) {
                d[at] = d[at + n] = d[at + 2 * n] = d[at + 3 * n] = T(0);
                dc[i] = dcell, dh[i] = after;
                continue;
            }
            T in = gates[at], forget = gates[at + n], g = gates[at + 2 * n], o = gates[at + 3 * n], t = tanh(extra[i]);
            T old = cell_before && (!lengths || earlier < lengths[row]) ? cell_before[i] : first[i];
            T own = dcell + grad * o * (T(1) - t * t);
            d[at] = own * g * in * (T(1) - in);
            d[at + n] = own * old * forget * (T(1) - forget);
            d[at + 2 * n] = own * in * (T(1) - g * g);
            d[at + 3 * n] = grad * t * o * (T(1) - o);
            dc[i] = own * forget;
            dh[i] = T(0);
        } else {
            i64 at = row * 3 * n + k;
            T r = gates[at], z = gates[at + n], g = gates[at + 2 * n];
            T sum = on ? grad * (T(1) - z) * (T(1) - g * g) : T(0);
            T dz = on ? grad * (before[i] - g) * z * (T(1) - z) : T(0);
            T dr = on ? sum * extra[i] * r * (T(1) - r) : T(0);
            d[at] = inner[at] = dr, d[at + n] = inner[at + n] = dz, d[at + 2 * n] = sum;
            inner[at + 2 * n] = on ? sum * r : T(0);
            dh[i] = on ? grad * z : after;
        }
    }
}

// The state before each step [steps, batch, n] of a direction: that of the step before, else the initial one; arbitrary
// for rows past their length. A row of `out` has `stride` elements.
template <typename T> __global__ void rnn_before(const T* out, const T* first, i64 stride, const i64* lengths, T* to,
                                                 i64 steps, i64 batch, i64 n, i64 total, int backwards) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += (i64)gridDim.x * blockDim.x) {
        i64 k = i % n, row = i / n % batch, step = i / n / batch, from = backwards ? step + 1 : step - 1;
        bool has = backwards ? from < steps && (!lengths || from < lengths[row]) : from >= 0;
        to[i] = has ? out[(from * batch + row) * stride + k] : first[row * n + k];
    }
}
"""
_KERNELS = (
    "lstm_cell lstm_cell_grad projected projected_grad gru_gates gru_state gru_state_grad gru_gates_grad rnn_cell "
    "rnn_cell_grad rnn_before"
).split()
UNIT = Unit("rnn_cells", SOURCE, sum((instances(kernel, REALS) for kernel in _KERNELS), ()))
#: numbers of activations by name
ACTIVATIONS = {"identity": 0, "": 0, "sigmoid": 1, "tanh": 2, "relu": 3}
