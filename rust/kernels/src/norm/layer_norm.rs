//! Layer normalisation and its gradient. Variances are biased, and computed around the mean.

use crate::norm::batch_norm::{inverse_deviation, inverse_sqrt};
use crate::norm::lanes::{lane_sums, plane_body, read, write, Adds, Values};
use crate::pool::SharedPtr;
use crate::softmax::CHUNK;
use crate::types::{Float, Number, Vector};

/// The inputs of a normalisation: rows of `n` elements, scale and bias.
#[derive(Clone, Copy)]
struct NormRows<T> {
    x: *const T,
    rows: usize,
    n: usize,
    /// Null if there is none.
    scale: *const T,
    bias: *const T,
}

impl<T> NormRows<T> {
    fn new(x: &[T], n: usize, scale: Option<&[T]>, bias: Option<&[T]>) -> Self {
        let side = |s: Option<&[T]>| s.map_or(std::ptr::null(), |s| s.as_ptr());
        NormRows { x: x.as_ptr(), rows: x.len() / n, n, scale: side(scale), bias: side(bias) }
    }
}

crate::by_level! {
    unsafe fn layer_rows<T>(r: NormRows<T>, epsilon: T, out: [*mut T; 3]) = layer_rows_body
}

/// Sums the squares of a row's elements around a mean, each by one fused multiply-add.
struct Squares<V: Vector>(*const V::T, V);

impl<V: Vector> Adds<V, 1> for Squares<V> {
    #[inline(always)]
    unsafe fn add(&self, [sum]: [V; 1], i: usize, len: usize) -> [V; 1] {
        // SAFETY: the caller's elements.
        unsafe {
            let d = read::<V>(self.0.add(i), len).sub(self.1);
            [d.fma(d, sum)]
        }
    }
}

#[inline(always)]
unsafe fn layer_rows_body<V: Vector>(r: NormRows<V::T>, epsilon: V::T, [y, mean, var]: [*mut V::T; 3]) {
    let (n, head) = (r.n, r.n / V::L * V::L);
    let count = V::T::from_f64(n as f64);
    for row in 0..r.rows {
        // SAFETY: rows of `n` elements, by the caller.
        unsafe {
            let (x, y) = (r.x.add(row * n), y.add(row * n));
            let m = plane_body::<V, Values>([x; 3], n, V::T::ZERO, V::T::ZERO)[0] / count;
            let [sum] = lane_sums::<V, 1>(n, Squares(x, V::splat(m)));
            let v = sum / count;
            (*mean.add(row), *var.add(row)) = (m, v);
            let stats = [V::splat(m), V::splat(inverse_sqrt(v, epsilon.to_f64()))];
            for i in (0..head).step_by(V::L) {
                normalised(&r, x, stats, y, (i, V::L));
            }
            if head < n {
                normalised(&r, x, stats, y, (head, n - head));
            }
        }
    }
}

/// Normalises elements `i..i + len` of a row by mean and 1 / deviation.
#[inline(always)]
unsafe fn normalised<V: Vector>(
    r: &NormRows<V::T>,
    x: *const V::T,
    [mean, inv]: [V; 2],
    y: *mut V::T,
    (i, len): (usize, usize),
) {
    // SAFETY: the caller's elements; scale and bias are null or have as many.
    unsafe {
        let d = read::<V>(x.add(i), len).sub(mean).mul(inv);
        let v = match (r.scale.is_null(), r.bias.is_null()) {
            (false, false) => d.fma(read(r.scale.add(i), len), read(r.bias.add(i), len)),
            (false, true) => d.mul(read(r.scale.add(i), len)),
            (true, false) => d.add(read(r.bias.add(i), len)),
            (true, true) => d,
        };
        write(v, y.add(i), len);
    }
}

/// Normalises `outer` rows of `n` elements; writes each row's statistics to `mean` and `var`.
pub fn layer_norm<T: Float>(
    (outer, n): (usize, usize),
    x: &[T],
    scale: Option<&[T]>,
    bias: Option<&[T]>,
    epsilon: f64,
    y: &mut [T],
    mean: &mut [T],
    var: &mut [T],
) {
    assert!(x.len() == outer * n && y.len() == x.len() && mean.len() == outer && var.len() == outer);
    assert!(scale.is_none_or(|s| s.len() == n) && bias.is_none_or(|b| b.len() == n), "one scale and bias a column");
    if n == 0 {
        mean.fill(T::from_f64(f64::NAN));
        var.fill(T::from_f64(f64::NAN));
        return;
    }
    let out = [y, mean, var].map(|s| SharedPtr(s.as_mut_ptr()));
    crate::pool::ranges(outer, (CHUNK / n).max(1), |r| {
        let of = NormRows::new(&x[r.start * n..r.end * n], n, scale, bias);
        let at = |k: usize, w: usize| { &out }[k].get().wrapping_add(r.start * w);
        // SAFETY: ranges of rows are disjoint.
        unsafe { layer_rows(of, T::from_f64(epsilon), [at(0, n), at(1, 1), at(2, 1)]) };
    });
}

crate::by_level! {
    /// `dx` may be null; dscale and dbias of these rows are added to `sums`.
    unsafe fn layer_grad_rows<T>(r: NormRows<T>, dy: *const T, stats: [*const T; 2], dx: *mut T, sums: *mut T) =
        layer_grad_rows_body
}

/// The gradient of one row.
struct GradRow<V: Vector> {
    x: *const V::T,
    dy: *const V::T,
    scale: *const V::T,
    mean: V,
    inv: V,
    /// dscale, followed by dbias.
    sums: *mut V::T,
    n: usize,
}

impl<V: Vector> GradRow<V> {
    #[inline(always)]
    unsafe fn hat(&self, i: usize, len: usize) -> V {
        // SAFETY: the caller's elements.
        unsafe { read::<V>(self.x.add(i), len).sub(self.mean).mul(self.inv) }
    }
    /// dy * scale.
    #[inline(always)]
    unsafe fn scaled(&self, i: usize, len: usize) -> V {
        // SAFETY: the caller's elements.
        unsafe {
            let d = read::<V>(self.dy.add(i), len);
            if self.scale.is_null() {
                d
            } else {
                d.mul(read(self.scale.add(i), len))
            }
        }
    }
    #[inline(always)]
    unsafe fn write(&self, dx: *mut V::T, [plain, along]: [V; 2], i: usize, len: usize) {
        // SAFETY: the caller's elements.
        unsafe {
            let d = self.scaled(i, len).sub(plain).sub(self.hat(i, len).mul(along)).mul(self.inv);
            write(d, dx.add(i), len);
        }
    }
}

/// Sums dy * scale and dy * scale * xhat, and accumulates dscale and dbias in the same pass.
impl<V: Vector> Adds<V, 2> for &GradRow<V> {
    #[inline(always)]
    unsafe fn add(&self, [plain, along]: [V; 2], i: usize, len: usize) -> [V; 2] {
        // SAFETY: the caller's elements.
        unsafe {
            let (d, hat) = (read::<V>(self.dy.add(i), len), self.hat(i, len));
            let (dscale, dbias) = (self.sums.add(i), self.sums.add(self.n + i));
            write(d.fma(hat, read(dscale, len)), dscale, len);
            write(read::<V>(dbias, len).add(d), dbias, len);
            let d = self.scaled(i, len);
            [plain.add(d), d.fma(hat, along)]
        }
    }
}

#[inline(always)]
unsafe fn layer_grad_rows_body<V: Vector>(
    r: NormRows<V::T>,
    dy: *const V::T,
    [mean, inv]: [*const V::T; 2],
    dx: *mut V::T,
    sums: *mut V::T,
) {
    let (n, head) = (r.n, r.n / V::L * V::L);
    let count = V::T::from_f64(n as f64);
    for row in 0..r.rows {
        // SAFETY: rows of `n` elements, by the caller.
        unsafe {
            let (x, dy) = (r.x.add(row * n), dy.add(row * n));
            let (mean, inv) = (V::splat(*mean.add(row)), V::splat(*inv.add(row)));
            let of = GradRow { x, dy, scale: r.scale, mean, inv, sums, n };
            let sums = lane_sums::<V, 2>(n, &of);
            if dx.is_null() {
                continue;
            }
            let (dx, sums) = (dx.add(row * n), [V::splat(sums[0] / count), V::splat(sums[1] / count)]);
            for i in (0..head).step_by(V::L) {
                of.write(dx, sums, i, V::L);
            }
            if head < n {
                of.write(dx, sums, head, n - head);
            }
        }
    }
}

/// The gradient of `layer_norm` from its input and saved statistics.
pub fn layer_norm_grad<T: Float>(
    (outer, n): (usize, usize),
    x: &[T],
    dy: &[T],
    scale: Option<&[T]>,
    mean: &[T],
    var: &[T],
    epsilon: f64,
    dx: Option<&mut [T]>,
    dscale: Option<&mut [T]>,
    dbias: Option<&mut [T]>,
) {
    assert!(x.len() == outer * n && dy.len() == x.len() && mean.len() == outer && var.len() == outer);
    assert!(dx.as_ref().is_none_or(|d| d.len() == x.len()) && scale.is_none_or(|s| s.len() == n));
    let inv = inverse_deviation(var, epsilon);
    // A number of parts that does not depend on threads; their sums are added in order.
    let per = (CHUNK / n.max(1)).max(outer.div_ceil(32)).max(1);
    let parts = outer.div_ceil(per);
    let mut sums = vec![T::ZERO; parts.max(1) * 2 * n];
    let to = dx.map(|d| SharedPtr(d.as_mut_ptr()));
    if n > 0 && outer > 0 {
        crate::pool::parts(&mut sums, 2 * n, |at, sums| {
            let first = at / (2 * n) * per;
            let rows = first..(first + per).min(outer);
            let r = first * n..rows.end * n;
            let dx = to.map_or(std::ptr::null_mut(), |d| d.get().wrapping_add(r.start));
            let of = NormRows::new(&x[r.clone()], n, scale, None);
            let stats = [mean, &inv].map(|s| s[rows.clone()].as_ptr());
            // SAFETY: parts are disjoint rows of dx, and `sums` has two rows of `n` elements.
            unsafe { layer_grad_rows(of, dy[r].as_ptr(), stats, dx, sums.as_mut_ptr()) };
        });
    }
    let total = |k: usize, out: &mut [T]| {
        out.fill(T::ZERO);
        for part in sums.chunks_exact((2 * n).max(1)) {
            out.iter_mut().zip(&part[k * n..(k + 1) * n]).for_each(|(o, &s)| *o += s);
        }
    };
    if let Some(d) = dscale {
        total(0, d);
    }
    if let Some(d) = dbias {
        total(1, d);
    }
}
