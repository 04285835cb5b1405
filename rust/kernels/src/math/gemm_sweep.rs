//! Few rows of C and a B that the caches do not hold.
//!
//! Here most of the time may go into waiting for B. Were all of its columns packed while the first panel of rows is
//! computed, memory would be busy then and idle afterwards. So all panels of A are kept (in the second-level cache), and
//! the tiles of B come one by one: the first panel of rows packs a tile, and while the next panels are computed with it the
//! tile after it is asked for, a line a step. Every element of C is the same chain of additions as elsewhere.

use crate::gemm_kernel::{asking, copying, kernel, Shape, A_STRIDE};
use crate::gemm_sides::{block_bytes, k_block, with_scratch, Finish, LeftSide, Part, RightSide, Target};
use crate::gemm_simd::Real;
use crate::gemm_tile::{one_tile, Operands, Room};
use std::ops::Range;

/// The most panels of rows that are kept.
const PANELS: usize = 16;

/// Computes the product if it is of this kind; says whether it did.
///
/// # Safety
/// As for `gemm_drive::serial`.
#[inline]
pub unsafe fn sweep<T: Real>(
    m: &Range<usize>,
    n: &Range<usize>,
    k: usize,
    shape: Shape,
    a: &impl LeftSide<T>,
    b: &impl RightSide<T>,
    c: &impl Target<T>,
    finish: &Finish<T>,
) -> bool {
    let panels = m.len().div_ceil(shape.rows);
    let kind = (2..=PANELS).contains(&panels)
        && n.len() * k * size_of::<T>() > block_bytes() / 2
        && copying::<T>(shape.rows, shape.nv, false).is_some()
        && b.in_place(0, n.start, m.len(), shape.lanes).is_none()
        && b.rows(0, n.start).is_some();
    if !kind {
        return false;
    }
    let (width, kb, panel) = (shape.width(), k_block(k), shape.rows * A_STRIDE);
    let parts = [panels * panel, kb * width, shape.rows * width];
    with_scratch::<T, _>(parts.iter().sum(), |buf| {
        // SAFETY: the buffer has these parts.
        let [bbuf, tbuf] = unsafe { [buf.add(parts[0]), buf.add(parts[0] + parts[1])] };
        let mut room = Room::new(tbuf);
        let mut p = 0;
        while p < k {
            let kc = kb.min(k - p);
            let part = Part { rows: m.clone(), j: n.start, nc: n.len(), p, kc, last: p + kc == k, shape };
            // SAFETY: the caller's ranges, and the buffers above.
            unsafe { block(&part, a, b, c, finish, (buf, bbuf), &mut room) };
            p += kc;
        }
    });
    true
}

unsafe fn block<T: Real>(
    x: &Part,
    a: &impl LeftSide<T>,
    b: &impl RightSide<T>,
    c: &impl Target<T>,
    finish: &Finish<T>,
    (abuf, bbuf): (*mut T, *mut T),
    room: &mut Room<T>,
) {
    let (width, height, nv) = (x.shape.width(), x.shape.rows, x.shape.nv);
    let lines = (width * size_of::<T>()).div_ceil(64);
    let (rows_of_b, rsb) = b.rows(x.p, x.j).expect("`sweep` has asked");
    let panels = || x.rows.clone().step_by(height).map(|i| (i, height.min(x.rows.end - i))).enumerate();
    let mut kept = [(std::ptr::null(), 0, false); PANELS];
    // SAFETY: the caller's ranges and buffers.
    unsafe {
        for (s, (i, rows)) in panels() {
            let to = abuf.add(s * height * A_STRIDE);
            kept[s] = match a.panel(i, rows, x.p, x.kc, to) {
                Some((p, distance)) => (p, distance, true),
                None => (to.cast_const(), 0, false),
            };
        }
        for j in (0..x.nc).step_by(width) {
            let cols = width.min(x.nc - j);
            let (from, next) = (rows_of_b.wrapping_add(j), rows_of_b.wrapping_add(j + width));
            if cols < width {
                b.pack(x.p, x.kc, x.j + j, cols, width, bbuf);
            }
            for (s, (i, rows)) in panels() {
                let (pa, csa, columns) = kept[s];
                let mut of = Operands { a: pa, csa, b: bbuf.cast_const(), rsb: width, aside: bbuf, aside_step: width };
                let copies = copying::<T>(rows, nv, columns).filter(|_| s == 0 && cols == width);
                let asks = asking::<T>(rows, nv, columns).filter(|_| cols == width && j + 2 * width <= x.nc);
                let f = match (copies, asks) {
                    (Some(f), _) => {
                        (of.b, of.rsb) = (from, rsb);
                        f
                    }
                    // Panel 1 asks for the first line of each of its rows, panel 2 for the second.
                    (None, Some(f)) if (1..=lines).contains(&s) => {
                        of.aside = next.wrapping_byte_add((s - 1) * 64).cast_mut();
                        of.aside_step = rsb;
                        f
                    }
                    _ => kernel::<T>(rows, cols.div_ceil(x.shape.lanes), columns),
                };
                one_tile(x, &of, f, (i, rows), (j, cols), c, finish, room);
            }
        }
    }
}
