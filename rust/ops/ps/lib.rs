//! Operators: the parameter server.
