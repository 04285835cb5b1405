//! Loss scaling: gradients divided by the scale, with a check for infinities and NaN.

use crate::pool;
use crate::types::Number;
use std::sync::atomic::{AtomicBool, Ordering};

/// Elements of one part of a parallel pass.
const GRAIN: usize = 1 << 15;

fn is_finite<T: Number>(v: T) -> bool {
    v > T::lowest() && v < T::highest()
}

/// Multiplies by `inverse`, or by zero if an infinity or NaN was `found` before or is among the elements; returns whether it was.
/// Half-precision numbers are multiplied in f64: the inverse in half precision would be too coarse.
pub fn unscale<T: Number>(x: &mut [T], inverse: f64, found: bool) -> bool {
    let wrong = AtomicBool::new(found);
    if !found {
        pool::ranges(x.len(), GRAIN, |r| {
            if !x[r].iter().all(|&v| is_finite(v)) {
                wrong.store(true, Ordering::Relaxed);
            }
        });
    }
    let found = wrong.into_inner();
    let by = T::from_f64(if found { 0.0 } else { inverse });
    let narrow = !found && size_of::<T>() == 2;
    pool::parts(x, GRAIN, |_, x| {
        x.iter_mut().for_each(|v| *v = if narrow { T::from_f64(v.to_f64() * inverse) } else { v.mul(by) });
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn elements_are_multiplied_unless_one_is_not_finite() {
        let mut x = [1.0f32, -3.0, 0.5];
        assert!(!unscale(&mut x, 0.25, false));
        assert_eq!(x, [0.25, -0.75, 0.125]);
        for wrong in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let mut x = [1.0, wrong];
            assert!(unscale(&mut x, 0.25, false));
            assert!(x[0] == 0.0 && (x[1].is_nan() || x[1] == 0.0));
        }
        assert!(unscale(&mut x, 0.25, true));
        assert_eq!(x, [0.0, -0.0, 0.0]);
        let mut half = [f16::from_f32(3.0)];
        assert!(!unscale(&mut half, 1.0 / 3.0, false));
        assert_eq!(half, [f16::from_f32(1.0)]);
        assert!(!unscale::<f64>(&mut [], 1.0, false));
    }
}
