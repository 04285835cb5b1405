//! Vectors of f32 and f64 at the three instruction-set levels, for the kernels where the number of registers decides.
//!
//! Every method is `#[inline(always)]` and meant to be inlined into a function that has the vector's
//! `#[target_feature]`; outside of one it is slow, and without the processor's support undefined.

use std::ops::{Add, Div, Mul, Sub};

/// An element type with vector kernels: f32 and f64.
pub trait Real:
    crate::math::Real
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
                t[i] = t[i] + t[i + n];
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

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Vector;
    use std::arch::x86_64::*;

    const fn table<const N: usize, const M: usize>() -> [[i32; N]; M] {
        let mut t = [[0; N]; M];
        let mut n = 0;
        while n < M {
            let mut i = 0;
            while i < n * N / (M - 1) {
                t[n][i] = -1;
                i += 1;
            }
            n += 1;
        }
        t
    }
    static MASK32: [[i32; 8]; 9] = table();
    static MASK64: [[i32; 8]; 5] = table();

    macro_rules! vector {
        ($name:ident, $t:ty, $raw:ty, $n:literal, $splat:ident, $load:ident, $store:ident, $fma:ident, $add:ident,
         $sub:ident, $mul:ident, $div:ident, $max:ident, $sqrt:ident,
         $load_n:ident, $store_n:ident, $exp2i:ident, $load_between:ident) => {
            #[derive(Clone, Copy)]
            pub struct $name($raw);
            // SAFETY of every block below: the trait's contract gives the instruction set and valid pointers.
            #[allow(clippy::undocumented_unsafe_blocks)]
            impl Vector for $name {
                type T = $t;
                const L: usize = $n;
                #[inline(always)]
                unsafe fn splat(x: $t) -> Self {
                    $name(unsafe { $splat(x) })
                }
                #[inline(always)]
                unsafe fn load(p: *const $t) -> Self {
                    $name(unsafe { $load(p) })
                }
                #[inline(always)]
                unsafe fn store(self, p: *mut $t) {
                    unsafe { $store(p, self.0) }
                }
                #[inline(always)]
                unsafe fn load_n(p: *const $t, n: usize) -> Self {
                    $name(unsafe { $load_n(p, n) })
                }
                #[inline(always)]
                unsafe fn store_n(self, p: *mut $t, n: usize) {
                    unsafe { $store_n(p, n, self.0) }
                }
                #[inline(always)]
                unsafe fn load_between(p: *const $t, lo: usize, hi: usize) -> Self {
                    $name(unsafe { $load_between(p, lo, hi) })
                }
                #[inline(always)]
                unsafe fn fma(self, b: Self, c: Self) -> Self {
                    $name(unsafe { $fma(self.0, b.0, c.0) })
                }
                #[inline(always)]
                unsafe fn add(self, b: Self) -> Self {
                    $name(unsafe { $add(self.0, b.0) })
                }
                #[inline(always)]
                unsafe fn sub(self, b: Self) -> Self {
                    $name(unsafe { $sub(self.0, b.0) })
                }
                #[inline(always)]
                unsafe fn mul(self, b: Self) -> Self {
                    $name(unsafe { $mul(self.0, b.0) })
                }
                #[inline(always)]
                unsafe fn div(self, b: Self) -> Self {
                    $name(unsafe { $div(self.0, b.0) })
                }
                #[inline(always)]
                unsafe fn max(self, b: Self) -> Self {
                    $name(unsafe { $max(self.0, b.0) })
                }
                #[inline(always)]
                unsafe fn sqrt(self) -> Self {
                    $name(unsafe { $sqrt(self.0) })
                }
                #[inline(always)]
                unsafe fn exp2i(self) -> Self {
                    $name(unsafe { $exp2i(self.0) })
                }
            }
        };
    }

    // The masked and integer pieces are functions with the feature, so that they inline where it is on.
    macro_rules! piece {
        ($feature:literal, fn $name:ident($($a:ident: $ty:ty),*) $(-> $r:ty)? $body:block) => {
            #[target_feature(enable = $feature)]
            #[inline]
            #[allow(clippy::undocumented_unsafe_blocks)] // pointers: the trait's contract
            unsafe fn $name($($a: $ty),*) $(-> $r)? $body
        };
    }
    piece!(
        "avx512f",
        fn load_n_f32x16(p: *const f32, n: usize) -> __m512 {
            unsafe { _mm512_maskz_loadu_ps(((1u32 << n) - 1) as u16, p) }
        }
    );
    piece!(
        "avx512f",
        fn store_n_f32x16(p: *mut f32, n: usize, v: __m512) {
            unsafe { _mm512_mask_storeu_ps(p, ((1u32 << n) - 1) as u16, v) }
        }
    );
    piece!(
        "avx512f",
        fn exp2i_f32x16(v: __m512) -> __m512 {
            _mm512_scalef_ps(_mm512_set1_ps(1.0), v)
        }
    );
    piece!(
        "avx512f",
        fn load_n_f64x8(p: *const f64, n: usize) -> __m512d {
            unsafe { _mm512_maskz_loadu_pd(((1u32 << n) - 1) as u8, p) }
        }
    );
    piece!(
        "avx512f",
        fn store_n_f64x8(p: *mut f64, n: usize, v: __m512d) {
            unsafe { _mm512_mask_storeu_pd(p, ((1u32 << n) - 1) as u8, v) }
        }
    );
    piece!(
        "avx512f",
        fn exp2i_f64x8(v: __m512d) -> __m512d {
            _mm512_scalef_pd(_mm512_set1_pd(1.0), v)
        }
    );
    piece!(
        "avx2,fma",
        fn load_n_f32x8(p: *const f32, n: usize) -> __m256 {
            unsafe { _mm256_maskload_ps(p, _mm256_loadu_si256(MASK32[n].as_ptr().cast())) }
        }
    );
    piece!(
        "avx2,fma",
        fn store_n_f32x8(p: *mut f32, n: usize, v: __m256) {
            unsafe { _mm256_maskstore_ps(p, _mm256_loadu_si256(MASK32[n].as_ptr().cast()), v) }
        }
    );
    piece!(
        "avx2,fma",
        fn exp2i_f32x8(v: __m256) -> __m256 {
            let n = _mm256_castps_si256(_mm256_add_ps(v, _mm256_set1_ps(12582912.0)));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127))))
        }
    );
    piece!(
        "avx2,fma",
        fn load_n_f64x4(p: *const f64, n: usize) -> __m256d {
            unsafe { _mm256_maskload_pd(p, _mm256_loadu_si256(MASK64[n].as_ptr().cast())) }
        }
    );
    piece!(
        "avx2,fma",
        fn store_n_f64x4(p: *mut f64, n: usize, v: __m256d) {
            unsafe { _mm256_maskstore_pd(p, _mm256_loadu_si256(MASK64[n].as_ptr().cast()), v) }
        }
    );
    piece!(
        "avx2,fma",
        fn exp2i_f64x4(v: __m256d) -> __m256d {
            let n = _mm256_castpd_si256(_mm256_add_pd(v, _mm256_set1_pd(6755399441055744.0)));
            _mm256_castsi256_pd(_mm256_slli_epi64::<52>(_mm256_add_epi64(n, _mm256_set1_epi64x(1023))))
        }
    );
    piece!(
        "avx512f",
        fn load_between_f32x16(p: *const f32, lo: usize, hi: usize) -> __m512 {
            unsafe { _mm512_maskz_loadu_ps((((1u32 << hi) - 1) & !((1u32 << lo) - 1)) as u16, p) }
        }
    );
    piece!(
        "avx512f",
        fn load_between_f64x8(p: *const f64, lo: usize, hi: usize) -> __m512d {
            unsafe { _mm512_maskz_loadu_pd((((1u32 << hi) - 1) & !((1u32 << lo) - 1)) as u8, p) }
        }
    );
    piece!(
        "avx2,fma",
        fn load_between_f32x8(p: *const f32, lo: usize, hi: usize) -> __m256 {
            unsafe {
                let (l, h) = (MASK32[lo].as_ptr().cast(), MASK32[hi].as_ptr().cast());
                _mm256_maskload_ps(p, _mm256_andnot_si256(_mm256_loadu_si256(l), _mm256_loadu_si256(h)))
            }
        }
    );
    piece!(
        "avx2,fma",
        fn load_between_f64x4(p: *const f64, lo: usize, hi: usize) -> __m256d {
            unsafe {
                let (l, h) = (MASK64[lo].as_ptr().cast(), MASK64[hi].as_ptr().cast());
                _mm256_maskload_pd(p, _mm256_andnot_si256(_mm256_loadu_si256(l), _mm256_loadu_si256(h)))
            }
        }
    );
    vector!(
        F32x16,
        f32,
        __m512,
        16,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_fmadd_ps,
        _mm512_add_ps,
        _mm512_sub_ps,
        _mm512_mul_ps,
        _mm512_div_ps,
        _mm512_max_ps,
        _mm512_sqrt_ps,
        load_n_f32x16,
        store_n_f32x16,
        exp2i_f32x16,
        load_between_f32x16
    );
    vector!(
        F64x8,
        f64,
        __m512d,
        8,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_fmadd_pd,
        _mm512_add_pd,
        _mm512_sub_pd,
        _mm512_mul_pd,
        _mm512_div_pd,
        _mm512_max_pd,
        _mm512_sqrt_pd,
        load_n_f64x8,
        store_n_f64x8,
        exp2i_f64x8,
        load_between_f64x8
    );
    vector!(
        F32x8,
        f32,
        __m256,
        8,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_fmadd_ps,
        _mm256_add_ps,
        _mm256_sub_ps,
        _mm256_mul_ps,
        _mm256_div_ps,
        _mm256_max_ps,
        _mm256_sqrt_ps,
        load_n_f32x8,
        store_n_f32x8,
        exp2i_f32x8,
        load_between_f32x8
    );
    vector!(
        F64x4,
        f64,
        __m256d,
        4,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_fmadd_pd,
        _mm256_add_pd,
        _mm256_sub_pd,
        _mm256_mul_pd,
        _mm256_div_pd,
        _mm256_max_pd,
        _mm256_sqrt_pd,
        load_n_f64x4,
        store_n_f64x4,
        exp2i_f64x4,
        load_between_f64x4
    );
}
#[cfg(target_arch = "x86_64")]
pub use x86::{F32x16, F32x8, F64x4, F64x8};

macro_rules! real {
    ($t:ty, $base:ty, $avx2:ty, $avx512:ty) => {
        impl Real for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            type Base = $base;
            #[cfg(target_arch = "x86_64")]
            type Avx2 = $avx2;
            #[cfg(target_arch = "x86_64")]
            type Avx512 = $avx512;
            #[cfg(not(target_arch = "x86_64"))]
            type Avx2 = $base;
            #[cfg(not(target_arch = "x86_64"))]
            type Avx512 = $base;
        }
    };
}
real!(f32, Lanes<f32, 4>, F32x8, F32x16);
real!(f64, Lanes<f64, 2>, F64x4, F64x8);

/// Compiles a generic function over `Vector` once per level: `dispatch!(body::<V>(args))` within a function generic in
/// `T: Real` calls it for the level in use.
#[macro_export]
macro_rules! by_level {
    ($(#[$meta:meta])* $vis:vis unsafe fn $name:ident<$t:ident $(, const $c:ident: $cty:ty)*>
        ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident) => {
        $(#[$meta])*
        #[allow(clippy::missing_safety_doc)]
        $vis unsafe fn $name<$t: $crate::gemm_simd::Real $(, const $c: $cty)*>($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx2<$t: $crate::gemm_simd::Real $(, const $c: $cty)*>($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller's contract; this function has the vector's features.
                unsafe { $body::<$t::Avx2 $(, $c)*>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx512<$t: $crate::gemm_simd::Real $(, const $c: $cty)*>($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller's contract; this function has the vector's features.
                unsafe { $body::<$t::Avx512 $(, $c)*>($($arg),*) }
            }
            // SAFETY: `level` never exceeds what the processor was found to have; the rest is the caller's contract.
            unsafe {
                match $crate::simd::level() {
                    #[cfg(target_arch = "x86_64")]
                    $crate::simd::Level::Avx512 => avx512::<$t $(, $c)*>($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::simd::Level::Avx2 => avx2::<$t $(, $c)*>($($arg),*),
                    _ => $body::<$t::Base $(, $c)*>($($arg),*),
                }
            }
        }
    };
}
