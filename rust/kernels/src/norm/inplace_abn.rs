//! The activation after a batch normalisation whose input is recomputed from its result.

use crate::norm::batch_norm::Channels;
use crate::types::Float;

/// An invertible activation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    None,
    Leaky(f64),
    Elu(f64),
}

impl Activation {
    pub fn apply<T: Float>(self, y: &mut [T]) {
        let below = y.iter_mut().filter(|v| **v < T::ZERO);
        match self {
            Activation::None => {}
            Activation::Leaky(alpha) => below.for_each(|v| *v = *v * T::from_f64(alpha)),
            Activation::Elu(alpha) => below.for_each(|v| *v = T::from_f64(alpha * v.to_f64().exp_m1())),
        }
    }

    /// The argument for the result `v`, and the gradient `g` before the activation.
    fn undo(self, v: f64, g: f64) -> (f64, f64) {
        match self {
            Activation::Leaky(alpha) if v < 0.0 => (v / alpha, g * alpha),
            Activation::Elu(alpha) if v < 0.0 => ((v / alpha).ln_1p(), g * (v + alpha)),
            _ => (v, g),
        }
    }
}

/// The operand of a batch normalisation followed by an activation, recomputed from the result, and the gradient before the
/// activation. With a scale of 0 the operand is lost: the mean replaces it.
pub fn undo<T: Float>(
    activation: Activation,
    d: &Channels,
    (y, dy): (&[T], &[T]),
    (mean, inv): (&[T], &[T]),
    (scale, bias): (&[T], &[T]),
) -> (Vec<T>, Vec<T>) {
    let channel = |i: usize| if d.last { i % d.channels } else { i / d.pixels % d.channels };
    let each = y.iter().zip(dy).enumerate().map(|(i, (&y, &dy))| {
        let (z, g) = activation.undo(y.to_f64(), dy.to_f64());
        let c = channel(i);
        let (s, n) = (scale[c].to_f64(), inv[c].to_f64());
        let back = if s == 0.0 || n == 0.0 { 0.0 } else { (z - bias[c].to_f64()) / s / n };
        (T::from_f64(back + mean[c].to_f64()), T::from_f64(g))
    });
    each.unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::norm::batch_norm::batch_norm;

    #[test]
    fn operands_come_back() {
        let (mean, inv, scale, bias) = ([0.5, -1.0], [2.0, 0.25], [1.5, -2.0], [0.1, 0.2]);
        let x: Vec<f64> = (0..12).map(|i| (i * 5 % 7) as f64 / 2.0 - 1.0).collect();
        for last in [false, true] {
            let d = Channels { images: 2, channels: 2, pixels: 3, last };
            for activation in [Activation::None, Activation::Leaky(0.25), Activation::Elu(1.5)] {
                let mut y = vec![0.0; 12];
                batch_norm(&d, &x, &mean, &inv, &scale, &bias, &mut y);
                let before = y.clone();
                activation.apply(&mut y);
                let (back, g) = undo(activation, &d, (&y, &[2.0; 12]), (&mean, &inv), (&scale, &bias));
                for i in 0..12 {
                    let slope = match activation {
                        Activation::Leaky(alpha) if before[i] < 0.0 => alpha,
                        Activation::Elu(alpha) if before[i] < 0.0 => alpha * before[i].exp(),
                        _ => 1.0,
                    };
                    assert!((back[i] - x[i]).abs() < 1e-9 && (g[i] - 2.0 * slope).abs() < 1e-9);
                }
            }
        }
        let lost = undo(
            Activation::None,
            &Channels { images: 1, channels: 1, pixels: 1, last: false },
            (&[3.0], &[1.0]),
            (&[0.5], &[1.0]),
            (&[0.0], &[3.0]),
        );
        assert_eq!(lost, (vec![0.5], vec![1.0]));
    }
}
