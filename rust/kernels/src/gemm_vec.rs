//! Matrix-vector products: bound by reading the matrix, so they read it once, in long runs, and copy nothing.
#![allow(clippy::needless_range_loop)] // registers are counted, not iterated

use crate::gemm_simd::{Real, Vector};

/// Columns that one call of `combine` covers: the sums stay in the first-level cache.
const COLUMNS: usize = 1024;
/// The same where blocks of rows are combined: whole rows are read at the speed of memory, short pieces of them are not.
const WIDE: usize = 4096;
/// Rows of so many elements are read one at a time, and memory this many bytes ahead is asked for.
const LONG: usize = 512;
const AHEAD: usize = 16 << 10;
/// Elements of such a block, and its fewest rows.
const BLOCK: usize = 1 << 20;
const LEAST_ROWS: usize = 64;
/// Elements of the matrix that one chunk of work covers.
const CHUNK: usize = 1 << 17;

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

/// R rows at once; each row's sum is formed alike whatever R is.
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
#[inline(always)]
unsafe fn combine_body<V: Vector>(b: *const V::T, rs: usize, k: usize, x: *const V::T, n: usize, out: *mut V::T) {
    // SAFETY: the caller's matrix and vectors.
    unsafe {
        for j in 0..n {
            *out.add(j) = V::T::ZERO;
        }
        let mut p = 0;
        while p < k {
            let group = 8.min(k - p);
            let row = |i: usize| b.add((p + i) * rs);
            let mut j = 0;
            while j < n {
                let left = V::L.min(n - j);
                let full = left == V::L;
                let mut s = if full { V::load(out.add(j)) } else { V::load_n(out.add(j), left) };
                if group == 8 && full {
                    for i in 0..8 {
                        s = V::load(row(i).add(j)).fma(V::splat(*x.add(p + i)), s);
                    }
                } else {
                    for i in 0..group {
                        s = V::load_n(row(i).add(j), left).fma(V::splat(*x.add(p + i)), s);
                    }
                }
                if full {
                    s.store(out.add(j));
                } else {
                    s.store_n(out.add(j), left);
                }
                j += left;
            }
            p += group;
        }
    }
}

/// As `combine_body`, which adds in the same order, for long rows that are not in the caches.
#[inline(always)]
unsafe fn stream_body<V: Vector>(b: *const V::T, rs: usize, k: usize, x: *const V::T, n: usize, out: *mut V::T) {
    // SAFETY: the caller's matrix and vectors.
    unsafe {
        for j in 0..n {
            *out.add(j) = V::T::ZERO;
        }
        for p in 0..k {
            let (row, times) = (b.add(p * rs), V::splat(*x.add(p)));
            let mut j = 0;
            while j + V::L <= n {
                crate::gemm_pack::prefetch(row.wrapping_add(j).wrapping_byte_add(AHEAD));
                V::load(row.add(j)).fma(times, V::load(out.add(j))).store(out.add(j));
                j += V::L;
            }
            if j < n {
                let left = n - j;
                V::load_n(row.add(j), left).fma(times, V::load_n(out.add(j), left)).store_n(out.add(j), left);
            }
        }
    }
}

crate::by_level! {
    /// What `combine` gives, for long rows from memory.
    unsafe fn stream<T>(b: *const T, rs: usize, k: usize, x: *const T, n: usize, out: *mut T) = stream_body
}
crate::by_level! {
    /// `out[j] = sum of x[p] * b[p, j]` for rows of consecutive elements.
    unsafe fn combine<T>(b: *const T, rs: usize, k: usize, x: *const T, n: usize, out: *mut T) = combine_body
}

/// `out[i] = a[i, ..] . x`: `rows` rows of `k` elements, `(rs, cs)` apart. `out` and `x` are consecutive.
///
/// # Safety
/// The pointers are valid for these extents.
pub unsafe fn matrix_vector<T: Real>(
    a: *const T,
    (rs, cs): (usize, usize),
    rows: usize,
    k: usize,
    x: *const T,
    out: *mut T,
    parallel: bool,
) {
    let (a, x, out) = (Shared(a as *mut T), Shared(x as *mut T), Shared(out));
    let (a, x, out) = (&a, &x, &out);
    let each = |n: usize, grain: usize, f: &(dyn Fn(std::ops::Range<usize>) + Sync)| {
        if parallel && rows * k > CHUNK {
            crate::pool::ranges(n, grain, f);
        } else {
            for i in (0..n).step_by(grain) {
                f(i..(i + grain).min(n));
            }
        }
    };
    let block = (BLOCK / rows.max(1)).max(LEAST_ROWS);
    if cs == 1 {
        let grain = (CHUNK / k.max(1)).clamp(1, rows.max(1)).next_multiple_of(4);
        // SAFETY: the caller's extents; ranges are disjoint.
        each(rows, grain, &|r| unsafe {
            dots(a.get().add(r.start * rs), rs, r.len(), x.get(), k, out.get().add(r.start))
        });
    } else if rs == 1 && rows > 0 && k >= 4 * block {
        // Blocks of the sum, whose results are added in order.
        let mut partial = vec![T::ZERO; k.div_ceil(block) * rows];
        let sums = Shared(partial.as_mut_ptr());
        let sums = &sums;
        each(k.div_ceil(block), 1, &|r| {
            for i in r {
                let (first, many) = (i * block, block.min(k - i * block));
                for j in (0..rows).step_by(WIDE) {
                    // SAFETY: as above; block i has row i of `partial` for itself.
                    unsafe {
                        let (a, out) = (a.get().add(first * cs + j), sums.get().add(i * rows + j));
                        let n = WIDE.min(rows - j);
                        let add = if n >= LONG { stream::<T> } else { combine::<T> };
                        add(a, cs, many, x.get().add(first), n, out);
                    }
                }
            }
        });
        // SAFETY: as above; nobody else writes to `out`.
        let out = unsafe { std::slice::from_raw_parts_mut(out.get(), rows) };
        out.copy_from_slice(&partial[..rows]);
        for sums in partial.chunks_exact(rows).skip(1) {
            out.iter_mut().zip(sums).for_each(|(o, &s)| *o += s);
        }
    } else if rs == 1 {
        // SAFETY: as above.
        each(rows, COLUMNS, &|r| unsafe {
            combine(a.get().add(r.start), cs, k, x.get(), r.len(), out.get().add(r.start))
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

/// A pointer that threads may share: they touch disjoint parts.
pub struct Shared<T>(pub *mut T);
// SAFETY: whoever makes one sees to disjoint parts.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<T> {}
impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}
impl<T> Shared<T> {
    pub fn get(&self) -> *mut T {
        self.0
    }
}
