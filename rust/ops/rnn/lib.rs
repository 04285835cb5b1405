//! Operators: recurrent networks and decoding.

pub mod attention_lstm;
pub mod chunk_eval;
pub mod crf;
pub mod ctc_align;
pub mod edit_distance;
pub mod fusion_nets;
pub mod fusion_seq;
pub mod gather_tree;
pub mod gru;
mod lod;
pub mod lstm;
pub mod lstm_unit;
pub mod rnn;
pub mod warpctc;
