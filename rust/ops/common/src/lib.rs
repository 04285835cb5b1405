//! What families of operators share: broadcasting, attributes that come as tensors, half precision, regions, windows,
//! sums, SelectedRows. A family uses this crate and never another family.

pub mod axis;
pub mod broadcast;
pub mod cast;
pub mod complex;
pub mod concat;
pub mod conv;
pub mod elements;
pub mod fill;
pub mod formula;
pub mod half;
pub mod index;
pub mod levels;
pub mod norm;
pub mod region;
pub mod selected_rows;
pub mod sum;
pub mod tensor_attr;
pub mod window;
