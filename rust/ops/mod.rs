//! The table of operators, a line a family. This is the table of contents.

use crate::op::Op;
use std::collections::HashMap;
use std::sync::OnceLock;

pub mod activation;
pub mod array_tensor;
pub mod arrays;
pub mod basic;
pub mod batch_norm;
pub mod branch_rows;
pub mod collective;
pub mod common;
pub mod communicator;
pub mod comparison;
pub mod complex;
mod complex_matmul;
pub mod concat;
pub mod control_flow;
pub mod conv;
pub mod creation;
pub mod cross_entropy;
pub mod elementwise;
mod elementwise_second;
pub mod embedding;
pub mod expand;
pub mod expand_v2;
pub mod files;
pub mod flip;
pub mod group_norm;
pub mod half;
pub mod indexing;
pub mod layer_norm;
pub mod loss;
pub mod matmul;
mod matmul_batches;
pub mod metric;
pub mod norm;
pub mod optimizer;
pub mod order;
pub mod pooling;
pub mod program;
pub mod random;
pub mod raw;
pub mod reader;
pub mod reduction;
pub mod region;
pub mod reshape;
pub mod rows;
pub mod scalar;
pub mod sequence;
pub mod set_value;
pub mod slice;
pub mod softmax;
pub mod stack;
pub mod transpose;
pub mod unit;

/// Every operator.
pub static TABLES: &[&[&Op]] = &[
    basic::TABLE,              // scale, sum, cast, assign
    elementwise::TABLE,        // binary operators with broadcasting
    elementwise_second::TABLE, // their second gradients
    activation::TABLE,         // unary formulas
    scalar::TABLE,             // pow, clip
    comparison::TABLE,         // comparisons and logic
    reduction::TABLE,          // reductions over axes, mean
    matmul::TABLE,             // matrix products
    complex::TABLE,            // parts and conjugates of complex numbers
    order::TABLE,              // cumsum, argmax, sorting, top-k
    metric::TABLE,             // accuracy
    arrays::TABLE,             // LoDTensorArrays
    array_tensor::TABLE,       // arrays as one tensor
    control_flow::TABLE,       // sub-blocks
    branch_rows::TABLE,        // split_lod_tensor, merge_lod_tensor
    program::TABLE,            // feed, fetch, print, py_func
    reader::TABLE,             // create_py_reader, read
    files::TABLE,              // save, load
    creation::TABLE,           // constants, ranges, shapes
    random::TABLE,             // random numbers, dropout
    reshape::TABLE,            // the same elements in another shape
    transpose::TABLE,          // transpose
    concat::TABLE,             // concat, split
    stack::TABLE,              // stack, unstack
    expand_v2::TABLE,          // expand
    expand::TABLE,             // expand of 1.x
    slice::TABLE,              // slice, strided_slice
    set_value::TABLE,          // assignment to a slice
    indexing::TABLE,           // gather, scatter, where, one-hot
    flip::TABLE,               // reverse, flip
    embedding::TABLE,          // rows of a table by id
    conv::TABLE,               // conv2d, depthwise_conv2d
    pooling::TABLE,            // pool2d
    batch_norm::TABLE,         // batch_norm
    layer_norm::TABLE,         // layer_norm
    group_norm::TABLE,         // group_norm
    unit::TABLE,               // norm: vectors of length one
    softmax::TABLE,            // softmax
    loss::TABLE,               // cross entropies of scores
    cross_entropy::TABLE,      // cross entropies of probabilities
    optimizer::TABLE,          // sgd, momentum, adam
    rows::TABLE,               // SelectedRows
    sequence::TABLE,           // sequence_pool, sequence_expand
    communicator::TABLE,       // rings
    collective::TABLE,         // collectives of Programs
];

fn index() -> &'static HashMap<&'static str, &'static Op> {
    static INDEX: OnceLock<HashMap<&'static str, &'static Op>> = OnceLock::new();
    INDEX.get_or_init(|| {
        let mut map = HashMap::new();
        for op in TABLES.iter().flat_map(|t| t.iter()) {
            assert!(map.insert(op.name, *op).is_none(), "operator {} stands in the table twice", op.name);
        }
        map
    })
}

/// The operator of that name.
pub fn lookup(name: &str) -> Option<&'static Op> {
    index().get(name).copied()
}

/// All operators in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Op> {
    TABLES.iter().flat_map(|t| t.iter().copied())
}
