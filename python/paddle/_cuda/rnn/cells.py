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

// The operands of a step of a cell with n units: `gates` holds the sums of the inputs, `own` (or null) those of the
// state; `before` (or null: zeros) the state before. The numbers are kinds of activations, and a GRU's origin mode.
template <typename T> struct Step {
    T* gates;
    const T *own, *before, *peep;
    T *cell, *acts, *out;
    i64 n;
    int gate, of_cell, candidate, origin;
    T clip;
    __device__ __forceinline__ T sum(i64 at, i64 from) const { return gates[at] + (own ? own[from] : T(0)); }
    __device__ __forceinline__ T old(i64 i) const { return before ? before[i] : T(0); }
};
// Those of its gradient: that of the state before is added to `carry`, `d` gets those of the sums.
template <typename T> struct Back {
    const T *gates, *before, *peep, *cell, *acts, *dout, *dcell;
    T *carry, *d;
    i64 n;
    int gate, of_cell, candidate, origin;
    T clip;
};

// Gates candidate, input, forget, output; the state is the cells, `peep` (or null) the three peephole weights.
struct Lstm {
    template <typename T> static __device__ __forceinline__ void step(const Step<T>& o, i64 i) {
        i64 n = o.n, k = i % n, at = i / n * 4 * n + k;
        T s[4];
        for (int g = 0; g < 4; g++) s[g] = o.sum(at + g * n, at + g * n);
        T old = o.old(i);
        if (o.peep && o.before) s[1] += old * o.peep[k], s[2] += old * o.peep[n + k];
        s[0] = act(o.candidate, s[0]), s[1] = act(o.gate, s[1]), s[2] = act(o.gate, s[2]);
        T c = clipped(s[0] * s[1] + old * s[2], o.clip);
        if (o.peep) s[3] += c * o.peep[2 * n + k];
        s[3] = act(o.gate, s[3]);
        T a = act(o.of_cell, c);
        for (int g = 0; g < 4; g++) o.gates[at + g * n] = s[g];
        o.cell[i] = c, o.acts[i] = a, o.out[i] = s[3] * a;
    }
    template <typename T> static __device__ __forceinline__ void back(const Back<T>& o, i64 i) {
        i64 n = o.n, k = i % n, at = i / n * 4 * n + k;
        T c = o.gates[at], in = o.gates[at + n], forget = o.gates[at + 2 * n], out = o.gates[at + 3 * n];
        T a = o.acts[i], dh = o.dout[i], d_out = dh * a * slope(o.gate, out);
        T total = o.dcell[i] + dh * out * slope(o.of_cell, a) + (o.peep ? d_out * o.peep[2 * n + k] : T(0));
        T own = is_clipped(o.cell[i], o.clip) ? T(0) : total, old = o.before ? o.before[i] : T(0);
        T d_in = own * c * slope(o.gate, in), d_forget = own * old * slope(o.gate, forget);
        o.d[at] = own * in * slope(o.candidate, c);
        o.d[at + n] = d_in, o.d[at + 2 * n] = d_forget, o.d[at + 3 * n] = d_out;
        T back = own * forget;
        if (o.peep) back += d_in * o.peep[k] + d_forget * o.peep[n + k];
        o.carry[i] += back;
    }
};

// The first two gates of a GRU (update, reset, candidate); `out` gets the state times the reset gate.
struct GruGates {
    template <typename T> static __device__ __forceinline__ void step(const Step<T>& o, i64 i) {
        i64 n = o.n, row = i / n, k = i % n, at = row * 3 * n + k, from = row * 2 * n + k;
        T u = act(o.gate, o.sum(at, from)), r = act(o.gate, o.sum(at + n, from + n));
        o.gates[at] = u, o.gates[at + n] = r, o.out[i] = r * o.old(i);
    }
    template <typename T> static __device__ __forceinline__ void back(const Back<T>& o, i64 i) {
        i64 n = o.n, at = i / n * 3 * n + i % n;
        T u = o.gates[at], r = o.gates[at + n];
        o.d[at] *= slope(o.gate, u);
        o.d[at + n] = o.dout[i] * o.before[i] * slope(o.gate, r);
        o.carry[i] += o.dout[i] * r;
    }
};
// Its candidate and next state.
struct GruState {
    template <typename T> static __device__ __forceinline__ void step(const Step<T>& o, i64 i) {
        i64 n = o.n, at = i / n * 3 * n + i % n;
        T c = act(o.candidate, o.sum(at + 2 * n, i)), u = o.gates[at], h = o.old(i);
        o.gates[at + 2 * n] = c;
        o.out[i] = o.origin ? (T(1) - u) * c + u * h : (T(1) - u) * h + u * c;
    }
    template <typename T> static __device__ __forceinline__ void back(const Back<T>& o, i64 i) {
        i64 n = o.n, at = i / n * 3 * n + i % n;
        T u = o.gates[at], c = o.gates[at + 2 * n], dh = o.dout[i], change = dh * (c - o.before[i]);
        o.d[at] = o.origin ? -change : change;
        o.d[at + 2 * n] = dh * (o.origin ? T(1) - u : u) * slope(o.candidate, c);
        o.carry[i] += dh * (o.origin ? u : T(1) - u);
    }
};
// The recurrent projection of lstmp, in place, and its gradient by the result, `acts`.
struct Projection {
    template <typename T> static __device__ __forceinline__ void step(const Step<T>& o, i64 i) {
        o.out[i] = clipped(act(o.of_cell, o.out[i]), o.clip);
    }
    template <typename T> static __device__ __forceinline__ void back(const Back<T>& o, i64 i) {
        T y = o.acts[i];
        o.d[i] = is_clipped(y, o.clip) ? T(0) : o.dout[i] * slope(o.of_cell, y);
    }
};

template <typename T, typename Cell>
__global__ void cell_step(T* gates, const T* own, const T* before, const T* peep, T* cell, T* acts, T* out, i64 n,
                          i64 total, int gate, int of_cell, int candidate, int origin, T clip) {
    Step<T> operands = {gates, own, before, peep, cell, acts, out, n, gate, of_cell, candidate, origin, clip};
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += (i64)gridDim.x * blockDim.x)
        Cell::step(operands, i);
}
template <typename T, typename Cell>
__global__ void cell_grad(const T* gates, const T* before, const T* peep, const T* cell, const T* acts, const T* dout,
                          const T* dcell, T* carry, T* d, i64 n, i64 total, int gate, int of_cell, int candidate,
                          int origin, T clip) {
    Back<T> operands = {gates, before, peep, cell,    acts,      dout,   dcell, carry,
                        d,     n,      gate, of_cell, candidate, origin, clip};
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += (i64)gridDim.x * blockDim.x)
        Cell::back(operands, i);
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
CELLS = ("Lstm", "GruGates", "GruState", "Projection")
UNIT = Unit(
    "rnn_cells",
    SOURCE,
    instances("cell_step", REALS, CELLS)
    + instances("cell_grad", REALS, CELLS)
    + sum((instances(kernel, REALS) for kernel in ("rnn_cell", "rnn_cell_grad", "rnn_before")), ()),
)
#: numbers of activations by name
ACTIVATIONS = {"identity": 0, "": 0, "sigmoid": 1, "tanh": 2, "relu": 3}
