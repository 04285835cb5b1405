//! Blocks of 32 pixels by 32 filters on the matrix unit.

use super::layout::{Pixels, BLOCK};
use crate::gemm::amx::bf16_pack::transposed;
use std::arch::asm;
use std::arch::x86_64::*;

/// Floats from a pixel's sums to the next one's.
pub const APART: usize = BLOCK;

/// Some steps of a block: two tiles of pixels, and the panel of the filters.
pub struct Product<'a> {
    pub pixels: [*const u8; 2],
    /// Bytes from a tile's first pixel to each step's numbers.
    pub offsets: &'a [usize],
    /// Bytes from a pixel to the next one, and from a part of the image to the next one.
    pub pixel: usize,
    pub part: usize,
    pub filters: *const u8,
}

/// Products of the first 16 filters, or of all.
macro_rules! products {
    (1) => {
        "tdpbf16ps tmm0, tmm4, tmm6\n tdpbf16ps tmm2, tmm5, tmm6"
    };
    (2) => {
        "tdpbf16ps tmm0, tmm4, tmm6\n tdpbf16ps tmm1, tmm4, tmm7\n tdpbf16ps tmm2, tmm5, tmm6\n tdpbf16ps tmm3, tmm5, tmm7"
    };
}

/// Filters at this distance.
macro_rules! filters {
    (1, $at:literal) => {
        concat!("tileloadd tmm6, [{b} + {side} + ", $at, "]")
    };
    (2, $at:literal) => {
        concat!("tileloadd tmm6, [{b} + {side} + ", $at, "]\n tileloadd tmm7, [{b} + {side} + 1024 + ", $at, "]")
    };
}

/// Pixels of the current part.
macro_rules! pixels {
    () => {
        "tileloadd tmm4, [{x} + {pixel}]\n tileloadd tmm5, [{y} + {pixel}]"
    };
}

/// Prefetches `4 * $lines` cache lines of filters, `$ahead` bytes ahead.
macro_rules! prefetches {
    ($ahead:literal, $lines:literal) => {
        concat!(
            "lea {at}, [{b} + ",
            $ahead,
            "]\n mov {line:e}, ",
            $lines,
            "\n 3:\n",
            "prefetcht0 [{at}]\n prefetcht0 [{at} + 64]\n prefetcht0 [{at} + 128]\n prefetcht0 [{at} + 192]\n",
            "add {at}, 256\n dec {line:e}\n jnz 3b"
        )
    };
}

macro_rules! steps_of_parts {
    ($p:expr, $tiles:tt, $prefetches:expr) => {
        asm!(
            "2:",
            "mov {x}, [{offsets}]",
            "lea {y}, [{second} + {x}]",
            "add {x}, {first}",
            // high of the pixels by low, then by middle of the filters
            pixels!(), filters!($tiles, 4096), products!($tiles), $prefetches,
            filters!($tiles, 2048), products!($tiles),
            // middle of the pixels by middle, then by high of the filters
            "add {x}, {part}", "add {y}, {part}", pixels!(), products!($tiles),
            filters!($tiles, 0), products!($tiles),
            // low, then high of the pixels by high of the filters
            "add {x}, {part}", "add {y}, {part}", pixels!(), products!($tiles),
            "sub {x}, {part}", "sub {y}, {part}", "sub {x}, {part}", "sub {y}, {part}", pixels!(), products!($tiles),
            "add {b}, 6144", "add {offsets}, 8", "dec {n}", "jnz 2b",
            b = inout(reg) $p.filters => _, offsets = inout(reg) $p.offsets.as_ptr() => _,
            n = inout(reg) $p.offsets.len() => _, first = in(reg) $p.pixels[0], second = in(reg) $p.pixels[1],
            pixel = in(reg) $p.pixel, part = in(reg) $p.part, side = in(reg) 64usize,
            x = out(reg) _, y = out(reg) _, at = out(reg) _, line = out(reg) _, options(nostack, readonly),
        )
    };
}

macro_rules! steps_of_halves {
    ($p:expr, $tiles:tt, $prefetches:expr) => {
        asm!(
            "2:",
            "mov {x}, [{offsets}]",
            "lea {y}, [{second} + {x}]",
            "add {x}, {first}",
            pixels!(), filters!($tiles, 0), products!($tiles), $prefetches,
            "add {b}, 2048", "add {offsets}, 8", "dec {n}", "jnz 2b",
            b = inout(reg) $p.filters => _, offsets = inout(reg) $p.offsets.as_ptr() => _,
            n = inout(reg) $p.offsets.len() => _, first = in(reg) $p.pixels[0], second = in(reg) $p.pixels[1],
            pixel = in(reg) $p.pixel, side = in(reg) 64usize,
            x = out(reg) _, y = out(reg) _, at = out(reg) _, line = out(reg) _, options(nostack, readonly),
        )
    };
}

/// Writes the sums of a product: rows of pixels, `APART` floats apart. `small`: only of the first 16 filters. `far`: the
/// panel is not in the second-level cache.
///
/// # Safety
/// The panel, and the pixels of both tiles, have these steps; within `with_tiles`. There is at least one step.
pub unsafe fn multiply<const BF16: bool>(p: &Product, small: bool, far: bool, sums: *mut f32) {
    // SAFETY: the caller's operands; nothing but these instructions uses the tiles, which keep their values in between.
    // Prefetches read nothing.
    unsafe {
        asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, nomem));
        match (BF16, small, far) {
            (false, true, _) => steps_of_parts!(p, 1, "/* {at} {line} */"),
            (false, false, false) => steps_of_parts!(p, 2, "/* {at} {line} */"),
            (false, false, true) => steps_of_parts!(p, 2, prefetches!(12288, 24)),
            (true, true, _) => steps_of_halves!(p, 1, "/* {at} {line} */"),
            (true, false, false) => steps_of_halves!(p, 2, "/* {at} {line} */"),
            (true, false, true) => steps_of_halves!(p, 2, prefetches!(4096, 8)),
        }
        let below = sums.wrapping_add(BLOCK / 2 * APART);
        asm!(
            "tilestored [{c} + {cs}], tmm0", "tilestored [{below} + {cs}], tmm2",
            c = in(reg) sums, below = in(reg) below, cs = in(reg) APART * 4, options(nostack),
        );
        if !small {
            asm!(
                "tilestored [{c} + {cs} + 64], tmm1", "tilestored [{below} + {cs} + 64], tmm3",
                c = in(reg) sums, below = in(reg) below, cs = in(reg) APART * 4, options(nostack),
            );
        }
    }
}

/// `to[i] += from[i]` for the sums of a block.
#[target_feature(enable = "avx512f")]
pub unsafe fn add(to: *mut f32, from: *const f32) {
    for i in (0..BLOCK * APART).step_by(16) {
        // SAFETY: the caller's sums.
        unsafe { _mm512_storeu_ps(to.add(i), _mm512_add_ps(_mm512_loadu_ps(to.add(i)), _mm512_loadu_ps(from.add(i)))) };
    }
}

/// The end of a convolution: bias and residual (or null), ReLU, and the planes of the result.
pub struct Finish {
    /// The first filter's plane, and the distance of planes; the residual has the same layout.
    pub to: *mut f32,
    pub plane: usize,
    pub bias: *const f32,
    pub residual: *const f32,
    pub relu: bool,
    /// Sums that are not zero have at least this magnitude.
    pub least: f32,
}

impl Finish {
    /// Prefetches what `finish` reads and writes: a block's products take less time than as many cache misses.
    pub fn prefetch(&self, filters: usize, tiles: &[Pixels]) {
        let (Some(first), Some(last)) = (tiles.first(), tiles.last()) else { return };
        let (start, end) = (first.to, last.to + last.count - 1);
        for r in 0..filters {
            for at in (start..end).step_by(16).chain([end]) {
                let at = r * self.plane + at;
                // SAFETY: prefetches read nothing.
                unsafe {
                    _mm_prefetch::<_MM_HINT_T0>(self.to.wrapping_add(at).cast());
                    if !self.residual.is_null() {
                        _mm_prefetch::<_MM_HINT_T0>(self.residual.wrapping_add(at).cast());
                    }
                }
            }
        }
    }
}

/// Writes the sums of `filters` filters. If CHECKED, returns whether a sum is smaller than `least`, and whether one is
/// zero.
///
/// # Safety
/// The planes have these pixels, and nothing else accesses them. The processor has AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
pub unsafe fn finish<const CHECKED: bool>(
    f: &Finish,
    sums: *const f32,
    filters: usize,
    tiles: &[Pixels],
) -> (bool, bool) {
    let (zero, least) = (_mm512_setzero_ps(), _mm512_set1_ps(f.least));
    let (mut small, mut nothing) = (0, 0);
    for (t, tile) in tiles.iter().enumerate() {
        let there = ((1u32 << tile.count) - 1) as u16;
        for first in (0..filters).step_by(16) {
            let from = sums.wrapping_add(t * 16 * APART + first);
            let mut rows = [_mm512_setzero_si512(); 16];
            for (i, row) in rows.iter_mut().enumerate() {
                // SAFETY: the caller's sums.
                *row = unsafe { _mm512_loadu_si512(from.wrapping_add(i * APART).cast()) };
            }
            let rows = transposed(&rows);
            for (r, row) in rows.iter().enumerate().take(filters - first) {
                let mut v = _mm512_castsi512_ps(*row);
                if tile.mask != there {
                    v = _mm512_maskz_compress_ps(tile.mask, v);
                }
                if CHECKED {
                    let none = _mm512_mask_cmp_ps_mask::<_CMP_EQ_OQ>(there, v, zero);
                    nothing |= none;
                    small |= _mm512_mask_cmp_ps_mask::<_CMP_LT_OQ>(there & !none, _mm512_abs_ps(v), least);
                }
                let at = (first + r) * f.plane + tile.to;
                // SAFETY: the caller's planes and biases.
                unsafe {
                    if !f.bias.is_null() {
                        v = _mm512_add_ps(v, _mm512_set1_ps(*f.bias.add(first + r)));
                    }
                    if !f.residual.is_null() {
                        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(there, f.residual.add(at)));
                    }
                    if f.relu {
                        v = _mm512_max_ps(v, zero);
                    }
                    _mm512_mask_storeu_ps(f.to.add(at), there, v);
                }
            }
        }
    }
    (small != 0, nothing != 0)
}
