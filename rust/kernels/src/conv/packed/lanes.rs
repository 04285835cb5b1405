//! Direct convolution with up to 16 filters, which are the lanes of a vector: panels are [channels, kernel.., 16] floats.
//! No patches are gathered and no filters arranged, which takes longer than the sums of small images.

use crate::conv::Conv;
use crate::gemm::amx::bf16_pack::transposed;
use crate::gemm::operands::with_scratch;
use crate::pool::{self, SharedPtr};
use std::arch::x86_64::*;

/// Most filters, and the least number with which most lanes are used.
pub const MOST: usize = 16;
pub const LEAST: usize = 9;
/// Pixels of a register tile.
const PIXELS: usize = 14;
/// Multiplications in one piece of work.
const PIECE: usize = 1 << 21;

/// Floats of the panels of filters with `depth` numbers each.
pub fn len(depth: usize) -> usize {
    depth * MOST
}

pub fn pack(w: &[f32], depth: usize, to: &mut [u8]) {
    for (e, bytes) in to.chunks_exact_mut(size_of::<f32>()).enumerate() {
        let (k, filter) = (e / MOST, e % MOST);
        let v = w.get(filter * depth + k).filter(|_| k < depth).copied().unwrap_or(0.0);
        bytes.copy_from_slice(&v.to_ne_bytes());
    }
}

/// Pixels of one row: the sums of `k` products each.
struct Row<'a> {
    /// The first pixel's element, and the distance to the next pixel's.
    x: *const f32,
    step: usize,
    /// From a pixel's element to those of its products.
    offsets: &'a [usize],
    w: *const f32,
    bias: __m512,
    relu: bool,
    filters: usize,
    /// The first filter's pixel, and the distance of planes; the residual (or null) has the same layout.
    to: *mut f32,
    residual: *const f32,
    plane: usize,
}

#[target_feature(enable = "avx512f")]
unsafe fn row<const P: usize>(t: &Row) {
    let mut sums = [_mm512_setzero_ps(); P];
    // SAFETY: the caller's image, panels and planes.
    unsafe {
        for (k, &offset) in t.offsets.iter().enumerate() {
            let w = _mm512_loadu_ps(t.w.add(k * MOST));
            let x = t.x.add(offset);
            for (p, sum) in sums.iter_mut().enumerate() {
                *sum = _mm512_fmadd_ps(_mm512_set1_ps(*x.add(p * t.step)), w, *sum);
            }
        }
        let mut rows = [_mm512_setzero_si512(); 16];
        for (row, sum) in rows.iter_mut().zip(sums) {
            *row = _mm512_castps_si512(_mm512_add_ps(sum, t.bias));
        }
        let there = ((1u32 << P) - 1) as u16;
        for (o, v) in transposed(&rows).into_iter().enumerate().take(t.filters) {
            let mut v = _mm512_castsi512_ps(v);
            if !t.residual.is_null() {
                v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(there, t.residual.add(o * t.plane)));
            }
            if t.relu {
                v = _mm512_max_ps(v, _mm512_setzero_ps());
            }
            _mm512_mask_storeu_ps(t.to.add(o * t.plane), there, v);
        }
    }
}

#[target_feature(enable = "avx512f")]
unsafe fn pixels(count: usize, t: &Row) {
    macro_rules! by_count {
        ($($n:literal)*) => {
            match count {
                // SAFETY: the caller's.
                $($n => unsafe { row::<$n>(t) },)*
                _ => unreachable!("a tile has 1 to 14 pixels"),
            }
        };
    }
    by_count!(1 2 3 4 5 6 7 8 9 10 11 12 13 14)
}

/// `y = act(x * w + bias + residual)`; `panels` are those of the filters.
///
/// # Safety
/// The slices fit the convolution, which has one slice, one group and at most 16 filters; the processor has AVX-512.
pub unsafe fn convolve(
    c: &Conv,
    x: &[f32],
    panels: &[f32],
    bias: Option<&[f32]>,
    residual: Option<&[f32]>,
    relu: bool,
    y: &mut [f32],
) {
    let ([_, h, w], [_, kh, kw], [_, oh, ow]) = (c.in_size, c.kernel, c.out_size);
    let ([_, sy, sx], [_, dy, dx], [_, top, left]) = (c.stride, c.dilation, c.pad);
    let reach = [(oh - 1) * sy + (kh - 1) * dy + 1, (ow - 1) * sx + (kw - 1) * dx + 1];
    // An image whose windows reach into the padding is copied.
    let inside = (top, left) == (0, 0) && reach[0] <= h && reach[1] <= w;
    let [rows, pitch] = if inside { [h, w] } else { reach };
    let each = c.in_channels * rows * pitch;
    let mut offsets = Vec::with_capacity(c.in_channels * kh * kw);
    for ch in 0..c.in_channels {
        for ky in 0..kh {
            let line = (ch * rows + ky * dy) * pitch;
            offsets.extend((0..kw).map(|kx| line + kx * dx));
        }
    }
    let mut lanes = [0f32; MOST];
    if let Some(bias) = bias {
        lanes[..bias.len()].copy_from_slice(bias);
    }
    let (plane, tile) = (oh * ow, ow.div_ceil(ow.div_ceil(PIXELS)));
    let out = SharedPtr(y.as_mut_ptr());
    let image = |n: usize, from: SharedPtr<f32>| {
        let grain = PIECE.div_ceil(ow * offsets.len() * MOST);
        pool::ranges(oh, grain, |lines| {
            for i in lines {
                for j in (0..ow).step_by(tile) {
                    let at = n * c.out_channels * plane + i * ow + j;
                    let null = std::ptr::null();
                    // SAFETY: the caller's slices; each line is written by one call.
                    unsafe {
                        let t = Row {
                            x: from.get().cast_const().add(i * sy * pitch + j * sx),
                            step: sx,
                            offsets: &offsets,
                            w: panels.as_ptr(),
                            bias: _mm512_loadu_ps(lanes.as_ptr()),
                            relu,
                            filters: c.out_channels,
                            to: out.get().add(at),
                            residual: residual.map_or(null, |r| r[at..].as_ptr()),
                            plane,
                        };
                        pixels(tile.min(ow - j), &t);
                    }
                }
            }
        });
    };
    for n in 0..c.images {
        let x = &x[n * c.in_channels * h * w..][..c.in_channels * h * w];
        if inside {
            image(n, SharedPtr(x.as_ptr().cast_mut()));
            continue;
        }
        with_scratch::<f32, _>(each, |buf| {
            // SAFETY: the buffer has these elements.
            let copy = unsafe { std::slice::from_raw_parts_mut(buf, each) };
            copy.fill(0.0);
            let wide = w.min(pitch.saturating_sub(left));
            for (line, to) in copy.chunks_exact_mut(pitch).enumerate() {
                let (ch, row) = (line / rows, (line % rows).wrapping_sub(top));
                if row < h && wide > 0 {
                    to[left..left + wide].copy_from_slice(&x[(ch * h + row) * w..][..wide]);
                }
            }
            image(n, SharedPtr(buf));
        });
    }
}
