//! Unary operators on integers, as far as Paddle's CPU kernels have them. Parameters are f64 and are truncated to the
//! element type first, as in Paddle; arithmetic wraps.

use crate::elementwise::{map, zip};
use crate::types::Number;

/// |x|; the lowest value stays unchanged.
pub fn abs<T: Number>(x: &[T], out: &mut [T]) {
    map(x, out, |v| if v < T::ZERO { T::ZERO.sub(v) } else { v });
}

/// dout * sign(x).
pub fn abs_grad<T: Number>(x: &[T], dout: &[T], out: &mut [T]) {
    zip(x, dout, out, |x, d| {
        if x > T::ZERO {
            d
        } else if x < T::ZERO {
            T::ZERO.sub(d)
        } else {
            T::ZERO
        }
    });
}

/// max(x, 0).
pub fn relu<T: Number>(x: &[T], out: &mut [T]) {
    map(x, out, |v| if v > T::ZERO { v } else { T::ZERO });
}

/// x * x.
pub fn square<T: Number>(x: &[T], out: &mut [T]) {
    map(x, out, |v| v.mul(v));
}

/// dout * 2 * x.
pub fn square_grad<T: Number>(x: &[T], dout: &[T], out: &mut [T]) {
    let two = T::from_f64(2.0);
    zip(x, dout, out, |x, d| d.mul(two).mul(x));
}

/// e^x in double, truncated to the type.
pub fn exp<T: Number>(x: &[T], out: &mut [T]) {
    map(x, out, |v| T::from_f64(v.to_f64().exp()));
}

/// dout * out.
pub fn exp_grad<T: Number>(y: &[T], dout: &[T], out: &mut [T]) {
    zip(y, dout, out, |y, d| d.mul(y));
}

/// x to the power `factor`, which is truncated to the type.
pub fn pow<T: Number>(x: &[T], factor: f64, out: &mut [T]) {
    let factor = T::from_f64(factor);
    map(x, out, |v| v.pow(factor));
}

/// dout * factor * x^(factor - 1).
pub fn pow_grad<T: Number>(x: &[T], dout: &[T], factor: f64, out: &mut [T]) {
    let factor = T::from_f64(factor);
    let less = factor.sub(T::ONE);
    zip(x, dout, out, |x, d| d.mul(factor).mul(x.pow(less)));
}

/// scale * x + bias, or scale * (x + bias).
pub fn scale<T: Number>(x: &[T], scale: f64, bias: f64, bias_after: bool, out: &mut [T]) {
    let (scale, bias) = (T::from_f64(scale), T::from_f64(bias));
    map(x, out, |v| if bias_after { scale.mul(v).add(bias) } else { scale.mul(v.add(bias)) });
}

/// min where x < min, max where x > max, else x.
pub fn clip<T: Number>(x: &[T], min: T, max: T, out: &mut [T]) {
    map(x, out, |v| {
        if v < min {
            min
        } else if v > max {
            max
        } else {
            v
        }
    });
}

/// dout where min < x < max, else 0.
pub fn clip_grad<T: Number>(x: &[T], dout: &[T], min: T, max: T, out: &mut [T]) {
    zip(x, dout, out, |x, d| if x > min && x < max { d } else { T::ZERO });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(f: impl Fn(&[i32], &mut [i32])) -> [i32; 4] {
        let mut out = [0; 4];
        f(&[i32::MIN, -3, 0, 5], &mut out);
        out
    }

    #[test]
    fn integers() {
        assert_eq!(results(abs), [i32::MIN, 3, 0, 5]);
        assert_eq!(results(relu), [0, 0, 0, 5]);
        assert_eq!(results(square), [0, 9, 0, 25]);
        assert_eq!(results(|x, o| scale(x, 2.7, 1.0, true, o)), [1, -5, 1, 11]);
        assert_eq!(results(|x, o| scale(x, 2.0, 1.0, false, o)), [2, -4, 2, 12]);
        assert_eq!(results(|x, o| clip(x, -1, 2, o)), [-1, -1, 0, 2]);
        assert_eq!(results(|x, o| clip_grad(x, &[7; 4], -4, 5, o)), [0, 7, 7, 0]);
        assert_eq!(results(|x, o| abs_grad(x, &[7; 4], o)), [-7, -7, 0, 7]);
        assert_eq!(results(|x, o| square_grad(x, &[2; 4], o)), [0, -12, 0, 20]);
        assert_eq!(results(exp), [0, 0, 1, 148]);
        assert_eq!(results(|x, o| exp_grad(x, &[2; 4], o)), [0, -6, 0, 10]);
        let mut out = [0i64; 3];
        pow(&[-3i64, 2, 10], 3.0, &mut out);
        assert_eq!(out, [-27, 8, 1000]);
        pow_grad(&[-3i64, 2, 10], &[1, 1, 2], 3.0, &mut out);
        assert_eq!(out, [27, 12, 600]);
    }
}
