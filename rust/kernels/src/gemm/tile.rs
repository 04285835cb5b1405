//! One tile of C: what it reads, where it goes.

use crate::gemm::kernel::{Beside, Kernel, Tile};
use crate::gemm::operands::{copy_short, Finish, ProductPart, Run, Target, MAX_WIDTH};
use crate::types::Float;

/// Where `one_tile` works: the runs of C that it asks for, and a buffer of a tile's size.
pub struct Room<T> {
    runs: [Run<T>; MAX_WIDTH],
    count: usize,
    buf: *mut T,
}

impl<T> Room<T> {
    pub fn new(buf: *mut T) -> Self {
        Room { runs: [const { Run { p: std::ptr::null_mut(), len: 0, step: 1 } }; MAX_WIDTH], count: 0, buf }
    }

    /// Where columns `j..j + cols` of the first row of C begin; null where they lie in pieces, which this remembers.
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

/// What the tiles of a panel of rows from `i` have in common: A, and how their elements are finished.
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
        beside: Beside::nothing(),
    }
}

/// Rows `i..i + rows`, columns `j..j + cols` of a part. C's rows are `rs` apart, the first is where `room` has found it.
///
/// # Safety
/// Rows and columns and the operands' k lie within the matrices, and nothing else touches that part of C.
#[inline(always)]
pub unsafe fn one_tile<T: Float>(
    x: &ProductPart,
    tile: &mut Tile<T>,
    f: Kernel<T>,
    (i, rows): (usize, usize),
    (j, cols): (usize, usize),
    (place, rs): (*mut T, usize),
    finish: &Finish<T>,
    room: &Room<T>,
) {
    tile.cols = cols;
    // SAFETY: the caller's tile.
    unsafe {
        if x.last && !finish.col_bias.is_null() {
            tile.col_bias = finish.col_bias.add(x.j + j);
        }
        if place.is_null() {
            (tile.c, tile.rsc) = (room.buf, x.shape.width());
            scattered(tile, f, rows, &room.runs[..room.count], i * rs, rs, room.buf);
        } else {
            (tile.c, tile.rsc) = (place.add(i * rs), rs);
            f(tile);
        }
    }
}

/// A tile whose columns are not consecutive in C: through a buffer.
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
/// The buffer holds `rows` rows, `rsc` apart; the runs of the first begin `row` elements on, those of the next `rs` later.
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
