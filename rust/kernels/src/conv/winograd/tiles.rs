//! The transforms of Winograd's F(4 x 4, 3 x 3): tiles of images, filters and sums of products, a vector of channels at
//! a time. The points are 0, +-sqrt(1/2), +-sqrt(2) and infinity: their powers stay near 1, which halves the rounding
//! errors of the usual 0, +-1, +-2.
#![allow(clippy::needless_range_loop)] // rows and columns of small matrices are counted, not iterated

use crate::gemm::pack::transpose;
use crate::simd::vector::prefetch_near;
use crate::types::{Number, Vector};
use std::f64::consts::{FRAC_1_SQRT_2 as A, SQRT_2 as B};

/// Elements of a transformed tile.
pub const POINTS: usize = 36;
/// Side of a tile of outputs.
pub const SIDE: usize = 4;

/// The images on one side of a convolution: `channels` channels of `size` rows and columns, and their strides.
#[derive(Clone, Copy)]
pub struct Image<T> {
    pub p: *mut T,
    pub image: usize,
    pub plane: usize,
    pub row: usize,
    pub col: usize,
    pub channels: usize,
    pub size: [usize; 2],
}

// SAFETY: threads write disjoint parts of it.
unsafe impl<T: Send> Sync for Image<T> {}

/// Transformed tiles: offsets of the 36 elements of tile 0 of each group of lanes, and the distance between tiles. For
/// filters, input channels take the place of tiles; for sums of products, output channels do.
pub struct Tiles<T> {
    pub p: *mut T,
    pub step: usize,
    pub at: Vec<[usize; POINTS]>,
}

// SAFETY: threads write disjoint parts of it.
unsafe impl<T: Send> Sync for Tiles<T> {}

/// Rows of tiles: `down` rows per image of `across` tiles each; tile 0 is the first of row `first`.
#[derive(Clone)]
pub struct Strips {
    pub rows: std::ops::Range<usize>,
    pub first: usize,
    pub down: usize,
    pub across: usize,
    /// The groups of lanes.
    pub groups: std::ops::Range<usize>,
    /// Start of the first tile's window in the source, or the channel of group 0 in the target.
    pub origin: [isize; 2],
    pub channel: usize,
}

impl Strips {
    /// Elements of the buffer that `read_tiles` and `write_tiles` need.
    pub fn buffer(&self, lanes: usize) -> usize {
        6 * (SIDE * self.across + 2) * lanes
    }
}

#[inline(always)]
unsafe fn c<V: Vector>(x: f64) -> V {
    // SAFETY: the caller has the vector's instruction set.
    unsafe { V::splat(V::T::from_f64(x)) }
}

/// Transforms a window of the input to six points.
#[inline(always)]
unsafe fn window<V: Vector>(d: [V; 6]) -> [V; 6] {
    // SAFETY: the caller has the vector's instruction set.
    unsafe {
        let (u, v) = (d[2].fma(c(-2.0), d[4]), d[1].fma(c(-2.0), d[3]));
        let (w, z) = (d[2].fma(c(-0.5), d[4]), d[1].fma(c(-0.5), d[3]));
        [
            d[2].fma(c(-2.5), d[0].add(d[4])),
            v.fma(c(A), u),
            v.fma(c(-A), u),
            z.fma(c(B), w),
            z.fma(c(-B), w),
            d[3].fma(c(-2.5), d[1].add(d[5])),
        ]
    }
}

/// Transforms six points to four outputs.
#[inline(always)]
unsafe fn outputs<V: Vector>(m: [V; 6]) -> [V; 4] {
    // SAFETY: as above.
    unsafe {
        let (s, d) = (m[1].add(m[2]), m[1].sub(m[2]));
        let (t, e) = (m[3].add(m[4]), m[3].sub(m[4]));
        [
            m[0].add(s).add(t),
            d.fma(c(A), e.mul(c(B))),
            s.fma(c(0.5), t.mul(c(2.0))),
            d.fma(c(A / 2.0), e.fma(c(2.0 * B), m[5])),
        ]
    }
}

/// Transforms four gradients of outputs to six points: the transpose of `outputs`.
#[inline(always)]
unsafe fn gradients<V: Vector>(y: [V; 4]) -> [V; 6] {
    // SAFETY: as above.
    unsafe {
        let (e, o) = (y[2].fma(c(0.5), y[0]), y[3].fma(c(0.5), y[1]));
        let (f, p) = (y[2].fma(c(2.0), y[0]), y[3].fma(c(2.0), y[1]));
        [y[0], o.fma(c(A), e), o.fma(c(-A), e), p.fma(c(B), f), p.fma(c(-B), f), y[3]]
    }
}

/// Transforms three taps to six points.
#[inline(always)]
unsafe fn taps<V: Vector>(g: [V; 3]) -> [V; 6] {
    // SAFETY: as above.
    unsafe {
        let (e, o) = (g[2].fma(c(0.5), g[0]).mul(c(-2.0 / 3.0)), g[1].mul(c(-2.0 / 3.0 * A)));
        let (f, p) = (g[2].fma(c(2.0), g[0]).mul(c(1.0 / 6.0)), g[1].mul(c(B / 6.0)));
        [g[0], e.add(o), e.sub(o), f.add(p), f.sub(p), g[2]]
    }
}

/// Transforms six points to the gradients of three taps: the transpose of `taps`.
#[inline(always)]
unsafe fn tap_gradients<V: Vector>(m: [V; 6]) -> [V; 3] {
    // SAFETY: as above.
    unsafe {
        let (s, d) = (m[1].add(m[2]), m[1].sub(m[2]));
        let (t, e) = (m[3].add(m[4]), m[3].sub(m[4]));
        [
            s.fma(c(-2.0 / 3.0), t.fma(c(1.0 / 6.0), m[0])),
            d.mul(c(-2.0 / 3.0 * A)).add(e.mul(c(B / 6.0))),
            t.sub(s).fma(c(1.0 / 3.0), m[5]),
        ]
    }
}

/// Copies `lanes` channels of `len` pixels of a row, with the channels of a pixel contiguous.
#[inline(always)]
unsafe fn gather<V: Vector>(x: &Image<V::T>, from: *const V::T, lanes: usize, len: usize, to: *mut V::T) {
    // SAFETY: the caller's row and buffer.
    unsafe {
        if x.col == 1 {
            return transpose(from, x.plane, lanes, len, V::L, to);
        }
        for j in 0..len {
            V::load_n(from.add(j * x.col), lanes).store(to.add(j * V::L));
        }
    }
}

crate::by_level! {
    /// Transforms tiles of an input (windows of 6 x 6) or, if GRADIENT, of an output's gradient (4 x 4). Pixels outside
    /// the image and missing channels count as zeros.
    pub unsafe fn read_tiles<T, const GRADIENT: bool>(x: &Image<T>, s: &Strips, to: &Tiles<T>, buf: *mut T) = read_body
}

#[inline(always)]
unsafe fn read_body<V: Vector, const GRADIENT: bool>(x: &Image<V::T>, s: &Strips, to: &Tiles<V::T>, buf: *mut V::T) {
    let (l, rows) = (V::L, if GRADIENT { 4 } else { 6 });
    let wide = SIDE * s.across + rows - SIDE;
    let ([h, w], [top, left]) = (x.size.map(|v| v as isize), s.origin);
    let lo = (-left).clamp(0, wide as isize) as usize;
    let hi = (w - left).clamp(lo as isize, wide as isize) as usize;
    for g in s.groups.clone() {
        let lanes = x.channels.saturating_sub(g * l).min(l);
        // SAFETY: the buffer has six such rows; columns lo..hi of rows inside lie within the image.
        unsafe {
            for e in 0..rows * wide {
                V::zero().store(buf.add(e * l));
            }
            for strip in s.rows.clone() {
                let (n, down) = (strip / s.down, strip % s.down);
                for i in 0..rows {
                    let row = (SIDE * down + i) as isize + top;
                    let out = buf.add((i * wide + lo) * l);
                    if row < 0 || row >= h || lanes == 0 {
                        for e in 0..hi - lo {
                            V::zero().store(out.add(e * l));
                        }
                        continue;
                    }
                    let from = x.p.add(n * x.image + g * l * x.plane + row as usize * x.row);
                    let from = from.wrapping_offset((lo as isize + left) * x.col as isize);
                    gather::<V>(x, from, lanes, hi - lo, out);
                }
                let out = to.p.add((strip - s.first) * s.across * to.step);
                for t in 0..s.across {
                    let at = buf.add(SIDE * t * l);
                    let load = |i: usize, j: usize| V::load(at.add((i * wide + j) * l));
                    let mut m = [[V::zero(); 6]; 6];
                    for j in 0..rows {
                        let col = if GRADIENT {
                            gradients(std::array::from_fn(|i| load(i, j)))
                        } else {
                            window(std::array::from_fn(|i| load(i, j)))
                        };
                        for i in 0..6 {
                            m[i][j] = col[i];
                        }
                    }
                    for i in 0..6 {
                        let [a, b, c, d, e, f] = m[i];
                        let row = if GRADIENT { gradients([a, b, c, d]) } else { window([a, b, c, d, e, f]) };
                        for j in 0..6 {
                            row[j].store(out.add(to.at[g][6 * i + j] + t * to.step));
                        }
                    }
                }
            }
        }
    }
}

/// Filters of 3 x 3: strides of output and input channels; `flipped` filters are read from the last tap backwards.
#[derive(Clone, Copy)]
pub struct Filters<T> {
    pub p: *const T,
    pub outs: usize,
    pub ins: usize,
    pub flipped: bool,
    /// Numbers of output and input channels.
    pub count: [usize; 2],
}

// SAFETY: only read, until the call that created it returns.
unsafe impl<T: Sync> Sync for Filters<T> {}

/// Input channels whose filters are transposed to lanes together.
const TOGETHER: usize = 16;

/// Elements of the buffer that `filter_tiles` needs.
pub fn filter_buffer(lanes: usize) -> usize {
    TOGETHER * 9 * lanes
}

crate::by_level! {
    /// Transforms filters, lanes along the output channels from `channel`; missing channels are zeros.
    pub unsafe fn filter_tiles<T>(w: &Filters<T>, channel: usize, groups: std::ops::Range<usize>, to: &Tiles<T>,
        buf: *mut T) = filter_body
}

#[inline(always)]
unsafe fn filter_body<V: Vector>(
    w: &Filters<V::T>,
    channel: usize,
    groups: std::ops::Range<usize>,
    to: &Tiles<V::T>,
    buf: *mut V::T,
) {
    let l = V::L;
    let [outs, ins] = w.count;
    for g in groups {
        let first = channel + g * l;
        let lanes = outs.saturating_sub(first).min(l);
        // SAFETY: filters within the counts; the buffer has TOGETHER filters a lane.
        unsafe {
            if lanes < l {
                for e in 0..TOGETHER * 9 {
                    V::zero().store(buf.add(e * l));
                }
            }
            for c0 in (0..ins).step_by(TOGETHER) {
                let some = TOGETHER.min(ins - c0);
                if lanes > 0 {
                    let from = w.p.add(first * w.outs + c0 * w.ins);
                    // The next rows are short and far apart: the hardware prefetcher does not predict them.
                    let (rows, apart) = if w.ins == 9 { (lanes, w.outs) } else { (TOGETHER, w.ins) };
                    for r in 0..if c0 + some < ins { rows } else { 0 } {
                        let row = from.wrapping_add(TOGETHER * w.ins + r * apart);
                        (0..9 * l).step_by(64 / size_of::<V::T>()).for_each(|e| prefetch_near(row.wrapping_add(e)));
                    }
                    if w.ins == 9 {
                        transpose(from, w.outs, lanes, some * 9, l, buf);
                    } else {
                        for e in 0..some {
                            transpose(from.add(e * w.ins), w.outs, lanes, 9, l, buf.add(e * 9 * l));
                        }
                    }
                }
                for e in 0..some {
                    let tap = |i: usize, j: usize| {
                        let t = 3 * i + j;
                        V::load(buf.add((9 * e + if w.flipped { 8 - t } else { t }) * l))
                    };
                    let mut m = [[V::zero(); 3]; 6];
                    for j in 0..3 {
                        let col = taps([tap(0, j), tap(1, j), tap(2, j)]);
                        for i in 0..6 {
                            m[i][j] = col[i];
                        }
                    }
                    let out = to.p.add((c0 + e) * to.step);
                    for i in 0..6 {
                        let row = taps(m[i]);
                        for j in 0..6 {
                            row[j].store(out.add(to.at[g][6 * i + j]));
                        }
                    }
                }
            }
        }
    }
}

crate::by_level! {
    /// Transforms sums of products to outputs, with one bias per channel (or null); returns whether all outputs are
    /// finite.
    pub unsafe fn write_tiles<T>(from: &Tiles<T>, s: &Strips, y: &Image<T>, bias: *const T, relu: bool, buf: *mut T)
        -> bool = write_body
}

#[inline(always)]
unsafe fn write_body<V: Vector>(
    from: &Tiles<V::T>,
    s: &Strips,
    y: &Image<V::T>,
    bias: *const V::T,
    relu: bool,
    buf: *mut V::T,
) -> bool {
    let (l, wide) = (V::L, SIDE * s.across);
    let [h, w] = y.size;
    // SAFETY: the tiles and the image are the caller's; the buffer has four such rows.
    unsafe {
        let mut all = V::zero();
        for g in s.groups.clone() {
            let first = s.channel + g * l;
            let lanes = y.channels.saturating_sub(first).min(l);
            if lanes == 0 {
                continue;
            }
            let add = if bias.is_null() { V::zero() } else { V::load_n(bias.add(first), lanes) };
            for strip in s.rows.clone() {
                let tile = from.p.add((strip - s.first) * s.across * from.step);
                for t in 0..s.across {
                    let load = |f: usize| V::load(tile.add(from.at[g][f] + t * from.step));
                    let mut m = [[V::zero(); 6]; 4];
                    for j in 0..6 {
                        let col = outputs(std::array::from_fn(|i| load(6 * i + j)));
                        for i in 0..4 {
                            m[i][j] = col[i];
                        }
                    }
                    for i in 0..4 {
                        let row = outputs(m[i]);
                        for j in 0..4 {
                            let v = row[j].add(add);
                            // Zero as long as all outputs are finite, then NaN.
                            all = v.fma(V::zero(), all);
                            let v = if relu { v.max(V::zero()) } else { v };
                            v.store(buf.add((i * wide + SIDE * t + j) * l));
                        }
                    }
                }
                let (n, down) = (strip / s.down, strip % s.down);
                for i in 0..SIDE.min(h - SIDE * down) {
                    let to = y.p.add(n * y.image + first * y.plane + (SIDE * down + i) * y.row);
                    let row = buf.add(i * wide * l);
                    if y.col == 1 {
                        transpose(row, l, w, lanes, y.plane, to);
                    } else {
                        for j in 0..w {
                            V::load(row.add(j * l)).store_n(to.add(j * y.col), lanes);
                        }
                    }
                }
            }
        }
        all.sum() == V::T::ZERO
    }
}

/// Elements of the buffer that `filter_sums` needs.
pub fn sums_buffer(lanes: usize) -> usize {
    18 * lanes
}

crate::by_level! {
    /// Sums of products of output channels `rows` (`channel` is that of row 0, `ins` input channels) to the gradient of
    /// their filters, added if `more`, else overwritten; returns whether all are finite.
    pub unsafe fn filter_sums<T>(from: &Tiles<T>, rows: std::ops::Range<usize>, channel: usize, ins: usize, dw: *mut T,
        more: bool, buf: *mut T) -> bool = sums_body
}

#[inline(always)]
unsafe fn sums_body<V: Vector>(
    from: &Tiles<V::T>,
    rows: std::ops::Range<usize>,
    channel: usize,
    ins: usize,
    dw: *mut V::T,
    more: bool,
    buf: *mut V::T,
) -> bool {
    let l = V::L;
    // SAFETY: the tiles and filters are the caller's; the buffer has 9 vectors twice.
    unsafe {
        let mut all = V::zero();
        for o in rows {
            for g in 0..ins.div_ceil(l) {
                let lanes = (ins - g * l).min(l);
                let load = |f: usize| V::load(from.p.add(from.at[g][f] + o * from.step));
                let mut m = [[V::zero(); 6]; 3];
                for j in 0..6 {
                    let col = tap_gradients(std::array::from_fn(|i| load(6 * i + j)));
                    for i in 0..3 {
                        m[i][j] = col[i];
                    }
                }
                for i in 0..3 {
                    let row = tap_gradients(m[i]);
                    for j in 0..3 {
                        all = row[j].fma(V::zero(), all);
                        row[j].store(buf.add((3 * i + j) * l));
                    }
                }
                let (flipped, to) = (buf.add(9 * l), dw.add(((channel + o) * ins + g * l) * 9));
                transpose(buf, l, 9, lanes, 9, flipped);
                for e in 0..9 * lanes {
                    *to.add(e) = if more { *to.add(e) + *flipped.add(e) } else { *flipped.add(e) };
                }
            }
        }
        all.sum() == V::T::ZERO
    }
}
