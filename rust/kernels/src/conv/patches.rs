//! The patches of an image as an operand of a product (implicit im2col): panels are filled directly from the image,
//! without a matrix of all patches.

use crate::gemm::kernel::A_STRIDE;
use crate::gemm::operands::{copy_short, LeftSide, RightSide, Run, Target, MAX_WIDTH};
use crate::gemm::pack::{clear, transpose};
use crate::simd::vector::prefetch;
use crate::types::{Float, Number, Vector};

/// The element of a source that each (pixel of a grid, channel, tap) reads: slice, row and column `index * step + tap`,
/// zero outside the source. An image is a volume of slices (one slice if it has two axes). Pixels are counted over all
/// images. Columns of the patch matrix are (channel, tap) for planes, (tap, channel) if the channels of a pixel are
/// contiguous.
#[derive(Clone)]
pub struct Patches<T> {
    pub p: *const T,
    /// Distances of images, channels, slices, rows and columns.
    pub image: usize,
    pub plane: usize,
    pub slice: usize,
    pub row: usize,
    pub col: usize,
    pub size: [usize; 3],
    pub channels: usize,
    pub taps: Vec<[isize; 3]>,
    pub images: usize,
    pub grid: [usize; 3],
    pub step: [usize; 3],
}

// SAFETY: only read, until the call that created it returns.
unsafe impl<T: Sync> Sync for Patches<T> {}

/// `len` pixels of row `i` of slice `z` of image `n`, from column `j`; the first is number `at` of the requested
/// pixels.
#[derive(Clone, Copy)]
struct Segment {
    at: usize,
    n: usize,
    z: usize,
    i: usize,
    j: usize,
    len: usize,
}

impl<T: Float> Patches<T> {
    pub fn pixels(&self) -> usize {
        self.images * self.grid.iter().product::<usize>()
    }
    /// Slices of the grid over all images.
    pub fn slices(&self) -> usize {
        self.images * self.grid[0]
    }
    pub fn depth(&self) -> usize {
        self.channels * self.taps.len()
    }
    /// The same patches of another group of channels or of other images, `elements` further on.
    pub fn moved(&self, elements: usize) -> Self {
        Patches { p: self.p.wrapping_add(elements), ..self.clone() }
    }

    /// If a grid covers its source and taps differ along the first axes only, contiguous rows are merged into one long
    /// row.
    pub fn flattened(mut self) -> Self {
        for outer in [1, 0] {
            let last = self.size[2];
            let covers = |a: usize| self.step[a] == 1 && self.grid[a] == self.size[a];
            let apart = self.taps.iter().any(|t| t[outer..].iter().any(|&o| o != 0));
            let distance = if outer == 1 { self.row } else { self.slice };
            if apart || !covers(outer) || !covers(2) || distance != self.col * last || (outer == 0 && self.grid[1] != 1)
            {
                break;
            }
            let row = self.size[outer] * last;
            (self.size[outer], self.grid[outer]) = (1, 1);
            (self.size[2], self.grid[2]) = (row, row);
        }
        self
    }

    #[inline(always)]
    fn segments(&self, pixel: usize, count: usize, mut f: impl FnMut(Segment)) {
        let [gd, gh, gw] = self.grid;
        let per = gd * gh * gw;
        let (mut n, rest) = (pixel / per, pixel % per);
        let (mut z, mut i, mut j) = (rest / (gh * gw), rest / gw % gh, rest % gw);
        let mut at = 0;
        while at < count {
            let len = (gw - j).min(count - at);
            f(Segment { at, n, z, i, j, len });
            at += len;
            (i, j) = (i + 1, 0);
            if i == gh {
                (z, i) = (z + 1, 0);
                if z == gd {
                    (n, z) = (n + 1, 0);
                }
            }
        }
    }

    /// Offset in the image of the element that a pixel reads under a tap; `None` outside the source.
    #[inline(always)]
    pub fn inside(&self, pixel: [usize; 3], tap: [isize; 3]) -> Option<usize> {
        let mut at = 0;
        for (a, distance) in [self.slice, self.row, self.col].into_iter().enumerate() {
            let index = (pixel[a] * self.step[a]) as isize + tap[a];
            if index < 0 || index as usize >= self.size[a] {
                return None;
            }
            at += index as usize * distance;
        }
        Some(at)
    }

    /// The source's element of a segment's first pixel under a tap, and the range of its pixels that lie within the
    /// source.
    #[inline(always)]
    fn window(&self, s: &Segment, tap: [isize; 3]) -> (*const T, usize, usize) {
        let z = (s.z * self.step[0]) as isize + tap[0];
        let y = (s.i * self.step[1]) as isize + tap[1];
        let x = (s.j * self.step[2]) as isize + tap[2];
        let src = self
            .p
            .wrapping_add(s.n * self.image)
            .wrapping_offset(z * self.slice as isize)
            .wrapping_offset(y * self.row as isize)
            .wrapping_offset(x * self.col as isize);
        if z < 0 || z >= self.size[0] as isize || y < 0 || y >= self.size[1] as isize {
            return (src, 0, 0);
        }
        let w = self.size[2] as isize;
        let len = s.len as isize;
        if self.step[2] == 1 {
            let hi = (w - x).clamp(0, len);
            return (src, (-x).clamp(0, hi) as usize, hi as usize);
        }
        let step = self.step[2] as isize;
        let lo = if x < 0 { (-x + step - 1) / step } else { 0 };
        let hi = (w - x + step - 1).div_euclid(step).clamp(0, len);
        (src, lo.min(hi) as usize, hi as usize)
    }
}

/// Segments that are filled together, so that values that depend only on the tap are computed once.
const BATCH: usize = 16;

#[inline(always)]
unsafe fn fill_body<V: Vector>(
    x: &Patches<V::T>,
    k: (usize, usize),
    (pixel, count): (usize, usize),
    dst: *mut V::T,
    ds: usize,
) {
    let mut batch = [Segment { at: 0, n: 0, z: 0, i: 0, j: 0, len: 0 }; BATCH];
    let mut full = 0;
    x.segments(pixel, count, |s| {
        batch[full] = s;
        full += 1;
        if full == BATCH {
            // SAFETY: the caller's.
            unsafe { fill_segments::<V>(x, k, &batch, dst, ds) };
            full = 0;
        }
    });
    // SAFETY: the caller's.
    unsafe { fill_segments::<V>(x, k, &batch[..full], dst, ds) };
}

#[inline(always)]
unsafe fn fill_segments<V: Vector>(
    x: &Patches<V::T>,
    (k, kn): (usize, usize),
    segments: &[Segment],
    dst: *mut V::T,
    ds: usize,
) {
    let (taps, step) = (x.taps.len(), x.step[2]);
    for (t, &tap) in x.taps.iter().enumerate() {
        // Channels c with k <= c * taps + t < k + kn.
        let first = (k + taps - 1 - t) / taps;
        let last = (k + kn + taps - 1 - t) / taps;
        if first == last {
            continue;
        }
        for s in segments {
            let (src, lo, hi) = x.window(s, tap);
            let len = s.len;
            // SAFETY: lanes lo..hi lie within the source; the destination holds count pixels per row.
            unsafe {
                let src = src.wrapping_add(first * x.plane);
                let out = dst.add((first * taps + t - k) * ds + s.at);
                let (rows, next) = (last - first, taps * ds);
                if step == 1 {
                    let mut e = 0;
                    while e < len {
                        let clip = |b: usize| b.saturating_sub(e).min(V::L);
                        let (a, b, left) = (clip(lo), clip(hi), clip(len));
                        let (mut from, mut to) = (src.wrapping_add(e), out.add(e));
                        if b - a.min(b) == V::L {
                            for _ in 0..rows {
                                // The planes are more streams than the hardware prefetcher follows.
                                if taps == 1 {
                                    prefetch(from.wrapping_add(2 * V::L));
                                }
                                V::load(from).store(to);
                                from = from.wrapping_add(x.plane);
                                to = to.wrapping_add(next);
                            }
                        } else {
                            for _ in 0..rows {
                                V::load_between(from, a.min(b), b).store_n(to, left);
                                from = from.wrapping_add(x.plane);
                                to = to.wrapping_add(next);
                            }
                        }
                        e += V::L;
                    }
                } else {
                    let (lo, hi) = (lo.min(len), hi.max(lo.min(len)));
                    for c in 0..rows {
                        let (from, to) = (src.wrapping_add(c * x.plane + lo * step), out.add(c * next));
                        for e in 0..lo {
                            *to.add(e) = V::T::ZERO;
                        }
                        let (to, inside) = (to.add(lo), hi - lo);
                        if step == 2 {
                            take_even::<V>(from, to, inside);
                        } else {
                            for e in 0..inside {
                                *to.add(e) = *from.wrapping_add(e * step);
                            }
                        }
                        for e in inside..len - lo {
                            *to.add(e) = V::T::ZERO;
                        }
                    }
                }
            }
        }
    }
}

crate::by_level! {
    /// Row `q` of the destination, `ds` apart: column `k + q` of the patch matrix for `count` pixels from `pixel`.
    unsafe fn fill<T>(x: &Patches<T>, k: (usize, usize), pixels: (usize, usize), dst: *mut T, ds: usize) = fill_body
}

/// Pixel `r`, `ds` apart: columns `k..k + kn` of its (tap, channel) patch.
unsafe fn fill_channels_last<T: Float>(
    x: &Patches<T>,
    (k, kn): (usize, usize),
    (pixel, count): (usize, usize),
    dst: *mut T,
    ds: usize,
) {
    let ch = x.channels;
    x.segments(pixel, count, |s| {
        for t in k / ch..(k + kn).div_ceil(ch) {
            let (c0, c1) = (k.saturating_sub(t * ch), (k + kn - t * ch).min(ch));
            let (src, lo, hi) = x.window(&s, x.taps[t]);
            let src = src.wrapping_add(c0);
            for e in 0..s.len {
                // SAFETY: pixels lo..hi lie within the source; the destination holds kn elements per pixel.
                unsafe {
                    let out = dst.add((s.at + e) * ds + t * ch + c0 - k);
                    if e >= lo && e < hi {
                        copy_short(src.wrapping_add(e * x.step[2] * x.col), out, c1 - c0);
                    } else {
                        for c in 0..c1 - c0 {
                            *out.add(c) = T::ZERO;
                        }
                    }
                }
            }
        }
    });
}

/// Patches as B: pixels are columns.
impl<T: Float> RightSide<T> for Patches<T> {
    unsafe fn pack(&self, p: usize, kc: usize, j: usize, nc: usize, width: usize, buf: *mut T) {
        for s in (0..nc).step_by(width) {
            let cols = width.min(nc - s);
            // SAFETY: the caller's range and buffer.
            unsafe {
                let panel = buf.add(s * kc);
                fill(self, (p, kc), (j + s, cols), panel, width);
                if cols < width {
                    clear(panel, kc, cols, width);
                }
            }
        }
    }
    fn gathered(&self) -> bool {
        self.taps.len() > 1
    }
}

/// Patches as A, transposed: columns of the patch matrix are rows, pixels are summed over.
impl<T: Float> LeftSide<T> for Patches<T> {
    unsafe fn panel(&self, i: usize, rows: usize, p: usize, kc: usize, buf: *mut T) -> Option<(*const T, usize)> {
        // SAFETY: the caller's range and buffer.
        unsafe {
            if self.col == 1 {
                fill(self, (i, rows), (p, kc), buf, A_STRIDE);
                None
            } else {
                fill_channels_last(self, (i, rows), (p, kc), buf, rows);
                Some((buf, rows))
            }
        }
    }
    fn gathered(&self) -> bool {
        self.taps.len() > 1
    }
}

/// Patches as A with one row per pixel, channels last.
pub struct PixelRows<'a, T>(pub &'a Patches<T>);

impl<T: Float> LeftSide<T> for PixelRows<'_, T> {
    unsafe fn panel(&self, i: usize, rows: usize, p: usize, kc: usize, buf: *mut T) -> Option<(*const T, usize)> {
        // SAFETY: the caller's range and buffer.
        unsafe { fill_channels_last(self.0, (p, kc), (i, rows), buf, A_STRIDE) };
        None
    }
    fn gathered(&self) -> bool {
        self.0.taps.len() > 1
    }
}

/// Filters [o, c, tap] as A of an input gradient: row c, column (o, chosen tap).
pub struct TransposedFilters<'a, T> {
    pub w: *const T,
    pub channels: usize,
    pub taps: usize,
    pub which: &'a [usize],
    /// Whether `which` is 0, 1, 2, ...
    pub in_order: bool,
}

// SAFETY: only read, until the call that created it returns.
unsafe impl<T: Sync> Sync for TransposedFilters<'_, T> {}

impl<T: Float> LeftSide<T> for TransposedFilters<'_, T> {
    unsafe fn panel(&self, i: usize, rows: usize, p: usize, kc: usize, buf: *mut T) -> Option<(*const T, usize)> {
        let mut at = 0;
        while at < kc {
            let (o, t) = ((p + at) / self.which.len(), (p + at) % self.which.len());
            let chosen = &self.which[t..self.which.len().min(t + kc - at)];
            for r in 0..rows {
                // SAFETY: filter o has channel i + r; the buffer holds kc elements of row r.
                unsafe {
                    let from = self.w.add((o * self.channels + i + r) * self.taps);
                    let to = buf.add(r * A_STRIDE + at);
                    if self.in_order {
                        copy_short(from.add(t), to, chosen.len());
                    } else {
                        for (e, &t) in chosen.iter().enumerate() {
                            *to.add(e) = *from.add(t);
                        }
                    }
                }
            }
            at += chosen.len();
        }
        None
    }
    fn needs_prefetch(&self) -> bool {
        true
    }
    fn prefetch(&self, rows: std::ops::Range<usize>, p: usize, kc: usize) {
        let chosen = self.which.len().max(1); // no tap reaches some phases if the stride exceeds the filter
        for o in p / chosen..(p + kc).div_ceil(chosen) {
            let from = self.w.wrapping_add((o * self.channels + rows.start) * self.taps);
            for e in (0..rows.len() * self.taps).step_by(64 / size_of::<T>()) {
                prefetch(from.wrapping_add(e));
            }
        }
    }
}

/// Images of planes as B, summed over pixels: channel `j` is a column.
pub struct PlaneColumns<T> {
    pub p: *const T,
    pub image: usize,
    /// Pixels of a plane, which are contiguous.
    pub plane: usize,
}

// SAFETY: only read, until the call that created it returns.
unsafe impl<T: Sync> Sync for PlaneColumns<T> {}

impl<T: Float> RightSide<T> for PlaneColumns<T> {
    unsafe fn pack(&self, p: usize, kc: usize, j: usize, nc: usize, width: usize, buf: *mut T) {
        for s in (0..nc).step_by(width) {
            let cols = width.min(nc - s);
            // SAFETY: the caller's range and buffer.
            unsafe {
                let panel = buf.add(s * kc);
                let mut at = 0;
                while at < kc {
                    let (n, q) = ((p + at) / self.plane, (p + at) % self.plane);
                    let len = (self.plane - q).min(kc - at);
                    let src = self.p.add(n * self.image + (j + s) * self.plane + q);
                    transpose(src, self.plane, cols, len, width, panel.add(at * width));
                    at += len;
                }
                if cols < width {
                    clear(panel, kc, cols, width);
                }
            }
        }
    }
}

/// Channels as rows of C, the pixels of a grid as its columns.
pub struct PlaneTarget<T> {
    pub p: *mut T,
    pub image: usize,
    pub plane: usize,
    pub grid: [usize; 3],
    /// Distances of the grid's slices, rows and columns.
    pub slice: usize,
    pub row: usize,
    pub col: usize,
}

// SAFETY: threads write disjoint pixels and channels.
unsafe impl<T: Send> Sync for PlaneTarget<T> {}

impl<T> PlaneTarget<T> {
    /// The grid with contiguous rows merged.
    #[inline(always)]
    fn joined(&self) -> [usize; 3] {
        let [gd, gh, gw] = self.grid;
        if self.row != self.col * gw {
            self.grid
        } else if self.slice != self.row * gh {
            [gd, 1, gh * gw]
        } else {
            [1, 1, gd * gh * gw]
        }
    }
}

impl<T: Float> Target<T> for PlaneTarget<T> {
    fn row_stride(&self) -> usize {
        self.plane
    }
    fn contiguous(&self, j: usize, cols: usize) -> bool {
        let run = self.joined()[2];
        self.col == 1 && j % run + cols <= run
    }
    fn runs(&self, j: usize, cols: usize, out: &mut [Run<T>; MAX_WIDTH]) -> usize {
        let [gd, gh, gw] = self.joined();
        let (mut n, rest) = (j / (gd * gh * gw), j % (gd * gh * gw));
        let (mut z, mut i, mut x) = (rest / (gh * gw), rest / gw % gh, rest % gw);
        let (mut at, mut count) = (0, 0);
        while at < cols {
            let len = (gw - x).min(cols - at);
            let p = self.p.wrapping_add(n * self.image + z * self.slice + i * self.row + x * self.col);
            out[count] = Run { p, len, step: self.col };
            count += 1;
            at += len;
            (i, x) = (i + 1, 0);
            if i == gh {
                (z, i) = (z + 1, 0);
                if z == gd {
                    (n, z) = (n + 1, 0);
                }
            }
        }
        count
    }
}

/// `to[e] = from[2 * e]` for `n` elements; nothing after the last is read.
#[inline(always)]
pub unsafe fn take_even<V: Vector>(from: *const V::T, to: *mut V::T, n: usize) {
    let mut e = 0;
    // SAFETY: the caller's rows.
    unsafe {
        while e + V::L <= n {
            V::load_even(from.add(2 * e)).store(to.add(e));
            e += V::L;
        }
        while e < n {
            *to.add(e) = *from.add(2 * e);
            e += 1;
        }
    }
}
