//! Negative log likelihood of log-probabilities [samples, classes, positions], with weights of the classes.

use super::cross_entropy::{BadLabel, Label};
use crate::types::Float;

/// Sizes and parameters of the loss.
#[derive(Clone, Copy)]
pub struct Nll<'a, T> {
    pub classes: usize,
    pub positions: usize,
    pub ignored: i64,
    pub weights: Option<&'a [T]>,
}

impl<T: Float> Nll<'_, T> {
    /// The class weight and the offset in the log-probabilities for loss `i`; `None` if the label is ignored.
    fn place(&self, i: usize, label: i64) -> Result<Option<(T, usize)>, BadLabel> {
        let classes = self.classes;
        if label == self.ignored {
            return Ok(None);
        }
        if !(0..classes as i64).contains(&label) {
            return Err(BadLabel { label, classes });
        }
        let at = (i / self.positions * classes + label as usize) * self.positions + i % self.positions;
        Ok(Some((self.weights.map_or(T::ONE, |w| w[label as usize]), at)))
    }

    /// Returns the sums of the losses and of the weights; `each` receives every loss.
    pub fn loss<L: Label>(&self, x: &[T], labels: &[L], mut each: Option<&mut [T]>) -> Result<(f64, f64), BadLabel> {
        let (mut sum, mut total) = (0.0, 0.0);
        for (i, label) in labels.iter().enumerate() {
            let mut loss = T::ZERO;
            if let Some((w, at)) = self.place(i, label.class())? {
                loss = -x[at] * w;
                total += w.to_f64();
            }
            if let Some(each) = each.as_deref_mut() {
                each[i] = loss;
            }
            sum += loss.to_f64();
        }
        Ok((sum, total))
    }

    /// The gradient of the log-probabilities, which holds zeros before; `dout` has one element for each loss, or one for all
    /// of them.
    pub fn grad<L: Label>(&self, labels: &[L], dout: &[T], each: bool, by: T, dx: &mut [T]) -> Result<(), BadLabel> {
        for (i, label) in labels.iter().enumerate() {
            if let Some((w, at)) = self.place(i, label.class())? {
                dx[at] = -dout[if each { i } else { 0 }] * w / by;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_equal_a_plain_loop() {
        // [2 samples, 3 classes, 2 positions]
        let x: Vec<f64> = (0..12).map(|i| -(i as f64) / 4.0).collect();
        let (labels, weights) = ([2i64, 0, -100, 1], [1.0, 2.0, 0.5]);
        let nll = Nll { classes: 3, positions: 2, ignored: -100, weights: Some(&weights) };
        let mut each = [9.0; 4];
        let sums = nll.loss(&x, &labels, Some(&mut each)).unwrap();
        let want = [-x[4] * 0.5, -x[1], 0.0, -x[9] * 2.0];
        assert_eq!((each, sums), (want, (want.iter().sum::<f64>(), 3.5)));
        let mut dx = [0.0; 12];
        nll.grad(&labels, &[1.0, 2.0, 3.0, 4.0], true, 2.0, &mut dx).unwrap();
        assert_eq!(dx, [0.0, -1.0, 0.0, 0.0, -0.25, 0.0, 0.0, 0.0, 0.0, -4.0, 0.0, 0.0]);
        assert_eq!(nll.loss(&x, &[3u8, 0, 0, 0], None), Err(BadLabel { label: 3, classes: 3 }));
        assert_eq!(nll.loss::<i64>(&[], &[], None), Ok((0.0, 0.0)));
    }
}
