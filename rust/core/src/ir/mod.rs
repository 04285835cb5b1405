//! Paddle's ProgramDesc: blocks of variables and operators, and the codecs of its files.

pub mod attr;
pub mod block;
pub mod codec;
mod codec_attr;
pub mod desc;
pub mod hooks;
pub mod names;
mod nodes;
pub mod op_version;
pub mod program;
pub mod prune;
pub mod tensor_file;
#[cfg(test)]
mod tests;
mod wire;

pub use attr::{Attr, AttrMap, AttrType};
pub use codec::Message;
pub use desc::{BlockDesc, OpDesc, ProgramDesc, VarDesc, VarKind, VarType};
pub use nodes::{BlockNode, OpNode, Program, VarNode};
