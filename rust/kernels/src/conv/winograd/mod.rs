//! Convolutions of 3 x 3 filters with stride 1 by Winograd's F(4 x 4, 3 x 3): a quarter of the multiplications. Tiles
//! of the input and filters are transformed (`tiles`), multiplied in 36 products over the channels, and the sums are
//! transformed back, a block of tiles and of output channels at a time, so that a block stays in the cache. Blocks
//! depend on sizes alone: results do not depend on the number of threads.
//!
//! Results that are not finite are refused: the transforms would spread overflow and infinite inputs to outputs whose
//! windows do not contain them. The caller then computes the convolution another way.

pub(crate) mod tiles;

use crate::conv::band::lanes;
use crate::conv::winograd::tiles::{
    filter_buffer, filter_sums, filter_tiles, read_tiles, sums_buffer, write_tiles, Filters, Image, Strips, Tiles,
    POINTS, SIDE,
};
use crate::gemm::kernel::{kernel, Shape, SideWork, Tile, A_STRIDE, KC};
use crate::gemm::operands::with_scratch;
use crate::pool;
use crate::pool::SharedPtr;
use crate::types::Float;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static ENABLED: AtomicBool = AtomicBool::new(true);

/// Allows or forbids Winograd's algorithm; it is allowed by default.
pub fn enable(on: bool) {
    ENABLED.store(on, Relaxed);
}

/// Bytes of the transformed filters of a block, and of the tiles that are multiplied by them.
const FILTER_BYTES: usize = 5 << 20;
const TILE_BYTES: usize = 8 << 20;
/// Bytes of filters per thread where there are few tiles: they are written and read about once, and stay in its cache.
const FEW_TILES_BYTES: usize = 5 << 18;
/// Transformed filters of more bytes exceed the caches.
const FAR_BYTES: usize = 16 << 20;
/// Channels, and tiles of the filter's gradient, in one chain of additions: short, as the transforms amplify the
/// rounding errors of the sums.
const CHAIN: usize = 96;
const SUMMED: usize = 128;
/// Elements between the operands of the 36 products: with distances of powers of two, all writes of a transform would
/// share one cache set.
const APART: usize = 16;
/// Least work of a chunk of a transform, in vectors of 36.
const VECTORS: usize = 64;

/// The output of a convolution: images (its result or the gradient of its input), or the gradient of its filters.
#[derive(Clone, Copy, PartialEq)]
pub enum WinogradOutput {
    Images,
    Filters,
}

/// Whether Winograd's algorithm is faster for `images` of `outputs` each, with these input and output channels.
pub fn suits<T: Float>(output: WinogradOutput, images: usize, channels: [usize; 2], outputs: [usize; 2]) -> bool {
    let [ins, outs] = channels.map(|c| c as f64);
    let pixels = (images * outputs[0] * outputs[1]) as f64;
    let across = outputs[1].div_ceil(SIDE);
    let tiles = (images * outputs[0].div_ceil(SIDE) * across) as f64;
    // Estimates in multiplications: the costs of transforming a tile and a filter, and of reading a filter
    // untransformed (both are bound by memory).
    let far = POINTS * channels[0] * channels[1] * size_of::<T>() > FAR_BYTES;
    let (filter, plain) = match output {
        WinogradOutput::Images => (if far { 1500.0 } else { 800.0 }, 400.0),
        WinogradOutput::Filters => (900.0, 1800.0),
    };
    let direct = 9.0 * ins * outs * pixels;
    let tiled = 36.0 * ins * outs * tiles + 400.0 * (ins + outs) * tiles + filter * ins * outs;
    size_of::<T>() == 4
        && ENABLED.load(Relaxed)
        && ins.min(outs) >= 16.0
        && direct > 2e6
        && tiled < 0.9 * (direct + plain * ins * outs)
        && POINTS * across * (channels[0] + channels[1]) * size_of::<T>() <= TILE_BYTES
}

/// The tiles of the images, and the number of rows of tiles in a block that fits the cache.
struct TilePlan {
    down: usize,
    across: usize,
    strips: usize,
    block: usize,
}

impl TilePlan {
    /// `bytes`: memory of a tile.
    fn new(images: usize, [h, w]: [usize; 2], bytes: usize) -> TilePlan {
        let (down, across) = (h.div_ceil(SIDE), w.div_ceil(SIDE));
        let strips = images * down;
        let most = (TILE_BYTES / (bytes * across)).max(1);
        TilePlan { down, across, strips, block: strips.div_ceil(strips.div_ceil(most)) }
    }
    fn tiles(&self) -> usize {
        self.block * self.across
    }
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        (0..self.strips).step_by(self.block).map(|s| s..self.strips.min(s + self.block))
    }
    /// Calls `f` on the pool for pieces of these rows of tiles and of `groups` groups of lanes.
    fn pieces(&self, rows: &Range<usize>, groups: usize, f: impl Fn(Strips) + Sync) {
        let some = VECTORS.div_ceil(self.across).min(groups);
        let parts = groups.div_ceil(some);
        let each = VECTORS.div_ceil(self.across * some);
        let runs = rows.len().div_ceil(each);
        pool::chunks(runs * parts, |i| {
            let (run, part) = (rows.start + i / parts * each, i % parts * some);
            f(Strips {
                rows: run..rows.end.min(run + each),
                first: rows.start,
                down: self.down,
                across: self.across,
                groups: part..groups.min(part + some),
                origin: [0; 2],
                channel: 0,
            })
        });
    }
    fn read<T: Float, const GRADIENT: bool>(
        &self,
        x: &Image<T>,
        rows: &Range<usize>,
        origin: [isize; 2],
        to: &Tiles<T>,
    ) {
        self.pieces(rows, to.at.len(), |s| {
            let s = Strips { origin, ..s };
            // SAFETY: the image is the caller's, the tiles have room for this block; pieces are disjoint.
            with_scratch::<T, _>(s.buffer(lanes::<T>()), |buf| unsafe { read_tiles::<T, GRADIENT>(x, &s, to, buf) });
        });
    }
}

/// Offsets of the 36 elements of each of `groups` groups of lanes.
fn places(groups: usize, lanes: usize, at: impl Fn(usize, usize) -> usize) -> Vec<[usize; POINTS]> {
    (0..groups).map(|g| std::array::from_fn(|f| at(f, g * lanes))).collect()
}

/// The size of nearly equal pieces of `n`, multiples of `unit` of at most `most`.
fn even(n: usize, most: usize, unit: usize) -> usize {
    n.div_ceil(n.div_ceil(most.max(unit))).next_multiple_of(unit)
}

/// `y = act(x * w + bias)` with the window of output 0 beginning at `origin` of the input. Returns false if the
/// convolution must be computed another way.
///
/// # Safety
/// Images and filters are valid for their extents and `count` images, bias for y's channels (or null).
pub unsafe fn convolve<T: Float>(
    count: usize,
    x: &Image<T>,
    w: &Filters<T>,
    bias: *const T,
    relu: bool,
    y: &Image<T>,
    origin: [isize; 2],
) -> bool {
    let (l, bytes) = (lanes::<T>(), size_of::<T>());
    let (ins, outs) = (x.channels, y.channels);
    // A row of the left operand has room for KC elements: with few channels it holds several of the 36 products.
    let kb = ins.div_ceil(ins.div_ceil(CHAIN)).next_multiple_of(16);
    let (cuts, slots) = (ins.div_ceil(kb), KC / kb);
    let lines = (POINTS * cuts).div_ceil(slots);
    let few = count * y.size[0].div_ceil(SIDE) * y.size[1].div_ceil(SIDE) * POINTS * ins * bytes <= FEW_TILES_BYTES;
    let most = if few { FILTER_BYTES.min(FEW_TILES_BYTES * pool::threads()) } else { FILTER_BYTES };
    let some = even(outs, most / (POINTS * ins * bytes) / 16 * 16, 16).min(outs);
    let plan = TilePlan::new(count, y.size, (lines * A_STRIDE + POINTS * some) * bytes);
    let shape = Shape::for_product::<T>(plan.tiles(), some);
    let width = shape.width();
    let padded = some.next_multiple_of(width);
    let (v_size, u_size, m_size) =
        (lines * plan.tiles() * A_STRIDE, POINTS * (ins * padded + APART), POINTS * (plan.tiles() * padded + APART));
    let (finite, bias) = (AtomicBool::new(true), SharedPtr(bias as *mut T));
    with_scratch::<T, _>(v_size + u_size + m_size, |buf| {
        let (v, u, m) = (buf, buf.wrapping_add(v_size), buf.wrapping_add(v_size + u_size));
        let filters = Tiles {
            p: u,
            step: width,
            at: places(padded / l, l, |f, c| f * (ins * padded + APART) + c / width * ins * width + c % width),
        };
        let operands = (SharedPtr(v), SharedPtr(u), SharedPtr(m));
        for rows in plan.blocks() {
            let tiles = rows.len() * plan.across;
            let slot = move |f: usize, c: usize| {
                let slot = f * cuts + c / kb;
                slot / slots * tiles * A_STRIDE + slot % slots * kb + c % kb
            };
            let inputs = Tiles { p: v, step: A_STRIDE, at: places(ins.div_ceil(l), l, slot) };
            plan.read::<T, false>(x, &rows, origin, &inputs);
            for first in (0..outs).step_by(some) {
                // If all filters fit, they are kept for the next blocks.
                if some < outs || rows.start == 0 {
                    pool::ranges(padded / l, (VECTORS / ins).max(1), |groups| {
                        with_scratch::<T, _>(filter_buffer(l), |buf| {
                            // SAFETY: the caller's filters; the buffers have the sizes above.
                            unsafe { filter_tiles(w, first, groups, &filters, buf) }
                        });
                    });
                }
                pool::chunks(POINTS, |f| {
                    let (v, u, m) = (operands.0.get(), operands.1.get(), operands.2.get());
                    let run = kernel::<T>(shape.rows, shape.nv, false);
                    for p in (0..ins).step_by(kb) {
                        for t in (0..tiles).step_by(shape.rows) {
                            let r = shape.rows.min(tiles - t);
                            let run = if r == shape.rows { run } else { kernel::<T>(r, shape.nv, false) };
                            for s in (0..padded).step_by(width) {
                                let tile = Tile {
                                    k: kb.min(ins - p),
                                    a: v.wrapping_add(slot(f, p) + t * A_STRIDE),
                                    b: u.wrapping_add(f * (ins * padded + APART) + s * ins + p * width),
                                    rsb: width,
                                    c: m.wrapping_add(f * (tiles * padded + APART) + t * padded + s),
                                    rsc: padded,
                                    beta: if p == 0 { T::ZERO } else { T::ONE },
                                    ..plain(width)
                                };
                                // SAFETY: operands and sums of this block, which the transforms have filled.
                                unsafe { run(&tile) };
                            }
                        }
                    }
                });
                let sums =
                    Tiles { p: m, step: padded, at: places(padded / l, l, |f, c| f * (tiles * padded + APART) + c) };
                plan.pieces(&rows, some.min(outs - first).div_ceil(l), |s| {
                    let s = Strips { channel: first, ..s };
                    with_scratch::<T, _>(s.buffer(l), |buf| {
                        // SAFETY: the caller's image and bias; the sums are there.
                        if !unsafe { write_tiles(&sums, &s, y, bias.get(), relu, buf) } {
                            finite.store(false, Relaxed);
                        }
                    });
                });
            }
        }
    });
    finite.into_inner()
}

/// A tile without an epilogue.
fn plain<T: Float>(cols: usize) -> Tile<T> {
    Tile {
        k: 0,
        a: std::ptr::null(),
        csa: 0,
        b: std::ptr::null(),
        rsb: 0,
        c: std::ptr::null_mut(),
        rsc: 0,
        cols,
        alpha: T::ONE,
        beta: T::ZERO,
        row_bias: std::ptr::null(),
        col_bias: std::ptr::null(),
        relu: false,
        side_work: SideWork::none(),
    }
}

/// The gradient of the filters, `dw`, from the input and the output's gradient; otherwise as `convolve`.
///
/// # Safety
/// As `convolve`; `dw` has as many filters as the images have channels.
pub unsafe fn filter_grad<T: Float>(count: usize, x: &Image<T>, dy: &Image<T>, dw: *mut T, origin: [isize; 2]) -> bool {
    let (l, bytes) = (lanes::<T>(), size_of::<T>());
    let (ins, outs) = (x.channels, dy.channels);
    let shape = Shape::for_product::<T>(outs, ins);
    let width = shape.width();
    let padded = ins.next_multiple_of(width);
    // An odd number of cache lines: rows of a power of two would evict each other from the cache.
    let row = (outs.div_ceil(16) | 1) * 16;
    let some = even(outs, FILTER_BYTES / (POINTS * padded * bytes), shape.rows).min(outs);
    let plan = TilePlan::new(count, dy.size, POINTS * (padded + row) * bytes);
    let (v_size, g_size, m_size) =
        (POINTS * plan.tiles() * padded, POINTS * plan.tiles() * row, POINTS * some * padded);
    let (finite, dw) = (AtomicBool::new(true), SharedPtr(dw));
    with_scratch::<T, _>(v_size + g_size + m_size, |buf| {
        let (v, u, m) = (buf, buf.wrapping_add(v_size), buf.wrapping_add(v_size + g_size));
        let operands = (SharedPtr(v), SharedPtr(u), SharedPtr(m));
        let sums = Tiles { p: m, step: padded, at: places(padded / l, l, |f, c| f * some * padded + c) };
        for rows in plan.blocks() {
            let tiles = rows.len() * plan.across;
            let panel = move |f: usize, s: usize| (f * padded + s) * tiles;
            let at = places(padded / l, l, |f, c| panel(f, c / width * width) + c % width);
            plan.read::<T, false>(x, &rows, origin, &Tiles { p: v, step: width, at });
            let at = places(outs.div_ceil(l), l, |f, c| f * tiles * row + c);
            plan.read::<T, true>(dy, &rows, [0; 2], &Tiles { p: u, step: row, at });
            for first in (0..outs).step_by(some) {
                let now = some.min(outs - first);
                pool::chunks(POINTS, |f| {
                    let (v, u, m) = (operands.0.get(), operands.1.get(), operands.2.get());
                    for p in (0..tiles).step_by(SUMMED) {
                        for o in (0..now).step_by(shape.rows) {
                            let run = kernel::<T>(shape.rows.min(now - o), shape.nv, true);
                            for s in (0..padded).step_by(width) {
                                let tile = Tile {
                                    k: SUMMED.min(tiles - p),
                                    a: u.wrapping_add((f * tiles + p) * row + first + o),
                                    csa: row,
                                    b: v.wrapping_add(panel(f, s) + p * width),
                                    rsb: width,
                                    c: m.wrapping_add((f * some + o) * padded + s),
                                    rsc: padded,
                                    beta: if p == 0 { T::ZERO } else { T::ONE },
                                    ..plain(width)
                                };
                                // SAFETY: operands and sums of this block, which the transforms have filled.
                                unsafe { run(&tile) };
                            }
                        }
                    }
                });
                pool::ranges(now, (VECTORS * l / ins).max(1), |some| {
                    with_scratch::<T, _>(sums_buffer(l), |buf| {
                        // SAFETY: the caller's filters; the sums are there.
                        if !unsafe { filter_sums(&sums, some, first, ins, dw.get(), rows.start > 0, buf) } {
                            finite.store(false, Relaxed);
                        }
                    });
                });
            }
        }
    });
    finite.into_inner()
}
