//! A request to backward: its roots, their gradients, which variables' gradients are wanted, and what is to be kept.

use super::tape::EagerVar;

/// What a backward is asked for.
pub struct Request<'a> {
    pub outputs: &'a [EagerVar],
    /// The gradient of each output; ones where absent.
    pub grads: &'a [Option<EagerVar>],
    pub retain_graph: bool,
    pub create_graph: bool,
    /// `paddle.grad`: the gradients of these variables alone, instead of those of every leaf.
    pub inputs: Option<&'a [EagerVar]>,
    /// Gradients do not flow through these.
    pub stop_at: &'a [EagerVar],
    pub allow_unused: bool,
    /// Calls before this number are not gone through.
    pub since: u64,
}
