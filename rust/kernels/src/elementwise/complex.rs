//! Complex arithmetic of both precisions. Operations that are linear in the parts (sums, scaling by a real number) use
//! the kernels of real numbers, on twice as many elements.

use crate::elementwise::{map, zip};
use crate::types::Plain;
use num_complex::Complex;

/// The real type of a complex number's parts.
pub trait ComplexPart: Plain + std::ops::Neg<Output = Self> + std::ops::Mul<Output = Self> + PartialOrd {
    fn product(a: Complex<Self>, b: Complex<Self>) -> Complex<Self>;
    fn quotient(a: Complex<Self>, b: Complex<Self>) -> Complex<Self>;
    fn modulus(a: Complex<Self>) -> Self;
}

macro_rules! part {
    ($($t:ty),*) => {$(
        impl ComplexPart for $t {
            #[inline(always)]
            fn product(a: Complex<$t>, b: Complex<$t>) -> Complex<$t> {
                Complex::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
            }

            /// Smith's algorithm, without squares: the textbook formula overflows for half of the range.
            #[inline(always)]
            fn quotient(a: Complex<$t>, b: Complex<$t>) -> Complex<$t> {
                if b.re.abs() >= b.im.abs() {
                    if b.re == 0.0 {
                        return Complex::new(a.re / b.re.abs(), a.im / b.re.abs());
                    }
                    let ratio = b.im / b.re;
                    let scale = 1.0 / (b.re + b.im * ratio);
                    Complex::new((a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale)
                } else {
                    let ratio = b.re / b.im;
                    let scale = 1.0 / (b.im + b.re * ratio);
                    Complex::new((a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale)
                }
            }

            #[inline(always)]
            fn modulus(a: Complex<$t>) -> $t {
                a.re.hypot(a.im)
            }
        }
    )*};
}
part!(f32, f64);

pub fn mul<T: ComplexPart>(x: &[Complex<T>], y: &[Complex<T>], out: &mut [Complex<T>])
where
    Complex<T>: Plain,
{
    zip(x, y, out, T::product)
}

/// Division by zero yields infinities and NaN, as in numpy.
pub fn div<T: ComplexPart>(x: &[Complex<T>], y: &[Complex<T>], out: &mut [Complex<T>])
where
    Complex<T>: Plain,
{
    zip(x, y, out, T::quotient)
}

pub fn conj<T: ComplexPart>(x: &[Complex<T>], out: &mut [Complex<T>])
where
    Complex<T>: Plain,
{
    map(x, out, |v| Complex::new(v.re, -v.im))
}

pub fn abs<T: ComplexPart>(x: &[Complex<T>], out: &mut [T])
where
    Complex<T>: Plain,
{
    map(x, out, T::modulus)
}

/// out = dout * x / |x|, and 0 where x is 0.
pub fn abs_grad<T: ComplexPart>(x: &[Complex<T>], dout: &[T], out: &mut [Complex<T>])
where
    Complex<T>: Plain,
{
    zip(
        x,
        dout,
        out,
        |x, d| if x == Complex::default() { x } else { scaled_direction(x, Complex::new(d, T::default())) },
    )
}

/// The gradient of `abs_grad` with respect to dout: the component of ddx along x.
pub fn abs_grad_grad<T: ComplexPart>(x: &[Complex<T>], ddx: &[Complex<T>], out: &mut [T])
where
    Complex<T>: Plain,
{
    zip(x, ddx, out, |x, d| {
        if x == Complex::default() {
            T::default()
        } else {
            scaled_direction(Complex::new(x.re, -x.im), d).re
        }
    })
}

/// d * x / |x|.
#[inline(always)]
fn scaled_direction<T: ComplexPart>(x: Complex<T>, d: Complex<T>) -> Complex<T> {
    T::product(d, T::quotient(x, Complex::new(T::modulus(x), T::default())))
}

/// The real and the imaginary parts.
pub fn split<T: ComplexPart>(x: &[Complex<T>], re: &mut [T], im: &mut [T])
where
    Complex<T>: Plain,
{
    map(x, re, |v| v.re);
    map(x, im, |v| v.im);
}

pub fn join<T: ComplexPart>(re: &[T], im: &[T], out: &mut [Complex<T>])
where
    Complex<T>: Plain,
{
    zip(re, im, out, Complex::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_do_not_overflow_and_zero_divides_as_in_numpy() {
        let c = Complex::<f32>::new;
        let x = [c(1e30, 1e30), c(1.0, 2.0), c(1.0, -1.0), c(3.0, 4.0)];
        let y = [c(1e30, 1e30), c(0.0, 0.5), c(0.0, 0.0), c(1.0, 2.0)];
        let mut out = [Complex::default(); 4];
        div(&x, &y, &mut out);
        assert_eq!(out[0], c(1.0, 0.0));
        assert_eq!(out[1], c(4.0, -2.0));
        assert_eq!(out[2], c(f32::INFINITY, f32::NEG_INFINITY));
        assert!((out[3] - c(2.2, -0.4)).l1_norm() < 1e-6);
    }

    #[test]
    fn the_modulus_of_zero_has_no_gradient() {
        let x = [Complex::new(3.0, 4.0), Complex::new(0.0, 0.0)];
        let (mut r, mut dx, mut dd) = ([0.0; 2], [Complex::default(); 2], [0.0; 2]);
        abs(&x, &mut r);
        abs_grad(&x, &[2.0, 1.0], &mut dx);
        abs_grad_grad(&x, &[Complex::new(0.0, 5.0); 2], &mut dd);
        assert_eq!(r, [5.0, 0.0]);
        assert!((dx[0] - Complex::new(1.2, 1.6)).l1_norm() < 1e-12 && dx[1] == Complex::default());
        assert!((dd[0] - 4.0f64).abs() < 1e-12 && dd[1] == 0.0);
    }
}
