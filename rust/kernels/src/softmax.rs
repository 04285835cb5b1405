//! Softmax and log-softmax over one axis, and their gradients. The axis is the middle of (outer, n, inner).
//!
//! As in Paddle's CPU kernels, values more than 64 below the maximum count as 64 below it.

use crate::pool::SharedPtr;
use crate::simd_fn;
use crate::types::Float;

/// Elements per step, for every instruction set: sums do not depend on it.
pub(crate) const W: usize = 16;
/// Elements of one chunk of work.
pub(crate) const CHUNK: usize = 1 << 15;
/// Columns that are computed together where the axis is not the last.
const COLUMNS: usize = 256;

/// The sum of the lanes, pairwise, in a fixed order.
#[inline(always)]
pub(crate) fn lane_sum<T: Float>(mut lanes: [T; W]) -> T {
    let mut n = W;
    while n > 1 {
        n /= 2;
        for i in 0..n {
            lanes[i] += lanes[i + n];
        }
    }
    lanes[0]
}

/// `y = f(x)`, W elements at a time; the tail is computed the same way.
#[inline(always)]
fn map<T: Float>(x: &[T], y: &mut [T], fill: T, f: impl Fn(T) -> T) {
    if x.len() < W {
        let mut v = [fill; W];
        v[..x.len()].copy_from_slice(x);
        for v in v.iter_mut() {
            *v = f(*v);
        }
        y.copy_from_slice(&v[..x.len()]);
        return;
    }
    let head = x.len() / W * W;
    for (y, &x) in y[..head].iter_mut().zip(&x[..head]) {
        *y = f(x);
    }
    let (rest, last, _) = tail(x.len());
    if rest {
        let mut v = at(x, last);
        for v in v.iter_mut() {
            *v = f(*v);
        }
        y[last..].copy_from_slice(&v);
    }
}

#[inline(always)]
fn shifted<T: Float>(x: T, max: T) -> T {
    let (d, floor) = (x - max, T::from_f64(-64.0));
    if d < floor {
        floor
    } else {
        d
    }
}

#[inline(always)]
fn at<T: Copy>(x: &[T], from: usize) -> [T; W] {
    let mut v = [x[from]; W];
    v.copy_from_slice(&x[from..from + W]);
    v
}

/// Division of a row of at least W elements into pieces of W: `(rest, last, fresh)` are whether a shorter piece
/// remains, the start of the last W elements of the row, and the first of their lanes that earlier pieces do not cover.
/// (Copying and padding a short piece would cost as much as the rest of a short row.)
#[inline(always)]
fn tail(n: usize) -> (bool, usize, usize) {
    let rest = n % W;
    (rest != 0, n - W, W - rest)
}

#[inline(always)]
fn larger<T: Float>(v: [T; W], mut m: [T; W]) -> [T; W] {
    for i in 0..W {
        m[i] = if v[i] > m[i] { v[i] } else { m[i] };
    }
    m
}

#[inline(always)]
fn row_max<T: Float>(x: &[T]) -> T {
    let mut m = [x[0]; W];
    if x.len() < W {
        m[..x.len()].copy_from_slice(x);
    } else {
        for v in x.chunks_exact(W) {
            m = larger(at(v, 0), m);
        }
        m = larger(at(x, x.len() - W), m);
    }
    // Pairwise: a serial chain over the lanes would cost more than a short row.
    let mut n = W;
    while n > 1 {
        n /= 2;
        for i in 0..n {
            m[i] = if m[i + n] > m[i] { m[i + n] } else { m[i] };
        }
    }
    m[0]
}

#[inline(always)]
fn exps<T: Float, const FMA: bool>(mut v: [T; W], max: T) -> [T; W] {
    for v in v.iter_mut() {
        *v = shifted(*v, max).exp_small_::<FMA>();
    }
    v
}

/// `y = exp(x - max)` and its sum, in one pass; the tail is computed the same way.
#[inline(always)]
fn exp_sum<T: Float, const FMA: bool>(x: &[T], y: &mut [T], max: T) -> T {
    let n = x.len();
    let mut sum = [T::ZERO; W];
    if n < W {
        let mut v = [max; W];
        v[..n].copy_from_slice(x);
        let v = exps::<T, FMA>(v, max);
        y.copy_from_slice(&v[..n]);
        for i in 0..W {
            sum[i] = if i < n { v[i] } else { T::ZERO };
        }
        return lane_sum(sum);
    }
    for (x, y) in x.chunks_exact(W).zip(y.chunks_exact_mut(W)) {
        let v = exps::<T, FMA>(at(x, 0), max);
        y.copy_from_slice(&v);
        for i in 0..W {
            sum[i] += v[i];
        }
    }
    let (rest, last, fresh) = tail(n);
    if rest {
        let v = exps::<T, FMA>(at(x, last), max);
        y[last..].copy_from_slice(&v);
        for i in 0..W {
            sum[i] += if i >= fresh { v[i] } else { T::ZERO };
        }
    }
    lane_sum(sum)
}

/// `y *= by`.
#[inline(always)]
fn scale<T: Float>(y: &mut [T], by: T) {
    if y.len() < W {
        y.iter_mut().for_each(|v| *v = *v * by);
        return;
    }
    // The last piece overlaps the one before: its values are loaded before they are scaled.
    let last = y.len() - W;
    let mut end = at(y, last);
    // A plain loop: for pieces of W the compiler would generate gathers.
    let head = y.len() / W * W;
    for v in &mut y[..head] {
        *v = *v * by;
    }
    for v in end.iter_mut() {
        *v = *v * by;
    }
    y[last..].copy_from_slice(&end);
}

simd_fn! {
    /// Rows of `n` consecutive elements.
    fn softmax_rows[T: Float](x: &[T], y: &mut [T], n: usize, log: bool) {
        for (x, y) in x.chunks_exact(n).zip(y.chunks_exact_mut(n)) {
            let max = row_max(x);
            let sum = exp_sum::<T, FMA>(x, y, max);
            if log {
                let log_sum = sum.log_::<FMA>();
                map(x, y, max, |v| shifted(v, max) - log_sum);
            } else {
                scale(y, T::ONE / sum);
            }
        }
    }
}

/// `cols` columns of `n` elements `inner` apart.
struct Columns<T> {
    n: usize,
    inner: usize,
    cols: usize,
    x: *const T,
    y: *const T,
    out: *mut T,
}

impl<T> Columns<T> {
    /// Row `k` of an operand.
    #[inline(always)]
    unsafe fn row<'a>(&self, p: *const T, k: usize) -> &'a [T] {
        // SAFETY: within the extents of `Columns`.
        unsafe { std::slice::from_raw_parts(p.add(k * self.inner), self.cols) }
    }
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    unsafe fn out<'a>(&self, k: usize) -> &'a mut [T] {
        // SAFETY: within the extents of `Columns`; only this call writes these columns.
        unsafe { std::slice::from_raw_parts_mut(self.out.add(k * self.inner), self.cols) }
    }
}

simd_fn! {
    fn softmax_columns[T: Float](c: &Columns<T>, log: bool) {
        let (mut max, mut sum) = ([T::ZERO; COLUMNS], [T::ZERO; COLUMNS]);
        let (max, sum) = (&mut max[..c.cols], &mut sum[..c.cols]);
        // SAFETY: rows of this call's columns.
        unsafe {
            max.copy_from_slice(c.row(c.x, 0));
            for k in 1..c.n {
                for (m, &x) in max.iter_mut().zip(c.row(c.x, k)) {
                    *m = if x > *m { x } else { *m };
                }
            }
            for k in 0..c.n {
                let out = c.out(k);
                for (((s, &m), &x), y) in sum.iter_mut().zip(&*max).zip(c.row(c.x, k)).zip(out) {
                    let d = shifted(x, m);
                    let e = d.exp_::<FMA>();
                    *s += e;
                    *y = if log { d } else { e };
                }
            }
            for s in sum.iter_mut() {
                *s = if log { s.log_::<FMA>() } else { T::ONE / *s };
            }
            for k in 0..c.n {
                for (y, &s) in c.out(k).iter_mut().zip(&*sum) {
                    *y = if log { *y - s } else { *y * s };
                }
            }
        }
    }
}

simd_fn! {
    fn grad_rows[T: Float](y: &[T], dy: &[T], dx: &mut [T], n: usize, log: bool) {
        for ((y, dy), dx) in y.chunks_exact(n).zip(dy.chunks_exact(n)).zip(dx.chunks_exact_mut(n)) {
            let mut sum = [T::ZERO; W];
            let grad = |a: T, b: T, s: T| if log { b - a.exp_::<FMA>() * s } else { a * (b - s) };
            if n < W {
                for (i, (&a, &b)) in y.iter().zip(dy).enumerate() {
                    sum[i] = if log { b } else { a * b };
                }
                let s = lane_sum(sum);
                dx.iter_mut().zip(y).zip(dy).for_each(|((d, &a), &b)| *d = grad(a, b, s));
                continue;
            }
            for (a, b) in y.chunks_exact(W).zip(dy.chunks_exact(W)) {
                for i in 0..W {
                    sum[i] = if log { sum[i] + b[i] } else { a[i].fma::<FMA>(b[i], sum[i]) };
                }
            }
            let (rest, last, fresh) = tail(n);
            let (a, b) = (at(y, last), at(dy, last));
            if rest {
                for i in 0..W {
                    let more = if log { sum[i] + b[i] } else { a[i].fma::<FMA>(b[i], sum[i]) };
                    sum[i] = if i >= fresh { more } else { sum[i] };
                }
            }
            let s = lane_sum(sum);
            let mut end = [T::ZERO; W];
            for i in 0..W {
                end[i] = grad(a[i], b[i], s);
            }
            let head = n / W * W;
            for ((d, &a), &b) in dx[..head].iter_mut().zip(&y[..head]).zip(&dy[..head]) {
                *d = grad(a, b, s);
            }
            dx[last..].copy_from_slice(&end);
        }
    }
}

simd_fn! {
    fn grad_columns[T: Float](c: &Columns<T>, log: bool) {
        let mut sum = [T::ZERO; COLUMNS];
        let sum = &mut sum[..c.cols];
        // SAFETY: rows of this call's columns.
        unsafe {
            for k in 0..c.n {
                for ((s, &a), &b) in sum.iter_mut().zip(c.row(c.x, k)).zip(c.row(c.y, k)) {
                    *s = if log { *s + b } else { a.fma::<FMA>(b, *s) };
                }
            }
            for k in 0..c.n {
                let out = c.out(k);
                for (((d, &s), &a), &b) in out.iter_mut().zip(&*sum).zip(c.row(c.x, k)).zip(c.row(c.y, k)) {
                    *d = if log { b - a.exp_::<FMA>() * s } else { a * (b - s) };
                }
            }
        }
    }
}

/// Runs `rows(range of rows)` where the axis is the last, else `columns(which, extents)`.
fn over<T: Float>(
    (outer, n, inner): (usize, usize, usize),
    (x, y): (&[T], &[T]),
    out: &mut [T],
    rows: impl Fn(&[T], &[T], &mut [T]) + Sync,
    columns: impl Fn(&Columns<T>) + Sync,
) {
    assert!(x.len() == outer * n * inner && y.len() == x.len() && out.len() == x.len(), "sizes do not fit the axis");
    if x.is_empty() {
        return;
    }
    let to = SharedPtr(out.as_mut_ptr());
    if inner == 1 {
        crate::pool::ranges(outer, (CHUNK / n).max(1), |r| {
            let r = r.start * n..r.end * n;
            // SAFETY: ranges of rows are disjoint.
            let out = unsafe { std::slice::from_raw_parts_mut(to.get().add(r.start), r.len()) };
            rows(&x[r.clone()], &y[r], out);
        });
        return;
    }
    let blocks = inner.div_ceil(COLUMNS);
    let (px, py) = (SharedPtr(x.as_ptr() as *mut T), SharedPtr(y.as_ptr() as *mut T));
    let grain = (CHUNK / (n * inner.min(COLUMNS))).max(1);
    crate::pool::ranges(outer * blocks, grain, |r| {
        for index in r {
            let (o, j) = (index / blocks, index % blocks * COLUMNS);
            let at = o * n * inner + j;
            let cols = COLUMNS.min(inner - j);
            let (x, y) = (px.get().wrapping_add(at), py.get().wrapping_add(at));
            columns(&Columns { n, inner, cols, x, y, out: to.get().wrapping_add(at) });
        }
    });
}

/// `y = softmax(x)`.
pub fn softmax<T: Float>(dims: (usize, usize, usize), x: &[T], y: &mut [T]) {
    over(dims, (x, x), y, |x, _, y| softmax_rows(x, y, dims.1, false), |c| softmax_columns(c, false));
}

/// `y = log(softmax(x))`.
pub fn log_softmax<T: Float>(dims: (usize, usize, usize), x: &[T], y: &mut [T]) {
    over(dims, (x, x), y, |x, _, y| softmax_rows(x, y, dims.1, true), |c| softmax_columns(c, true));
}

/// `dx = y * (dy - sum(y * dy))` from the result `y` of `softmax`.
pub fn softmax_grad<T: Float>(dims: (usize, usize, usize), y: &[T], dy: &[T], dx: &mut [T]) {
    over(dims, (y, dy), dx, |y, dy, dx| grad_rows(y, dy, dx, dims.1, false), |c| grad_columns(c, false));
}

/// `dx = dy - exp(y) * sum(dy)` from the result `y` of `log_softmax`.
pub fn log_softmax_grad<T: Float>(dims: (usize, usize, usize), y: &[T], dy: &[T], dx: &mut [T]) {
    over(dims, (y, dy), dx, |y, dy, dx| grad_rows(y, dy, dx, dims.1, true), |c| grad_columns(c, true));
}
