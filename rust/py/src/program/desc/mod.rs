//! `core.ProgramDesc`, `BlockDesc`, `OpDesc`, `VarDesc` and their enumerations: handles to the nodes of
//! `oar_core::ir`. A handle keeps its Program alive, and stays valid when its node is removed from it.

mod block;
mod enums;
mod handles;
mod op;
mod program;
mod var;

pub use enums::var_type;
pub use handles::{PyBlockDesc, PyOpDesc};
pub use program::PyProgramDesc;
pub use var::PyVarDesc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// A name given as str or bytes.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Name(pub String);

impl<'a, 'py> FromPyObject<'a, 'py> for Name {
    type Error = PyErr;

    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Name> {
        if let Ok(s) = obj.cast::<PyString>() {
            return Ok(Name(s.to_str()?.to_string()));
        }
        let Ok(b) = obj.cast::<PyBytes>() else {
            return Err(PyTypeError::new_err(format!("a name must be str or bytes, got {}", obj.get_type().name()?)));
        };
        match std::str::from_utf8(b.as_bytes()) {
            Ok(s) => Ok(Name(s.to_string())),
            Err(_) => Err(PyValueError::new_err("a name given as bytes must be UTF-8")),
        }
    }
}

pub(crate) fn names(list: Vec<Name>) -> Vec<String> {
    list.into_iter().map(|n| n.0).collect()
}

/// Adds the classes to a module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyProgramDesc>()?;
    m.add_class::<PyBlockDesc>()?;
    m.add_class::<PyOpDesc>()?;
    m.add_class::<PyVarDesc>()?;
    m.add_function(wrap_pyfunction!(program::prune, m)?)?;
    m.add_function(wrap_pyfunction!(program::prune_backward, m)?)?;
    m.add_function(wrap_pyfunction!(program::save_op_version_info, m)?)?;
    enums::register(m, &m.py().get_type::<PyVarDesc>())
}
