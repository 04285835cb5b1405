//! Arithmetic progressions.

use crate::types::Number;

/// Evenly spaced numbers from `start` to `stop`. The first half counts from start, the second back from stop, in double
/// precision: rounds as Paddle does.
pub fn linspace<T: Number>(start: T, stop: T, out: &mut [T]) {
    let n = out.len() as i64;
    let step = stop.sub(start).to_f64() / (n - 1).max(1) as f64;
    let (first, last) = (start.to_f64(), stop.to_f64());
    for (i, o) in (0..n).zip(out) {
        let v = if i < n / 2 || n == 1 { first + step * i as f64 } else { last - step * (n - i - 1) as f64 };
        *o = T::from_f64(v);
    }
}

/// `start` and its sums with `step`, accumulated instead of multiplied: rounds as Paddle does.
pub fn range<T: Number>(start: T, step: T, out: &mut [T]) {
    let mut v = start;
    for o in out {
        *o = v;
        v = v.add(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_evenly_spaced() {
        for n in [0, 1, 2, 5, 8] {
            let mut out = vec![9.0f64; n];
            linspace(2.0, -3.0, &mut out);
            for (i, v) in out.iter().enumerate() {
                let want = 2.0 - 5.0 * i as f64 / (n.max(2) - 1) as f64;
                assert!((v - want).abs() < 1e-12);
            }
            assert!(n < 2 || out[n - 1] == -3.0);
            let mut out = vec![9i32; n];
            range(7, -2, &mut out);
            assert_eq!(out, (0..n as i32).map(|i| 7 - 2 * i).collect::<Vec<_>>());
        }
    }
}
