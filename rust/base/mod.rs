//! What every other module stands on: errors, data types, shapes, and the ways to the processes it works with.

pub mod comm;
pub mod dtype;
pub mod error;
pub mod shape;

pub use dtype::DType;
pub use error::{Error, Kind, Result};
pub use shape::Dims;
