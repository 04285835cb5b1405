//! The handles of blocks and operators, which refer to each other; their methods are in block.rs and op.rs.

use oar_core::ir::{BlockNode, OpNode, Program};
use pyo3::prelude::*;
use std::sync::Arc;

/// A block of a Program.
#[pyclass(name = "BlockDesc", module = "paddle._core", frozen, weakref)]
pub struct PyBlockDesc {
    pub(super) node: Arc<BlockNode>,
    pub(super) program: Option<Arc<Program>>,
}

impl PyBlockDesc {
    pub fn new(node: Arc<BlockNode>) -> PyBlockDesc {
        let program = node.program();
        PyBlockDesc { node, program }
    }

    pub fn node(&self) -> &Arc<BlockNode> {
        &self.node
    }
}

/// An operator of a block.
#[pyclass(name = "OpDesc", module = "paddle._core", frozen, weakref)]
pub struct PyOpDesc {
    pub(super) node: Arc<OpNode>,
    pub(super) _keep: Option<Arc<Program>>,
}

impl PyOpDesc {
    pub fn new(node: Arc<OpNode>, program: Option<Arc<Program>>) -> PyOpDesc {
        PyOpDesc { node, _keep: program }
    }

    pub fn node(&self) -> &Arc<OpNode> {
        &self.node
    }
}
