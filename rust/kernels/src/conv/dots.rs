//! The gradient of filters with few channels: sums of products over vectors of pixels, without panels.
#![allow(clippy::needless_range_loop)] // registers are counted, not iterated

use crate::conv::band::{lanes, Band, BAND_BYTES};
use crate::conv::patches::Patches;
use crate::gemm::operands::with_scratch;
use crate::pool::SharedPtr;
use crate::types::{Float, Vector};

/// Channels of `dy` and taps of one tile of `dot_tile`.
const DOT_ROWS: usize = 4;
const DOT_TAPS: usize = 6;

/// Whether `filter_grad` is faster than panels: it is where rows fill vectors and channels are few.
pub fn suits<T: Float>(rows: usize, x: &Patches<T>) -> bool {
    let used = x.grid[2] as f64 / x.grid[2].next_multiple_of(lanes::<T>()) as f64;
    x.taps.len() > 1 && (rows <= 64 && used > 0.8 && x.channels <= 8 || rows <= 16 && used > 0.6)
}

/// Slices of the output's gradient from number `first`, counted over all images, and padded copies of the input under
/// them.
struct Dots<T> {
    first: usize,
    slices: usize,
    grid: [usize; 3],
    dy: *const T,
    dy_image: usize,
    copy: *const T,
    copy_image: usize,
    /// Distance between the copy's rows for consecutive rows of the grid.
    row: usize,
}

impl<T> Dots<T> {
    /// Slice `n` of the first plane.
    #[inline(always)]
    fn slice(&self, n: usize) -> *const T {
        let [gd, gh, gw] = self.grid;
        let at = self.first + n;
        self.dy.wrapping_add(at / gd * self.dy_image + at % gd * gh * gw)
    }
}

/// `out[r * stride + s] = sum over all pixels of dy plane r . copy at offset s`.
#[inline(always)]
unsafe fn dot_tile<V: Vector, const R: usize, const S: usize>(
    d: &Dots<V::T>,
    offs: &[usize],
    out: *mut V::T,
    stride: usize,
) {
    // SAFETY: the caller's planes, copies and sums.
    unsafe {
        let [gd, gh, gw] = d.grid;
        let plane = gd * gh * gw;
        let offs: [usize; S] = std::array::from_fn(|s| offs[s]);
        let (full, left) = (gw / V::L * V::L, gw % V::L);
        let mut acc = [[V::zero(); S]; R];
        // Two passes: accumulators shared by two loops would be spilled to memory.
        for n in 0..if full > 0 { d.slices } else { 0 } {
            let slice = d.slice(n);
            for i in 0..gh {
                let dy = slice.add(i * gw);
                let x = d.copy.add(n * d.copy_image + i * d.row);
                for j in (0..full).step_by(V::L) {
                    let y: [V; R] = std::array::from_fn(|r| V::load(dy.add(r * plane + j)));
                    for s in 0..S {
                        let v = V::load(x.add(j + offs[s]));
                        for r in 0..R {
                            acc[r][s] = v.fma(y[r], acc[r][s]);
                        }
                    }
                }
            }
        }
        for n in 0..if left > 0 { d.slices } else { 0 } {
            let slice = d.slice(n);
            for i in 0..gh {
                // Both operands are masked: elements after a row may be NaN.
                let dy = slice.add(i * gw + full);
                let x = d.copy.add(n * d.copy_image + i * d.row + full);
                let y: [V; R] = std::array::from_fn(|r| V::load_n(dy.add(r * plane), left));
                for s in 0..S {
                    let v = V::load_n(x.add(offs[s]), left);
                    for r in 0..R {
                        acc[r][s] = v.fma(y[r], acc[r][s]);
                    }
                }
            }
        }
        for r in 0..R {
            for s in 0..S {
                *out.add(r * stride + s) = acc[r][s].sum();
            }
        }
    }
}

#[inline(always)]
unsafe fn dot_tiles_body<V: Vector>(d: &Dots<V::T>, rows: usize, offs: &[usize], out: *mut V::T) {
    let plane = d.grid.iter().product::<usize>();
    let mut r = 0;
    while r < rows {
        let now = if rows - r >= DOT_ROWS { DOT_ROWS } else { (rows - r).min(2) };
        let d = Dots { dy: d.dy.wrapping_add(r * plane), ..*d };
        let mut s = 0;
        while s < offs.len() {
            let (o, left) = (&offs[s..], offs.len() - s);
            let many = if left >= DOT_TAPS {
                DOT_TAPS
            } else if left >= 3 {
                3
            } else {
                1
            };
            // SAFETY: the caller's; rows r.. and offsets s.. exist.
            unsafe {
                let out = out.add(r * offs.len() + s);
                match (now, many) {
                    (4, 6) => dot_tile::<V, 4, 6>(&d, o, out, offs.len()),
                    (4, 3) => dot_tile::<V, 4, 3>(&d, o, out, offs.len()),
                    (4, _) => dot_tile::<V, 4, 1>(&d, o, out, offs.len()),
                    (2, 6) => dot_tile::<V, 2, 6>(&d, o, out, offs.len()),
                    (2, 3) => dot_tile::<V, 2, 3>(&d, o, out, offs.len()),
                    (2, _) => dot_tile::<V, 2, 1>(&d, o, out, offs.len()),
                    (_, 6) => dot_tile::<V, 1, 6>(&d, o, out, offs.len()),
                    (_, 3) => dot_tile::<V, 1, 3>(&d, o, out, offs.len()),
                    _ => dot_tile::<V, 1, 1>(&d, o, out, offs.len()),
                }
            }
            s += many;
        }
        r += now;
    }
}

crate::by_level! {
    unsafe fn dot_tiles<T>(d: &Dots<T>, rows: usize, offs: &[usize], out: *mut T) = dot_tiles_body
}

/// The filter's gradient, [out][channel][tap], of planes: each entry is a sum of products over vectors of pixels.
/// Slices are summed in a fixed number of parts, which are added in order.
///
/// # Safety
/// The patches (of group 0; others `step` elements on) are valid for the extents, `dy` has `groups * rows` planes per
/// image.
pub unsafe fn filter_grad<T: Float>(
    x: &Patches<T>,
    step: usize,
    groups: usize,
    rows: usize,
    dy: *const T,
    dw: &mut [T],
) {
    let (k, gh) = (x.depth(), x.grid[1]);
    let plane = x.grid.iter().product::<usize>();
    let band = Band::new(x);
    let (size, offsets, row) = (band.elements(x, gh), band.offsets(x, gh), band.row(x));
    let slices = x.slices();
    let fit = (BAND_BYTES / size_of::<T>() / size).max(slices.div_ceil(32)).max(1);
    let parts = slices.div_ceil(fit);
    let mut sums = vec![T::ZERO; parts * dw.len()];
    let (all, dy) = (SharedPtr(sums.as_mut_ptr()), SharedPtr(dy as *mut T));
    crate::pool::chunks(parts * groups, |index| {
        let (part, g) = (index / groups, index % groups);
        let first = part * fit;
        let some = fit.min(slices - first);
        let x = x.moved(g * step);
        with_scratch::<T, _>(some * size + 16, |buf| {
            // SAFETY: the caller's extents; sums of different (part, group) are disjoint.
            unsafe {
                for n in 0..some {
                    band.copy(&x, first + n, 0, (gh, gh), buf.add(n * size), T::ZERO);
                }
                let dots = Dots {
                    first,
                    slices: some,
                    grid: x.grid,
                    dy: dy.get().add(g * rows * plane),
                    dy_image: groups * rows * plane,
                    copy: buf,
                    copy_image: size,
                    row,
                };
                dot_tiles(&dots, rows, &offsets, all.get().add((part * groups + g) * rows * k));
            }
        });
    });
    let (first, rest) = sums.split_at(dw.len());
    dw.copy_from_slice(first);
    for part in rest.chunks_exact(dw.len()) {
        for (s, &v) in dw.iter_mut().zip(part) {
            *s += v;
        }
    }
}
