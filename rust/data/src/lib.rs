//! Batches from files of MultiSlot text, the format of Paddle's data sets. A line is an instance; for each slot it has
//! the number of values and the values (`<n> v1 .. vn`), separated by blanks. Reading and parsing need no Python. Files
//! with columns (Parquet, Arrow) are read by the caller's `ColumnReader`.

pub mod batch;
pub mod block;
pub mod columns;
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
pub use columns::{Column, Values};
pub use desc::{Desc, Slot};
pub use memory::Memory;
pub use read::{ColumnReader, Reading, Stop};
