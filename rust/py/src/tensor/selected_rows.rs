//! `SelectedRows` and the tensor of their values: handles on variable storage.

use crate::error::OrRaise;
use crate::tensor::lod_tensor::{element, resized};
use crate::tensor::numpy::{from_array, to_array_of};
use oar_core::base::{DType, Result};
use oar_core::tensor::{SelectedRows, Tensor, Value, VarStorage};
use oar_core::{bail, ensure};
use pyo3::prelude::*;
use std::sync::Arc;

#[pyclass(name = "SelectedRows", module = "paddle.fluid.core", frozen)]
pub struct PySelectedRows(pub Arc<VarStorage>);

impl PySelectedRows {
    fn update(&self, f: impl FnOnce(&mut SelectedRows) -> Result<()>) -> Result<()> {
        let mut guard = self.0.lock();
        if guard.is_none() {
            *guard = SelectedRows { rows: Arc::default(), height: 0, value: Tensor::empty(DType::F32, &[0])? }.into();
        }
        match &mut *guard {
            Value::Rows(r) => f(r),
            other => bail!(InvalidArgument, "expected SelectedRows, the variable holds {}", other.what()),
        }
    }

    pub fn read<T>(&self, f: impl FnOnce(&SelectedRows) -> T) -> Result<T> {
        let mut out = None;
        self.update(|r| {
            out = Some(f(r));
            Ok(())
        })?;
        out.ok_or_else(|| oar_core::err!(Fatal, "no SelectedRows"))
    }
}

#[pymethods]
impl PySelectedRows {
    #[new]
    #[pyo3(signature = (rows=None, height=None))]
    fn new(rows: Option<Vec<i64>>, height: Option<i64>) -> PyResult<PySelectedRows> {
        let s = PySelectedRows(Default::default());
        s.update(|r| {
            r.rows = Arc::new(rows.unwrap_or_default());
            r.height = height.unwrap_or(0);
            Ok(())
        })
        .or_raise()?;
        Ok(s)
    }

    fn rows(&self) -> PyResult<Vec<i64>> {
        self.read(|r| r.rows.to_vec()).or_raise()
    }

    fn set_rows(&self, rows: Vec<i64>) -> PyResult<()> {
        self.update(|r| {
            r.rows = Arc::new(rows);
            Ok(())
        })
        .or_raise()
    }

    fn height(&self) -> PyResult<i64> {
        self.read(|r| r.height).or_raise()
    }

    fn set_height(&self, height: i64) -> PyResult<()> {
        self.update(|r| {
            r.height = height;
            Ok(())
        })
        .or_raise()
    }

    /// The values, one row for each of `rows()`; setting its array changes the SelectedRows.
    fn get_tensor(slf: &Bound<'_, PySelectedRows>) -> PyResult<PyRowsValue> {
        slf.get().read(|_| ()).or_raise()?;
        Ok(PyRowsValue(slf.get().0.clone()))
    }

    fn numel(&self) -> PyResult<usize> {
        self.read(|r| r.value.numel()).or_raise()
    }

    /// Does nothing: Paddle keeps an index of the rows, here it is computed when it is needed.
    fn sync_index(&self) {}
}

/// The value tensor of SelectedRows.
#[pyclass(name = "_RowsTensor", module = "paddle.fluid.core", frozen)]
pub struct PyRowsValue(Arc<VarStorage>);

#[pymethods]
impl PyRowsValue {
    #[pyo3(signature = (array, place=None))]
    fn set(&self, array: &Bound<'_, PyAny>, place: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let _ = place;
        let t = from_array(array)?;
        PySelectedRows(self.0.clone())
            .update(|r| {
                ensure!(t.rank() > 0, InvalidArgument, "the value of SelectedRows needs at least one dimension");
                r.value = t;
                Ok(())
            })
            .or_raise()
    }

    fn shape(&self) -> PyResult<Vec<i64>> {
        PySelectedRows(self.0.clone()).read(|r| r.value.dims().to_vec()).or_raise()
    }

    fn _get_dims(&self) -> PyResult<Vec<i64>> {
        self.shape()
    }

    /// Sets the sizes of the values.
    fn _set_dims(&self, dims: Vec<i64>) -> PyResult<()> {
        PySelectedRows(self.0.clone())
            .update(|r| {
                ensure!(!dims.is_empty(), InvalidArgument, "the value of SelectedRows needs at least one dimension");
                r.value = resized(&r.value, &dims)?;
                Ok(())
            })
            .or_raise()
    }

    fn _numel(&self) -> PyResult<usize> {
        PySelectedRows(self.0.clone()).read(|r| r.value.numel()).or_raise()
    }

    fn _is_initialized(&self) -> bool {
        true
    }

    fn _get_float_element(&self, i: usize) -> PyResult<f64> {
        element(&PySelectedRows(self.0.clone()).read(|r| r.value.clone()).or_raise()?, i)
    }

    fn _dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let dtype = PySelectedRows(self.0.clone()).read(|r| r.value.dtype()).or_raise()?;
        crate::program::desc::var_type(py, dtype.into())
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = copy;
        to_array_of(py, &PySelectedRows(self.0.clone()).read(|r| r.value.clone()).or_raise()?, dtype)
    }
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PySelectedRows>()?;
    m.add_class::<PyRowsValue>()
}
