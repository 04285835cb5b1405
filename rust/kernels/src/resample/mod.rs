//! Sampling of images between their pixels: interpolation to another size, and at the points of a grid.

pub mod grid_sample;
pub mod resize;
