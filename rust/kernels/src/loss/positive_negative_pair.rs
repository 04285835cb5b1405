//! Pairs of items of a query with different labels, counted by whether their scores are in the order of their labels.

use crate::types::Float;
use std::collections::BTreeMap;

/// The sums of the weights of pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PairSums<T> {
    /// Pairs in order.
    pub positive: T,
    /// Pairs in reverse order, and those of equal scores (as in Paddle).
    pub negative: T,
    /// Pairs of equal scores.
    pub neutral: T,
}

/// Adds the weights of all pairs, the mean of those of their items, to `sums`.
pub fn count<T: Float>(
    (score, width, column): (&[T], usize, usize),
    label: &[T],
    queries: &[i64],
    weights: Option<&[T]>,
    mut sums: PairSums<T>,
) -> PairSums<T> {
    let mut items_of: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (i, &id) in queries.iter().enumerate() {
        items_of.entry(id).or_default().push(i);
    }
    let half = T::from_f64(0.5);
    for items in items_of.values() {
        for (k, &i) in items.iter().enumerate() {
            for &j in items[k + 1..].iter().filter(|&&j| label[i] != label[j]) {
                let by = weights.map_or(T::ONE, |w| (w[i] + w[j]) * half);
                let (a, b) = (score[i * width + column], score[j * width + column]);
                if a == b {
                    sums.neutral += by;
                }
                match (a - b) * (label[i] - label[j]) > T::ZERO {
                    true => sums.positive += by,
                    false => sums.negative += by,
                }
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pairs_of_a_query_count() {
        let score = [0.0f64, 1.0, 0.0, 2.0, 0.0, 1.0, 0.0, 5.0];
        let (label, queries, weights) = ([1.0, 0.0, 0.0, 1.0], [3, 3, 3, 4], [1.0, 2.0, 3.0, 4.0]);
        let first = PairSums { positive: 0.5, negative: 0.25, neutral: 0.0 };
        let sums = count((&score, 2, 1), &label, &queries, Some(&weights), first);
        // Items 0 and 1 are in reverse order, 0 and 2 have equal scores.
        assert_eq!(sums, PairSums { positive: 0.5, negative: 0.25 + 1.5 + 2.0, neutral: 2.0 });
        let sums = count((&score, 2, 1), &[0.0, 1.0, 0.0, 1.0], &queries, None, PairSums::default());
        assert_eq!(sums, PairSums { positive: 2.0, negative: 0.0, neutral: 0.0 });
        assert_eq!(count::<f32>((&[], 1, 0), &[], &[], None, PairSums::default()), PairSums::default());
    }
}
