//! Storage, tensors, LoD, SelectedRows, and the cells that variables are.

pub mod alloc;
pub mod buffer;
pub mod cell;
pub mod dense;
pub mod device;
pub mod generator;
mod kin;
pub mod scope;
pub mod value;

pub use buffer::{Buffer, Export, Owner};
pub use cell::{Cell, Exported};
pub use dense::{Lod, Tensor};
pub use scope::Scope;
pub use value::{SelectedRows, Value};
