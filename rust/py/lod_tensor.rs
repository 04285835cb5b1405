//! `LoDTensor`, `SelectedRows`, `LoDTensorArray`, `Variable` and `Scope`: handles on cells, as `fluid.core` has them.

use super::numpy::{dtype_from_py, from_array, to_array};
use super::tensor::PyTensor;
use crate::base::{DType, Result};
use crate::tensor::{Cell, Lod, Scope, SelectedRows, Tensor, Value};
use crate::{bail, ensure};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use std::sync::Arc;

/// Is this a level-of-detail: every level rises from 0, and each level's last offset is the next one's length?
fn is_valid_lod(lod: &Lod, height: i64) -> bool {
    lod.iter().all(|l| l.len() >= 2 && l[0] == 0 && l.windows(2).all(|w| w[0] <= w[1]))
        && lod.windows(2).all(|w| w[0].last() == Some(&(w[1].len() - 1)))
        && lod.last().is_none_or(|l| l.last().is_none_or(|&n| n as i64 == height))
}

/// The tensor with other sizes: the same elements where their number is the same, else zeros.
fn resized(t: &Tensor, dims: &[i64]) -> Result<Tensor> {
    if dims.iter().all(|&d| d >= 0) && crate::base::shape::numel(dims) == t.numel() {
        return Ok(t.reshaped(dims));
    }
    Tensor::zeros(t.dtype(), dims)
}

fn offsets(lengths: &[Vec<usize>]) -> Lod {
    lengths
        .iter()
        .map(|level| {
            let mut at = 0;
            let ends = level.iter().map(|n| {
                at += n;
                at
            });
            std::iter::once(0).chain(ends).collect()
        })
        .collect()
}

/// A tensor of a Scope or a feed: a handle on a cell.
#[pyclass(name = "LoDTensor", module = "paddle.fluid.core", subclass, weakref, frozen)]
pub struct PyLoDTensor(pub Arc<Cell>);

/// The tensor behind a LoDTensor object; `None` for objects of other types.
pub fn tensor_of(obj: &Bound<'_, PyAny>) -> Option<Result<Tensor>> {
    obj.cast::<PyLoDTensor>().ok().map(|t| t.get().tensor())
}

impl PyLoDTensor {
    fn tensor(&self) -> Result<Tensor> {
        match self.0.get() {
            Value::Dense(t) => Ok(t),
            Value::None => bail!(InvalidArgument, "the LoDTensor is not initialised: nothing has been set or computed"),
            other => bail!(InvalidArgument, "expected a LoDTensor, the variable holds {}", other.what()),
        }
    }

    fn set_lod_of(&self, lod: Lod) -> Result<()> {
        let t = match self.0.get() {
            Value::Dense(t) => t,
            _ => Tensor::empty(DType::F32, &[0])?,
        };
        self.0.set(t.with_lod((!lod.is_empty()).then(|| Arc::new(lod))));
        Ok(())
    }
}

#[pymethods]
impl PyLoDTensor {
    #[new]
    #[pyo3(signature = (lengths=None))]
    fn new(lengths: Option<Vec<Vec<usize>>>) -> PyResult<PyLoDTensor> {
        let t = PyLoDTensor(Default::default());
        if let Some(lod) = lengths {
            t.set_lod_of(lod)?;
        }
        Ok(t)
    }

    /// Copies a numpy array (or a Tensor) into this tensor; the LoD stays.
    #[pyo3(signature = (array, place=None, zero_copy=false))]
    fn set(&self, array: &Bound<'_, PyAny>, place: Option<&Bound<'_, PyAny>>, zero_copy: bool) -> PyResult<()> {
        let _ = (place, zero_copy);
        let t = match array.cast::<PyTensor>() {
            Ok(t) => t.get().tensor()?,
            Err(_) => match tensor_of(array) {
                Some(t) => t?,
                None => from_array(array)?,
            },
        };
        let lod = self.0.lock().as_dense().and_then(|t| t.lod.clone());
        self.0.set(t.with_lod(lod));
        Ok(())
    }

    fn set_lod(&self, lod: Lod) -> PyResult<()> {
        let height = self.0.lock().as_dense().and_then(|t| t.dims().first().copied());
        if !is_valid_lod(&lod, height.unwrap_or(-1)) && !lod.is_empty() && height.is_some_and(|h| h > 0) {
            return Err(crate::err!(InvalidArgument, "the LoD {lod:?} does not fit a tensor of {height:?} rows").into());
        }
        Ok(self.set_lod_of(lod)?)
    }

    fn lod(&self) -> Lod {
        self.0.lock().as_dense().and_then(|t| t.lod.as_deref().cloned()).unwrap_or_default()
    }

    fn set_recursive_sequence_lengths(&self, lengths: Vec<Vec<usize>>) -> PyResult<()> {
        self.set_lod(offsets(&lengths))
    }

    fn recursive_sequence_lengths(&self) -> Vec<Vec<usize>> {
        self.lod().iter().map(|l| l.windows(2).map(|w| w[1] - w[0]).collect()).collect()
    }

    fn has_valid_recursive_sequence_lengths(&self) -> bool {
        let height = self.0.lock().as_dense().and_then(|t| t.dims().first().copied()).unwrap_or(0);
        is_valid_lod(&self.lod(), height)
    }

    fn shape(&self) -> Vec<i64> {
        self.0.lock().as_dense().map(|t| t.dims().to_vec()).unwrap_or_default()
    }

    fn _get_dims(&self) -> Vec<i64> {
        self.shape()
    }

    fn _dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let dtype = self.0.lock().as_dense().map_or(DType::F32, Tensor::dtype);
        super::desc::var_type(py, dtype.into())
    }

    fn _is_initialized(&self) -> bool {
        self.0.lock().as_dense().is_some()
    }

    fn _numel(&self) -> usize {
        self.0.lock().as_dense().map_or(0, Tensor::numel)
    }

    fn _ptr(&self) -> PyResult<usize> {
        Ok(self.tensor()?.ptr() as usize)
    }

    fn _clear(&self) {
        self.0.set(Value::None);
    }

    fn _share_data_with(&self, other: &Bound<'_, PyLoDTensor>) {
        self.0.set(other.get().0.get());
    }

    fn _share_buffer_to(&self, other: &Bound<'_, PyLoDTensor>) {
        other.get().0.set(self.0.get());
    }

    #[pyo3(signature = (_place=None))]
    fn _copy(&self, _place: Option<&Bound<'_, PyAny>>) -> PyResult<PyLoDTensor> {
        Ok(PyLoDTensor(Arc::new(Cell::new(self.tensor()?.deep_copy()?))))
    }

    /// Gives the tensor these sizes and (with `_mutable`) memory of that dtype.
    fn _set_dims(&self, dims: Vec<i64>) -> PyResult<()> {
        let t = match self.0.get() {
            Value::Dense(t) => resized(&t, &dims)?,
            _ => Tensor::zeros(DType::F32, &dims)?,
        };
        self.0.set(t);
        Ok(())
    }

    fn _alloc(&self, dtype: &Bound<'_, PyAny>, dims: Vec<i64>) -> PyResult<()> {
        self.0.set(Tensor::zeros(dtype_from_py(dtype)?, &dims)?);
        Ok(())
    }

    fn _get_float_element(&self, i: usize) -> PyResult<f64> {
        element(&self.tensor()?, i)
    }

    fn _set_float_element(&self, i: usize, value: f32) -> PyResult<()> {
        self.set_element(i, |t| {
            t.data_mut::<f32>()?[i] = value;
            Ok(())
        })
    }

    fn _get_double_element(&self, i: usize) -> PyResult<f64> {
        self._get_float_element(i)
    }

    fn _set_double_element(&self, i: usize, value: f64) -> PyResult<()> {
        self.set_element(i, |t| {
            t.data_mut::<f64>()?[i] = value;
            Ok(())
        })
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = copy;
        let array = to_array(py, &self.tensor()?)?;
        match dtype {
            Some(d) => array.call_method1("astype", (d,)),
            None => Ok(array),
        }
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        let t = match self.tensor() {
            Ok(t) => t,
            Err(_) => return Ok("LoDTensor(not initialised)".into()),
        };
        let lod = t.lod.as_ref().map(|l| format!("  - lod: {l:?}\n")).unwrap_or_default();
        let data = to_array(py, &t)?.call_method0("flatten")?.str()?.to_string();
        Ok(format!("{lod}  - place: CPUPlace\n  - shape: {:?}\n  - dtype: {}\n  - data: {data}", t.dims(), t.dtype()))
    }
}

impl PyLoDTensor {
    fn set_element(&self, i: usize, write: impl FnOnce(&mut Tensor) -> Result<()>) -> PyResult<()> {
        let mut guard = self.0.lock();
        match &mut *guard {
            Value::Dense(t) if i < t.numel() => Ok(write(t)?),
            _ => Err(PyIndexError::new_err(format!("no element {i}"))),
        }
    }
}

#[pyclass(name = "SelectedRows", module = "paddle.fluid.core", frozen)]
pub struct PySelectedRows(pub Arc<Cell>);

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

    fn read<T>(&self, f: impl FnOnce(&SelectedRows) -> T) -> Result<T> {
        let mut out = None;
        self.update(|r| {
            out = Some(f(r));
            Ok(())
        })?;
        out.ok_or_else(|| crate::err!(Fatal, "no SelectedRows"))
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
        })?;
        Ok(s)
    }

    fn rows(&self) -> PyResult<Vec<i64>> {
        Ok(self.read(|r| r.rows.to_vec())?)
    }

    fn set_rows(&self, rows: Vec<i64>) -> PyResult<()> {
        Ok(self.update(|r| {
            r.rows = Arc::new(rows);
            Ok(())
        })?)
    }

    fn height(&self) -> PyResult<i64> {
        Ok(self.read(|r| r.height)?)
    }

    fn set_height(&self, height: i64) -> PyResult<()> {
        Ok(self.update(|r| {
            r.height = height;
            Ok(())
        })?)
    }

    /// The values, one row for each of `rows()`; setting its array changes the SelectedRows.
    fn get_tensor(slf: &Bound<'_, PySelectedRows>) -> PyResult<PyRowsValue> {
        slf.get().read(|_| ())?;
        Ok(PyRowsValue(slf.get().0.clone()))
    }

    fn numel(&self) -> PyResult<usize> {
        Ok(self.read(|r| r.value.numel())?)
    }

    /// Paddle keeps an index of the rows beside them; here it is made where it is needed.
    fn sync_index(&self) {}
}

/// Element `i` of the flat tensor.
fn element(t: &Tensor, i: usize) -> PyResult<f64> {
    let found = t.to_f64s().get(i).copied();
    found.ok_or_else(|| PyIndexError::new_err(format!("element {i} of {} elements", t.numel())))
}

/// The value tensor of SelectedRows.
#[pyclass(name = "_RowsTensor", module = "paddle.fluid.core", frozen)]
pub struct PyRowsValue(Arc<Cell>);

#[pymethods]
impl PyRowsValue {
    #[pyo3(signature = (array, place=None))]
    fn set(&self, array: &Bound<'_, PyAny>, place: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let _ = place;
        let t = from_array(array)?;
        Ok(PySelectedRows(self.0.clone()).update(|r| {
            ensure!(t.rank() > 0, InvalidArgument, "the value of SelectedRows needs at least one dimension");
            r.value = t;
            Ok(())
        })?)
    }

    fn shape(&self) -> PyResult<Vec<i64>> {
        Ok(PySelectedRows(self.0.clone()).read(|r| r.value.dims().to_vec())?)
    }

    fn _get_dims(&self) -> PyResult<Vec<i64>> {
        self.shape()
    }

    /// Gives the values these sizes.
    fn _set_dims(&self, dims: Vec<i64>) -> PyResult<()> {
        Ok(PySelectedRows(self.0.clone()).update(|r| {
            ensure!(!dims.is_empty(), InvalidArgument, "the value of SelectedRows needs at least one dimension");
            r.value = resized(&r.value, &dims)?;
            Ok(())
        })?)
    }

    fn _numel(&self) -> PyResult<usize> {
        Ok(PySelectedRows(self.0.clone()).read(|r| r.value.numel())?)
    }

    fn _is_initialized(&self) -> bool {
        true
    }

    fn _get_float_element(&self, i: usize) -> PyResult<f64> {
        element(&PySelectedRows(self.0.clone()).read(|r| r.value.clone())?, i)
    }

    fn _dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let dtype = PySelectedRows(self.0.clone()).read(|r| r.value.dtype())?;
        super::desc::var_type(py, dtype.into())
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = copy;
        let t = PySelectedRows(self.0.clone()).read(|r| r.value.clone())?;
        let array = to_array(py, &t)?;
        match dtype {
            Some(d) => array.call_method1("astype", (d,)),
            None => Ok(array),
        }
    }
}

#[pyclass(name = "LoDTensorArray", module = "paddle.fluid.core", frozen)]
pub struct PyTensorArray(pub Arc<Cell>);

impl PyTensorArray {
    fn items(&self) -> Result<Arc<Vec<Value>>> {
        match self.0.get() {
            Value::Array(a) => Ok(a),
            Value::None => Ok(Arc::default()),
            other => bail!(InvalidArgument, "expected a LoDTensorArray, the variable holds {}", other.what()),
        }
    }

    fn index(&self, i: isize) -> PyResult<(Arc<Vec<Value>>, usize)> {
        let items = self.items()?;
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
        PyTensorArray(Arc::new(Cell::new(Value::Array(Arc::default()))))
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.items()?.len())
    }

    fn __getitem__(&self, i: isize) -> PyResult<PyLoDTensor> {
        let (items, i) = self.index(i)?;
        Ok(PyLoDTensor(Arc::new(Cell::new(items[i].clone()))))
    }

    fn __setitem__(&self, i: isize, t: &Bound<'_, PyLoDTensor>) -> PyResult<()> {
        let (mut items, i) = self.index(i)?;
        Arc::make_mut(&mut items)[i] = t.get().0.get();
        self.0.set(Value::Array(items));
        Ok(())
    }

    fn append(&self, t: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = match t.cast::<PyLoDTensor>() {
            Ok(t) => t.get().0.get(),
            Err(_) => Value::Dense(from_array(t)?),
        };
        let mut items = self.items()?;
        Arc::make_mut(&mut items).push(value);
        self.0.set(Value::Array(items));
        Ok(())
    }

    fn _move_to_list(&self) -> PyResult<Vec<PyLoDTensor>> {
        let items = self.items()?;
        self.0.set(Value::Array(Arc::default()));
        Ok(items.iter().map(|v| PyLoDTensor(Arc::new(Cell::new(v.clone())))).collect())
    }
}

/// A variable of a Scope.
#[pyclass(name = "Variable", module = "paddle.fluid.core", frozen)]
pub struct PyVariable(pub Arc<Cell>);

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
        rows.read(|_| ())?;
        Ok(rows)
    }

    fn get_lod_tensor_array(&self) -> PyTensorArray {
        PyTensorArray(self.0.clone())
    }

    fn is_int(&self) -> bool {
        self.0.lock().as_dense().is_some_and(|t| t.dtype() == DType::I32 && t.numel() == 1)
    }

    fn set_int(&self, n: i32) -> PyResult<()> {
        self.0.set(Tensor::scalar(n)?);
        Ok(())
    }

    fn get_int(&self) -> PyResult<i64> {
        match self.0.get() {
            Value::Dense(t) if t.numel() == 1 => Ok(t.to_i64s()?[0]),
            _ => Err(PyTypeError::new_err("the variable holds no int")),
        }
    }

    fn is_float(&self) -> bool {
        self.0.lock().as_dense().is_some_and(|t| t.dtype() == DType::F32 && t.numel() == 1)
    }

    fn set_float(&self, x: f32) -> PyResult<()> {
        self.0.set(Tensor::scalar(x)?);
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

/// A LoDTensor (or SelectedRows) handle as `Tensor.value()` gives it.
pub fn variable(py: Python<'_>, cell: Arc<Cell>) -> PyResult<Py<PyAny>> {
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
    m.add_class::<PyLoDTensor>()?;
    m.add_class::<PySelectedRows>()?;
    m.add_class::<PyRowsValue>()?;
    m.add_class::<PyTensorArray>()?;
    m.add_class::<PyVariable>()?;
    m.add_class::<PyScope>()
}
