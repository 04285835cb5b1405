//! `core.VarDesc`.

use super::enums::{var_type, PyVarType};
use super::Name;
use crate::error::OrRaise;
use oar_core::base::Result;
use oar_core::ir::desc::LodTensorDesc;
use oar_core::ir::{Message, Program, VarDesc, VarKind, VarNode};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// A variable of a block.
#[pyclass(name = "VarDesc", module = "paddle._core", frozen, weakref)]
pub struct PyVarDesc {
    node: Arc<VarNode>,
    _keep: Option<Arc<Program>>,
}

impl PyVarDesc {
    pub fn new(node: Arc<VarNode>, program: Option<Arc<Program>>) -> PyVarDesc {
        PyVarDesc { node, _keep: program }
    }

    pub fn node(&self) -> &Arc<VarNode> {
        &self.node
    }

    fn update(&self, change: impl FnOnce(&mut VarDesc) -> Result<bool>) -> PyResult<()> {
        self.node.update(change).or_raise()
    }

    /// One value for each output of a READER.
    fn each<T>(&self, get: impl Fn(&LodTensorDesc) -> T) -> PyResult<Vec<T>> {
        Ok(self.node.read().reader().or_raise()?.iter().map(get).collect())
    }

    fn set_each<T>(&self, values: Vec<T>, set: impl Fn(&mut LodTensorDesc, T)) -> PyResult<()> {
        self.update(|d| {
            let outputs = d.reader_mut(values.len())?;
            outputs.iter_mut().zip(values).for_each(|(output, value)| set(output, value));
            Ok(true)
        })
    }
}

#[pymethods]
impl PyVarDesc {
    #[new]
    fn py_new(name: Name) -> PyVarDesc {
        PyVarDesc::new(VarNode::alone(&name.0), None)
    }

    fn name(&self) -> String {
        self.node.name()
    }

    fn set_name(&self, name: Name) -> PyResult<()> {
        self.update(|d| {
            d.name = name.0;
            Ok(true)
        })
    }

    fn shape(&self) -> PyResult<Vec<i64>> {
        Ok(self.node.read().shape().or_raise()?.to_vec())
    }

    fn get_shape(&self) -> PyResult<Vec<i64>> {
        self.shape()
    }

    fn set_shape(&self, shape: Vec<i64>) -> PyResult<()> {
        self.node.set_shape(&shape).or_raise()
    }

    fn shapes(&self) -> PyResult<Vec<Vec<i64>>> {
        self.each(|t| t.tensor.as_ref().map_or_else(Vec::new, |t| t.dims.clone()))
    }

    fn set_shapes(&self, shapes: Vec<Vec<i64>>) -> PyResult<()> {
        self.set_each(shapes, |t, dims| t.tensor.get_or_insert_default().dims = dims)
    }

    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let kind = self.node.read().data_type().or_raise()?;
        var_type(py, kind)
    }

    fn element_type(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.dtype(py)
    }

    fn set_dtype(&self, dtype: &PyVarType) -> PyResult<()> {
        self.node.set_data_type(dtype.kind()).or_raise()
    }

    fn dtypes(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let kinds = self.each(|t| t.tensor.as_ref().and_then(|t| t.data_type).unwrap_or(VarKind::BOOL))?;
        kinds.into_iter().map(|kind| var_type(py, kind)).collect()
    }

    fn set_dtypes(&self, dtypes: Vec<Py<PyVarType>>) -> PyResult<()> {
        self.set_each(dtypes, |t, dtype| t.tensor.get_or_insert_default().data_type = Some(dtype.get().kind()))
    }

    /// Those of "tensor", "data_type" and "lod_level" that were set.
    fn _set_parts(&self) -> Vec<&'static str> {
        self.node.read().set_parts()
    }

    fn lod_level(&self) -> PyResult<i32> {
        self.node.read().lod_level().or_raise()
    }

    fn set_lod_level(&self, lod_level: i32) -> PyResult<()> {
        self.node.set_lod_level(lod_level).or_raise()
    }

    fn lod_levels(&self) -> PyResult<Vec<i32>> {
        self.each(|t| t.lod_level.unwrap_or(0))
    }

    fn set_lod_levels(&self, lod_levels: Vec<i32>) -> PyResult<()> {
        self.set_each(lod_levels, |t, level| t.lod_level = Some(level))
    }

    #[pyo3(name = "type")]
    fn kind(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        var_type(py, self.node.kind())
    }

    fn set_type(&self, r#type: &PyVarType) -> PyResult<()> {
        self.node.set_kind(r#type.kind()).or_raise()
    }

    fn persistable(&self) -> bool {
        self.node.read().is_persistable()
    }

    fn set_persistable(&self, persistable: bool) -> PyResult<()> {
        self.update(|d| Ok(d.persistable.replace(persistable) != Some(persistable)))
    }

    fn need_check_feed(&self) -> bool {
        self.node.read().need_check_feed.unwrap_or(false)
    }

    fn set_need_check_feed(&self, need_check_feed: bool) -> PyResult<()> {
        self.update(|d| Ok(d.need_check_feed.replace(need_check_feed) != Some(need_check_feed)))
    }

    fn serialize_to_string<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.node.read().to_bytes())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyVarDesc>().is_ok_and(|other| Arc::ptr_eq(&other.get().node, &self.node))
    }

    fn __hash__(&self) -> usize {
        Arc::as_ptr(&self.node) as usize
    }

    fn __repr__(&self) -> String {
        let d = self.node.read();
        let shape = d.shape().map_or_else(|_| String::new(), |s| format!(", shape={s:?}"));
        format!("VarDesc(name={:?}, type={}{shape})", d.name, d.var_type.kind)
    }
}
