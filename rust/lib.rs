//! Oar: the tensor engine behind the `paddle` package. See ARCHITECTURE.md.

pub mod base;
pub mod ir;
#[cfg(feature = "python")]
pub mod py;
