//! Recurrent networks and sequence decoding.

pub mod activation;
pub mod crf;
pub mod ctc;
pub(crate) mod gates;
pub mod lod;
pub mod recurrent;
