//! add_position_encoding: adds sines and cosines of the position in the sequence.

use crate::pool;
use crate::types::Float;

/// out = x * alpha + beta times sines (first half of a row of `size`) and cosines (second half) of the row's position,
/// computed in f64. `size` is even and above 0.
pub fn forward<T: Float>(x: &[T], places: &[usize], size: usize, alpha: T, beta: f64, out: &mut [T]) {
    let half = size / 2;
    let divisors: Vec<f64> = match half {
        1 => vec![10000.0],
        _ => (0..half).map(|k| 10000f64.powf(k as f64 / (half - 1) as f64)).collect(),
    };
    pool::parts(out, ((1 << 12) / size).max(1) * size, |start, out| {
        for (i, out) in out.chunks_exact_mut(size).enumerate() {
            let word = start / size + i;
            let (x, place) = (&x[word * size..(word + 1) * size], places[word] as f64);
            for k in 0..half {
                let (sin, cos) = (place / divisors[k]).sin_cos();
                out[k] = T::from_f64((x[k] * alpha).to_f64() + sin * beta);
                out[half + k] = T::from_f64((x[half + k] * alpha).to_f64() + cos * beta);
            }
        }
    });
}

/// The gradient: d * alpha.
pub fn backward<T: Float>(d: &[T], alpha: T, dx: &mut [T]) {
    pool::parts(dx, 1 << 15, |start, out| {
        out.iter_mut().zip(&d[start..]).for_each(|(o, &d)| *o = d * alpha);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_added() {
        for size in [2, 6] {
            let x: Vec<f64> = (0..size * 5).map(|i| i as f64 / 8.0).collect();
            let (places, mut out) = ([0, 1, 2, 0, 1], vec![9.0; x.len()]);
            forward(&x, &places, size, 0.5, 2.0, &mut out);
            for (k, &got) in out.iter().enumerate() {
                let (place, half, at) = (places[k / size] as f64, size / 2, k % size % (size / 2));
                let power = if half == 1 { 1.0 } else { at as f64 / (half - 1) as f64 };
                let angle = place / 10000f64.powf(power);
                let want = x[k] * 0.5 + 2.0 * if k % size < half { angle.sin() } else { angle.cos() };
                assert!((got - want).abs() < 1e-12);
            }
        }
        let mut dx = [9.0f32; 3];
        backward(&[1.0, 2.0, -3.0], 0.5, &mut dx);
        assert_eq!(dx, [0.5, 1.0, -1.5]);
    }
}
