//! The micro-kernel: an R x (NV vectors) tile of C in registers. Every element of C is one chain of fused multiply-adds
//! over k, for every shape of tile: the result does not depend on how C is divided.
#![allow(clippy::needless_range_loop)] // registers are counted, not iterated

use crate::simd::vector::{prefetch, prefetch_near};
use crate::simd::{level, Level};
use crate::types::{Float, Number, Vector};

/// Largest number of columns k in a panel of A.
pub const KC: usize = 384;
/// Distance between the rows of a packed panel of A: a constant, and not a multiple of 4 KiB (rows would share cache
/// sets).
pub const A_STRIDE: usize = KC + 16;

/// Rows of B by which a `copying` kernel prefetches ahead.
const AHEAD: usize = 16;

/// One call of the micro-kernel: C = act(alpha * A * B + beta * C + bias) on `cols` columns.
pub struct Tile<T> {
    pub k: usize,
    /// Rows layout: element (i, p) at `i * A_STRIDE + p`. Columns layout: at `i + p * csa`.
    pub a: *const T,
    pub csa: usize,
    /// Row p at `p * rsb`; whole vectors are read.
    pub b: *const T,
    pub rsb: usize,
    pub c: *mut T,
    pub rsc: usize,
    pub cols: usize,
    pub alpha: T,
    /// C is not read if this is 0.
    pub beta: T,
    /// One value per row, or null.
    pub row_bias: *const T,
    /// One value per column, or null.
    pub col_bias: *const T,
    pub relu: bool,
    pub side_work: SideWork<T>,
}

/// Memory work that a kernel does in addition to its product.
#[derive(Clone, Copy)]
pub struct SideWork<T> {
    /// A `copying` kernel writes row p of B here, at `p * step`; a `prefetching` kernel prefetches `p * step` from here
    /// with row p; a `carrying` kernel reads `rows` rows of a later tile from here, `step` apart.
    pub at: *mut T,
    pub step: usize,
    pub rows: usize,
    /// Where a `carrying` kernel writes these rows, consecutively.
    pub to: *mut T,
    /// Distance from each of these rows to the row that is prefetched with it.
    pub ahead: usize,
}

impl<T> SideWork<T> {
    pub fn none() -> Self {
        SideWork::on(std::ptr::null_mut(), 0)
    }

    pub fn on(at: *mut T, step: usize) -> Self {
        SideWork { at, step, rows: 0, to: std::ptr::null_mut(), ahead: 0 }
    }
}

const NO_WORK: u8 = 0;
const COPY: u8 = 1;
const PREFETCH: u8 = 2;
const CARRY: u8 = 3;

pub type Kernel<T> = unsafe fn(&Tile<T>);

/// The position of a tile in A, in B, and in the memory that its kernel copies or prefetches.
struct At<T> {
    a: *const T,
    b: *const T,
    side_work: *mut T,
}

/// One column of A times one row of B.
#[inline(always)]
unsafe fn step<V: Vector, const R: usize, const NV: usize, const COLUMNS: bool, const WORK: u8>(
    t: &Tile<V::T>,
    at: &mut At<V::T>,
    acc: &mut [[V; NV]; R],
) {
    // SAFETY: as in `body`, whose k steps stay within A and B.
    unsafe {
        let mut bv = [V::zero(); NV];
        for j in 0..NV {
            bv[j] = V::load(at.b.add(j * V::L));
            if WORK == COPY {
                bv[j].store(at.side_work.add(j * V::L));
                prefetch(at.b.wrapping_add(AHEAD * t.rsb + j * V::L));
            }
        }
        if WORK == PREFETCH {
            prefetch(at.side_work);
        }
        if WORK == COPY || WORK == PREFETCH {
            at.side_work = at.side_work.wrapping_add(t.side_work.step);
        }
        for i in 0..R {
            let av = V::splat(*at.a.add(if COLUMNS { i } else { i * A_STRIDE }));
            for j in 0..NV {
                acc[i][j] = av.fma(bv[j], acc[i][j]);
            }
        }
        at.a = at.a.add(if COLUMNS { t.csa } else { 1 });
        at.b = at.b.add(t.rsb);
    }
}

/// Unrolled twice: loop counters take issue slots from the multiplications.
#[inline(always)]
unsafe fn steps<V: Vector, const R: usize, const NV: usize, const COLUMNS: bool, const WORK: u8>(
    t: &Tile<V::T>,
    at: &mut At<V::T>,
    acc: &mut [[V; NV]; R],
    turns: usize,
) {
    for _ in 0..turns {
        // SAFETY: as for `step`.
        unsafe {
            step::<V, R, NV, COLUMNS, WORK>(t, at, acc);
            step::<V, R, NV, COLUMNS, WORK>(t, at, acc);
        }
    }
}

#[inline(always)]
unsafe fn body<V: Vector, const R: usize, const NV: usize, const COLUMNS: bool, const WORK: u8>(t: &Tile<V::T>) {
    // SAFETY: the caller's tile is valid for the rows, columns and k that it names.
    unsafe {
        let mut acc = [[V::zero(); NV]; R];
        // C is prefetched while A and B are multiplied.
        for i in 0..R {
            let row = t.c.wrapping_add(i * t.rsc);
            if NV * V::L * size_of::<V::T>() == 64 {
                // A row of the tile spans one or two cache lines.
                prefetch_near(row);
                prefetch_near(row.wrapping_add(NV * V::L - 1));
            } else {
                for j in 0..NV {
                    prefetch(row.wrapping_add(j * V::L));
                }
            }
        }
        let mut at = At { a: t.a, b: t.b, side_work: t.side_work.at };
        let mut turns = t.k / 2;
        if WORK == CARRY {
            let each = turns / t.side_work.rows;
            turns -= each * t.side_work.rows;
            let mut to = t.side_work.to;
            for _ in 0..t.side_work.rows {
                for j in 0..NV {
                    V::load(at.side_work.add(j * V::L)).store(to.add(j * V::L));
                }
                prefetch(at.side_work.wrapping_add(t.side_work.ahead));
                (at.side_work, to) = (at.side_work.wrapping_add(t.side_work.step), to.wrapping_add(NV * V::L));
                steps::<V, R, NV, COLUMNS, WORK>(t, &mut at, &mut acc, each);
            }
        }
        steps::<V, R, NV, COLUMNS, WORK>(t, &mut at, &mut acc, turns);
        if t.k % 2 == 1 {
            step::<V, R, NV, COLUMNS, WORK>(t, &mut at, &mut acc);
        }
        finish::<V, R, NV>(t, acc);
    }
}

#[inline(always)]
unsafe fn finish<V: Vector, const R: usize, const NV: usize>(t: &Tile<V::T>, mut acc: [[V; NV]; R]) {
    // SAFETY: as in `body`.
    unsafe {
        let full = t.cols == NV * V::L;
        let left = |j: usize| t.cols.saturating_sub(j * V::L).min(V::L);
        if t.alpha != V::T::ONE {
            let alpha = V::splat(t.alpha);
            for i in 0..R {
                for j in 0..NV {
                    acc[i][j] = acc[i][j].mul(alpha);
                }
            }
        }
        if t.beta != V::T::ZERO {
            let beta = V::splat(t.beta);
            for i in 0..R {
                for j in 0..NV {
                    let p = t.c.add(i * t.rsc).wrapping_add(j * V::L);
                    let old = if full { V::load(p) } else { V::load_n(p, left(j)) };
                    acc[i][j] = old.fma(beta, acc[i][j]);
                }
            }
        }
        if !t.row_bias.is_null() {
            for i in 0..R {
                let bias = V::splat(*t.row_bias.add(i));
                for j in 0..NV {
                    acc[i][j] = acc[i][j].add(bias);
                }
            }
        }
        if !t.col_bias.is_null() {
            for j in 0..NV {
                let bias = V::load_n(t.col_bias.wrapping_add(j * V::L), left(j));
                for i in 0..R {
                    acc[i][j] = acc[i][j].add(bias);
                }
            }
        }
        if t.relu {
            for i in 0..R {
                for j in 0..NV {
                    acc[i][j] = acc[i][j].max(V::zero());
                }
            }
        }
        for i in 0..R {
            for j in 0..NV {
                let p = t.c.add(i * t.rsc).wrapping_add(j * V::L);
                if full {
                    acc[i][j].store(p);
                } else {
                    acc[i][j].store_n(p, left(j));
                }
            }
        }
    }
}

macro_rules! wrapper {
    ($name:ident, $vector:ident, $features:literal) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<T: Float, const R: usize, const NV: usize, const COLUMNS: bool, const WORK: u8>(t: &Tile<T>) {
            // SAFETY: the caller's contract.
            unsafe { body::<T::$vector, R, NV, COLUMNS, WORK>(t) }
        }
    };
}
wrapper!(avx2, Avx2, "avx2,fma");
wrapper!(avx512, Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma");

unsafe fn base<T: Float, const R: usize, const NV: usize, const COLUMNS: bool, const WORK: u8>(t: &Tile<T>) {
    // SAFETY: the caller's contract.
    unsafe { body::<T::Base, R, NV, COLUMNS, NO_WORK>(t) }
}

/// The kernel that finishes `rows` rows (8 or 1) of two vectors whose sums are already computed, in `b`.
#[cfg(target_arch = "x86_64")]
pub fn finishing<T: Float>(rows: usize) -> Kernel<T> {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma")]
    unsafe fn finish_sums<T: Float, const R: usize>(t: &Tile<T>) {
        // SAFETY: the caller's sums and tile.
        unsafe {
            let at = |i, j| t.b.wrapping_add(i * t.rsb + j * T::Avx512::L);
            let sums = std::array::from_fn(|i| std::array::from_fn(|j| T::Avx512::load(at(i, j))));
            finish::<T::Avx512, R, 2>(t, sums)
        }
    }
    if rows == 8 {
        finish_sums::<T, 8>
    } else {
        finish_sums::<T, 1>
    }
}

macro_rules! pick {
    ($f:ident, $columns:ident, $side_work:ident, $r:ident, $nv:ident, $none:expr, $($n:literal: $($i:literal)*),*) => {
        match ($nv, $r) {
            $($(($n, $i) => if $columns { $f::<T, $i, $n, true, $side_work> } else { $f::<T, $i, $n, false, $side_work> },)*)*
            _ => $none,
        }
    };
}

/// The kernel for `r` rows and `nv` vectors; `columns`: A is in the columns layout.
pub fn kernel<T: Float>(r: usize, nv: usize, columns: bool) -> Kernel<T> {
    let none = || -> Kernel<T> { unreachable!("no micro-kernel of {r} rows and {nv} vectors") };
    match level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => pick!(avx512, columns, NO_WORK, r, nv, none(), 1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14,
            2: 1 2 3 4 5 6 7 8 9 10 11 12 13 14, 3: 1 2 3 4 5 6, 4: 1 2 3 4 5 6),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => pick!(avx2, columns, NO_WORK, r, nv, none(), 1: 1 2 3 4 5 6, 2: 1 2 3 4 5 6, 3: 1 2, 4: 1 2),
        _ => pick!(base, columns, NO_WORK, r, nv, none(), 1: 1 2 3 4 5 6, 2: 1 2 3 4 5 6, 3: 1 2, 4: 1 2),
    }
}

/// The kernel that reads rows of B in place and writes a packed copy of them: for the first panel of rows of a product,
/// so that B is packed while that panel is computed.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub fn copying<T: Float>(r: usize, nv: usize, columns: bool) -> Option<Kernel<T>> {
    match level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => Some(pick!(avx512, columns, COPY, r, nv, return None, 2: 7 8 9 10 11 12 13 14)),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => Some(pick!(avx2, columns, COPY, r, nv, return None, 2: 4 5 6)),
        _ => None,
    }
}

/// The kernel that also packs some rows of a later tile of B, one every few steps, and prefetches as many of another
/// tile. None for vectors of 64 bytes (not measured).
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub fn carrying<T: Float>(r: usize, nv: usize, columns: bool) -> Option<Kernel<T>> {
    match level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => Some(pick!(avx2, columns, CARRY, r, nv, return None, 2: 4 5 6)),
        _ => None,
    }
}

/// The kernel that also prefetches other memory, for the tile heights that `copying` has.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub fn prefetching<T: Float>(r: usize, nv: usize, columns: bool) -> Option<Kernel<T>> {
    match level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => Some(pick!(avx512, columns, PREFETCH, r, nv, return None, 2: 7 8 9 10 11 12 13 14)),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => Some(pick!(avx2, columns, PREFETCH, r, nv, return None, 2: 4 5 6)),
        _ => None,
    }
}

/// Divides `n` rows into panels of `height` rows or one less: a last panel of one or two rows would be bound by the
/// latency of its sums.
pub fn even_panels(n: usize, height: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = n.div_ceil(height);
    let (least, more) = (n / count.max(1), n % count.max(1));
    (0..count).map(move |s| (s * least + s.min(more), least + usize::from(s < more)))
}

/// The shape of a tile: lanes of a vector, vectors and rows.
#[derive(Clone, Copy)]
pub struct Shape {
    pub lanes: usize,
    pub nv: usize,
    pub rows: usize,
}

impl Shape {
    pub fn for_product<T: Float>(m: usize, n: usize) -> Shape {
        let (lanes, few, most) = match level() {
            Level::Avx512 => (T::Avx512::L, 6, 14),
            Level::Avx2 => (T::Avx2::L, 2, 6),
            Level::Baseline => (T::Base::L, 2, 6),
        };
        let (nv, most) = if m <= few { (4, few) } else { (2, most) };
        let nv = nv.min(n.div_ceil(lanes)).max(1);
        // Panels of nearly equal height: 32 rows are 11 + 11 + 10, not 14 + 14 + 4.
        let rows = m.div_ceil(m.div_ceil(most).max(1)).max(1);
        Shape { lanes, nv, rows }
    }
    pub fn width(self) -> usize {
        self.lanes * self.nv
    }
    /// First row and height of each panel of `rows`.
    pub fn panels(self, rows: std::ops::Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        even_panels(rows.len(), self.rows).map(move |(i, n)| (rows.start + i, n))
    }
}
