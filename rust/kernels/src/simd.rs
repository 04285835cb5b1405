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

/// Size of the last-level cache in bytes (32 MiB where the system does not say).
pub fn cache_size() -> usize {
    static SIZE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *SIZE.get_or_init(|| {
        let parse = |text: String| {
            let text = text.trim();
            let unit = match text.bytes().last()? {
                b'K' => 1 << 10,
                b'M' => 1 << 20,
                _ => 1,
            };
            Some(text.trim_end_matches(['K', 'M']).parse::<usize>().ok()? * unit)
        };
        let read = |i: u32| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{i}/size");
            std::fs::read_to_string(path).ok().and_then(parse)
        };
        // A guest may be told of a cache that it shares with many others.
        read(3).or_else(|| read(2)).unwrap_or(32 << 20).clamp(1 << 20, 64 << 20)
    })
}

/// Whether a result of so many bytes is better written around the caches: it would not stay there anyhow, and a plain
/// store would first read what it overwrites.
pub fn streams(bytes: usize) -> bool {
    cfg!(target_arch = "x86_64") && bytes > cache_size()
}

/// The same for plain copies, which have nothing to compute meanwhile: from half the cache on (a copy of 16 MiB takes half
/// the time, where an addition of such operands would take longer).
pub fn copy_streams(bytes: usize) -> bool {
    streams(2 * bytes + 1)
}

/// Copies `from` to `to` (equally long) with stores that go around the caches. `stream_end` must follow before another
/// thread reads.
pub fn stream<T: Copy>(from: &[T], to: &mut [T]) {
    assert_eq!(from.len(), to.len());
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let bytes = std::mem::size_of_val(from);
        let (src, dst) = (from.as_ptr() as *const u8, to.as_mut_ptr() as *mut u8);
        let head = dst.align_offset(16).min(bytes);
        let body = (bytes - head) / 16;
        let tail = head + body * 16;
        // SAFETY: all offsets lie within `bytes`; the streamed addresses are aligned to 16; T is Copy, so its bytes may
        // be copied, and the two slices cannot overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(src, dst, head);
            for i in 0..body {
                let v = _mm_loadu_si128(src.add(head + 16 * i) as *const __m128i);
                _mm_stream_si128(dst.add(head + 16 * i) as *mut __m128i, v);
            }
            std::ptr::copy_nonoverlapping(src.add(tail), dst.add(tail), bytes - tail);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    to.copy_from_slice(from);
}

/// Asks for the cache lines `ahead` bytes behind those of `x`, whether they exist or not.
#[inline(always)]
pub fn prefetch<T>(x: &[T], ahead: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..std::mem::size_of_val(x)).step_by(64) {
        // SAFETY: a prefetch never faults, whatever the address, and the pointer is not followed.
        unsafe {
            use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
            _mm_prefetch::<_MM_HINT_T0>((x.as_ptr() as *const i8).wrapping_add(ahead + line));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (x, ahead);
}

/// Makes what this thread streamed visible before anything it writes later.
pub fn stream_end() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a fence has no precondition, and SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
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

/// Runs `f` at every level that the machine has. Tests that change the level take turns.
#[cfg(test)]
pub fn at_every_level(f: impl Fn(Level)) {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let before = level();
    for wanted in LEVELS {
        if set_level(wanted) == wanted {
            f(wanted);
        }
    }
    set_level(before);
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
        at_every_level(|_| assert_eq!(squares(&x, |v| v), 16206.0));
    }
}
