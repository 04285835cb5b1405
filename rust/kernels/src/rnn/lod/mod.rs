//! Recurrent networks over sequences of different lengths in one tensor (LoD).

pub mod batches;
pub mod gru;
pub mod lstm;
