//! Sums of the embeddings of each sequence's ids.

use crate::types::Float;

/// Ids, `across` of them per row, of sequences of rows between `offsets` (from 0).
#[derive(Clone, Copy)]
pub struct EmbeddingPool<'a> {
    pub ids: &'a [i64],
    pub across: usize,
    pub offsets: &'a [usize],
    /// The id that counts as zeros; -1: none.
    pub padding: i64,
    /// Elements of an embedding.
    pub width: usize,
}

impl EmbeddingPool<'_> {
    /// Calls `f(position of the id, id, number of its sum)` for each id that is not padding.
    fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        for (i, run) in self.offsets.windows(2).enumerate() {
            for at in run[0] * self.across..run[1] * self.across {
                if self.ids[at] != self.padding || self.padding == -1 {
                    f(at, self.ids[at] as usize, i * self.across + at % self.across);
                }
            }
        }
    }

    /// Adds the embeddings to the sums, [sequences, across, width].
    pub fn forward<T: Float>(&self, table: &[T], sums: &mut [T]) {
        let n = self.width;
        self.each(|_, id, sum| sums[sum * n..][..n].iter_mut().zip(&table[id * n..]).for_each(|(o, &v)| *o += v));
    }

    /// Adds the gradient of the sums to the rows of the table, or (`by_position`) to a row for each id.
    pub fn backward<T: Float>(&self, d: &[T], by_position: bool, rows: &mut [T]) {
        let n = self.width;
        self.each(|at, id, sum| {
            let row = if by_position { at } else { id };
            rows[row * n..][..n].iter_mut().zip(&d[sum * n..]).for_each(|(o, &v)| *o += v);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeddings_of_sequences_are_added() {
        let (ids, table) = ([0, 2, 1, 2, 0, 1, 2, 2], (0..6).map(f64::from).collect::<Vec<_>>());
        for padding in [-1, 2] {
            let p = EmbeddingPool { ids: &ids, across: 2, offsets: &[0, 1, 1, 4], padding, width: 2 };
            let (mut sums, mut want) = (vec![0.0; 12], vec![0.0; 12]);
            p.forward(&table, &mut sums);
            let d: Vec<f64> = (0..12).map(|i| (i * 5 % 7) as f64).collect();
            let (mut rows, mut dense) = (vec![0.0; 16], vec![0.0; 6]);
            p.backward(&d, true, &mut rows);
            p.backward(&d, false, &mut dense);
            let [mut want_rows, mut want_dense] = [vec![0.0; 16], vec![0.0; 6]];
            for (at, &id) in ids.iter().enumerate().filter(|(_, &id)| id != padding) {
                let (sequence, id) = (if at / 2 == 0 { 0 } else { 2 }, id as usize);
                for k in 0..2 {
                    let of = (sequence * 2 + at % 2) * 2 + k;
                    want[of] += table[id * 2 + k];
                    want_rows[at * 2 + k] += d[of];
                    want_dense[id * 2 + k] += d[of];
                }
            }
            assert_eq!((sums, rows, dense), (want, want_rows, want_dense));
        }
    }
}
