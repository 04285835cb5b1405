//! Recurrent networks and decoding.

pub mod act;
pub mod batches;
pub mod crf;
pub mod ctc;
pub(crate) mod gates;
pub mod lod_gru;
pub mod lod_lstm;
pub mod recurrent;
pub mod recurrent_grad;
