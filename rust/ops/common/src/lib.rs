//! What families of operators share: broadcasting, attributes that come as tensors, half precision, regions, windows,
//! sums, SelectedRows. A family uses this crate and never another family.

pub mod axis;
pub mod broadcast;
pub mod complex;
pub mod conv;
pub mod elements;
pub mod fill;
pub mod given;
pub mod half;
pub mod index;
pub mod join;
pub mod levels;
pub mod norm;
pub mod real;
pub mod region;
pub mod row;
pub mod rows;
pub mod sum;
pub mod window;
