//! Vector norms of any order, and their gradients.

use crate::elementwise::map;
use crate::pool;
use crate::reduce::{self, Reduce, Reducible};
use crate::types::Number;

/// f32 and f64.
pub trait NormFloat: Reducible + Number {}
impl NormFloat for f32 {}
impl NormFloat for f64 {}

/// The absolute value; NaN stays NaN.
pub fn abs<T: Number>(v: T) -> T {
    if v < T::ZERO {
        T::ZERO.sub(v)
    } else {
        v
    }
}

/// Sign: 1, 0 or -1.
pub fn sign<T: Number>(v: T) -> T {
    if v > T::ZERO {
        T::ONE
    } else if v < T::ZERO {
        T::ZERO.sub(T::ONE)
    } else {
        T::ZERO
    }
}

/// `v` to the power of `p`; common powers avoid the call of `pow`.
fn powered<T: Number>(v: T, p: T) -> T {
    if p == T::ONE {
        v
    } else if p == T::ZERO {
        T::ONE
    } else {
        v.pow(p)
    }
}

/// Norms along the middle one of three dimensions.
pub fn norms<T: NormFloat>(x: &[T], p: f32, shape: &[usize; 3], out: &mut [T]) {
    let mut terms = vec![T::ZERO; x.len()];
    match p {
        0.0 => map(x, &mut terms, |v| if v != T::ZERO { T::ONE } else { T::ZERO }),
        2.0 => map(x, &mut terms, |v| v.mul(v)),
        _ if p == 1.0 || p.is_infinite() => map(x, &mut terms, abs),
        _ => {
            let power = T::from_f64(p as f64);
            map(x, &mut terms, |v| abs(v).pow(power))
        }
    }
    let op = if p == f32::INFINITY {
        Reduce::Max
    } else if p == f32::NEG_INFINITY {
        Reduce::Min
    } else {
        Reduce::Sum
    };
    reduce::reduce(op, &terms, shape, &[false, true, false], out);
    if p != 0.0 && p != 1.0 && p.is_finite() {
        let root = T::from_f64(1.0 / p as f64);
        out.iter_mut().for_each(|o| *o = o.pow(root));
    }
}

/// The derivative of a norm by an element; `epsilon` keeps the divisor from zero.
fn slope<T: NormFloat>(x: T, norm: T, p: f32, epsilon: T) -> T {
    if p == 0.0 {
        return T::ZERO;
    }
    if p.is_infinite() {
        return if abs(x) == norm { sign(x) } else { T::ZERO };
    }
    // 0 is a subgradient; the quotient would be 0 / 0 for a norm of 0, and inf * 0 for p below 1.
    if x == T::ZERO {
        return T::ZERO;
    }
    let power = T::from_f64((p - 1.0) as f64);
    powered(abs(x), power).div(powered(norm, power).add(epsilon)).mul(sign(x))
}

/// Runs `$body` with `$p`, a compile-time constant for the common orders.
macro_rules! with_order {
    ($p:ident, $body:expr) => {{
        if $p == 1.0 {
            let $p = 1.0;
            $body
        } else if $p == 2.0 {
            let $p = 2.0;
            $body
        } else {
            $body
        }
    }};
}

/// Elements per chunk of a gradient.
const ROWS: usize = 1 << 14;

/// The gradient of the norms along the middle axis (of size `n`) of [outer, n, inner].
pub fn norms_grad<T: NormFloat>(
    x: &[T],
    (norm, dout): (&[T], &[T]),
    p: f32,
    (n, inner): (usize, usize),
    epsilon: T,
    dx: &mut [T],
) {
    // Rows share one norm, or have one norm per element.
    let row = if inner == 1 { n } else { inner }.max(1);
    pool::parts(dx, (ROWS / row).max(1) * row, |start, part| {
        for (r, d) in part.chunks_exact_mut(row).enumerate() {
            let r = start / row + r;
            let x = &x[r * row..(r + 1) * row];
            if inner == 1 {
                let (norm, dout) = (norm[r], dout[r]);
                with_order!(p, map(x, d, |x| slope(x, norm, p, epsilon).mul(dout)));
            } else {
                let o = r / n * inner;
                let both = norm[o..o + inner].iter().zip(&dout[o..o + inner]);
                let all = d.iter_mut().zip(x.iter().zip(both));
                with_order!(p, all.for_each(|(d, (&x, (&norm, &dout)))| *d = slope(x, norm, p, epsilon).mul(dout)));
            }
        }
    });
}

/// The gradient of the norm of all elements.
pub fn norm_grad<T: NormFloat>(x: &[T], norm: T, p: f32, dout: T, dx: &mut [T]) {
    with_order!(p, map(x, dx, |x| slope(x, norm, p, T::ZERO).mul(dout)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_of_any_order() {
        let x: Vec<f64> = (0..24).map(|i| (i * 7919 % 23) as f64 / 4.0 - 2.6).collect();
        let d: Vec<f64> = (0..8).map(|i| (i * 31 % 7) as f64 - 3.0).collect();
        for p in [0.0, 1.0, 2.0, 3.0, f32::INFINITY, f32::NEG_INFINITY] {
            for shape in [[2, 3, 4], [8, 3, 1]] {
                let [outer, n, inner] = shape;
                let plain = |x: &[f64]| -> Vec<f64> {
                    let all = (0..outer * inner).map(|k| (0..n).map(move |j| (k / inner * n + j) * inner + k % inner));
                    let norm = |v: Vec<f64>| match p {
                        0.0 => v.iter().filter(|v| **v != 0.0).count() as f64,
                        f32::INFINITY => v.iter().copied().fold(0.0, f64::max),
                        f32::NEG_INFINITY => v.iter().copied().fold(f64::MAX, f64::min),
                        p => v.iter().map(|v| v.powf(p.into())).sum::<f64>().powf(1.0 / f64::from(p)),
                    };
                    all.map(|at| norm(at.map(|at| x[at].abs()).collect())).collect()
                };
                let mut out = vec![9.0; outer * inner];
                norms(&x, p, &shape, &mut out);
                assert!(out.iter().zip(plain(&x)).all(|(a, b)| (a - b).abs() < 1e-9), "{p}");
                let mut dx = vec![9.0; 24];
                norms_grad(&x, (&out, &d), p, (n, inner), 0.0, &mut dx);
                for k in 0..24 {
                    let at = |by: f64| {
                        let mut x = x.clone();
                        x[k] += by;
                        plain(&x).iter().zip(&d).map(|(o, d)| o * d).sum::<f64>()
                    };
                    assert!((dx[k] - (at(1e-6) - at(-1e-6)) / 2e-6).abs() < 1e-6, "{p} {k} {}", dx[k]);
                }
            }
            let (mut one, mut dx, mut all) = (vec![0.0], vec![0.0; 24], vec![0.0; 24]);
            norms(&x, p, &[1, 24, 1], &mut one);
            norm_grad(&x, one[0], p, 1.5, &mut dx);
            norms_grad(&x, (&one, &[1.5]), p, (24, 1), 0.0, &mut all);
            assert_eq!(dx, all);
        }
    }
}
