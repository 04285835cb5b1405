//! Paddle's ProgramDesc: blocks of variables and operators, and the codecs of its files.

pub mod attr;

pub use attr::{Attr, AttrMap, AttrType};
