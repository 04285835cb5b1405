//! Matching of prior boxes (columns) with objects (rows) by a matrix of similarities, and mining of hard examples.

use super::boxes::descending;
use crate::pool;
use crate::ranking;
use crate::types::{Float, Plain};

/// Lower similarities do not match.
const LEAST: f64 = 1e-6;
/// Number of rows from which all pairs are sorted and every similarity above 0 matches, as in Paddle.
const MANY: usize = 130;

/// Greedy bipartite matching: repeatedly matches the most similar pair of a free row and a free column. `row` and
/// `found` receive the row and similarity of each matched column; columns with an entry of -1 in `row` are free.
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
    ranking::sort(&mut pairs, |&a, &b| dist[b].partial_cmp(&dist[a]).unwrap_or(std::cmp::Ordering::Equal));
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

/// Matches the columns of each image, whose rows of `dist` end at the offsets `level` (from 0); `row` holds -1 and
/// `found` 0. With a `threshold` free columns are matched with their most similar row, too.
pub fn match_images<T: Float>(
    dist: &[T],
    level: &[usize],
    columns: usize,
    threshold: Option<f32>,
    row: &mut [i32],
    found: &mut [T],
) {
    if columns == 0 {
        return;
    }
    let mut parts: Vec<_> = row.chunks_exact_mut(columns).zip(found.chunks_exact_mut(columns)).collect();
    pool::parts(&mut parts, 1, |at, part| {
        for (k, (row, found)) in part.iter_mut().enumerate() {
            let own = &dist[level[at + k] * columns..level[at + k + 1] * columns];
            bipartite(own, columns, row, found);
            if let Some(threshold) = threshold {
                per_prediction(own, columns, threshold, row, found);
            }
        }
    });
}

/// Rows of objects, [rows, period, width], with the rows of each image between the offsets `level`.
#[derive(Clone, Copy)]
pub struct ObjectRows<'a, T> {
    pub data: &'a [T],
    pub level: &'a [usize],
    pub period: usize,
    pub width: usize,
}

/// Copies to each matched column of each image (`matched` >= 0, [images, columns]) its object's row, and sets its
/// weight to 1; other elements keep their values. The error is the index in `matched` of a row that the image does not
/// have.
pub fn assign<T: Plain>(
    x: ObjectRows<T>,
    matched: &[i32],
    columns: usize,
    values: &mut [T],
    weights: &mut [f32],
) -> Result<(), usize> {
    for (k, &id) in matched.iter().enumerate().filter(|(_, &id)| id > -1) {
        let (image, column) = (k / columns, k % columns);
        let row = x.level[image] + id as usize;
        if row >= x.level[image + 1] || x.period == 0 {
            return Err(k);
        }
        let from = (row * x.period + column % x.period) * x.width;
        values[k * x.width..(k + 1) * x.width].copy_from_slice(&x.data[from..from + x.width]);
        weights[k] = 1.0;
    }
    Ok(())
}

/// Fills the elements of negative columns, numbered over all images, and sets their weights to 1.
pub fn assign_negative<T: Plain>(negative: &[usize], width: usize, mismatch: T, values: &mut [T], weights: &mut [f32]) {
    for &k in negative {
        values[k * width..(k + 1) * width].fill(mismatch);
        weights[k] = 1.0;
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
    ranking::sort(&mut hard, |a, b| descending(a.1, b.1));
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

/// Mines each image of `columns` boxes: `loss` and the optional second loss, which is added, are [images, columns].
/// Returns the negative boxes and the end of each image among them, after a 0; `updated` holds a copy of `matched`.
pub fn mine_images<T: Float>(
    mining: Mining,
    columns: usize,
    (matched, dist): (&[i32], &[T]),
    (loss, second): (&[T], Option<&[T]>),
    updated: &mut [i32],
) -> (Vec<i32>, Vec<usize>) {
    let (mut negative, mut level) = (Vec::new(), vec![0]);
    for image in 0..matched.len().checked_div(columns).unwrap_or(0) {
        let own = image * columns..(image + 1) * columns;
        let loss = |k: usize| {
            let k = own.start + k;
            second.map_or(loss[k], |second| loss[k] + second[k])
        };
        mine(mining, &matched[own.clone()], &dist[own.clone()], loss, &mut updated[own.clone()], &mut negative);
        level.push(negative.len());
    }
    (negative, level)
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

    #[test]
    fn images_are_matched_apart() {
        let dist: Vec<f64> = (0..5 * 7).map(|i| (i * 7919 % 97) as f64 / 97.0).collect();
        let (level, mut row, mut found) = ([0, 2, 2, 5], vec![-1; 21], vec![0.0; 21]);
        match_images(&dist, &level, 7, Some(0.6), &mut row, &mut found);
        for image in 0..3 {
            let (mut want, mut want_dist) = (vec![-1; 7], vec![0.0; 7]);
            let own = &dist[level[image] * 7..level[image + 1] * 7];
            bipartite(own, 7, &mut want, &mut want_dist);
            per_prediction(own, 7, 0.6, &mut want, &mut want_dist);
            assert_eq!((&row[image * 7..][..7], &found[image * 7..][..7]), (&want[..], &want_dist[..]));
        }
        match_images::<f32>(&[], &[0, 0], 0, None, &mut [], &mut []);
    }

    #[test]
    fn targets_are_rows_of_the_matched_objects() {
        let data: Vec<i32> = (0..3 * 2 * 2).collect();
        let x = ObjectRows { data: &data, level: &[0, 1, 3], period: 2, width: 2 };
        let (mut values, mut weights) = (vec![-5; 12], vec![0.0; 6]);
        assign(x, &[0, -1, 0, 1, 0, -1], 3, &mut values, &mut weights).unwrap();
        assert_eq!(values, [0, 1, -5, -5, 0, 1, 8, 9, 6, 7, -5, -5]);
        assert_eq!(weights, [1.0, 0.0, 1.0, 1.0, 1.0, 0.0]);
        assign_negative(&[1, 4], 2, -5, &mut values, &mut weights);
        assert_eq!((&values[8..10], &weights[..]), (&[-5, -5][..], &[1.0, 1.0, 1.0, 1.0, 1.0, 0.0][..]));
        assert_eq!(assign(x, &[0, -1, 1, 0, 0, 0], 3, &mut values, &mut weights), Err(2));
    }

    #[test]
    fn images_are_mined_apart() {
        let (matched, dist) = ([0, -1, -1, -1, -1, 0], [0.9f32, 0.1, 0.2, 0.1, 0.3, 0.8]);
        let (loss, second) = ([0.1, 0.5, 0.4, 0.7, 0.2, 0.3], [0.0, 0.0, 0.3, 0.0, 0.9, 0.0]);
        let mut updated = matched;
        let mining = Mining::MaxNegative { ratio: 1.0, threshold: 0.5 };
        assert_eq!(mine_images(mining, 3, (&matched, &dist), (&loss, None), &mut updated), (vec![1, 0], vec![0, 1, 2]));
        let both = mine_images(mining, 3, (&matched, &dist), (&loss, Some(&second)), &mut updated);
        assert_eq!((both, updated), ((vec![2, 1], vec![0, 1, 2]), matched));
    }
}
