//! Vectors of AVX2 and AVX-512.

use crate::types::Vector;
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
     $load_n:ident, $store_n:ident, $exp2i:ident, $load_between:ident $(, $even:ident, $even_n:ident, $pairs:ident)?) => {
        #[derive(Clone, Copy)]
        pub struct $name($raw);
        // SAFETY of every block below: the trait's contract gives the instruction set and valid pointers.
        #[allow(clippy::undocumented_unsafe_blocks)]
        impl Vector for $name {
            $(
                #[inline(always)]
                unsafe fn load_even(p: *const $t) -> Self {
                    $name(unsafe { $even(p) })
                }
                #[inline(always)]
                unsafe fn load_even_n(p: *const $t, n: usize) -> Self {
                    $name(unsafe { $even_n(p, n) })
                }
                const PAIRS: bool = true;
                #[inline(always)]
                unsafe fn load_pairs(p: *const $t, n: usize) -> [Self; 2] {
                    let [even, odd] = unsafe { $pairs(p, n) };
                    [$name(even), $name(odd)]
                }
            )?
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

// Masked and integer operations are functions with the target feature, so that they inline where it is enabled.
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
        // Stored in pieces: a masked store is slow on many processors without AVX-512.
        unsafe {
            if n >= 8 {
                return _mm256_storeu_ps(p, v);
            }
            let (mut left, mut p) = (_mm256_castps256_ps128(v), p);
            if n & 4 != 0 {
                _mm_storeu_ps(p, left);
                (left, p) = (_mm256_extractf128_ps::<1>(v), p.add(4));
            }
            if n & 2 != 0 {
                _mm_storel_pd(p.cast(), _mm_castps_pd(left));
                (left, p) = (_mm_movehl_ps(left, left), p.add(2));
            }
            if n & 1 != 0 {
                _mm_store_ss(p, left);
            }
        }
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
        unsafe {
            if n >= 4 {
                return _mm256_storeu_pd(p, v);
            }
            let (mut left, mut p) = (_mm256_castpd256_pd128(v), p);
            if n & 2 != 0 {
                _mm_storeu_pd(p, left);
                (left, p) = (_mm256_extractf128_pd::<1>(v), p.add(2));
            }
            if n & 1 != 0 {
                _mm_store_sd(p, left);
            }
        }
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
    fn load_even_f32x16(p: *const f32) -> __m512 {
        // The second vector begins one element early, so that it ends with the last element wanted.
        unsafe {
            let pick = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);
            _mm512_permutex2var_ps(_mm512_loadu_ps(p), pick, _mm512_loadu_ps(p.add(15)))
        }
    }
);
piece!(
    "avx512f",
    fn load_even_n_f32x16(p: *const f32, n: usize) -> __m512 {
        unsafe {
            let pick = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            // Elements 0..2 n - 1; shifts by 64 would wrap.
            let mask = ((1u64 << (2 * n)) - 1) >> 1;
            let low = _mm512_maskz_loadu_ps(mask as u16, p);
            _mm512_permutex2var_ps(low, pick, _mm512_maskz_loadu_ps((mask >> 16) as u16, p.wrapping_add(16)))
        }
    }
);
piece!(
    "avx512f",
    fn load_pairs_f32x16(p: *const f32, n: usize) -> [__m512; 2] {
        unsafe {
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
            let mask = ((1u64 << (2 * n)) - 1) as u32;
            let low = _mm512_maskz_loadu_ps(mask as u16, p);
            let high = _mm512_maskz_loadu_ps((mask >> 16) as u16, p.wrapping_add(16));
            [_mm512_permutex2var_ps(low, even, high), _mm512_permutex2var_ps(low, odd, high)]
        }
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
    load_between_f32x16,
    load_even_f32x16,
    load_even_n_f32x16,
    load_pairs_f32x16
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
