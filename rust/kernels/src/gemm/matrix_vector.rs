//! Matrix-vector products. They are bound by memory bandwidth: the matrix is read once, sequentially, without copies.
#![allow(clippy::needless_range_loop)] // registers are counted, not iterated

use crate::gemm::operands::with_scratch;
use crate::pool::SharedPtr;
use crate::simd::{level, Level};
use crate::types::{Float, Number, Vector};

/// Columns of one call of `combine`: the sums stay in the first-level cache.
const COLUMNS: usize = 1024;
/// The same where blocks of rows are combined: short pieces of rows would not reach the memory bandwidth.
const WIDE: usize = 4096;
/// With AVX-512, rows of at least this many elements are prefetched while the rows before are added, but in blocks as
/// small as `NEAR_BLOCK`. (Without AVX-512 prefetching is slower: AMD Zen 3 reads eight rows without it at 34 GB/s, four
/// with it at 28.)
const LONG: usize = 512;
/// Elements of a block of rows, and its least number of rows.
const BLOCK: usize = 1 << 21;
const LEAST_ROWS: usize = 64;
/// The same for rows of at most `COLUMNS` elements. Threads that divided the columns would read pieces of each row, a power
/// of two apart, which share the sets of a cache: 784 x 512 on two threads in twice the time.
const NEAR_BLOCK: usize = 1 << 16;
/// Elements of the matrix in one chunk of work, at most and (but for the last) at least.
const CHUNK: usize = 1 << 17;
const LEAST_CHUNK: usize = 1 << 15;
/// Matrices of more elements are divided among threads.
const SHARED: usize = 1 << 16;

#[inline(always)]
unsafe fn dots_body<V: Vector>(a: *const V::T, rs: usize, rows: usize, x: *const V::T, k: usize, out: *mut V::T) {
    // SAFETY: the caller's matrix and vectors.
    unsafe {
        let mut i = 0;
        while i + 4 <= rows {
            let s = dot_rows::<V, 4>(a.add(i * rs), rs, x, k);
            for (r, s) in s.into_iter().enumerate() {
                *out.add(i + r) = s;
            }
            i += 4;
        }
        while i < rows {
            *out.add(i) = dot_rows::<V, 1>(a.add(i * rs), rs, x, k)[0];
            i += 1;
        }
    }
}

/// R rows at once; the order of each row's sum does not depend on R.
#[inline(always)]
unsafe fn dot_rows<V: Vector, const R: usize>(a: *const V::T, rs: usize, x: *const V::T, k: usize) -> [V::T; R] {
    // SAFETY: the caller's rows.
    unsafe {
        let mut acc = [[V::zero(); 2]; R];
        let mut p = 0;
        while p + 2 * V::L <= k {
            let (x0, x1) = (V::load(x.add(p)), V::load(x.add(p + V::L)));
            for r in 0..R {
                let row = a.add(r * rs + p);
                acc[r][0] = V::load(row).fma(x0, acc[r][0]);
                acc[r][1] = V::load(row.add(V::L)).fma(x1, acc[r][1]);
            }
            p += 2 * V::L;
        }
        let mut h = 0;
        while p < k {
            let n = V::L.min(k - p);
            let xv = V::load_n(x.add(p), n);
            for r in 0..R {
                acc[r][h] = V::load_n(a.add(r * rs + p), n).fma(xv, acc[r][h]);
            }
            p += n;
            h ^= 1;
        }
        std::array::from_fn(|r| acc[r][0].add(acc[r][1]).sum())
    }
}

crate::by_level! {
    /// `out[i] = a[i, ..] . x` for rows of consecutive elements.
    unsafe fn dots<T>(a: *const T, rs: usize, rows: usize, x: *const T, k: usize, out: *mut T) = dots_body
}
/// Vectors of `out` that are updated at once: with eight rows, 32 independent loads.
const ACROSS: usize = 4;

/// `U` vectors of `out += times[0] * row 0`, then row 1 and so on.
#[inline(always)]
unsafe fn add_columns<V: Vector, const R: usize, const U: usize>(
    b: *const V::T,
    rs: usize,
    times: &[V; R],
    out: *mut V::T,
) {
    // SAFETY: the caller's rows and vectors.
    unsafe {
        let mut s: [V; U] = std::array::from_fn(|u| V::load(out.add(u * V::L)));
        for r in 0..R {
            for u in 0..U {
                s[u] = V::load(b.add(r * rs + u * V::L)).fma(times[r], s[u]);
            }
        }
        for u in 0..U {
            s[u].store(out.add(u * V::L));
        }
    }
}

/// `out += x[0] * row 0`, then row 1 and so on; with PREFETCH the next R rows are prefetched.
#[inline(always)]
unsafe fn add_rows<V: Vector, const R: usize, const PREFETCH: bool>(
    b: *const V::T,
    rs: usize,
    x: *const V::T,
    n: usize,
    out: *mut V::T,
) -> usize {
    // SAFETY: the caller's rows and vectors.
    unsafe {
        let times: [V; R] = std::array::from_fn(|r| V::splat(*x.add(r)));
        let mut j = 0;
        while !PREFETCH && j + ACROSS * V::L <= n {
            add_columns::<V, R, ACROSS>(b.add(j), rs, &times, out.add(j));
            j += ACROSS * V::L;
        }
        while j + V::L <= n {
            if PREFETCH {
                for r in 0..R {
                    crate::simd::vector::prefetch(b.wrapping_add((R + r) * rs + j));
                }
            }
            add_columns::<V, R, 1>(b.add(j), rs, &times, out.add(j));
            j += V::L;
        }
        if j < n {
            let left = n - j;
            let mut s = V::load_n(out.add(j), left);
            for r in 0..R {
                s = V::load_n(b.add(r * rs + j), left).fma(times[r], s);
            }
            s.store_n(out.add(j), left);
        }
    }
    R
}

/// Every sum is one chain over the rows; it does not depend on how many rows are added at a time.
#[inline(always)]
unsafe fn sum_rows<V: Vector, const PREFETCH: bool>(
    b: *const V::T,
    rs: usize,
    k: usize,
    x: *const V::T,
    n: usize,
    out: *mut V::T,
) {
    // SAFETY: the caller's matrix and vectors.
    unsafe {
        std::slice::from_raw_parts_mut(out, n).fill(V::T::ZERO);
        add_products::<V, PREFETCH>(b, rs, k, x, n, out);
    }
}

/// As `sum_rows`, added to `out`.
#[inline(always)]
unsafe fn add_products<V: Vector, const PREFETCH: bool>(
    b: *const V::T,
    rs: usize,
    k: usize,
    x: *const V::T,
    n: usize,
    out: *mut V::T,
) {
    // SAFETY: the caller's matrix and vectors.
    unsafe {
        let mut p = 0;
        while p < k {
            let (b, x) = (b.add(p * rs), x.add(p));
            p += match k - p {
                8.. if !PREFETCH => add_rows::<V, 8, PREFETCH>(b, rs, x, n, out),
                4.. => add_rows::<V, 4, PREFETCH>(b, rs, x, n, out),
                2.. => add_rows::<V, 2, PREFETCH>(b, rs, x, n, out),
                _ => add_rows::<V, 1, PREFETCH>(b, rs, x, n, out),
            };
        }
    }
}

crate::by_level! {
    /// `out[j] = sum of x[p] * b[p, j]` for rows of consecutive elements. PREFETCH: for long rows that are not in the
    /// caches.
    unsafe fn combine<T, const PREFETCH: bool>(
        b: *const T, rs: usize, k: usize, x: *const T, n: usize, out: *mut T
    ) = sum_rows
}

crate::by_level! {
    /// `out[j] += sum of x[p] * b[p, j]` for rows of consecutive elements, which are in the caches.
    pub(crate) unsafe fn accumulate<T, const PREFETCH: bool>(
        b: *const T, rs: usize, k: usize, x: *const T, n: usize, out: *mut T
    ) = add_products
}

/// `out[i] = a[i, ..] . x`: `rows` rows of `k` elements, `(rs, cs)` apart. `out` and `x` are consecutive.
///
/// # Safety
/// The pointers are valid for these extents.
pub unsafe fn matrix_vector<T: Float>(
    a: *const T,
    (rs, cs): (usize, usize),
    rows: usize,
    k: usize,
    x: *const T,
    out: *mut T,
    parallel: bool,
) {
    let (a, x, out) = (SharedPtr(a as *mut T), SharedPtr(x as *mut T), SharedPtr(out));
    let (a, x, out) = (&a, &x, &out);
    let each = |n: usize, grain: usize, f: &(dyn Fn(std::ops::Range<usize>) + Sync)| {
        if parallel && rows * k > SHARED {
            crate::pool::ranges(n, grain, f);
        } else {
            for i in (0..n).step_by(grain) {
                f(i..(i + grain).min(n));
            }
        }
    };
    if parallel {
        crate::pool::alternate(a.get() as usize);
    }
    // Rows of a chunk: every thread has one where a chunk has enough elements.
    let share = rows.div_ceil(if parallel { crate::pool::threads() } else { 1 }).max(LEAST_CHUNK / k.max(1));
    if cs == 1 {
        let grain = (CHUNK / k.max(1)).min(share).clamp(1, rows.max(1)).next_multiple_of(4);
        // SAFETY: the caller's extents; ranges are disjoint.
        each(rows, grain, &|r| unsafe {
            dots(a.get().add(r.start * rs), rs, r.len(), x.get(), k, out.get().add(r.start))
        });
    } else if rs == 1 && rows * k >= 2 * BLOCK && k >= 4 * LEAST_ROWS {
        let block = (BLOCK / rows).min(k / 8).max(LEAST_ROWS);
        // SAFETY: the caller's extents.
        unsafe { in_blocks((a, cs), rows, (k, block), (x, out), &each) };
    } else if rs == 1 && rows * k > SHARED && rows <= COLUMNS && k >= 2 * LEAST_ROWS {
        // An even number of equal blocks.
        let pairs = k.div_ceil((NEAR_BLOCK / rows).min(k / 2)).div_ceil(2);
        // SAFETY: the caller's extents.
        unsafe { in_blocks((a, cs), rows, (k, k.div_ceil(2 * pairs)), (x, out), &each) };
    } else if rs == 1 {
        // SAFETY: as above.
        each(rows, COLUMNS.min(share.next_multiple_of(64)), &|r| unsafe {
            combine::<T, false>(a.get().add(r.start), cs, k, x.get(), r.len(), out.get().add(r.start))
        });
    } else {
        each(rows, 256, &|r| {
            for i in r {
                // SAFETY: as above.
                unsafe {
                    let mut s = T::ZERO;
                    for p in 0..k {
                        s += *a.get().add(i * rs + p * cs) * *x.get().add(p);
                    }
                    *out.get().add(i) = s;
                }
            }
        });
    }
}

/// `out[j] = sum of x[p] * a[p, j]`, the rows `cs` apart: partial sums over blocks of `block` rows, added in order.
///
/// # Safety
/// The pointers are valid for `k` rows of `n` elements, and nothing else touches `out`.
unsafe fn in_blocks<T: Float>(
    (a, cs): (&SharedPtr<T>, usize),
    n: usize,
    (k, block): (usize, usize),
    (x, out): (&SharedPtr<T>, &SharedPtr<T>),
    each: &impl Fn(usize, usize, &(dyn Fn(std::ops::Range<usize>) + Sync)),
) {
    let blocks = k.div_ceil(block);
    with_scratch::<T, _>(blocks * n, |partial| {
        let partial = &SharedPtr(partial);
        let wide = n.div_ceil(WIDE);
        each(blocks * wide, 1, &|r| {
            for (i, j) in r.map(|t| (t / wide, t % wide * WIDE)) {
                let (first, many, width) = (i * block, block.min(k - i * block), WIDE.min(n - j));
                let prefetches = width >= LONG && block * n > 2 * NEAR_BLOCK && level() == Level::Avx512;
                let add = if prefetches { combine::<T, true> } else { combine::<T, false> };
                // SAFETY: the caller's extents; block i has row i of `partial` for itself.
                unsafe {
                    let (a, sums) = (a.get().add(first * cs + j), partial.get().add(i * n + j));
                    add(a, cs, many, x.get().add(first), width, sums);
                }
            }
        });
        each(n, COLUMNS, &|r| {
            // SAFETY: only this call accesses these elements, and every block has been summed.
            unsafe {
                let out = std::slice::from_raw_parts_mut(out.get().add(r.start), r.len());
                let sums = |i: usize| std::slice::from_raw_parts(partial.get().add(i * n + r.start), r.len());
                out.copy_from_slice(sums(0));
                for i in 1..blocks {
                    out.iter_mut().zip(sums(i)).for_each(|(o, &s)| *o += s);
                }
            }
        });
    });
}
