//! Sequence operators: variable-length sequences (LoD).

use oar_ops_common::levels;

pub mod beam_search;
pub mod concat;
pub mod conv;
pub mod enumerate;
pub mod erase;
pub mod expand;
pub mod expand_as;
pub mod filter_by_instag;
pub mod hash;
pub mod lod_reset;
pub mod match_matrix_tensor;
pub mod padding;
pub mod pool;
pub mod pyramid_hash;
pub mod reshape;
pub mod reverse;
pub mod scatter;
pub mod segment_pool;
pub mod slice;
pub mod softmax;
pub mod topk_avg_pooling;
pub mod var_conv_2d;

/// The operators of this group, one line per family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    pool::TABLE,   // sequence_pool
    expand::TABLE, // sequence_expand
    segment_pool::TABLE,
    reverse::TABLE,     // sequence_reverse
    beam_search::TABLE, // beam_search, beam_search_decode
    concat::TABLE,      // sequence_concat
    conv::TABLE,        // sequence_conv
    slice::TABLE,       // sequence_slice
    scatter::TABLE,     // sequence_scatter
    expand_as::TABLE,   // sequence_expand_as
    padding::TABLE,     // sequence_mask, sequence_pad, sequence_unpad
    reshape::TABLE,     // sequence_reshape
    lod_reset::TABLE,
    softmax::TABLE,   // sequence_softmax
    enumerate::TABLE, // sequence_enumerate
    erase::TABLE,     // sequence_erase
    pyramid_hash::TABLE,
    topk_avg_pooling::TABLE, // sequence_topk_avg_pooling
    filter_by_instag::TABLE,
    hash::TABLE,
    match_matrix_tensor::TABLE,
    var_conv_2d::TABLE,
];
