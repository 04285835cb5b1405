//! Products of few rows of C with a B that exceeds the caches.
//!
//! Such a product is bound by loading B. Packing all columns of B during the first panel of rows would use the memory
//! only then, and leave it idle afterwards. Therefore all packed panels of A are kept in the second-level cache, and B
//! is processed tile by tile. With AVX-512, or with very few rows, the first panel packs a tile; the next panels
//! prefetch a later tile, one line per step, while they compute. Otherwise every panel packs some rows of the next tile
//! and prefetches as many rows of a later one, one every few steps. Every element of C is the same chain of additions
//! as in the blocked driver.
//!
//! Products with many rows and many columns are computed by blocks of rows (`rows_kept`) from a B that is packed once
//! and stays in the last-level cache: otherwise A would be packed again for each of many narrow blocks of B.

use crate::gemm::kernel::{carrying, copying, kernel, prefetching, Kernel, Shape, SideWork, A_STRIDE};
use crate::gemm::operands::{block_bytes, k_block, with_scratch, Finish, LeftSide, ProductPart, RightSide, Target};
use crate::gemm::tile::{one_tile, row_tiles, TileScratch};
use crate::simd::{cache_size, level, Level};
use crate::types::Float;
use std::ops::Range;

/// Largest number of panels that are kept, and of rows that `sweep` takes.
const PANELS: usize = 64;
const FEW_ROWS: usize = 224;
/// Least number of panels that pack the next tile together: three panels have too few steps to hide the loads.
const CARRIERS: usize = 4;
/// Up to this many panels are packed again rather than kept for blocks of rows.
const FEW_PANELS: usize = 16;
/// Tiles of a packed B that a panel of rows processes consecutively, to write rows of C in longer runs.
const GROUP: usize = 8;
/// Width of a block of B from which packing A again pays.
const WIDE: usize = 512;
/// Distance, in tiles, between prefetching and packing a tile of B. One is too late for B on small pages (AMD Zen 3:
/// packing takes 8,200 cycles with one, 3,900 with two).
const AHEAD: usize = 2;
/// Largest packed B, in bytes, for blocks of rows.
const LARGE: usize = 4 << 20;

/// Largest number of rows of A that are kept: for one block of k they fit half of the core's cache.
pub fn most_rows<T>() -> usize {
    FEW_ROWS.min(block_bytes() / (A_STRIDE * size_of::<T>()))
}

/// Computes the product if this method applies; returns whether it does.
///
/// # Safety
/// As for `driver::serial`.
#[inline]
pub unsafe fn sweep<T: Float>(
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
        && m.len() <= most_rows::<T>()
        && n.len() * k * size_of::<T>() > block_bytes() / 2
        && copying::<T>(shape.rows, shape.nv, false).is_some()
        && b.in_place(0, n.start, m.len(), shape.lanes).is_none()
        && b.rows(0, n.start).is_some();
    if !kind {
        return false;
    }
    let (width, kb, panel) = (shape.width(), k_block(k), shape.rows * A_STRIDE);
    let parts = [panels * panel, 2 * kb * width, shape.rows * width];
    with_scratch::<T, _>(parts.iter().sum(), |buf| {
        // SAFETY: the buffer has these parts.
        let [bbuf, tbuf] = unsafe { [buf.add(parts[0]), buf.add(parts[0] + parts[1])] };
        let mut scratch = TileScratch::new(tbuf);
        let mut p = 0;
        while p < k {
            let kc = kb.min(k - p);
            let part = ProductPart { rows: m.clone(), j: n.start, nc: n.len(), p, kc, last: p + kc == k, shape };
            // SAFETY: the caller's ranges, and the buffers above.
            unsafe { block(&part, a, b, c, finish, (buf, bbuf), false, &mut scratch) };
            p += kc;
        }
    });
    true
}

/// Rows of a kept block and columns of its B, if that is faster than panels of rows on a B of `block` columns.
pub fn kept((m, n, k): (usize, usize, usize), shape: Shape, block: usize, bytes: usize) -> Option<(usize, usize)> {
    let few = n <= block || block >= WIDE || m <= FEW_PANELS * shape.rows;
    // All of C is read and written once per block of k: for many blocks, long rows are faster where C exceeds the
    // last-level cache.
    let kb = k_block(k);
    let most = if k <= 2 * kb { cache_size() / 2 } else { cache_size() / 4 };
    if level() != Level::Avx2 || few || m * n * bytes > most {
        return None;
    }
    let even = |n: usize, fit: usize| n.div_ceil(n.div_ceil(fit.max(1)));
    // The block fits the second-level cache together with a group of tiles of B and the tiles of C.
    let rows = even(m.div_ceil(shape.rows), (block_bytes() / 8 * 3 / bytes / kb / shape.rows).min(PANELS));
    let large = (cache_size() / 8).clamp(block_bytes(), LARGE);
    let columns = even(n.div_ceil(shape.width()), large / bytes / kb / shape.width());
    Some((rows * shape.rows, columns * shape.width()))
}

/// Computes a part by blocks of `height` rows.
///
/// # Safety
/// As for `driver::serial`; the buffers hold the packed panels of a block, all of the part's B, and a tile.
pub unsafe fn rows_kept<T: Float>(
    x: &ProductPart,
    height: usize,
    a: &impl LeftSide<T>,
    b: &impl RightSide<T>,
    c: &impl Target<T>,
    finish: &Finish<T>,
    [abuf, bbuf, tbuf]: [*mut T; 3],
) {
    let mut scratch = TileScratch::new(tbuf);
    // SAFETY: the caller's ranges and buffers.
    unsafe {
        b.pack(x.p, x.kc, x.j, x.nc, x.shape.width(), bbuf);
        for i in x.rows.clone().step_by(height) {
            let some = ProductPart { rows: i..(i + height).min(x.rows.end), ..*x };
            block(&some, a, b, c, finish, (abuf, bbuf), true, &mut scratch);
        }
    }
}

/// `packed`: `bbuf` holds all of B packed, and is only read; otherwise it has scratch for two tiles.
unsafe fn block<T: Float>(
    x: &ProductPart,
    a: &impl LeftSide<T>,
    b: &impl RightSide<T>,
    c: &impl Target<T>,
    finish: &Finish<T>,
    (abuf, bbuf): (*mut T, *mut T),
    packed: bool,
    scratch: &mut TileScratch<T>,
) {
    let (width, height, nv) = (x.shape.width(), x.shape.rows, x.shape.nv);
    let lines = (width * size_of::<T>()).div_ceil(64);
    let (rows_of_b, rsb) = b.rows(x.p, x.j).unwrap_or((std::ptr::null(), 0));
    let panels = || x.shape.panels(x.rows.clone()).enumerate();
    let carriers = panels().count() - 1;
    let carry = |rows: usize| carrying::<T>(rows, nv, false).is_some();
    let carried = carriers >= CARRIERS && carry(height) && carry(height - 1);
    // Rows of a tile that each panel but the first packs, and the distance from a row of tile `t` to the row that is
    // prefetched: the last tile is followed by the first tiles of the next block of k.
    let (share, whole) = (x.kc.div_ceil(carriers.max(1)), x.nc / width);
    let source = |t: usize| rows_of_b.wrapping_add(t * width);
    let ahead = |t: usize| match t + AHEAD {
        next if next < whole => AHEAD * width,
        _ if x.last => 0,
        _ => (AHEAD * width + x.kc * rsb).wrapping_sub(whole * width),
    };
    let slot = |t: usize| if packed { t } else { t % 2 * usize::from(carried) };
    let tile = |t: usize| bbuf.wrapping_add(slot(t) * width * x.kc);
    let mut kept = [(std::ptr::null(), 0, false); PANELS];
    let mut kernels = [None::<Kernel<T>>; PANELS];
    // Kernels that also pack a whole tile of B or prefetch one.
    let mut side_work = [None::<Kernel<T>>; PANELS];
    // SAFETY: the caller's ranges and buffers.
    unsafe {
        let together = a.panels(x.rows.clone(), height, x.p, x.kc, abuf);
        for (s, (i, rows)) in panels() {
            let to = abuf.add(s * height * A_STRIDE);
            let place = if together {
                Some((to.cast_const(), height))
            } else {
                a.prefetch(i + rows..(i + rows + height).min(x.rows.end), x.p, x.kc);
                a.panel(i, rows, x.p, x.kc, to)
            };
            let (at, distance) = place.unwrap_or((to.cast_const(), 0));
            kept[s] = (at, distance, place.is_some());
            kernels[s] = Some(kernel::<T>(rows, nv, place.is_some()));
            side_work[s] = match s {
                _ if packed => None,
                0 => copying::<T>(rows, nv, place.is_some()),
                _ if carried => carrying::<T>(rows, nv, place.is_some()),
                // Panel 1 prefetches the first line of each row, panel 2 the second.
                _ if s <= lines => prefetching::<T>(rows, nv, place.is_some()),
                _ => None,
            };
        }
        let (each, rs) = (if packed { GROUP } else { 1 }, c.row_stride());
        let mut places = [std::ptr::null_mut::<T>(); GROUP];
        for first in (0..x.nc).step_by(each * width) {
            let group = (first..x.nc.min(first + each * width)).step_by(width);
            for (s, (i, rows)) in panels() {
                let (pa, csa, columns) = kept[s];
                let mut of = row_tiles(x, i, (pa, csa), finish);
                for (place, j) in places.iter_mut().zip(group.clone()) {
                    let cols = width.min(x.nc - j);
                    let (t, to) = (j / width, tile(j / width));
                    if s == 0 && cols < width && !packed {
                        b.pack(x.p, x.kc, x.j + j, cols, width, to);
                    }
                    if s == 0 || place.is_null() {
                        *place = scratch.find(c, x.j + j, cols);
                    }
                    (of.b, of.rsb) = (to.cast_const(), width);
                    let first_row = s.saturating_sub(1) * share;
                    let side_work = match side_work[s] {
                        _ if cols < width => None,
                        Some(f) if s == 0 && (t == 0 || !carried) => {
                            (of.b, of.rsb, of.side_work) = (source(t), rsb, SideWork::on(to, width));
                            Some(f)
                        }
                        Some(f) if s > 0 && carried && t + 1 < whole && first_row < x.kc => {
                            of.side_work = SideWork {
                                at: source(t + 1).wrapping_add(first_row * rsb).cast_mut(),
                                step: rsb,
                                rows: share.min(x.kc - first_row),
                                to: tile(t + 1).wrapping_add(first_row * width),
                                ahead: ahead(t + 1),
                            };
                            Some(f)
                        }
                        Some(f) if s > 0 && !carried && t + AHEAD < whole => {
                            let line = source(t + AHEAD).wrapping_byte_add((s - 1) * 64);
                            of.side_work = SideWork::on(line.cast_mut(), rsb);
                            Some(f)
                        }
                        _ => None,
                    };
                    let f = side_work
                        .or(kernels[s].filter(|_| cols == width))
                        .unwrap_or_else(|| kernel::<T>(rows, cols.div_ceil(x.shape.lanes), columns));
                    one_tile(x, &mut of, f, (i, rows), (j, cols), (*place, rs), finish, scratch);
                }
            }
        }
    }
}
