//! What every other module stands on: errors, data types, shapes, and whether the user wants to stop.

pub mod dtype;
pub mod error;
pub mod interrupt;
pub mod shape;

pub use dtype::{DType, DTypes};
pub use error::{shortened, Error, Kind, Result};
pub use shape::Dims;
