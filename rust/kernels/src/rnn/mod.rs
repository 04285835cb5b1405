//! Recurrent networks and sequence decoding.

pub mod activation;
pub mod attention_lstm;
pub mod beam;
pub mod crf;
pub mod ctc;
pub mod edit_distance;
pub(crate) mod gates;
pub mod lod;
pub mod lstm_unit;
pub mod recurrent;
