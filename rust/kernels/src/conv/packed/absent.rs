//! Stubs for architectures without AMX: filters are never packed.

use super::FilterShape;
use crate::conv::Conv;

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
