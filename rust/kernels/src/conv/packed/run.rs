//! Panels of filters, and convolutions by them: blocks of filters and pixels, divided among threads.

use super::image::Planes;
use super::layout::{Field, Layout, BLOCK, STEP, STEP_BYTES};
use super::multiply::{Finish, Product, APART};
use super::{lanes, multiply, FilterShape};
use crate::conv::{convolve_of, Conv, WinogradOutput};
use crate::elementwise::update_by;
use crate::gemm::amx::pack::{parts, Lanes, Magnitudes, PARTS};
use crate::gemm::amx::unit::with_tiles;
use crate::gemm::amx::{bf16, enabled};
use crate::gemm::operands::with_scratch;
use crate::pool::{self, SharedPtr};
use crate::simd::{level, Level};
use std::arch::x86_64::*;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Steps in one chain of additions of float32 products: longer chains would be less exact.
const CHAIN: usize = 18;
/// Bytes of panels that stay in the second-level cache while pixels pass by.
const GROUP_BYTES: usize = 512 << 10;
/// Bytes of the images that one thread computes together, so that panels are read less often.
const IMAGE_BYTES: usize = 1 << 20;
/// Steps of a block in one piece of work: about 30 us of float32 products.
const PIECE: usize = 256;

static ALWAYS: AtomicBool = AtomicBool::new(false);

/// Uses the unit even where another way is faster, for tests.
pub fn always(on: bool) {
    ALWAYS.store(on, Relaxed);
}

fn shape_of(c: &Conv) -> Option<FilterShape> {
    let flat = c.kernel[0] == 1 && c.in_size[0] == 1 && c.out_size[0] == 1 && c.pad[0] == 0 && c.stride[0] == 1;
    (flat && c.groups == 1 && !c.channels_last).then(|| FilterShape {
        filters: c.out_channels,
        channels: c.in_channels,
        kernel: [c.kernel[1], c.kernel[2]],
        stride: [c.stride[1], c.stride[2]],
        dilation: [c.dilation[1], c.dilation[2]],
        bf16: c.bf16,
    })
}

/// Whether the panels are for vectors.
fn by_lanes(shape: &FilterShape) -> bool {
    let depth = shape.kernel.iter().try_fold(shape.channels, |n, k| n.checked_mul(*k));
    (lanes::LEAST..=lanes::MOST).contains(&shape.filters)
        && depth.is_some_and(|depth| (1..=1 << 16).contains(&depth))
        && shape.stride.iter().chain(&shape.dilation).all(|n| (1..=64).contains(n))
        && !shape.bf16
        && level() == Level::Avx512
}

fn depth_of(shape: &FilterShape) -> usize {
    shape.channels * shape.kernel[0] * shape.kernel[1]
}

/// Bytes of the panels of filters; 0: they cannot be packed, or the processor has neither the matrix unit nor, for few
/// filters, AVX-512.
pub fn panels_len(shape: &FilterShape) -> usize {
    if by_lanes(shape) {
        return lanes::len(depth_of(shape)) * size_of::<f32>();
    }
    match Layout::new(shape) {
        Some(l) if enabled() && bf16::present() => len_of(&l, shape.filters),
        _ => 0,
    }
}

fn len_of(l: &Layout, filters: usize) -> usize {
    filters.div_ceil(BLOCK) * (l.panel() + size_of::<Magnitudes>())
}

/// Writes the panels of filters [filters, channels, kernel..], `panels_len` bytes. Returns false for filters that the unit
/// cannot multiply: they must stay unpacked.
pub fn pack_filters(shape: &FilterShape, w: &[f32], to: &mut [u8]) -> bool {
    let ([kh, kw], depth) = (shape.kernel, depth_of(shape));
    if by_lanes(shape) {
        assert!(w.len() == shape.filters * depth && to.len() == panels_len(shape));
        lanes::pack(w, depth, to);
        return true;
    }
    let Some(l) = Layout::new(shape) else { return false };
    assert!(w.len() == shape.filters * depth && to.len() == len_of(&l, shape.filters) && enabled());
    let blocks = shape.filters.div_ceil(BLOCK);
    let (panels, magnitudes) = to.split_at_mut(blocks * l.panel());
    let (each, tail) = (l.panel(), SharedPtr(magnitudes.as_mut_ptr()));
    let fine = AtomicBool::new(true);
    let sources: Vec<Option<usize>> = l
        .steps
        .iter()
        .flat_map(|step| l.sources(step))
        .map(|found| found.map(|(c, tap)| (c * kh + tap[0]) * kw + tap[1]))
        .collect();
    pool::parts(panels, each, |start, panel| {
        let block = start / each;
        let rows = block * BLOCK..shape.filters.min((block + 1) * BLOCK);
        // SAFETY: the processor has the unit, and so AVX-512.
        let seen = unsafe { pack_block(&sources, &w[rows.start * depth..rows.end * depth], depth, l.parts(), panel) };
        if f32::from_bits(seen.largest) < LARGE {
            // SAFETY: the place of this block.
            unsafe { tail.get().cast::<Magnitudes>().add(block).write_unaligned(seen) };
        } else {
            fine.store(false, Relaxed);
        }
    });
    fine.into_inner()
}

/// Panels of floats; `None`: they are not aligned, as all tensors are.
fn floats(panels: &[u8]) -> Option<&[f32]> {
    // SAFETY: all bit patterns are floats.
    let (before, floats, after) = unsafe { panels.align_to::<f32>() };
    (before.is_empty() && after.is_empty()).then_some(floats)
}

/// Operands of this magnitude are multiplied without the unit. False for NaN.
const LARGE: f32 = (1u64 << 50) as f32;

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn pack_block(sources: &[Option<usize>], w: &[f32], depth: usize, count: usize, panel: &mut [u8]) -> Magnitudes {
    let mut seen = Lanes::new();
    for (step, from) in sources.chunks_exact(STEP).enumerate() {
        let panel = &mut panel[step * count * STEP_BYTES..(step + 1) * count * STEP_BYTES];
        for r in 0..BLOCK {
            let mut numbers = [0f32; STEP];
            if let Some(filter) = w.get(r * depth..(r + 1) * depth) {
                for (v, at) in numbers.iter_mut().zip(from) {
                    *v = at.map_or(0.0, |at| filter[at]);
                }
            }
            let mut halves = [[0u16; STEP]; PARTS];
            for half in [0, 16] {
                // SAFETY: 16 floats, and 16 numbers of each part.
                unsafe {
                    let v = _mm512_loadu_ps(numbers[half..].as_ptr());
                    seen.see(v);
                    if count == 1 {
                        let narrow = std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(v));
                        _mm256_storeu_si256(halves[0][half..].as_mut_ptr().cast(), narrow);
                        continue;
                    }
                    for (to, part) in halves.iter_mut().zip(parts(v)) {
                        let upper = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(part));
                        _mm256_storeu_si256(to[half..].as_mut_ptr().cast(), upper);
                    }
                }
            }
            // A row of a tile is a pair of numbers of 16 filters.
            for (l, numbers) in halves[..count].iter().enumerate() {
                for (pair, both) in numbers.chunks_exact(2).enumerate() {
                    let at = l * STEP_BYTES + r / 16 * (STEP_BYTES / 2) + pair * 64 + r % 16 * 4;
                    panel[at..at + 2].copy_from_slice(&both[0].to_ne_bytes());
                    panel[at + 2..at + 4].copy_from_slice(&both[1].to_ne_bytes());
                }
            }
        }
    }
    seen.seen()
}

/// `y = act(x * w + bias + residual)` with the panels of `w`; the residual has the shape of y. Returns false, and does
/// nothing, if the panels are not those of this convolution or another way is faster.
pub fn convolve_packed(
    c: &Conv,
    x: &[f32],
    w: &[f32],
    panels: &[u8],
    bias: Option<&[f32]>,
    residual: Option<&[f32]>,
    relu: bool,
    y: &mut [f32],
) -> bool {
    c.check(x.len(), w.len(), y.len());
    assert!(bias.is_none_or(|b| b.len() == c.out_channels) && residual.is_none_or(|r| r.len() == y.len()));
    let Some(shape) = shape_of(c).filter(|_| !y.is_empty() && !x.is_empty()) else { return false };
    if by_lanes(&shape) {
        let Some(panels) = floats(panels).filter(|p| p.len() * 4 == panels_len(&shape)) else { return false };
        // SAFETY: `check` has compared the slices with the shape, `by_lanes` has looked for AVX-512.
        unsafe { lanes::convolve(c, x, panels, bias, residual, relu, y) };
        return true;
    }
    if !enabled() || !bf16::present() {
        return false;
    }
    let Some(l) = Layout::new(&shape).filter(|l| len_of(l, shape.filters) == panels.len()) else { return false };
    let field = Field::new(&l, [c.out_size[1], c.out_size[2]]);
    if !ALWAYS.load(Relaxed) && !is_faster(c, &l, &field) {
        return false;
    }
    let blocks = shape.filters.div_ceil(BLOCK);
    let again: Vec<AtomicBool> = (0..c.images * blocks).map(|_| AtomicBool::new(false)).collect();
    let offsets: Vec<usize> = l.steps.iter().map(|s| field.offset(&l, s)).collect();
    let run = Run {
        c,
        l: &l,
        f: &field,
        panels,
        blocks,
        offsets: &offsets,
        x,
        bias,
        residual,
        relu,
        y: SharedPtr(y.as_mut_ptr()),
        again: &again,
    };
    run.all();
    for n in 0..c.images {
        run.again(n, w, y);
    }
    true
}

/// Whether the unit is faster. Estimates in 1/1000 of a cycle, as in `gemm::amx`.
fn is_faster(c: &Conv, l: &Layout, f: &Field) -> bool {
    let (filters, pixels, bf16) = (c.out_channels, c.out_size[1] * c.out_size[2], l.parts() == 1);
    let macs = (c.filter_len() * pixels) as f64;
    let padded = (filters.next_multiple_of(16) * f.tiles.len().next_multiple_of(2) * 16 * l.steps.len() * STEP) as f64;
    let transformed = !bf16 && c.transformed::<f32>(WinogradOutput::Images, c.out_size);
    let plain = if transformed && pixels > 100 {
        // The products of 4 x 4 tiles, their transforms, and those of the filters, once for all images.
        let [ins, outs] = [c.in_channels as f64, filters as f64];
        let tiles = (c.out_size[1].div_ceil(4) * c.out_size[2].div_ceil(4)) as f64;
        40.0 * (36.0 * ins * outs * tiles + 400.0 * (ins + outs) * tiles + 800.0 * ins * outs / c.images as f64)
    } else {
        // Winograd's algorithm is slow on few pixels, as it reads four times as many filters.
        let each = if bf16 {
            17.0
        } else if transformed {
            60.0
        } else {
            42.0
        };
        each * macs
    };
    // Few filters are arranged anew for every call.
    let plain = plain + if filters <= 32 { 3000.0 * c.filter_len() as f64 } else { 0.0 };
    let (each, pair) = if bf16 { (6.0, 700.0) } else { (22.0, 1500.0) };
    plain > each * padded + pair * (f.planes * f.plane) as f64 + 300.0 * (filters * pixels) as f64 + 1e6
}

/// An image that threads read.
struct Shared(Planes);
// SAFETY: the pointer is only read, until the call that created it returns.
unsafe impl Sync for Shared {}
impl Shared {
    fn get(&self) -> &Planes {
        &self.0
    }
}

struct Run<'a> {
    c: &'a Conv,
    l: &'a Layout,
    f: &'a Field,
    panels: &'a [u8],
    blocks: usize,
    offsets: &'a [usize],
    x: &'a [f32],
    bias: Option<&'a [f32]>,
    residual: Option<&'a [f32]>,
    relu: bool,
    y: SharedPtr<f32>,
    /// For each image and block: it must be computed without the unit.
    again: &'a [AtomicBool],
}

impl Run<'_> {
    fn all(&self) {
        let (images, threads) = (self.c.images, pool::threads());
        let bytes = self.f.part * self.l.parts() * 4;
        if images >= threads && images > 1 {
            // A thread computes whole images.
            let group = (IMAGE_BYTES / bytes).clamp(1, images.div_ceil(threads));
            pool::chunks(images.div_ceil(group), |g| {
                let images = g * group..images.min((g + 1) * group);
                with_scratch::<f32, _>(bytes / 4 * images.len(), |buf| {
                    let seen: Vec<Magnitudes> = images
                        .clone()
                        .enumerate()
                        .map(|(i, n)| self.read(n, buf.wrapping_add(i * bytes / 4), false))
                        .collect();
                    self.blocks(images, buf, &seen, 0..self.blocks, 0..self.pairs());
                })
            });
            return;
        }
        for n in 0..images {
            with_scratch::<f32, _>(bytes / 4, |buf| {
                let seen = [self.read(n, buf, true)];
                let (group, buf) = (self.group(), &SharedPtr(buf));
                let groups = self.blocks.div_ceil(group);
                let work = group.min(self.blocks) * self.offsets.len();
                let each =
                    self.pairs().min(PIECE.div_ceil(work).max((self.pairs() * groups).div_ceil(16).min(self.pairs())));
                let across = self.pairs().div_ceil(each);
                pool::chunks(groups * across, |t| {
                    let (g, p) = (t / across * group, t % across * each);
                    let (blocks, pairs) = (g..self.blocks.min(g + group), p..self.pairs().min(p + each));
                    self.blocks(n..n + 1, buf.get(), &seen, blocks, pairs);
                });
            });
        }
    }

    /// Computes the marked blocks of image `n` without the unit, into all of `y`.
    fn again(&self, n: usize, w: &[f32], y: &mut [f32]) {
        let c = self.c;
        let marked = &self.again[n * self.blocks..(n + 1) * self.blocks];
        let (from, to) = (c.in_len() / c.images, c.out_len() / c.images);
        let (plane, depth) = (to / c.out_channels, c.filter_len() / c.out_channels);
        let mut first = 0;
        while first < marked.len() {
            let many = marked[first..].iter().take_while(|a| a.load(Relaxed)).count();
            if many == 0 {
                first += 1;
                continue;
            }
            let filters = first * BLOCK..c.out_channels.min((first + many) * BLOCK);
            let one = Conv { images: 1, out_channels: filters.len(), ..*c };
            let part = n * to + filters.start * plane..n * to + filters.end * plane;
            let y = &mut y[part.clone()];
            let (x, w) = (&self.x[n * from..(n + 1) * from], &w[filters.start * depth..filters.end * depth]);
            let relu = self.relu;
            convolve_of(&one, x, w, self.bias.map(|b| &b[filters]), relu && self.residual.is_none(), y);
            if let Some(z) = self.residual {
                update_by(y, &z[part], |y, z| if !relu || y + z > 0.0 { y + z } else { 0.0 });
            }
            first += many;
        }
    }

    /// Pairs of tiles of pixels.
    fn pairs(&self) -> usize {
        self.f.tiles.len().div_ceil(2)
    }

    /// Blocks of filters whose panels stay in the cache.
    fn group(&self) -> usize {
        (GROUP_BYTES / self.l.panel()).max(1)
    }

    /// Writes an image as pixels of pairs of channels.
    fn read(&self, n: usize, to: *mut f32, on_pool: bool) -> Magnitudes {
        let each = self.c.in_len() / self.c.images;
        let planes = Planes {
            p: self.x[n * each..].as_ptr(),
            size: [self.c.in_size[1], self.c.in_size[2]],
            stride: [self.c.stride[1], self.c.stride[2]],
            pad: [self.c.pad[1], self.c.pad[2]],
        };
        let (planes, to) = (&Shared(planes), &SharedPtr(to));
        let pieces = planes.get().pieces(self.f);
        let seen = std::sync::Mutex::new(Magnitudes::EMPTY);
        let some = |range: Range<usize>| {
            let mut all = Magnitudes::EMPTY;
            for piece in range {
                // SAFETY: the image has these sizes, the buffer those of the field; `convolve_packed` has checked the
                // processor.
                all = all.and(unsafe { planes.get().write(self.l, self.f, piece, to.get().cast()) });
            }
            let mut seen = seen.lock().unwrap_or_else(|e| e.into_inner());
            *seen = seen.and(all);
        };
        if on_pool {
            let size = (self.f.planes * self.f.plane).div_ceil(pieces);
            pool::ranges(pieces, (1usize << 15).div_ceil(size), some);
        } else {
            some(0..pieces);
        }
        seen.into_inner().unwrap_or_else(|e| e.into_inner())
    }

    /// Computes blocks of filters by pairs of tiles of the images in `buf`.
    fn blocks(
        &self,
        images: Range<usize>,
        buf: *const f32,
        seen: &[Magnitudes],
        blocks: Range<usize>,
        pairs: Range<usize>,
    ) {
        // SAFETY: the buffer holds the images; other calls have other images, blocks or pixels. `convolve_packed` has
        // checked the processor.
        unsafe {
            with_tiles(|| {
                let group = self.group();
                for first in blocks.clone().step_by(group) {
                    let some = first..blocks.end.min(first + group);
                    for (i, n) in images.clone().enumerate() {
                        let image = buf.wrapping_add(i * self.f.part * self.l.parts());
                        if f32::from_bits(seen[i].largest) < LARGE {
                            self.image(n, image.cast(), &seen[i], some.clone(), pairs.clone());
                        } else {
                            some.clone().for_each(|b| self.again[n * self.blocks + b].store(true, Relaxed));
                        }
                    }
                }
            })
        }
    }

    /// # Safety
    /// As in `blocks`, within `with_tiles`.
    unsafe fn image(&self, n: usize, image: *const u8, seen: &Magnitudes, blocks: Range<usize>, pairs: Range<usize>) {
        #[repr(align(64))]
        struct Sums([f32; BLOCK * APART]);
        let (mut sums, mut more) = (Sums([0.0; BLOCK * APART]), Sums([0.0; BLOCK * APART]));
        let (c, l, f) = (self.c, self.l, self.f);
        let plane = c.out_size[1] * c.out_size[2];
        let bf16 = l.parts() == 1;
        let chain = if bf16 { self.offsets.len() } else { CHAIN };
        let tail = self.panels[self.blocks * l.panel()..].as_ptr().cast::<Magnitudes>();
        // Panels that do not stay in the cache are prefetched when they are first read.
        let first = if blocks.len() * l.panel() > GROUP_BYTES / 2 { pairs.start } else { usize::MAX };
        for pair in pairs {
            let far = pair == first;
            let tiles = &f.tiles[pair * 2..f.tiles.len().min(pair * 2 + 2)];
            let at = |t: usize| image.wrapping_add(tiles[t.min(tiles.len() - 1)].at * l.pairs * 4);
            for block in blocks.clone() {
                let filters = block * BLOCK..c.out_channels.min((block + 1) * BLOCK);
                let (small, panel) = (filters.len() <= BLOCK / 2, self.panels[block * l.panel()..].as_ptr());
                // SAFETY: `pack_filters` has written them.
                let of = unsafe { tail.add(block).read_unaligned() };
                let largest = [seen, &of].map(|s| f32::from_bits(s.largest));
                let start = (n * c.out_channels + filters.start) * plane;
                let finish = Finish {
                    to: self.y.get().wrapping_add(start),
                    plane,
                    bias: self.bias.map_or(std::ptr::null(), |b| b[filters.start..].as_ptr()),
                    residual: self.residual.map_or(std::ptr::null(), |r| r[start..].as_ptr()),
                    relu: self.relu,
                    // As in `gemm::amx`: at most this much of a sum, times 2^-22, is lost.
                    least: f32::MIN_POSITIVE
                        * (1 << 22) as f32
                        * (l.steps.len() * STEP) as f32
                        * largest[0].max(largest[1]).max(1.0),
                };
                finish.prefetch(filters.len(), tiles);
                for (part, offsets) in self.offsets.chunks(chain).enumerate() {
                    let p = Product {
                        pixels: [at(0), at(1)],
                        offsets,
                        pixel: l.pairs * 4,
                        part: f.part * 4,
                        filters: panel.wrapping_add(part * chain * l.parts() * STEP_BYTES),
                    };
                    let to = if part == 0 { &mut sums } else { &mut more };
                    // SAFETY: the panel and the image have these steps; the processor has AVX-512, too.
                    unsafe {
                        if bf16 {
                            multiply::multiply::<true>(&p, small, far, to.0.as_mut_ptr());
                        } else {
                            multiply::multiply::<false>(&p, small, far, to.0.as_mut_ptr());
                        }
                        if part > 0 {
                            multiply::add(sums.0.as_mut_ptr(), more.0.as_ptr());
                        }
                    }
                }
                // SAFETY: the planes of this block; other calls write other pixels.
                let (low, nothing) = unsafe {
                    let sums = sums.0.as_ptr();
                    if bf16 {
                        multiply::finish::<false>(&finish, sums, filters.len(), tiles)
                    } else {
                        multiply::finish::<true>(&finish, sums, filters.len(), tiles)
                    }
                };
                let smallest =
                    [seen, &of].map(|s| f32::from_bits(s.smallest.saturating_add(1).min(f32::MAX.to_bits())));
                let lost = nothing && !largest.contains(&0.0) && smallest[0] * smallest[1] < 64.0 * f32::MIN_POSITIVE;
                if !bf16 && (low || lost) {
                    self.again[n * self.blocks + block].store(true, Relaxed);
                }
            }
        }
    }
}

const _: () = assert!(PARTS == 3);
