//! Sparse tables, whose rows are initialized on first access (LargeScaleKV): lookup_sparse_table_*.

mod files;
mod lookup_sparse_table;
mod lookup_sparse_table_fuse;

use oar_core::op::Op;

pub static TABLE: &[&Op] = &[
    &lookup_sparse_table::INIT,
    &lookup_sparse_table::READ,
    &lookup_sparse_table::WRITE,
    &lookup_sparse_table::GRAD_SPLIT,
    &lookup_sparse_table_fuse::FUSE_SGD,
    &lookup_sparse_table_fuse::FUSE_ADAM,
    &files::MERGE,
    &files::LOAD,
];
