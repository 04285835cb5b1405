//! Recurrent networks and sequence decoding.

pub mod activation;
pub mod beam;
pub mod crf;
pub mod ctc;
pub mod edit_distance;
pub(crate) mod gates;
pub mod lod;
pub mod recurrent;
