//! Names with a meaning in Programs.

/// What a gradient variable's name ends with.
pub const SUFFIX: &str = "@GRAD";
/// An input that is not there, an output that nobody wants.
pub const EMPTY: &str = "@EMPTY@";

pub fn grad_name(name: &str) -> String {
    format!("{name}{SUFFIX}")
}
