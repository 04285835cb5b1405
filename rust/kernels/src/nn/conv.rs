//! Two-dimensional convolution, its input gradient and its filter gradient, for planes (NCHW) and channels last
//! (NHWC), with groups, strides, dilations and any padding. Filters are [out, in / groups, kh, kw] in both layouts.
//!
//! A convolution is a product with the patches of an image (`conv_patch`); few output channels go without panels
//! (`conv_direct`). An input gradient is one convolution of the output's gradient for each phase of the stride.

use crate::conv_direct::direct;
use crate::conv_patch::{Patches, PixelRows, PlaneColumns, PlaneTarget, Turned};
use crate::gemm_drive::{parallel, Finish};
use crate::gemm_pack::{transpose, RowMajor, Strided};
use crate::gemm_simd::Real;
use crate::gemm_vec::Shared;
use crate::{conv_depthwise, conv_direct, conv_dots};

/// The shape of a convolution. Padding below and to the right follows from the output's size: what lies outside of
/// the input counts as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2d {
    pub images: usize,
    pub in_channels: usize,
    pub in_size: (usize, usize),
    pub out_channels: usize,
    pub out_size: (usize, usize),
    pub kernel: (usize, usize),
    pub stride: (usize, usize),
    pub dilation: (usize, usize),
    /// Rows above and columns to the left.
    pub pad: (usize, usize),
    pub groups: usize,
    pub channels_last: bool,
}

impl Conv2d {
    pub fn in_len(&self) -> usize {
        self.images * self.in_channels * self.in_size.0 * self.in_size.1
    }
    pub fn out_len(&self) -> usize {
        self.images * self.out_channels * self.out_size.0 * self.out_size.1
    }
    pub fn filter_len(&self) -> usize {
        self.out_channels * self.group_in() * self.kernel.0 * self.kernel.1
    }
    fn group_in(&self) -> usize {
        self.in_channels / self.groups
    }
    fn group_out(&self) -> usize {
        self.out_channels / self.groups
    }
    /// One input and one output channel a group.
    fn depthwise(&self) -> bool {
        self.in_channels == self.groups && self.out_channels == self.groups && self.groups > 1
    }

    fn check(&self, x: usize, w: usize, y: usize) {
        assert!(
            self.groups > 0
                && self.in_channels.is_multiple_of(self.groups)
                && self.out_channels.is_multiple_of(self.groups)
        );
        assert!(self.stride.0 > 0 && self.stride.1 > 0 && self.dilation.0 > 0 && self.dilation.1 > 0);
        assert_eq!((x, w, y), (self.in_len(), self.filter_len(), self.out_len()), "sizes do not fit the convolution");
    }

    fn taps(&self) -> impl Iterator<Item = (usize, usize)> {
        let (kh, kw) = self.kernel;
        (0..kh * kw).map(move |t| (t / kw, t % kw))
    }

    /// The patches of the input that the output's pixels see.
    fn patches<T: Real>(&self, x: *const T) -> Patches<T> {
        let taps = self
            .taps()
            .map(|(r, s)| {
                let at = |k: usize, d: usize, pad: usize| (k * d) as isize - pad as isize;
                (at(r, self.dilation.0, self.pad.0), at(s, self.dilation.1, self.pad.1))
            })
            .collect();
        source(x, self.images, self.in_channels, self.in_size, self.channels_last, self.group_in())
            .with(taps, self.out_size, self.stride)
            .flattened()
    }

    /// Phase (a, b) of the input: its pixels (a, b) + stride * grid, which filter taps reach them, and the patches of
    /// the output's gradient under those taps.
    fn phase<T: Real>(&self, dy: *const T, a: usize, b: usize) -> (Patches<T>, Vec<usize>) {
        let offset = |phase: usize, k: usize, d: usize, pad: usize, stride: usize| {
            let x = (phase + pad) as isize - (k * d) as isize;
            (x.rem_euclid(stride as isize) == 0).then(|| x.div_euclid(stride as isize))
        };
        let (mut taps, mut which) = (Vec::new(), Vec::new());
        for (t, (r, s)) in self.taps().enumerate() {
            let y = offset(a, r, self.dilation.0, self.pad.0, self.stride.0);
            let x = offset(b, s, self.dilation.1, self.pad.1, self.stride.1);
            if let (Some(y), Some(x)) = (y, x) {
                taps.push((y, x));
                which.push(t);
            }
        }
        let grid = |size: usize, phase: usize, stride: usize| size.saturating_sub(phase).div_ceil(stride);
        let grid = (grid(self.in_size.0, a, self.stride.0), grid(self.in_size.1, b, self.stride.1));
        let patches = source(dy, self.images, self.out_channels, self.out_size, self.channels_last, self.group_out())
            .with(taps, grid, (1, 1));
        // With a stride the target's rows do not touch, so the grid must keep its own.
        (if self.stride == (1, 1) { patches.flattened() } else { patches }, which)
    }
}

fn source<T: Real>(
    p: *const T,
    images: usize,
    channels: usize,
    size: (usize, usize),
    channels_last: bool,
    group: usize,
) -> Patches<T> {
    let pixels = size.0 * size.1;
    let (plane, row, col) = if channels_last { (1, size.1 * channels, channels) } else { (pixels, size.1, 1) };
    let (taps, grid, step) = (Vec::new(), (0, 0), (1, 1));
    Patches { p, image: channels * pixels, plane, row, col, size, channels: group, taps, images, grid, step }
}

impl<T> Patches<T> {
    fn with(mut self, taps: Vec<(isize, isize)>, grid: (usize, usize), step: (usize, usize)) -> Self {
        (self.taps, self.grid, self.step) = (taps, grid, step);
        self
    }
}

/// `y = act(x * w + bias)`, one bias a channel. Panics if a slice does not fit the shape.
pub fn conv2d<T: Real>(c: &Conv2d, x: &[T], w: &[T], bias: Option<&[T]>, relu: bool, y: &mut [T]) {
    c.check(x.len(), w.len(), y.len());
    assert!(bias.is_none_or(|b| b.len() == c.out_channels), "one bias a channel");
    if y.is_empty() {
        return;
    }
    let patches = c.patches(x.as_ptr());
    let out = Shared(y.as_mut_ptr());
    let pixels = c.out_size.0 * c.out_size.1;
    let target = PlaneTarget {
        p: out.get(),
        image: c.out_channels * pixels,
        plane: pixels,
        grid: patches.grid,
        row: patches.grid.1,
        col: 1,
    };
    let (cg, og, depth) = (c.group_in(), c.group_out(), patches.depth());
    if c.channels_last && c.depthwise() {
        let turned: Vec<T> = (0..w.len()).map(|e| w[e % c.groups * depth + e / c.groups]).collect();
        let to = PlaneTarget { row: patches.grid.1 * c.groups, col: c.groups, ..target };
        let bias = bias.map_or(std::ptr::null(), |b| b.as_ptr());
        // SAFETY: `check` has compared the slices with the shape.
        return unsafe { conv_depthwise::depthwise_last(&patches, c.groups, &turned, bias, relu, &to) };
    }
    let bias_of = |g: usize| bias.map_or(std::ptr::null(), |b| b[g * og..].as_ptr());
    if !c.channels_last && conv_direct::suits::<T>(og, &patches) {
        let at = |o: usize, k: usize| w[o * depth + k];
        let bias = bias_of(0);
        // SAFETY: as above.
        return unsafe { direct(&patches, cg * patches.plane, &target, c.groups, og, &at, bias, relu) };
    }
    for g in 0..c.groups {
        let w = &w[g * og * depth..(g + 1) * og * depth];
        let mut finish = Finish { relu, ..Finish::plain() };
        if c.channels_last {
            let patches = patches.moved(g * cg);
            let taps = patches.taps.len();
            // [(tap, channel), out]
            let mut turned = vec![T::ZERO; w.len()];
            for (e, &v) in w.iter().enumerate() {
                let (o, ch, t) = (e / depth, e % depth / taps, e % taps);
                turned[(t * cg + ch) * og + o] = v;
            }
            finish.col_bias = bias_of(g);
            let b = Strided { p: turned.as_ptr(), rs: og, cs: 1, rows: depth };
            let to = RowMajor { p: out.get().wrapping_add(g * og), rs: c.out_channels };
            // SAFETY: as above.
            unsafe { parallel(patches.pixels(), og, depth, &PixelRows(&patches), &b, &to, &finish) };
        } else {
            let patches = patches.moved(g * cg * patches.plane);
            finish.row_bias = bias_of(g);
            let a = Strided { p: w.as_ptr(), rs: depth, cs: 1, rows: og };
            let to = PlaneTarget { p: out.get().wrapping_add(g * og * pixels), ..target };
            // SAFETY: as above.
            unsafe { parallel(og, patches.pixels(), depth, &a, &patches, &to, &finish) };
        }
    }
}

/// The gradient of the input, `dx`, from that of the output. Also the forward pass of a transposed convolution.
pub fn conv2d_input_grad<T: Real>(c: &Conv2d, dy: &[T], w: &[T], dx: &mut [T]) {
    c.check(dx.len(), w.len(), dy.len());
    if dx.is_empty() {
        return;
    }
    if dy.is_empty() {
        dx.fill(T::ZERO);
        return;
    }
    let (cg, og, taps) = (c.group_in(), c.group_out(), c.kernel.0 * c.kernel.1);
    let out = Shared(dx.as_mut_ptr());
    let plane = c.in_size.0 * c.in_size.1;
    for phase in 0..c.stride.0 * c.stride.1 {
        let (a, b) = (phase / c.stride.1, phase % c.stride.1);
        let (patches, which) = c.phase(dy.as_ptr(), a, b);
        let depth = patches.depth();
        if patches.pixels() == 0 {
            continue;
        }
        if c.channels_last {
            // SAFETY: `check` has compared the slices with the shape.
            unsafe { input_grad_last(c, &patches, &which, w, (a, b), out) };
            continue;
        }
        let (gw, flat) = (patches.grid.1, patches.grid.0 == 1 && c.stride == (1, 1));
        let target = PlaneTarget {
            p: out.get().wrapping_add(a * c.in_size.1 + b),
            image: c.in_channels * plane,
            plane,
            grid: patches.grid,
            row: if flat { gw } else { c.stride.0 * c.in_size.1 },
            col: c.stride.1,
        };
        // Row c, column (o, tap).
        let at =
            |g: usize, ch: usize, k: usize| w[((g * og + k / which.len()) * cg + ch) * taps + which[k % which.len()]];
        if conv_direct::suits::<T>(cg, &patches) {
            let at = |o: usize, k: usize| at(o / cg, o % cg, k);
            let (step, null) = (og * patches.plane, std::ptr::null());
            // SAFETY: as above.
            unsafe { direct(&patches, step, &target, c.groups, cg, &at, null, false) };
            continue;
        }
        for g in 0..c.groups {
            let to = PlaneTarget { p: target.p.wrapping_add(g * cg * plane), ..target };
            let patches = patches.moved(g * og * patches.plane);
            let filters = w[g * og * cg * taps..].as_ptr();
            // SAFETY: as above.
            unsafe {
                if taps == 1 {
                    // One tap: the filters are a plain matrix, used transposed.
                    let a = Strided { p: filters, rs: 1, cs: cg, rows: cg };
                    parallel(cg, patches.pixels(), depth, &a, &patches, &to, &Finish::plain());
                } else if patches.pixels() <= FEW {
                    let in_order = which.iter().enumerate().all(|(i, &t)| i == t);
                    let a = Turned { w: filters, channels: cg, taps, which: &which, in_order };
                    parallel(cg, patches.pixels(), depth, &a, &patches, &to, &Finish::plain());
                } else {
                    let turned = turn(w, g * og, (og, cg, taps), &which);
                    let a = Strided { p: turned.as_ptr(), rs: depth, cs: 1, rows: cg };
                    parallel(cg, patches.pixels(), depth, &a, &patches, &to, &Finish::plain());
                }
            }
        }
    }
}

/// Up to so many pixels filters are turned around panel by panel, which is done anew for every block of pixels.
const FEW: usize = 2048;

/// Row c, column (o, tap) of the chosen taps of filters [o, c, tap] from filter `first`.
fn turn<T: Real>(w: &[T], first: usize, (og, cg, taps): (usize, usize, usize), which: &[usize]) -> Vec<T> {
    let mut turned = vec![T::ZERO; cg * og * which.len()];
    crate::pool::parts(
        &mut turned,
        (1usize << 15).div_ceil(og * which.len().max(1)) * og * which.len(),
        |start, part| {
            let (row, chosen) = (og * which.len(), which.len());
            let first_ch = start / row;
            // Filters outermost: what a part reads of one filter is consecutive.
            for o in 0..og {
                for (ch, out) in part.chunks_exact_mut(row).enumerate() {
                    let from = &w[((first + o) * cg + first_ch + ch) * taps..][..taps];
                    for (v, &t) in out[o * chosen..(o + 1) * chosen].iter_mut().zip(which) {
                        *v = from[t];
                    }
                }
            }
        },
    );
    turned
}

/// One phase of the input's gradient with channels last.
unsafe fn input_grad_last<T: Real>(
    c: &Conv2d,
    patches: &Patches<T>,
    which: &[usize],
    w: &[T],
    (a, b): (usize, usize),
    out: Shared<T>,
) {
    let (cg, og, taps, depth) = (c.group_in(), c.group_out(), c.kernel.0 * c.kernel.1, patches.depth());
    if c.depthwise() {
        let turned: Vec<T> =
            (0..which.len() * c.groups).map(|e| w[e % c.groups * taps + which[e / c.groups]]).collect();
        let to = PlaneTarget {
            p: out.get().wrapping_add((a * c.in_size.1 + b) * c.groups),
            image: c.in_channels * c.in_size.0 * c.in_size.1,
            plane: 1,
            grid: patches.grid,
            row: c.stride.0 * c.in_size.1 * c.groups,
            col: c.stride.1 * c.groups,
        };
        // SAFETY: the caller's.
        return unsafe { conv_depthwise::depthwise_last(patches, c.groups, &turned, std::ptr::null(), false, &to) };
    }
    let (pixels, per) = (patches.pixels(), patches.grid.0 * patches.grid.1);
    let mut rows = vec![T::ZERO; if c.stride == (1, 1) { 0 } else { pixels * cg }];
    for g in 0..c.groups {
        let at = |ch: usize, k: usize| w[((g * og + k % og) * cg + ch) * taps + which[k / og]];
        let turned: Vec<T> = (0..depth * cg).map(|e| at(e % cg, e / cg)).collect();
        let b_side = Strided { p: turned.as_ptr(), rs: cg, cs: 1, rows: depth };
        let patches = patches.moved(g * og);
        let to = if rows.is_empty() {
            RowMajor { p: out.get().wrapping_add(g * cg), rs: c.in_channels }
        } else {
            RowMajor { p: rows.as_mut_ptr(), rs: cg }
        };
        // SAFETY: the caller's; `rows` has one row a pixel.
        unsafe {
            parallel(pixels, cg, depth, &PixelRows(&patches), &b_side, &to, &Finish::plain());
            for (e, row) in rows.chunks_exact(cg).enumerate() {
                let (n, i, j) = (e / per, e % per / patches.grid.1, e % patches.grid.1);
                let (y, x) = (i * c.stride.0 + a, j * c.stride.1 + b);
                let to = ((n * c.in_size.0 + y) * c.in_size.1 + x) * c.in_channels + g * cg;
                std::ptr::copy_nonoverlapping(row.as_ptr(), out.get().add(to), cg);
            }
        }
    }
}

/// Products of at most this many elements are summed over images in parts, as there is too little else to share out.
const SMALL: usize = 16 << 10;

/// The gradient of the filter, `dw`, from the input and the gradient of the output.
pub fn conv2d_filter_grad<T: Real>(c: &Conv2d, x: &[T], dy: &[T], dw: &mut [T]) {
    c.check(x.len(), dw.len(), dy.len());
    if dw.is_empty() {
        return;
    }
    if dy.is_empty() || x.is_empty() {
        dw.fill(T::ZERO);
        return;
    }
    let patches = c.patches(x.as_ptr());
    if c.depthwise() {
        // SAFETY: `check` has compared the slices with the shape.
        return unsafe { conv_depthwise::depthwise_filter_grad(&patches, c.groups, c.channels_last, dy, dw) };
    }
    let (cg, og, depth, taps) = (c.group_in(), c.group_out(), patches.depth(), patches.taps.len());
    if !c.channels_last && conv_dots::suits(og, &patches) {
        // SAFETY: as above.
        return unsafe { conv_dots::filter_grad(&patches, cg * patches.plane, c.groups, og, dy.as_ptr(), dw) };
    }
    let plane = c.out_size.0 * c.out_size.1;
    let size = depth * og;
    let parts = if size <= SMALL { c.images.min(16) } else { 1 };
    let per = c.images.div_ceil(parts);
    let parts = c.images.div_ceil(per);
    let mut sums = vec![T::ZERO; parts * size];
    for g in 0..c.groups {
        let all = Shared(sums.as_mut_ptr());
        let one = |part: usize| {
            let n = part * per;
            let mut patches = patches.moved(n * patches.image + g * cg * patches.plane);
            patches.images = per.min(c.images - n);
            let image = c.out_channels * plane;
            let to = RowMajor { p: all.get().wrapping_add(part * size), rs: og };
            let finish = Finish::plain();
            // SAFETY: as above; each part has a block of `sums` of its own.
            unsafe {
                if c.channels_last {
                    let p = dy.as_ptr().wrapping_add(n * image + g * og);
                    let b = Strided { p, rs: c.out_channels, cs: 1, rows: patches.pixels() };
                    parallel(depth, og, patches.pixels(), &patches, &b, &to, &finish);
                } else {
                    let b = PlaneColumns { p: dy.as_ptr().wrapping_add(n * image + g * og * plane), image, plane };
                    parallel(depth, og, patches.pixels(), &patches, &b, &to, &finish);
                }
            }
        };
        if parts == 1 {
            one(0);
        } else {
            crate::pool::chunks(parts, one);
        }
        let (first, rest) = sums.split_at_mut(size);
        for part in rest.chunks_exact(size) {
            for (s, &v) in first.iter_mut().zip(part) {
                *s += v;
            }
        }
        // Rows are (channel, tap) or (tap, channel).
        let first = &first[..];
        crate::pool::parts(&mut dw[g * size..(g + 1) * size], 8 * depth, |start, part| {
            let o = start / depth;
            let some = part.len() / depth;
            if !c.channels_last {
                // SAFETY: `first` is [depth, og], the part [some, depth].
                return unsafe { transpose(first[o..].as_ptr(), og, depth, some, depth, part.as_mut_ptr()) };
            }
            for t in 0..taps {
                for ch in 0..cg {
                    for i in 0..some {
                        part[i * depth + ch * taps + t] = first[(t * cg + ch) * og + o + i];
                    }
                }
            }
        });
    }
}
