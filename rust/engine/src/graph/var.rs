//! Numbers of a plan's variables.

pub type Var = u32;

/// An empty name (`@EMPTY@`): an absent input, an unused output.
pub const ABSENT: Var = u32::MAX;
