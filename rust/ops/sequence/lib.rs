//! Operators: sequences of different lengths (LoD).

use oar_core::op::parts::levels;

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
