//! Allocation, tensors, LoD, SelectedRows, variable storage, scopes.

mod alias_group;
pub mod alloc;
pub mod buffer;
pub mod dense;
pub mod device;
pub mod generator;
pub mod scope;
pub mod value;
pub mod var_storage;

pub use buffer::{Buffer, Export, Owner};
pub use dense::{Lod, Tensor};
pub use scope::Scope;
pub use value::{SelectedRows, Value};
pub use var_storage::{Exported, VarStorage};
