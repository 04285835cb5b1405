//! Averages of the k largest elements of every row of every channel, for several k.

use crate::ranking;
use crate::types::Float;

/// Entry of the saved positions for rows with fewer than k elements.
pub const NONE: i32 = -1;

/// One matrix of a channel: its offset in the elements, its sizes, and its first row among all rows.
#[derive(Clone, Copy)]
pub struct Matrix {
    pub at: usize,
    pub rows: usize,
    pub columns: usize,
    pub row: usize,
    pub channel: usize,
}

/// Averages of the `topks[i]` largest elements; the last of `topks` is the largest.
pub struct TopkAverages<'a> {
    pub topks: &'a [usize],
    pub channels: usize,
    pub matrices: &'a [Matrix],
}

impl TopkAverages<'_> {
    fn most(&self) -> usize {
        self.topks.last().copied().unwrap_or(0)
    }

    /// The matrices' rows: the range of elements, and the row's index in the results.
    fn rows(&self) -> impl Iterator<Item = (std::ops::Range<usize>, usize)> + '_ {
        self.matrices.iter().flat_map(|m| {
            (0..m.rows).map(|r| {
                let at = m.at + r * m.columns;
                (at..at + m.columns, (m.row + r) * self.channels + m.channel)
            })
        })
    }

    /// Writes the averages, and the positions of the largest elements in descending order ([`NONE`] after the last). Of equal
    /// elements the last one comes first.
    pub fn pool<T: Float>(&self, x: &[T], positions: &mut [i32], out: &mut [T]) {
        let (most, count) = (self.most(), self.topks.len());
        for (own, at) in self.rows() {
            let values = &x[own];
            let order = ranking::first(values.len(), most, |a, b| values[b].total_cmp(&values[a]).then(b.cmp(&a)));
            let kept = &mut positions[at * most..][..most];
            kept.fill(NONE);
            kept.iter_mut().zip(&order).for_each(|(to, &i)| *to = i as i32);
            for (to, &k) in out[at * count..][..count].iter_mut().zip(self.topks) {
                let sum: T = order.iter().take(k).map(|&i| values[i]).sum();
                *to = sum / T::from_f64(k as f64);
            }
        }
    }

    /// Adds the gradient of the averages to that of the elements; positions outside of a row are ignored.
    pub fn pool_grad<T: Float>(&self, positions: &[i32], dout: &[T], dx: &mut [T]) {
        let (most, count) = (self.most(), self.topks.len());
        for (own, at) in self.rows() {
            let to = &mut dx[own];
            for (&d, &k) in dout[at * count..][..count].iter().zip(self.topks) {
                for &i in positions[at * most..][..k].iter().take_while(|&&i| i != NONE) {
                    let Some(to) = to.get_mut(i as usize) else { continue };
                    *to += d / T::from_f64(k as f64);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_equal_those_of_sorted_rows() {
        // Two channels of a matrix [2, 5], then of one [1, 2].
        let x: Vec<f64> = (0..24).map(|i| (i * 7 % 11) as f64).collect();
        let one = |at, rows, columns, row, channel| Matrix { at, rows, columns, row, channel };
        let matrices = [one(0, 2, 5, 0, 0), one(10, 2, 5, 0, 1), one(20, 1, 2, 2, 0), one(22, 1, 2, 2, 1)];
        let p = TopkAverages { topks: &[1, 3], channels: 2, matrices: &matrices };
        let (mut positions, mut out, mut dx) = (vec![9; 6 * 3], vec![0.0; 6 * 2], vec![0.0; 24]);
        p.pool(&x, &mut positions, &mut out);
        let dout: Vec<f64> = (1..=12).map(f64::from).collect();
        p.pool_grad(&positions, &dout, &mut dx);
        let mut want = vec![0.0; 24];
        for m in &matrices {
            for r in 0..m.rows {
                let first = m.at + r * m.columns;
                let mut order: Vec<usize> = (first..first + m.columns).collect();
                order.sort_by(|&a, &b| x[b].total_cmp(&x[a]).then(b.cmp(&a)));
                let at = (m.row + r) * 2 + m.channel;
                for (i, k) in [1, 3].into_iter().enumerate() {
                    let top = &order[..k.min(order.len())];
                    assert_eq!(out[at * 2 + i], top.iter().map(|&i| x[i]).sum::<f64>() / k as f64);
                    top.iter().for_each(|&j| want[j] += dout[at * 2 + i] / k as f64);
                }
                let kept: Vec<i32> = order.iter().map(|&i| (i - first) as i32).chain([NONE; 3]).take(3).collect();
                assert_eq!(positions[at * 3..][..3], kept);
            }
        }
        assert_eq!(dx, want);
    }
}
