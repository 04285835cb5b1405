//! NEON instructions that LLVM does not choose for portable loops: maxima that keep NaN, and transposes in registers.

use std::arch::aarch64::*;

/// The larger and the smaller of two numbers, element by element; NaN where either is.
pub trait Extremes: Sized {
    fn max4(a: [Self; 4], b: [Self; 4]) -> [Self; 4];
    fn min4(a: [Self; 4], b: [Self; 4]) -> [Self; 4];
}

macro_rules! extremes {
    ($t:ty, $lanes:literal, $load:ident, $store:ident, $max:ident, $min:ident) => {
        impl Extremes for $t {
            #[inline(always)]
            fn max4(mut a: [$t; 4], b: [$t; 4]) -> [$t; 4] {
                for i in (0..4).step_by($lanes) {
                    // SAFETY: every AArch64 processor has NEON; whole vectors within both arrays.
                    unsafe {
                        let (p, q) = (a.as_mut_ptr().add(i), b.as_ptr().add(i));
                        $store(p, $max($load(p), $load(q)));
                    }
                }
                a
            }
            #[inline(always)]
            fn min4(mut a: [$t; 4], b: [$t; 4]) -> [$t; 4] {
                for i in (0..4).step_by($lanes) {
                    // SAFETY: as in `max4`.
                    unsafe {
                        let (p, q) = (a.as_mut_ptr().add(i), b.as_ptr().add(i));
                        $store(p, $min($load(p), $load(q)));
                    }
                }
                a
            }
        }
    };
}
extremes!(f32, 4, vld1q_f32, vst1q_f32, vmaxq_f32, vminq_f32);
extremes!(f64, 2, vld1q_f64, vst1q_f64, vmaxq_f64, vminq_f64);

/// An 8 x 8 transpose of 4-byte elements, in four squares.
///
/// # Safety
/// 8 elements must be readable at each of `from + i * from_step`, and writable at `to + i * to_step`.
#[inline]
pub unsafe fn transpose8(from: *const f32, from_step: isize, to: *mut f32, to_step: usize) {
    for (i, j) in [(0, 0), (0, 4), (4, 0), (4, 4)] {
        // SAFETY: the caller's contract covers every address.
        unsafe {
            let from = from.offset(j as isize * from_step).add(i);
            let r: [float32x4_t; 4] = std::array::from_fn(|k| vld1q_f32(from.offset(k as isize * from_step)));
            let pair = |x: float32x4_t| vreinterpretq_f64_f32(x);
            let (a, b) = (pair(vtrn1q_f32(r[0], r[1])), pair(vtrn2q_f32(r[0], r[1])));
            let (c, d) = (pair(vtrn1q_f32(r[2], r[3])), pair(vtrn2q_f32(r[2], r[3])));
            let turned = [vtrn1q_f64(a, c), vtrn1q_f64(b, d), vtrn2q_f64(a, c), vtrn2q_f64(b, d)];
            for (k, &row) in turned.iter().enumerate() {
                vst1q_f32(to.add((i + k) * to_step + j), vreinterpretq_f32_f64(row));
            }
        }
    }
}
