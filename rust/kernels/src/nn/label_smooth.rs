//! label_smooth: labels mixed with a prior distribution.

use crate::pool;
use crate::types::Float;

/// Minimum number of elements per parallel chunk.
const CHUNK: usize = 1 << 15;

/// out = keep * x + mix * prior in every row of `labels` (above 0); keep * x + `even` without prior.
pub fn smooth<T: Float>(x: &[T], labels: usize, keep: T, (mix, prior): (T, Option<&[T]>), even: T, out: &mut [T]) {
    pool::parts(out, (CHUNK / labels).max(1) * labels, |start, out| {
        for (o, x) in out.chunks_exact_mut(labels).zip(x[start..].chunks_exact(labels)) {
            match prior {
                None => o.iter_mut().zip(x).for_each(|(o, &x)| *o = keep * x + even),
                Some(prior) => o.iter_mut().zip(x).zip(prior).for_each(|((o, &x), &p)| *o = keep * x + mix * p),
            }
        }
    });
}

/// The gradient: keep * d.
pub fn smooth_grad<T: Float>(d: &[T], keep: T, dx: &mut [T]) {
    pool::parts(dx, CHUNK, |start, out| {
        out.iter_mut().zip(&d[start..]).for_each(|(o, &d)| *o = keep * d);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_mixed() {
        let (x, prior, mut out) = ([1.0f64, 0.0, 0.0, 1.0, 1.0, 0.0], [0.5, 0.25, 0.25], [9.0; 6]);
        smooth(&x, 3, 0.75, (0.25, Some(&prior)), 0.0, &mut out);
        (0..6).for_each(|i| assert_eq!(out[i], 0.75 * x[i] + 0.25 * prior[i % 3]));
        smooth(&x, 3, 0.75, (0.25, None), 0.125, &mut out);
        (0..6).for_each(|i| assert_eq!(out[i], 0.75 * x[i] + 0.125));
        smooth_grad(&x, 0.75, &mut out);
        assert_eq!(out, x.map(|v| v * 0.75));
    }
}
