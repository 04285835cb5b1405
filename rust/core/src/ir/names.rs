//! Names with a meaning in Programs.

/// The suffix of a gradient variable's name.
pub const SUFFIX: &str = "@GRAD";
/// An absent input, an unused output.
pub const EMPTY: &str = "@EMPTY@";

pub fn grad_name(name: &str) -> String {
    format!("{name}{SUFFIX}")
}
