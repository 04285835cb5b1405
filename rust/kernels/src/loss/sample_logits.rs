//! Scores of a row's labels and of sampled classes, minus the logarithms of their expected counts.

use crate::random::{uniform, Mt64};
use crate::types::Float;
use std::collections::HashSet;

/// Draws `count` distinct classes from a log-uniform distribution; returns them and the number of draws.
pub fn draw(engine: &mut Mt64, classes: i64, count: usize) -> (Vec<i64>, usize) {
    let range = ((classes + 1) as f64).ln() as f32;
    let (mut drawn, mut seen, mut tries) = (Vec::with_capacity(count), HashSet::new(), 0);
    while drawn.len() < count {
        tries += 1;
        let mut unit = [0f64];
        uniform(engine, 0.0, 1.0, &mut unit);
        let class = ((unit[0] * range as f64).exp() as i64 - 1).max(0) % classes;
        if seen.insert(class) {
            drawn.push(class);
        }
    }
    (drawn, tries)
}

/// The probability of a class in one draw.
fn probability(class: i64, classes: i64) -> f32 {
    (((class as f64 + 2.0) / (class as f64 + 1.0)).ln() / ((classes + 1) as f64).ln() as f32 as f64) as f32
}

/// Rows of `own` labels, each followed by the drawn classes.
pub fn rows(labels: &[i64], own: usize, drawn: &[i64], to: &mut [i64]) {
    for (i, row) in to.chunks_exact_mut((own + drawn.len()).max(1)).enumerate() {
        row[..own].copy_from_slice(&labels[i * own..][..own]);
        row[own..].copy_from_slice(drawn);
    }
}

/// The probability of each class over `tries` draws of which `count` were kept.
pub fn probabilities<T: Float>(samples: &[i64], classes: i64, (tries, count): (usize, usize), out: &mut [T]) {
    for (p, &class) in out.iter_mut().zip(samples) {
        let once = T::from_f64(f64::from(probability(class, classes)));
        *p = match tries == count {
            true => once * T::from_f64(count as f64),
            false => -(T::from_f64(tries as f64) * (-once).ln_1p()).exp_m1(),
        };
    }
}

/// Infinities become +-1e20.
fn finite<T: Float>(v: T) -> T {
    let big = T::from_f64(1e20);
    match v.abs() == T::highest() {
        true if v > T::ZERO => big,
        true => -big,
        false => v,
    }
}

/// The scores of the samples, of which each row has `columns`, the first `own` being its labels. A drawn class that is a label
/// of its row is an accidental hit; `remove_hits` gives it a score of no effect.
pub fn scores<T: Float>(
    (x, classes): (&[T], usize),
    samples: &[i64],
    probabilities: &[T],
    (columns, own): (usize, usize),
    remove_hits: bool,
    out: &mut [T],
) {
    if columns == 0 {
        return;
    }
    for (i, row) in samples.chunks_exact(columns).enumerate() {
        for (j, &class) in row.iter().enumerate() {
            let mut v = x[i * classes + class as usize];
            if remove_hits && j >= own && row[..own].contains(&class) {
                v = v - T::from_f64(1e20);
            }
            out[i * columns + j] = finite(v - finite(probabilities[i * columns + j].ln()));
        }
    }
}

/// Adds the gradient of the samples' scores to that of all scores.
pub fn scores_grad<T: Float>(samples: &[i64], columns: usize, dout: &[T], classes: usize, dx: &mut [T]) {
    for (i, (&class, &v)) in samples.iter().zip(dout).enumerate() {
        dx[i / columns * classes + class as usize] += v;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_equal_a_plain_loop() {
        let (classes, own) = (5, 2);
        let x: Vec<f64> = (0..10).map(|i| i as f64 / 2.0).collect();
        let (labels, drawn) = ([1, 3, 0, 4], [3, 2, 0]);
        let (mut samples, mut p, mut y) = ([9; 10], [0.0; 10], [0.0; 10]);
        rows(&labels, own, &drawn, &mut samples);
        assert_eq!(samples, [1, 3, 3, 2, 0, 0, 4, 3, 2, 0]);
        probabilities(&samples, classes, (4, 3), &mut p);
        for (&s, &p) in samples.iter().zip(&p) {
            let once = ((s as f64 + 2.0) / (s as f64 + 1.0)).ln() / 6f64.ln();
            assert!((p - (1.0 - (1.0 - once).powi(4))).abs() < 1e-6);
        }
        p[4] = 0.0;
        scores((&x, 5), &samples, &p, (5, own), true, &mut y);
        for i in 0..10 {
            let v = x[i / 5 * 5 + samples[i] as usize];
            let want = match i {
                // Accidental hits: 3 in the first row, 0 in the second.
                2 | 9 => v - 1e20 - p[i].ln(),
                4 => v + 1e20,
                _ => v - p[i].ln(),
            };
            assert_eq!(y[i], want, "{i}");
        }
        let mut dx = [0.0; 10];
        scores_grad(&samples, 5, &[1.0; 10], 5, &mut dx);
        assert_eq!(dx, [1.0, 1.0, 1.0, 2.0, 0.0, 2.0, 0.0, 1.0, 1.0, 1.0]);
        scores::<f32>((&[], 5), &[], &[], (0, 0), true, &mut []);
    }

    #[test]
    fn drawn_classes_are_distinct() {
        let (drawn, tries) = draw(&mut Mt64::new(3), 6, 6);
        let mut sorted = drawn.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
        assert!(tries >= 6);
    }
}
