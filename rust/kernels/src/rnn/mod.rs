//! Recurrent networks and decoding.

pub mod ctc;
pub(crate) mod gates;
pub mod recurrent;
pub(crate) mod recurrent_grad;
