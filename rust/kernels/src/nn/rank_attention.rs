//! rank_attention: features of other samples times the parameter block of both ranks.

use crate::types::Float;

/// One term of a row: its position, the row whose features it reads, and the parameter block.
#[derive(Debug, PartialEq)]
pub struct RankPair {
    pub place: usize,
    pub row: usize,
    pub block: usize,
}

/// The terms of every row. A line of `offsets` holds a row's rank, then (rank, row) of each of `ranks` other samples;
/// ranks count from 1, and a lower one is no term. The error is the number of a line with a rank above `ranks` or
/// without a row.
pub fn pairs(offsets: &[i32], ranks: usize, rows: usize) -> Result<Vec<Vec<RankPair>>, usize> {
    let most = ranks as i64;
    let mut found = Vec::with_capacity(rows);
    for (at, line) in offsets.chunks_exact(2 * ranks + 1).enumerate() {
        let mut of_row = Vec::new();
        for (place, other) in line[1..].chunks_exact(2).enumerate() {
            let (own, rank, row) = (line[0] as i64, other[0] as i64, other[1] as i64);
            if own < 1 || rank < 1 {
                continue;
            }
            if own > most || rank > most || !(0..rows as i64).contains(&row) {
                return Err(at);
            }
            of_row.push(RankPair { place, row: row as usize, block: ((own - 1) * most + rank - 1) as usize });
        }
        found.push(of_row);
    }
    Ok(found)
}

/// out[i] = the sum over the terms of row i of x[row] times the block of `w`, [blocks, features, columns].
pub fn forward<T: Float>(
    pairs: &[Vec<RankPair>],
    x: &[T],
    w: &[T],
    (features, columns): (usize, usize),
    out: &mut [T],
) {
    out.fill(T::ZERO);
    for (pairs, out) in pairs.iter().zip(out.chunks_exact_mut(columns.max(1))) {
        for p in pairs {
            let block = &w[p.block * features * columns..][..features * columns];
            for (&v, w) in x[p.row * features..][..features].iter().zip(block.chunks_exact(columns.max(1))) {
                out.iter_mut().zip(w).for_each(|(o, &w)| *o += v * w);
            }
        }
    }
}

/// Copies the features of each term of each row, [rows, ranks, features]; zeros without a term.
pub fn gather<T: Float>(pairs: &[Vec<RankPair>], x: &[T], ranks: usize, features: usize, out: &mut [T]) {
    out.fill(T::ZERO);
    for (i, pairs) in pairs.iter().enumerate() {
        for p in pairs {
            let to = &mut out[(i * ranks + p.place) * features..][..features];
            to.copy_from_slice(&x[p.row * features..][..features]);
        }
    }
}

/// The gradient of the blocks.
pub fn blocks_grad<T: Float>(pairs: &[Vec<RankPair>], x: &[T], dout: &[T], features: usize, dw: &mut [T]) {
    let columns = dout.len() / pairs.len().max(1);
    dw.fill(T::ZERO);
    for (pairs, d) in pairs.iter().zip(dout.chunks_exact(columns.max(1))) {
        for p in pairs {
            let block = &mut dw[p.block * features * columns..][..features * columns];
            for (&v, to) in x[p.row * features..][..features].iter().zip(block.chunks_exact_mut(columns.max(1))) {
                to.iter_mut().zip(d).for_each(|(to, &d)| *to += v * d);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sums_over_pairs() {
        let (rows, ranks, features, columns) = (4, 2, 3, 2);
        // Row 2 has no rank; the second sample of row 0 has none.
        let offsets = [1, 1, 1, 0, 9, 2, 1, 3, 2, 0, 0, 1, 1, 1, 1, 2, 2, 2, 1, 0];
        let pairs = pairs(&offsets, ranks, rows).unwrap();
        assert_eq!(pairs[0], [RankPair { place: 0, row: 1, block: 0 }]);
        assert_eq!(pairs[3].iter().map(|p| (p.row, p.block)).collect::<Vec<_>>(), [(2, 3), (0, 2)]);
        let x: Vec<f64> = (0..rows * features).map(|i| (i * 7919 % 23) as f64 - 11.0).collect();
        let w: Vec<f64> = (0..ranks * ranks * features * columns).map(|i| (i * 104_729 % 19) as f64 - 9.0).collect();
        let (mut out, mut help) = (vec![9.0; rows * columns], vec![9.0; rows * ranks * features]);
        forward(&pairs, &x, &w, (features, columns), &mut out);
        gather(&pairs, &x, ranks, features, &mut help);
        let dout: Vec<f64> = (0..rows * columns).map(|i| i as f64 - 3.0).collect();
        let (mut dw, mut want_dw) = (vec![9.0; w.len()], vec![0.0; w.len()]);
        blocks_grad(&pairs, &x, &dout, features, &mut dw);
        for i in 0..rows {
            let mut want = vec![0.0; columns];
            for p in 0..ranks {
                let line = &offsets[i * 5..][..5];
                let (own, rank, row) = (line[0], line[1 + 2 * p], line[2 + 2 * p] as usize);
                let there = own > 0 && rank > 0;
                for f in 0..features {
                    let v = if there { x[row * features + f] } else { 0.0 };
                    assert_eq!(help[(i * ranks + p) * features + f], v);
                    for c in (0..columns).filter(|_| there) {
                        let at = (((own - 1) * 2 + rank - 1) as usize * features + f) * columns + c;
                        want[c] += v * w[at];
                        want_dw[at] += v * dout[i * columns + c];
                    }
                }
            }
            assert_eq!(out[i * columns..][..columns], want);
        }
        assert_eq!(dw, want_dw);
        assert_eq!(super::pairs(&[1, 3, 0, 0, 0], 2, 1), Err(0));
        assert_eq!(super::pairs(&[0, 3, 0, 0, 0, 1, 1, 2, 0, 0], 2, 2), Err(1));
    }
}
