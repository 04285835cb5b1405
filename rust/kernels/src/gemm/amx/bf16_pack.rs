//! Packing of bf16 panels, from bf16 numbers or from f32 numbers that are rounded to bf16, in the layout of AMX tiles.
//!
//! A step of a panel is 32 values of k for 32 rows of A or columns of B: two tiles of 16 x 16 pairs (k, k + 1). A row of a
//! tile is a row of A, or a pair of rows of B. Zeros follow the last row, column and k.

use super::pack::{SIDE, STEP};
use std::arch::x86_64::*;

/// Bytes of a tile.
pub const TILE: usize = 1024;
/// Bytes of a step of a panel.
pub const STEP_BYTES: usize = 2 * TILE;
/// Rows by which packing prefetches ahead.
const AHEAD: usize = 8;

/// 16 numbers of `p` and 16 of `q` as bf16: the first `n` and `m`, then zeros.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
unsafe fn halves<const F32: bool>(p: *const u8, n: usize, q: *const u8, m: usize) -> __m512i {
    let mask = |n: usize| if n >= 16 { u16::MAX } else { (1 << n) - 1 };
    // SAFETY: only the `n` and `m` numbers are read; 32 bf16 numbers are 512 bits.
    unsafe {
        if F32 {
            let (x, y) = (_mm512_maskz_loadu_ps(mask(n), p.cast()), _mm512_maskz_loadu_ps(mask(m), q.cast()));
            std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(y, x))
        } else {
            let (x, y) = (_mm256_maskz_loadu_epi16(mask(n), p.cast()), _mm256_maskz_loadu_epi16(mask(m), q.cast()));
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(x), y)
        }
    }
}

const fn bytes(f32: bool) -> usize {
    if f32 {
        4
    } else {
        2
    }
}

/// Packs up to 32 rows of `kc` numbers, `rs` apart, as rows of A.
///
/// # Safety
/// The processor has AVX-512 and its bf16 instructions; the rows are readable, the panel has room for whole steps.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub unsafe fn pack_rows<const F32: bool>(from: *const u8, rs: usize, rows: usize, kc: usize, to: *mut u8) {
    let each = bytes(F32);
    for r in 0..SIDE {
        let row = from.wrapping_add(r * rs * each);
        let lanes = if r < rows { kc } else { 0 };
        let to = to.wrapping_add(r / 16 * TILE + r % 16 * 64);
        for (step, k) in (0..kc).step_by(STEP).enumerate() {
            let at = row.wrapping_add(k * each);
            // SAFETY: the caller's rows and panel; prefetches read nothing.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD * rs * each).cast());
                if F32 {
                    _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD * rs * each + 64).cast());
                }
                let left = lanes.saturating_sub(k);
                let both = halves::<F32>(at, left, at.wrapping_add(16 * each), left.saturating_sub(16));
                _mm512_storeu_si512(to.add(step * STEP_BYTES).cast(), both);
            }
        }
    }
}

/// Packs `kc` rows of `columns` numbers, `rs` apart, as pairs of rows of B, to panels that are `distance` bytes apart.
///
/// # Safety
/// As for `pack_rows`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub unsafe fn pack_pairs<const F32: bool>(
    from: *const u8,
    rs: usize,
    columns: usize,
    kc: usize,
    to: *mut u8,
    distance: usize,
) {
    let each = bytes(F32);
    // 0, 16, 1, 17, ...: numbers of both rows, alternating.
    let low = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    let order = _mm512_or_si512(low, _mm512_slli_epi32::<16>(_mm512_add_epi32(low, _mm512_set1_epi32(16))));
    for k in (0..kc.next_multiple_of(STEP)).step_by(2) {
        let row = from.wrapping_add(k * rs * each);
        let tile = to.wrapping_add(k / STEP * STEP_BYTES + k % STEP / 2 * 64);
        for j in (0..columns.next_multiple_of(SIDE)).step_by(16) {
            let (p, lanes) = (row.wrapping_add(j * each), columns.saturating_sub(j));
            let q = p.wrapping_add(rs * each);
            // SAFETY: the caller's rows and panels; prefetches read nothing.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(p.wrapping_add(AHEAD * rs * each).cast());
                _mm_prefetch::<_MM_HINT_T0>(q.wrapping_add(AHEAD * rs * each).cast());
                let n = |k: usize| if k < kc { lanes } else { 0 };
                let both = _mm512_permutexvar_epi16(order, halves::<F32>(p, n(k), q, n(k + 1)));
                _mm512_storeu_si512(tile.wrapping_add(j / SIDE * distance + j % SIDE / 16 * TILE).cast(), both);
            }
        }
    }
}

/// The columns of 16 rows of 16 pairs.
#[target_feature(enable = "avx512f")]
#[inline]
pub fn transposed(rows: &[__m512i; 16]) -> [__m512i; 16] {
    let (mut r, mut columns) = (*rows, [_mm512_setzero_si512(); 16]);
    for i in (0..16).step_by(2) {
        let (a, b) = (r[i], r[i + 1]);
        (r[i], r[i + 1]) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    }
    for i in [0, 1, 4, 5, 8, 9, 12, 13] {
        let (a, b) = (r[i], r[i + 2]);
        (r[i], r[i + 2]) = (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    }
    // Register 4 g + o holds column [0, 2, 1, 3][o] of each 4 x 4 block of rows 4 g ..: whole blocks move now.
    for o in 0..4 {
        let [a, b, c, d] = [r[o], r[4 + o], r[8 + o], r[12 + o]];
        let (ab0, ab1) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xee>(a, b));
        let (cd0, cd1) = (_mm512_shuffle_i32x4::<0x44>(c, d), _mm512_shuffle_i32x4::<0xee>(c, d));
        let column = [0, 2, 1, 3][o];
        columns[column] = _mm512_shuffle_i32x4::<0x88>(ab0, cd0);
        columns[4 + column] = _mm512_shuffle_i32x4::<0xdd>(ab0, cd0);
        columns[8 + column] = _mm512_shuffle_i32x4::<0x88>(ab1, cd1);
        columns[12 + column] = _mm512_shuffle_i32x4::<0xdd>(ab1, cd1);
    }
    columns
}

/// Transposes the 16 x 16 pairs of each tile of a panel of `steps` steps: rows of A become pairs of rows of B, and back.
///
/// # Safety
/// The processor has AVX-512; the panel has these steps.
#[target_feature(enable = "avx512f")]
pub unsafe fn turn(panel: *mut u8, steps: usize) {
    for t in 0..2 * steps {
        let tile = panel.wrapping_add(t * TILE).cast::<__m512i>();
        // SAFETY: the caller's panel.
        unsafe {
            let rows: [__m512i; 16] = std::array::from_fn(|i| _mm512_loadu_si512(tile.add(i).cast()));
            for (i, column) in transposed(&rows).into_iter().enumerate() {
                _mm512_storeu_si512(tile.add(i).cast(), column);
            }
        }
    }
}
