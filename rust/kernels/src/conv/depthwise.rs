//! Depthwise convolutions with channels last, and the filter's gradient of depthwise convolutions in both layouts.
#![allow(clippy::needless_range_loop)] // registers are counted, not iterated

use crate::conv::band::{share, Band};
use crate::conv::patches::{Patches, PlaneTarget};
use crate::gemm::operands::with_scratch;
use crate::pool::SharedPtr;
use crate::types::{Float, Vector};

#[inline(always)]
unsafe fn last_row_body<V: Vector>(
    x: &Patches<V::T>,
    (n, z, i): (usize, usize, usize),
    w: *const V::T,
    channels: usize,
    bias: *const V::T,
    relu: bool,
    out: *mut V::T,
    col: usize,
) {
    for j in 0..x.grid[2] {
        let mut c = 0;
        while c < channels {
            let left = V::L.min(channels - c);
            // SAFETY: a tap is read only within the source; w is [tap][channels], out has the grid's pixels.
            unsafe {
                let mut acc = if bias.is_null() { V::zero() } else { V::load_n(bias.add(c), left) };
                for (t, tap) in x.taps.iter().enumerate() {
                    let Some(at) = x.inside([z, i, j], *tap) else { continue };
                    acc = V::load_n(x.p.add(n * x.image + at + c), left)
                        .fma(V::load_n(w.add(t * channels + c), left), acc);
                }
                if relu {
                    acc = acc.max(V::zero());
                }
                acc.store_n(out.add(j * col + c), left);
            }
            c += left;
        }
    }
}

crate::by_level! {
    unsafe fn last_row<T>(x: &Patches<T>, at: (usize, usize, usize), w: *const T, channels: usize, bias: *const T,
        relu: bool, out: *mut T, col: usize) = last_row_body
}

/// Depthwise convolution with channels last: weight [tap][channel]; the target's `plane` is not used.
///
/// # Safety
/// The patches (of channel 0), weights, bias (null for none) and target are valid for the extents.
pub unsafe fn depthwise_last<T: Float>(
    x: &Patches<T>,
    channels: usize,
    w: &[T],
    bias: *const T,
    relu: bool,
    to: &PlaneTarget<T>,
) {
    let (out, bias) = (SharedPtr(to.p), SharedPtr(bias as *mut T));
    let [gd, gh, gw] = x.grid;
    share(x.slices() * gh, channels * x.taps.len() * gw, |index| {
        let (n, z, i) = (index / (gd * gh), index / gh % gd, index % gh);
        let at = out.get().wrapping_add(n * to.image + z * to.slice + i * to.row);
        // SAFETY: the caller's; each index writes a different row of pixels.
        unsafe { last_row(x, (n, z, i), w.as_ptr(), channels, bias.get(), relu, at, to.col) }
    });
}

/// Taps of one pass of `tap_sums`.
const TAPS: usize = 9;

/// `sums[s] += dy . x shifted by tap s` over the rows of one plane.
#[inline(always)]
unsafe fn tap_sums_body<V: Vector>(
    x: *const V::T,
    row: usize,
    offsets: &[usize],
    dy: *const V::T,
    (gh, gw): (usize, usize),
    sums: *mut V::T,
) {
    // SAFETY: the caller's plane, copy and sums.
    unsafe {
        let mut offs = [0; TAPS];
        offs[..offsets.len()].copy_from_slice(offsets);
        let mut acc = [V::zero(); TAPS];
        for i in 0..gh {
            let (from, to) = (x.add(i * row), dy.add(i * gw));
            let whole = gw / V::L * V::L;
            for j in (0..whole).step_by(V::L) {
                let d = V::load(to.add(j));
                for s in 0..TAPS {
                    acc[s] = V::load(from.add(j + offs[s])).fma(d, acc[s]);
                }
            }
            if whole < gw {
                let d = V::load_n(to.add(whole), gw - whole);
                for s in 0..TAPS {
                    // Masked: elements after the row may be NaN.
                    acc[s] = V::load_n(from.add(whole + offs[s]), gw - whole).fma(d, acc[s]);
                }
            }
        }
        for s in 0..offsets.len() {
            *sums.add(s) = *sums.add(s) + acc[s].sum();
        }
    }
}

crate::by_level! {
    unsafe fn tap_sums<T>(x: *const T, row: usize, offsets: &[usize], dy: *const T, grid: (usize, usize),
        sums: *mut T) = tap_sums_body
}

/// The filter's gradient of a depthwise convolution, [channel][tap].
///
/// # Safety
/// The patches (of channel 0) are valid for the extents, `dy` and `dw` have the shape's lengths.
pub unsafe fn depthwise_filter_grad<T: Float>(
    x: &Patches<T>,
    channels: usize,
    channels_last: bool,
    dy: &[T],
    dw: &mut [T],
) {
    let (taps, [gd, gh, gw]) = (x.taps.len(), x.grid);
    let out = SharedPtr(dw.as_mut_ptr());
    if channels_last {
        let parts = x.images.min(16);
        let per = x.images.div_ceil(parts);
        let mut sums = vec![T::ZERO; parts * taps * channels];
        let all = SharedPtr(sums.as_mut_ptr());
        crate::pool::chunks(parts, |part| {
            for n in part * per..((part + 1) * per).min(x.images) {
                // SAFETY: blocks of different parts are disjoint.
                unsafe { last_sums(x, n, dy.as_ptr(), channels, all.get().add(part * taps * channels)) };
            }
        });
        for (e, v) in dw.iter_mut().enumerate() {
            let at = e % taps * channels + e / taps;
            *v = sums.iter().skip(at).step_by(taps * channels).fold(T::ZERO, |s, &p| s + p);
        }
        return;
    }
    let band = Band::new(x);
    let offsets = band.offsets(x, gh);
    let row = band.row(x);
    share(channels, x.slices() * taps * gh * gw, |c| {
        let x = x.moved(c * x.plane);
        with_scratch::<T, _>(band.elements(&x, gh) + 16, |buf| {
            // SAFETY: the caller's extents; sums of different channels are disjoint.
            unsafe {
                let sums = out.get().add(c * taps);
                for t in 0..taps {
                    *sums.add(t) = T::ZERO;
                }
                for n in 0..x.slices() {
                    band.copy(&x, n, 0, (gh, gh), buf, T::ZERO);
                    let dy = dy.as_ptr().add(((n / gd * channels + c) * gd + n % gd) * gh * gw);
                    for t in (0..taps).step_by(TAPS) {
                        let some = &offsets[t..taps.min(t + TAPS)];
                        tap_sums(buf, row, some, dy, (gh, gw), sums.add(t));
                    }
                }
            }
        });
    });
}

#[inline(always)]
unsafe fn last_sums_body<V: Vector>(x: &Patches<V::T>, n: usize, dy: *const V::T, channels: usize, sums: *mut V::T) {
    let [gd, gh, gw] = x.grid;
    for pixel in 0..gd * gh * gw {
        let at = [pixel / (gh * gw), pixel / gw % gh, pixel % gw];
        // SAFETY: the pixel of image n exists.
        let d = unsafe { dy.add((n * gd * gh * gw + pixel) * channels) };
        for (t, tap) in x.taps.iter().enumerate() {
            let Some(at) = x.inside(at, *tap) else { continue };
            // SAFETY: the tap lies within the source; sums are [tap][channels].
            unsafe {
                let src = x.p.add(n * x.image + at);
                let s = sums.add(t * channels);
                let mut c = 0;
                while c < channels {
                    let left = V::L.min(channels - c);
                    let v = V::load_n(src.add(c), left).fma(V::load_n(d.add(c), left), V::load_n(s.add(c), left));
                    v.store_n(s.add(c), left);
                    c += left;
                }
            }
        }
    }
}

crate::by_level! {
    unsafe fn last_sums<T>(x: &Patches<T>, n: usize, dy: *const T, channels: usize, sums: *mut T) = last_sums_body
}
