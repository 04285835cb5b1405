//! Packing of plain (strided) matrices into panels.

use crate::gemm::kernel::{even_panels, A_STRIDE};
use crate::gemm::operands::{copy_short, LeftSide, RightSide, Run, Target, MAX_WIDTH};
use crate::simd::vector::{prefetch, prefetch_near};
#[cfg(target_arch = "x86_64")]
use crate::simd::{level, Level};
use crate::types::{Float, Vector};

/// A matrix of arbitrary row and column strides.
#[derive(Clone, Copy)]
pub struct Strided<T> {
    pub p: *const T,
    pub rs: usize,
    pub cs: usize,
    /// Numbers of all rows and columns, to estimate what fits the caches.
    pub rows: usize,
}

// SAFETY: only read, until the call that created it returns.
unsafe impl<T: Sync> Sync for Strided<T> {}

impl<T: Float> LeftSide<T> for Strided<T> {
    #[inline]
    unsafe fn panel(&self, i: usize, rows: usize, p: usize, kc: usize, buf: *mut T) -> Option<(*const T, usize)> {
        // SAFETY: the caller's range and buffer.
        unsafe {
            let src = self.p.add(i * self.rs + p * self.cs);
            if self.rs == 1 {
                // Columns that are far apart would evict each other from the cache while they are reused.
                if self.cs * size_of::<T>() < 1024 {
                    return Some((src, self.cs));
                }
                for q in 0..kc {
                    copy_short(src.add(q * self.cs), buf.add(q * rows), rows);
                }
                return Some((buf, rows));
            }
            if self.cs == 1 {
                copy_panel::<T>(src, self.rs, rows, kc, buf);
                return None;
            }
            for r in 0..rows {
                let (row, out) = (src.add(r * self.rs), buf.add(r * A_STRIDE));
                for q in 0..kc {
                    *out.add(q) = *row.add(q * self.cs);
                }
            }
        }
        None
    }
    unsafe fn panels(&self, rows: std::ops::Range<usize>, height: usize, p: usize, kc: usize, buf: *mut T) -> bool {
        if self.rs != 1 || self.cs * size_of::<T>() < 1024 {
            return false;
        }
        // Each column is on a page of its own: read consecutive elements of one column.
        for q in 0..kc {
            let column = self.p.wrapping_add((p + q) * self.cs + rows.start);
            for r in (0..rows.len()).step_by(64 / size_of::<T>()) {
                prefetch_near(column.wrapping_add(4 * self.cs + r));
            }
            for (s, (r, n)) in even_panels(rows.len(), height).enumerate() {
                // SAFETY: the caller's range and buffer.
                unsafe {
                    let to = buf.add(s * height * A_STRIDE + q * height);
                    copy_short(column.add(r), to, n);
                }
            }
        }
        true
    }
    #[inline]
    fn contiguous_row(&self, i: usize, p: usize) -> Option<(*const T, usize)> {
        (self.cs == 1).then(|| (self.p.wrapping_add(i * self.rs + p), self.rs))
    }
    #[inline]
    fn needs_prefetch(&self) -> bool {
        self.cs == 1 && self.rows * self.rs * size_of::<T>() >= 256 << 10
    }
    #[inline]
    fn prefetch(&self, rows: std::ops::Range<usize>, p: usize, kc: usize) {
        if !self.needs_prefetch() {
            return;
        }
        for r in rows {
            let row = self.p.wrapping_add(r * self.rs + p);
            for q in (0..kc).step_by(64 / size_of::<T>()) {
                prefetch(row.wrapping_add(q));
            }
        }
    }
}

crate::by_level! {
    /// Copies rows of `kc` elements, `rs` apart, to a panel: for small products one call per row would dominate.
    unsafe fn copy_panel<T>(src: *const T, rs: usize, rows: usize, kc: usize, buf: *mut T) = copied_rows
}

#[inline(always)]
unsafe fn copied_rows<V: Vector>(src: *const V::T, rs: usize, rows: usize, kc: usize, buf: *mut V::T) {
    for r in 0..rows {
        // SAFETY: the caller's rows and panel.
        unsafe {
            let (row, out) = (src.add(r * rs), buf.add(r * A_STRIDE));
            let mut q = 0;
            while q + V::L <= kc {
                V::load(row.add(q)).store(out.add(q));
                q += V::L;
            }
            if q < kc {
                V::load_n(row.add(q), kc - q).store_n(out.add(q), kc - q);
            }
        }
    }
}

/// A memory range to prefetch.
#[derive(Clone, Copy)]
pub struct PrefetchRange {
    pub p: *const u8,
    pub bytes: usize,
}

impl PrefetchRange {
    pub const EMPTY: PrefetchRange = PrefetchRange { p: std::ptr::null(), bytes: 0 };
}

/// A matrix B that also prefetches the operands of the next product: otherwise each of many small products would wait
/// for its operands.
pub struct PrefetchingNext<T> {
    pub b: Strided<T>,
    /// Its panels for the matrix unit, or null.
    pub panels: *const u8,
    pub next: [PrefetchRange; 2],
}

// SAFETY: addresses of `next` are prefetched, never read.
unsafe impl<T: Sync> Sync for PrefetchingNext<T> {}

impl<T: Float> RightSide<T> for PrefetchingNext<T> {
    unsafe fn pack(&self, p: usize, kc: usize, j: usize, nc: usize, width: usize, buf: *mut T) {
        // SAFETY: the caller's.
        unsafe { self.b.pack(p, kc, j, nc, width, buf) }
    }
    fn in_place(&self, p: usize, j: usize, m: usize, lanes: usize) -> Option<(*const T, usize)> {
        self.b.in_place(p, j, m, lanes)
    }
    fn rows(&self, p: usize, j: usize) -> Option<(*const T, usize)> {
        self.b.rows(p, j)
    }
    fn panels(&self) -> *const u8 {
        self.panels
    }
    fn lines_ahead(&self) -> usize {
        self.next.iter().map(|s| s.bytes.div_ceil(64)).sum()
    }
    #[inline]
    fn ahead(&self, lines: std::ops::Range<usize>) {
        let [a, b] = &self.next;
        let first = a.bytes.div_ceil(64);
        for line in lines.start..lines.end.min(first + b.bytes.div_ceil(64)) {
            let (of, line) = if line < first { (a, line) } else { (b, line - first) };
            prefetch(of.p.wrapping_add(line * 64));
        }
    }
}

impl<T: Float> RightSide<T> for Strided<T> {
    #[inline]
    unsafe fn pack(&self, p: usize, kc: usize, j: usize, nc: usize, width: usize, buf: *mut T) {
        // SAFETY: the caller's range and buffer.
        unsafe {
            let src = self.p.add(p * self.rs + j * self.cs);
            if self.cs == 1 {
                pack_rows(src, self.rs, kc, nc, width, buf);
            } else {
                for s in 0..nc.div_ceil(width) {
                    let cols = width.min(nc - s * width);
                    let (from, to) = (src.add(s * width * self.cs), buf.add(s * width * kc));
                    if self.rs == 1 {
                        transpose(from, self.cs, cols, kc, width, to);
                    } else {
                        for q in 0..kc {
                            for c in 0..cols {
                                *to.add(q * width + c) = *from.add(q * self.rs + c * self.cs);
                            }
                        }
                    }
                    if cols < width {
                        clear(to, kc, cols, width);
                    }
                }
            }
        }
    }
    #[inline]
    fn in_place(&self, p: usize, j: usize, m: usize, lanes: usize) -> Option<(*const T, usize)> {
        // A copy does not pay for rows that are read once or twice, or for a matrix of at most half of the first-level
        // cache.
        let small = self.rows * self.rs * size_of::<T>() <= 16 << 10;
        if m <= lanes.min(6) || small {
            self.rows(p, j)
        } else {
            None
        }
    }
    #[inline]
    fn rows(&self, p: usize, j: usize) -> Option<(*const T, usize)> {
        (self.cs == 1).then(|| (self.p.wrapping_add(p * self.rs + j), self.rs))
    }
}

/// Zeroes columns `cols..width` of a panel.
pub unsafe fn clear<T: Float>(panel: *mut T, kc: usize, cols: usize, width: usize) {
    for q in 0..kc {
        for c in cols..width {
            // SAFETY: the caller's panel of kc * width elements.
            unsafe { *panel.add(q * width + c) = T::ZERO };
        }
    }
}

/// Rows of B that are packed together: each panel then receives several consecutive lines. One row at a time would
/// write one line to each of many pages, all in one set of the first-level cache.
const SIDE_BY_SIDE: usize = 4;

unsafe fn pack_rows<T: Float>(src: *const T, rs: usize, kc: usize, nc: usize, width: usize, buf: *mut T) {
    let whole = nc / width * width;
    for q0 in (0..kc).step_by(SIDE_BY_SIDE) {
        let rows = q0..(q0 + SIDE_BY_SIDE).min(kc);
        // SAFETY: the caller's range and buffer.
        unsafe {
            for j in (0..whole).step_by(width) {
                for q in rows.clone() {
                    let from = src.add(q * rs + j);
                    // Rows on different pages are not predicted by the hardware prefetcher.
                    for c in (0..width).step_by(64 / size_of::<T>()) {
                        prefetch(from.wrapping_add(SIDE_BY_SIDE * rs + c));
                    }
                    copy_row(from, buf.add(j * kc + q * width), width);
                }
            }
            if whole < nc {
                for q in rows {
                    let out = buf.add(whole * kc + q * width);
                    std::ptr::copy_nonoverlapping(src.add(q * rs + whole), out, nc - whole);
                    clear(out, 1, nc - whole, width);
                }
            }
        }
    }
}

/// `n` is a multiple of 4: short fixed moves, as a call of memcpy costs more than the copy.
#[inline(always)]
unsafe fn copy_row<T: Copy>(src: *const T, dst: *mut T, n: usize) {
    let mut i = 0;
    while i < n {
        // SAFETY: both rows hold n elements, n a multiple of 4.
        unsafe { dst.add(i).cast::<[T; 4]>().write_unaligned(src.add(i).cast::<[T; 4]>().read_unaligned()) };
        i += 4;
    }
}

/// `rows` rows of `kc` elements, `stride` apart, become `rows` columns of a panel of `width`.
///
/// # Safety
/// The source holds the rows, the panel kc * width elements.
pub unsafe fn transpose<T: Float>(src: *const T, stride: usize, rows: usize, kc: usize, width: usize, dst: *mut T) {
    #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(unused_mut))]
    let (mut r0, mut q0) = (0, 0);
    #[cfg(target_arch = "x86_64")]
    if size_of::<T>() == 4 && level() >= Level::Avx2 && rows.min(kc) >= 8 {
        (r0, q0) = (rows, kc);
        // The rest at each end is moved in a block of eight that overlaps the block before.
        for r in (0..rows).step_by(8).map(|r| r.min(rows - 8)) {
            // SAFETY: eight rows of the source, eight columns of the panel; T is f32, the only Float of four bytes.
            unsafe { transpose8(src.add(r * stride).cast(), stride, kc, dst.add(r).cast(), width) };
        }
    }
    #[cfg(target_arch = "aarch64")]
    if size_of::<T>() == 4 && rows.min(kc) >= 8 {
        (r0, q0) = (rows, kc);
        for r in (0..rows).step_by(8).map(|r| r.min(rows - 8)) {
            for q in (0..kc).step_by(8).map(|q| q.min(kc - 8)) {
                // SAFETY: eight elements of eight rows, eight columns of the panel; T is f32.
                unsafe {
                    let (from, to) = (src.add(r * stride + q), dst.add(q * width + r));
                    crate::simd::neon::transpose8(from.cast(), stride as isize, to.cast(), width);
                }
            }
        }
    }
    for r in 0..rows {
        let from = if r < r0 { q0 } else { 0 };
        for q in from..kc {
            // SAFETY: within both.
            unsafe { *dst.add(q * width + r) = *src.add(r * stride + q) };
        }
    }
}

/// Eight rows of `kc` elements (at least eight) to columns.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn transpose8(src: *const f32, ss: usize, kc: usize, dst: *mut f32, ds: usize) {
    use std::arch::x86_64::*;
    for q in (0..kc).step_by(8).map(|q| q.min(kc - 8)) {
        // SAFETY: the caller's rows and panel.
        unsafe {
            // Halves of rows i and i + 4 in one register, so that later steps stay within 128-bit lanes.
            let half = |i: usize, o: usize| {
                let low = _mm256_castps128_ps256(_mm_loadu_ps(src.add(i * ss + q + o)));
                _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(src.add((i + 4) * ss + q + o)))
            };
            for o in [0, 4] {
                let (a, b, c, d) = (half(0, o), half(1, o), half(2, o), half(3, o));
                let (ab0, ab1) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                let (cd0, cd1) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
                let to = dst.add((q + o) * ds);
                _mm256_storeu_ps(to, _mm256_shuffle_ps::<0x44>(ab0, cd0));
                _mm256_storeu_ps(to.add(ds), _mm256_shuffle_ps::<0xee>(ab0, cd0));
                _mm256_storeu_ps(to.add(2 * ds), _mm256_shuffle_ps::<0x44>(ab1, cd1));
                _mm256_storeu_ps(to.add(3 * ds), _mm256_shuffle_ps::<0xee>(ab1, cd1));
            }
        }
    }
}

/// C with consecutive columns.
pub struct RowMajor<T> {
    pub p: *mut T,
    pub rs: usize,
}

// SAFETY: threads write disjoint parts of it.
unsafe impl<T: Send> Sync for RowMajor<T> {}

impl<T: Float> Target<T> for RowMajor<T> {
    #[inline]
    fn row_stride(&self) -> usize {
        self.rs
    }
    #[inline]
    fn runs(&self, j: usize, cols: usize, out: &mut [Run<T>; MAX_WIDTH]) -> usize {
        out[0] = Run { p: self.p.wrapping_add(j), len: cols, step: 1 };
        1
    }
}
