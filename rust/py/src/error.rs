//! Engine errors as the Python exceptions that Paddle raises (paddle/fluid/pybind/exception.cc has the same map).

use oar_core::base::{Error, ErrorKind};
use pyo3::create_exception;
use pyo3::exceptions::*;
use pyo3::prelude::*;

create_exception!(
    paddle,
    EnforceNotMet,
    PyRuntimeError,
    "An error of the engine without a closer Python type; `kind` says which."
);
create_exception!(paddle, EOFException, PyException, "A reader has no more data.");

/// The engine's error as a Python exception.
pub fn raise(mut e: Error) -> PyErr {
    // An exception raised by Python code that the engine called is raised again unchanged.
    if let Some(cause) = e.take_cause() {
        if let Ok(err) = cause.downcast::<PyErr>() {
            return *err;
        }
    }
    let text = e.to_string();
    match e.kind() {
        ErrorKind::InvalidArgument => PyValueError::new_err(text),
        ErrorKind::OutOfRange => PyIndexError::new_err(text),
        ErrorKind::ResourceExhausted => PyMemoryError::new_err(text),
        ErrorKind::Unimplemented => PyNotImplementedError::new_err(text),
        ErrorKind::Fatal => PySystemError::new_err(text),
        ErrorKind::External => PyOSError::new_err(text),
        ErrorKind::Type => PyTypeError::new_err(text),
        ErrorKind::NotFinite => PyRuntimeError::new_err(text),
        ErrorKind::Interrupted => PyKeyboardInterrupt::new_err(text),
        kind => crate::gil::attached(|py| {
            let made = EnforceNotMet::new_err(text);
            // For callers that dispatch on the kind. On failure the class's own value, no kind, remains.
            let _ = made.value(py).setattr("kind", format!("{kind:?}"));
            made
        }),
    }
}

/// `result.or_raise()?` in functions called from Python.
pub trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for oar_core::base::Result<T> {
    #[inline]
    fn or_raise(self) -> PyResult<T> {
        self.map_err(raise)
    }
}

/// Carries a Python exception through Rust frames.
pub fn wrap(e: PyErr) -> Error {
    Error::new(ErrorKind::External, e.to_string()).with_cause(Box::new(e))
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let enforce_not_met = m.py().get_type::<EnforceNotMet>();
    enforce_not_met.setattr("kind", "")?;
    m.add("EnforceNotMet", enforce_not_met)?;
    m.add("EOFException", m.py().get_type::<EOFException>())
}
