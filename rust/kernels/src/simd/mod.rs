//! Vector instruction sets, chosen at run time, streaming stores and prefetching: one build runs on every machine.
//!
//! `simd_fn!` compiles one body for every level. The body is `#[inline(always)]`, so that LLVM vectorises it inside a
//! wrapper with the `#[target_feature]` of that level. Functions that the body calls must be `#[inline(always)]` too.
//! Its `FMA` parameter is true if `mul_add` is one instruction.

mod levels;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub mod vector;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::OnceLock;

/// An instruction-set level. `Avx2` is AVX2 with FMA and F16C; `Avx512` adds F, BW, DQ, VL and CD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Baseline = 1,
    Avx2 = 2,
    Avx512 = 3,
}

const LEVELS: [Level; 3] = [Level::Baseline, Level::Avx2, Level::Avx512];

/// Whether `mul_add` is an instruction at the baseline level (it is on AArch64, it is not on x86-64).
pub const BASELINE_FMA: bool = cfg!(target_arch = "aarch64");

static LEVEL: AtomicU8 = AtomicU8::new(0);

/// The best level of this machine.
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

/// The level in use: `OAR_SIMD` (baseline, avx2, avx512) if set, but at most the best of this machine.
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

/// Selects `wanted`, or the best lower level of this machine; returns the selected level.
fn set_level(wanted: Level) -> Level {
    let level = wanted.min(best());
    LEVEL.store(level as u8, Relaxed);
    level
}

/// Runs `f` at every level of this machine, for tests.
///
/// # Safety
/// No other thread calls a kernel at the same time: the level must not change within a call, as buffers are sized by
/// it.
pub unsafe fn each_level(mut f: impl FnMut(Level)) {
    let before = level();
    for wanted in LEVELS {
        if set_level(wanted) == wanted {
            f(wanted);
        }
    }
    set_level(before);
}

/// Bytes of the processor's cache of this level, if the system reports it.
fn reported_cache_size(level: u32) -> Option<usize> {
    let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{level}/size")).ok()?;
    let text = text.trim();
    let unit = match text.bytes().last()? {
        b'K' => 1 << 10,
        b'M' => 1 << 20,
        _ => 1,
    };
    Some(text.trim_end_matches(['K', 'M']).parse::<usize>().ok()? * unit)
}

/// Size of the last-level cache in bytes (32 MiB if unknown).
pub fn cache_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    // Bounded: a virtual machine may report a cache that it shares with many others.
    *SIZE.get_or_init(|| {
        reported_cache_size(3).or_else(|| reported_cache_size(2)).unwrap_or(32 << 20).clamp(1 << 20, 64 << 20)
    })
}

/// Size of a core's second-level cache in bytes (1 MiB if unknown).
pub fn core_cache_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| reported_cache_size(2).unwrap_or(1 << 20).clamp(256 << 10, 4 << 20))
}

/// Whether a result of `bytes` bytes should use streaming stores: it exceeds the caches, and plain stores would read
/// the lines that they overwrite.
pub fn streams(bytes: usize) -> bool {
    cfg!(target_arch = "x86_64") && bytes > cache_size()
}

/// The same for plain copies, which profit from half the cache size on (a copy of 16 MiB takes half the time).
pub fn copy_streams(bytes: usize) -> bool {
    streams(2 * bytes + 1)
}

/// Elements that a kernel computes before it streams them: long enough for the hardware to detect sequential reads,
/// short enough for reads and writes to overlap.
pub const STREAM_TILE: usize = 512;

/// Copies `from` to `to` (equally long) with the widest streaming stores of the machine: a cache line written in pieces
/// may leave its write-combining buffer half full. `stream_end` must follow before another thread reads.
pub fn stream<T: Copy>(from: &[T], to: &mut [T]) {
    assert_eq!(from.len(), to.len());
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        let level = level();
        let width = match level {
            Level::Avx512 => 64,
            Level::Avx2 => 32,
            Level::Baseline => 16,
        };
        let bytes = std::mem::size_of_val(from);
        let (src, dst) = (from.as_ptr() as *const u8, to.as_mut_ptr() as *mut u8);
        let head = dst.align_offset(width).min(bytes);
        let end = head + (bytes - head) / width * width;
        // SAFETY: all offsets lie within `bytes`; the streamed addresses are aligned to the width, which the machine
        // supports (`level`); T is Copy, so its bytes may be copied, and the two slices cannot overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(src, dst, head);
            match level {
                Level::Avx512 => stream_avx512(src, dst, head, end),
                Level::Avx2 => stream_avx2(src, dst, head, end),
                Level::Baseline => (head..end).step_by(16).for_each(|i| {
                    _mm_stream_si128(dst.add(i) as *mut __m128i, _mm_loadu_si128(src.add(i) as *const __m128i))
                }),
            }
            std::ptr::copy_nonoverlapping(src.add(end), dst.add(end), bytes - end);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    to.copy_from_slice(from);
}

/// As `stream`, for an aligned block of whole cache lines; small enough to be inlined after the computation.
#[inline(always)]
pub fn stream_block<T: Copy, const N: usize>(from: &[T; N], to: &mut [T]) {
    let bytes = std::mem::size_of_val(from);
    assert!(to.len() == N && bytes.is_multiple_of(64) && (to.as_ptr() as usize).is_multiple_of(64));
    #[cfg(target_arch = "x86_64")]
    {
        let (src, dst) = (from.as_ptr() as *const u8, to.as_mut_ptr() as *mut u8);
        // SAFETY: whole vectors, aligned, within both blocks by the assertion; the machine supports them (`level`).
        unsafe {
            match level() {
                Level::Avx512 => stream_avx512(src, dst, 0, bytes),
                Level::Avx2 => stream_avx2(src, dst, 0, bytes),
                Level::Baseline => std::ptr::copy_nonoverlapping(src, dst, bytes),
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    to.copy_from_slice(from);
}

/// # Safety
/// `from..end` must be offsets within both blocks, a whole number of vectors, and `dst + from` aligned to a vector.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn stream_avx512(src: *const u8, dst: *mut u8, from: usize, end: usize) {
    use std::arch::x86_64::*;
    for i in (from..end).step_by(64) {
        // SAFETY: by the contract.
        unsafe { _mm512_stream_si512(dst.add(i) as *mut __m512i, _mm512_loadu_si512(src.add(i) as *const __m512i)) };
    }
}

/// # Safety
/// As for `stream_avx512`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn stream_avx2(src: *const u8, dst: *mut u8, from: usize, end: usize) {
    use std::arch::x86_64::*;
    for i in (from..end).step_by(32) {
        // SAFETY: by the contract.
        unsafe { _mm256_stream_si256(dst.add(i) as *mut __m256i, _mm256_loadu_si256(src.add(i) as *const __m256i)) };
    }
}

/// Prefetches the cache lines of `x`.
#[inline(always)]
pub fn prefetch<T>(x: &[T]) {
    prefetch_at(x.as_ptr(), x.len());
}

/// Prefetches the cache lines of `n` elements, which other threads may be writing.
#[inline(always)]
pub fn prefetch_at<T>(x: *const T, n: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..n * std::mem::size_of::<T>()).step_by(64) {
        // SAFETY: a prefetch never faults, whatever the address, and the pointer is not followed.
        unsafe {
            use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
            _mm_prefetch::<_MM_HINT_T0>((x as *const i8).wrapping_add(line));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (x, n);
}

/// Prefetches the cache lines `ahead` bytes after those of `x`, at any address, into the second-level cache: in the
/// first-level cache they would evict data in use.
#[inline(always)]
pub fn prefetch_far<T>(x: &[T], ahead: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..std::mem::size_of_val(x)).step_by(64) {
        // SAFETY: as above.
        unsafe {
            use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T1};
            _mm_prefetch::<_MM_HINT_T1>((x.as_ptr() as *const i8).wrapping_add(ahead + line));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (x, ahead);
}

/// Orders streaming stores of this thread before its later stores.
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
                // SAFETY: `level` never exceeds the features of the processor.
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
pub fn at_every_level(f: impl FnMut(Level)) {
    // SAFETY: tests run one at a time (.cargo/config.toml).
    unsafe { each_level(f) }
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
    fn streamed_copies_at_any_alignment() {
        let from: Vec<u8> = (0..1000).map(|i| (i % 251) as u8).collect();
        at_every_level(|_| {
            for (start, n) in [(0, 0), (1, 5), (3, 64), (7, 200), (64, 128), (13, 987)] {
                let mut to = vec![255u8; 1000];
                stream(&from[1000 - n..], &mut to[start..start + n]);
                stream_end();
                assert_eq!(to[start..start + n], from[1000 - n..]);
                assert!(to[..start].iter().chain(&to[start + n..]).all(|&v| v == 255));
            }
        });
    }

    #[test]
    fn every_level_runs() {
        let x: Vec<f32> = (0..37).map(|i| i as f32).collect();
        at_every_level(|_| assert_eq!(squares(&x, |v| v), 16206.0));
    }
}
