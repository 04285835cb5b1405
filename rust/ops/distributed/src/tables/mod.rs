//! Sparse tables, whose rows are initialized on first access (LargeScaleKV): lookup_sparse_table_*.

mod files;
mod ops;
mod update;

use oar_core::op::Op;

pub static TABLE: &[&Op] = &[
    &ops::INIT,
    &ops::READ,
    &ops::WRITE,
    &ops::GRAD_SPLIT,
    &update::FUSE_SGD,
    &update::FUSE_ADAM,
    &files::MERGE,
    &files::LOAD,
];
