//! Products of bf16 numbers, and of f32 numbers that are rounded to bf16, on the matrix unit. Sums are f32.
//!
//! The unit treats denormal numbers as zero. A result depends neither on blocks nor on threads: each element is one chain
//! of additions over k.

use super::bf16_pack::{pack_pairs, pack_rows, turn, STEP_BYTES};
use super::pack::{SIDE, STEP};
use super::unit::{blocks, enabled, finish_tile, left_rows, multiply, with_tiles};
use crate::gemm::kernel::A_STRIDE;
use crate::gemm::operands::{with_scratch, Finish, LeftSide, RightSide, Target};
use crate::gemm::tile::TileScratch;
use crate::gemm::View;
use crate::pool::{chunks_on, SharedPtr};
use crate::types::Float;
use half::bf16;
use std::arch::x86_64::*;
use std::ops::Range;

/// Largest number of columns of A in a panel: a panel of B, and the lines of A that are prefetched, fit the first-level
/// cache.
const DEPTH: usize = 384;
/// Largest numbers of rows and columns of a block: its panels and sums fit the second-level cache.
const ROWS: usize = 1024;
const COLUMNS: usize = 256;
/// Largest A, in elements, that is packed once for all blocks, and panels of a piece of that work.
const WHOLE: usize = 4 << 20;
const GROUP: usize = 4;
/// Columns of A that f32 operands give at a time.
const SLICE: usize = 128;
/// Floats of the buffer of `Panels`.
const SPARE: usize = SIDE * (A_STRIDE + SLICE);

/// Whether the unit is faster for a product of this size of plain matrices.
#[inline]
pub fn suits(m: usize, n: usize, k: usize) -> bool {
    let padded = (m.next_multiple_of(SIDE) * n.next_multiple_of(SIDE)) as f64 * k.next_multiple_of(STEP) as f64;
    // Estimates in 1/1000 of a cycle, as in `unit::suits`.
    let (plain, amx) = (42.0 * (m * n) as f64 * k as f64, 3.0 * padded);
    m.min(n).min(k) >= 8
        && plain > amx + 300.0 * (k * (m + n)) as f64 + 500.0 * (m * n) as f64 + 2e6
        && enabled()
        && present()
}

/// Whether the processor has the instructions that round to bf16.
#[inline]
pub fn present() -> bool {
    is_x86_feature_detected!("avx512bf16")
}

/// Bytes of the panels of a matrix B of `k` rows and `n` columns, rounded to bf16.
pub fn right_len(k: usize, n: usize) -> usize {
    let (depth, panel) = panels_of(k);
    k.div_ceil(depth) * n.div_ceil(SIDE) * panel
}

/// Writes the panels of B, `k` rows of `n` floats, for products of f32 that are rounded: `View::panels`.
pub fn pack_right(b: &[f32], k: usize, n: usize, to: &mut [u8]) {
    assert!(k > 0 && b.len() == k * n && to.len() == right_len(k, n) && enabled() && present());
    let (depth, panel) = panels_of(k);
    for (p, to) in (0..k).step_by(depth).zip(to.chunks_exact_mut(n.div_ceil(SIDE) * panel)) {
        // SAFETY: rows of B; `to` has their panels. The processor has the instructions.
        unsafe { pack_pairs::<true>(b[p * n..].as_ptr().cast(), n, n, depth.min(k - p), to.as_mut_ptr(), panel) };
    }
}

/// The operands and the result of a product.
trait Panels: Sync {
    /// The panels of B from `pack_right`, or null.
    fn packed(&self) -> *const u8 {
        std::ptr::null()
    }
    /// Packs rows of A, columns `p..p + kc`, to panels of 32 rows, `distance` bytes apart.
    ///
    /// # Safety
    /// The ranges lie within A; the panels have room for whole steps; `spare` has `SPARE` floats.
    unsafe fn left(&self, rows: Range<usize>, p: usize, kc: usize, to: *mut u8, distance: usize, spare: *mut f32);
    /// Packs columns of B, rows `p..p + kc`, to panels of 32 columns.
    ///
    /// # Safety
    /// As for `left`.
    unsafe fn right(&self, columns: Range<usize>, p: usize, kc: usize, to: *mut u8, distance: usize, spare: *mut f32);
    /// Applies the epilogue to a tile of sums, rows `distance` apart, and writes it to C.
    ///
    /// # Safety
    /// The ranges lie within C, and nothing else accesses that part; `spare` has `SPARE` floats.
    unsafe fn write(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        sums: *const f32,
        distance: usize,
        spare: *mut f32,
    );
}

/// The division of k: columns of A in a panel, and its bytes.
fn panels_of(k: usize) -> (usize, usize) {
    let depth = k.div_ceil(k.div_ceil(DEPTH)).next_multiple_of(STEP);
    (depth, depth / STEP * STEP_BYTES)
}

unsafe fn product(m: usize, n: usize, k: usize, x: &dyn Panels, on_pool: bool) {
    let threads = if on_pool { crate::pool::threads() } else { 1 };
    let (rows, columns) = blocks(m, n, (ROWS, COLUMNS), threads);
    let (down, across) = (m.div_ceil(rows), n.div_ceil(columns));
    // A is packed once for all blocks, unless it is large or there is one block of columns.
    let ((depth, panel), high) = (panels_of(k), m.div_ceil(SIDE));
    let shared = across > 1 && m * k <= WHOLE;
    let bytes = if shared { k.div_ceil(depth) * high * panel } else { 0 };
    with_scratch::<f32, _>(bytes / size_of::<f32>(), |left| {
        let left = &SharedPtr(left.cast::<u8>());
        if shared {
            chunks_on(threads, high.div_ceil(GROUP), |g| {
                let rows = g * GROUP * SIDE..m.min((g + 1) * GROUP * SIDE);
                with_scratch::<f32, _>(SPARE, |spare| {
                    for (d, p) in (0..k).step_by(depth).enumerate() {
                        let to = left.get().wrapping_add((d * high + g * GROUP) * panel);
                        // SAFETY: the caller's A; pieces have their own panels.
                        unsafe { x.left(rows.clone(), p, depth.min(k - p), to, panel, spare) };
                    }
                })
            });
        }
        chunks_on(threads, down * across, |t| {
            let (i, j) = (t / across * rows, t % across * columns);
            let packed = if shared { left.get().cast_const() } else { std::ptr::null() };
            // SAFETY: the blocks are disjoint parts of C.
            unsafe { block(i..(i + rows).min(m), j..(j + columns).min(n), (n, k), x, packed, high) }
        });
    });
}

/// One block; `packed`: the panels of A, `high` for each part of k, or null.
unsafe fn block(
    rows: Range<usize>,
    columns: Range<usize>,
    (n, k): (usize, usize),
    x: &dyn Panels,
    packed: *const u8,
    high: usize,
) {
    let (down, across) = (rows.len().div_ceil(SIDE), columns.len().div_ceil(SIDE));
    let (depth, panel) = panels_of(k);
    let floats = panel / size_of::<f32>();
    // One cache line more: rows of a power of two would share cache sets.
    let distance = across * SIDE + 16;
    let own = if packed.is_null() { down * floats } else { 0 };
    let packed_right = x.packed();
    let own_right = if packed_right.is_null() { across * floats } else { 0 };
    let parts = [own, own_right, down * SIDE * distance, SPARE];
    with_scratch::<f32, _>(parts.iter().sum(), |left| {
        let (right, sums) = (left.wrapping_add(parts[0]), left.wrapping_add(parts[0] + parts[1]));
        let spare = sums.wrapping_add(parts[2]);
        let (left, right) = (left.cast::<u8>(), right.cast::<u8>());
        // SAFETY: the caller's ranges; the buffer has these parts. The processor has the unit (`suits`).
        unsafe {
            with_tiles(|| {
                for (d, p) in (0..k).step_by(depth).enumerate() {
                    let kc = depth.min(k - p);
                    let left = if packed.is_null() {
                        x.left(rows.clone(), p, kc, left, panel, spare);
                        left.cast_const()
                    } else {
                        packed.wrapping_add((d * high + rows.start / SIDE) * panel)
                    };
                    let right = if packed_right.is_null() {
                        x.right(columns.clone(), p, kc, right, panel, spare);
                        right.cast_const()
                    } else {
                        packed_right.wrapping_add((d * n.div_ceil(SIDE) + columns.start / SIDE) * panel)
                    };
                    for (t, j) in columns.clone().step_by(SIDE).enumerate() {
                        for (s, i) in rows.clone().step_by(SIDE).enumerate() {
                            let to = sums.add(s * SIDE * distance + t * SIDE);
                            let (a, b) = (left.add(s * panel), right.add(t * panel));
                            multiply::<STEP_BYTES, true>(a, b, kc.div_ceil(STEP), to, distance * 4, p == 0);
                            if p + kc == k {
                                let (high, wide) = (i..rows.end.min(i + SIDE), j..columns.end.min(j + SIDE));
                                x.write(high, wide, to, distance, spare);
                            }
                        }
                    }
                }
            });
        }
    });
}

/// f32 operands, rounded while they are packed.
struct Rounded<'a, T, A, B, C> {
    a: &'a A,
    b: &'a B,
    c: &'a C,
    finish: &'a Finish<T>,
}

impl<T: Float, A: LeftSide<T>, B: RightSide<T>, C: Target<T>> Panels for Rounded<'_, T, A, B, C> {
    fn packed(&self) -> *const u8 {
        self.b.panels()
    }
    unsafe fn left(&self, rows: Range<usize>, p: usize, kc: usize, to: *mut u8, distance: usize, spare: *mut f32) {
        for (s, i) in rows.clone().step_by(SIDE).enumerate() {
            let some = SIDE.min(rows.end - i);
            for k in (0..kc).step_by(SLICE) {
                let slice = SLICE.min(kc - k);
                let to = to.wrapping_add(s * distance + k / STEP * STEP_BYTES);
                // SAFETY: the caller's range and panels.
                unsafe {
                    let (from, rs) = left_rows(self.a, i, some, p + k, slice, spare.cast());
                    pack_rows::<true>(from.cast(), rs, some, slice, to);
                }
            }
        }
    }
    unsafe fn right(&self, columns: Range<usize>, p: usize, kc: usize, to: *mut u8, distance: usize, spare: *mut f32) {
        // SAFETY: the caller's range and panels.
        unsafe {
            if let Some((from, rs)) = self.b.rows(p, columns.start) {
                return pack_pairs::<true>(from.cast(), rs, columns.len(), kc, to, distance);
            }
            let (some, wide) = (columns.len(), columns.len().next_multiple_of(SIDE));
            for k in (0..kc).step_by(STEP) {
                let slice = STEP.min(kc - k);
                self.b.pack(p + k, slice, columns.start, some, wide, spare.cast());
                let to = to.wrapping_add(k / STEP * STEP_BYTES);
                pack_pairs::<true>(spare.cast_const().cast(), wide, some, slice, to, distance);
            }
        }
    }
    unsafe fn write(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        sums: *const f32,
        distance: usize,
        spare: *mut f32,
    ) {
        let mut scratch = TileScratch::new(spare.cast());
        let place = scratch.find(self.c, columns.start, columns.len());
        // SAFETY: the caller's.
        unsafe { finish_tile(sums.cast(), distance, rows, columns, place, self.c, self.finish, &scratch) }
    }
}

/// Computes the whole product of f32 operands, rounded to bf16.
///
/// # Safety
/// As for `driver::parallel`; T is f32, and `suits` is true for the size.
pub unsafe fn rounded<T: Float>(
    m: usize,
    n: usize,
    k: usize,
    a: &impl LeftSide<T>,
    b: &impl RightSide<T>,
    c: &impl Target<T>,
    finish: &Finish<T>,
    on_pool: bool,
) {
    // SAFETY: the caller's.
    unsafe { product(m, n, k, &Rounded { a, b, c, finish }, on_pool) }
}

/// bf16 operands and result; the biases and factors are f32.
struct Halves<'a> {
    a: View<'a, bf16>,
    b: View<'a, bf16>,
    c: *mut bf16,
    rsc: usize,
    finish: &'a Finish<f32>,
}

// SAFETY: threads write disjoint parts of C.
unsafe impl Sync for Halves<'_> {}

/// The matrix of a view with consecutive elements along its rows (`cs` 1) or its columns (`rs` 1).
fn plain(v: &View<bf16>) -> bool {
    v.rs == 1 || v.cs == 1
}

impl Panels for Halves<'_> {
    unsafe fn left(&self, rows: Range<usize>, p: usize, kc: usize, to: *mut u8, distance: usize, _spare: *mut f32) {
        let v = &self.a;
        let from = v.data.as_ptr().wrapping_add(rows.start * v.rs + p * v.cs).cast::<u8>();
        // SAFETY: the caller's range and panels.
        unsafe {
            if v.cs != 1 {
                pack_pairs::<false>(from, v.cs, rows.len(), kc, to, distance);
            }
            for (s, i) in (0..rows.len()).step_by(SIDE).enumerate() {
                let to = to.wrapping_add(s * distance);
                if v.cs == 1 {
                    let some = SIDE.min(rows.len() - i);
                    pack_rows::<false>(from.wrapping_add(i * v.rs * 2), v.rs, some, kc, to);
                } else {
                    turn(to, kc.div_ceil(STEP));
                }
            }
        }
    }
    unsafe fn right(&self, columns: Range<usize>, p: usize, kc: usize, to: *mut u8, distance: usize, _: *mut f32) {
        let v = &self.b;
        let from = v.data.as_ptr().wrapping_add(p * v.rs + columns.start * v.cs).cast::<u8>();
        // SAFETY: the caller's range and panels.
        unsafe {
            if v.cs == 1 {
                return pack_pairs::<false>(from, v.rs, columns.len(), kc, to, distance);
            }
            for (t, j) in (0..columns.len()).step_by(SIDE).enumerate() {
                let (some, to) = (SIDE.min(columns.len() - j), to.wrapping_add(t * distance));
                pack_rows::<false>(from.wrapping_add(j * v.cs * 2), v.cs, some, kc, to);
                turn(to, kc.div_ceil(STEP));
            }
        }
    }
    unsafe fn write(&self, rows: Range<usize>, columns: Range<usize>, sums: *const f32, distance: usize, _: *mut f32) {
        let to = self.c.wrapping_add(rows.start * self.rsc + columns.start);
        // SAFETY: the caller's tile, and `suits`.
        unsafe { write_halves(rows, columns, sums, distance, to, self.rsc, self.finish) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn write_halves(
    rows: Range<usize>,
    columns: Range<usize>,
    sums: *const f32,
    distance: usize,
    to: *mut bf16,
    rsc: usize,
    finish: &Finish<f32>,
) {
    let (alpha, beta) = (_mm512_set1_ps(finish.alpha), _mm512_set1_ps(finish.beta));
    for (r, row) in rows.enumerate() {
        for side in [0, 16] {
            let lanes = columns.len().saturating_sub(side).min(16);
            if lanes == 0 {
                continue;
            }
            let mask = ((1u32 << lanes) - 1) as u16;
            let to = to.wrapping_add(r * rsc + side);
            // SAFETY: the caller's sums, C and biases.
            unsafe {
                let mut v = _mm512_mul_ps(_mm512_loadu_ps(sums.add(r * distance + side)), alpha);
                if finish.beta != 0.0 {
                    let old = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, to.cast()));
                    v = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(old)), beta, v);
                }
                if !finish.row_bias.is_null() {
                    v = _mm512_add_ps(v, _mm512_set1_ps(*finish.row_bias.add(row)));
                }
                if !finish.col_bias.is_null() {
                    let at = finish.col_bias.add(columns.start + side);
                    v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, at));
                }
                if finish.relu {
                    v = _mm512_max_ps(v, _mm512_setzero_ps());
                }
                let narrow = std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(v));
                _mm256_mask_storeu_epi16(to.cast(), mask, narrow);
            }
        }
    }
}

/// `c = act(alpha * a * b + beta * c + bias)`, the rows of C `rsc` apart. Returns false, and does nothing, if the unit is
/// slower or an operand has no consecutive elements.
///
/// # Safety
/// The extents lie within A, B and C, which overlaps nothing.
pub unsafe fn halves(
    (m, n, k): (usize, usize, usize),
    a: View<bf16>,
    b: View<bf16>,
    (c, rsc): (*mut bf16, usize),
    finish: &Finish<f32>,
    on_pool: bool,
) -> bool {
    if !plain(&a) || !plain(&b) || !suits(m, n, k) {
        return false;
    }
    // SAFETY: the caller's.
    unsafe { product(m, n, k, &Halves { a, b, c, rsc, finish }, on_pool) };
    true
}
