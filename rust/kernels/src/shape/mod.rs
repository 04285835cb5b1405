//! Copies, gathers, scatters and broadcasting by shapes and strides.

pub mod along_axis;
pub mod copy;
pub mod index;
pub mod masked_select;
pub mod multiplex;
pub mod partial;
pub mod progression;
pub mod roll;
pub mod strides;
pub mod triangle;
pub mod unique;
