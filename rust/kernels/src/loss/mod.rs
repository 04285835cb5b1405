//! Cross entropies.

pub mod softmax_loss;
