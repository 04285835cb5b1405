//! Computation of one tile of C: operands of the micro-kernel, and the store to C.

use crate::gemm::kernel::{Kernel, SideWork, Tile};
use crate::gemm::operands::{copy_short, Finish, ProductPart, Run, Target, MAX_WIDTH};
use crate::types::Float;

/// Scratch of `one_tile`: the runs of C, and a buffer of the size of a tile.
pub struct TileScratch<T> {
    runs: [Run<T>; MAX_WIDTH],
    count: usize,
    buf: *mut T,
}

impl<T> TileScratch<T> {
    pub fn new(buf: *mut T) -> Self {
        TileScratch { runs: [const { Run { p: std::ptr::null_mut(), len: 0, step: 1 } }; MAX_WIDTH], count: 0, buf }
    }

    /// The address of columns `j..j + cols` of the first row of C, or null if they are not contiguous; then their runs
    /// are stored.
    #[inline(always)]
    pub fn find(&mut self, c: &impl Target<T>, j: usize, cols: usize) -> *mut T {
        self.count = c.runs(j, cols, &mut self.runs);
        if self.count == 1 && self.runs[0].step == 1 {
            self.runs[0].p
        } else {
            std::ptr::null_mut()
        }
    }
}

/// The common part of the tiles of a panel of rows from `i`: A and the epilogue.
#[inline(always)]
pub fn row_tiles<T: Float>(x: &ProductPart, i: usize, (a, csa): (*const T, usize), finish: &Finish<T>) -> Tile<T> {
    let null = std::ptr::null();
    let biased = x.last && !finish.row_bias.is_null();
    Tile {
        k: x.kc,
        a,
        csa,
        b: null,
        rsb: 0,
        c: std::ptr::null_mut(),
        rsc: 0,
        cols: x.shape.width(),
        alpha: finish.alpha,
        beta: if x.p == 0 { finish.beta } else { T::ONE },
        row_bias: if biased { finish.row_bias.wrapping_add(i) } else { null },
        col_bias: null,
        relu: x.last && finish.relu,
        side_work: SideWork::none(),
    }
}

/// Rows `i..i + rows`, columns `j..j + cols` of a part. The rows of C are `rs` apart; `scratch` has found the first.
///
/// # Safety
/// Rows, columns and k lie within the matrices, and nothing else accesses that part of C.
#[inline(always)]
pub unsafe fn one_tile<T: Float>(
    x: &ProductPart,
    tile: &mut Tile<T>,
    f: Kernel<T>,
    (i, rows): (usize, usize),
    (j, cols): (usize, usize),
    (place, rs): (*mut T, usize),
    finish: &Finish<T>,
    scratch: &TileScratch<T>,
) {
    tile.cols = cols;
    // SAFETY: the caller's tile.
    unsafe {
        if x.last && !finish.col_bias.is_null() {
            tile.col_bias = finish.col_bias.add(x.j + j);
        }
        if place.is_null() {
            (tile.c, tile.rsc) = (scratch.buf, x.shape.width());
            scattered(tile, f, rows, &scratch.runs[..scratch.count], i * rs, rs, scratch.buf);
        } else {
            (tile.c, tile.rsc) = (place.add(i * rs), rs);
            f(tile);
        }
    }
}

/// Computes a tile whose columns are not contiguous in C, through a buffer.
unsafe fn scattered<T: Float>(
    tile: &Tile<T>,
    f: Kernel<T>,
    rows: usize,
    runs: &[Run<T>],
    row: usize,
    rs: usize,
    tbuf: *mut T,
) {
    // SAFETY: the caller's tile; the buffer holds rows * rsc elements.
    unsafe {
        if tile.beta != T::ZERO {
            between::<T, false>(tbuf, tile.rsc, rows, runs, row, rs);
        }
        f(tile);
        between::<T, true>(tbuf, tile.rsc, rows, runs, row, rs);
    }
}

/// Copies rows between a buffer and the runs of C: to C if `OUT`, else from there.
///
/// # Safety
/// The buffer holds `rows` rows, `rsc` apart; the runs of the first row begin at offset `row`, those of each next row
/// `rs` later.
#[inline(always)]
pub unsafe fn between<T: Float, const OUT: bool>(
    tbuf: *mut T,
    rsc: usize,
    rows: usize,
    runs: &[Run<T>],
    row: usize,
    rs: usize,
) {
    for r in 0..rows {
        let mut at = tbuf.wrapping_add(r * rsc);
        for run in runs {
            let p = run.p.wrapping_add(row + r * rs);
            let ((from, step), (to, to_step)) = if OUT { ((at, 1), (p, run.step)) } else { ((p, run.step), (at, 1)) };
            // SAFETY: the caller's tile and buffer.
            unsafe {
                if run.step == 1 {
                    copy_short(from, to, run.len);
                } else {
                    for s in 0..run.len {
                        *to.add(s * to_step) = *from.add(s * step);
                    }
                }
            }
            at = at.wrapping_add(run.len);
        }
    }
}
