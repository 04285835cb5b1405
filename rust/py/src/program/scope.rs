//! `Scope`, its `Variable`s, and `LoDTensorArray`: handles on variable storage.

use crate::error::OrRaise;
use crate::tensor::lod_tensor::PyLoDTensor;
use crate::tensor::numpy::from_array;
use crate::tensor::selected_rows::PySelectedRows;
use oar_core::bail;
use oar_core::base::{DType, Result};
use oar_core::tensor::{Lod, Scope, Tensor, Value, VarStorage};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use std::sync::Arc;

#[pyclass(name = "LoDTensorArray", module = "paddle.fluid.core", frozen)]
pub struct PyTensorArray(pub Arc<VarStorage>);

impl PyTensorArray {
    fn items(&self) -> Result<Arc<Vec<Value>>> {
        match self.0.get() {
            Value::Array(a) => Ok(a),
            Value::None => Ok(Arc::default()),
            other => bail!(InvalidArgument, "expected a LoDTensorArray, the variable holds {}", other.what()),
        }
    }

    fn index(&self, i: isize) -> PyResult<(Arc<Vec<Value>>, usize)> {
        let items = self.items().or_raise()?;
        let n = items.len() as isize;
        let k = if i < 0 { i + n } else { i };
        if k < 0 || k >= n {
            return Err(PyIndexError::new_err(format!("index {i} of a LoDTensorArray of {n} tensors")));
        }
        Ok((items, k as usize))
    }
}

#[pymethods]
impl PyTensorArray {
    #[new]
    fn new() -> PyTensorArray {
        PyTensorArray(Arc::new(VarStorage::new(Value::Array(Arc::default()))))
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.items().or_raise()?.len())
    }

    fn __getitem__(&self, i: isize) -> PyResult<PyLoDTensor> {
        let (items, i) = self.index(i)?;
        Ok(PyLoDTensor(Arc::new(VarStorage::new(items[i].clone()))))
    }

    fn __setitem__(&self, i: isize, t: &Bound<'_, PyLoDTensor>) -> PyResult<()> {
        let (mut items, i) = self.index(i)?;
        Arc::make_mut(&mut items)[i] = t.get().0.get();
        self.0.set(Value::Array(items));
        Ok(())
    }

    fn append(&self, t: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = match t.cast::<PyLoDTensor>() {
            Ok(t) => t.get().0.get().share().or_raise()?,
            Err(_) => Value::Dense(from_array(t)?),
        };
        let mut items = self.items().or_raise()?;
        Arc::make_mut(&mut items).push(value);
        self.0.set(Value::Array(items));
        Ok(())
    }

    fn _move_to_list(&self) -> PyResult<Vec<PyLoDTensor>> {
        let items = self.items().or_raise()?;
        self.0.set(Value::Array(Arc::default()));
        Ok(items.iter().map(|v| PyLoDTensor(Arc::new(VarStorage::new(v.clone())))).collect())
    }
}

/// A variable of a Scope.
#[pyclass(name = "Variable", module = "paddle.fluid.core", frozen)]
pub struct PyVariable(pub Arc<VarStorage>);

#[pymethods]
impl PyVariable {
    #[new]
    fn new() -> PyVariable {
        PyVariable(Default::default())
    }

    fn get_tensor(&self) -> PyLoDTensor {
        PyLoDTensor(self.0.clone())
    }

    fn get_selected_rows(&self) -> PyResult<PySelectedRows> {
        let rows = PySelectedRows(self.0.clone());
        rows.read(|_| ()).or_raise()?;
        Ok(rows)
    }

    fn get_lod_tensor_array(&self) -> PyTensorArray {
        PyTensorArray(self.0.clone())
    }

    /// The result of the operator lod_rank_table.
    fn get_lod_rank_table(&self) -> PyResult<PyRankTable> {
        match self.0.get() {
            Value::Opaque(held) if held.is::<RankTable>() => {
                Ok(PyRankTable(held.downcast_ref::<RankTable>().map(|t| t.0.clone()).unwrap_or_default()))
            }
            other => Err(PyTypeError::new_err(format!("the variable holds {}, no rank table", other.what()))),
        }
    }

    /// Holds a scope, as variables of kind STEP_SCOPES do.
    fn set_scope(&self, scope: &Bound<'_, PyScope>) {
        self.0.set(Value::Opaque(scope.get().0.clone()));
    }

    fn is_int(&self) -> bool {
        self.0.lock().as_dense().is_some_and(|t| t.dtype() == DType::I32 && t.numel() == 1)
    }

    fn set_int(&self, n: i32) -> PyResult<()> {
        self.0.set(Tensor::scalar(n).or_raise()?);
        Ok(())
    }

    fn get_int(&self) -> PyResult<i64> {
        match self.0.get() {
            Value::Dense(t) if t.numel() == 1 => Ok(t.to_i64s().or_raise()?[0]),
            _ => Err(PyTypeError::new_err("the variable holds no int")),
        }
    }

    fn is_float(&self) -> bool {
        self.0.lock().as_dense().is_some_and(|t| t.dtype() == DType::F32 && t.numel() == 1)
    }

    fn set_float(&self, x: f32) -> PyResult<()> {
        self.0.set(Tensor::scalar(x).or_raise()?);
        Ok(())
    }

    fn get_float(&self) -> PyResult<f64> {
        match self.0.get() {
            Value::Dense(t) if t.numel() == 1 => Ok(t.to_f64s()[0]),
            _ => Err(PyTypeError::new_err("the variable holds no float")),
        }
    }

    fn get_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyBytes>> {
        match self.0.get() {
            Value::Bytes(b) => Ok(pyo3::types::PyBytes::new(py, &b)),
            other => Err(PyTypeError::new_err(format!("the variable holds {}", other.what()))),
        }
    }

    fn _kind(&self) -> &'static str {
        self.0.lock().what()
    }
}

/// The representation in operators on rank tables: (index, length) of every sequence, and the LoD levels above.
type RankTable = (Vec<(usize, usize)>, Lod);

/// The sequences of a LoD level, longest first.
#[pyclass(name = "LoDRankTable", module = "paddle.fluid.core", frozen)]
pub struct PyRankTable(Vec<(usize, usize)>);

#[pymethods]
impl PyRankTable {
    /// (index, length) of every sequence.
    fn items(&self) -> Vec<(usize, usize)> {
        self.0.clone()
    }
}

/// A LoDTensor (or SelectedRows) handle as `Tensor.value()` gives it.
pub fn variable(py: Python<'_>, cell: Arc<VarStorage>) -> PyResult<Py<PyAny>> {
    Ok(Bound::new(py, PyVariable(cell))?.into_any().unbind())
}

#[pyclass(name = "_Scope", module = "paddle.fluid.core", frozen, weakref)]
pub struct PyScope(pub Arc<Scope>);

#[pymethods]
impl PyScope {
    #[new]
    fn new() -> PyScope {
        PyScope(Scope::new())
    }

    fn var(&self, name: &str) -> PyVariable {
        PyVariable(self.0.var(name))
    }

    fn find_var(&self, name: &str) -> Option<PyVariable> {
        self.0.find(name).map(PyVariable)
    }

    fn new_scope(&self) -> PyScope {
        PyScope(self.0.child())
    }

    fn drop_kids(&self) {
        self.0.drop_kids();
    }

    fn erase(&self, names: Vec<String>) {
        self.0.erase(&names);
    }

    fn local_var_names(&self) -> Vec<String> {
        self.0.names()
    }

    #[getter]
    fn _id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyTensorArray>()?;
    m.add_class::<PyVariable>()?;
    m.add_class::<PyRankTable>()?;
    m.add_class::<PyScope>()
}
