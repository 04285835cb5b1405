//! A request to backward: roots, their gradients, the variables whose gradients are requested, what is kept.

use super::tape::EagerVar;

/// Arguments of one backward.
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
    /// Nodes of calls before this number are not visited.
    pub since: u64,
}
