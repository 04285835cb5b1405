//! Packing of f32 panels as three bf16 parts each, in the layout of AMX tiles.
//!
//! A step of a panel is 32 values of k for 32 rows of A or columns of B: six tiles of 16 x 16 pairs, the high, middle and low
//! parts of the first 16 rows or columns and of the others. A pair is (k, k + 16) on both sides, so that no lanes move.
//! Zeros follow the last row, column and k.

use std::arch::x86_64::*;

/// Rows and columns of a tile of C.
pub const SIDE: usize = 32;
/// Values of k that a tile holds.
pub const STEP: usize = 32;
/// Parts of a float.
pub const PARTS: usize = 3;
const TILE: usize = 1024;
/// Rows by which packing prefetches ahead.
const AHEAD: usize = 4;

/// High, middle and low part of each float, as floats with (nearly) zero lower halves: the first two are rounded to 8
/// bits, the rest has at most 8.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub fn parts(x: __m512) -> [__m512i; PARTS] {
    let (half, upper) = (_mm512_set1_epi32(0x8000), _mm512_set1_epi32(0xffff_0000_u32 as i32));
    let round = |x: __m512| _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), upper);
    let high = round(x);
    let x = _mm512_sub_ps(x, _mm512_castsi512_ps(high));
    let middle = round(x);
    [high, middle, _mm512_castps_si512(_mm512_sub_ps(x, _mm512_castsi512_ps(middle)))]
}

/// Writes the parts of 16 pairs, the second of each pair in the upper half; `tiles` points to the row of the high tile.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn write(first: __m512, second: __m512, tiles: *mut u8) {
    let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
    let (x, y) = (parts(first), parts(second));
    for l in 0..PARTS {
        // upper ? y : x >> 16
        let pair = _mm512_ternarylogic_epi32::<0xe4>(y[l], _mm512_srli_epi32::<16>(x[l]), upper);
        // SAFETY: the caller's panel.
        unsafe { _mm512_storeu_si512(tiles.add(l * 2 * TILE).cast(), pair) };
    }
}

/// Loads `n` of 16 lanes, zeros elsewhere.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn some(p: *const f32, n: usize) -> __m512 {
    // SAFETY: only the `n` lanes are read.
    unsafe {
        if n >= 16 {
            _mm512_loadu_ps(p)
        } else {
            _mm512_maskz_loadu_ps((1u16 << n) - 1, p)
        }
    }
}

/// The range of magnitudes in a panel: the bits of the largest (a NaN if there is one), and the bits of the smallest
/// nonzero one, less 1.
#[derive(Clone, Copy)]
pub struct Magnitudes {
    pub largest: u32,
    pub smallest: u32,
    /// All are bf16 numbers: their middle and low parts are 0.
    pub bf16: bool,
}

impl Magnitudes {
    pub const EMPTY: Magnitudes = Magnitudes { largest: 0, smallest: u32::MAX, bf16: true };
    pub fn and(self, other: Magnitudes) -> Magnitudes {
        Magnitudes {
            largest: self.largest.max(other.largest),
            smallest: self.smallest.min(other.smallest),
            bf16: self.bf16 && other.bf16,
        }
    }
}

/// The same for each lane.
#[derive(Clone, Copy)]
pub struct Lanes {
    largest: __m512i,
    smallest: __m512i,
    /// Bits that one of the numbers has set.
    bits: __m512i,
}

impl Lanes {
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    pub fn new() -> Lanes {
        Lanes { largest: _mm512_setzero_si512(), smallest: _mm512_set1_epi32(-1), bits: _mm512_setzero_si512() }
    }
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    pub fn see(&mut self, x: __m512) {
        let magnitude = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fff_ffff));
        self.largest = _mm512_max_epu32(self.largest, magnitude);
        self.bits = _mm512_or_si512(self.bits, magnitude);
        // Less 1, zero becomes the largest unsigned number.
        self.smallest = _mm512_min_epu32(self.smallest, _mm512_sub_epi32(magnitude, _mm512_set1_epi32(1)));
    }
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    pub fn seen(self) -> Magnitudes {
        Magnitudes {
            largest: _mm512_reduce_max_epu32(self.largest),
            smallest: _mm512_reduce_min_epu32(self.smallest),
            bf16: _mm512_reduce_or_epi32(self.bits) & 0xffff == 0,
        }
    }
}

/// Packs `rows` rows of `kc` floats, `rs` apart, and returns the range of their magnitudes.
///
/// # Safety
/// The processor has AVX-512; the rows are readable, and the panel has room for whole steps.
#[target_feature(enable = "avx512f,avx512bw")]
pub unsafe fn split_left(from: *const f32, rs: usize, rows: usize, kc: usize, to: *mut u8) -> Magnitudes {
    let mut seen = Lanes::new();
    for r in 0..SIDE {
        let row = from.wrapping_add(r * rs);
        let lanes = if r < rows { kc } else { 0 };
        let to = to.wrapping_add(r / 16 * TILE + r % 16 * 64);
        for (step, k) in (0..kc).step_by(STEP).enumerate() {
            // SAFETY: the caller's rows and panel; prefetches read nothing.
            unsafe {
                for line in [0, 16] {
                    _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(AHEAD * rs + k + line).cast());
                }
                let at = |k: usize| some(row.wrapping_add(k), lanes.saturating_sub(k));
                let (first, second) = (at(k), at(k + 16));
                seen.see(first);
                seen.see(second);
                write(first, second, to.add(step * 2 * PARTS * TILE));
            }
        }
    }
    seen.seen()
}

/// Packs `kc` rows of `columns` floats, `rs` apart, to panels that are `distance` bytes apart; `seen` is extended by
/// the magnitudes of each panel.
///
/// # Safety
/// As for `split_left`.
#[target_feature(enable = "avx512f,avx512bw")]
pub unsafe fn split_right(
    from: *const f32,
    rs: usize,
    columns: usize,
    kc: usize,
    to: *mut u8,
    distance: usize,
    seen: &mut [Magnitudes],
) {
    const MOST: usize = 16;
    // A few panels at a time, whose magnitudes stay in registers.
    for (j, seen) in (0..columns).step_by(MOST * SIDE).zip(seen.chunks_mut(MOST)) {
        let mut lanes_seen = [Lanes::new(); MOST];
        let end = columns.min(j + MOST * SIDE);
        for step in 0..kc.div_ceil(STEP) {
            for pair in 0..16 {
                let k = step * STEP + pair;
                let row = from.wrapping_add(k * rs);
                let tile = to.wrapping_add(step * 2 * PARTS * TILE + pair * 64);
                for (at, seen) in (j..end).step_by(SIDE).zip(&mut lanes_seen) {
                    for side in [0, 16] {
                        let (p, lanes) = (row.wrapping_add(at + side), end.saturating_sub(at + side));
                        // SAFETY: the caller's rows and panels; prefetches read nothing.
                        unsafe {
                            _mm_prefetch::<_MM_HINT_T0>(p.wrapping_add(AHEAD * rs).cast());
                            _mm_prefetch::<_MM_HINT_T0>(p.wrapping_add((AHEAD + 16) * rs).cast());
                            let first = some(p, if k < kc { lanes } else { 0 });
                            let second = some(p.wrapping_add(16 * rs), if k + 16 < kc { lanes } else { 0 });
                            seen.see(first);
                            seen.see(second);
                            write(first, second, tile.wrapping_add(at / SIDE * distance + side / 16 * TILE));
                        }
                    }
                }
            }
        }
        for (seen, lanes) in seen.iter_mut().zip(lanes_seen) {
            *seen = seen.and(lanes.seen());
        }
    }
}
