//! Gradients of pooling.
//!
//! As in Paddle's CPU kernels, the gradient of a maximum goes to the first element of its window that equals it.
//! Regular windows are processed tap by tap for a whole row of outputs: a tap takes the gradients of the outputs that
//! equal its element, and leaves the others to the next taps. Elements and sums are in padded copies, where the
//! elements of a row are contiguous for every stride.

use crate::conv::band::{share, Band};
use crate::gemm::operands::with_scratch;
use crate::pool::SharedPtr;
use crate::pooling::{counted, scan, Pool, Window};
use crate::simd_fn;
use crate::types::Float;

/// The offset of a window's first element that equals `y`, and whether there is one; `None` for a window without
/// elements. Branch-free over all elements: the position is unpredictable.
#[inline(always)]
fn first<T: Float>(x: &[T], y: T, window: [&Window; 3], strides: [usize; 3]) -> Option<(usize, bool)> {
    let (mut found, mut any, mut some) = (0, false, false);
    scan(window, strides, |at| {
        let hit = x[at] == y;
        found = if any { found } else { at };
        (any, some) = (any | hit, true);
    });
    some.then_some((found, any))
}

/// The gradient of `max_pool`: the gradient of an output goes to the first element of its window that equals it.
pub fn max_pool_grad<T: Float>(p: &Pool, x: &[T], y: &[T], dy: &[T], dx: &mut [T]) {
    p.check(x.len(), y.len());
    assert!(dx.len() == x.len() && dy.len() == y.len());
    if p.regular() && !x.is_empty() && !y.is_empty() {
        return regular_grad(p, Some((x, y)), dy, dx);
    }
    grad(p, dx, |strides, (i, o, step), at, w, dx| {
        let (x, y, dy) = (&x[i..], y[o + at * step], dy[o + at * step]);
        if let Some((e, any)) = first(x, y, w, strides) {
            dx.add(e, if any { dy } else { T::ZERO });
        }
    });
}

/// The gradient of `avg_pool`.
pub fn avg_pool_grad<T: Float>(p: &Pool, dy: &[T], dx: &mut [T]) {
    p.check(dx.len(), dy.len());
    if p.regular() && !dx.is_empty() && !dy.is_empty() {
        return regular_grad(p, None, dy, dx);
    }
    grad(p, dx, |strides, (_, o, step), at, w, dx| {
        let part = T::ONE / counted::<T>(w) * dy[o + at * step];
        scan(w, strides, |e| dx.add(e, part));
    });
}

/// Rows of outputs are padded to a multiple of this number.
const GROUP: usize = 8;

simd_fn! {
    /// Adds the gradients `left` of a row of outputs `y` to the first elements of `x` that equal them. The element of a
    /// tap is at the tap's offset from the output's position, in `x` and in `dx`.
    fn take_row[T: Float](x: &[T], y: &[T], left: &mut [T], offsets: &[usize], dx: &mut [T]) {
        let (y, _) = y.as_chunks::<GROUP>();
        let (left, _) = left.as_chunks_mut::<GROUP>();
        for &off in offsets {
            let (x, dx) = (x[off..].as_chunks::<GROUP>().0, dx[off..].as_chunks_mut::<GROUP>().0);
            for (((x, y), left), dx) in x.iter().zip(y).zip(&mut *left).zip(dx) {
                for i in 0..GROUP {
                    let (hit, g) = (x[i] == y[i], left[i]);
                    dx[i] += if hit { g } else { T::ZERO };
                    left[i] = if hit { T::ZERO } else { g };
                }
            }
        }
    }
}

simd_fn! {
    /// Adds the row `part` at every tap.
    fn add_row[T: Float](part: &[T], offsets: &[usize], dx: &mut [T]) {
        let (part, _) = part.as_chunks::<GROUP>();
        for &off in offsets {
            for (dx, part) in dx[off..].as_chunks_mut::<GROUP>().0.iter_mut().zip(part) {
                for i in 0..GROUP {
                    dx[i] += part[i];
                }
            }
        }
    }
}

simd_fn! {
    /// `dx = ` (or, if `add`, `dx +=`) a row of a padded copy: each of its `step` parts of `pitch` elements has every
    /// `step`th column; the first `pad` columns are padding. Columns that no window reaches are zeros.
    fn join_row[T: Float](row: &[T], step: usize, pad: usize, dx: &mut [T], add: bool) {
        let pitch = row.len() / step;
        let seen = row.len().saturating_sub(pad).min(dx.len());
        let (dx, beyond) = dx.split_at_mut(seen);
        if !add {
            beyond.fill(T::ZERO);
        }
        if seen == 0 {
            return;
        }
        let put = |to: &mut T, v: T| *to = if add { *to + v } else { v };
        if step == 1 {
            return dx.iter_mut().zip(&row[pad..]).for_each(|(to, &v)| put(to, v));
        }
        let mut at = 0;
        if step == 2 {
            // With odd padding the first column belongs to the second part.
            if pad % 2 == 1 {
                put(&mut dx[0], row[pitch + pad / 2]);
                at = 1;
            }
            let from = (pad + at) / 2;
            let (even, odd) = (&row[from..pitch], &row[pitch + from..]);
            let (pairs, _) = dx[at..].as_chunks_mut::<2>();
            at += 2 * pairs.len();
            for ((to, &e), &o) in pairs.iter_mut().zip(even).zip(odd) {
                put(&mut to[0], e);
                put(&mut to[1], o);
            }
        }
        for (at, to) in dx.iter_mut().enumerate().skip(at) {
            put(to, row[(at + pad) % step * pitch + (at + pad) / step]);
        }
    }
}

/// The gradient of regular windows: of their averages, or of the maxima `y` of `x`.
fn regular_grad<T: Float>(p: &Pool, max: Option<(&[T], &[T])>, dy: &[T], dx: &mut [T]) {
    let patches = p.patches(max.map_or(&[][..], |(x, _)| x));
    let ([gd, gh, gw], [id, ih, iw]) = (patches.grid, patches.size);
    let band = Band::new(&patches);
    let (size, offsets) = (band.elements(&patches, gh), band.offsets(&patches, gh));
    let (row, height, pitch) = (band.row(&patches), band.height(&patches, gh), band.pitch);
    let step = p.stride[2];
    let slices = size / (height * step * pitch);
    let [deep, high, wide] = [p.windows(0), p.windows(1), p.windows(2)];
    let (whole, slack) = (gw.next_multiple_of(GROUP), size + GROUP);
    let out = SharedPtr(dx.as_mut_ptr());
    // With a single slice, each element belongs to one row of one copy.
    let alone = id == 1 && gd == 1;
    share(p.images * p.channels, gd * (2 * size + gh * gw * offsets.len() / 2), |index| {
        // SAFETY: only this call accesses plane `index`.
        let dx = unsafe { std::slice::from_raw_parts_mut(out.get().add(index * id * ih * iw), id * ih * iw) };
        if !alone {
            dx.fill(T::ZERO);
        }
        with_scratch::<T, _>(2 * slack + 2 * whole, |buf| {
            // SAFETY: the buffer has this size and belongs to this thread; its content is arbitrary but initialised.
            let buf = unsafe { std::slice::from_raw_parts_mut(buf, 2 * slack + 2 * whole) };
            buf[size..].fill(T::ZERO);
            let (x, buf) = buf.split_at_mut(slack);
            let (sums, buf) = buf.split_at_mut(slack);
            let (left, tops) = buf.split_at_mut(whole);
            for (z, wd) in deep.iter().enumerate() {
                if max.is_some() {
                    // SAFETY: `x` has room for the copy of the slices under slice `z` of the outputs. Padding is NaN,
                    // which equals nothing.
                    unsafe { band.copy(&patches, index * gd + z, 0, (gh, gh), x.as_mut_ptr(), T::from_f64(f64::NAN)) };
                }
                if z > 0 {
                    sums.fill(T::ZERO);
                }
                for (i, wh) in high.iter().enumerate() {
                    let (o, at) = (((index * gd + z) * gh + i) * gw, i * row);
                    if let Some((_, y)) = max {
                        left[..gw].copy_from_slice(&dy[o..o + gw]);
                        tops[..gw].copy_from_slice(&y[o..o + gw]);
                        left[gw..].fill(T::ZERO);
                        take_row(&x[at..], tops, left, &offsets, &mut sums[at..]);
                    } else {
                        for ((part, &dy), ww) in left.iter_mut().zip(&dy[o..o + gw]).zip(&wide) {
                            *part = T::ONE / counted::<T>([wd, wh, ww]) * dy;
                        }
                        add_row(left, &offsets, &mut sums[at..]);
                    }
                }
                for t in 0..slices {
                    let Some(slice) = (z * p.stride[0] + t).checked_sub(p.pad[0]).filter(|&s| s < id) else { continue };
                    for (y, dx) in dx[slice * ih * iw..(slice + 1) * ih * iw].chunks_exact_mut(iw).enumerate() {
                        let copy = y + p.pad[1];
                        if copy < height {
                            let at = (t * height + copy) * step * pitch;
                            join_row(&sums[at..at + step * pitch], step, p.pad[2], dx, !alone);
                        } else if alone {
                            dx.fill(T::ZERO);
                        }
                    }
                }
            }
        });
    });
}

/// One plane of an input's gradient.
struct Sums<T>(*mut T);

impl<T: Float> Sums<T> {
    #[inline(always)]
    fn add(&self, e: usize, v: T) {
        // SAFETY: only callbacks of `grad` have one, and they pass offsets of a window or of the plane.
        unsafe { *self.0.add(e) += v }
    }
}

/// Zeroes `dx` and calls `f(strides, plane, output, windows, add)` for every output, planes in parallel.
fn grad<T: Float>(
    p: &Pool,
    dx: &mut [T],
    f: impl Fn([usize; 3], (usize, usize, usize), usize, [&Window; 3], &Sums<T>) + Sync,
) {
    if dx.is_empty() {
        return;
    }
    let windows = [p.windows(0), p.windows(1), p.windows(2)];
    let w = windows.each_ref().map(|w| &w[..]);
    let (strides, size) = p.strides();
    let out = SharedPtr(dx.as_mut_ptr());
    share(p.images * p.channels, 4 * size, |index| {
        let plane = p.plane(index);
        let sums = Sums(out.get().wrapping_add(plane.0));
        // SAFETY: within this plane, which no other call accesses; all bits zero are 0.0.
        unsafe {
            match strides[2] {
                1 => sums.0.write_bytes(0, size),
                step => (0..size).for_each(|e| *sums.0.add(e * step) = T::ZERO),
            }
        }
        p.each(w, |o, w| f(strides, plane, o, w, &sums));
    });
}

/// The gradient of `max_pool_with_index`; indices outside the plane are ignored.
pub fn max_pool_with_index_grad<T: Float>(p: &Pool, mask: &[i32], dy: &[T], dx: &mut [T]) {
    p.check(dx.len(), dy.len());
    assert!(mask.len() == dy.len());
    let size = p.in_size.iter().product::<usize>();
    grad(p, dx, |strides, (_, o, step), at, _, dx| {
        let which = mask[o + at * step];
        if which >= 0 && (which as usize) < size {
            dx.add(which as usize * strides[2], dy[o + at * step]);
        }
    });
}
