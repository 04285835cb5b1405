//! The instances (runs of rows) that have one of the wanted tags.

use super::rows::Run;
use super::spans;
use std::collections::HashSet;

/// The runs of the instances with a wanted tag, one after the other in the destination. Instance i has the rows
/// `runs[i]..runs[i + 1]` and the tags of rows `level[i]..level[i + 1]`, `across` tags each.
pub fn select(level: &[usize], tags: &[i64], across: usize, wanted: &HashSet<i64>, runs: &[usize]) -> Vec<Run> {
    let mut end = 0;
    let chosen = spans(level)
        .zip(spans(runs))
        .filter(|(own, _)| tags[own.start * across..own.end * across].iter().any(|id| wanted.contains(id)));
    chosen
        .map(|(_, rows)| {
            let to = end;
            end += rows.len();
            Run { from: rows.start, to, count: rows.len() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_with_a_wanted_tag_are_kept() {
        let wanted = HashSet::from([3, 8]);
        // Two tags a row; the second instance has no rows of tags.
        let found = select(&[0, 1, 1, 3], &[1, 2, 4, 5, 6, 8], 2, &wanted, &[0, 2, 3, 7]);
        assert_eq!(found, [Run { from: 3, to: 0, count: 4 }]);
        let all = select(&[0, 1, 2], &[3, 8], 1, &wanted, &[0, 2, 3]);
        assert_eq!(all, [Run { from: 0, to: 0, count: 2 }, Run { from: 2, to: 2, count: 1 }]);
        assert_eq!(select(&[0], &[], 1, &wanted, &[0]), []);
    }
}
