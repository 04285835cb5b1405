//! Mathematical functions: the vocabulary of formulas, for f32 and f64, with and without `mul_add` as one instruction.

pub(crate) mod erfinv;
pub(crate) mod exponential;
pub(crate) mod hyperbolic;
#[cfg(test)]
mod tests;
pub(crate) mod trigonometric;

pub use crate::functions::exponential::Exponential;
use crate::functions::hyperbolic::Hyperbolic;
use crate::functions::trigonometric::Trigonometric;

/// The functions that formulas may use, for one type and one kind of `mul_add`. `formula::CUDA_PRELUDE` has the same
/// functions in C++.
macro_rules! vocabulary {
    ($name:ident, $t:ty, $fma:expr) => {
        #[allow(unused)]
        pub mod $name {
            use super::{Exponential, Hyperbolic, Trigonometric};
            pub type T = $t;

            #[inline(always)]
            pub fn select(c: bool, a: T, b: T) -> T {
                if c {
                    a
                } else {
                    b
                }
            }
            #[inline(always)]
            pub fn mul_add(a: T, b: T, c: T) -> T {
                a.fma::<{ $fma }>(b, c)
            }
            #[inline(always)]
            pub fn exp(x: T) -> T {
                x.exp_::<{ $fma }>()
            }
            #[inline(always)]
            pub fn log(x: T) -> T {
                x.log_::<{ $fma }>()
            }
            #[inline(always)]
            pub fn tanh(x: T) -> T {
                x.tanh_::<{ $fma }>()
            }
            #[inline(always)]
            pub fn erf(x: T) -> T {
                x.erf_::<{ $fma }>()
            }
            #[inline(always)]
            pub fn phi(x: T) -> T {
                x.phi_::<{ $fma }>()
            }
            #[inline(always)]
            pub fn sigmoid(x: T) -> T {
                1.0 / (1.0 + exp(-x))
            }
            #[inline(always)]
            pub fn sqrt(x: T) -> T {
                x.sqrt()
            }
            #[inline(always)]
            pub fn abs(x: T) -> T {
                x.abs()
            }
            #[inline(always)]
            pub fn floor(x: T) -> T {
                x.floor()
            }
            #[inline(always)]
            pub fn ceil(x: T) -> T {
                x.ceil()
            }
            /// Rounds half away from zero.
            #[inline(always)]
            pub fn round(x: T) -> T {
                x.round()
            }
            #[inline(always)]
            pub fn log1p(x: T) -> T {
                x.log1p_::<{ $fma }>()
            }
            #[inline(always)]
            pub fn log2(x: T) -> T {
                x.log2_::<{ $fma }>()
            }
            #[inline(always)]
            pub fn log10(x: T) -> T {
                x.log10_::<{ $fma }>()
            }
            #[inline(always)]
            pub fn sinh(x: T) -> T {
                x.sinh_::<{ $fma }>()
            }
            #[inline(always)]
            pub fn cosh(x: T) -> T {
                x.cosh_::<{ $fma }>()
            }
            #[inline(always)]
            pub fn asin(x: T) -> T {
                x.asin_::<{ $fma }>()
            }
            #[inline(always)]
            pub fn acos(x: T) -> T {
                x.acos_::<{ $fma }>()
            }
            #[inline(always)]
            pub fn atan(x: T) -> T {
                x.atan_::<{ $fma }>()
            }
            /// For arguments up to `trigonometric::LIMIT`; `sin_far` and `cos_far` take any number.
            #[inline(always)]
            pub fn sin(x: T) -> T {
                x.sin_::<{ $fma }>()
            }
            #[inline(always)]
            pub fn cos(x: T) -> T {
                x.cos_::<{ $fma }>()
            }
            #[inline(always)]
            pub fn sin_far(x: T) -> T {
                x.sin()
            }
            #[inline(always)]
            pub fn cos_far(x: T) -> T {
                x.cos()
            }
            #[inline(always)]
            pub fn pow(x: T, y: T) -> T {
                x.powf(y)
            }
        }
    };
}

vocabulary!(f32_fma, f32, true);
vocabulary!(f32_plain, f32, false);
vocabulary!(f64_fma, f64, true);
vocabulary!(f64_plain, f64, false);
