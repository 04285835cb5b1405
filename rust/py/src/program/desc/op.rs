//! `core.OpDesc`.

use super::enums::PyAttrType;
use super::handles::{PyBlockDesc, PyOpDesc};
use super::{names, Name};
use crate::error::{raise, OrRaise};
use crate::ops::attrs;
use oar_core::err;
use oar_core::ir::{hooks, Attr, BlockNode, Message, OpNode};
use oar_engine::graph::bind;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pyo3::IntoPyObjectExt;
use std::sync::Arc;

impl PyOpDesc {
    fn get_attr(&self, name: &str) -> PyResult<Attr> {
        self.node
            .attr(name)
            .ok_or_else(|| raise(err!(NotFound, "operator `{}` has no attribute `{name}`", self.node.op_type())))
    }

    fn find_block(&self, py: Python<'_>, idx: i32) -> PyResult<Py<PyBlockDesc>> {
        let block: Option<Arc<BlockNode>> = self.node.block().and_then(|b| b.program()).and_then(|p| p.block(idx));
        match block {
            Some(block) => Py::new(py, PyBlockDesc::new(block)),
            None => Err(raise(err!(NotFound, "operator `{}` names the block {idx}", self.node.op_type()))),
        }
    }
}

fn slots<'py>(py: Python<'py>, slots: &[(String, Vec<String>)]) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    slots.iter().try_for_each(|(name, args)| out.set_item(name, args))?;
    Ok(out)
}

#[pymethods]
impl PyOpDesc {
    #[new]
    fn py_new() -> PyOpDesc {
        PyOpDesc::new(OpNode::alone(), None)
    }

    fn copy_from(&self, op_desc: &PyOpDesc) {
        if !Arc::ptr_eq(&self.node, &op_desc.node) {
            self.node.copy_from(&op_desc.node);
        }
    }

    #[pyo3(name = "type")]
    fn op_type(&self) -> String {
        self.node.op_type()
    }

    fn set_type(&self, r#type: Name) {
        self.node.modify(|d| d.op_type = r#type.0);
    }

    fn input(&self, name: Name) -> PyResult<Vec<String>> {
        let d = self.node.read();
        let missing = || raise(err!(NotFound, "Input {} cannot be found in operator {}", name.0, d.op_type));
        Ok(d.input(&name.0).ok_or_else(missing)?.to_vec())
    }

    fn output(&self, name: Name) -> PyResult<Vec<String>> {
        let d = self.node.read();
        let missing = || raise(err!(NotFound, "Output {} cannot be found in operator {}", name.0, d.op_type));
        Ok(d.output(&name.0).ok_or_else(missing)?.to_vec())
    }

    fn input_names(&self) -> Vec<String> {
        self.node.read().inputs.iter().map(|(name, _)| name.clone()).collect()
    }

    fn output_names(&self) -> Vec<String> {
        self.node.read().outputs.iter().map(|(name, _)| name.clone()).collect()
    }

    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inputs = self.node.read().inputs.clone();
        slots(py, &inputs)
    }

    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let outputs = self.node.read().outputs.clone();
        slots(py, &outputs)
    }

    fn set_input(&self, name: Name, args: Vec<Name>) {
        self.node.modify(|d| d.set_input(&name.0, names(args)));
    }

    fn set_output(&self, name: Name, args: Vec<Name>) {
        self.node.modify(|d| d.set_output(&name.0, names(args)));
    }

    fn input_arg_names(&self) -> Vec<String> {
        self.node.read().input_args().cloned().collect()
    }

    fn output_arg_names(&self) -> Vec<String> {
        self.node.read().output_args().cloned().collect()
    }

    fn _rename_input(&self, old_name: Name, new_name: Name) {
        self.node.modify(|d| d.rename_input(&old_name.0, &new_name.0));
    }

    fn _rename_output(&self, old_name: Name, new_name: Name) {
        self.node.modify(|d| d.rename_output(&old_name.0, &new_name.0));
    }

    fn has_attr(&self, name: Name) -> bool {
        self.node.read().attrs.contains_key(&name.0)
    }

    fn attr_type(&self, py: Python<'_>, name: Name) -> PyResult<Py<PyAttrType>> {
        PyAttrType::object(py, self.get_attr(&name.0)?.kind() as i32)
    }

    fn attr_names(&self) -> Vec<String> {
        self.node.read().attrs.keys().cloned().collect()
    }

    fn attr(&self, py: Python<'_>, name: Name) -> PyResult<Py<PyAny>> {
        match self.get_attr(&name.0)? {
            Attr::Block(idx) => self.find_block(py, idx)?.into_py_any(py),
            Attr::Blocks(list) => {
                let blocks: Vec<_> = list.into_iter().map(|idx| self.find_block(py, idx)).collect::<PyResult<_>>()?;
                blocks.into_py_any(py)
            }
            other => attrs::to_py(py, &other),
        }
    }

    fn _set_attr(&self, name: Name, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(block) = value.cast::<PyBlockDesc>() {
            self.set_block_attr(name, block.get());
            return Ok(());
        }
        let declared = hooks::declared_attr_type(&self.node.op_type(), &name.0);
        let Some(attr) = attrs::from_py(value, declared) else {
            return Err(PyTypeError::new_err(format!(
                "attribute `{}` must be an int, a float, a str, a bool, a block or a list of these, got {}",
                name.0,
                value.repr()?
            )));
        };
        self.node.set_attr(&name.0, attr);
        Ok(())
    }

    fn set_attr(&self, name: Name, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self._set_attr(name, value)
    }

    fn remove_attr(&self, name: Name) {
        self.node.modify(|d| d.attrs.remove(&name.0));
    }

    fn set_block_attr(&self, name: Name, block: &PyBlockDesc) {
        self.node.bind(block.node());
        self.node.set_attr(&name.0, Attr::Block(block.node().idx()));
    }

    fn set_blocks_attr(&self, name: Name, blocks: Vec<Py<PyBlockDesc>>) {
        if let Some(block) = blocks.first() {
            self.node.bind(block.get().node());
        }
        self.node.set_attr(&name.0, Attr::Blocks(blocks.iter().map(|b| b.get().node().idx()).collect()));
    }

    /// Sets an attribute to the bytes of a serialised message.
    fn set_serialized_attr(&self, name: Name, serialized: &[u8]) {
        self.node.set_attr(&name.0, Attr::text(serialized.to_vec()));
    }

    fn _block_attr_id(&self, name: Name) -> PyResult<i32> {
        match self.get_attr(&name.0)? {
            Attr::Block(idx) => Ok(idx),
            other => Err(raise(err!(
                InvalidArgument,
                "attribute `{}` of operator `{}` is {}, not a block",
                name.0,
                self.node.op_type(),
                other.kind().name()
            ))),
        }
    }

    fn _blocks_attr_ids(&self, name: Name) -> PyResult<Vec<i32>> {
        match self.get_attr(&name.0)? {
            Attr::Blocks(list) => Ok(list),
            other => Err(raise(err!(
                InvalidArgument,
                "attribute `{}` of operator `{}` is {}, not a list of blocks",
                name.0,
                self.node.op_type(),
                other.kind().name()
            ))),
        }
    }

    fn check_attrs(&self) -> PyResult<()> {
        if self.node.read().op_type.is_empty() {
            return Err(raise(err!(PreconditionNotMet, "check_attrs() needs the type of the operator to be set")));
        }
        hooks::check_attrs(&self.node).or_raise()
    }

    fn infer_shape(&self, block: &PyBlockDesc) -> PyResult<()> {
        hooks::infer_shape(&self.node, block.node()).or_raise()
    }

    /// The number of variables of each duplicable output, from inputs and attributes by the operator's shape rule.
    fn _output_counts<'py>(&self, py: Python<'py>, block: &PyBlockDesc) -> PyResult<Bound<'py, PyDict>> {
        let counts = PyDict::new(py);
        for (name, n) in bind::output_counts(&self.node, block.node()).or_raise()? {
            counts.set_item(name, n)?;
        }
        Ok(counts)
    }

    fn infer_var_type(&self, block: &PyBlockDesc) -> PyResult<()> {
        hooks::infer_var_type(&self.node, block.node()).or_raise()
    }

    fn is_target(&self) -> bool {
        self.node.read().is_target.unwrap_or(false)
    }

    fn set_is_target(&self, is_target: bool) {
        self.node.modify(|d| d.is_target = Some(is_target));
    }

    fn serialize_to_string<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.node.read().to_bytes())
    }

    /// The block of the operator; None for an operator without block.
    fn block(&self) -> Option<PyBlockDesc> {
        self.node.block().map(PyBlockDesc::new)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyOpDesc>().is_ok_and(|other| Arc::ptr_eq(&other.get().node, &self.node))
    }

    fn __hash__(&self) -> usize {
        Arc::as_ptr(&self.node) as usize
    }

    fn __repr__(&self) -> String {
        let d = self.node.read();
        format!("OpDesc(type={:?}, inputs={:?}, outputs={:?})", d.op_type, d.inputs, d.outputs)
    }
}
