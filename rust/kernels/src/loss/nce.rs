//! Noise-contrastive estimation: a loss of the classes of a row against sampled classes.

use super::{add_scaled, dot};
use crate::random::{uniform, uniform_int, Mt64};
use crate::types::Float;

/// The distribution of sampled classes.
pub enum Noise<'a> {
    Uniform,
    LogUniform,
    /// Walker's method: class i, or its alias (-1: none) with probability 1 - `alias_probs[i]`.
    Custom {
        probs: &'a [f32],
        alias: Vec<i64>,
        alias_probs: &'a [f32],
    },
}

impl Noise<'_> {
    pub fn sample(&self, engine: &mut Mt64, classes: i64) -> i64 {
        let unit = |engine: &mut Mt64| {
            let mut v = [0f64];
            uniform(engine, 0.0, 1.0, &mut v);
            v[0]
        };
        match self {
            Noise::Uniform => uniform_int(engine, 0, classes - 1),
            // Rounding may yield one class too many.
            Noise::LogUniform => {
                let value = (unit(engine) * (classes as f64).ln()).exp() as i64 - 1;
                value.max(0) % (classes - 1).max(1)
            }
            Noise::Custom { alias, alias_probs, .. } => {
                let i = uniform_int(engine, 0, classes - 1) as usize;
                if unit(engine) > alias_probs[i] as f64 && alias[i] >= 0 {
                    alias[i]
                } else {
                    i as i64
                }
            }
        }
    }

    pub fn probability(&self, class: usize, classes: i64) -> f32 {
        match self {
            Noise::Uniform => (1.0 / classes as f64) as f32,
            Noise::LogUniform => {
                (((class as f64 + 2.0) / (class as f64 + 1.0)).ln() / (classes as f64).ln() as f32 as f64) as f32
            }
            Noise::Custom { probs, .. } => probs[class],
        }
    }
}

/// The classes of each row: its own, then the `custom` ones, or without them `drawn` samples.
pub fn draw_rows(
    noise: &Noise,
    engine: &mut Mt64,
    (given, own): (&[i64], usize),
    rows: usize,
    (drawn, custom): (usize, &[i32]),
    classes: i64,
) -> Vec<i64> {
    let mut found = Vec::with_capacity(rows * (own + drawn));
    for i in 0..rows {
        found.extend_from_slice(&given[i * own..(i + 1) * own]);
        match custom.is_empty() {
            true => found.extend((0..drawn).map(|_| noise.sample(engine, classes))),
            false => found.extend(custom.iter().map(|&c| i64::from(c))),
        }
    }
    found
}

/// The operands: rows of `width` elements; weights and biases of the classes; for each row `columns` classes, the last `drawn` of
/// which are noise; a weight for each row.
#[derive(Clone, Copy)]
pub struct Nce<'a, T> {
    pub x: &'a [T],
    pub weight: &'a [T],
    pub bias: Option<&'a [T]>,
    pub labels: &'a [i64],
    pub row_weights: Option<&'a [T]>,
    pub width: usize,
    pub columns: usize,
    pub drawn: usize,
    pub noise: &'a Noise<'a>,
    pub classes: i64,
}

/// The gradients to add to.
pub struct NceGrads<'a, T> {
    pub weight: &'a mut [T],
    pub bias: Option<&'a mut [T]>,
    pub x: Option<&'a mut [T]>,
}

impl<T: Float> Nce<'_, T> {
    /// The expected number of samples of a class.
    fn expected(&self, class: usize) -> T {
        T::from_f64(f64::from(self.noise.probability(class, self.classes) * self.drawn as f32))
    }

    fn row_weight(&self, i: usize) -> T {
        self.row_weights.map_or(T::ONE, |w| w[i])
    }

    /// Writes the probability of each class of a row, and the cost of each row.
    pub fn forward(&self, probabilities: &mut [T], cost: &mut [T]) {
        let (width, columns) = (self.width, self.columns);
        for (i, cost) in cost.iter_mut().enumerate() {
            let row = &self.x[i * width..(i + 1) * width];
            *cost = T::ZERO;
            for j in 0..columns {
                let class = self.labels[i * columns + j] as usize;
                let score = dot(row, &self.weight[class * width..]) + self.bias.map_or(T::ZERO, |b| b[class]);
                let o = T::ONE / (T::ONE + (-score).exp());
                probabilities[i * columns + j] = o;
                let b = self.expected(class);
                let part = if j < columns - self.drawn { o } else { b };
                *cost += self.row_weight(i) * -(part / (o + b)).ln();
            }
        }
    }

    /// Adds the gradients. `place` is the row of `grads.weight` for a class.
    pub fn backward(&self, probabilities: &[T], dcost: &[T], place: impl Fn(i64) -> usize, mut grads: NceGrads<T>) {
        let (width, columns) = (self.width, self.columns);
        for (at, (&class, &o)) in self.labels.iter().zip(probabilities).enumerate() {
            let (i, row) = (at / columns, class as usize);
            let b = self.expected(row);
            let slope = match at % columns < columns - self.drawn {
                true => b / (o + b) * (o - T::ONE),
                false => o * (T::ONE - o) / (o + b),
            };
            let g = self.row_weight(i) * slope * dcost[i];
            if let Some(db) = grads.bias.as_deref_mut() {
                db[row] += g;
            }
            add_scaled(g, &self.x[i * width..], &mut grads.weight[place(class) * width..][..width]);
            if let Some(dx) = grads.x.as_deref_mut() {
                add_scaled(g, &self.weight[row * width..], &mut dx[i * width..(i + 1) * width]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_equal_a_plain_loop_and_gradients_differences() {
        let (width, columns, drawn, classes) = (2, 3, 2, 4);
        let noise = Noise::Custom { probs: &[0.1, 0.2, 0.3, 0.4], alias: vec![-1; 4], alias_probs: &[1.0; 4] };
        let labels = [1, 0, 3, 2, 2, 1];
        let (x, w, bias) =
            ([0.5f64, -1.0, 2.0, 0.25], [0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, 0.8], [0.1, -0.1, 0.2, 0.3]);
        let (row_weights, dcost) = ([1.0, 2.0], [1.0, -0.5]);
        let cost = |x: &[f64], w: &[f64], bias: &[f64]| {
            let mut all = [0.0; 2];
            for (at, &class) in labels.iter().enumerate() {
                let (i, c) = (at / 3, class as usize);
                let score = x[i * 2] * w[c * 2] + x[i * 2 + 1] * w[c * 2 + 1] + bias[c];
                let o = 1.0 / (1.0 + (-score).exp());
                let b = f64::from([0.1f32, 0.2, 0.3, 0.4][c] * 2.0);
                all[i] -= row_weights[i] * (if at % 3 == 0 { o } else { b } / (o + b)).ln();
            }
            all
        };
        let nce = Nce {
            x: &x,
            weight: &w,
            bias: Some(&bias),
            labels: &labels,
            row_weights: Some(&row_weights),
            width,
            columns,
            drawn,
            noise: &noise,
            classes,
        };
        let (mut probabilities, mut got) = ([0.0; 6], [0.0; 2]);
        nce.forward(&mut probabilities, &mut got);
        let want = cost(&x, &w, &bias);
        assert!((got[0] - want[0]).abs() < 1e-12 && (got[1] - want[1]).abs() < 1e-12);
        let (mut dw, mut db, mut dx) = ([0.0; 8], [0.0; 4], [0.0; 4]);
        let grads = NceGrads { weight: &mut dw, bias: Some(&mut db), x: Some(&mut dx) };
        nce.backward(&probabilities, &dcost, |c| c as usize, grads);
        let check = |values: &[f64], grads: &[f64], f: &dyn Fn(&[f64]) -> [f64; 2]| {
            for (k, &g) in grads.iter().enumerate() {
                let moved = |by: f64| {
                    let mut v = values.to_vec();
                    v[k] += by;
                    let [a, b] = f(&v);
                    a * dcost[0] + b * dcost[1]
                };
                assert!((g - (moved(1e-6) - moved(-1e-6)) / 2e-6).abs() < 1e-7);
            }
        };
        check(&x, &dx, &|x| cost(x, &w, &bias));
        check(&w, &dw, &|w| cost(&x, w, &bias));
        check(&bias, &db, &|b| cost(&x, &w, b));
    }

    #[test]
    fn samples_are_classes() {
        let mut engine = Mt64::new(7);
        for noise in [Noise::Uniform, Noise::LogUniform] {
            let found = draw_rows(&noise, &mut engine, (&[1, 2], 1), 2, (50, &[]), 5);
            assert_eq!((found.len(), found[0], found[51]), (102, 1, 2));
            assert!(found.iter().all(|c| (0..5).contains(c)));
            let sum: f32 = (0..4).map(|c| noise.probability(c, 5)).sum();
            assert!(sum <= 1.0 + 1e-6);
        }
        assert_eq!(draw_rows(&Noise::Uniform, &mut engine, (&[1, 2], 1), 2, (2, &[3, 4]), 5), [1, 3, 4, 2, 3, 4]);
        let always = Noise::Custom { probs: &[0.0, 1.0], alias: vec![1, -1], alias_probs: &[-1.0, -1.0] };
        assert!((0..20).all(|_| always.sample(&mut engine, 2) == 1));
    }
}
