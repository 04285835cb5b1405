//! A request to backward: its roots, their gradients, which variables' gradients are wanted, and what is to be kept.

use super::tape::EVar;

/// What a backward is asked for.
pub struct Request<'a> {
    pub outputs: &'a [EVar],
    /// The gradient of each output; ones where absent.
    pub grads: &'a [Option<EVar>],
    pub retain_graph: bool,
    pub create_graph: bool,
    /// `paddle.grad`: the gradients of these variables alone, instead of those of every leaf.
    pub inputs: Option<&'a [EVar]>,
    /// Gradients do not flow through these.
    pub stop_at: &'a [EVar],
    pub allow_unused: bool,
    /// Calls before this number are not gone through.
    pub since: u64,
}
