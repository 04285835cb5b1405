//! Operators: compositions with a kernel of their own.
