//! Attribute values from and to Python.

use super::PyBlockDesc;
use crate::ir::{Attr, AttrType, BlockNode};
use crate::py::attrs::bytes;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyString};
use pyo3::IntoPyObjectExt;
use std::sync::Arc;

/// Texts are never numbers; asking Python so costs an exception each time.
fn is_text(v: &Bound<'_, PyAny>) -> bool {
    v.is_instance_of::<PyString>() || v.is_instance_of::<PyBytes>()
}

/// A whole number: int, bool, an enumeration, or numpy's of any width.
fn int(v: &Bound<'_, PyAny>) -> Option<i64> {
    if is_text(v) || v.is_instance_of::<PyFloat>() {
        return None;
    }
    if let Ok(n) = v.extract::<i64>() {
        return Some(n);
    }
    // numpy's bool is no number to Python, but Paddle takes it.
    let name = v.get_type().name().ok()?;
    let name = name.to_str().ok()?;
    (name == "bool_" || name == "bool").then(|| v.is_truthy().ok().map(i64::from)).flatten()
}

fn int32(v: &Bound<'_, PyAny>) -> Option<i32> {
    int(v).and_then(|n| i32::try_from(n).ok())
}

fn float64(v: &Bound<'_, PyAny>) -> Option<f64> {
    if is_text(v) {
        return None;
    }
    v.extract::<f64>().ok().or_else(|| int(v).map(|n| n as f64))
}

fn float(v: &Bound<'_, PyAny>) -> Option<f32> {
    float64(v).map(|x| x as f32)
}

fn boolean(v: &Bound<'_, PyAny>) -> Option<bool> {
    int(v).map(|n| n != 0).or_else(|| v.extract::<f64>().ok().map(|x| x != 0.0))
}

fn string(v: &Bound<'_, PyAny>) -> Option<String> {
    match v.cast::<PyString>() {
        Ok(s) => s.to_str().ok().map(str::to_string),
        Err(_) => String::from_utf8(v.cast::<PyBytes>().ok()?.as_bytes().to_vec()).ok(),
    }
}

fn block(v: &Bound<'_, PyAny>) -> Option<Arc<BlockNode>> {
    v.cast::<PyBlockDesc>().ok().map(|b| b.get().node().clone())
}

/// The items of a list, a tuple or another sequence; not those of a text.
fn items<'py>(v: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    if is_text(v) {
        return None;
    }
    v.extract().ok()
}

fn all<'py, T>(items: &[Bound<'py, PyAny>], f: impl Fn(&Bound<'py, PyAny>) -> Option<T>) -> Option<Vec<T>> {
    items.iter().map(f).collect()
}

/// The value as an attribute of this type, None where it is none.
fn as_declared(v: &Bound<'_, PyAny>, kind: AttrType) -> Option<Attr> {
    Some(match kind {
        AttrType::Int => Attr::Int(int32(v)?),
        AttrType::Float => Attr::Float(float(v)?),
        AttrType::Long => Attr::Long(int(v)?),
        AttrType::Boolean => Attr::Boolean(boolean(v)?),
        AttrType::String => Attr::String(string(v)?),
        AttrType::Float64 => Attr::Float64(float64(v)?),
        AttrType::Ints => Attr::Ints(all(&items(v)?, int32)?),
        AttrType::Longs => Attr::Longs(all(&items(v)?, int)?),
        AttrType::Floats => Attr::Floats(all(&items(v)?, float)?),
        AttrType::Float64s => Attr::Float64s(all(&items(v)?, float64)?),
        AttrType::Booleans => Attr::Booleans(all(&items(v)?, boolean)?),
        AttrType::Strings => Attr::Strings(all(&items(v)?, string)?),
        AttrType::Block => Attr::Block(block(v)?.idx()),
        AttrType::Blocks => Attr::Blocks(all(&items(v)?, |b| block(b).map(|b| b.idx()))?),
        _ => return None,
    })
}

/// The value as the first type that it fits, in the order of Paddle's variant.
fn as_first_fit(v: &Bound<'_, PyAny>) -> Option<Attr> {
    if let Some(n) = int(v) {
        return Some(i32::try_from(n).map_or(Attr::Long(n), Attr::Int));
    }
    if let Some(x) = float(v) {
        return Some(Attr::Float(x));
    }
    if let Ok(b) = v.cast::<PyBytes>() {
        return Some(bytes(b));
    }
    if let Some(s) = string(v) {
        return Some(Attr::String(s));
    }
    if let Some(b) = block(v) {
        return Some(Attr::Block(b.idx()));
    }
    let items = items(v)?;
    None.or_else(|| all(&items, int32).map(Attr::Ints))
        .or_else(|| all(&items, int).map(Attr::Longs))
        .or_else(|| all(&items, float).map(Attr::Floats))
        .or_else(|| all(&items, string).map(Attr::Strings))
        .or_else(|| all(&items, |b| block(b).map(|b| b.idx())).map(Attr::Blocks))
}

/// An attribute from a Python value: of its declared type where there is one and the value fits it, else of the first
/// type that it fits. (A value of the wrong type is left for the check of the attributes to report.)
pub fn attr_from_py(name: &str, value: &Bound<'_, PyAny>, declared: Option<AttrType>) -> PyResult<Attr> {
    let attr = declared.and_then(|kind| as_declared(value, kind)).or_else(|| as_first_fit(value));
    match attr {
        Some(attr) => Ok(attr),
        None => Err(PyTypeError::new_err(format!(
            "attribute `{name}` must be an int, a float, a str, a bool, a block or a list of these, got {}",
            value.repr()?
        ))),
    }
}

/// A Python value from an attribute; blocks become handles, found through `block`.
pub fn attr_to_py(py: Python<'_>, attr: Attr, block: impl Fn(i32) -> PyResult<Py<PyBlockDesc>>) -> PyResult<Py<PyAny>> {
    match attr {
        Attr::Block(v) => block(v)?.into_py_any(py),
        Attr::Blocks(v) => v.into_iter().map(block).collect::<PyResult<Vec<_>>>()?.into_py_any(py),
        other => crate::py::attrs::to_py(py, &other),
    }
}
