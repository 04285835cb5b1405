//! Operators: quantisation.
