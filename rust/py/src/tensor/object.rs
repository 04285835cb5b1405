//! The Tensor objects of Python and their allocation. Their methods are in class.rs.

use oar_core::base::DType;
use oar_core::tensor::Value;
use oar_engine::autograd::{trace, EagerVar};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::{ffi, PyTypeInfo};
use std::mem::size_of;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// An array with gradients: the result of `paddle.to_tensor` and of every operator in dygraph mode.
///
/// Python's operators (`+`, `*`, `@`, `[]`, comparisons) work element by element and with numbers and numpy arrays.
/// Operators on Tensors whose `stop_gradient` is False are recorded; `backward` computes the gradients.
#[pyclass(name = "Tensor", module = "paddle", subclass, dict, weakref, frozen)]
pub struct PyTensor {
    pub var: EagerVar,
    pub(crate) name: Mutex<Option<Box<str>>>,
    /// Data type and shape of a variable without value.
    pub declared: Option<Box<(DType, Vec<i64>)>>,
}

pub(crate) static UNNAMED: AtomicU64 = AtomicU64::new(0);

/// True until dygraph or static mode is chosen; the first Tensor chooses dygraph mode.
pub(crate) static UNDECIDED: AtomicBool = AtomicBool::new(false);

#[inline]
fn decide() {
    if UNDECIDED.load(Relaxed) {
        UNDECIDED.store(false, Relaxed);
    }
}

impl PyTensor {
    #[inline]
    fn from_var(var: EagerVar) -> PyTensor {
        decide();
        PyTensor { var, name: Mutex::new(None), declared: None }
    }

    /// A variable without value.
    pub fn bare(declared: Option<Box<(DType, Vec<i64>)>>) -> PyTensor {
        decide();
        PyTensor { var: EagerVar::from_parts(Default::default(), None, true), name: Mutex::new(None), declared }
    }
}

/// Offset of the Rust value in an object of the class; 0 while objects must be created by pyo3 (see `plain_layout`).
static VALUE_AT: AtomicUsize = AtomicUsize::new(0);

/// Offset of the Rust value, if an object holds nothing else but that value, the `__dict__` and the weak references.
/// Zeros are valid for both: pyo3 creates an empty dict for every object (as CPython 3.11 and 3.12 do), which costs as
/// much as a small operator and is rarely used.
fn plain_layout(py: Python<'_>) -> PyResult<Option<usize>> {
    let sample = Bound::new(py, PyTensor::from_var(EagerVar::new(Value::None, true)))?;
    let at = (sample.get() as *const PyTensor as usize).wrapping_sub(sample.as_ptr() as usize);
    let class = py.get_type::<PyTensor>();
    let number = |name: &str| class.getattr(name)?.extract::<isize>();
    let end = at + size_of::<PyTensor>();
    let pointer = size_of::<usize>();
    let (dict, weak) = (number("__dictoffset__")?, number("__weakrefoffset__")?);
    let size = number("__basicsize__")?;
    let rest = [end as isize, (end + pointer) as isize];
    let plain = size == (end + 2 * pointer) as isize && dict != weak && rest.contains(&dict) && rest.contains(&weak);
    Ok(plain.then_some(at))
}

/// Finds the layout, once the class exists.
pub fn learn_layout(py: Python<'_>) -> PyResult<()> {
    VALUE_AT.store(plain_layout(py)?.unwrap_or(0), Relaxed);
    Ok(())
}

impl PyTensor {
    /// A new Tensor of Python whose value no operator computed.
    pub fn given(py: Python<'_>, value: impl Into<Value>, stop_gradient: bool) -> PyResult<Bound<'_, PyTensor>> {
        let var = EagerVar::new(value, stop_gradient);
        trace::given(&var);
        PyTensor::wrap(py, var)
    }

    /// A new Tensor of Python.
    #[inline]
    pub fn wrap(py: Python<'_>, var: EagerVar) -> PyResult<Bound<'_, PyTensor>> {
        let at = VALUE_AT.load(Relaxed);
        if at == 0 {
            return Bound::new(py, PyTensor::from_var(var));
        }
        // SAFETY: a new object of the class is zeros behind its head; `plain_layout` found that the value at that offset
        // is all that is missing to it.
        unsafe {
            let object = ffi::PyType_GenericAlloc(PyTensor::type_object_raw(py), 0);
            let object = Bound::from_owned_ptr_or_opt(py, object).ok_or_else(|| PyErr::fetch(py))?;
            object.as_ptr().cast::<u8>().add(at).cast::<PyTensor>().write(PyTensor::from_var(var));
            Ok(object.cast_into_unchecked())
        }
    }
}
