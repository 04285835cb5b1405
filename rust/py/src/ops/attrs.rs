//! Attributes between Python and the engine: one converter for eager calls and for OpDescs.

use crate::program::desc::PyBlockDesc;
use oar_core::ir::attr::Scalar;
use oar_core::ir::{Attr, AttrType};
use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyComplex, PyFloat, PyInt, PyList, PyString};
use pyo3::IntoPyObjectExt;

type Object<'py> = Bound<'py, PyAny>;

/// Strings are never numbers; finding that out by conversion costs an exception each time.
fn is_text(v: &Object<'_>) -> bool {
    v.is_instance_of::<PyString>() || v.is_instance_of::<PyBytes>()
}

/// A whole number: int, bool, an enumeration, numpy's integers, a tensor or array of one element. Not a Python float,
/// nor anything that `int` would round.
pub fn int(v: &Object<'_>) -> Option<i64> {
    if v.is_exact_instance_of::<PyInt>() {
        return v.extract().ok();
    }
    if is_text(v) || v.is_instance_of::<PyFloat>() {
        return None;
    }
    if let Ok(n) = v.extract::<i64>() {
        return Some(n);
    }
    // Values without `__index__`: numpy's bool and float32, a float tensor, an array of shape [1] (newer versions of
    // numpy refuse its `__int__`).
    let float = float64(v).filter(|x| x.fract() == 0.0 && v.hasattr("__int__").unwrap_or(false))?;
    let exact = v.call_method0("__int__").or_else(|_| v.call_method0("item")).ok()?;
    exact.extract().ok().or_else(|| (float.abs() < (1u64 << 53) as f64).then_some(float as i64))
}

fn int32(v: &Object<'_>) -> Option<i32> {
    int(v).and_then(|n| i32::try_from(n).ok())
}

/// A whole number, possibly given as a float.
fn long(v: &Object<'_>) -> Option<i64> {
    int(v).or_else(|| float64(v).filter(|x| x.fract() == 0.0 && x.abs() < (1u64 << 53) as f64).map(|x| x as i64))
}

fn float64(v: &Object<'_>) -> Option<f64> {
    if is_text(v) {
        return None;
    }
    v.extract().ok().or_else(|| v.call_method0("item").ok()?.extract().ok())
}

fn float(v: &Object<'_>) -> Option<f32> {
    float64(v).map(|x| x as f32)
}

fn boolean(v: &Object<'_>) -> Option<bool> {
    int(v).map(|n| n != 0).or_else(|| float64(v).map(|x| x != 0.0))
}

fn string(v: &Object<'_>) -> Option<String> {
    match v.cast::<PyString>() {
        Ok(s) => s.to_str().ok().map(str::to_string),
        Err(_) => std::str::from_utf8(v.cast::<PyBytes>().ok()?.as_bytes()).ok().map(str::to_string),
    }
}

/// A str, or bytes that need not be UTF-8.
fn text(v: &Object<'_>) -> Option<Attr> {
    match v.cast::<PyBytes>() {
        Ok(b) => Some(Attr::text(b.as_bytes().to_vec())),
        Err(_) => string(v).map(Attr::String),
    }
}

fn block(v: &Object<'_>) -> Option<i32> {
    v.cast::<PyBlockDesc>().ok().map(|b| b.get().node().idx())
}

/// The items of a list, a tuple, an array or another sequence; not those of a string.
fn all<'py, T>(v: &Object<'py>, one: impl Fn(&Object<'py>) -> Option<T>) -> Option<Vec<T>> {
    if let Ok(list) = v.cast::<PyList>() {
        return list.iter().map(|item| one(&item)).collect();
    }
    if is_text(v) {
        return None;
    }
    v.extract::<Vec<Object>>().ok()?.iter().map(one).collect()
}

/// The value as an attribute of this type; `None` if it does not fit.
fn as_declared(v: &Object<'_>, kind: AttrType) -> Option<Attr> {
    Some(match kind {
        AttrType::Int => Attr::Int(int32(v)?),
        AttrType::Float => Attr::Float(float(v)?),
        AttrType::Long => Attr::Long(long(v)?),
        AttrType::Boolean => Attr::Boolean(boolean(v)?),
        AttrType::String => text(v)?,
        AttrType::Float64 => Attr::Float64(float64(v)?),
        AttrType::Ints => Attr::Ints(all(v, int32)?),
        AttrType::Longs => Attr::Longs(all(v, long)?),
        AttrType::Floats => Attr::Floats(all(v, float)?),
        AttrType::Float64s => Attr::Float64s(all(v, float64)?),
        AttrType::Booleans => Attr::Booleans(all(v, boolean)?),
        AttrType::Strings => Attr::Strings(all(v, string)?),
        AttrType::Block => Attr::Block(block(v)?),
        AttrType::Blocks => Attr::Blocks(all(v, block)?),
        _ => return None,
    })
}

/// The value as the first type that it fits, in the order of Paddle's variant.
fn as_first_fit(v: &Object<'_>) -> Option<Attr> {
    None.or_else(|| int(v).map(|n| i32::try_from(n).map_or(Attr::Long(n), Attr::Int)))
        .or_else(|| float(v).map(Attr::Float))
        .or_else(|| text(v))
        .or_else(|| block(v).map(Attr::Block))
        .or_else(|| all(v, int32).map(Attr::Ints))
        .or_else(|| all(v, int).map(Attr::Longs))
        .or_else(|| all(v, float).map(Attr::Floats))
        .or_else(|| all(v, string).map(Attr::Strings))
        .or_else(|| all(v, block).map(Attr::Blocks))
}

/// An attribute from a Python value: of its declared type if there is one and the value fits it, otherwise of the
/// first type that it fits (the schema then converts or reports it); `None` if it fits none.
pub fn from_py(v: &Object<'_>, declared: Option<AttrType>) -> Option<Attr> {
    declared.and_then(|kind| as_declared(v, kind)).or_else(|| as_first_fit(v))
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
