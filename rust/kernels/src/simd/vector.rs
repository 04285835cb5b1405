//! Vectors of f32 and f64 at the three instruction-set levels, for the kernels where the number of registers decides.
//!
//! Every method is `#[inline(always)]` and meant to be inlined into a function that has the vector's
//! `#[target_feature]`; outside of one it is slow, and without the processor's support undefined.

use std::ops::{Add, Div, Mul, Sub};

/// An element type with vector kernels: f32 and f64.
pub trait Real:
    crate::functions::Real
    + Default
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + std::ops::AddAssign
{
    const ZERO: Self;
    const ONE: Self;
    fn to_f64(self) -> f64;
    /// The vector of each level.
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
    type T: Real;
    const L: usize;
    unsafe fn splat(x: Self::T) -> Self;
    unsafe fn load(p: *const Self::T) -> Self;
    unsafe fn store(self, p: *mut Self::T);
    /// The first `n <= L` elements, zeros after them; touches nothing else.
    unsafe fn load_n(p: *const Self::T, n: usize) -> Self;
    unsafe fn store_n(self, p: *mut Self::T, n: usize);
    /// The elements `lo..hi` (`hi <= L`), zeros elsewhere; touches nothing else.
    unsafe fn load_between(p: *const Self::T, lo: usize, hi: usize) -> Self;
    /// Every second element: `p[0], p[2], ...`; nothing behind the last of them is read.
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

/// Plain arrays: the level without vector instructions of its own (LLVM uses the baseline's).
#[derive(Clone, Copy)]
pub struct Lanes<T, const N: usize>([T; N]);

macro_rules! lanes {
    ($t:ty, $n:literal, $bits:ty, $mant:literal, $bias:literal) => {
        impl Vector for Lanes<$t, $n> {
            type T = $t;
            const L: usize = $n;
            #[inline(always)]
            unsafe fn splat(x: $t) -> Self {
                Lanes([x; $n])
            }
            #[inline(always)]
            unsafe fn load(p: *const $t) -> Self {
                // SAFETY: the caller's `p` is valid for L elements; arrays of floats have their alignment.
                Lanes(unsafe { p.cast::<[$t; $n]>().read() })
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $t) {
                // SAFETY: as in `load`.
                unsafe { p.cast::<[$t; $n]>().write(self.0) }
            }
            #[inline(always)]
            unsafe fn load_n(p: *const $t, n: usize) -> Self {
                let mut v = [0.0; $n];
                for i in 0..n {
                    // SAFETY: the caller's `p` is valid for n elements.
                    v[i] = unsafe { *p.add(i) };
                }
                Lanes(v)
            }
            #[inline(always)]
            unsafe fn store_n(self, p: *mut $t, n: usize) {
                for i in 0..n {
                    // SAFETY: the caller's `p` is valid for n elements.
                    unsafe { *p.add(i) = self.0[i] };
                }
            }
            #[inline(always)]
            unsafe fn load_between(p: *const $t, lo: usize, hi: usize) -> Self {
                let mut v = [0.0; $n];
                for i in lo..hi {
                    // SAFETY: the caller's `p` is valid for these elements.
                    v[i] = unsafe { *p.wrapping_add(i) };
                }
                Lanes(v)
            }
            #[inline(always)]
            unsafe fn fma(self, b: Self, c: Self) -> Self {
                Lanes(std::array::from_fn(|i| self.0[i] * b.0[i] + c.0[i]))
            }
            #[inline(always)]
            unsafe fn add(self, b: Self) -> Self {
                Lanes(std::array::from_fn(|i| self.0[i] + b.0[i]))
            }
            #[inline(always)]
            unsafe fn sub(self, b: Self) -> Self {
                Lanes(std::array::from_fn(|i| self.0[i] - b.0[i]))
            }
            #[inline(always)]
            unsafe fn mul(self, b: Self) -> Self {
                Lanes(std::array::from_fn(|i| self.0[i] * b.0[i]))
            }
            #[inline(always)]
            unsafe fn div(self, b: Self) -> Self {
                Lanes(std::array::from_fn(|i| self.0[i] / b.0[i]))
            }
            #[inline(always)]
            unsafe fn max(self, b: Self) -> Self {
                Lanes(std::array::from_fn(|i| if self.0[i] > b.0[i] { self.0[i] } else { b.0[i] }))
            }
            #[inline(always)]
            unsafe fn sqrt(self) -> Self {
                Lanes(std::array::from_fn(|i| self.0[i].sqrt()))
            }
            #[inline(always)]
            unsafe fn exp2i(self) -> Self {
                // Adding 1.5 * 2^mantissa leaves the integer in the low bits.
                let magic = (1.5 * (1u64 << $mant) as f64) as $t;
                Lanes(std::array::from_fn(|i| {
                    <$t>::from_bits(((self.0[i] + magic).to_bits().wrapping_add($bias as $bits)) << $mant)
                }))
            }
        }
    };
}
lanes!(f32, 4, u32, 23, 127u32);
lanes!(f64, 2, u64, 52, 1023u64);

/// Compiles a generic function over `Vector` once per level: `unsafe fn name<T, const C: u8; F: Bound>(args) = body` calls
/// `body::<V, C, F>(args)` for the level in use; constants and the last type are there if named.
#[macro_export]
macro_rules! by_level {
    ($(#[$meta:meta])* $vis:vis unsafe fn $name:ident<$t:ident $(, const $c:ident: $cty:ty)* $(; $f:ident: $bound:path)?>
        ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident) => {
        $(#[$meta])*
        #[allow(clippy::missing_safety_doc)]
        $vis unsafe fn $name<$t: $crate::simd::vector::Real $(, const $c: $cty)* $(, $f: $bound)?>(
            $($arg: $ty),*
        ) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx2<$t: $crate::simd::vector::Real $(, const $c: $cty)* $(, $f: $bound)?>($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller's contract; this function has the vector's features.
                unsafe { $body::<$t::Avx2 $(, $c)* $(, $f)?>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx512<$t: $crate::simd::vector::Real $(, const $c: $cty)* $(, $f: $bound)?>($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller's contract; this function has the vector's features.
                unsafe { $body::<$t::Avx512 $(, $c)* $(, $f)?>($($arg),*) }
            }
            // SAFETY: `level` never exceeds what the processor was found to have; the rest is the caller's contract.
            unsafe {
                match $crate::simd::level() {
                    #[cfg(target_arch = "x86_64")]
                    $crate::simd::Level::Avx512 => avx512::<$t $(, $c)* $(, $f)?>($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::simd::Level::Avx2 => avx2::<$t $(, $c)* $(, $f)?>($($arg),*),
                    _ => $body::<$t::Base $(, $c)* $(, $f)?>($($arg),*),
                }
            }
        }
    };
}

/// Asks for the cache line of `p` in the second-level cache; any address will do.
#[inline(always)]
pub fn prefetch<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which does not read.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(p.cast())
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// The same in the first-level cache, for what is read within tens of cycles.
#[inline(always)]
pub fn prefetch_near<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which does not read.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast())
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}
