//! The area under the ROC curve from histograms of predicted probabilities, over all steps or the last few.

use crate::types::Float;

/// The histograms of one class: one row of `buckets` per step, then their sum and the number of steps; without steps the sum
/// only.
pub struct Histogram<'a> {
    pub table: &'a mut [i64],
    pub buckets: usize,
    pub steps: usize,
}

impl Histogram<'_> {
    /// Counts the predictions of one step. With steps it takes the place of the oldest one.
    pub fn add(&mut self, predictions: impl Iterator<Item = usize>) {
        let (buckets, sum) = (self.buckets, self.steps * self.buckets);
        if self.steps == 0 {
            predictions.for_each(|bucket| self.table[bucket] += 1);
            return;
        }
        let start = self.table[sum + buckets].rem_euclid(self.steps as i64) as usize * buckets;
        for k in 0..buckets {
            self.table[sum + k] -= std::mem::take(&mut self.table[start + k]);
        }
        predictions.for_each(|bucket| {
            self.table[start + bucket] += 1;
            self.table[sum + bucket] += 1;
        });
        self.table[sum + buckets] += 1;
    }

    /// The counts over all steps.
    pub fn sum(&self) -> &[i64] {
        &self.table[self.steps * self.buckets..][..self.buckets]
    }
}

/// The bucket of each prediction (the last of `width` columns) and whether its label is positive; negative labels are ignored.
/// Returns the first number that is not a probability as an error.
pub fn buckets<T: Float>(
    predict: &[T],
    width: usize,
    labels: &[i64],
    thresholds: i32,
) -> Result<Vec<(usize, bool)>, T> {
    let scale = T::from_f64(f64::from(thresholds));
    let rows = predict.chunks_exact(width).zip(labels).map(|(row, &label)| {
        let p = row[width - 1];
        match p >= T::ZERO && p <= T::ONE {
            true => Ok(((p * scale).to_f64() as usize, label)),
            false => Err(p),
        }
    });
    let kept = rows.filter(|row| row.as_ref().map_or(true, |&(_, label)| label >= 0));
    kept.map(|row| row.map(|(bucket, label)| (bucket, label > 0))).collect()
}

/// The area from the counts of negative and positive samples in ascending buckets; 0 where a class is absent.
pub fn area(negative: &[i64], positive: &[i64]) -> f64 {
    let (mut area, mut totals) = (0.0, [0.0; 2]);
    for (&n, &p) in negative.iter().zip(positive).rev() {
        let (n, p) = (n as f64, p as f64);
        area += n * (2.0 * totals[1] + p) / 2.0;
        totals = [totals[0] + n, totals[1] + p];
    }
    if totals[0] > 0.0 && totals[1] > 0.0 {
        area = area / totals[1] / totals[0];
    }
    area
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn area_is_the_share_of_pairs_in_order() {
        let predict = [0.1f32, 0.4, 0.35, 0.8, 0.4, 0.9];
        let labels = [0, 0, 1, 1, 1, -1];
        let found = buckets(&predict, 1, &labels, 100).unwrap();
        assert_eq!(found.len(), 5);
        let (mut neg, mut pos) = ([0; 101], [0; 101]);
        for (class, table) in [(false, &mut neg), (true, &mut pos)] {
            let own = found.iter().filter(|f| f.1 == class).map(|f| f.0);
            Histogram { table, buckets: 101, steps: 0 }.add(own);
        }
        let mut pairs = (0.0, 0.0);
        for (i, j) in
            (0..5).flat_map(|i| (0..5).map(move |j| (i, j))).filter(|&(i, j)| labels[i] == 0 && labels[j] == 1)
        {
            let (a, b) = ((predict[i] * 100.0) as i32, (predict[j] * 100.0) as i32);
            pairs = (
                pairs.0
                    + if a < b {
                        1.0
                    } else if a == b {
                        0.5
                    } else {
                        0.0
                    },
                pairs.1 + 1.0,
            );
        }
        assert!((area(&neg, &pos) - pairs.0 / pairs.1).abs() < 1e-12);
        assert_eq!(area(&[3, 4], &[0, 0]), 0.0);
        assert_eq!(buckets(&[0.5, 1.5], 1, &[0, 0], 10), Err(1.5));
        assert_eq!(buckets(&[0.5, 0.25], 2, &[1], 8), Ok(vec![(2, true)]));
    }

    #[test]
    fn the_oldest_step_leaves_the_sum() {
        let mut table = [0; 2 * 3 + 3 + 1];
        let mut h = Histogram { table: &mut table, buckets: 3, steps: 2 };
        h.add([0, 0].into_iter());
        h.add([1].into_iter());
        assert_eq!(h.sum(), [2, 1, 0]);
        h.add([2].into_iter());
        assert_eq!(h.sum(), [0, 1, 1]);
        assert_eq!(table, [0, 0, 1, 0, 1, 0, 0, 1, 1, 3]);
    }
}
