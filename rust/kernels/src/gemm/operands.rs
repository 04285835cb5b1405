//! The operands of a blocked product: sources of A and B, the target C, the epilogue, and a part of the work.

use crate::gemm::kernel::{Shape, KC};
use crate::pages::{prefer_huge_for, HUGE};
use crate::types::Float;
use std::cell::Cell;

/// Widest tile of C, in elements.
pub const MAX_WIDTH: usize = 64;
/// Bytes of the packed block of B: half of the second-level cache.
pub fn block_bytes() -> usize {
    crate::simd::core_cache_size() / 2
}

/// A source of panels of A.
pub trait LeftSide<T>: Sync {
    /// Rows `i..i + rows`, columns `p..p + kc`, either in place in the columns layout (pointer, distance) or written to
    /// `buf` in the rows layout (`None`).
    ///
    /// # Safety
    /// `buf` holds `rows * A_STRIDE` elements; the range lies within the matrix.
    unsafe fn panel(&self, i: usize, rows: usize, p: usize, kc: usize, buf: *mut T) -> Option<(*const T, usize)>;
    /// Writes all panels of `rows`, `height` rows each, in the columns layout with that distance, `height * A_STRIDE`
    /// apart. Returns false, and does nothing, if `panel` is as fast.
    ///
    /// # Safety
    /// `buf` holds the panels; the range lies within the matrix.
    unsafe fn panels(
        &self,
        _rows: std::ops::Range<usize>,
        _height: usize,
        _p: usize,
        _kc: usize,
        _buf: *mut T,
    ) -> bool {
        false
    }
    /// Element `p` of row `i` and the distance of rows, if the elements of a row are contiguous.
    fn contiguous_row(&self, _i: usize, _p: usize) -> Option<(*const T, usize)> {
        None
    }
    /// Whether its elements are gathered from so many places that the matrix unit would wait for them.
    fn gathered(&self) -> bool {
        false
    }
    /// Whether `prefetch` does anything.
    fn needs_prefetch(&self) -> bool {
        false
    }
    /// Prefetches this range: the hardware does not predict short rows that are far apart.
    fn prefetch(&self, _rows: std::ops::Range<usize>, _p: usize, _kc: usize) {}
}

/// A source of blocks of B.
pub trait RightSide<T>: Sync {
    /// Rows `p..p + kc`, columns `j..j + nc`, written to `buf` as panels of `width` columns (row `q` of panel `s` at
    /// `(s * kc + q) * width`, zeros after the last column).
    ///
    /// # Safety
    /// `buf` holds `kc * nc` elements with nc rounded up to `width`; the range lies within the matrix.
    unsafe fn pack(&self, p: usize, kc: usize, j: usize, nc: usize, width: usize, buf: *mut T);
    /// The same range in place (pointer, distance of rows), if that is possible and faster for `m` rows of A.
    fn in_place(&self, _p: usize, _j: usize, _m: usize, _lanes: usize) -> Option<(*const T, usize)> {
        None
    }
    /// The same range in place if the elements of its rows are contiguous: it is packed while the first panel is
    /// computed.
    fn rows(&self, _p: usize, _j: usize) -> Option<(*const T, usize)> {
        None
    }
    /// Whether its elements are gathered from so many places that the matrix unit would wait for them.
    fn gathered(&self) -> bool {
        false
    }
    /// The whole matrix as panels for the matrix unit (`View::panels`), or null.
    fn panels(&self) -> *const u8 {
        std::ptr::null()
    }
    /// Number of cache lines to prefetch for the next product.
    fn lines_ahead(&self) -> usize {
        0
    }
    /// Prefetches some of these lines.
    fn ahead(&self, _lines: std::ops::Range<usize>) {}
}

/// Elements of a row of C at equal distances.
#[derive(Clone, Copy)]
pub struct Run<T> {
    pub p: *mut T,
    pub len: usize,
    pub step: usize,
}

/// The location of C.
pub trait Target<T>: Sync {
    /// Distance between rows.
    fn row_stride(&self) -> usize;
    /// Writes the runs of the first row's columns from `j` to `out` and returns their number.
    fn runs(&self, j: usize, cols: usize, out: &mut [Run<T>; MAX_WIDTH]) -> usize;
    /// Whether these columns are contiguous.
    fn contiguous(&self, _j: usize, _cols: usize) -> bool {
        true
    }
}

/// The epilogue of an element; a bias is null or has one value per row or column.
#[derive(Clone, Copy)]
pub struct Finish<T> {
    pub alpha: T,
    pub beta: T,
    pub row_bias: *const T,
    pub col_bias: *const T,
    pub relu: bool,
    /// The operands may be rounded to bf16.
    pub bf16: bool,
}

impl<T: Float> Finish<T> {
    pub fn plain() -> Self {
        let null = std::ptr::null();
        Finish { alpha: T::ONE, beta: T::ZERO, row_bias: null, col_bias: null, relu: false, bf16: false }
    }

    /// Whether elements are left unchanged.
    pub fn is_plain(&self) -> bool {
        self.alpha == T::ONE && self.beta == T::ZERO && self.row_bias.is_null() && self.col_bias.is_null() && !self.relu
    }
}

// SAFETY: the pointers are only read, and stay valid until the call that created them returns.
unsafe impl<T: Sync> Sync for Finish<T> {}

thread_local! {
    static SCRATCH: Cell<Vec<Vec<u64>>> = const { Cell::new(Vec::new()) };
}

/// Calls `f` with a thread-local, 64-byte aligned buffer of at least `n` elements of arbitrary content.
pub fn with_scratch<T: Float, R>(n: usize, f: impl FnOnce(*mut T) -> R) -> R {
    let bytes = n * size_of::<T>();
    let align = if bytes > HUGE / 2 { HUGE } else { 64 };
    let words = (bytes + align).div_ceil(8);
    // Taken, not borrowed: a nested call allocates another buffer.
    let mut free = SCRATCH.take();
    let mut buf = free.pop().unwrap_or_default();
    SCRATCH.set(free);
    if buf.len() < words {
        buf = vec![0; words.next_power_of_two()];
        if align == HUGE {
            prefer_huge_for(&mut buf);
        }
    }
    let p = buf.as_mut_ptr();
    // SAFETY: `words` has room for the alignment.
    let result = f(unsafe { p.byte_add(p.align_offset(align) * 8).cast() });
    if buf.len() <= 1 << 21 {
        let mut free = SCRATCH.take();
        free.push(buf);
        SCRATCH.set(free);
    }
    result
}

/// The block size of k. It depends on k alone, so that results depend on nothing else.
pub fn k_block(k: usize) -> usize {
    k.div_ceil(k.div_ceil(KC).max(1)).max(1)
}

/// Rows and columns `j..j + nc` of C, with the columns `p..p + kc` of A.
pub struct ProductPart {
    pub rows: std::ops::Range<usize>,
    pub j: usize,
    pub nc: usize,
    pub p: usize,
    pub kc: usize,
    pub last: bool,
    pub shape: Shape,
}

/// Copies a few elements without a call of memcpy.
#[inline(always)]
pub unsafe fn copy_short<T: Copy>(src: *const T, dst: *mut T, n: usize) {
    // SAFETY: both hold n elements.
    unsafe {
        let mut i = 0;
        while i + 8 <= n {
            dst.add(i).cast::<[T; 8]>().write(src.add(i).cast::<[T; 8]>().read());
            i += 8;
        }
        if n >= 8 && i < n {
            // The last eight elements overlap those copied before.
            dst.add(n - 8).cast::<[T; 8]>().write(src.add(n - 8).cast::<[T; 8]>().read());
            return;
        }
        if n >= 4 && i < n {
            let (head, tail) = (src.cast::<[T; 4]>().read(), src.add(n - 4).cast::<[T; 4]>().read());
            dst.cast::<[T; 4]>().write(head);
            dst.add(n - 4).cast::<[T; 4]>().write(tail);
            return;
        }
        while i < n {
            *dst.add(i) = *src.add(i);
            i += 1;
        }
    }
}
