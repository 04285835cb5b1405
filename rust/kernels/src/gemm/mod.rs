//! Matrix products C = act(alpha * A * B + beta * C + bias) (GEMM), on operands of arbitrary row and column strides, so
//! that transposes need no copy.
//!
//! Floating point runs on the blocked driver (`driver`) or, for a vector, on `matrix_vector`; f16 and bf16 are computed
//! in f32; integers wrap. Results do not depend on the number of threads.

pub mod amx;
pub(crate) mod driver;
pub(crate) mod kernel;
pub(crate) mod matrix_vector;
pub(crate) mod operands;
pub(crate) mod pack;
pub(crate) mod sweep;
pub(crate) mod tile;

use crate::gemm::driver::{parallel, serial};
use crate::gemm::matrix_vector::matrix_vector;
use crate::gemm::operands::Finish;
use crate::gemm::pack::{PrefetchRange, PrefetchingNext, RowMajor, Strided};
use crate::types::{Float, Half, Number};
use half::{bf16, f16};

/// A matrix in a slice: element (i, j) at `i * rs + j * cs`.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, T> {
    pub data: &'a [T],
    pub rs: usize,
    pub cs: usize,
    /// Of B in a product of f32: its panels for the matrix unit, as `amx::pack_right` writes them, or `amx::bf16::pack_right`
    /// for a product that is rounded.
    pub panels: Option<&'a [u8]>,
}

impl<'a, T> View<'a, T> {
    pub fn new(data: &'a [T], rs: usize, cs: usize) -> Self {
        View { data, rs, cs, panels: None }
    }
    /// Rows of `cols` consecutive elements; with `transposed`, `data` holds the rows of the transpose.
    pub fn rows(data: &'a [T], cols: usize, transposed: bool) -> Self {
        if transposed {
            View::new(data, 1, cols)
        } else {
            View::new(data, cols, 1)
        }
    }
}

/// Operations on a product while it is still in registers.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a, T> {
    /// One value per row of C.
    pub row_bias: Option<&'a [T]>,
    /// One value per column of C.
    pub col_bias: Option<&'a [T]>,
    /// Negative values and NaN become 0.
    pub relu: bool,
    /// f32 operands are rounded to bf16 where the processor multiplies bf16 numbers faster.
    pub bf16: bool,
}

impl<T> Epilogue<'_, T> {
    pub const NONE: Self = Epilogue { row_bias: None, col_bias: None, relu: false, bf16: false };
}

/// One product by pointers: the argument of the typed drivers.
#[derive(Clone, Copy)]
pub struct Problem<T> {
    m: usize,
    n: usize,
    k: usize,
    a: (*const T, usize, usize),
    b: (*const T, usize, usize),
    c: (*mut T, usize),
    finish: Finish<T>,
    /// The panels of B, or null.
    panels: *const u8,
    /// A and B of the product that this thread computes next, to be prefetched.
    next: [PrefetchRange; 2],
}

/// Element types that have products.
pub trait Gemm: Number {
    /// # Safety
    /// The pointers are valid for the extents, and C overlaps nothing.
    #[doc(hidden)]
    unsafe fn run(p: &Problem<Self>, on_pool: bool);
}

/// A floating-point type with products.
pub trait GemmFloat: Float + Gemm {}
impl<T: Float + Gemm> GemmFloat for T {}

/// `c[i * rsc + j] = act(alpha * sum of a(i, p) * b(p, j) + beta * c + bias)` for `i < m`, `j < n`, `p < k`.
///
/// `c` is not read where `beta` is 0. Panics if a slice is too short for its extents.
pub fn gemm<T: Gemm>(
    (m, n, k): (usize, usize, usize),
    alpha: T,
    a: View<T>,
    b: View<T>,
    beta: T,
    c: &mut [T],
    rsc: usize,
    epilogue: Epilogue<T>,
) {
    batched((m, n, k), alpha, a, b, beta, c, rsc, epilogue, &[(0, 0, 0)])
}

/// `matmul` of plain row-major matrices: `c = op(a) * op(b)`.
pub fn matmul<T: Gemm>((m, n, k): (usize, usize, usize), a: &[T], ta: bool, b: &[T], tb: bool, c: &mut [T]) {
    let a = View::rows(a, if ta { m } else { k }, ta);
    let b = View::rows(b, if tb { k } else { n }, tb);
    gemm((m, n, k), T::ONE, a, b, T::ZERO, c, n, Epilogue::NONE)
}

/// Whether panels are those that a product of f32 reads.
#[inline(never)]
fn fits((m, n, k): (usize, usize, usize), bf16: bool, panels: &[u8]) -> bool {
    let rounded = bf16 && amx::bf16::suits(m, n, k);
    k > 0 && panels.len() == if rounded { amx::bf16::right_len(k, n) } else { amx::right_len(k, n) }
}

/// `gemm` for each item of `offsets`, which holds the starts of its A, B and C. Items may share A or B, but not C.
pub fn batched<T: Gemm>(
    (m, n, k): (usize, usize, usize),
    alpha: T,
    a: View<T>,
    b: View<T>,
    beta: T,
    c: &mut [T],
    rsc: usize,
    epilogue: Epilogue<T>,
    offsets: &[(usize, usize, usize)],
) {
    if m == 0 || n == 0 || offsets.is_empty() {
        return;
    }
    let (amax, bmax, cmax) = offsets.iter().fold((0, 0, 0), |x, o| (x.0.max(o.0), x.1.max(o.1), x.2.max(o.2)));
    if k > 0 {
        assert!(amax + (m - 1) * a.rs + (k - 1) * a.cs < a.data.len(), "A is too short");
        assert!(bmax + (k - 1) * b.rs + (n - 1) * b.cs < b.data.len(), "B is too short");
    }
    assert!(cmax + (m - 1) * rsc + n <= c.len() && (rsc >= n || m == 1), "C is too short");
    assert!(epilogue.row_bias.is_none_or(|x| x.len() >= m), "the row bias is too short");
    assert!(epilogue.col_bias.is_none_or(|x| x.len() >= n), "the column bias is too short");
    let shared = offsets.iter().all(|o| o.1 == 0);
    let panels = b.panels.filter(|p| shared && size_of::<T>() == 4 && fits((m, n, k), epilogue.bf16, p));
    let null = std::ptr::null();
    let problem = Problem {
        m,
        n,
        k,
        a: (a.data.as_ptr(), a.rs, a.cs),
        b: (b.data.as_ptr(), b.rs, b.cs),
        c: (c.as_mut_ptr(), rsc),
        finish: Finish {
            alpha,
            beta,
            row_bias: epilogue.row_bias.map_or(null, |x| x.as_ptr()),
            col_bias: epilogue.col_bias.map_or(null, |x| x.as_ptr()),
            relu: epilogue.relu,
            bf16: epilogue.bf16,
        },
        panels: panels.map_or(std::ptr::null(), |p| p.as_ptr()),
        next: [PrefetchRange::EMPTY; 2],
    };
    let each = Items(problem);
    // A method call makes the closures below capture `Items` as a whole: the pointers alone are not Sync.
    let items = |range: std::ops::Range<usize>, on_pool: bool| {
        for i in range.clone() {
            each.run(offsets[i], offsets[..range.end].get(i + 1), on_pool);
        }
    };
    let (work, all, threads) = (m * n * k.max(1), offsets.len(), crate::pool::threads());
    if all == 1 || (all < 2 * threads && work > 1 << 20) {
        return items(0..all, true);
    }
    let least = ((1 << 18) / work).max(1);
    if least >= all {
        items(0..all, false);
    } else {
        // Several items per chunk, where enough chunks remain for every thread.
        let grain = ((1 << 23) / work).min(all / (4 * threads)).max(least);
        crate::pool::ranges(all, grain, |r| items(r, false));
    }
}

/// `offsets` for `batched`: `n` items at constant distances, 0 where all share one.
pub fn strided_batch(n: usize, a: usize, b: usize, c: usize) -> Vec<(usize, usize, usize)> {
    (0..n).map(|i| (i * a, i * b, i * c)).collect()
}

/// The largest operand that is prefetched before its product begins: both operands have to fit the second-level cache.
const SOON_BYTES: usize = 128 << 10;

struct Items<T>(Problem<T>);
// SAFETY: items write disjoint parts of C and only read the rest.
unsafe impl<T: Send + Sync> Sync for Items<T> {}

type Offset = (usize, usize, usize);

impl<T: Gemm> Items<T> {
    fn run(&self, (oa, ob, oc): Offset, next: Option<&Offset>, on_pool: bool) {
        let mut p = self.0;
        let (a, b) = (p.a, p.b);
        p.a.0 = a.0.wrapping_add(oa);
        p.b.0 = b.0.wrapping_add(ob);
        p.c.0 = p.c.0.wrapping_add(oc);
        if let Some(&(na, nb, _)) = next {
            let next = |(q, rs, cs): (*const T, usize, usize), (now, next): (usize, usize), rows, cols| {
                let dense = (rs, cs) == (cols, 1) || (rs, cs) == (1, rows);
                let bytes = rows * cols * size_of::<T>();
                let asked = now != next && dense && bytes <= SOON_BYTES;
                if asked {
                    PrefetchRange { p: q.wrapping_add(next).cast(), bytes }
                } else {
                    PrefetchRange::EMPTY
                }
            };
            p.next = [next(a, (oa, na), p.m, p.k), next(b, (ob, nb), p.k, p.n)];
        }
        // SAFETY: `batched` has checked the slices against the extents.
        unsafe { T::run(&p, on_pool) }
    }
}

unsafe fn real<T: Float>(p: &Problem<T>, on_pool: bool) {
    let (a, b) = (p.a, p.b);
    if p.m == 1 || p.n == 1 {
        // SAFETY: the caller's.
        return unsafe { vector(p, on_pool) };
    }
    let a = Strided { p: a.0, rs: a.1, cs: a.2, rows: p.m };
    let b = PrefetchingNext { b: Strided { p: b.0, rs: b.1, cs: b.2, rows: p.k }, panels: p.panels, next: p.next };
    let c = RowMajor { p: p.c.0, rs: p.c.1 };
    // SAFETY: the caller's.
    unsafe {
        if on_pool {
            parallel(p.m, p.n, p.k, &a, &b, &c, &p.finish)
        } else {
            serial(p.m, p.n, p.k, &a, &b, &c, &p.finish)
        }
    }
}

/// One row or one column of C.
unsafe fn vector<T: Float>(p: &Problem<T>, on_pool: bool) {
    // The matrix oriented so that C is matrix * x, and x with its stride.
    let (matrix, (x, dx), len) =
        if p.n == 1 { (p.a, (p.b.0, p.b.1), p.m) } else { ((p.b.0, p.b.2, p.b.1), (p.a.0, p.a.2), p.n) };
    let step = if p.n == 1 { p.c.1 } else { 1 };
    let mut copy = Vec::new();
    let x = if dx == 1 {
        x
    } else {
        // SAFETY: the caller's extents.
        copy.extend((0..p.k).map(|i| unsafe { *x.add(i * dx) }));
        copy.as_ptr()
    };
    let f = &p.finish;
    // SAFETY: the caller's extents; `out` has one element per row of the matrix.
    unsafe {
        if step == 1 && f.beta == T::ZERO {
            matrix_vector(matrix.0, (matrix.1, matrix.2), len, p.k, x, p.c.0, on_pool);
            if !f.is_plain() {
                finish_vector(std::slice::from_raw_parts_mut(p.c.0, len), f, p.n == 1);
            }
            return;
        }
        let mut out = vec![T::ZERO; len];
        matrix_vector(matrix.0, (matrix.1, matrix.2), len, p.k, x, out.as_mut_ptr(), on_pool);
        if f.beta != T::ZERO {
            for (i, s) in out.iter_mut().enumerate() {
                *s = *s * f.alpha + f.beta * *p.c.0.add(i * step);
            }
            finish_vector(&mut out, &Finish { alpha: T::ONE, ..*f }, p.n == 1);
        } else {
            finish_vector(&mut out, f, p.n == 1);
        }
        for (i, &s) in out.iter().enumerate() {
            *p.c.0.add(i * step) = s;
        }
    }
}

/// The epilogue, without beta, of a column of C or of a row.
///
/// # Safety
/// A bias along the vector has as many values, one across it one value.
unsafe fn finish_vector<T: Float>(out: &mut [T], f: &Finish<T>, is_column: bool) {
    if f.alpha != T::ONE {
        out.iter_mut().for_each(|s| *s = *s * f.alpha);
    }
    for (bias, is_along) in [(f.row_bias, is_column), (f.col_bias, !is_column)] {
        if bias.is_null() {
            continue;
        }
        // SAFETY: the caller's.
        unsafe {
            if is_along {
                let bias = std::slice::from_raw_parts(bias, out.len());
                out.iter_mut().zip(bias).for_each(|(s, &b)| *s += b);
            } else {
                out.iter_mut().for_each(|s| *s += *bias);
            }
        }
    }
    if f.relu {
        out.iter_mut().for_each(|s| *s = if *s > T::ZERO { *s } else { T::ZERO });
    }
}

macro_rules! gemm_real {
    ($($t:ty),*) => {$(
        impl Gemm for $t {
            unsafe fn run(p: &Problem<$t>, on_pool: bool) {
                // SAFETY: the caller's.
                unsafe { real(p, on_pool) }
            }
        }
    )*};
}
gemm_real!(f32, f64);

/// A matrix in f32, with its strides. A matrix without gaps keeps its order, so that conversion is one pass.
///
/// # Safety
/// The matrix is readable.
unsafe fn widened<H: Half>(
    (q, rs, cs): (*const H, usize, usize),
    rows: usize,
    cols: usize,
    on_pool: bool,
) -> (Vec<f32>, usize, usize) {
    let mut wide = vec![0.0; rows * cols];
    if wide.is_empty() {
        return (wide, rs, cs);
    }
    if (cs == 1 && (rs == cols || rows == 1)) || (rs == 1 && (cs == rows || cols == 1)) {
        // SAFETY: the matrix is these elements.
        let from = unsafe { std::slice::from_raw_parts(q, rows * cols) };
        const PIECE: usize = 1 << 14;
        if on_pool {
            crate::pool::parts(&mut wide, PIECE, |start, part| H::widen(&from[start..start + part.len()], part));
        } else {
            H::widen(from, &mut wide);
        }
        return (wide, rs, cs);
    }
    for (i, row) in wide.chunks_exact_mut(cols).enumerate() {
        for (j, x) in row.iter_mut().enumerate() {
            // SAFETY: within the matrix.
            *x = unsafe { *q.add(i * rs + j * cs) }.to_f64() as f32;
        }
    }
    (wide, cols, 1)
}

/// The bias in f32.
///
/// # Safety
/// A bias that is not null has `len` values.
unsafe fn wide_bias<H: Half>(q: *const H, len: usize) -> Vec<f32> {
    let mut wide = vec![0.0; if q.is_null() { 0 } else { len }];
    if !q.is_null() {
        // SAFETY: the caller's.
        H::widen(unsafe { std::slice::from_raw_parts(q, len) }, &mut wide);
    }
    wide
}

/// Computed in f32 on copies, rounded once; or by `unit`, which returns whether it has computed the product.
unsafe fn of_halves<H: Half>(p: &Problem<H>, on_pool: bool, unit: impl FnOnce(&Finish<f32>) -> bool) {
    let (m, n, k) = (p.m, p.n, p.k);
    // SAFETY: the caller's extents.
    let (row, col) = unsafe { (wide_bias(p.finish.row_bias, m), wide_bias(p.finish.col_bias, n)) };
    let of = |x: &Vec<f32>| if x.is_empty() { std::ptr::null() } else { x.as_ptr() };
    let [alpha, beta] = [p.finish.alpha, p.finish.beta].map(|x| x.to_f64() as f32);
    let finish =
        Finish { alpha, beta, row_bias: of(&row), col_bias: of(&col), relu: p.finish.relu, bf16: p.finish.bf16 };
    if unit(&finish) {
        return;
    }
    // SAFETY: the caller's extents.
    let (a, b) = unsafe { (widened(p.a, m, k, on_pool), widened(p.b, k, n, on_pool)) };
    let mut c = vec![0.0; m * n];
    // SAFETY: the rows of C, as the caller's extents say.
    let rows = |i: usize| unsafe { std::slice::from_raw_parts_mut(p.c.0.add(i * p.c.1), n) };
    if beta != 0.0 {
        for (i, wide) in c.chunks_exact_mut(n).enumerate() {
            H::widen(rows(i), wide);
        }
    }
    let (a, b) = ((a.0.as_ptr(), a.1, a.2), (b.0.as_ptr(), b.1, b.2));
    let wide = Problem {
        m,
        n,
        k,
        a,
        b,
        c: (c.as_mut_ptr(), n),
        finish,
        panels: std::ptr::null(),
        next: [PrefetchRange::EMPTY; 2],
    };
    // SAFETY: the copies are as large as the extents say.
    unsafe { real(&wide, on_pool) };
    for (i, wide) in c.chunks_exact(n).enumerate() {
        H::narrow(wide, rows(i));
    }
}

impl Gemm for f16 {
    unsafe fn run(p: &Problem<f16>, on_pool: bool) {
        // SAFETY: the caller's.
        unsafe { of_halves(p, on_pool, |_| false) }
    }
}

impl Gemm for bf16 {
    unsafe fn run(p: &Problem<bf16>, on_pool: bool) {
        let (m, n, k) = (p.m, p.n, p.k);
        let view = |(q, rs, cs): (*const bf16, usize, usize), rows: usize, cols: usize| {
            let len = if rows * cols == 0 { 0 } else { (rows - 1) * rs + (cols - 1) * cs + 1 };
            // SAFETY: the caller's extents.
            View::new(unsafe { std::slice::from_raw_parts(q, len) }, rs, cs)
        };
        let unit = |finish: &Finish<f32>| {
            // SAFETY: the caller's.
            unsafe { amx::bf16::halves((m, n, k), view(p.a, m, k), view(p.b, k, n), p.c, finish, on_pool) }
        };
        // SAFETY: the caller's.
        unsafe { of_halves(p, on_pool, unit) }
    }
}

macro_rules! int_row {
    ($p:expr, $i:ident) => {{
        let p = $p;
        let f = &p.finish;
        let c = std::slice::from_raw_parts_mut(p.c.0.add($i * p.c.1), p.n);
        for v in c.iter_mut() {
            *v = if f.beta == 0 { 0 } else { v.wrapping_mul(f.beta) };
        }
        for q in 0..p.k {
            let a = (*p.a.0.add($i * p.a.1 + q * p.a.2)).wrapping_mul(f.alpha);
            let b = p.b.0.add(q * p.b.1);
            for (j, v) in c.iter_mut().enumerate() {
                *v = v.wrapping_add(a.wrapping_mul(*b.add(j * p.b.2)));
            }
        }
        for (j, v) in c.iter_mut().enumerate() {
            if !f.row_bias.is_null() {
                *v = v.wrapping_add(*f.row_bias.add($i));
            }
            if !f.col_bias.is_null() {
                *v = v.wrapping_add(*f.col_bias.add(j));
            }
            if f.relu {
                *v = (*v).max(0);
            }
        }
    }};
}

macro_rules! gemm_int {
    ($($t:ty),*) => {$(
        impl Gemm for $t {
            unsafe fn run(p: &Problem<$t>, on_pool: bool) {
                let q = Items(*p);
                let q = &q;
                // SAFETY: the caller's extents; each row of C is written by one call.
                let row = |i: usize| unsafe { int_row!(q.get(), i) };
                let grain = (1usize << 16).div_ceil(p.n * p.k.max(1));
                if on_pool && p.m > grain {
                    crate::pool::ranges(p.m, grain, |r| r.for_each(row));
                } else {
                    (0..p.m).for_each(row);
                }
            }
        }
    )*};
}
gemm_int!(i32, i64);

impl<T> Items<T> {
    fn get(&self) -> &Problem<T> {
        &self.0
    }
}
