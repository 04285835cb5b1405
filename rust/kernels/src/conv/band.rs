//! Padded copies of bands of rows, for kernels that read each tap of a filter or window in place. For a volume, a copy
//! holds the slices that the taps of one slice of the grid reach; slices are counted over all images.

use crate::conv::patches::{take_even, Patches};
use crate::gemm::operands::copy_short;
use crate::simd::{level, Level};
use crate::types::{Float, Vector};

/// Bytes of the padded copy of a band.
pub const BAND_BYTES: usize = 512 << 10;

pub fn lanes<T: Float>() -> usize {
    match level() {
        Level::Avx512 => T::Avx512::L,
        Level::Avx2 => T::Avx2::L,
        Level::Baseline => T::Base::L,
    }
}

/// The padded copy (`fill` outside of the source): rows of the source under the taps of a band. Each row is split into
/// `step[2]` rows of every `step[2]`th column, so that consecutive pixels read consecutive elements for every stride.
pub struct Band {
    front: isize,
    top: isize,
    left: isize,
    pub pitch: usize,
    /// Slices and rows of the source that one row of the grid spans.
    thick: usize,
    span: usize,
}

impl Band {
    pub fn new<T>(x: &Patches<T>) -> Band {
        let range = |axis: usize| {
            let all = x.taps.iter().map(|t| t[axis]);
            (all.clone().min().unwrap_or(0), all.max().unwrap_or(0))
        };
        let ((front, back), (top, bottom), (left, right)) = (range(0), range(1), range(2));
        let width = (x.grid[2] - 1) * x.step[2] + (right - left) as usize + 1;
        let (thick, span) = ((back - front) as usize + 1, (bottom - top) as usize + 1);
        Band { front, top, left, pitch: width.div_ceil(x.step[2]), thick, span }
    }
    /// Rows of the copy for `rows` rows of the grid.
    pub fn height<T>(&self, x: &Patches<T>, rows: usize) -> usize {
        (rows - 1) * x.step[1] + self.span
    }
    /// Distance between the rows of the copy for consecutive rows of the grid.
    pub fn row<T>(&self, x: &Patches<T>) -> usize {
        x.step[1] * x.step[2] * self.pitch
    }
    pub fn elements<T>(&self, x: &Patches<T>, rows: usize) -> usize {
        x.channels * self.thick * self.height(x, rows) * x.step[2] * self.pitch
    }
    /// Offset of each column of the patch matrix in the copy.
    pub fn offsets<T>(&self, x: &Patches<T>, rows: usize) -> Vec<usize> {
        let height = self.height(x, rows);
        let mut out = Vec::with_capacity(x.channels * x.taps.len());
        for c in 0..x.channels {
            for t in &x.taps {
                let [d, y, z] = [t[0] - self.front, t[1] - self.top, t[2] - self.left].map(|o| o as usize);
                let row = (c * self.thick + d) * height + y;
                out.push((row * x.step[2] + z % x.step[2]) * self.pitch + z / x.step[2]);
            }
        }
        out
    }
    /// Copies the elements under `rows` rows of the grid, in the layout of a band of `of` rows.
    ///
    /// # Safety
    /// `dst` holds `size` elements, slice `n` (over all images) exists, the rows lie within the grid.
    pub unsafe fn copy<T: Float>(
        &self,
        x: &Patches<T>,
        n: usize,
        first: usize,
        (rows, of): (usize, usize),
        dst: *mut T,
        fill: T,
    ) {
        // SAFETY: the caller's.
        unsafe { copy_rows(self, x, n, (first, rows, of), dst, fill) }
    }
}

#[inline(always)]
unsafe fn copy_rows_body<V: Vector>(
    band: &Band,
    x: &Patches<V::T>,
    n: usize,
    (first, rows, of): (usize, usize, usize),
    dst: *mut V::T,
    fill: V::T,
) {
    let (height, step, pitch) = (band.height(x, of), x.step[2], band.pitch);
    let (h, s) = (x.size[1] as isize, step as isize);
    let (n, slice) = (n / x.grid[0], (n % x.grid[0] * x.step[0]) as isize + band.front);
    for b in 0..step {
        // Columns of the copy that lie within the source.
        let start = band.left + b as isize;
        let clip = |v: isize| v.clamp(0, pitch as isize) as usize;
        let lo = clip((s - 1 - start).div_euclid(s));
        let (lo, hi) = (lo, clip((x.size[2] as isize - start + s - 1).div_euclid(s)).max(lo));
        for plane in 0..x.channels * band.thick {
            let (c, slice) = (plane / band.thick, slice + (plane % band.thick) as isize);
            let inside = slice >= 0 && slice < x.size[0] as isize;
            let from = x.p.wrapping_add(n * x.image + c * x.plane).wrapping_offset(slice * x.slice as isize);
            for y in 0..band.height(x, rows) {
                let row = (first * x.step[1] + y) as isize + band.top;
                let src = from.wrapping_offset(row * x.row as isize);
                let (lo, hi) = if !inside || row < 0 || row >= h { (pitch, pitch) } else { (lo, hi) };
                // SAFETY: columns lo..hi lie within the source's row; the copy is as large as `size` says.
                unsafe {
                    let out = dst.add(((plane * height + y) * step + b) * pitch);
                    let from = src.wrapping_offset(start + lo as isize * s);
                    for e in 0..lo {
                        *out.add(e) = fill;
                    }
                    let to = out.add(lo);
                    match step {
                        1 => copy_short(from, to, hi - lo),
                        2 => take_even::<V>(from, to, hi - lo),
                        _ => (0..hi - lo).for_each(|e| *to.add(e) = *from.add(e * step)),
                    }
                    for e in hi..pitch {
                        *out.add(e) = fill;
                    }
                }
            }
        }
    }
}

crate::by_level! {
    unsafe fn copy_rows<T>(band: &Band, x: &Patches<T>, n: usize, rows: (usize, usize, usize), dst: *mut T,
        fill: T) = copy_rows_body
}

/// Calls `f` for every index on the pool; a chunk has several indices where one is little work (`each` multiply-adds).
pub fn share(count: usize, each: usize, f: impl Fn(usize) + Sync) {
    let grain = ((1 << 18) / each.max(1)).max(1);
    if count <= grain {
        (0..count).for_each(f);
    } else {
        crate::pool::ranges(count, grain, |r| r.for_each(&f));
    }
}
