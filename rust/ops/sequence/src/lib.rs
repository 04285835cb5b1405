//! Operators: sequences of different lengths (LoD).

use oar_ops_common::levels;

pub mod beam;
pub mod concat;
pub mod conv;
pub mod cut;
pub mod expand_as;
pub mod hash;
pub mod instag;
pub mod match_matrix;
pub mod padding;
pub mod pyramid_hash;
pub mod relevel;
pub mod reverse;
pub mod segment_pool;
pub mod sequence;
pub mod softmax;
pub mod tokens;
pub mod topk;
pub mod var_conv;

/// The operators of this group, a line a family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    sequence::TABLE,     // sequence_pool, sequence_expand
    segment_pool::TABLE, // segment_pool
    reverse::TABLE,      // sequence_reverse
    beam::TABLE,         // beam_search, beam_search_decode
    concat::TABLE,       // sequence_concat
    conv::TABLE,         // sequence_conv
    cut::TABLE,          // sequence_slice, sequence_scatter
    expand_as::TABLE,    // sequence_expand_as
    padding::TABLE,      // sequence_mask, sequence_pad, sequence_unpad
    relevel::TABLE,      // sequence_reshape, lod_reset
    softmax::TABLE,      // sequence_softmax
    tokens::TABLE,       // sequence_enumerate, sequence_erase
    pyramid_hash::TABLE, // pyramid_hash
    topk::TABLE,         // sequence_topk_avg_pooling
    instag::TABLE,       // filter_by_instag
    hash::TABLE,         // hash
    match_matrix::TABLE, // match_matrix_tensor
    var_conv::TABLE,     // var_conv_2d
];
