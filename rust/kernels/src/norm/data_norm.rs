//! data_norm: columns normalized by statistics accumulated over all batches. Rows may be divided into slots; a slot
//! that begins with 0 has no show and takes no part.

use crate::types::Float;

/// Whether a slot that begins with `first` has no show.
fn hidden(first: f64) -> bool {
    first > -1e-7f32 as f64 && first < 1e-7f32 as f64
}

/// Rows of `columns` elements, in slots of `slot` elements (0: no slots).
#[derive(Clone, Copy)]
pub struct SlotColumns {
    pub columns: usize,
    pub slot: usize,
}

impl SlotColumns {
    fn step(&self) -> usize {
        if self.slot > 0 { self.slot } else { self.columns }.max(1)
    }
}

/// The mean and the factor of each column, from the accumulated number, sum and sum of squares.
pub fn statistics<T: Float>(size: &[T], sum: &[T], squares: &[T]) -> (Vec<T>, Vec<T>) {
    let means = sum.iter().zip(size).map(|(&s, &n)| s / n).collect();
    (means, size.iter().zip(squares).map(|(&n, &q)| (n / q).sqrt()).collect())
}

/// y = (x - mean) * scale, then times and plus `affine`; slots without show are 0.
pub fn forward<T: Float>(
    c: SlotColumns,
    x: &[T],
    means: &[T],
    scales: &[T],
    affine: Option<(&[T], &[T])>,
    y: &mut [T],
) {
    let step = c.step();
    for (k, (x, y)) in x.chunks_exact(step).zip(y.chunks_exact_mut(step)).enumerate() {
        if c.slot > 0 && hidden(x[0].to_f64()) {
            y.fill(T::ZERO);
            continue;
        }
        let from = k * step % c.columns;
        for (j, (&x, y)) in (from..).zip(x.iter().zip(y)) {
            *y = (x - means[j]) * scales[j];
            if let Some((w, b)) = affine {
                *y = *y * w[j] + b[j];
            }
        }
    }
}

/// The gradients of X, scale and bias, and this batch's contributions to the statistics.
pub struct DataNormGrad<T> {
    pub dx: Vec<T>,
    pub size: Vec<T>,
    pub sum: Vec<T>,
    pub squares: Vec<T>,
    pub dscale: Vec<T>,
    pub dbias: Vec<T>,
}

/// The gradients of [`forward`], where `d` is that of y, and `w` the factor of `affine`.
pub fn backward<T: Float>(
    c: SlotColumns,
    (x, d): (&[T], &[T]),
    (means, scales): (&[T], &[T]),
    w: Option<&[T]>,
    epsilon: f64,
) -> DataNormGrad<T> {
    let (step, epsilon) = (c.step(), T::from_f64(epsilon));
    let column = || vec![T::ZERO; c.columns];
    let mut g = DataNormGrad {
        dx: vec![T::ZERO; x.len()],
        size: column(),
        sum: column(),
        squares: column(),
        dscale: column(),
        dbias: column(),
    };
    let rows = x.chunks_exact(step).zip(d.chunks_exact(step)).zip(g.dx.chunks_exact_mut(step));
    for (k, ((x, d), dx)) in rows.enumerate() {
        if c.slot > 0 && hidden(x[0].to_f64()) {
            continue;
        }
        for (i, j) in (k * step % c.columns..).take(step).enumerate() {
            let off = x[i] - means[j];
            dx[i] = d[i] * scales[j] * w.map_or(T::ONE, |w| w[j]);
            g.dscale[j] += off * scales[j] * d[i];
            g.dbias[j] += d[i];
            g.size[j] += T::ONE;
            g.sum[j] += x[i];
            g.squares[j] += off * off;
        }
    }
    for j in 0..c.columns {
        let size = g.size[j];
        if c.slot == 0 {
            g.squares[j] += size * epsilon;
        } else if size >= T::ONE {
            g.sum[j] = g.sum[j] / size;
            g.squares[j] = g.squares[j] / size + size * epsilon;
            g.size[j] = T::ONE;
        }
    }
    g
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: [f64; 12] = [0.5, -1.0, 2.0, 3.0, 0.0, 4.0, 1.0, 2.5, -0.5, 0.25, 0.0, 7.0];

    #[test]
    fn columns_are_normalized() {
        let (means, scales) = statistics(&[4.0, 4.0, 2.0, 1.0], &[2.0, 4.0, -1.0, 0.5], &[1.0, 16.0, 8.0, 4.0]);
        assert_eq!((&means[..], &scales[..]), (&[0.5, 1.0, -0.5, 0.5][..], &[2.0, 0.5, 0.5, 0.5][..]));
        let (w, b) = ([1.0, 2.0, 3.0, 4.0], [0.5; 4]);
        for slot in [0, 2] {
            let mut y = [9.0; 12];
            forward(SlotColumns { columns: 4, slot }, &X, &means, &scales, Some((&w, &b)), &mut y);
            for (k, &y) in y.iter().enumerate() {
                let (first, j) = (X[k / 2 * 2], k % 4);
                let want = (X[k] - means[j]) * scales[j] * w[j] + b[j];
                assert_eq!(y, if slot > 0 && first == 0.0 { 0.0 } else { want }, "{k}");
            }
        }
        forward::<f32>(SlotColumns { columns: 0, slot: 0 }, &[], &[], &[], None, &mut []);
    }

    #[test]
    fn gradients_are_contributions_to_the_statistics() {
        let (means, scales, w) = ([0.5, 1.0, -0.5, 0.5], [2.0, 0.5, 0.25, 0.5], [1.0, 2.0, 3.0, 4.0]);
        let d: Vec<f64> = (0..12).map(|i| i as f64 / 4.0 - 1.0).collect();
        for slot in [0, 2] {
            let g = backward(SlotColumns { columns: 4, slot }, (&X, &d), (&means, &scales), Some(&w), 0.125);
            let shown = |k: usize| slot == 0 || X[k / 2 * 2] != 0.0;
            for j in 0..4 {
                let of = || (0..3).map(|r| r * 4 + j).filter(|&k| shown(k));
                let (n, sum) = (of().count() as f64, of().map(|k| X[k]).sum::<f64>());
                let squares = of().map(|k| (X[k] - means[j]).powi(2)).sum::<f64>();
                let (size, sum, squares) = match slot {
                    0 => (n, sum, squares + n * 0.125),
                    _ => (1.0, sum / n, squares / n + n * 0.125),
                };
                assert_eq!((g.size[j], g.sum[j], g.squares[j]), (size, sum, squares));
                assert_eq!(g.dbias[j], of().map(|k| d[k]).sum::<f64>());
                assert_eq!(g.dscale[j], of().map(|k| (X[k] - means[j]) * scales[j] * d[k]).sum::<f64>());
            }
            let dx: Vec<f64> = (0..12).map(|k| if shown(k) { d[k] * scales[k % 4] * w[k % 4] } else { 0.0 }).collect();
            assert_eq!(g.dx, dx);
        }
    }
}
