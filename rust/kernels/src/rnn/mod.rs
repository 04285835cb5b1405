//! Recurrent networks and decoding.

pub(crate) mod gates;
pub mod recurrent;
pub(crate) mod recurrent_grad;
