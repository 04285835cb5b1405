//! prelu: x if positive, else x times a learned slope; a slope is that of `run` consecutive elements.

use crate::pool;
use crate::types::Number;

/// Minimum number of elements per parallel chunk.
const CHUNK: usize = 1 << 14;

/// Calls `f` for chunks of `out` with one slope: the slope's number and the chunk's offset.
fn with_slopes<T: Send>(out: &mut [T], run: usize, slopes: usize, f: impl Fn(usize, usize, &mut [T]) + Sync) {
    pool::parts(out, CHUNK, |start, out| {
        let mut at = 0;
        while at < out.len() {
            let place = start + at;
            let n = (run - place % run).min(out.len() - at);
            f(place / run % slopes, place, &mut out[at..at + n]);
            at += n;
        }
    });
}

/// out = x if positive, else x times its slope.
pub fn forward<T: Number>(x: &[T], alpha: &[T], run: usize, out: &mut [T]) {
    if run == 1 {
        // One slope per element: process rows of slopes.
        let n = alpha.len();
        return pool::parts(out, (CHUNK / n).max(1) * n, |start, out| {
            for (i, (o, &v)) in out.iter_mut().zip(&x[start..]).enumerate() {
                *o = if v > T::ZERO { v } else { alpha[i % n].mul(v) };
            }
        });
    }
    with_slopes(out, run, alpha.len(), |slope, at, out| {
        let a = alpha[slope];
        for (o, &v) in out.iter_mut().zip(&x[at..]) {
            *o = if v > T::ZERO { v } else { a.mul(v) };
        }
    });
}

/// The slopes' gradients, summed in f64 per slope, independent of the number of threads.
pub fn slopes_grad<T: Number>(x: &[T], d: &[T], run: usize, out: &mut [T]) {
    let n = out.len();
    let below = |(&x, &d): (&T, &T)| if x > T::ZERO { 0.0 } else { x.to_f64() * d.to_f64() };
    if n == 1 {
        let mut sums = vec![0.0; x.len().div_ceil(CHUNK)];
        pool::parts(&mut sums, 1, |k, sum| {
            let r = k * CHUNK..((k + 1) * CHUNK).min(x.len());
            sum[0] = x[r.clone()].iter().zip(&d[r]).map(below).sum();
        });
        out[0] = T::from_f64(sums.iter().sum());
        return;
    }
    let rounds = x.len() / (n * run).max(1);
    pool::parts(out, (CHUNK / (rounds * run).max(1)).max(1), |start, out| {
        for (k, o) in out.iter_mut().enumerate() {
            let sum = (0..rounds).map(|round| {
                let r = (round * n + start + k) * run..(round * n + start + k + 1) * run;
                x[r.clone()].iter().zip(&d[r]).map(below).sum::<f64>()
            });
            *o = T::from_f64(sum.sum());
        }
    });
}

/// The gradient of x.
pub fn x_grad<T: Number>(x: &[T], alpha: &[T], d: &[T], run: usize, dx: &mut [T]) {
    with_slopes(dx, run, alpha.len(), |slope, at, out| {
        let a = alpha[slope];
        for ((o, &v), &d) in out.iter_mut().zip(&x[at..]).zip(&d[at..]) {
            *o = if v > T::ZERO { d } else { a.mul(d) };
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_runs() {
        // One slope, one per channel, one per element; several chunks.
        for (slopes, run) in [(1, 60_000), (3, 5_000), (6_000, 1)] {
            let n = 60_000;
            let x: Vec<f64> = (0..n).map(|i| (i * 7919 % 101) as f64 / 50.0 - 1.0).collect();
            let alpha: Vec<f64> = (0..slopes).map(|i| (i % 7) as f64 / 4.0 - 0.5).collect();
            let d: Vec<f64> = (0..n).map(|i| (i * 31 % 17) as f64 - 8.0).collect();
            let (mut out, mut dx, mut da) = (vec![9.0; n], vec![9.0; n], vec![9.0; slopes]);
            forward(&x, &alpha, run, &mut out);
            x_grad(&x, &alpha, &d, run, &mut dx);
            slopes_grad(&x, &d, run, &mut da);
            let mut want = vec![0.0; slopes];
            for i in 0..n {
                let a = alpha[i / run % slopes];
                let (factor, below) = if x[i] > 0.0 { (1.0, 0.0) } else { (a, x[i] * d[i]) };
                assert_eq!((out[i], dx[i]), (factor * x[i], factor * d[i]));
                want[i / run % slopes] += below;
            }
            assert!(da.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-8 * b.abs().max(1.0)));
        }
    }
}
