//! Images as pixels of pairs of bf16 numbers.

use super::layout::{Field, Layout, PAIRS};
use crate::gemm::amx::bf16_pack::transposed;
use crate::gemm::amx::pack::{parts, Lanes, Magnitudes, PARTS};
use std::arch::x86_64::*;

/// Planes of an image of f32.
pub struct Planes {
    pub p: *const f32,
    pub size: [usize; 2],
    pub stride: [usize; 2],
    pub pad: [usize; 2],
}

/// One line of a channel: `p` is null for a line of zeros. Pixel `j` of the result is `p[start + j * step]`, zero outside
/// of `0..len`.
#[derive(Clone, Copy)]
struct Line {
    p: *const f32,
    start: isize,
    step: usize,
    len: usize,
}

impl Line {
    /// Pixels `j..j + 16`.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    unsafe fn load(&self, j: usize) -> __m512 {
        if self.p.is_null() {
            return _mm512_setzero_ps();
        }
        let first = self.start + (j * self.step) as isize;
        // SAFETY: only elements 0..len are read.
        unsafe {
            if self.step == 1 {
                return self.sixteen(first);
            }
            let pick = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            _mm512_permutex2var_ps(self.sixteen(first), pick, self.sixteen(first + 16))
        }
    }

    /// Elements `first..first + 16`, zero outside of the line.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    unsafe fn sixteen(&self, first: isize) -> __m512 {
        // SAFETY: the mask has elements of the line only.
        unsafe {
            if first >= 0 && first + 16 <= self.len as isize {
                return _mm512_loadu_ps(self.p.offset(first));
            }
            let clip = |v: isize| v.clamp(0, 16) as u32;
            let (lo, hi) = (clip(-first), clip(self.len as isize - first));
            let mask = ((1u32 << hi) - 1) & !((1u32 << lo) - 1);
            _mm512_maskz_loadu_ps(mask as u16, self.p.wrapping_offset(first))
        }
    }
}

/// Writes up to 16 pairs of each of `pixels` pixels, which are `apart` bytes apart; with three parts these are `part`
/// bytes apart.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn write_pairs<const BF16: bool>(
    lines: &[[Line; 2]],
    pixels: usize,
    to: *mut u8,
    apart: usize,
    part: usize,
    seen: &mut Lanes,
) {
    let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
    // 0, 16, 1, 17, ...: numbers of both lines, alternating.
    let low = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    let order = _mm512_or_si512(low, _mm512_slli_epi32::<16>(_mm512_add_epi32(low, _mm512_set1_epi32(16))));
    // Other pairs of the pixel belong to other calls.
    let there = ((1u32 << lines.len()) - 1) as u16;
    let count = if BF16 { 1 } else { PARTS };
    let mut pairs = [[_mm512_setzero_si512(); 16]; PARTS];
    for j in (0..pixels).step_by(16) {
        for (r, [a, b]) in lines.iter().enumerate() {
            // SAFETY: the caller's lines.
            let (x, y) = unsafe { (a.load(j), b.load(j)) };
            seen.see(x);
            seen.see(y);
            if BF16 {
                // SAFETY: 32 bf16 numbers are 512 bits.
                let both = unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(y, x)) };
                pairs[0][r] = _mm512_permutexvar_epi16(order, both);
                continue;
            }
            let (x, y) = (parts(x), parts(y));
            for l in 0..PARTS {
                // upper ? y : x >> 16
                pairs[l][r] = _mm512_ternarylogic_epi32::<0xe4>(y[l], _mm512_srli_epi32::<16>(x[l]), upper);
            }
        }
        for (l, pairs) in pairs[..count].iter().enumerate() {
            let rows = transposed(pairs);
            for (i, row) in rows.iter().enumerate().take(pixels - j) {
                let to = to.wrapping_add((j + i) * apart + l * part);
                // SAFETY: the caller's pixels.
                unsafe { _mm512_mask_storeu_epi32(to.cast(), there, *row) };
            }
        }
    }
}

impl Planes {
    /// Channel `c` in a phase, line `y` of the padded image.
    fn line(&self, c: usize, phase: [usize; 2], y: usize) -> Line {
        let [h, w] = self.size;
        let row = (y * self.stride[0] + phase[0]) as isize - self.pad[0] as isize;
        let start = phase[1] as isize - self.pad[1] as isize;
        let inside = row >= 0 && row < h as isize;
        let p = if inside { self.p.wrapping_add((c * h + row as usize) * w) } else { std::ptr::null() };
        Line { p, start, step: self.stride[1], len: w }
    }

    /// Whether the planes are the image's, without padding: they are one line.
    fn is_whole(&self, f: &Field) -> bool {
        self.stride == [1, 1] && self.pad == [0, 0] && f.size == self.size
    }

    /// The number of pieces of `write`: lines, and the rest.
    pub fn pieces(&self, f: &Field) -> usize {
        f.planes * if self.is_whole(f) { 1 } else { f.size[0] } + 1
    }

    /// Writes one piece.
    ///
    /// # Safety
    /// The image is readable; `to` has room for it in this layout, and nothing else accesses this piece. The processor
    /// has AVX-512 and its bf16 instructions.
    pub unsafe fn write(&self, l: &Layout, f: &Field, piece: usize, to: *mut u8) -> Magnitudes {
        // SAFETY: the caller's.
        unsafe {
            if l.parts() == 1 {
                self.write_as::<true>(l, f, piece, to)
            } else {
                self.write_as::<false>(l, f, piece, to)
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn write_as<const BF16: bool>(&self, l: &Layout, f: &Field, piece: usize, to: *mut u8) -> Magnitudes {
        let (mut seen, part) = (Lanes::new(), f.part * 4);
        let whole = self.is_whole(f);
        let lines = if whole { 1 } else { f.size[0] };
        let (plane, y) = (piece / lines, piece % lines);
        if plane == f.planes {
            for p in 0..l.parts() {
                let rest = to.wrapping_add(p * part + f.planes * f.plane * 4);
                // SAFETY: the caller's room.
                unsafe { std::ptr::write_bytes(rest, 0, (f.part - f.planes * f.plane) * 4) };
            }
            return seen.seen();
        }
        let pixels = if whole { f.size[0] * f.size[1] } else { f.size[1] };
        let none = Line { p: std::ptr::null(), start: 0, step: 1, len: 0 };
        for first in (0..l.pairs).step_by(PAIRS) {
            let some = PAIRS.min(l.pairs - first);
            let mut lines = [[none; 2]; PAIRS];
            let numbers = l.numbers(plane, 2 * first);
            for (line, number) in lines[..some].as_flattened_mut().iter_mut().zip(numbers) {
                if let Some((c, phase)) = number {
                    *line = self.line(c, phase, y);
                    line.len *= if whole { self.size[0] } else { 1 };
                }
            }
            let to = to.wrapping_add((plane * f.plane + y * f.size[1] * l.pairs + first) * 4);
            // SAFETY: the caller's.
            unsafe { write_pairs::<BF16>(&lines[..some], pixels, to, l.pairs * 4, part, &mut seen) };
        }
        seen.seen()
    }
}
