//! Which vector instructions to use, decided at run time: one build runs on every machine.
//!
//! `simd_fn!` compiles one body for every level. The body is `#[inline(always)]`, so that inside the wrapper with
//! `#[target_feature]` LLVM vectorises it with that level's registers. What the body calls must be
//! `#[inline(always)]` too. Its `FMA` parameter says whether `mul_add` is one instruction there.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// An instruction-set level. `Avx2` is AVX2 with FMA and F16C; `Avx512` adds F, BW, DQ, VL and CD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Baseline = 1,
    Avx2 = 2,
    Avx512 = 3,
}

pub const LEVELS: [Level; 3] = [Level::Baseline, Level::Avx2, Level::Avx512];

/// Whether `mul_add` is an instruction at the baseline level (it is on AArch64, it is not on x86-64).
pub const BASELINE_FMA: bool = cfg!(target_arch = "aarch64");

static LEVEL: AtomicU8 = AtomicU8::new(0);

/// The best level that this machine has.
pub fn best() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512cd");
        if avx2 {
            return if avx512 { Level::Avx512 } else { Level::Avx2 };
        }
    }
    Level::Baseline
}

/// The level in use: `OAR_SIMD` (baseline, avx2, avx512) if set, never more than the machine has.
#[inline]
pub fn level() -> Level {
    match LEVEL.load(Relaxed) {
        1 => Level::Baseline,
        2 => Level::Avx2,
        3 => Level::Avx512,
        _ => decide(),
    }
}

#[cold]
fn decide() -> Level {
    let wanted = match std::env::var("OAR_SIMD").as_deref() {
        Ok("baseline") => Level::Baseline,
        Ok("avx2") => Level::Avx2,
        _ => Level::Avx512,
    };
    set_level(wanted)
}

/// Uses `wanted`, or the best level below it that the machine has; returns which. For tests and measurements.
pub fn set_level(wanted: Level) -> Level {
    let level = wanted.min(best());
    LEVEL.store(level as u8, Relaxed);
    level
}

/// Compiles a function once per level and calls the one for `simd::level()`.
///
/// ```ignore
/// simd_fn! {
///     /// Documentation.
///     pub fn axpy[T: Float](a: T, x: &[T], y: &mut [T]) -> () { ... T::mul_add::<FMA>(a, x, y) ... }
/// }
/// ```
#[macro_export]
macro_rules! simd_fn {
    ($(#[$meta:meta])* $vis:vis fn $name:ident $([$($g:ident $(: $bound:path)?),*])? ($($arg:ident: $ty:ty),* $(,)?)
        $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(unused_parens)]
        $vis fn $name $(<$($g $(: $bound)?),*>)? ($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::extra_unused_type_parameters)]
            fn body<const FMA: bool, $($($g $(: $bound)?),*)?>($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
            fn avx2 $(<$($g $(: $bound)?),*>)? ($($arg: $ty),*) $(-> $ret)? {
                body::<true, $($($g),*)?>($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi1,bmi2")]
            fn avx512 $(<$($g $(: $bound)?),*>)? ($($arg: $ty),*) $(-> $ret)? {
                body::<true, $($($g),*)?>($($arg),*)
            }
            match $crate::simd::level() {
                // SAFETY: `level` never exceeds what the processor was found to have.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Level::Avx512 => unsafe { avx512 $(::<$($g),*>)? ($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Level::Avx2 => unsafe { avx2 $(::<$($g),*>)? ($($arg),*) },
                _ => body::<{ $crate::simd::BASELINE_FMA }, $($($g),*)?>($($arg),*),
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    simd_fn! {
        /// The sum of squares in eight lanes.
        fn squares[T: Copy](x: &[T], f: fn(T) -> f32) -> f32 {
            let mut lanes = [0.0f32; 8];
            for c in x.chunks(8) {
                for (l, &v) in lanes.iter_mut().zip(c) {
                    let v = f(v);
                    *l = if FMA { v.mul_add(v, *l) } else { *l + v * v };
                }
            }
            lanes.iter().sum()
        }
    }

    #[test]
    fn every_level_runs() {
        let x: Vec<f32> = (0..37).map(|i| i as f32).collect();
        let before = level();
        for wanted in LEVELS {
            assert!(set_level(wanted) <= wanted);
            assert_eq!(squares(&x, |v| v), 16206.0);
        }
        set_level(before);
    }
}
