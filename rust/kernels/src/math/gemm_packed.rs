//! A matrix B that many products share, packed once: so a network may multiply the states of every step by the same weights.

use crate::gemm::{finish_of, gemm, Epilogue, Gemm, View};
use crate::gemm_drive::parallel;
use crate::gemm_kernel::Shape;
use crate::gemm_pack::{RowMajor, Strided};
use crate::gemm_sides::{k_block, with_scratch, RightSide};
use crate::gemm_simd::Real;
use crate::gemm_vec::Shared;
use crate::pool;

/// Elements that one part of the packing takes.
const CHUNK: usize = 1 << 15;

pub struct Packed<'a, T> {
    rows: usize,
    n: usize,
    k: usize,
    b: View<'a, T>,
    panels: Panels<T>,
}

/// B as `RightSide::pack` leaves it, part of k by part, in rows of `padded` elements.
struct Panels<T> {
    p: *const T,
    width: usize,
    padded: usize,
}

// SAFETY: only read through.
unsafe impl<T: Sync> Sync for Panels<T> {}

impl<T: Real + Gemm> Packed<'_, T> {
    /// Calls `f` with `b`, of `k` rows and `n` columns, packed for products with `rows` rows. (For a single one it stays as it is.)
    pub fn with<R>((rows, n, k): (usize, usize, usize), b: View<T>, f: impl FnOnce(&Packed<T>) -> R) -> R {
        assert!(n * k == 0 || (k - 1) * b.rs + (n - 1) * b.cs < b.data.len(), "B is too short");
        let (width, kb) = (Shape::of::<T>(rows.max(1), n.max(1)).width(), k_block(k));
        let padded = n.next_multiple_of(width);
        let from = Strided { p: b.data.as_ptr(), rs: b.rs, cs: b.cs, rows: k };
        with_scratch::<T, _>(if rows > 1 { padded * k } else { 0 }, |buf| {
            let to = &Shared(buf);
            for p in (0..if rows > 1 { k } else { 0 }).step_by(kb) {
                let kc = kb.min(k - p);
                pool::ranges(n, (CHUNK / kc).next_multiple_of(width), |j| {
                    // SAFETY: `b` is long enough, and so is the buffer, of which every range has its own panels.
                    unsafe { from.pack(p, kc, j.start, j.len(), width, to.get().add(p * padded + j.start * kc)) }
                });
            }
            f(&Packed { rows, n, k, b, panels: Panels { p: buf, width, padded } })
        })
    }

    /// `c = act(a * b + beta * c + bias)`, as `gemm` computes it.
    pub fn times(&self, a: View<T>, beta: T, c: &mut [T], rsc: usize, epilogue: Epilogue<T>) {
        let (m, n, k) = (self.rows, self.n, self.k);
        let one = <T as Real>::ONE;
        if m <= 1 || n == 0 {
            return gemm((m, n, k), one, a, self.b, beta, c, rsc, epilogue);
        }
        assert!(k == 0 || (m - 1) * a.rs + (k - 1) * a.cs < a.data.len(), "A is too short");
        assert!((m - 1) * rsc + n <= c.len() && rsc >= n, "C is too short");
        let finish = finish_of((m, n), one, beta, epilogue);
        let a = Strided { p: a.data.as_ptr(), rs: a.rs, cs: a.cs, rows: m };
        let c = RowMajor { p: c.as_mut_ptr(), rs: rsc };
        // SAFETY: the slices are as long as the assertions say.
        unsafe { parallel(m, n, k, &a, &self.panels, &c, &finish) }
    }
}

impl<T: Real> RightSide<T> for Panels<T> {
    unsafe fn pack(&self, _p: usize, _kc: usize, _j: usize, _nc: usize, _width: usize, _buf: *mut T) {
        unreachable!("B is packed")
    }
    fn packed(&self) -> Option<usize> {
        Some(self.width)
    }
    fn panels(&self, p: usize, kc: usize, j: usize) -> *const T {
        debug_assert!(j.is_multiple_of(self.width));
        self.p.wrapping_add(p * self.padded + j * kc)
    }
}
