//! Sampling of images between their pixels: interpolation to another size, and at the points of a grid.

pub mod affine_grid;
pub mod bilateral_slice;
pub mod grid_sample;
pub mod resize;
