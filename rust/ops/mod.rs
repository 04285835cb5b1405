//! The table of operators, a line a family. This is the table of contents.

use crate::op::Op;
use std::collections::HashMap;
use std::sync::OnceLock;

pub mod activation;
pub mod basic;
pub mod common;
pub mod conv;
pub mod elementwise;
pub mod half;
pub mod loss;
pub mod norm;
pub mod optimizer;
pub mod pooling;
pub mod rows;
pub mod sequence;

/// Every operator.
pub static TABLES: &[&[&Op]] = &[
    basic::TABLE,       // scale, sum, cast, assign
    elementwise::TABLE, // binary operators with broadcasting
    activation::TABLE,  // unary formulas
    conv::TABLE,        // conv2d, depthwise_conv2d
    pooling::TABLE,     // pool2d
    norm::TABLE,        // batch_norm, layer_norm
    loss::TABLE,        // softmax, cross entropies
    optimizer::TABLE,   // sgd, momentum, adam
    sequence::TABLE,    // sequence_pool, sequence_expand
    rows::TABLE,        // SelectedRows
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
