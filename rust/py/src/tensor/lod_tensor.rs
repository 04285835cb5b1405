//! `LoDTensor` of `fluid.core`: a handle on variable storage.

use crate::device::place::device_number;
use crate::error::{raise, OrRaise};
use crate::tensor::numpy::{dtype_from_py, from_array, to_array, to_array_of, without_gil};
use crate::tensor::object::PyTensor;
use oar_core::bail;
use oar_core::base::{DType, Result};
use oar_core::op::backend;
use oar_core::tensor::{Lod, Tensor, Value, VarStorage};
use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::sync::Arc;

/// True for a valid LoD: every level ascends from 0, and its last offset is the length of the next level.
fn is_valid_lod(lod: &Lod, height: i64) -> bool {
    lod.iter().all(|l| l.len() >= 2 && l[0] == 0 && l.windows(2).all(|w| w[0] <= w[1]))
        && lod.windows(2).all(|w| w[0].last() == Some(&(w[1].len() - 1)))
        && lod.last().is_none_or(|l| l.last().is_none_or(|&n| n as i64 == height))
}

/// The tensor with other sizes: the same elements if their number agrees, otherwise zeros.
pub fn resized(t: &Tensor, dims: &[i64]) -> Result<Tensor> {
    if dims.iter().all(|&d| d >= 0) && oar_core::base::shape::numel(dims) == t.numel() {
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

/// A tensor of a Scope or a feed: a handle on variable storage.
#[pyclass(name = "LoDTensor", module = "paddle.fluid.core", subclass, weakref, frozen)]
pub struct PyLoDTensor(pub Arc<VarStorage>);

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

    /// Allocates memory of that type, unless it has some; sizes and LoD stay.
    fn allocate(&self, dtype: DType) -> Result<()> {
        let (dims, lod) = match &*self.0.lock() {
            Value::Dense(t) if t.dtype() == dtype => return Ok(()),
            Value::Dense(t) => (t.dims().to_vec(), t.lod.clone()),
            _ => (vec![0], None),
        };
        self.0.set(Tensor::zeros(dtype, &dims)?.with_lod(lod));
        Ok(())
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

/// The value in the memory of a device (`Some(None)`: the host), or where `old` is.
fn placed(old: &Value, value: Value, to: Option<Option<i32>>) -> Result<Value> {
    match to {
        None => backend::placed_like(old, &value),
        Some(None) => backend::to_host(&value),
        Some(Some(device)) => match backend::registered() {
            Some(backend) => backend::to_device(&*backend, &value, device),
            None => bail!(Unavailable, "CUDAPlace({device}) cannot be used: no device has been registered"),
        },
    }
}

/// An array from a list of numbers, or of arrays of one shape.
fn array_of_list<'py>(list: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let array = list.py().import("numpy")?.call_method1("array", (list,))?;
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    if !"biufc".contains(&kind) {
        let dtype = array.getattr("dtype")?;
        return Err(PyValueError::new_err(format!("a LoDTensor holds numbers; a list of {dtype} cannot be set")));
    }
    Ok(array)
}

/// The value of a Tensor, a LoDTensor or an array.
pub fn value_of(obj: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    if let Ok(t) = obj.cast::<PyTensor>() {
        return t.get().unfetched().or_raise()?.share().or_raise();
    }
    match tensor_of(obj) {
        Some(t) => Ok(t.or_raise()?.share().or_raise()?),
        None => from_array(obj),
    }
}

/// A new LoDTensor of bytes that `write` fills in; `None` if it returns false.
fn written(len: usize, write: impl FnOnce(&mut [u8]) -> bool) -> PyResult<Option<PyLoDTensor>> {
    let mut bytes = Tensor::empty(DType::U8, &[len as i64]).or_raise()?;
    let is_whole = write(bytes.data_mut::<u8>().or_raise()?);
    Ok(is_whole.then(|| PyLoDTensor(Arc::new(VarStorage::new(Value::Dense(bytes))))))
}

#[pymethods]
impl PyLoDTensor {
    #[new]
    #[pyo3(signature = (lengths=None))]
    fn new(lengths: Option<Vec<Vec<usize>>>) -> PyResult<PyLoDTensor> {
        let t = PyLoDTensor(Default::default());
        if let Some(lengths) = lengths {
            t.set_lod_of(offsets(&lengths)).or_raise()?;
        }
        Ok(t)
    }

    /// Copies a numpy array (or a Tensor) into this tensor, at a place; None: where its elements are. The LoD stays.
    #[pyo3(signature = (array, place=None, zero_copy=false))]
    fn set(&self, array: &Bound<'_, PyAny>, place: Option<&Bound<'_, PyAny>>, zero_copy: bool) -> PyResult<()> {
        let _ = zero_copy;
        let t = if array.is_instance_of::<PyList>() || array.is_instance_of::<PyTuple>() {
            from_array(&array_of_list(array)?)?
        } else {
            value_of(array)?
        };
        let lod = self.0.lock().as_dense().and_then(|t| t.lod.clone());
        let value = Value::Dense(t.with_lod(lod));
        let to = place.map(device_number).transpose()?;
        self.0.set(placed(&self.0.get(), value, to).or_raise()?);
        Ok(())
    }

    fn set_lod(&self, lod: Lod) -> PyResult<()> {
        let height = self.0.lock().as_dense().and_then(|t| t.dims().first().copied());
        if let Some(rows) = height.filter(|h| *h > 0 && !lod.is_empty() && !is_valid_lod(&lod, *h)) {
            return Err(raise(oar_core::err!(InvalidArgument, "the LoD {lod:?} does not fit a tensor of {rows} rows")));
        }
        self.set_lod_of(lod).or_raise()
    }

    fn lod(&self) -> Lod {
        self.0.lock().as_dense().and_then(|t| t.lod.as_deref().cloned()).unwrap_or_default()
    }

    fn set_recursive_sequence_lengths(&self, lengths: Vec<Vec<usize>>) -> PyResult<()> {
        let lod = offsets(&lengths);
        let rows = lod.last().and_then(|level| level.last()).map_or(0, |&n| n as i64);
        if !lod.is_empty() && !is_valid_lod(&lod, rows) {
            return Err(raise(oar_core::err!(
                InvalidArgument,
                "the levels of the lengths {lengths:?} do not fit each other"
            )));
        }
        self.set_lod(lod)
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

    /// The number of the device that holds the elements, -1 for the CPU.
    fn _device(&self) -> i32 {
        backend::device_of(std::iter::once(&*self.0.lock())).unwrap_or(-1)
    }

    fn _get_dims(&self) -> Vec<i64> {
        self.shape()
    }

    fn _dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let dtype = self.0.lock().as_dense().map_or(DType::F32, Tensor::dtype);
        crate::program::desc::var_type(py, dtype.into())
    }

    fn _is_initialized(&self) -> bool {
        self.0.lock().as_dense().is_some()
    }

    /// The float32 matrix as panels of a product's right operand for the matrix unit, of its first rows and the rest
    /// flattened; `None` where the processor has no such unit or it is off.
    fn _matrix_panels(&self, bfloat16: bool) -> PyResult<Option<PyLoDTensor>> {
        use oar_kernels::gemm::amx;
        let t = self.tensor().or_raise()?;
        let rows = t.dims().first().map_or(0, |&d| d as usize);
        if !amx::enabled() || t.dtype() != DType::F32 || t.numel() == 0 {
            return Ok(None);
        }
        let columns = t.numel() / rows;
        let (len, pack): (_, fn(&[f32], usize, usize, &mut [u8])) = match bfloat16 {
            true if !amx::bf16::present() => return Ok(None),
            true => (amx::bf16::right_len(rows, columns), amx::bf16::pack_right),
            false => (amx::right_len(rows, columns), amx::pack_right),
        };
        written(len, |panels| {
            pack(t.data::<f32>(), rows, columns, panels);
            true
        })
    }

    /// The float32 filters [filters, channels, height, width] of a convolution as panels for the matrix unit; `None` where
    /// the processor has no such unit, it is off, or it cannot compute the convolution.
    fn _filter_panels(
        &self,
        strides: [usize; 2],
        dilations: [usize; 2],
        bfloat16: bool,
    ) -> PyResult<Option<PyLoDTensor>> {
        use oar_kernels::conv::packed::{pack_filters, panels_len, FilterShape};
        let t = self.tensor().or_raise()?;
        let sizes: Vec<usize> = t.dims().iter().map(|&d| d as usize).collect();
        let [filters, channels, height, width] = sizes[..] else { return Ok(None) };
        let kernel = [height, width];
        let shape = FilterShape { filters, channels, kernel, stride: strides, dilation: dilations, bf16: bfloat16 };
        let len = if t.dtype() == DType::F32 { panels_len(&shape) } else { 0 };
        if len == 0 {
            return Ok(None);
        }
        written(len, |panels| pack_filters(&shape, t.data::<f32>(), panels))
    }

    fn _numel(&self) -> usize {
        self.0.lock().as_dense().map_or(0, Tensor::numel)
    }

    fn _ptr(&self) -> PyResult<usize> {
        Ok(self.tensor().or_raise()?.ptr() as usize)
    }

    fn _clear(&self) {
        self.0.set(Value::None);
    }

    fn _share_data_with(&self, other: &Bound<'_, PyLoDTensor>) -> PyResult<()> {
        self.0.set(other.get().0.get().share().or_raise()?);
        Ok(())
    }

    fn _share_buffer_to(&self, other: &Bound<'_, PyLoDTensor>) -> PyResult<()> {
        other.get().0.set(self.0.get().share().or_raise()?);
        Ok(())
    }

    /// A copy at a place; None: where the elements are.
    #[pyo3(signature = (place=None))]
    fn _copy(&self, py: Python<'_>, place: Option<&Bound<'_, PyAny>>) -> PyResult<PyLoDTensor> {
        let t = self.tensor().or_raise()?;
        let to = place.map(device_number).transpose()?;
        if t.on_device().is_some() || to.flatten().is_some() {
            let value = placed(&self.0.get(), Value::Dense(t.share().or_raise()?), to).or_raise()?;
            return Ok(PyLoDTensor(Arc::new(VarStorage::new(value))));
        }
        Ok(PyLoDTensor(Arc::new(VarStorage::new(without_gil(py, t.nbytes(), || t.deep_copy()).or_raise()?))))
    }

    /// Sets these sizes and (with `_mutable`) allocates memory of that dtype.
    fn _set_dims(&self, dims: Vec<i64>) -> PyResult<()> {
        let t = match self.0.get() {
            Value::Dense(t) => resized(&t, &dims).or_raise()?,
            _ => Tensor::zeros(DType::F32, &dims).or_raise()?,
        };
        self.0.set(t);
        Ok(())
    }

    fn _alloc(&self, dtype: &Bound<'_, PyAny>, dims: Vec<i64>) -> PyResult<()> {
        self.0.set(Tensor::zeros(dtype_from_py(dtype)?, &dims).or_raise()?);
        Ok(())
    }

    #[pyo3(signature = (_place=None))]
    fn _alloc_float(&self, _place: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.allocate(DType::F32).or_raise()
    }

    #[pyo3(signature = (_place=None))]
    fn _alloc_double(&self, _place: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.allocate(DType::F64).or_raise()
    }

    #[pyo3(signature = (_place=None))]
    fn _alloc_int(&self, _place: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.allocate(DType::I32).or_raise()
    }

    /// Allocates memory of that type for its sizes; returns the address.
    fn _mutable_data(&self, _place: &Bound<'_, PyAny>, dtype: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.allocate(dtype_from_py(dtype)?).or_raise()?;
        self._ptr()
    }

    /// A copy of a part, selected by numpy's indices.
    fn __getitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> PyResult<PyLoDTensor> {
        let part = to_array(py, &self.tensor().or_raise()?)?.get_item(index)?;
        let part = py.import("numpy")?.call_method1("asarray", (part,))?;
        Ok(PyLoDTensor(Arc::new(VarStorage::new(from_array(&part)?))))
    }

    fn _get_float_element(&self, i: usize) -> PyResult<f64> {
        element(&self.tensor().or_raise()?, i)
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
        if matches!(*self.0.lock(), Value::None) {
            // as in Paddle: an empty array of float64
            return to_array_of(py, &Tensor::zeros(DType::F64, &[0]).or_raise()?, dtype);
        }
        let tensor = self.tensor().or_raise()?;
        if !tensor.has_bytes() {
            return Err(PyRuntimeError::new_err("the tensor has a shape only: its elements are not in this process"));
        }
        to_array_of(py, &tensor, dtype)
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut pyo3::ffi::Py_buffer, flags: i32) -> PyResult<()> {
        let cell = slf.get().0.clone();
        // SAFETY: the interpreter gives a view to fill.
        unsafe { crate::tensor::buffer::fill(&cell, slf.into_any(), view, flags) }
    }

    unsafe fn __releasebuffer__(&self, view: *mut pyo3::ffi::Py_buffer) {
        // SAFETY: a view that `__getbuffer__` has filled.
        unsafe { crate::tensor::buffer::release(view) }
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        let t = match self.tensor() {
            Ok(t) => t,
            Err(_) => return Ok("LoDTensor(not initialised)".into()),
        };
        let lod = t.lod.as_ref().map(|l| format!("  - lod: {l:?}\n")).unwrap_or_default();
        let data = to_array(py, &t)?.call_method0("flatten")?.str()?.to_string();
        let place = t.on_device().map_or("CPUPlace".into(), |(memory, _)| format!("CUDAPlace({})", memory.device()));
        Ok(format!("{lod}  - place: {place}\n  - shape: {:?}\n  - dtype: {}\n  - data: {data}", t.dims(), t.dtype()))
    }
}

impl PyLoDTensor {
    fn set_element(&self, i: usize, write: impl FnOnce(&mut Tensor) -> Result<()>) -> PyResult<()> {
        let mut guard = self.0.lock();
        match &mut *guard {
            Value::Dense(t) if i < t.numel() => Ok(write(t).or_raise()?),
            _ => Err(PyIndexError::new_err(format!("no element {i}"))),
        }
    }
}

/// Element `i` of the flat tensor.
pub fn element(t: &Tensor, i: usize) -> PyResult<f64> {
    if i >= t.numel() {
        return Err(PyIndexError::new_err(format!("element {i} of {} elements", t.numel())));
    }
    Ok(t.view(i, &[1]).to_f64s()[0])
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyLoDTensor>()
}
