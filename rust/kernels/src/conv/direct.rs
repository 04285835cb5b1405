//! Direct convolution for few output channels per group, where packing panels would cost more than the sums: each tap
//! reads rows of a padded band of the image in place, at its offset.
#![allow(clippy::needless_range_loop)] // registers are counted, not iterated

use crate::conv::band::{lanes, share, Band, BAND_BYTES};
use crate::conv::patches::{Patches, PlaneTarget};
use crate::gemm::operands::with_scratch;
use crate::pool::SharedPtr;
use crate::types::{Float, Number, Vector};

/// Most output channels and vectors of a register tile.
const ROWS: usize = 6;
const VECTORS: usize = 4;

/// Whether `direct` is faster for `rows` output channels per group.
pub fn suits<T: Float>(rows: usize, x: &Patches<T>) -> bool {
    let (width, lanes) = (x.grid[2], lanes::<T>());
    let used = width as f64 / width.next_multiple_of(lanes) as f64;
    !x.taps.is_empty()
        && if rows <= 8 {
            used > 0.4 || rows == 1
        } else {
            (rows < 32 && used > 0.8 || rows <= 16 && used > 0.6) && x.taps.len() > 1
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

/// Adds the bias to a vector of sums and applies the ReLU.
#[inline(always)]
unsafe fn finished<V: Vector>(sum: V, bias: Option<V>, relu: bool) -> V {
    // SAFETY: the caller has the vector's instruction set.
    unsafe {
        // No closures: they would be compiled without the instruction set.
        let s = if let Some(bias) = bias { sum.add(bias) } else { sum };
        if relu {
            s.max(V::zero())
        } else {
            s
        }
    }
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
            let bias = if t.bias.is_null() { None } else { Some(V::splat(*t.bias.add(r))) };
            for v in 0..NV {
                let s = finished(acc[r][v], bias, t.relu);
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
    // Half the vectors where there are 16 registers: two channels would leave too few. SAFETY: the caller's.
    unsafe {
        macro_rules! rows {
            ($($r:literal)*) => {
                match r {
                    $($r if $r <= 2 || V::L * size_of::<V::T>() == 64 => tile::<V, $r, 4>(t),)*
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

/// One output channel with contiguous pixels: `count` rows of `width` pixels, `row` apart in the copy and `to_row`
/// apart in the target. Same results as `tile`, without a call for every few vectors.
struct OneChannel<'a, T> {
    offsets: &'a [usize],
    w: *const T,
    from: *const T,
    row: usize,
    to: *mut T,
    to_row: usize,
    count: usize,
    width: usize,
    /// Null if there is none.
    bias: *const T,
    relu: bool,
}

#[inline(always)]
unsafe fn vectors<V: Vector, const NV: usize>(c: &OneChannel<V::T>, from: *const V::T, to: *mut V::T, width: usize) {
    // SAFETY: the caller's copy has slack for whole vectors, the target `width` pixels.
    unsafe {
        let mut acc = [V::zero(); NV];
        for (p, &offset) in c.offsets.iter().enumerate() {
            let f = V::splat(*c.w.add(p));
            for v in 0..NV {
                acc[v] = f.fma(V::load(from.add(offset + v * V::L)), acc[v]);
            }
        }
        let bias = if c.bias.is_null() { None } else { Some(V::splat(*c.bias)) };
        for v in 0..NV {
            let left = V::L.min(width - v * V::L);
            finished(acc[v], bias, c.relu).store_n(to.add(v * V::L), left);
        }
    }
}

#[inline(always)]
unsafe fn one_channel_body<V: Vector>(c: &OneChannel<V::T>) {
    // SAFETY: the caller's.
    unsafe {
        for i in 0..c.count {
            let (from, to) = (c.from.add(i * c.row), c.to.add(i * c.to_row));
            let mut j = 0;
            while j < c.width {
                let left = c.width - j;
                let (from, to) = (from.add(j), to.add(j));
                match left.div_ceil(V::L) {
                    1 => vectors::<V, 1>(c, from, to, left),
                    2 => vectors::<V, 2>(c, from, to, left),
                    3 => vectors::<V, 3>(c, from, to, left),
                    _ => vectors::<V, 4>(c, from, to, left),
                }
                j += VECTORS * V::L;
            }
        }
    }
}

crate::by_level! {
    unsafe fn one_channel<T>(c: &OneChannel<T>) = one_channel_body
}

/// `groups` convolutions of `rows` output channels each; weight (o, k) is `at(o, k)` with o counted over the groups.
///
/// # Safety
/// Patches (of group 0; others `step` elements on), target and bias are valid for the extents, and nothing else
/// touches the target.
pub unsafe fn direct<T: Float>(
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
    let [gd, gh, gw] = x.grid;
    let r = rows.div_ceil(rows.div_ceil(ROWS));
    let mut w = Vec::with_capacity(groups * rows * k);
    for g in 0..groups {
        for o in (0..rows).step_by(r) {
            for p in 0..k {
                w.extend((o..rows.min(o + r)).map(|o| at(g * rows + o, p)));
            }
        }
    }
    let band = Band::new(x);
    let mut height = gh;
    while height > 1 && band.elements(x, height) * size_of::<T>() > BAND_BYTES {
        height = height.div_ceil(2);
    }
    let bands = gh.div_ceil(height);
    let offsets = band.offsets(x, height);
    let shared = (SharedPtr(to.p), SharedPtr(w.as_mut_ptr()), SharedPtr(bias as *mut T));
    let one = |index: usize| {
        let (slice, rest) = (index / (groups * bands), index % (groups * bands));
        let (n, z) = (slice / gd, slice % gd);
        let (g, first) = (rest / bands, rest % bands * height);
        let x = x.moved(g * step);
        let (out, w, bias) = (shared.0.get(), shared.1.get(), shared.2.get());
        with_scratch::<T, _>(band.elements(&x, height) + 4 * lanes, |buf| {
            let count = height.min(gh - first);
            // SAFETY: the caller's extents; the buffer has the size of a whole band plus slack for a vector at its end.
            // The copy of a short last band has the layout of `height` rows, some of them unread.
            unsafe {
                band.copy(&x, slice, first, (count, height), buf, T::ZERO);
                let row = band.row(&x);
                if rows == 1 && to.col == 1 {
                    let out = out.wrapping_add(n * to.image + g * to.plane + z * to.slice + first * to.row);
                    return one_channel(&OneChannel {
                        offsets: &offsets,
                        w: w.add(g * k),
                        from: buf,
                        row,
                        to: out,
                        to_row: to.row,
                        count,
                        width: gw,
                        bias: if bias.is_null() { bias } else { bias.add(g) },
                        relu,
                    });
                }
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
                        // With fewer than four slots the last one is repeated: it writes the same values twice.
                        let slot = (s + v).min(slots - 1);
                        let (i, j) = (slot / pieces, slot % pieces * lanes);
                        t.base[v] = buf.add(i * row + j);
                        let at = z * to.slice + (first + i) * to.row + j * to.col;
                        t.out[v] = out.wrapping_add(n * to.image + g * rows * to.plane + at);
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
    share(x.slices() * groups * bands, rows * k * height * gw, one);
}
