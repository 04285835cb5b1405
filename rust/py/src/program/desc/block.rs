//! `core.BlockDesc`.

use super::handles::{PyBlockDesc, PyOpDesc};
use super::{Name, PyVarDesc};
use crate::error::{raise, OrRaise};
use oar_core::err;
use oar_core::ir::{Message, OpDesc, OpNode, VarNode};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

impl PyBlockDesc {
    fn wrap_op(&self, op: Arc<OpNode>) -> PyOpDesc {
        PyOpDesc::new(op, self.program.clone())
    }

    fn wrap_var(&self, var: Arc<VarNode>) -> PyVarDesc {
        PyVarDesc::new(var, self.program.clone())
    }
}

#[pymethods]
impl PyBlockDesc {
    #[getter]
    fn id(&self) -> i32 {
        self.node.idx()
    }

    #[getter]
    fn parent(&self) -> i32 {
        self.node.parent_idx()
    }

    fn get_forward_block_idx(&self) -> i32 {
        self.node.forward_block_idx()
    }

    fn _set_forward_block_idx(&self, forward_block_idx: i32) -> PyResult<()> {
        self.node.set_forward_block_idx(forward_block_idx).or_raise()
    }

    fn append_op(&self) -> PyOpDesc {
        self.wrap_op(self.node.append_op(OpDesc::default()))
    }

    fn _prepend_op(&self) -> PyResult<PyOpDesc> {
        self._insert_op(0)
    }

    fn _insert_op(&self, index: usize) -> PyResult<PyOpDesc> {
        Ok(self.wrap_op(self.node.insert_op(index, OpDesc::default()).or_raise()?))
    }

    fn _remove_op(&self, start: usize, end: usize) {
        self.node.remove_ops(start, end);
    }

    fn op(&self, index: usize) -> PyResult<PyOpDesc> {
        let n = self.node.op_count();
        let missing = || raise(err!(OutOfRange, "block {} has {n} operators, got the index {index}", self.node.idx()));
        Ok(self.wrap_op(self.node.op(index).ok_or_else(missing)?))
    }

    fn op_size(&self) -> usize {
        self.node.op_count()
    }

    /// The variable of this name, created if absent.
    fn var(&self, name: Name) -> PyVarDesc {
        self.wrap_var(self.node.var(&name.0))
    }

    /// The variable of this name in this block or an enclosing one, created here if absent.
    fn var_recursive(&self, name: Name) -> PyVarDesc {
        self.wrap_var(self.node.find_var_recursive(&name.0).unwrap_or_else(|| self.node.var(&name.0)))
    }

    fn has_var(&self, name: Name) -> bool {
        self.node.has_var(&name.0)
    }

    fn has_var_recursive(&self, name: Name) -> bool {
        self.node.find_var_recursive(&name.0).is_some()
    }

    fn find_var(&self, name: Name) -> Option<PyVarDesc> {
        self.node.find_var(&name.0).map(|v| self.wrap_var(v))
    }

    fn find_var_recursive(&self, name: Name) -> Option<PyVarDesc> {
        self.node.find_var_recursive(&name.0).map(|v| self.wrap_var(v))
    }

    fn _rename_var(&self, old_name: Name, new_name: Name) {
        self.node.rename_var(&old_name.0, &new_name.0);
    }

    fn _remove_var(&self, name: Name) {
        self.node.remove_var(&name.0);
    }

    fn all_vars(&self) -> Vec<PyVarDesc> {
        self.node.all_vars().into_iter().map(|v| self.wrap_var(v)).collect()
    }

    fn serialize_to_string<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.node.to_desc().to_bytes())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyBlockDesc>().is_ok_and(|other| Arc::ptr_eq(&other.get().node, &self.node))
    }

    fn __hash__(&self) -> usize {
        Arc::as_ptr(&self.node) as usize
    }

    fn __repr__(&self) -> String {
        format!("BlockDesc(id={}, parent={}, {} operators)", self.node.idx(), self.node.parent_idx(), self.op_size())
    }
}
