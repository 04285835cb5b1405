//! Few rows of C and a B that the caches do not hold.
//!
//! Here most of the time may go into waiting for B. Were all of its columns packed while the first panel of rows is
//! computed, memory would be busy then and idle afterwards. So all panels of A are kept (in the second-level cache), and
//! the tiles of B come one by one. With AVX-512, or of very few rows, the first panel packs a tile, and while the next panels
//! are computed with it a tile after it is asked for, a line a step. Else every panel packs some rows of the next tile
//! and asks for as many of one after it, one every few steps: nowhere more comes at once than is waiting to be used.
//! Every element of C is the same chain of additions as elsewhere.
//!
//! Many rows and many columns are computed so by blocks of rows (`rows_kept`), from a B that was packed before and lies in the
//! last-level cache: else A would be packed again for each of many narrow blocks of B.

use crate::gemm::kernel::{asking, carrying, copying, kernel, Beside, Kernel, Shape, A_STRIDE};
use crate::gemm::operands::{block_bytes, k_block, with_scratch, Finish, LeftSide, ProductPart, RightSide, Target};
use crate::gemm::tile::{one_tile, row_tiles, Room};
use crate::simd::{cache_size, level, Level};
use crate::types::Float;
use std::ops::Range;

/// The most panels of rows that are kept, and the most rows that `sweep` keeps.
const PANELS: usize = 64;
const FEW_ROWS: usize = 224;
/// The fewest panels that pack the next tile together: three would each have more rows to fetch than steps to hide it behind.
const CARRIERS: usize = 4;
/// Panels that are packed again rather than kept for blocks of rows.
const FEW_PANELS: usize = 16;
/// Tiles of a packed B that a panel of rows meets in turn: rows of C are better written in longer runs.
const GROUP: usize = 8;
/// A block of B this wide is worth packing A again.
const WIDE: usize = 512;
/// How many tiles before it is packed one of B is asked for. One before, it came late where B lies on small pages (AMD Zen 3:
/// copying a tile from memory took 8,200 ticks of the time stamp counter, two before 3,900, what a cache holds 1,800).
const AHEAD: usize = 2;
/// The most bytes of a packed B for blocks of rows.
const LARGE: usize = 4 << 20;

/// The most rows of A that are kept: half of the core's cache holds them, for one part of k.
pub fn most_rows<T>() -> usize {
    FEW_ROWS.min(block_bytes() / (A_STRIDE * size_of::<T>()))
}

/// Computes the product if it is of this kind; says whether it did.
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
        let mut room = Room::new(tbuf);
        let mut p = 0;
        while p < k {
            let kc = kb.min(k - p);
            let part = ProductPart { rows: m.clone(), j: n.start, nc: n.len(), p, kc, last: p + kc == k, shape };
            // SAFETY: the caller's ranges, and the buffers above.
            unsafe { block(&part, a, b, c, finish, (buf, bbuf), false, &mut room) };
            p += kc;
        }
    });
    true
}

/// Rows of a block that is kept and columns of its B, where that is better than panels of rows on a B of `block` columns.
pub fn kept((m, n, k): (usize, usize, usize), shape: Shape, block: usize, bytes: usize) -> Option<(usize, usize)> {
    let few = n <= block || block >= WIDE || m <= FEW_PANELS * shape.rows;
    // All of C is met once for each part of k: many times it is better met in long rows, where the last-level cache does not
    // keep it.
    let kb = k_block(k);
    let most = if k <= 2 * kb { cache_size() / 2 } else { cache_size() / 4 };
    if level() != Level::Avx2 || few || m * n * bytes > most {
        return None;
    }
    let even = |n: usize, fit: usize| n.div_ceil(n.div_ceil(fit.max(1)));
    // With a group of tiles of B, and C on its way, well within the second-level cache.
    let rows = even(m.div_ceil(shape.rows), (block_bytes() / 8 * 3 / bytes / kb / shape.rows).min(PANELS));
    let large = (cache_size() / 8).clamp(block_bytes(), LARGE);
    let columns = even(n.div_ceil(shape.width()), large / bytes / kb / shape.width());
    Some((rows * shape.rows, columns * shape.width()))
}

/// A part by blocks of `height` rows.
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
    let mut room = Room::new(tbuf);
    // SAFETY: the caller's ranges and buffers.
    unsafe {
        b.pack(x.p, x.kc, x.j, x.nc, x.shape.width(), bbuf);
        for i in x.rows.clone().step_by(height) {
            let some = ProductPart { rows: i..(i + height).min(x.rows.end), ..*x };
            block(&some, a, b, c, finish, (abuf, bbuf), true, &mut room);
        }
    }
}

/// `packed`: all of B is, in `bbuf`, which is only read then; else there is room for two tiles.
unsafe fn block<T: Float>(
    x: &ProductPart,
    a: &impl LeftSide<T>,
    b: &impl RightSide<T>,
    c: &impl Target<T>,
    finish: &Finish<T>,
    (abuf, bbuf): (*mut T, *mut T),
    packed: bool,
    room: &mut Room<T>,
) {
    let (width, height, nv) = (x.shape.width(), x.shape.rows, x.shape.nv);
    let lines = (width * size_of::<T>()).div_ceil(64);
    let (rows_of_b, rsb) = b.rows(x.p, x.j).unwrap_or((std::ptr::null(), 0));
    let panels = || x.shape.panels(x.rows.clone()).enumerate();
    let carriers = panels().count() - 1;
    let carry = |rows: usize| carrying::<T>(rows, nv, false).is_some();
    let carried = carriers >= CARRIERS && carry(height) && carry(height - 1);
    // How many rows of a tile each panel but the first packs then, and how far from one of tile `t` lies the one it asks for:
    // after the last tile come the first of the next part.
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
    // What packs a whole tile of B or asks for one on its way.
    let mut beside = [None::<Kernel<T>>; PANELS];
    // SAFETY: the caller's ranges and buffers.
    unsafe {
        let together = a.panels(x.rows.clone(), height, x.p, x.kc, abuf);
        for (s, (i, rows)) in panels() {
            let to = abuf.add(s * height * A_STRIDE);
            let place = if together {
                Some((to.cast_const(), height))
            } else {
                a.announce(i + rows..(i + rows + height).min(x.rows.end), x.p, x.kc);
                a.panel(i, rows, x.p, x.kc, to)
            };
            let (at, distance) = place.unwrap_or((to.cast_const(), 0));
            kept[s] = (at, distance, place.is_some());
            kernels[s] = Some(kernel::<T>(rows, nv, place.is_some()));
            beside[s] = match s {
                _ if packed => None,
                0 => copying::<T>(rows, nv, place.is_some()),
                _ if carried => carrying::<T>(rows, nv, place.is_some()),
                // Panel 1 asks for the first line of each of its rows, panel 2 for the second.
                _ if s <= lines => asking::<T>(rows, nv, place.is_some()),
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
                        *place = room.find(c, x.j + j, cols);
                    }
                    (of.b, of.rsb) = (to.cast_const(), width);
                    let first_row = s.saturating_sub(1) * share;
                    let beside = match beside[s] {
                        _ if cols < width => None,
                        Some(f) if s == 0 && (t == 0 || !carried) => {
                            (of.b, of.rsb, of.beside) = (source(t), rsb, Beside::on(to, width));
                            Some(f)
                        }
                        Some(f) if s > 0 && carried && t + 1 < whole && first_row < x.kc => {
                            of.beside = Beside {
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
                            of.beside = Beside::on(line.cast_mut(), rsb);
                            Some(f)
                        }
                        _ => None,
                    };
                    let f = beside
                        .or(kernels[s].filter(|_| cols == width))
                        .unwrap_or_else(|| kernel::<T>(rows, cols.div_ceil(x.shape.lanes), columns));
                    one_tile(x, &mut of, f, (i, rows), (j, cols), (*place, rs), finish, room);
                }
            }
        }
    }
}
