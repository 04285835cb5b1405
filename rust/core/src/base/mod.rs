//! What every other module uses: errors, data types, shapes, interruption.

pub mod dtype;
pub mod error;
pub mod fork;
pub mod interrupt;
pub mod release;
pub mod shape;

pub use dtype::{DType, DTypes};
pub use error::{shortened, Error, ErrorKind, Result};
pub use shape::Dims;
