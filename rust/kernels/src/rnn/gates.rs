//! One step of one row of a recurrent network, from the sums of its gates to the new state, and its gradient.

use crate::simd_fn;
use crate::types::Float;

#[inline(always)]
pub(crate) fn sigmoid<const FMA: bool, T: Float>(x: T) -> T {
    T::ONE / (T::ONE + (T::ZERO - x).exp_::<FMA>())
}

/// Splits four consecutive gates of `h` elements each.
#[inline(always)]
fn four<T>(gates: &mut [T], h: usize) -> [&mut [T]; 4] {
    let (a, rest) = gates.split_at_mut(h);
    let (b, rest) = rest.split_at_mut(h);
    let (c, d) = rest.split_at_mut(h);
    [a, b, c, &mut d[..h]]
}

#[inline(always)]
fn three<T>(gates: &mut [T], h: usize) -> [&mut [T]; 3] {
    let (a, rest) = gates.split_at_mut(h);
    let (b, c) = rest.split_at_mut(h);
    [a, b, &mut c[..h]]
}

simd_fn! {
    /// `z = tanh(z)`.
    pub(crate) fn tanh_step[T: Float](z: &mut [T]) {
        for z in z.iter_mut() {
            *z = z.tanh_::<FMA>();
        }
    }
}

simd_fn! {
    /// `z = max(z, 0)`; NaN becomes 0.
    pub(crate) fn relu_step[T: Float](z: &mut [T]) {
        for z in z.iter_mut() {
            *z = if *z > T::ZERO { *z } else { T::ZERO };
        }
    }
}

simd_fn! {
    /// LSTM with gates i, f, g, o: replaces sums by activations, and computes `cell` from `before`, and the hidden
    /// state.
    pub(crate) fn lstm_step[T: Float](gates: &mut [T], before: &[T], cell: &mut [T], hidden: &mut [T]) {
        let n = hidden.len();
        let [i, f, g, o] = four(gates, n);
        let (before, cell) = (&before[..n], &mut cell[..n]);
        for k in 0..n {
            i[k] = sigmoid::<FMA, T>(i[k]);
            f[k] = sigmoid::<FMA, T>(f[k]);
            g[k] = g[k].tanh_::<FMA>();
            o[k] = sigmoid::<FMA, T>(o[k]);
            let c = f[k].fma::<FMA>(before[k], i[k] * g[k]);
            cell[k] = c;
            hidden[k] = o[k] * c.tanh_::<FMA>();
        }
    }
}

simd_fn! {
    /// GRU with gates r, z, c: replaces the input's sums by activations, with the state's sums `own`. `hidden` becomes
    /// the new state, `inner` the state's sum of the candidate.
    pub(crate) fn gru_step[T: Float](gates: &mut [T], own: &[T], inner: &mut [T], hidden: &mut [T]) {
        let n = hidden.len();
        let [r, z, c] = three(gates, n);
        let (own_r, own_z, own_c) = (&own[..n], &own[n..2 * n], &own[2 * n..3 * n]);
        let inner = &mut inner[..n];
        for k in 0..n {
            r[k] = sigmoid::<FMA, T>(r[k] + own_r[k]);
            z[k] = sigmoid::<FMA, T>(z[k] + own_z[k]);
            inner[k] = own_c[k];
            c[k] = r[k].fma::<FMA>(own_c[k], c[k]).tanh_::<FMA>();
            hidden[k] = (hidden[k] - c[k]).fma::<FMA>(z[k], c[k]);
        }
    }
}

simd_fn! {
    /// `d` becomes the gradient of the argument of tanh; `carry` is added and then zeroed.
    pub(crate) fn tanh_step_grad[T: Float](y: &[T], dout: &[T], carry: &mut [T], d: &mut [T]) {
        let n = d.len();
        let (y, dout, carry) = (&y[..n], &dout[..n], &mut carry[..n]);
        for k in 0..n {
            d[k] = (dout[k] + carry[k]) * (T::ONE - y[k] * y[k]);
            carry[k] = T::ZERO;
        }
    }
}

simd_fn! {
    /// As `tanh_step_grad`, for relu.
    pub(crate) fn relu_step_grad[T: Float](y: &[T], dout: &[T], carry: &mut [T], d: &mut [T]) {
        let n = d.len();
        let (y, dout, carry) = (&y[..n], &dout[..n], &mut carry[..n]);
        for k in 0..n {
            d[k] = (dout[k] + carry[k]) * if y[k] > T::ZERO { T::ONE } else { T::ZERO };
            carry[k] = T::ZERO;
        }
    }
}

simd_fn! {
    /// `d` becomes the gradients of the sums of i, f, g, o. `carry` (of the hidden state) is added and then zeroed;
    /// `dcell` becomes the gradient of the previous cell.
    pub(crate) fn lstm_step_grad[T: Float](
        gates: &[T], before: &[T], cell: &[T], dout: &[T], carry: &mut [T], dcell: &mut [T], d: &mut [T]
    ) {
        let n = carry.len();
        let (i, f, g, o) = (&gates[..n], &gates[n..2 * n], &gates[2 * n..3 * n], &gates[3 * n..4 * n]);
        let [di, df, dg, d_o] = four(d, n);
        let (before, cell, dout, dcell) = (&before[..n], &cell[..n], &dout[..n], &mut dcell[..n]);
        for k in 0..n {
            let t = cell[k].tanh_::<FMA>();
            let dh = dout[k] + carry[k];
            carry[k] = T::ZERO;
            d_o[k] = dh * t * o[k] * (T::ONE - o[k]);
            let dc = dcell[k] + dh * o[k] * (T::ONE - t * t);
            di[k] = dc * g[k] * i[k] * (T::ONE - i[k]);
            df[k] = dc * before[k] * f[k] * (T::ONE - f[k]);
            dg[k] = dc * i[k] * (T::ONE - g[k] * g[k]);
            dcell[k] = dc * f[k];
        }
    }
}

simd_fn! {
    /// `d` becomes the gradients of the sums of r, z, c, `dinner` those of the state's part of them. `carry` becomes
    /// the direct part of the gradient of the previous state.
    pub(crate) fn gru_step_grad[T: Float](
        gates: &[T], inner: &[T], before: &[T], dout: &[T], carry: &mut [T], d: &mut [T], dinner: &mut [T]
    ) {
        let n = carry.len();
        let (r, z, c) = (&gates[..n], &gates[n..2 * n], &gates[2 * n..3 * n]);
        let [dr, dz, dc] = three(d, n);
        let [inner_r, inner_z, inner_c] = three(dinner, n);
        let (inner, before, dout) = (&inner[..n], &before[..n], &dout[..n]);
        for k in 0..n {
            let dh = dout[k] + carry[k];
            carry[k] = dh * z[k];
            let sum = dh * (T::ONE - z[k]) * (T::ONE - c[k] * c[k]);
            dc[k] = sum;
            inner_c[k] = sum * r[k];
            dz[k] = dh * (before[k] - c[k]) * z[k] * (T::ONE - z[k]);
            inner_z[k] = dz[k];
            dr[k] = sum * inner[k] * r[k] * (T::ONE - r[k]);
            inner_r[k] = dr[k];
        }
    }
}
