//! Precision, recall and F1 from counts per class: true positives, false positives, true negatives, false negatives.

use super::mean_iou::{pairs, BadClass};

/// The (weighted) counts of each class.
pub fn count(indices: &[i64], labels: &[i64], weights: Option<&[f64]>, classes: i64) -> Result<Vec<f64>, BadClass> {
    let (mut states, mut total) = (vec![0.0; 4 * classes as usize], 0.0);
    for (i, pair) in pairs(indices, labels, classes).enumerate() {
        let (index, label) = pair?;
        let w = weights.map_or(1.0, |w| w[i]);
        total += w;
        if index == label {
            states[4 * index] += w;
        } else {
            states[4 * label + 3] += w;
            states[4 * index + 1] += w;
        }
    }
    // Remaining samples are true negatives.
    states.chunks_exact_mut(4).for_each(|s| s[2] = total - s[0] - s[1] - s[3]);
    Ok(states)
}

/// Precision, recall and F1: macro averages over the classes, then micro averages.
pub fn metrics(states: &[f64]) -> [f64; 6] {
    let share = |part: f64, rest: f64| if part > 0.0 || rest > 0.0 { part / (part + rest) } else { 1.0 };
    let f1 = |p: f64, r: f64| if p > 0.0 || r > 0.0 { 2.0 * p * r / (p + r) } else { 0.0 };
    let n = (states.len() / 4) as f64;
    let (mut p, mut r, mut all) = (0.0, 0.0, [0.0; 3]);
    for s in states.chunks_exact(4) {
        p += share(s[0], s[1]) / n;
        r += share(s[0], s[3]) / n;
        all = [all[0] + s[0], all[1] + s[1], all[2] + s[3]];
    }
    let (micro_p, micro_r) = (share(all[0], all[1]), share(all[0], all[2]));
    [p, r, f1(p, r), micro_p, micro_r, f1(micro_p, micro_r)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_follow_from_counts() {
        let states = count(&[0, 1, 1, 2], &[0, 1, 0, 2], Some(&[1.0, 2.0, 3.0, 0.0]), 3).unwrap();
        assert_eq!(states, [1.0, 0.0, 2.0, 3.0, 2.0, 3.0, 1.0, 0.0, 0.0, 0.0, 6.0, 0.0]);
        let [p, r, f1, micro_p, micro_r, micro] = metrics(&states);
        let (want_p, want_r) = ((1.0 + 2.0 / 5.0 + 1.0) / 3.0, (0.25 + 1.0 + 1.0) / 3.0);
        assert!((p - want_p).abs() < 1e-15 && (r - want_r).abs() < 1e-15);
        assert!((f1 - 2.0 * want_p * want_r / (want_p + want_r)).abs() < 1e-15);
        assert_eq!((micro_p, micro_r, micro), (0.5, 0.5, 0.5));
        assert_eq!(count(&[3], &[0], None, 3), Err(BadClass::Prediction(3)));
        assert_eq!(count(&[], &[], None, 1), Ok(vec![0.0; 4]));
    }
}
