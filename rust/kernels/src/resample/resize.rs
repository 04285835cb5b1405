//! Resizing of images. Along an axis a result is a weighted sum of a few elements ([`Taps`]); an image is resized along
//! all axes, rows first. The gradient is the same computation with transposed taps, so that threads never add to the
//! same element.

use crate::pool::{self, Shared};
use crate::simd_fn;
use crate::softmax::CHUNK;
use crate::types::Float;
use std::ops::Range;

/// The interpolation method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Nearest,
    Linear,
    Cubic,
}

/// One axis of a resize.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub input: usize,
    pub output: usize,
    /// Elements of the input per element of the output.
    pub ratio: f32,
    /// The first and last elements of input and output are aligned.
    pub align_corners: bool,
    /// Positions are centres of elements (linear; cubic unless corners are aligned).
    pub centres: bool,
}

/// The parameter of the cubic convolution.
const CUBIC: f64 = -0.75;

impl Axis {
    /// Calls `tap(element, weight)` for the taps of result `i`. Positions are rounded as in Paddle, partly in f32.
    fn taps(&self, method: Method, i: usize, mut tap: impl FnMut(usize, f64)) {
        let clamp = |at: i64| at.clamp(0, self.input as i64 - 1) as usize;
        let plain = self.ratio * i as f32;
        let centred = self.ratio as f64 * (i as f64 + 0.5) - 0.5;
        match method {
            Method::Nearest if self.align_corners => tap(clamp((plain as f64 + 0.5) as i64), 1.0),
            Method::Nearest => tap(clamp(plain as i64), 1.0),
            Method::Linear => {
                let (from, place) = match self.centres {
                    true => (clamp(centred as i64), (centred as f32).max(0.0)),
                    false => (clamp(plain as i64), plain),
                };
                let beyond = (place - from as f32) as f64;
                tap(from, 1.0 - beyond);
                tap(clamp(from as i64 + 1), beyond);
            }
            Method::Cubic => {
                let place = if self.align_corners { plain as f64 } else { centred };
                let (from, t) = (place.floor() as i64, place - place.floor());
                let near = |x: f64| ((CUBIC + 2.0) * x - (CUBIC + 3.0)) * x * x + 1.0;
                let far = |x: f64| ((CUBIC * x - 5.0 * CUBIC) * x + 8.0 * CUBIC) * x - 4.0 * CUBIC;
                tap(clamp(from - 1), far(t + 1.0));
                tap(clamp(from), near(t));
                tap(clamp(from + 1), near(1.0 - t));
                tap(clamp(from + 2), far(2.0 - t));
            }
        }
    }
}

/// For every result along an axis, the elements and weights of its sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Taps<T> {
    /// Elements along the axis.
    input: usize,
    /// Start of the taps of each result, and the end of the last.
    start: Vec<usize>,
    /// Every one is less than `input`.
    index: Vec<usize>,
    weight: Vec<T>,
    /// The number of taps per result, if it is the same for all.
    each: Option<usize>,
}

/// An empty vector with capacity `n`; `None` if memory is exhausted.
fn try_with_capacity<T>(n: usize) -> Option<Vec<T>> {
    let mut v = Vec::new();
    v.try_reserve_exact(n).ok().map(|()| v)
}

impl<T: Float> Taps<T> {
    /// `None` if memory is exhausted.
    pub fn new(axis: &Axis, method: Method) -> Option<Taps<T>> {
        let each = match method {
            Method::Nearest => 1,
            Method::Linear => 2,
            Method::Cubic => 4,
        };
        let n = axis.output.checked_mul(each)?;
        let (mut start, mut index, mut weight) =
            (try_with_capacity(axis.output + 1)?, try_with_capacity(n)?, try_with_capacity(n)?);
        start.push(0);
        for i in 0..axis.output {
            axis.taps(method, i, |at, w| {
                index.push(at);
                weight.push(T::from_f64(w));
            });
            start.push(index.len());
        }
        Some(Taps { input: axis.input, start, index, weight, each: Some(each) }.checked())
    }

    /// Taps of results that are each one element of the axis (of `input` elements) or zero.
    pub fn picked(input: usize, n: usize, place: impl Fn(usize) -> Option<usize>) -> Option<Taps<T>> {
        let (mut start, mut index, mut weight) =
            (try_with_capacity(n.checked_add(1)?)?, try_with_capacity(n)?, try_with_capacity(n)?);
        start.push(0);
        for i in 0..n {
            if let Some(at) = place(i) {
                assert!(at < input, "an element outside the axis");
                index.push(at);
                weight.push(T::from_f64(1.0));
            }
            start.push(index.len());
        }
        let each = (index.len() == n).then_some(1);
        Some(Taps { input, start, index, weight, each }.checked())
    }

    /// The same taps; asserts what the kernels rely on: every index is less than `input`, every result has its taps.
    fn checked(self) -> Taps<T> {
        assert!(self.index.iter().all(|&at| at < self.input), "a tap outside of the axis");
        assert!(
            self.start.is_sorted() && self.start.last() == Some(&self.index.len()),
            "taps that belong to no result"
        );
        assert!(self.weight.len() == self.index.len(), "a weight a tap");
        assert!(self.each.is_none_or(|n| n * self.output() == self.index.len()), "unequal numbers of taps");
        self
    }

    /// The identity on an axis of one element.
    pub fn single() -> Taps<T> {
        Taps { input: 1, start: vec![0, 1], index: vec![0], weight: vec![T::from_f64(1.0)], each: Some(1) }
    }

    /// Number of results.
    pub fn output(&self) -> usize {
        self.start.len() - 1
    }

    fn taps_of(&self, i: usize) -> (&[usize], &[T]) {
        let r = self.start[i]..self.start[i + 1];
        (&self.index[r.clone()], &self.weight[r])
    }

    /// The taps of two axes merged into one; `inner` varies faster.
    pub fn times(&self, inner: &Taps<T>) -> Option<Taps<T>> {
        let n = self.index.len().checked_mul(inner.index.len())?;
        let outputs = self.output().checked_mul(inner.output())?;
        let (mut start, mut index, mut weight) =
            (try_with_capacity(outputs.checked_add(1)?)?, try_with_capacity(n)?, try_with_capacity(n)?);
        start.push(0);
        for a in 0..self.output() {
            for b in 0..inner.output() {
                let (outer, inner_taps) = (self.taps_of(a), inner.taps_of(b));
                for (&i, &v) in outer.0.iter().zip(outer.1) {
                    for (&k, &w) in inner_taps.0.iter().zip(inner_taps.1) {
                        index.push(i * inner.input + k);
                        weight.push(v * w);
                    }
                }
                start.push(index.len());
            }
        }
        let each = self.each.zip(inner.each).map(|(a, b)| a * b);
        Some(Taps { input: self.input * inner.input, start, index, weight, each }.checked())
    }

    /// The transposed taps, of the gradient: for every element, the results that it contributes to.
    pub fn transposed(&self) -> Option<Taps<T>> {
        let n = self.index.len();
        let (mut start, mut index, mut weight) =
            (try_with_capacity(self.input.checked_add(1)?)?, try_with_capacity(n)?, try_with_capacity(n)?);
        start.resize(self.input + 1, 0);
        self.index.iter().for_each(|&i| start[i + 1] += 1);
        for i in 0..self.input {
            start[i + 1] += start[i];
        }
        let mut next: Vec<usize> = try_with_capacity(self.input)?;
        next.extend_from_slice(&start[..self.input]);
        index.resize(n, 0);
        weight.resize(n, T::ZERO);
        for i in 0..self.output() {
            let (from, weights) = self.taps_of(i);
            for (&k, &w) in from.iter().zip(weights) {
                (index[next[k]], weight[next[k]]) = (i, w);
                next[k] += 1;
            }
        }
        Some(Taps { input: self.output(), start, index, weight, each: None }.checked())
    }
}

simd_fn! {
    /// `out` = the sum of `weight * x[at..]`, all as long as `out`.
    fn combine[T: Float](x: &[T], at: &[usize], weights: &[T], step: usize, out: &mut [T]) {
        let n = out.len();
        let part = |k: usize| &x[at[k] * step..at[k] * step + n];
        match weights.len() {
            0 => out.fill(T::ZERO),
            1 => out.iter_mut().zip(part(0)).for_each(|(o, &v)| *o = weights[0] * v),
            _ => {
                let (a, b) = (weights[0], weights[1]);
                let both = out.iter_mut().zip(part(0)).zip(part(1));
                both.for_each(|((o, &v), &w)| *o = w.fma::<FMA>(b, a * v));
                for (k, &w) in weights.iter().enumerate().skip(2) {
                    out.iter_mut().zip(part(k)).for_each(|(o, &v)| *o = v.fma::<FMA>(w, *o));
                }
            }
        }
    }
}

simd_fn! {
    /// `out[i]` = the sum of `weight * row[at]` over two taps each.
    fn gather_two[T: Float](row: &[T], taps: &Taps<T>, out: &mut [T]) {
        assert!(row.len() == taps.input && taps.each == Some(2));
        for ((o, at), w) in out.iter_mut().zip(taps.index.chunks_exact(2)).zip(taps.weight.chunks_exact(2)) {
            // SAFETY: every index is less than `input` (see `checked`), which is the row's length.
            let (a, b) = unsafe { (*row.get_unchecked(at[0]), *row.get_unchecked(at[1])) };
            *o = b.fma::<FMA>(w[1], w[0] * a);
        }
    }
}

simd_fn! {
    /// The same over four taps each.
    fn gather_four[T: Float](row: &[T], taps: &Taps<T>, out: &mut [T]) {
        assert!(row.len() == taps.input && taps.each == Some(4));
        for ((o, at), w) in out.iter_mut().zip(taps.index.chunks_exact(4)).zip(taps.weight.chunks_exact(4)) {
            let mut sum = T::ZERO;
            for k in 0..4 {
                // SAFETY: as above.
                sum = unsafe { *row.get_unchecked(at[k]) }.fma::<FMA>(w[k], sum);
            }
            *o = sum;
        }
    }
}

/// One row of results of one row of elements, `inner` numbers each.
fn along<T: Float>(row: &[T], taps: &Taps<T>, inner: usize, out: &mut [T]) {
    match taps.each {
        Some(2) if inner == 1 => return gather_two(row, taps, out),
        Some(4) if inner == 1 => return gather_four(row, taps, out),
        _ => {}
    }
    for (i, out) in out.chunks_exact_mut(inner).enumerate() {
        let (at, weights) = taps.taps_of(i);
        if inner == 1 {
            out[0] = at.iter().zip(weights).fold(T::ZERO, |sum, (&k, &w)| sum + w * row[k]);
        } else {
            combine(row, at, weights, inner, out);
        }
    }
}

/// Resamples `x` to `y`: images of `rows` x `cols` x `inner` numbers.
pub fn resample<T: Float>(rows: &Taps<T>, cols: &Taps<T>, inner: usize, x: &[T], y: &mut [T]) {
    let (wide, width) = (cols.input * inner, cols.output() * inner);
    let (from, to) = (rows.input * wide, rows.output() * width);
    if y.is_empty() {
        return;
    }
    let images = y.len() / to;
    assert!(y.len() == images * to && x.len() == images * from, "sizes do not fit the taps");
    let results = Shared::new(y);
    let cost = (wide + width).max(1);
    pool::ranges(images * rows.output(), (CHUNK / cost).max(1), |range: Range<usize>| {
        let mut sum = Vec::new();
        for r in range {
            let image = &x[r / rows.output() * from..][..from];
            // SAFETY: each row of results belongs to one chunk.
            let out = unsafe { results.part(r * width..(r + 1) * width) };
            let (at, weights) = rows.taps_of(r % rows.output());
            match (at, weights) {
                (&[k], &[w]) if w == T::from_f64(1.0) => along(&image[k * wide..(k + 1) * wide], cols, inner, out),
                _ => {
                    sum.resize(wide, T::ZERO);
                    combine(image, at, weights, wide, &mut sum);
                    along(&sum, cols, inner, out);
                }
            }
        }
    });
}

/// The same for taps of one element each ([`Method::Nearest`], [`Taps::picked`]): elements of any type are copied.
pub fn pick<T: Copy + Send + Sync, W: Float>(rows: &Taps<W>, cols: &Taps<W>, inner: usize, x: &[T], y: &mut [T]) {
    let (wide, width) = (cols.input * inner, cols.output() * inner);
    let (from, to) = (rows.input * wide, rows.output() * width);
    if y.is_empty() {
        return;
    }
    let images = y.len() / to;
    assert!(y.len() == images * to && x.len() == images * from, "sizes do not fit the taps");
    let run = neighbours(&cols.index);
    let one = |row: &[T], y: &mut [T], index: &[usize]| {
        if inner == 1 {
            y.iter_mut().zip(index).for_each(|(y, &k)| *y = row[k]);
        } else {
            for (y, &k) in y.chunks_exact_mut(inner).zip(index) {
                y.copy_from_slice(&row[k * inner..(k + 1) * inner]);
            }
        }
    };
    pool::parts(y, (CHUNK / width).max(1) * width, |start, y| {
        for (i, y) in y.chunks_exact_mut(width).enumerate() {
            let r = start / width + i;
            let row = &x[r / rows.output() * from + rows.taps_of(r % rows.output()).0[0] * wide..][..wide];
            let (before, behind) = y.split_at_mut(run.start * inner);
            let (middle, behind) = behind.split_at_mut(run.len() * inner);
            one(row, before, &cols.index[..run.start]);
            if let Some(&first) = cols.index[run.clone()].first() {
                middle.copy_from_slice(&row[first * inner..][..middle.len()]);
            }
            one(row, behind, &cols.index[run.end..]);
        }
    });
}

/// The longest range of consecutive elements in an index, such as between two borders.
fn neighbours(index: &[usize]) -> Range<usize> {
    let (mut start, mut longest) = (0, 0..0);
    for i in 1..=index.len() {
        if i == index.len() || index[i] != index[i - 1] + 1 {
            if i - start > longest.len() {
                longest = start..i;
            }
            start = i;
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(input: usize, output: usize, align_corners: bool, centres: bool) -> Axis {
        let ratio = match (output > 1, align_corners) {
            (false, _) => 0.0,
            (true, true) => (input as f32 - 1.0) / (output as f32 - 1.0),
            (true, false) => input as f32 / output as f32,
        };
        Axis { input, output, ratio, align_corners, centres }
    }

    #[test]
    fn constants_stay_and_gradients_are_transposed() {
        for method in [Method::Nearest, Method::Linear, Method::Cubic] {
            for (corners, centres) in [(true, false), (false, true), (false, false)] {
                for (h, w, oh, ow, inner) in [(3, 5, 6, 9, 1), (7, 4, 2, 11, 3), (1, 1, 4, 4, 1), (5, 6, 1, 1, 2)] {
                    let rows = Taps::<f64>::new(&axis(h, oh, corners, centres), method).unwrap();
                    let cols = Taps::<f64>::new(&axis(w, ow, corners, centres), method).unwrap();
                    let (n, m) = (2 * h * w * inner, 2 * oh * ow * inner);
                    let mut y = vec![0.0; m];
                    resample(&rows, &cols, inner, &vec![3.0; n], &mut y);
                    assert!(y.iter().all(|v| (v - 3.0).abs() < 1e-12));
                    // <A x, z> = <x, A' z>
                    let x: Vec<f64> = (0..n).map(|i| (i * 37 % 101) as f64 - 50.0).collect();
                    let z: Vec<f64> = (0..m).map(|i| (i * 53 % 97) as f64 - 48.0).collect();
                    resample(&rows, &cols, inner, &x, &mut y);
                    let mut back = vec![0.0; n];
                    let turned = (rows.transposed().unwrap(), cols.transposed().unwrap());
                    resample(&turned.0, &turned.1, inner, &z, &mut back);
                    let one: f64 = y.iter().zip(&z).map(|(a, b)| a * b).sum();
                    let other: f64 = x.iter().zip(&back).map(|(a, b)| a * b).sum();
                    assert!((one - other).abs() < 1e-6, "{method:?} {one} {other}");
                    if method == Method::Nearest {
                        let mut picked = vec![0.0; m];
                        pick(&rows, &cols, inner, &x, &mut picked);
                        assert_eq!(picked, y);
                    }
                }
            }
        }
    }
}
