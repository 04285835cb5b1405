//! Batches from files of MultiSlot text, the format of Paddle's data sets: a line is an instance, and has for each slot how
//! many values there are and then the values (`<n> v1 .. vn`), all separated by blanks. Reading and parsing need no Python.

pub mod batch;
pub mod block;
pub mod desc;
pub mod memory;
mod merge;
pub mod parse;
pub mod read;
pub mod source;
pub mod stream;
#[cfg(test)]
mod tests;

pub use batch::{Batch, Batches};
pub use desc::{Desc, Slot};
pub use memory::Memory;
pub use read::{Reading, Stop};
