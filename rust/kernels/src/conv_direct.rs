//! Convolutions with few output channels a group, where panels would cost more than the sums: rows of a padded copy of
//! a band of the image are read in place, each tap at its offset. And depthwise convolutions.

use crate::conv_patch::{Patches, PlaneTarget};
use crate::gemm_drive::{copy_short, with_scratch};
use crate::gemm_simd::{Real, Vector};
use crate::gemm_vec::Shared;
use crate::simd::{level, Level};

/// Bytes of the padded copy of a band.
const BAND_BYTES: usize = 192 << 10;
/// Most output channels and vectors of a register tile.
const ROWS: usize = 6;
const VECTORS: usize = 4;

pub fn lanes<T: Real>() -> usize {
    match level() {
        Level::Avx512 => T::Avx512::L,
        Level::Avx2 => T::Avx2::L,
        Level::Baseline => T::Base::L,
    }
}

/// Whether `direct` is the better way for `rows` output channels a group.
pub fn suits<T: Real>(rows: usize, x: &Patches<T>) -> bool {
    let (width, lanes) = (x.grid.1, lanes::<T>());
    let used = width as f64 / width.next_multiple_of(lanes) as f64;
    !x.taps.is_empty()
        && if rows <= 8 {
            used > 0.4 || rows == 1
        } else {
            (rows < 32 && used > 0.8 || rows <= 16 && used > 0.6) && x.taps.len() > 1
        }
}

/// The padded copy (`fill` outside of the source): rows of the source under the taps of a band, each row cut into `step.1` rows of every `step.1`th
/// column, so that whatever the stride consecutive pixels read consecutive elements.
pub struct Band {
    top: isize,
    left: isize,
    pub pitch: usize,
    /// Rows of the source that one row of the grid spans.
    span: usize,
}

impl Band {
    pub fn of<T>(x: &Patches<T>) -> Band {
        let range = |f: fn(&(isize, isize)) -> isize| {
            let all = x.taps.iter().map(f);
            (all.clone().min().unwrap_or(0), all.max().unwrap_or(0))
        };
        let ((top, bottom), (left, right)) = (range(|t| t.0), range(|t| t.1));
        let width = (x.grid.1 - 1) * x.step.1 + (right - left) as usize + 1;
        Band { top, left, pitch: width.div_ceil(x.step.1), span: (bottom - top) as usize + 1 }
    }
    /// Rows of the copy for `rows` of the grid.
    pub fn height<T>(&self, x: &Patches<T>, rows: usize) -> usize {
        (rows - 1) * x.step.0 + self.span
    }
    pub fn size<T>(&self, x: &Patches<T>, rows: usize) -> usize {
        x.channels * self.height(x, rows) * x.step.1 * self.pitch
    }
    /// Where each column of the patch matrix begins in the copy.
    pub fn offsets<T>(&self, x: &Patches<T>, rows: usize) -> Vec<usize> {
        let height = self.height(x, rows);
        let mut out = Vec::with_capacity(x.channels * x.taps.len());
        for c in 0..x.channels {
            for t in &x.taps {
                let (y, z) = ((t.0 - self.top) as usize, (t.1 - self.left) as usize);
                out.push(((c * height + y) * x.step.1 + z % x.step.1) * self.pitch + z / x.step.1);
            }
        }
        out
    }
    /// # Safety
    /// `dst` holds `size` elements, image `n` exists, the rows lie within the grid.
    pub unsafe fn copy<T: Real>(&self, x: &Patches<T>, n: usize, first: usize, rows: usize, dst: *mut T, fill: T) {
        let (height, step) = (self.height(x, rows), x.step.1);
        let (h, w) = (x.size.0 as isize, x.size.1 as isize);
        for c in 0..x.channels {
            for y in 0..height {
                let row = (first * x.step.0 + y) as isize + self.top;
                let src = x.p.wrapping_add(n * x.image + c * x.plane).wrapping_offset(row * x.row as isize);
                for b in 0..step {
                    let start = self.left + b as isize;
                    let clip = |v: isize| v.clamp(0, self.pitch as isize) as usize;
                    let s = step as isize;
                    let (lo, hi) = (
                        clip((-start).div_euclid(s) + isize::from((-start).rem_euclid(s) != 0)),
                        clip((w - start + s - 1).div_euclid(s)),
                    );
                    let (lo, hi) = if row < 0 || row >= h { (self.pitch, self.pitch) } else { (lo.min(hi), hi) };
                    // SAFETY: columns lo..hi lie within the source's row; the copy is as large as `size` says.
                    unsafe {
                        let out = dst.add(((c * height + y) * step + b) * self.pitch);
                        let from = src.wrapping_offset(start + lo as isize * s);
                        for e in 0..lo {
                            *out.add(e) = fill;
                        }
                        if step == 1 {
                            copy_short(from, out.add(lo), hi - lo);
                        } else {
                            for e in lo..hi {
                                *out.add(e) = *from.add((e - lo) * step);
                            }
                        }
                        for e in hi..self.pitch {
                            *out.add(e) = fill;
                        }
                    }
                }
            }
        }
    }
}

/// One call of the register tile: `R` channels of up to four vectors of pixels.
struct Call<T> {
    k: usize,
    offsets: *const usize,
    /// [k][R]
    w: *const T,
    base: [*const T; VECTORS],
    out: [*mut T; VECTORS],
    cols: [usize; VECTORS],
    plane: usize,
    step: usize,
    bias: *const T,
    relu: bool,
}

#[inline(always)]
unsafe fn tile<V: Vector, const R: usize, const NV: usize>(t: &Call<V::T>) {
    // SAFETY: the caller's call is valid for its extents; the copy has slack for whole vectors.
    unsafe {
        let mut acc = [[V::zero(); NV]; R];
        let mut w = t.w;
        for p in 0..t.k {
            let off = *t.offsets.add(p);
            let mut x = [V::zero(); NV];
            for v in 0..NV {
                x[v] = V::load(t.base[v].add(off));
            }
            for r in 0..R {
                let f = V::splat(*w.add(r));
                for v in 0..NV {
                    acc[r][v] = f.fma(x[v], acc[r][v]);
                }
            }
            w = w.add(R);
        }
        for r in 0..R {
            let bias = if t.bias.is_null() { V::zero() } else { V::splat(*t.bias.add(r)) };
            for v in 0..NV {
                let mut s = acc[r][v];
                if !t.bias.is_null() {
                    s = s.add(bias);
                }
                if t.relu {
                    s = s.max(V::zero());
                }
                let out = t.out[v].add(r * t.plane);
                if t.step == 1 {
                    s.store_n(out, t.cols[v]);
                } else {
                    let mut buf = [V::T::ZERO; 16];
                    s.store(buf.as_mut_ptr());
                    for (e, &b) in buf[..t.cols[v]].iter().enumerate() {
                        *out.add(e * t.step) = b;
                    }
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn calls_body<V: Vector>(r: usize, t: &Call<V::T>) {
    // Half the vectors where there are sixteen registers.
    // SAFETY: the caller's.
    unsafe {
        macro_rules! rows {
            ($($r:literal)*) => {
                match r {
                    $($r if V::L * size_of::<V::T>() == 64 => tile::<V, $r, 4>(t),)*
                    $($r => {
                        tile::<V, $r, 2>(t);
                        let half = Call { base: [t.base[2], t.base[3], t.base[2], t.base[3]],
                            out: [t.out[2], t.out[3], t.out[2], t.out[3]],
                            cols: [t.cols[2], t.cols[3], t.cols[2], t.cols[3]], ..*t };
                        tile::<V, $r, 2>(&half)
                    })*
                    _ => unreachable!(),
                }
            };
        }
        rows!(1 2 3 4 5 6)
    }
}

crate::by_level! {
    unsafe fn calls<T>(r: usize, t: &Call<T>) = calls_body
}

/// `groups` convolutions of `rows` output channels each; weight (o, k) is `at(o, k)` with o counted over the groups.
///
/// # Safety
/// Patches (of group 0; others `step` elements on), target and bias are valid for the extents, and nothing else
/// touches the target.
pub unsafe fn direct<T: Real>(
    x: &Patches<T>,
    step: usize,
    to: &PlaneTarget<T>,
    groups: usize,
    rows: usize,
    at: &dyn Fn(usize, usize) -> T,
    bias: *const T,
    relu: bool,
) {
    let (k, lanes) = (x.depth(), lanes::<T>());
    let (gh, gw) = x.grid;
    let r = rows.div_ceil(rows.div_ceil(ROWS));
    let mut w = Vec::with_capacity(groups * rows * k);
    for g in 0..groups {
        for o in (0..rows).step_by(r) {
            for p in 0..k {
                w.extend((o..rows.min(o + r)).map(|o| at(g * rows + o, p)));
            }
        }
    }
    let band = Band::of(x);
    let mut height = gh;
    while height > 1 && band.size(x, height) * size_of::<T>() > BAND_BYTES {
        height = height.div_ceil(2);
    }
    let bands = gh.div_ceil(height);
    let offsets = band.offsets(x, height);
    let shared = (Shared(to.p), Shared(w.as_mut_ptr()), Shared(bias as *mut T));
    let one = |index: usize| {
        let (n, rest) = (index / (groups * bands), index % (groups * bands));
        let (g, first) = (rest / bands, rest % bands * height);
        let x = x.moved(g * step);
        let (out, w, bias) = (shared.0.get(), shared.1.get(), shared.2.get());
        with_scratch::<T, _>(band.size(&x, height) + 4 * lanes, |buf| {
            let count = height.min(gh - first);
            // SAFETY: the caller's extents; the buffer has the size of a whole band (a last band that is short leaves
            // rows unread, as its copy still has the layout of `height` rows); slack for a vector at its end.
            unsafe {
                copy_band(&band, &x, n, first, count, height, buf);
                let row = x.step.0 * x.step.1 * band.pitch;
                let pieces = gw.div_ceil(lanes);
                let slots = count * pieces;
                let mut s = 0;
                while s < slots {
                    let mut t = Call {
                        k,
                        offsets: offsets.as_ptr(),
                        w,
                        base: [buf; VECTORS],
                        out: [out; VECTORS],
                        cols: [0; VECTORS],
                        plane: to.plane,
                        step: to.col,
                        bias: std::ptr::null(),
                        relu,
                    };
                    for v in 0..VECTORS {
                        // The last slot again where there are no four: the same values written twice.
                        let slot = (s + v).min(slots - 1);
                        let (i, j) = (slot / pieces, slot % pieces * lanes);
                        t.base[v] = buf.add(i * row + j);
                        t.out[v] =
                            out.wrapping_add(n * to.image + g * rows * to.plane + (first + i) * to.row + j * to.col);
                        t.cols[v] = lanes.min(gw - j);
                    }
                    let outs = t.out;
                    for o in (0..rows).step_by(r) {
                        let now = r.min(rows - o);
                        t.w = w.add((g * rows + o) * k);
                        t.out = outs.map(|p| p.wrapping_add(o * to.plane));
                        if !bias.is_null() {
                            t.bias = bias.add(g * rows + o);
                        }
                        calls(now, &t);
                    }
                    s += VECTORS;
                }
            }
        });
    };
    share(x.images * groups * bands, rows * k * height * gw, one);
}

/// A band of `count` rows in the layout of one of `height` rows.
unsafe fn copy_band<T: Real>(
    band: &Band,
    x: &Patches<T>,
    n: usize,
    first: usize,
    count: usize,
    height: usize,
    buf: *mut T,
) {
    // SAFETY: the caller's.
    unsafe {
        if count == height {
            return band.copy(x, n, first, height, buf, T::ZERO);
        }
        let one = Patches { channels: 1, ..x.clone() };
        for c in 0..x.channels {
            let plane = band.size(&one, height);
            band.copy(&one.moved(c * x.plane), n, first, count, buf.add(c * plane), T::ZERO);
        }
    }
}

/// `f` for every index, several to a chunk where one is little work (`each` multiply-adds).
pub fn share(count: usize, each: usize, f: impl Fn(usize) + Sync) {
    let grain = ((1 << 18) / each.max(1)).max(1);
    if count <= grain {
        (0..count).for_each(f);
    } else {
        crate::pool::ranges(count, grain, |r| r.for_each(&f));
    }
}

#[inline(always)]
unsafe fn last_row_body<V: Vector>(
    x: &Patches<V::T>,
    (n, i): (usize, usize),
    w: *const V::T,
    channels: usize,
    bias: *const V::T,
    relu: bool,
    out: *mut V::T,
    col: usize,
) {
    for j in 0..x.grid.1 {
        let mut c = 0;
        while c < channels {
            let left = V::L.min(channels - c);
            // SAFETY: a tap is read only within the source; w is [tap][channels], out has the grid's pixels.
            unsafe {
                let mut acc = if bias.is_null() { V::zero() } else { V::load_n(bias.add(c), left) };
                for (t, tap) in x.taps.iter().enumerate() {
                    let (y, z) = ((i * x.step.0) as isize + tap.0, (j * x.step.1) as isize + tap.1);
                    if y < 0 || z < 0 || y as usize >= x.size.0 || z as usize >= x.size.1 {
                        continue;
                    }
                    let at = n * x.image + y as usize * x.row + z as usize * x.col + c;
                    acc = V::load_n(x.p.add(at), left).fma(V::load_n(w.add(t * channels + c), left), acc);
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
    unsafe fn last_row<T>(x: &Patches<T>, at: (usize, usize), w: *const T, channels: usize, bias: *const T,
        relu: bool, out: *mut T, col: usize) = last_row_body
}

/// Depthwise with channels last: weight [tap][channel], the target's `plane` is not used.
///
/// # Safety
/// The patches (of channel 0), weights, bias (null for none) and target are valid for the extents.
pub unsafe fn depthwise_last<T: Real>(
    x: &Patches<T>,
    channels: usize,
    w: &[T],
    bias: *const T,
    relu: bool,
    to: &PlaneTarget<T>,
) {
    let (out, bias) = (Shared(to.p), Shared(bias as *mut T));
    share(x.images * x.grid.0, channels * x.taps.len() * x.grid.1, |index| {
        let (n, i) = (index / x.grid.0, index % x.grid.0);
        let at = out.get().wrapping_add(n * to.image + i * to.row);
        // SAFETY: the caller's; every index writes its own row of pixels.
        unsafe { last_row(x, (n, i), w.as_ptr(), channels, bias.get(), relu, at, to.col) }
    });
}

/// Taps that one pass of `tap_sums` covers.
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
            let mut j = 0;
            while j < gw {
                let left = V::L.min(gw - j);
                let d = V::load_n(dy.add(i * gw + j), left);
                for s in 0..TAPS {
                    // Masked, as what lies behind the row may be NaN.
                    acc[s] = V::load_n(x.add(i * row + j + offs[s]), left).fma(d, acc[s]);
                }
                j += left;
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
pub unsafe fn depthwise_filter_grad<T: Real>(
    x: &Patches<T>,
    channels: usize,
    channels_last: bool,
    dy: &[T],
    dw: &mut [T],
) {
    let (taps, (gh, gw)) = (x.taps.len(), x.grid);
    let out = Shared(dw.as_mut_ptr());
    if channels_last {
        let parts = x.images.min(16);
        let per = x.images.div_ceil(parts);
        let mut sums = vec![T::ZERO; parts * taps * channels];
        let all = Shared(sums.as_mut_ptr());
        crate::pool::chunks(parts, |part| {
            for n in part * per..((part + 1) * per).min(x.images) {
                // SAFETY: each part has a block of its own.
                unsafe { last_sums(x, n, dy.as_ptr(), channels, all.get().add(part * taps * channels)) };
            }
        });
        for (e, v) in dw.iter_mut().enumerate() {
            let at = e % taps * channels + e / taps;
            *v = sums.iter().skip(at).step_by(taps * channels).fold(T::ZERO, |s, &p| s + p);
        }
        return;
    }
    let band = Band::of(x);
    let offsets = band.offsets(x, gh);
    let row = x.step.0 * x.step.1 * band.pitch;
    share(channels, x.images * taps * gh * gw, |c| {
        let x = x.moved(c * x.plane);
        with_scratch::<T, _>(band.size(&x, gh) + 16, |buf| {
            // SAFETY: the caller's extents; each channel has its own sums.
            unsafe {
                let sums = out.get().add(c * taps);
                for t in 0..taps {
                    *sums.add(t) = T::ZERO;
                }
                for n in 0..x.images {
                    band.copy(&x, n, 0, gh, buf, T::ZERO);
                    let dy = dy.as_ptr().add((n * channels + c) * gh * gw);
                    for t in (0..taps).step_by(TAPS) {
                        let some = &offsets[t..taps.min(t + TAPS)];
                        tap_sums(buf, row, some, dy, (gh, gw), sums.add(t));
                    }
                }
            }
        });
    });
}

/// Channels of `dy` and taps of one tile of `dot_tile`.
const DOT_ROWS: usize = 4;
const DOT_TAPS: usize = 6;

/// Whether `filter_grad` is the better way: sums over vectors of pixels pay where rows fill vectors, and panels do not.
pub fn suits_filter<T: Real>(rows: usize, x: &Patches<T>) -> bool {
    let used = x.grid.1 as f64 / x.grid.1.next_multiple_of(lanes::<T>()) as f64;
    x.taps.len() > 1 && (rows <= 64 && used > 0.8 && x.channels <= 8 || rows <= 16 && used > 0.6)
}

/// Planes of the output's gradient and the padded copies of the same images.
struct Dots<T> {
    images: usize,
    grid: (usize, usize),
    dy: *const T,
    dy_image: usize,
    copy: *const T,
    copy_image: usize,
    /// Distance between the copy's rows for the grid.
    row: usize,
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
        let (gh, gw) = d.grid;
        let offs: [usize; S] = std::array::from_fn(|s| offs[s]);
        let mut acc = [[V::zero(); S]; R];
        for n in 0..d.images {
            for i in 0..gh {
                let dy = d.dy.add(n * d.dy_image + i * gw);
                let x = d.copy.add(n * d.copy_image + i * d.row);
                let mut j = 0;
                while j + V::L <= gw {
                    let y: [V; R] = std::array::from_fn(|r| V::load(dy.add(r * gh * gw + j)));
                    for s in 0..S {
                        let v = V::load(x.add(j + offs[s]));
                        for r in 0..R {
                            acc[r][s] = v.fma(y[r], acc[r][s]);
                        }
                    }
                    j += V::L;
                }
                if j < gw {
                    // Masked on both sides, as what lies behind a row may be NaN.
                    let left = gw - j;
                    let y: [V; R] = std::array::from_fn(|r| V::load_n(dy.add(r * gh * gw + j), left));
                    for s in 0..S {
                        let v = V::load_n(x.add(j + offs[s]), left);
                        for r in 0..R {
                            acc[r][s] = v.fma(y[r], acc[r][s]);
                        }
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
    let (gh, gw) = d.grid;
    let mut r = 0;
    while r < rows {
        let now = if rows - r >= DOT_ROWS { DOT_ROWS } else { (rows - r).min(2) };
        let d = Dots { dy: d.dy.wrapping_add(r * gh * gw), ..*d };
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

/// The filter's gradient, [out][channel][tap], of planes: each entry a sum of products over vectors of pixels, images
/// in parts of a fixed number, the parts in order.
///
/// # Safety
/// The patches (of group 0; others `step` elements on) are valid for the extents, `dy` has `groups * rows` planes an
/// image.
pub unsafe fn filter_grad<T: Real>(
    x: &Patches<T>,
    step: usize,
    groups: usize,
    rows: usize,
    dy: *const T,
    dw: &mut [T],
) {
    let (k, (gh, gw)) = (x.depth(), x.grid);
    let band = Band::of(x);
    let (size, offsets) = (band.size(x, gh), band.offsets(x, gh));
    let fit = (BAND_BYTES / size_of::<T>() / size).max(x.images.div_ceil(32)).max(1);
    let parts = x.images.div_ceil(fit);
    let mut sums = vec![T::ZERO; parts * dw.len()];
    let (all, dy) = (Shared(sums.as_mut_ptr()), Shared(dy as *mut T));
    crate::pool::chunks(parts * groups, |index| {
        let (part, g) = (index / groups, index % groups);
        let first = part * fit;
        let images = fit.min(x.images - first);
        let x = x.moved(g * step);
        with_scratch::<T, _>(images * size + 16, |buf| {
            // SAFETY: the caller's extents; each (part, group) has sums of its own.
            unsafe {
                for n in 0..images {
                    band.copy(&x, first + n, 0, gh, buf.add(n * size), T::ZERO);
                }
                let dy_image = groups * rows * gh * gw;
                let dots = Dots {
                    images,
                    grid: (gh, gw),
                    dy: dy.get().add(first * dy_image + g * rows * gh * gw),
                    dy_image,
                    copy: buf,
                    copy_image: size,
                    row: x.step.0 * x.step.1 * band.pitch,
                };
                dot_tiles(&dots, rows, &offsets, all.get().add((part * groups + g) * rows * k));
            }
        });
    });
    let (first, rest) = sums.split_at(dw.len());
    dw.copy_from_slice(first);
    for part in rest.chunks_exact(dw.len()) {
        for (s, &v) in dw.iter_mut().zip(part) {
            *s = *s + v;
        }
    }
}

#[inline(always)]
unsafe fn last_sums_body<V: Vector>(x: &Patches<V::T>, n: usize, dy: *const V::T, channels: usize, sums: *mut V::T) {
    let (gh, gw) = x.grid;
    for i in 0..gh {
        for j in 0..gw {
            // SAFETY: pixel (i, j) of image n exists.
            let d = unsafe { dy.add(((n * gh + i) * gw + j) * channels) };
            for (t, tap) in x.taps.iter().enumerate() {
                let (y, z) = ((i * x.step.0) as isize + tap.0, (j * x.step.1) as isize + tap.1);
                if y < 0 || z < 0 || y as usize >= x.size.0 || z as usize >= x.size.1 {
                    continue;
                }
                // SAFETY: the tap lies within the source; sums are [tap][channels].
                unsafe {
                    let src = x.p.add(n * x.image + y as usize * x.row + z as usize * x.col);
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
}

crate::by_level! {
    unsafe fn last_sums<T>(x: &Patches<T>, n: usize, dy: *const T, channels: usize, sums: *mut T) = last_sums_body
}
