//! Operators: recurrent networks and decoding.
