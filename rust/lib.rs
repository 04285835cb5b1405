//! Oar: the tensor engine behind the `paddle` package. See ARCHITECTURE.md.

pub mod autograd;
pub mod base;
pub mod graph;
pub mod ir;
pub mod op;
pub mod ops;
#[cfg(feature = "python")]
pub mod py;
pub mod tensor;
