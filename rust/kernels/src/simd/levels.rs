//! The vector types of f32 and f64 at each instruction-set level.

use crate::simd::vector::{Lanes, BASE_BYTES};
#[cfg(target_arch = "x86_64")]
use crate::simd::x86::{F32x16, F32x8, F64x4, F64x8};
use crate::types::Float;

macro_rules! float {
    ($t:ty, $base:ty, $avx2:ty, $avx512:ty) => {
        impl Float for $t {
            #[inline(always)]
            fn sqrt(self) -> $t {
                <$t>::sqrt(self)
            }
            #[inline(always)]
            fn abs(self) -> $t {
                <$t>::abs(self)
            }
            #[inline(always)]
            fn exp(self) -> $t {
                <$t>::exp(self)
            }
            #[inline(always)]
            fn ln(self) -> $t {
                <$t>::ln(self)
            }
            #[inline(always)]
            fn ln_1p(self) -> $t {
                <$t>::ln_1p(self)
            }
            #[inline(always)]
            fn exp_m1(self) -> $t {
                <$t>::exp_m1(self)
            }
            #[inline(always)]
            fn total_cmp(&self, other: &$t) -> std::cmp::Ordering {
                <$t>::total_cmp(self, other)
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
float!(f32, Lanes<f32, { BASE_BYTES / 4 }>, F32x8, F32x16);
float!(f64, Lanes<f64, { BASE_BYTES / 8 }>, F64x4, F64x8);
