//! Sequences of different lengths in one tensor, described by offsets (level-of-detail, LoD).

pub mod beam_search;
pub mod chunks;
pub mod embedding_pool;
pub mod filter_by_instag;
pub mod match_matrix_tensor;
pub mod padding;
pub mod pool;
pub mod pyramid_hash;
pub mod rows;
pub mod scatter;
pub mod segments;
pub mod softmax;
pub mod tokens;
pub mod topk_avg_pooling;
pub mod var_conv_2d;
pub mod windows;

/// The bounds of each sequence of a level.
fn spans(level: &[usize]) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    level.windows(2).map(|w| w[0]..w[1])
}
