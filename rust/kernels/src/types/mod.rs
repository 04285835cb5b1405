//! The hierarchy of element types.
//!
//! - [`Plain`]: any element, copied as bytes; [`Word`]: a plain type of which every bit pattern is a value.
//! - [`Number`]: integers and floating-point numbers with arithmetic.
//! - [`Half`]: float16 and bfloat16, which compute in f32.
//! - [`Float`]: f32 and f64, with operators, functions and vectors ([`Vector`]).
//!
//! Complex numbers and bool are `Plain` only.

mod float;

pub use float::{Float, Vector};

use half::{bf16, f16, slice::HalfFloatSliceExt};
use num_complex::Complex;

/// An element type without padding or pointers, which kernels copy as words of its size.
///
/// # Safety
/// The type has no padding, no pointers and no drop; its alignment divides its size and is at most 16; copied bytes of
/// a value are a value; all bits zero are a value.
pub unsafe trait Plain: Copy + Default + Send + Sync + PartialEq + 'static {}

/// A number of any type. Arithmetic on integers wraps; float16 and bfloat16 compute in f32.
pub trait Number: Plain + PartialOrd {
    const ZERO: Self;
    const ONE: Self;
    /// Integers, for which division by zero is an error.
    const INTEGER: bool;
    /// Whether hot loops are compiled per SIMD level (f32 and f64).
    const HOT: bool = false;
    fn add(self, o: Self) -> Self;
    fn sub(self, o: Self) -> Self;
    fn mul(self, o: Self) -> Self;
    /// Integers: truncated; the divisor is not zero.
    fn div(self, o: Self) -> Self;
    /// The remainder with the divisor's sign.
    fn modulo(self, o: Self) -> Self;
    /// The quotient truncated to an integer (towards zero, as in Paddle 2.0.2).
    fn floordiv(self, o: Self) -> Self;
    fn pow(self, o: Self) -> Self;
    fn to_f64(self) -> f64;
    fn from_f64(v: f64) -> Self;
    /// The least and the greatest value (infinities, for floating point).
    fn lowest() -> Self;
    fn highest() -> Self;
    #[inline(always)]
    #[allow(clippy::eq_op)]
    fn is_nan(self) -> bool {
        self != self
    }
    /// The larger of two numbers, element by element; NaN where either is.
    #[inline(always)]
    fn max4(a: [Self; 4], b: [Self; 4]) -> [Self; 4] {
        std::array::from_fn(|i| if b[i] > a[i] || b[i].is_nan() { b[i] } else { a[i] })
    }
    /// The smaller of two numbers, element by element; NaN where either is.
    #[inline(always)]
    fn min4(a: [Self; 4], b: [Self; 4]) -> [Self; 4] {
        std::array::from_fn(|i| if b[i] < a[i] || b[i].is_nan() { b[i] } else { a[i] })
    }
}

macro_rules! plain {
    // SAFETY: numbers, arrays and pairs of numbers, and bool, whose bytes are copied from bools.
    ($($t:ty),*) => { $(unsafe impl Plain for $t {})* };
}
/// A [`Plain`] type of which every bit pattern is a value: elements of any type may be read as words.
///
/// # Safety
/// Every bit pattern is a value; and the contract of [`Plain`].
pub unsafe trait Word: Plain {}
// SAFETY: integers and a pair of them.
unsafe impl Word for u8 {}
// SAFETY: as above.
unsafe impl Word for i16 {}
// SAFETY: as above.
unsafe impl Word for i32 {}
// SAFETY: as above.
unsafe impl Word for i64 {}
// SAFETY: as above.
unsafe impl Word for [u64; 2] {}

plain!(bool, u8, i8, i16, i32, i64, f16, bf16, f32, f64, Complex<f32>, Complex<f64>, [u64; 2]);

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Number for $t {
            const ZERO: $t = 0;
            const ONE: $t = 1;
            const INTEGER: bool = true;
            #[inline(always)] fn add(self, o: $t) -> $t { self.wrapping_add(o) }
            #[inline(always)] fn sub(self, o: $t) -> $t { self.wrapping_sub(o) }
            #[inline(always)] fn mul(self, o: $t) -> $t { self.wrapping_mul(o) }
            #[inline(always)] fn div(self, o: $t) -> $t { if o == 0 { 0 } else { self.wrapping_div(o) } }
            #[inline(always)] fn floordiv(self, o: $t) -> $t { Number::div(self, o) }
            #[inline(always)] fn modulo(self, o: $t) -> $t {
                if o == 0 {
                    return 0;
                }
                let r = self.wrapping_rem(o);
                #[allow(unused_comparisons)]
                if r != 0 && (r < 0) != (o < 0) { r.wrapping_add(o) } else { r }
            }
            #[inline(always)] fn pow(self, o: $t) -> $t { (self as f64).powf(o as f64) as $t }
            #[inline(always)] fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)] fn from_f64(v: f64) -> $t { v as $t }
            #[inline(always)] fn lowest() -> $t { <$t>::MIN }
            #[inline(always)] fn highest() -> $t { <$t>::MAX }
        }
    )*};
}
integers!(u8, i8, i16, i32, i64);

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Number for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const INTEGER: bool = false;
            const HOT: bool = true;
            #[inline(always)] fn add(self, o: $t) -> $t { self + o }
            #[inline(always)] fn sub(self, o: $t) -> $t { self - o }
            #[inline(always)] fn mul(self, o: $t) -> $t { self * o }
            #[inline(always)] fn div(self, o: $t) -> $t { self / o }
            #[inline(always)] fn modulo(self, o: $t) -> $t {
                let r = self % o;
                if r != 0.0 && (r < 0.0) != (o < 0.0) { r + o } else { r }
            }
            #[inline(always)] fn floordiv(self, o: $t) -> $t { (self / o).trunc() }
            #[inline(always)] fn pow(self, o: $t) -> $t { self.powf(o) }
            #[inline(always)] fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)] fn from_f64(v: f64) -> $t { v as $t }
            #[inline(always)] fn lowest() -> $t { <$t>::NEG_INFINITY }
            #[inline(always)] fn highest() -> $t { <$t>::INFINITY }
            #[cfg(target_arch = "aarch64")]
            #[inline(always)] fn max4(a: [$t; 4], b: [$t; 4]) -> [$t; 4] { <$t as crate::simd::neon::Extremes>::max4(a, b) }
            #[cfg(target_arch = "aarch64")]
            #[inline(always)] fn min4(a: [$t; 4], b: [$t; 4]) -> [$t; 4] { <$t as crate::simd::neon::Extremes>::min4(a, b) }
        }
    )*};
}
floats!(f32, f64);

macro_rules! halves {
    ($($t:ty),*) => {$(
        impl Number for $t {
            const ZERO: $t = <$t>::ZERO;
            const ONE: $t = <$t>::ONE;
            const INTEGER: bool = false;
            #[inline(always)] fn add(self, o: $t) -> $t { <$t>::from_f32(self.to_f32() + o.to_f32()) }
            #[inline(always)] fn sub(self, o: $t) -> $t { <$t>::from_f32(self.to_f32() - o.to_f32()) }
            #[inline(always)] fn mul(self, o: $t) -> $t { <$t>::from_f32(self.to_f32() * o.to_f32()) }
            #[inline(always)] fn div(self, o: $t) -> $t { <$t>::from_f32(self.to_f32() / o.to_f32()) }
            #[inline(always)] fn modulo(self, o: $t) -> $t { <$t>::from_f32(self.to_f32().modulo(o.to_f32())) }
            #[inline(always)] fn floordiv(self, o: $t) -> $t { <$t>::from_f32(self.to_f32().floordiv(o.to_f32())) }
            #[inline(always)] fn pow(self, o: $t) -> $t { <$t>::from_f32(self.to_f32().powf(o.to_f32())) }
            #[inline(always)] fn to_f64(self) -> f64 { <$t>::to_f64(self) }
            #[inline(always)] fn from_f64(v: f64) -> $t { <$t>::from_f64(v) }
            #[inline(always)] fn lowest() -> $t { <$t>::NEG_INFINITY }
            #[inline(always)] fn highest() -> $t { <$t>::INFINITY }
        }
    )*};
}
halves!(f16, bf16);

/// float16 and bfloat16: conversion of slices to f32 and back.
pub trait Half: Number {
    fn widen(from: &[Self], to: &mut [f32]);
    fn narrow(from: &[f32], to: &mut [Self]);
}

impl Half for f16 {
    fn widen(from: &[f16], to: &mut [f32]) {
        from.convert_to_f32_slice(to)
    }
    fn narrow(from: &[f32], to: &mut [f16]) {
        to.convert_from_f32_slice(from)
    }
}

impl Half for bf16 {
    fn widen(from: &[bf16], to: &mut [f32]) {
        assert_eq!(from.len(), to.len());
        widen_all(from, to)
    }
    fn narrow(from: &[f32], to: &mut [bf16]) {
        assert_eq!(from.len(), to.len());
        narrow_all(from, to)
    }
}

/// A function over slices, compiled for each SIMD level.
macro_rules! for_levels {
    ($name:ident, $from:ty, $to:ty, $one:expr) => {
        fn $name(from: &[$from], to: &mut [$to]) {
            #[inline(always)]
            fn body(from: &[$from], to: &mut [$to]) {
                to.iter_mut().zip(from).for_each(|(o, &x)| *o = $one(x));
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            unsafe fn avx2(from: &[$from], to: &mut [$to]) {
                body(from, to)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
            unsafe fn avx512(from: &[$from], to: &mut [$to]) {
                body(from, to)
            }
            match crate::simd::level() {
                // SAFETY: `level` never exceeds the features of the processor.
                #[cfg(target_arch = "x86_64")]
                crate::simd::Level::Avx512 => unsafe { avx512(from, to) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                crate::simd::Level::Avx2 => unsafe { avx2(from, to) },
                _ => body(from, to),
            }
        }
    };
}
for_levels!(widen_all, bf16, f32, |x: bf16| f32::from_bits((x.to_bits() as u32) << 16));
// Rounded to nearest, ties to even; a NaN stays one.
for_levels!(narrow_all, f32, bf16, |x: f32| {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let nan = bits & 0x7fff_ffff > 0x7f80_0000;
    bf16::from_bits(if nan { bits >> 16 | 0x40 } else { rounded } as u16)
});
