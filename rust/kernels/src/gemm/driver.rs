//! The blocked matrix product over packed panels, generic over the operands: plain matrices, patches of an image,
//! images of a batch.

use crate::gemm::amx;
use crate::gemm::kernel::{copying, kernel, Shape, SideWork, A_STRIDE};
use crate::gemm::operands::{
    block_bytes, k_block, with_scratch, Finish, LeftSide, ProductPart, RightSide, Run, Target, MAX_WIDTH,
};
use crate::gemm::sweep::{kept, most_rows, rows_kept, sweep};
use crate::gemm::tile::{between, one_tile, row_tiles, TileScratch};
use crate::simd::{level, Level};
use crate::types::Float;

/// Tiles of a row of C whose addresses a block caches.
const PLACES: usize = 128;
/// Largest part of C, in bytes, that is accumulated in a buffer.
const C_BYTES: usize = 1 << 20;

/// Computes the whole product on the calling thread.
///
/// # Safety
/// As for `parallel`.
pub unsafe fn serial<T: Float>(
    m: usize,
    n: usize,
    k: usize,
    a: &impl LeftSide<T>,
    b: &impl RightSide<T>,
    c: &impl Target<T>,
    finish: &Finish<T>,
) {
    // SAFETY: the caller's.
    unsafe {
        if on_unit(m, n, k, a, b, c, finish, false) {
            return;
        }
        serial_plain(0..m, 0..n, k, a, b, c, finish)
    }
}

/// Computes the whole product on the matrix unit, if that is faster.
unsafe fn on_unit<T: Float>(
    m: usize,
    n: usize,
    k: usize,
    a: &impl LeftSide<T>,
    b: &impl RightSide<T>,
    c: &impl Target<T>,
    finish: &Finish<T>,
    on_pool: bool,
) -> bool {
    // SAFETY: the caller's.
    unsafe {
        if finish.bf16 && size_of::<T>() == 4 && amx::bf16::suits(m, n, k) {
            amx::bf16::rounded(m, n, k, a, b, c, finish, on_pool);
        } else if amx::suits::<T>(m, n, k, !b.panels().is_null()) && !a.gathered() && !b.gathered() {
            amx::product(m, n, k, a, b, c, finish, on_pool);
        } else {
            return false;
        }
    }
    true
}

/// Computes rows `m` and columns `n` of C with vector kernels, on the calling thread.
///
/// # Safety
/// The ranges lie within the three matrices, and nothing else touches that part of C.
pub unsafe fn serial_plain<T: Float>(
    m: std::ops::Range<usize>,
    n: std::ops::Range<usize>,
    k: usize,
    a: &impl LeftSide<T>,
    b: &impl RightSide<T>,
    c: &impl Target<T>,
    finish: &Finish<T>,
) {
    if m.is_empty() || n.is_empty() {
        return;
    }
    let shape = Shape::for_product::<T>(m.len(), n.len());
    let (width, kb) = (shape.width(), k_block(k));
    let fit = (block_bytes() / size_of::<T>() / kb / width).max(1);
    let block = n.len().div_ceil(width);
    let block = block.div_ceil(block.div_ceil(fit)) * width;
    let tail = width * shape.rows;
    // Where most tiles of C are not contiguous and k has many parts, C is accumulated in a buffer.
    let gathers = |j: usize, nc: usize| k > 2 * kb && finish.beta == T::ZERO && !c.contiguous(j, nc);
    let fits = |block: usize| m.len() * block * size_of::<T>() <= C_BYTES;
    let kept = kept((m.len(), n.len(), k), shape, block, size_of::<T>());
    // A block that is too wide for the buffer is not used.
    let kept = kept.filter(|&(_, wide)| fits(wide) || !fits(block) || !gathers(n.start, n.len()));
    let (height, block) = kept.unwrap_or((shape.rows, block));
    let b_size = kb * block;
    let a_size = height * A_STRIDE;
    let c_size = if gathers(n.start, n.len()) && fits(block) { m.len() * block } else { 0 };
    // SAFETY: the caller's.
    if c_size == 0 && unsafe { sweep(&m, &n, k, shape, a, b, c, finish) } {
        return;
    }
    with_scratch::<T, _>(a_size + b_size + tail + c_size, |buf| {
        for j0 in n.clone().step_by(block) {
            let nc = block.min(n.end - j0);
            // SAFETY: the parts of the buffer have the sizes that the traits require.
            let [bbuf, tbuf, cbuf] =
                unsafe { [buf.add(a_size), buf.add(a_size + b_size), buf.add(a_size + b_size + tail)] };
            let whole = Whole { p: cbuf.wrapping_sub(m.start * block).wrapping_sub(j0), rs: block };
            let whole = (c_size > 0 && gathers(j0, nc)).then_some(&whole);
            let mut p = 0;
            loop {
                let kc = kb.min(k - p);
                let part = ProductPart { rows: m.clone(), j: j0, nc, p, kc, last: p + kc == k, shape };
                // SAFETY: the caller's ranges; the buffer holds rows `m` and columns `j0..j0 + nc` of C.
                unsafe {
                    match (whole, kept) {
                        (Some(whole), None) => one_block(&part, a, b, whole, finish, [buf, bbuf, tbuf]),
                        (None, None) => one_block(&part, a, b, c, finish, [buf, bbuf, tbuf]),
                        (Some(whole), _) => rows_kept(&part, height, a, b, whole, finish, [buf, bbuf, tbuf]),
                        (None, _) => rows_kept(&part, height, a, b, c, finish, [buf, bbuf, tbuf]),
                    }
                }
                p += kc;
                if p >= k {
                    break;
                }
            }
            if let Some(whole) = whole {
                // SAFETY: as above; all of the buffer has been written.
                unsafe { spread(&m, j0..j0 + nc, whole, c) };
            }
        }
    });
}

/// A contiguous buffer for rows and columns of C; `p` points to where row 0, column 0 would be.
struct Whole<T> {
    p: *mut T,
    rs: usize,
}

// SAFETY: only the thread that owns the buffer uses it.
unsafe impl<T: Send> Sync for Whole<T> {}

impl<T: Float> Target<T> for Whole<T> {
    fn row_stride(&self) -> usize {
        self.rs
    }
    fn runs(&self, j: usize, cols: usize, out: &mut [Run<T>; MAX_WIDTH]) -> usize {
        out[0] = Run { p: self.p.wrapping_add(j), len: cols, step: 1 };
        1
    }
}

/// Copies rows `m`, columns `n` of the buffer to C.
unsafe fn spread<T: Float>(
    m: &std::ops::Range<usize>,
    n: std::ops::Range<usize>,
    from: &Whole<T>,
    to: &impl Target<T>,
) {
    let mut runs = [Run { p: std::ptr::null_mut(), len: 0, step: 1 }; MAX_WIDTH];
    for j in n.clone().step_by(MAX_WIDTH) {
        let count = to.runs(j, MAX_WIDTH.min(n.end - j), &mut runs);
        let (first, rs) = (from.p.wrapping_add(m.start * from.rs + j), to.row_stride());
        // SAFETY: the caller's matrices hold these rows and columns.
        unsafe { between::<T, true>(first, from.rs, m.len(), &runs[..count], m.start * rs, rs) };
    }
}

#[inline]
unsafe fn one_block<T: Float>(
    x: &ProductPart,
    a: &impl LeftSide<T>,
    b: &impl RightSide<T>,
    c: &impl Target<T>,
    finish: &Finish<T>,
    [abuf, bbuf, tbuf]: [*mut T; 3],
) {
    let (width, lanes) = (x.shape.width(), x.shape.lanes);
    let direct = b.in_place(x.p, x.j, x.rows.len(), lanes);
    // Only whole vectors can be read in place: the remaining columns are packed.
    let packed_from = if direct.is_some() { x.nc / lanes * lanes } else { 0 };
    let rows = x.shape.panels(x.rows.clone()).next().map_or(0, |(_, rows)| rows);
    // Whole panels of B that are packed while the first panel of rows is computed. Where many panels of rows follow and
    // rows of B are far apart, long sequential reads are faster.
    let few = x.rows.len() <= 16 * x.shape.rows;
    let near = |b: &(*const T, usize)| few || x.kc * b.1 * size_of::<T>() <= block_bytes();
    let copied = if direct.is_none() { b.rows(x.p, x.j).filter(near) } else { None };
    let can = copied.is_some() && copying::<T>(rows, x.shape.nv, false).is_some();
    let copied_to = if can { x.nc / width * width } else { 0 };
    let mut scratch = TileScratch::new(tbuf);
    // SAFETY: the caller's ranges and buffers.
    unsafe {
        let from = packed_from.max(copied_to);
        if from < x.nc {
            b.pack(x.p, x.kc, x.j + from, x.nc - from, width, bbuf.add((from - packed_from) * x.kc));
        }
        let tiles = x.nc.div_ceil(width);
        let quota = match b.lines_ahead() {
            0 => 0,
            lines => lines.div_ceil(tiles * x.rows.len().div_ceil(x.shape.rows)),
        };
        let mut asked = 0;
        // Addresses of tiles of C: computing one takes a large part of the time of a small tile.
        let mut places = [std::ptr::null_mut::<T>(); PLACES];
        let rs = c.row_stride();
        for (i, rows) in x.shape.panels(x.rows.clone()) {
            let place = a.panel(i, rows, x.p, x.kc, abuf);
            let mut tile = row_tiles(x, i, place.unwrap_or((abuf.cast_const(), 0)), finish);
            let next = x.shape.rows.min(x.rows.end - i - rows);
            let whole = kernel::<T>(rows, x.shape.nv, place.is_some());
            let (mut j, mut t) = (0, 0);
            while j < x.nc {
                let end = if j < packed_from { packed_from } else { x.nc };
                let cols = width.min(end - j);
                let (pb, rsb) = match direct {
                    Some((pb, rsb)) if j < packed_from => (pb.add(j), rsb),
                    _ => (bbuf.add((j - packed_from) * x.kc) as *const T, width),
                };
                let nv = cols.div_ceil(lanes);
                if a.needs_prefetch() {
                    // The next panel is packed a few rows at a time: packing all of it at once would stall this panel.
                    let part = |t: usize| i + rows + next * t.min(tiles) / tiles;
                    a.prefetch(part(t)..part(t + 1), x.p, x.kc);
                }
                if quota > 0 {
                    b.ahead(asked..asked + quota);
                    asked += quota;
                }
                (tile.b, tile.rsb) = (pb, rsb);
                let mut f = if nv == x.shape.nv { whole } else { kernel::<T>(rows, nv, place.is_some()) };
                if let (Some((pb, rsb)), true) = (copied, i == x.rows.start && j < copied_to) {
                    // A copy that no other panel of rows will read may overwrite itself.
                    tile.side_work = SideWork::on(tile.b.cast_mut(), if x.rows.len() > rows { width } else { 0 });
                    (tile.b, tile.rsb) = (pb.add(j), rsb);
                    f = copying::<T>(rows, nv, place.is_some()).unwrap_or(f);
                }
                let known = i > x.rows.start && t < PLACES && !places[t].is_null();
                let place = if known { places[t] } else { scratch.find(c, x.j + j, cols) };
                if t < PLACES {
                    places[t] = place;
                }
                one_tile(x, &mut tile, f, (i, rows), (j, cols), (place, rs), finish, &scratch);
                j += cols;
                t += 1;
            }
        }
    }
}

/// The tile (rows, columns) by which C is divided among threads. The result does not depend on it. `light`: B is packed
/// while the first panel is computed.
pub fn grid<T: Float>(m: usize, n: usize, k: usize, light: bool) -> (usize, usize) {
    let threads = crate::pool::threads();
    let work = m as f64 * n as f64 * k as f64 * (size_of::<T>() / 4) as f64;
    if threads < 2 || work < 4e5 {
        return (m.max(1), n.max(1));
    }
    // More tiles than threads where they stay large, to balance the load: each tile packs its rows of A again.
    let pieces = (threads * if work > 4e9 { 2 } else { 1 }).min((work / 2e5) as usize).max(1);
    let (mut tm, mut tn) = (m, n);
    while m.div_ceil(tm) * n.div_ceil(tn) < pieces {
        // A piece of columns packs its own B once; a piece of rows packs all of B again, which costs less than packing
        // A where B is packed during the first panel. Otherwise columns are cut while they are wide.
        if light && tm >= 128 {
            tm = tm.div_ceil(2);
        } else if tn >= 128 && tn * 2 >= tm {
            tn = n.div_ceil(n.div_ceil(tn) * 2).next_multiple_of(32);
        } else if tm >= 28 {
            tm = tm.div_ceil(2);
        } else if tn > 32 {
            tn = tn.div_ceil(2).next_multiple_of(32);
        } else {
            break;
        }
    }
    if tm == m {
        tn = even(n, tn, threads);
    }
    (tm, tn)
}

/// Columns of a piece: `tn`, or the number with which the threads end together where `tn` would leave one thread
/// working much longer (13 panels as 4, 4, 4 and 1 take two threads the time of 8; 7 and 6 take 7).
fn even(n: usize, tn: usize, threads: usize) -> usize {
    const PANEL: usize = 16;
    let panels = n.div_ceil(PANEL);
    let longest = |each: usize| {
        let (full, rest) = (panels / each, panels % each);
        (full.div_ceil(threads) * each).max(full / threads * each + rest)
    };
    let each = tn.div_ceil(PANEL);
    let best = (each.div_ceil(2)..=panels.div_ceil(threads)).rev().min_by_key(|&e| longest(e));
    match best {
        Some(best) if longest(best) * 20 < longest(each) * 19 => best * PANEL,
        _ => tn,
    }
}

/// Rows of a dynamically scheduled piece, where B is row-major and a thread would get few of its columns: `sweep` packs
/// B while it computes, and a piece of columns would pack all of A.
fn row_pieces<T>(m: usize, n: usize, k: usize) -> Option<usize> {
    const NARROW: usize = 1024;
    let (threads, most) = (crate::pool::threads(), most_rows::<T>());
    let suits = level() == Level::Avx2 && threads > 1 && n <= NARROW && (2 * most..=2 * n).contains(&m) && k > 64;
    let pieces = m.div_ceil(most.max(1)).next_multiple_of(threads);
    (suits && m / pieces >= most / 2).then(|| m.div_ceil(pieces))
}

/// Computes the whole product on the thread pool.
///
/// # Safety
/// As for `serial`, for all rows and columns.
pub unsafe fn parallel<T: Float>(
    m: usize,
    n: usize,
    k: usize,
    a: &impl LeftSide<T>,
    b: &impl RightSide<T>,
    c: &impl Target<T>,
    finish: &Finish<T>,
) {
    // SAFETY: the caller's.
    if unsafe { on_unit(m, n, k, a, b, c, finish, true) } {
        return;
    }
    let in_rows = b.rows(0, 0).is_some();
    let light = n * k * size_of::<T>() <= block_bytes() && in_rows;
    let (tm, tn) = match row_pieces::<T>(m, n, k) {
        Some(tm) if in_rows && !light => (tm, n),
        _ => grid::<T>(m, n, k, light),
    };
    let (gm, gn) = (m.div_ceil(tm), n.div_ceil(tn));
    let one = |t: usize| {
        let (i, j) = (t % gm * tm, t / gm * tn);
        // SAFETY: the tiles are disjoint parts of C.
        unsafe { serial_plain(i..(i + tm).min(m), j..(j + tn).min(n), k, a, b, c, finish) }
    };
    if gm * gn == 1 {
        one(0);
    } else {
        crate::pool::chunks(gm * gn, one);
    }
}
