//! Constructors of Tensors: those of 2.0.2, and copies of arrays.

use crate::error::OrRaise;
use crate::tensor::lod_tensor::tensor_of;
use crate::tensor::numpy::{dtype_from_py, from_array, is_array, over_array, without_gil};
use crate::tensor::object::{PyTensor, UNDECIDED, UNNAMED};
use oar_engine::autograd::trace;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// True for `(dtype, dims, name, type, persistable)`, false for `(value, ..)`.
fn is_described(args: &Bound<'_, PyTuple>) -> PyResult<bool> {
    Ok(args.len() >= 4 && !is_array(&args.get_item(0)?) && args.get_item(1)?.len().is_ok())
}

/// The object that `__init__` fills.
pub fn make(args: &Bound<'_, PyTuple>) -> PyResult<PyTensor> {
    let mut declared = None;
    if is_described(args)? {
        let dtype = dtype_from_py(&args.get_item(0)?)?;
        declared = Some(Box::new((dtype, args.get_item(1)?.extract()?)));
    }
    let t = PyTensor::bare(declared);
    if t.declared.is_some() {
        t.set_name(args.get_item(2)?.extract()?);
        if args.len() > 4 {
            t.set_persistable(args.get_item(4)?.is_truthy()?);
        }
    }
    t.var.set_stop_gradient(None);
    Ok(t)
}

/// The constructors of 2.0.2: `()`, `(value, place=.., persistable=.., zero_copy=.., name=.., stop_gradient=..)`,
/// `(dtype, dims, name, type, persistable)`; arguments of the second may be keywords.
pub fn fill(this: &PyTensor, args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    if is_described(args)? {
        return Ok(());
    }
    let at = |i: usize, name: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        if i < args.len() {
            return Ok(Some(args.get_item(i)?).filter(|v| !v.is_none()));
        }
        Ok(kwargs.map(|k| k.get_item(name)).transpose()?.flatten().filter(|v| !v.is_none()))
    };
    let persistable = at(2, "persistable")?;
    let name = at(4, "name")?;
    if let Some(value) = at(0, "value")?.or(at(0, "tensor")?) {
        let t = match value.cast::<PyTensor>() {
            Ok(t) => {
                let t = t.get().tensor().or_raise()?;
                without_gil(value.py(), t.nbytes(), || t.deep_copy()).or_raise()?
            }
            Err(_) => match tensor_of(&value) {
                Some(t) => t.or_raise()?.share().or_raise()?,
                None => from_array(&value)?,
            },
        };
        this.var.cell.set(t);
        trace::given(&this.var);
    }
    if let Some(p) = persistable {
        this.set_persistable(p.is_truthy()?);
    }
    if let Some(n) = name {
        this.set_name(Some(n.extract::<String>()?).filter(|n| !n.is_empty()));
    }
    this.var.set_stop_gradient(None);
    if let Some(s) = at(5, "stop_gradient")? {
        match crate::ops::attrs::int(&s) {
            Some(-1) => {}
            Some(n) => this.var.set_stop_gradient(Some(n != 0)),
            None => return Err(PyTypeError::new_err(format!("stop_gradient must be a bool, got {}", s.repr()?))),
        }
    }
    Ok(())
}

/// A Tensor with a copy of an array's elements and its shape, which may be [].
#[pyfunction]
fn tensor_from_array<'py>(array: &Bound<'py, PyAny>, stop_gradient: bool) -> PyResult<Bound<'py, PyTensor>> {
    PyTensor::given(array.py(), from_array(array)?, stop_gradient)
}

/// A Tensor over an array that the caller gives up (see `over_array`).
#[pyfunction]
fn tensor_over_array<'py>(array: &Bound<'py, PyAny>, stop_gradient: bool) -> PyResult<Bound<'py, PyTensor>> {
    PyTensor::given(array.py(), over_array(array)?, stop_gradient)
}

/// Sets the number of the next generated name; returns the old one.
#[pyfunction]
fn switch_tensor_names(next: u64) -> u64 {
    UNNAMED.swap(next, std::sync::atomic::Ordering::Relaxed)
}

/// Sets whether the mode (dygraph or static) is undecided; returns the old value.
#[pyfunction]
fn set_undecided(undecided: bool) -> bool {
    UNDECIDED.swap(undecided, std::sync::atomic::Ordering::Relaxed)
}

/// True if no mode was chosen and no Tensor was created yet.
#[pyfunction]
fn is_undecided() -> bool {
    UNDECIDED.load(std::sync::atomic::Ordering::Relaxed)
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(set_undecided, m)?)?;
    m.add_function(wrap_pyfunction!(is_undecided, m)?)?;
    m.add_function(wrap_pyfunction!(switch_tensor_names, m)?)?;
    m.add_function(wrap_pyfunction!(tensor_over_array, m)?)?;
    m.add_function(wrap_pyfunction!(tensor_from_array, m)?)
}
