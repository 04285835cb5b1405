//! Shape operators: reshaping, indexing, slicing, padding, and creation of tensors.

pub mod concat;
pub mod creation;
pub mod diagonal;
pub mod expand;
pub mod expand_v2;
pub mod fill;
pub mod flip;
pub mod gather_nd;
pub mod index_select;
pub mod indexing;
pub mod linspace;
pub mod masked_select;
pub mod memory;
pub mod meshgrid;
pub mod multiplex;
pub mod pad;
pub mod pad2d;
pub mod partial;
pub mod reshape;
pub mod roll;
pub mod set_value;
pub mod shard_index;
pub mod slice;
pub mod stack;
pub mod transpose;
pub mod tril_triu;
pub mod unique;

/// The operators of this group, one line per family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    creation::TABLE, // constants, ranges, shapes
    reshape::TABLE,  // the same elements in another shape
    transpose::TABLE,
    concat::TABLE,    // concat, split
    stack::TABLE,     // stack, unstack
    expand_v2::TABLE, // expand
    expand::TABLE,    // expand of 1.x, tile
    slice::TABLE,     // slice, strided_slice
    set_value::TABLE, // assignment to a slice
    indexing::TABLE,  // gather, scatter, where, one-hot
    flip::TABLE,      // reverse, flip
    linspace::TABLE,
    meshgrid::TABLE,
    memory::TABLE, // memcpy, coalesce_tensor
    multiplex::TABLE,
    shard_index::TABLE,
    gather_nd::TABLE,    // gather_nd, scatter_nd_add
    index_select::TABLE, // index_select, index_sample
    masked_select::TABLE,
    unique::TABLE,
    roll::TABLE,
    diagonal::TABLE,  // diag, trace, eye
    tril_triu::TABLE, // tril, triu
    pad::TABLE,       // pad, crop
    pad2d::TABLE,     // pad2d, pad3d
    fill::TABLE,
    partial::TABLE, // partial_concat, partial_sum
];
