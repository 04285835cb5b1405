//! Stubs for architectures without AMX: filters are never packed.

use crate::conv::Conv;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterShape {
    pub filters: usize,
    pub channels: usize,
    pub kernel: [usize; 2],
    pub stride: [usize; 2],
    pub dilation: [usize; 2],
    pub bf16: bool,
}

pub fn always(_on: bool) {}

pub fn panels_len(_shape: &FilterShape) -> usize {
    0
}

pub fn pack_filters(_shape: &FilterShape, _w: &[f32], _to: &mut [u8]) -> bool {
    false
}

pub fn convolve_packed(
    _c: &Conv,
    _x: &[f32],
    _w: &[f32],
    _panels: &[u8],
    _bias: Option<&[f32]>,
    _residual: Option<&[f32]>,
    _relu: bool,
    _y: &mut [f32],
) -> bool {
    false
}
