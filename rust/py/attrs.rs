//! Attributes between Python and the engine.

use crate::ir::attr::Scalar;
use crate::ir::{Attr, AttrType};
use pyo3::exceptions::{PyNotImplementedError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyComplex, PyList, PyString, PyTuple};
use pyo3::IntoPyObjectExt;

fn items<'py, T>(obj: &Bound<'py, PyAny>, one: impl Fn(&Bound<'py, PyAny>) -> PyResult<T>) -> PyResult<Vec<T>> {
    if obj.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("expected a list, got a str"));
    }
    if let Ok(list) = obj.cast::<PyList>() {
        return list.iter().map(|item| one(&item)).collect();
    }
    let mut out = Vec::with_capacity(obj.len().unwrap_or(0));
    for item in obj.try_iter()? {
        out.push(one(&item?)?);
    }
    Ok(out)
}

pub fn int(obj: &Bound<'_, PyAny>) -> PyResult<i64> {
    match obj.extract::<i64>() {
        Ok(n) => Ok(n),
        // Enumerations of the core, numpy integers without __index__, and one-element tensors.
        Err(e)
            if obj.hasattr("__int__").unwrap_or(false) && obj.extract::<f64>().map_or(true, |f| f.fract() == 0.0) =>
        {
            obj.call_method0("__int__").map_err(|_| e)?.extract()
        }
        Err(e) => Err(e),
    }
}

fn int32(obj: &Bound<'_, PyAny>) -> PyResult<i32> {
    let n = int(obj)?;
    i32::try_from(n)
        .map_err(|_| pyo3::exceptions::PyOverflowError::new_err(format!("{n} does not fit in an int32 attribute")))
}

fn float(obj: &Bound<'_, PyAny>) -> PyResult<f32> {
    Ok(obj.extract::<f64>()? as f32)
}

fn boolean(obj: &Bound<'_, PyAny>) -> PyResult<bool> {
    match obj.cast::<PyBool>() {
        Ok(b) => Ok(b.is_true()),
        Err(_) => Ok(int(obj)? != 0),
    }
}

/// Bytes that are a text wherever they can be one.
pub fn bytes(b: &Bound<'_, PyBytes>) -> Attr {
    let b = b.as_bytes();
    std::str::from_utf8(b).map_or_else(|_| Attr::Bytes(b.to_vec()), |s| Attr::String(s.to_string()))
}

/// A Python value as an attribute of the declared type.
pub fn from_py(obj: &Bound<'_, PyAny>, kind: AttrType) -> PyResult<Attr> {
    Ok(match kind {
        AttrType::Int => Attr::Int(int32(obj)?),
        AttrType::Float => Attr::Float(float(obj)?),
        AttrType::String => match obj.extract::<String>() {
            Ok(s) => Attr::String(s),
            // Models in memory and paths may come as bytes.
            Err(e) => bytes(obj.cast::<PyBytes>().map_err(|_| e)?),
        },
        // A list first: asking it for a number costs an exception.
        AttrType::Ints if obj.is_instance_of::<PyList>() || obj.is_instance_of::<PyTuple>() => {
            Attr::Ints(items(obj, int32)?)
        }
        AttrType::Ints => match int(obj) {
            Ok(n) => Attr::Ints(vec![i32::try_from(n)?]),
            Err(_) => Attr::Ints(items(obj, int32)?),
        },
        AttrType::Floats => Attr::Floats(items(obj, float)?),
        AttrType::Strings => Attr::Strings(items(obj, |o| o.extract())?),
        AttrType::Boolean => Attr::Boolean(boolean(obj)?),
        AttrType::Booleans => Attr::Booleans(items(obj, boolean)?),
        AttrType::Block => match obj.extract::<i32>() {
            Ok(n) => Attr::Block(n),
            Err(_) => Attr::Block(obj.getattr("idx")?.extract()?),
        },
        AttrType::Long => Attr::Long(int(obj)?),
        AttrType::Blocks => Attr::Blocks(items(obj, int32)?),
        AttrType::Longs => Attr::Longs(items(obj, int)?),
        AttrType::Float64s => Attr::Float64s(items(obj, |o| o.extract())?),
        AttrType::Float64 => Attr::Float64(obj.extract()?),
        other => return Err(PyTypeError::new_err(format!("attributes of type {} cannot be set", other.name()))),
    })
}

pub fn to_py(py: Python<'_>, attr: &Attr) -> PyResult<Py<PyAny>> {
    Ok(match attr {
        Attr::Int(v) | Attr::Block(v) => v.into_pyobject(py)?.into_any().unbind(),
        Attr::Float(v) => (*v as f64).into_pyobject(py)?.into_any().unbind(),
        Attr::String(v) | Attr::Var(v) => v.into_pyobject(py)?.into_any().unbind(),
        Attr::Ints(v) | Attr::Blocks(v) => v.into_pyobject(py)?.into_any().unbind(),
        Attr::Floats(v) => v.iter().map(|&f| f as f64).collect::<Vec<_>>().into_pyobject(py)?.into_any().unbind(),
        Attr::Strings(v) | Attr::Vars(v) => v.into_pyobject(py)?.into_any().unbind(),
        Attr::Boolean(v) => v.into_pyobject(py)?.to_owned().into_any().unbind(),
        Attr::Booleans(v) => v.into_pyobject(py)?.into_any().unbind(),
        Attr::Long(v) => v.into_pyobject(py)?.into_any().unbind(),
        Attr::Longs(v) => v.into_pyobject(py)?.into_any().unbind(),
        Attr::Float64s(v) => v.into_pyobject(py)?.into_any().unbind(),
        Attr::Float64(v) => v.into_pyobject(py)?.into_any().unbind(),
        Attr::Bytes(v) => PyBytes::new(py, v).into_any().unbind(),
        Attr::Scalar(v) => scalar(py, *v)?,
        Attr::Scalars(v) => {
            let items = v.iter().map(|&s| scalar(py, s)).collect::<PyResult<Vec<_>>>()?;
            items.into_pyobject(py)?.into_any().unbind()
        }
        Attr::Foreign(_) => {
            return Err(PyNotImplementedError::new_err("an attribute of a type that a newer Paddle wrote"))
        }
    })
}

fn scalar(py: Python<'_>, value: Scalar) -> PyResult<Py<PyAny>> {
    match value {
        Scalar::Boolean(v) => v.into_py_any(py),
        Scalar::Long(v) => v.into_py_any(py),
        Scalar::Float64(v) => v.into_py_any(py),
        Scalar::Complex(re, im) => PyComplex::from_doubles(py, re, im).into_py_any(py),
    }
}
