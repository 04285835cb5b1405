//! Operators: recurrent networks and decoding.

pub mod gather_tree;
pub mod rnn;
