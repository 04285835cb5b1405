//! Floating-point types with operators, functions and vectors (f32 and f64), and the interface of their vectors.
//!
//! Every method of [`Vector`] is `#[inline(always)]` and is meant to be inlined into a function that has the vector's
//! `#[target_feature]` (`by_level!`, `simd_fn!`); elsewhere it is slow, and undefined where the processor lacks the feature.

use super::Number;
use crate::functions::exponential::Exponential;
use std::cmp::Ordering;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// f32 or f64.
pub trait Float:
    Number
    + Exponential
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + Sum
{
    fn sqrt(self) -> Self;
    fn abs(self) -> Self;
    /// The exponential and the natural logarithm of the system's mathematical library, for loops that are not hot.
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    /// ln(1 + x) and e^x - 1, exact for small x.
    fn ln_1p(self) -> Self;
    fn exp_m1(self) -> Self;
    /// The total order of IEEE 754.
    fn total_cmp(&self, other: &Self) -> Ordering;
    /// The vector of each instruction-set level.
    type Base: Vector<T = Self>;
    type Avx2: Vector<T = Self>;
    type Avx512: Vector<T = Self>;
}

/// A vector of `L` elements.
///
/// # Safety
/// All methods need the instruction set of the implementing type; pointers must be valid for `L` (or `n`) elements.
#[allow(clippy::missing_safety_doc)]
pub trait Vector: Copy {
    type T: Float;
    const L: usize;
    unsafe fn splat(x: Self::T) -> Self;
    unsafe fn load(p: *const Self::T) -> Self;
    unsafe fn store(self, p: *mut Self::T);
    /// The first `n <= L` elements, zeros after them; touches nothing else.
    unsafe fn load_n(p: *const Self::T, n: usize) -> Self;
    unsafe fn store_n(self, p: *mut Self::T, n: usize);
    /// The elements `lo..hi` (`hi <= L`), zeros elsewhere; touches nothing else.
    unsafe fn load_between(p: *const Self::T, lo: usize, hi: usize) -> Self;
    /// Every second element: `p[0], p[2], ...`; nothing after the last of them is read.
    #[inline(always)]
    unsafe fn load_even(p: *const Self::T) -> Self {
        let mut t = [Self::T::ZERO; 16];
        for (i, t) in t[..Self::L].iter_mut().enumerate() {
            // SAFETY: the caller's `p` is valid for 2 * L - 1 elements.
            *t = unsafe { *p.add(2 * i) };
        }
        // SAFETY: no vector has more than 16 lanes.
        unsafe { Self::load(t.as_ptr()) }
    }
    /// The first `n <= L` of them, zeros after them.
    #[inline(always)]
    unsafe fn load_even_n(p: *const Self::T, n: usize) -> Self {
        let mut t = [Self::T::ZERO; 16];
        for (i, t) in t[..n].iter_mut().enumerate() {
            // SAFETY: the caller's.
            *t = unsafe { *p.add(2 * i) };
        }
        // SAFETY: the array holds a vector.
        unsafe { Self::load(t.as_ptr()) }
    }
    /// Whether `load_pairs` is faster than two `load_even_n`.
    const PAIRS: bool = false;
    /// Every second element from `p[0]` and from `p[1]`, of `2 * n` elements (`n <= L`) with zeros after them; nothing else
    /// is read.
    #[inline(always)]
    unsafe fn load_pairs(p: *const Self::T, n: usize) -> [Self; 2] {
        // SAFETY: the caller's.
        unsafe { [Self::load_even_n(p, n), Self::load_even_n(p.wrapping_add(1), n)] }
    }
    /// `self * b + c`.
    unsafe fn fma(self, b: Self, c: Self) -> Self;
    unsafe fn add(self, b: Self) -> Self;
    unsafe fn sub(self, b: Self) -> Self;
    unsafe fn mul(self, b: Self) -> Self;
    unsafe fn div(self, b: Self) -> Self;
    /// `self > b ? self : b` per lane: `b` where either is NaN.
    unsafe fn max(self, b: Self) -> Self;
    unsafe fn sqrt(self) -> Self;
    /// 2^self for integral lanes within the exponent range.
    unsafe fn exp2i(self) -> Self;
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: as the caller's.
        unsafe { Self::splat(Self::T::ZERO) }
    }
    /// The lanes added in a fixed order (pairwise).
    #[inline(always)]
    unsafe fn sum(self) -> Self::T {
        let mut t = [Self::T::ZERO; 16];
        // SAFETY: no vector has more than 16 lanes.
        unsafe { self.store(t.as_mut_ptr()) };
        let mut n = Self::L;
        while n > 1 {
            n /= 2;
            for i in 0..n {
                t[i] += t[i + n];
            }
        }
        t[0]
    }
    #[inline(always)]
    unsafe fn reduce_max(self) -> Self::T {
        let mut t = [Self::T::ZERO; 16];
        // SAFETY: no vector has more than 16 lanes.
        unsafe { self.store(t.as_mut_ptr()) };
        let mut m = t[0];
        for &x in &t[1..Self::L] {
            m = if x > m { x } else { m };
        }
        m
    }
}
