//! Convolution along one to three axes, its input gradient and its filter gradient, for planes (NCHW, NCDHW) and
//! channels last (NHWC, NDHWC), with groups, strides, dilations and any padding. Filters are [out, in / groups, axes..]
//! in both layouts. Inputs with fewer axes have leading axes of size 1.
//!
//! A convolution is a matrix product with the patches of an image (`patches`), direct for few output channels
//! (`direct`), or Winograd's for 3 x 3 filters (`winograd`); with filters that were packed before it runs on the matrix
//! unit (`packed`). An input gradient is one convolution of the output's
//! gradient per phase of the stride.

pub(crate) mod band;
pub mod conv_shift;
pub mod correlation;
pub mod deformable;
pub mod deformable_conv;
pub(crate) mod depthwise;
pub(crate) mod direct;
pub(crate) mod dots;
pub mod packed;
pub(crate) mod patches;
pub mod row_conv;
pub mod tree_conv;
pub mod unfold;
pub mod winograd;

use crate::conv::direct::direct;
use crate::conv::patches::{Patches, PixelRows, PlaneColumns, PlaneTarget, TransposedFilters};
use crate::conv::winograd::tiles::{Filters, Image};
use crate::conv::winograd::WinogradOutput;
use crate::gemm::amx;
use crate::gemm::driver::parallel;
use crate::gemm::operands::Finish;
use crate::gemm::pack::{transpose, RowMajor, Strided};
use crate::pool::SharedPtr;
use crate::types::Float;

/// The shape of a convolution. Padding after each axis follows from the output's size; elements outside the input count
/// as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv {
    pub images: usize,
    pub in_channels: usize,
    pub in_size: [usize; 3],
    pub out_channels: usize,
    pub out_size: [usize; 3],
    pub kernel: [usize; 3],
    pub stride: [usize; 3],
    pub dilation: [usize; 3],
    /// Padding before each axis.
    pub pad: [usize; 3],
    pub groups: usize,
    pub channels_last: bool,
    /// f32 operands of `convolve` are rounded to bf16 where the processor multiplies bf16 numbers faster.
    pub bf16: bool,
}

fn product(sizes: [usize; 3]) -> usize {
    sizes.iter().product()
}

impl Conv {
    pub fn in_len(&self) -> usize {
        self.images * self.in_channels * product(self.in_size)
    }
    pub fn out_len(&self) -> usize {
        self.images * self.out_channels * product(self.out_size)
    }
    pub fn filter_len(&self) -> usize {
        self.out_channels * self.group_in() * product(self.kernel)
    }
    fn group_in(&self) -> usize {
        self.in_channels / self.groups
    }
    fn group_out(&self) -> usize {
        self.out_channels / self.groups
    }
    /// Whether each group has one input and one output channel.
    fn depthwise(&self) -> bool {
        self.in_channels == self.groups && self.out_channels == self.groups && self.groups > 1
    }

    fn check(&self, x: usize, w: usize, y: usize) {
        assert!(
            self.groups > 0
                && self.in_channels.is_multiple_of(self.groups)
                && self.out_channels.is_multiple_of(self.groups)
        );
        assert!(self.stride.iter().chain(&self.dilation).all(|&s| s > 0));
        assert_eq!((x, w, y), (self.in_len(), self.filter_len(), self.out_len()), "sizes do not fit the convolution");
    }

    fn taps(&self) -> impl Iterator<Item = [usize; 3]> {
        let [_, kh, kw] = self.kernel;
        (0..product(self.kernel)).map(move |t| [t / (kh * kw), t / kw % kh, t % kw])
    }

    /// The patches of the input under the output's pixels.
    fn patches<T: Float>(&self, x: *const T) -> Patches<T> {
        let at = |k: [usize; 3]| std::array::from_fn(|a| (k[a] * self.dilation[a]) as isize - self.pad[a] as isize);
        source(x, self.images, self.in_channels, self.in_size, self.channels_last, self.group_in())
            .with(self.taps().map(at).collect(), self.out_size, self.stride)
            .flattened()
    }

    /// A phase of the input, its pixels `phase + stride * grid`: the patches of the output's gradient under the filter
    /// taps that reach them, and these taps.
    fn phase<T: Float>(&self, dy: *const T, phase: [usize; 3]) -> (Patches<T>, Vec<usize>) {
        let offset = |a: usize, k: usize| {
            let (x, stride) =
                ((phase[a] + self.pad[a]) as isize - (k * self.dilation[a]) as isize, self.stride[a] as isize);
            (x.rem_euclid(stride) == 0).then(|| x.div_euclid(stride))
        };
        let (mut taps, mut which) = (Vec::new(), Vec::new());
        for (t, k) in self.taps().enumerate() {
            if let (Some(z), Some(y), Some(x)) = (offset(0, k[0]), offset(1, k[1]), offset(2, k[2])) {
                taps.push([z, y, x]);
                which.push(t);
            }
        }
        let grid = std::array::from_fn(|a| self.in_size[a].saturating_sub(phase[a]).div_ceil(self.stride[a]));
        let patches = source(dy, self.images, self.out_channels, self.out_size, self.channels_last, self.group_out())
            .with(taps, grid, [1; 3]);
        // With a stride the rows of the target are not contiguous: the grid keeps its rows.
        (if self.stride == [1; 3] { patches.flattened() } else { patches }, which)
    }

    /// Whether Winograd's algorithm applies to this convolution and is faster, for outputs of this size.
    fn transformed<T: Float>(&self, of: WinogradOutput, [_, h, w]: [usize; 3]) -> bool {
        let plain = self.kernel == [1, 3, 3]
            && (self.groups, self.stride, self.dilation) == (1, [1; 3], [1; 3])
            && (self.in_size[0], self.out_size[0], self.pad[0]) == (1, 1, 0);
        plain && winograd::suits::<T>(of, self.images, [self.in_channels, self.out_channels], [h, w])
    }

    fn image<T>(&self, p: *const T, channels: usize, [_, h, w]: [usize; 3]) -> Image<T> {
        let (plane, col) = if self.channels_last { (1, channels) } else { (h * w, 1) };
        Image { p: p as *mut T, image: channels * h * w, plane, row: w * col, col, channels, size: [h, w] }
    }

    /// Start of the window of output 0.
    fn origin(&self) -> [isize; 2] {
        [-(self.pad[1] as isize), -(self.pad[2] as isize)]
    }

    fn input<T>(&self, p: *const T) -> Image<T> {
        self.image(p, self.in_channels, self.in_size)
    }

    fn output<T>(&self, p: *const T) -> Image<T> {
        self.image(p, self.out_channels, self.out_size)
    }

    /// Every phase that has a pixel.
    fn phases(&self) -> impl Iterator<Item = [usize; 3]> {
        let [d, h, w]: [usize; 3] = std::array::from_fn(|a| self.stride[a].min(self.in_size[a]));
        (0..d * h * w).map(move |p| [p / (h * w), p / w % h, p % w])
    }

    /// The input's pixels of a phase as a target of `grid`, a channel's elements `plane` apart.
    fn phase_target<T>(&self, dx: *mut T, phase: [usize; 3], grid: [usize; 3]) -> PlaneTarget<T> {
        let [_, h, w] = self.in_size;
        let (pixels, col) = (product(self.in_size), if self.channels_last { self.in_channels } else { 1 });
        // The rows of a flattened grid are contiguous.
        let (row, slice) = if self.stride == [1; 3] { (grid[2], grid[1] * grid[2]) } else { (w, h * w) };
        let at = (phase[0] * h + phase[1]) * w + phase[2];
        PlaneTarget {
            p: dx.wrapping_add(at * col),
            image: self.in_channels * pixels,
            plane: if self.channels_last { 1 } else { pixels },
            grid,
            slice: self.stride[0] * slice * col,
            row: self.stride[1] * row * col,
            col: self.stride[2] * col,
        }
    }
}

fn source<T: Float>(
    p: *const T,
    images: usize,
    channels: usize,
    size: [usize; 3],
    channels_last: bool,
    group: usize,
) -> Patches<T> {
    let (pixels, col) = (product(size), if channels_last { channels } else { 1 });
    let plane = if channels_last { 1 } else { pixels };
    let (row, slice) = (size[2] * col, size[1] * size[2] * col);
    let (taps, grid, step) = (Vec::new(), [0; 3], [1; 3]);
    Patches { p, image: channels * pixels, plane, slice, row, col, size, channels: group, taps, images, grid, step }
}

impl<T> Patches<T> {
    fn with(mut self, taps: Vec<[isize; 3]>, grid: [usize; 3], step: [usize; 3]) -> Self {
        (self.taps, self.grid, self.step) = (taps, grid, step);
        self
    }
}

/// Convolutions of f32 and f64, compiled once, in this crate: generic functions would be compiled again in every
/// calling crate, with all their kernels.
pub trait Convolve: Float {
    fn convolve(c: &Conv, x: &[Self], w: &[Self], bias: Option<&[Self]>, relu: bool, y: &mut [Self]);
    fn input_grad(c: &Conv, dy: &[Self], w: &[Self], dx: &mut [Self]);
    fn filter_grad(c: &Conv, x: &[Self], dy: &[Self], dw: &mut [Self]);
}

macro_rules! convolve_for {
    ($($t:ty)*) => {$(
        impl Convolve for $t {
            fn convolve(c: &Conv, x: &[$t], w: &[$t], bias: Option<&[$t]>, relu: bool, y: &mut [$t]) {
                convolve_of(c, x, w, bias, relu, y)
            }
            fn input_grad(c: &Conv, dy: &[$t], w: &[$t], dx: &mut [$t]) {
                input_grad_of(c, dy, w, dx)
            }
            fn filter_grad(c: &Conv, x: &[$t], dy: &[$t], dw: &mut [$t]) {
                filter_grad_of(c, x, dy, dw)
            }
        }
    )*};
}
convolve_for!(f32 f64);

/// `y = act(x * w + bias)`, one bias per channel. Panics if a slice does not fit the shape.
pub fn convolve<T: Convolve>(c: &Conv, x: &[T], w: &[T], bias: Option<&[T]>, relu: bool, y: &mut [T]) {
    T::convolve(c, x, w, bias, relu, y)
}

/// The gradient of the input, `dx`, from that of the output. Also the forward pass of a transposed convolution.
pub fn input_grad<T: Convolve>(c: &Conv, dy: &[T], w: &[T], dx: &mut [T]) {
    T::input_grad(c, dy, w, dx)
}

/// The gradient of the filter, `dw`, from the input and the gradient of the output.
pub fn filter_grad<T: Convolve>(c: &Conv, x: &[T], dy: &[T], dw: &mut [T]) {
    T::filter_grad(c, x, dy, dw)
}

fn convolve_of<T: Float>(c: &Conv, x: &[T], w: &[T], bias: Option<&[T]>, relu: bool, y: &mut [T]) {
    c.check(x.len(), w.len(), y.len());
    assert!(bias.is_none_or(|b| b.len() == c.out_channels), "one bias a channel");
    if y.is_empty() {
        return;
    }
    let pixels = product(c.out_size);
    let bf16 = c.bf16
        && size_of::<T>() == 4
        && amx::bf16::suits(c.group_out(), c.images * pixels, c.group_in() * product(c.kernel));
    if !bf16 && c.transformed::<T>(WinogradOutput::Images, c.out_size) {
        let (ins, outs) = (c.in_channels, c.out_channels);
        let w = Filters { p: w.as_ptr(), outs: 9 * ins, ins: 9, flipped: false, count: [outs, ins] };
        let bias = bias.map_or(std::ptr::null(), |b| b.as_ptr());
        let (from, to) = (c.input(x.as_ptr()), c.output(y.as_mut_ptr()));
        // SAFETY: `check` has compared the slices with the shape.
        if unsafe { winograd::convolve(c.images, &from, &w, bias, relu, &to, c.origin()) } {
            return;
        }
    }
    let patches = c.patches(x.as_ptr());
    let out = SharedPtr(y.as_mut_ptr());
    let target = PlaneTarget {
        p: out.get(),
        image: c.out_channels * pixels,
        plane: pixels,
        grid: patches.grid,
        slice: patches.grid[1] * patches.grid[2],
        row: patches.grid[2],
        col: 1,
    };
    let (cg, og, depth) = (c.group_in(), c.group_out(), patches.depth());
    if c.channels_last && c.depthwise() {
        let transposed: Vec<T> = (0..w.len()).map(|e| w[e % c.groups * depth + e / c.groups]).collect();
        let (slice, row) = (target.slice * c.groups, target.row * c.groups);
        let to = PlaneTarget { slice, row, col: c.groups, ..target };
        let bias = bias.map_or(std::ptr::null(), |b| b.as_ptr());
        // SAFETY: `check` has compared the slices with the shape.
        return unsafe { depthwise::depthwise_last(&patches, c.groups, &transposed, bias, relu, &to) };
    }
    let bias_of = |g: usize| bias.map_or(std::ptr::null(), |b| b[g * og..].as_ptr());
    if !c.channels_last && direct::suits::<T>(og, &patches) {
        let at = |o: usize, k: usize| w[o * depth + k];
        let bias = bias_of(0);
        // SAFETY: as above.
        return unsafe { direct(&patches, cg * patches.plane, &target, c.groups, og, &at, bias, relu) };
    }
    for g in 0..c.groups {
        let w = &w[g * og * depth..(g + 1) * og * depth];
        let mut finish = Finish { relu, bf16, ..Finish::plain() };
        if c.channels_last {
            let patches = patches.moved(g * cg);
            let taps = patches.taps.len();
            // [(tap, channel), out]
            let mut transposed = vec![T::ZERO; w.len()];
            for (e, &v) in w.iter().enumerate() {
                let (o, ch, t) = (e / depth, e % depth / taps, e % taps);
                transposed[(t * cg + ch) * og + o] = v;
            }
            finish.col_bias = bias_of(g);
            let b = Strided { p: transposed.as_ptr(), rs: og, cs: 1, rows: depth };
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

fn input_grad_of<T: Float>(c: &Conv, dy: &[T], w: &[T], dx: &mut [T]) {
    c.check(dx.len(), w.len(), dy.len());
    if dx.is_empty() {
        return;
    }
    if dy.is_empty() {
        dx.fill(T::ZERO);
        return;
    }
    if c.transformed::<T>(WinogradOutput::Images, c.in_size) {
        let (ins, outs) = (c.in_channels, c.out_channels);
        let w = Filters { p: w.as_ptr(), outs: 9, ins: 9 * ins, flipped: true, count: [ins, outs] };
        let (from, to) = (c.output(dy.as_ptr()), c.input(dx.as_mut_ptr()));
        let origin = c.origin().map(|before| -2 - before);
        // SAFETY: `check` has compared the slices with the shape.
        if unsafe { winograd::convolve(c.images, &from, &w, std::ptr::null(), false, &to, origin) } {
            return;
        }
    }
    let (cg, og, taps) = (c.group_in(), c.group_out(), product(c.kernel));
    let out = SharedPtr(dx.as_mut_ptr());
    let plane = product(c.in_size);
    for phase in c.phases() {
        let (patches, which) = c.phase(dy.as_ptr(), phase);
        let (depth, target) = (patches.depth(), c.phase_target(out.get(), phase, patches.grid));
        if c.channels_last {
            // SAFETY: `check` has compared the slices with the shape.
            unsafe { input_grad_last(c, &patches, &which, w, &target, out) };
            continue;
        }
        // Row c, column (o, tap).
        let at =
            |g: usize, ch: usize, k: usize| w[((g * og + k / which.len()) * cg + ch) * taps + which[k % which.len()]];
        if direct::suits::<T>(cg, &patches) {
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
                    // One tap: the filters are a plain matrix, read transposed.
                    let a = Strided { p: filters, rs: 1, cs: cg, rows: cg };
                    parallel(cg, patches.pixels(), depth, &a, &patches, &to, &Finish::plain());
                } else if patches.pixels() <= FEW {
                    let in_order = which.iter().enumerate().all(|(i, &t)| i == t);
                    let a = TransposedFilters { w: filters, channels: cg, taps, which: &which, in_order };
                    parallel(cg, patches.pixels(), depth, &a, &patches, &to, &Finish::plain());
                } else {
                    let transposed = transpose_filters(w, g * og, (og, cg, taps), &which);
                    let a = Strided { p: transposed.as_ptr(), rs: depth, cs: 1, rows: cg };
                    parallel(cg, patches.pixels(), depth, &a, &patches, &to, &Finish::plain());
                }
            }
        }
    }
}

/// Up to this many pixels, filters are transposed panel by panel, again for every block of pixels.
const FEW: usize = 2048;

/// Transposes the chosen taps of filters [o, c, tap] from filter `first` to rows c and columns (o, tap).
fn transpose_filters<T: Float>(
    w: &[T],
    first: usize,
    (og, cg, taps): (usize, usize, usize),
    which: &[usize],
) -> Vec<T> {
    let mut transposed = vec![T::ZERO; cg * og * which.len()];
    crate::pool::parts(
        &mut transposed,
        (1usize << 15).div_ceil(og * which.len().max(1)) * og * which.len(),
        |start, part| {
            let (row, chosen) = (og * which.len(), which.len());
            let first_ch = start / row;
            // Filters outermost: each iteration reads consecutive elements of one filter.
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
    transposed
}

/// One phase of the input's gradient with channels last.
unsafe fn input_grad_last<T: Float>(
    c: &Conv,
    patches: &Patches<T>,
    which: &[usize],
    w: &[T],
    to: &PlaneTarget<T>,
    out: SharedPtr<T>,
) {
    let (cg, og, taps, depth) = (c.group_in(), c.group_out(), product(c.kernel), patches.depth());
    if c.depthwise() {
        let transposed: Vec<T> =
            (0..which.len() * c.groups).map(|e| w[e % c.groups * taps + which[e / c.groups]]).collect();
        // SAFETY: the caller's.
        return unsafe { depthwise::depthwise_last(patches, c.groups, &transposed, std::ptr::null(), false, to) };
    }
    let (pixels, [gd, gh, gw]) = (patches.pixels(), patches.grid);
    let mut rows = vec![T::ZERO; if c.stride == [1; 3] { 0 } else { pixels * cg }];
    for g in 0..c.groups {
        let at = |ch: usize, k: usize| w[((g * og + k % og) * cg + ch) * taps + which[k / og]];
        let transposed: Vec<T> = (0..depth * cg).map(|e| at(e % cg, e / cg)).collect();
        let b_side = Strided { p: transposed.as_ptr(), rs: cg, cs: 1, rows: depth };
        let patches = patches.moved(g * og);
        let product = if rows.is_empty() {
            RowMajor { p: out.get().wrapping_add(g * cg), rs: c.in_channels }
        } else {
            RowMajor { p: rows.as_mut_ptr(), rs: cg }
        };
        // SAFETY: the caller's; `rows` has one row per pixel.
        unsafe {
            parallel(pixels, cg, depth, &PixelRows(&patches), &b_side, &product, &Finish::plain());
            for (e, row) in rows.chunks_exact(cg).enumerate() {
                let (n, z, i, j) = (e / (gd * gh * gw), e / (gh * gw) % gd, e / gw % gh, e % gw);
                let at = n * to.image + z * to.slice + i * to.row + j * to.col + g * cg;
                std::ptr::copy_nonoverlapping(row.as_ptr(), to.p.add(at), cg);
            }
        }
    }
}

/// Results of at most this many elements are summed over images in parts: there is too little other work to
/// parallelise.
const SMALL: usize = 16 << 10;

fn filter_grad_of<T: Float>(c: &Conv, x: &[T], dy: &[T], dw: &mut [T]) {
    c.check(x.len(), dw.len(), dy.len());
    if dw.is_empty() {
        return;
    }
    if dy.is_empty() || x.is_empty() {
        dw.fill(T::ZERO);
        return;
    }
    if c.transformed::<T>(WinogradOutput::Filters, c.out_size) {
        let (from, dy) = (c.input(x.as_ptr()), c.output(dy.as_ptr()));
        // SAFETY: `check` has compared the slices with the shape.
        if unsafe { winograd::filter_grad(c.images, &from, &dy, dw.as_mut_ptr(), c.origin()) } {
            return;
        }
    }
    let patches = c.patches(x.as_ptr());
    if c.depthwise() {
        // SAFETY: `check` has compared the slices with the shape.
        return unsafe { depthwise::depthwise_filter_grad(&patches, c.groups, c.channels_last, dy, dw) };
    }
    let (cg, og, depth, taps) = (c.group_in(), c.group_out(), patches.depth(), patches.taps.len());
    if !c.channels_last && dots::suits(og, &patches) {
        // SAFETY: as above.
        return unsafe { dots::filter_grad(&patches, cg * patches.plane, c.groups, og, dy.as_ptr(), dw) };
    }
    let plane = product(c.out_size);
    let size = depth * og;
    let parts = if size <= SMALL { c.images.min(16) } else { 1 };
    let per = c.images.div_ceil(parts);
    let parts = c.images.div_ceil(per);
    let mut sums = vec![T::ZERO; parts * size];
    for g in 0..c.groups {
        let all = SharedPtr(sums.as_mut_ptr());
        let one = |part: usize| {
            let n = part * per;
            let mut patches = patches.moved(n * patches.image + g * cg * patches.plane);
            patches.images = per.min(c.images - n);
            let image = c.out_channels * plane;
            let to = RowMajor { p: all.get().wrapping_add(part * size), rs: og };
            let finish = Finish::plain();
            // SAFETY: as above; blocks of `sums` of different parts are disjoint.
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

/// Adds a bias per channel to y, which has `channels` channels in the layout of `conv`.
pub fn add_bias<T: Float>(conv: &Conv, channels: usize, bias: &[T], y: &mut [T]) {
    assert_eq!(bias.len(), channels, "one bias a channel");
    if conv.channels_last {
        for pixel in y.chunks_exact_mut(channels.max(1)) {
            pixel.iter_mut().zip(bias).for_each(|(v, &b)| *v += b);
        }
        return;
    }
    let plane = y.len() / (conv.images * channels).max(1);
    for (at, plane) in y.chunks_exact_mut(plane.max(1)).enumerate() {
        plane.iter_mut().for_each(|v| *v += bias[at % channels]);
    }
}
