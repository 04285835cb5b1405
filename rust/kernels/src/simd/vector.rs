//! Portable vectors of f32 and f64, dispatch by instruction-set level (`by_level!`), and prefetching, for kernels that
//! are written with explicit registers.

use super::BASELINE_FMA;
use crate::types::Vector;

/// Bytes of a vector of the baseline level: two registers on AArch64, which has 32 of them (the tile of the products then
/// fills 24 with its sums), one elsewhere.
pub const BASE_BYTES: usize = if cfg!(target_arch = "aarch64") { 32 } else { 16 };

/// Arrays as vectors: the baseline level, vectorised by LLVM.
#[derive(Clone, Copy)]
pub struct Lanes<T, const N: usize>([T; N]);

macro_rules! lanes {
    ($t:ty, $n:expr, $bits:ty, $mant:literal, $bias:literal) => {
        impl Vector for Lanes<$t, { $n }> {
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
                let fused = |i: usize| match BASELINE_FMA {
                    true => self.0[i].mul_add(b.0[i], c.0[i]),
                    false => self.0[i] * b.0[i] + c.0[i],
                };
                Lanes(std::array::from_fn(fused))
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
lanes!(f32, BASE_BYTES / 4, u32, 23, 127u32);
lanes!(f64, BASE_BYTES / 8, u64, 52, 1023u64);

/// Compiles a generic function over `Vector` once per level: `unsafe fn name<T, const C: u8; F: Bound>(args) = body`
/// calls `body::<V, C, F>(args)` for the level in use; constants and the last type are optional.
#[macro_export]
macro_rules! by_level {
    ($(#[$meta:meta])* $vis:vis unsafe fn $name:ident<$t:ident $(, const $c:ident: $cty:ty)* $(; $f:ident: $bound:path)?>
        ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident) => {
        $(#[$meta])*
        #[allow(clippy::missing_safety_doc)]
        $vis unsafe fn $name<$t: $crate::types::Float $(, const $c: $cty)* $(, $f: $bound)?>(
            $($arg: $ty),*
        ) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx2<$t: $crate::types::Float $(, const $c: $cty)* $(, $f: $bound)?>($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller's contract; this function has the vector's features.
                unsafe { $body::<$t::Avx2 $(, $c)* $(, $f)?>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx512<$t: $crate::types::Float $(, const $c: $cty)* $(, $f: $bound)?>($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller's contract; this function has the vector's features.
                unsafe { $body::<$t::Avx512 $(, $c)* $(, $f)?>($($arg),*) }
            }
            // SAFETY: `level` never exceeds the features of the processor; the rest is the caller's contract.
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

/// Prefetches the cache line of `p`, at any address, into the second-level cache.
#[inline(always)]
pub fn prefetch<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint and does not access memory.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(p.cast())
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// Prefetches the cache line of `p`, at any address, into the first-level cache: for reads within tens of cycles.
#[inline(always)]
pub fn prefetch_near<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint and does not access memory.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast())
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}
