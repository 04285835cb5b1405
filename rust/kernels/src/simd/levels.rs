//! The vectors of f32 and f64 at each level.

use crate::simd::vector::{Lanes, Real};
#[cfg(target_arch = "x86_64")]
use crate::simd::x86::{F32x16, F32x8, F64x4, F64x8};

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
