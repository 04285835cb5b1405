//! Matching of prior boxes (columns) with objects (rows) by a matrix of similarities, and mining of hard examples.

use super::boxes::descending;
use crate::types::Float;

/// Lower similarities do not match.
const LEAST: f64 = 1e-6;
/// Number of rows from which all pairs are sorted and every similarity above 0 matches, as in Paddle.
const MANY: usize = 130;

/// Greedy bipartite matching: repeatedly matches the most similar pair of a free row and a free column. `row` and `found`
/// receive the row and similarity of each matched column; columns with an entry of -1 in `row` are free.
pub fn bipartite<T: Float>(dist: &[T], columns: usize, row: &mut [i32], found: &mut [T]) {
    if dist.len() / columns >= MANY {
        bipartite_sorted(dist, columns, row, found);
    } else {
        bipartite_few(dist, columns, row, found);
    }
}

/// Of equal pairs the first row comes first.
fn bipartite_sorted<T: Float>(dist: &[T], columns: usize, row: &mut [i32], found: &mut [T]) {
    let mut pairs: Vec<usize> = (0..dist.len()).filter(|&k| dist[k] > T::ZERO).collect();
    pairs.sort_by(|&a, &b| dist[b].partial_cmp(&dist[a]).unwrap_or(std::cmp::Ordering::Equal));
    let mut taken = vec![false; dist.len() / columns];
    for k in pairs {
        let (i, j) = (k / columns, k % columns);
        if !taken[i] && row[j] == -1 {
            (row[j], found[j], taken[i]) = (i as i32, dist[k], true);
        }
    }
}

/// Of equal pairs the first column comes first. Each row caches its best free column.
fn bipartite_few<T: Float>(dist: &[T], columns: usize, row: &mut [i32], found: &mut [T]) {
    let least = T::from_f64(LEAST);
    let favourite = |i: usize, row: &[i32]| {
        let mut best: Option<(T, usize)> = None;
        for (j, &d) in dist[i * columns..(i + 1) * columns].iter().enumerate() {
            if row[j] == -1 && d >= least && best.is_none_or(|b| d > b.0) {
                best = Some((d, j));
            }
        }
        best
    };
    let mut best: Vec<_> = (0..dist.len() / columns).map(|i| favourite(i, row)).collect();
    loop {
        let mut next: Option<(T, usize, usize)> = None;
        for (i, own) in best.iter().enumerate() {
            let Some((d, j)) = *own else { continue };
            if next.is_none_or(|n| d > n.0 || d == n.0 && j < n.1) {
                next = Some((d, j, i));
            }
        }
        let Some((d, j, i)) = next else { return };
        (row[j], found[j], best[i]) = (i as i32, d, None);
        for (i, own) in best.iter_mut().enumerate() {
            if own.is_some_and(|b| b.1 == j) {
                *own = favourite(i, row);
            }
        }
    }
}

/// Matches each free column with its most similar row, if the similarity is at least `threshold`.
pub fn per_prediction<T: Float>(dist: &[T], columns: usize, threshold: f32, row: &mut [i32], found: &mut [T]) {
    for j in (0..columns).filter(|&j| row[j] == -1).collect::<Vec<_>>() {
        let mut highest = T::from_f64(-1.0);
        for (i, line) in dist.chunks_exact(columns).enumerate() {
            let d = line[j];
            if d.to_f64() >= T::from_f64(LEAST).to_f64() && d >= T::from_f64(threshold.into()) && d > highest {
                (row[j], found[j], highest) = (i as i32, d, d);
            }
        }
    }
}

/// How hard examples are chosen.
#[derive(Clone, Copy)]
pub enum Mining {
    /// Unmatched boxes with a similarity below `threshold`, at most `ratio` times the number of matched boxes.
    MaxNegative { ratio: f32, threshold: f32 },
    /// At most `count` of all boxes; matched boxes that are not chosen lose their match.
    HardExample { count: usize },
}

/// Chooses the boxes of one image with the highest losses; `matched` has the row of each box or -1. Appends the chosen
/// negative boxes to `negative`, and writes -1 to `updated` for boxes that lose their match.
pub fn mine<T: Float>(
    mining: Mining,
    matched: &[i32],
    dist: &[T],
    loss: impl Fn(usize) -> T,
    updated: &mut [i32],
    negative: &mut Vec<i32>,
) {
    let far = |k: usize, threshold: f32| matched[k] == -1 && (dist[k].to_f64() as f32) < threshold;
    let candidate = |k: &usize| match mining {
        Mining::MaxNegative { threshold, .. } => far(*k, threshold),
        Mining::HardExample { .. } => true,
    };
    let mut hard: Vec<(usize, T)> = (0..matched.len()).filter(candidate).map(|k| (k, loss(k))).collect();
    let most = match mining {
        Mining::MaxNegative { ratio, .. } => (matched.iter().filter(|&&m| m != -1).count() as f32 * ratio) as usize,
        Mining::HardExample { count } => count,
    };
    hard.sort_by(|a, b| descending(a.1, b.1));
    hard.truncate(most);
    let mut chosen = vec![false; matched.len()];
    hard.iter().for_each(|(k, _)| chosen[*k] = true);
    let releases = matches!(mining, Mining::HardExample { .. });
    for k in 0..matched.len() {
        match (chosen[k], matched[k] > -1 && releases) {
            (true, false) => negative.push(k as i32),
            (false, true) => updated[k] = -1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Repeatedly takes the greatest pair of a free row and a free column, the first by `key` of equal ones.
    fn greedy(dist: &[f64], columns: usize, least: f64, by_column: bool) -> Vec<i32> {
        let (mut rows, mut row) = (vec![true; dist.len() / columns], vec![-1; columns]);
        loop {
            let mut best: Option<usize> = None;
            for k in 0..dist.len() {
                let k = if by_column { k % rows.len() * columns + k / rows.len() } else { k };
                if rows[k / columns]
                    && row[k % columns] == -1
                    && dist[k] >= least
                    && best.is_none_or(|b| dist[k] > dist[b])
                {
                    best = Some(k);
                }
            }
            let Some(k) = best else { return row };
            (rows[k / columns], row[k % columns]) = (false, (k / columns) as i32);
        }
    }

    #[test]
    fn bipartite_matching_is_greedy() {
        for (rows, columns) in [(1, 1), (3, 7), (20, 9), (MANY + 3, 40)] {
            let dist: Vec<f64> = (0..rows * columns).map(|i| (i * 7919 % 97) as f64 / 97.0).collect();
            let (mut row, mut found) = (vec![-1; columns], vec![0.0; columns]);
            bipartite(&dist, columns, &mut row, &mut found);
            let many = rows >= MANY;
            let want = greedy(&dist, columns, if many { f64::MIN_POSITIVE } else { LEAST }, !many);
            assert_eq!(row, want, "{rows} {columns}");
            let similar = row.iter().zip(&found).enumerate().filter(|(_, (&i, _))| i >= 0);
            similar.for_each(|(j, (&i, &d))| assert_eq!(d, dist[i as usize * columns + j]));
        }
    }

    #[test]
    fn free_columns_get_their_best_row() {
        let dist = [0.9f32, 0.6, 0.2, 0.3, 0.7, 0.1];
        let (mut row, mut found) = (vec![0, -1, -1], vec![0.9, 0.0, 0.0]);
        per_prediction(&dist, 3, 0.5, &mut row, &mut found);
        assert_eq!((row, found), (vec![0, 1, -1], vec![0.9, 0.7, 0.0]));
    }

    #[test]
    fn hard_examples_have_the_highest_losses() {
        let (matched, dist) = ([0, -1, -1, -1, 1], [0.9f32, 0.1, 0.6, 0.2, 0.8]);
        let loss = [0.1f32, 0.5, 0.9, 0.7, 0.3];
        let (mut updated, mut negative) = (matched, vec![]);
        mine(
            Mining::MaxNegative { ratio: 0.5, threshold: 0.5 },
            &matched,
            &dist,
            |k| loss[k],
            &mut updated,
            &mut negative,
        );
        assert_eq!((updated, negative), (matched, vec![3]));
        let (mut updated, mut negative) = (matched, vec![]);
        mine(Mining::HardExample { count: 4 }, &matched, &dist, |k| loss[k], &mut updated, &mut negative);
        assert_eq!((updated, negative), ([-1, -1, -1, -1, 1], vec![1, 2, 3]));
    }
}
