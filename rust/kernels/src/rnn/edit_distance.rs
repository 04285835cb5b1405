//! The edit distance (Levenshtein) of two sequences.

/// The least number of insertions, deletions and substitutions that turn `a` into `b`. One row of the table of distances
/// between prefixes is kept.
pub fn distance(a: &[i64], b: &[i64]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = corner + (x != y) as usize;
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the recursive definition.
    fn plain(a: &[i64], b: &[i64]) -> usize {
        match (a, b) {
            ([], rest) | (rest, []) => rest.len(),
            ([x, a_rest @ ..], [y, b_rest @ ..]) => {
                let changed = plain(a_rest, b_rest) + usize::from(x != y);
                changed.min(plain(a_rest, b) + 1).min(plain(a, b_rest) + 1)
            }
        }
    }

    #[test]
    fn distances_are_those_of_the_definition() {
        for k in 0..60u64 {
            let ids = |seed: u64| -> Vec<i64> {
                let n = (k * seed + 3) % 6;
                (0..n).map(|i| (((i + 1) * seed * (k + 7)) >> 2) as i64 % 3).collect()
            };
            let (a, b) = (ids(5), ids(11));
            assert_eq!(distance(&a, &b), plain(&a, &b), "{a:?} {b:?}");
        }
        assert_eq!(distance(&[1, 2, 3], &[2, 3, 4]), 2);
    }
}
