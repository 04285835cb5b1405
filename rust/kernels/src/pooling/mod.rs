//! Maximum and average pooling over two or three axes. Gradients are in `grad`.
//!
//! As in Paddle's CPU kernels, a maximum starts from -FLT_MAX and compares the elements of its window in order.

pub mod grad;
pub mod pyramid;
pub mod unpool;

use crate::conv::band::{lanes, share, Band};
use crate::conv::patches::Patches;
use crate::gemm::operands::with_scratch;
use crate::pool::SharedPtr;
use crate::types::{Float, Number, Vector};

/// The shape of a pooling. Two-dimensional pooling has a first axis of size 1 (kernel 1, stride 1, no padding).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    pub images: usize,
    pub channels: usize,
    pub in_size: [usize; 3],
    pub out_size: [usize; 3],
    pub kernel: [usize; 3],
    pub stride: [usize; 3],
    pub pad: [usize; 3],
    /// Padding after each axis.
    pub pad_after: [usize; 3],
    /// Windows divide the axis evenly; kernel, stride and padding are ignored.
    pub adaptive: bool,
    /// An average counts only the elements within the input.
    pub exclusive: bool,
    pub channels_last: bool,
}

/// The elements of a window along one axis, and the count of an average: of the elements within the input, or within input
/// and padding.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    start: usize,
    end: usize,
    pub counted: isize,
}

impl Pool {
    /// Two-dimensional pooling of planes.
    pub fn planes(
        (images, channels): (usize, usize),
        (h, w): (usize, usize),
        (oh, ow): (usize, usize),
        (kh, kw): (usize, usize),
        (sh, sw): (usize, usize),
        (ph, pw): (usize, usize),
    ) -> Pool {
        Pool {
            images,
            channels,
            in_size: [1, h, w],
            out_size: [1, oh, ow],
            kernel: [1, kh, kw],
            stride: [1, sh, sw],
            pad: [0, ph, pw],
            pad_after: [0, ph, pw],
            adaptive: false,
            exclusive: true,
            channels_last: false,
        }
    }
    pub fn in_len(&self) -> usize {
        self.images * self.channels * self.in_size.iter().product::<usize>()
    }
    pub fn out_len(&self) -> usize {
        self.images * self.channels * self.out_size.iter().product::<usize>()
    }
    pub(crate) fn check(&self, x: usize, y: usize) {
        assert_eq!((x, y), (self.in_len(), self.out_len()), "sizes do not fit the pooling");
        assert!(self.adaptive || self.stride.iter().chain(&self.kernel).all(|&s| s > 0), "a stride or kernel of 0");
    }
    pub(crate) fn windows(&self, axis: usize) -> Vec<Window> {
        let (size, out) = (self.in_size[axis], self.out_size[axis]);
        let one = |o: usize| {
            if self.adaptive {
                let (start, end) = (o * size / out, ((o + 1) * size).div_ceil(out));
                return Window { start, end, counted: (end - start) as isize };
            }
            let first = (o * self.stride[axis]) as isize - self.pad[axis] as isize;
            let last = (first + self.kernel[axis] as isize).min((size + self.pad_after[axis]) as isize);
            let (start, end) = (first.max(0), last.min(size as isize));
            let counted = if self.exclusive { end - start } else { last - first };
            Window { start: start as usize, end: end.max(start) as usize, counted }
        };
        (0..out).map(one).collect()
    }
    /// Distances of input elements along the three axes, and of the planes.
    pub(crate) fn strides(&self) -> ([usize; 3], usize) {
        let [_, h, w] = self.in_size;
        let c = if self.channels_last { self.channels } else { 1 };
        ([h * w * c, w * c, c], self.in_size.iter().product::<usize>())
    }
    /// Start of channel `c` of image `n` in the input and in the output, and the distance between output elements.
    pub(crate) fn plane(&self, index: usize) -> (usize, usize, usize) {
        let (n, c) = (index / self.channels, index % self.channels);
        let (pi, po) = (self.in_size.iter().product::<usize>(), self.out_size.iter().product::<usize>());
        if self.channels_last {
            (n * pi * self.channels + c, n * po * self.channels + c, self.channels)
        } else {
            (index * pi, index * po, 1)
        }
    }
    /// The input as patches with each channel as an image, for pooling of planes and volumes.
    pub(crate) fn patches<T: Float>(&self, x: &[T]) -> Patches<T> {
        let [d, h, w] = self.in_size;
        let [kd, kh, kw] = self.kernel;
        let at = |k: usize, axis: usize| k as isize - self.pad[axis] as isize;
        Patches {
            p: x.as_ptr(),
            image: d * h * w,
            plane: d * h * w,
            slice: h * w,
            row: w,
            col: 1,
            size: self.in_size,
            channels: 1,
            taps: (0..kd * kh * kw).map(|t| [at(t / (kh * kw), 0), at(t / kw % kh, 1), at(t % kw, 2)]).collect(),
            images: self.images * self.channels,
            grid: self.out_size,
            step: self.stride,
        }
    }
    /// Whether windows are regular and small enough to compute vectors of outputs.
    pub(crate) fn regular(&self) -> bool {
        // Rows are copied, split by stride.
        let near = self.stride.iter().all(|&s| s <= 64);
        // Number of copies of each slice of the input.
        let copies = self.kernel[0].div_ceil(self.stride[0]);
        near && copies <= 4 && !self.adaptive && !self.channels_last && self.kernel.iter().product::<usize>() <= 49
    }
    /// Whether windows are over planes, and their columns neighbours or every second one.
    fn flat(&self) -> bool {
        let is_plane = (self.in_size[0], self.out_size[0], self.kernel[0], self.pad[0]) == (1, 1, 1, 0);
        is_plane && self.stride[2] <= 2 && !self.adaptive && !self.channels_last
    }
    /// Calls `f(plane, out index, [windows])` for the outputs of plane `index`.
    #[inline(always)]
    pub(crate) fn each(&self, [d, h, w]: [&[Window]; 3], mut f: impl FnMut(usize, [&Window; 3])) {
        let mut o = 0;
        for wd in d {
            for wh in h {
                for ww in w {
                    f(o, [wd, wh, ww]);
                    o += 1;
                }
            }
        }
    }
}

/// The first offset and the row distance of a window of K x K contiguous columns.
#[inline(always)]
fn square<const K: usize>([d, h, w]: [&Window; 3], [sd, sh, sw]: [usize; 3]) -> Option<(usize, usize)> {
    let is = sw == 1 && d.end - d.start == 1 && h.end - h.start == K && w.end - w.start == K;
    is.then_some((d.start * sd + h.start * sh + w.start, sh))
}

/// Calls `f(offset)` for the elements of a window in order. Common sizes are compile-time constants.
#[inline(always)]
pub(crate) fn scan(window: [&Window; 3], strides: [usize; 3], mut f: impl FnMut(usize)) {
    if let Some((at, row)) = square::<2>(window, strides) {
        (0..4).for_each(|k| f(at + k / 2 * row + k % 2));
    } else if let Some((at, row)) = square::<3>(window, strides) {
        (0..9).for_each(|k| f(at + k / 3 * row + k % 3));
    } else {
        let ([d, h, w], [sd, sh, sw]) = (window, strides);
        for z in d.start..d.end {
            for y in h.start..h.end {
                let start = z * sd + y * sh + w.start * sw;
                (0..w.end - w.start).for_each(|k| f(start + k * sw));
            }
        }
    }
}

fn lowest<T: Float>() -> T {
    T::from_f64(-f32::MAX as f64)
}

pub(crate) fn counted<T: Float>(w: [&Window; 3]) -> T {
    T::from_f64(w.iter().map(|w| w.counted).product::<isize>() as f64)
}

/// `y` = the maximum of each window.
pub fn max_pool<T: Float>(p: &Pool, x: &[T], y: &mut [T]) {
    pool(p, x, y, true)
}

/// `y` = the average of each window.
pub fn avg_pool<T: Float>(p: &Pool, x: &[T], y: &mut [T]) {
    pool(p, x, y, false)
}

fn pool<T: Float>(p: &Pool, x: &[T], y: &mut [T], max: bool) {
    p.check(x.len(), y.len());
    if y.is_empty() {
        return;
    }
    if p.flat() {
        return flat_pool(p, x, y, max);
    }
    if p.regular() {
        return regular_pool(p, x, y, max);
    }
    let windows = [p.windows(0), p.windows(1), p.windows(2)];
    let w = windows.each_ref().map(|w| &w[..]);
    let (strides, _) = p.strides();
    let out = SharedPtr(y.as_mut_ptr());
    share(p.images * p.channels, x.len() / (p.images * p.channels) * 4, |index| {
        let (i, o, step) = p.plane(index);
        let x = &x[i..];
        p.each(w, |at, w| {
            let mut s = if max { lowest() } else { T::ZERO };
            scan(w, strides, |e| {
                s = if !max {
                    s + x[e]
                } else if s > x[e] {
                    s
                } else {
                    x[e]
                };
            });
            if !max {
                s = s / counted(w);
            }
            // SAFETY: within `y`; each element belongs to one plane.
            unsafe { *out.get().add(o + at * step) = s };
        });
    });
}

#[inline(always)]
unsafe fn row_body<V: Vector, const MAX: bool>(
    x: *const V::T,
    offsets: &[usize],
    n: usize,
    sizes: *const V::T,
    height: V::T,
    y: *mut V::T,
) {
    // SAFETY: the caller's row, with slack for a vector; n outputs.
    unsafe {
        let mut j = 0;
        while j < n {
            let left = V::L.min(n - j);
            let mut s = if MAX { V::splat(lowest()) } else { V::zero() };
            for &off in offsets {
                let v = V::load(x.add(j + off));
                s = if MAX { s.max(v) } else { s.add(v) };
            }
            if !MAX {
                s = s.div(V::load_n(sizes.add(j), left).mul(V::splat(height)));
            }
            s.store_n(y.add(j), left);
            j += left;
        }
    }
}

crate::by_level! {
    unsafe fn pool_row<T, const MAX: bool>(x: *const T, offsets: &[usize], n: usize, sizes: *const T, height: T,
        y: *mut T) = row_body
}

/// The windows over a plane. Those of columns `inner` lie within its rows.
struct PlaneWindows<'a> {
    width: usize,
    rows: &'a [Window],
    cols: &'a [Window],
    inner: std::ops::Range<usize>,
    /// Columns of an inner window.
    kernel: usize,
}

/// Rows of outputs whose vectors of columns are computed one after the other: what depends on the columns is computed
/// once for them.
const TOGETHER: usize = 8;

#[inline(always)]
unsafe fn plane_body<V: Vector, const MAX: bool, const STEP: usize>(p: &PlaneWindows, x: *const V::T, y: *mut V::T) {
    // SAFETY: the caller's plane and outputs; windows lie within the plane.
    unsafe {
        let count = p.cols.len();
        for (block, rows) in p.rows.chunks(TOGETHER).enumerate() {
            let y = y.add(block * TOGETHER * count);
            let mut j = 0;
            while j < count {
                let w = &p.cols[j];
                let (x, y) = (x.add(w.start), y.add(j));
                if !p.inner.contains(&j) {
                    for (i, h) in rows.iter().enumerate() {
                        let mut s = if MAX { lowest() } else { V::T::ZERO };
                        for r in h.start..h.end {
                            for c in 0..w.end - w.start {
                                let v = *x.add(r * p.width + c);
                                s = if !MAX {
                                    s + v
                                } else if s > v {
                                    s
                                } else {
                                    v
                                };
                            }
                        }
                        let number = V::T::from_f64(h.counted as f64 * w.counted as f64);
                        *y.add(i * count) = if MAX { s } else { s / number };
                    }
                    j += 1;
                    continue;
                }
                let n = V::L.min(p.inner.end - j);
                for (i, h) in rows.iter().enumerate() {
                    let mut s = if MAX { V::splat(lowest()) } else { V::zero() };
                    for r in h.start..h.end {
                        let row = x.add(r * p.width);
                        let mut c = 0;
                        while V::PAIRS && STEP == 2 && c + 2 <= p.kernel {
                            let [a, b] = V::load_pairs(row.add(c), n);
                            s = if MAX { s.max(a).max(b) } else { s.add(a).add(b) };
                            c += 2;
                        }
                        for c in c..p.kernel {
                            let at = row.add(c);
                            let v = match (STEP, n == V::L) {
                                (1, true) => V::load(at),
                                (1, false) => V::load_n(at, n),
                                (_, true) => V::load_even(at),
                                _ => V::load_even_n(at, n),
                            };
                            s = if MAX { s.max(v) } else { s.add(v) };
                        }
                    }
                    if !MAX {
                        s = s.div(V::splat(V::T::from_f64(h.counted as f64 * w.counted as f64)));
                    }
                    s.store_n(y.add(i * count), n);
                }
                j += n;
            }
        }
    }
}

crate::by_level! {
    unsafe fn pool_plane<T, const MAX: bool, const STEP: usize>(p: &PlaneWindows, x: *const T, y: *mut T) = plane_body
}

/// Planes: rows in place, a vector of outputs at a time; windows that reach into the padding one by one.
fn flat_pool<T: Float>(p: &Pool, x: &[T], y: &mut [T], max: bool) {
    let (rows, cols) = (p.windows(1), p.windows(2));
    let (size, wide) = (p.in_size[1] * p.in_size[2], p.kernel[2] as isize);
    let whole = |w: &Window| (w.end - w.start) as isize == wide && w.counted == wide;
    let first = cols.iter().position(whole).unwrap_or(cols.len());
    let inner = first..first + cols[first..].iter().take_while(|w| whole(w)).count();
    let plane = PlaneWindows { width: p.in_size[2], rows: &rows, cols: &cols, inner, kernel: p.kernel[2] };
    let run = match (max, p.stride[2]) {
        (true, 1) => pool_plane::<T, true, 1>,
        (true, _) => pool_plane::<T, true, 2>,
        (false, 1) => pool_plane::<T, false, 1>,
        (false, _) => pool_plane::<T, false, 2>,
    };
    let (out, each) = (SharedPtr(y.as_mut_ptr()), rows.len() * cols.len());
    share(p.images * p.channels, size + each * p.kernel[1] * p.kernel[2] / 4, |n| {
        // SAFETY: `check` has compared the slices with the shape; each plane of `y` belongs to one call.
        unsafe { run(&plane, x[n * size..].as_ptr(), out.get().add(n * each)) }
    });
}

/// Planes and volumes: rows of a padded copy, a vector of outputs at a time.
fn regular_pool<T: Float>(p: &Pool, x: &[T], y: &mut [T], max: bool) {
    let patches = p.patches(x);
    let [gd, gh, gw] = patches.grid;
    let band = Band::new(&patches);
    let (size, offsets) = (band.elements(&patches, gh), band.offsets(&patches, gh));
    let row = band.row(&patches);
    let [slices, rows, cols] = [p.windows(0), p.windows(1), p.windows(2)];
    let sizes: Vec<T> = cols.iter().map(|w| T::from_f64(w.counted as f64)).collect();
    let out = SharedPtr(y.as_mut_ptr());
    let fill = if max { lowest() } else { T::ZERO };
    share(patches.slices(), size + gh * gw * offsets.len() / 4, |n| {
        with_scratch::<T, _>(size + 2 * lanes::<T>(), |buf| {
            // SAFETY: the buffer holds the copy of a plane with slack; each plane of `y` belongs to one call.
            unsafe {
                band.copy(&patches, n, 0, (gh, gh), buf, fill);
                let deep = slices[n % gd].counted;
                for (i, w) in rows.iter().enumerate() {
                    let y = out.get().add((n * gh + i) * gw);
                    let (x, height) = (buf.add(i * row), T::from_f64((deep * w.counted) as f64));
                    if max {
                        pool_row::<T, true>(x, &offsets, gw, sizes.as_ptr(), height, y);
                    } else {
                        pool_row::<T, false>(x, &offsets, gw, sizes.as_ptr(), height, y);
                    }
                }
            }
        });
    });
}

/// `max_pool` with positions: `mask` is the index of the maximum in its plane (row-major), -1 if no element is above
/// -FLT_MAX.
pub fn max_pool_with_index<T: Float>(p: &Pool, x: &[T], y: &mut [T], mask: &mut [i32]) {
    p.check(x.len(), y.len());
    assert!(mask.len() == y.len());
    if y.is_empty() {
        return;
    }
    let windows = [p.windows(0), p.windows(1), p.windows(2)];
    let w = windows.each_ref().map(|w| &w[..]);
    let (strides, _) = p.strides();
    let (out, mask) = (SharedPtr(y.as_mut_ptr()), SharedPtr(mask.as_mut_ptr()));
    share(p.images * p.channels, x.len() / (p.images * p.channels) * 4, |index| {
        let (i, o, step) = p.plane(index);
        let x = &x[i..];
        p.each(w, |at, w| {
            let (mut s, mut which) = (lowest(), -1);
            scan(w, strides, |e| {
                if s < x[e] {
                    (s, which) = (x[e], (e / strides[2]) as i32);
                }
            });
            // SAFETY: within both; each element belongs to one plane.
            unsafe {
                *out.get().add(o + at * step) = s;
                *mask.get().add(o + at * step) = which;
            }
        });
    });
}
