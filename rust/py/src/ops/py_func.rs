//! Python functions that the operator py_func calls by number.

use crate::error::wrap;
use crate::program::executor::{handle, value_of};
use oar_core::base::Result;
use oar_core::err;
use oar_core::op::callbacks::CALL_PYTHON;
use oar_core::tensor::Value;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Mutex;

static FUNCTIONS: Mutex<Vec<Py<PyAny>>> = Mutex::new(Vec::new());

/// Keeps a function for the life of the process and returns its number.
#[pyfunction]
fn _append_python_callable_object_and_return_id(f: Py<PyAny>) -> usize {
    let mut functions = FUNCTIONS.lock().unwrap_or_else(|e| e.into_inner());
    functions.push(f);
    functions.len() - 1
}

fn call(id: i32, values: Vec<Value>) -> Result<Vec<Value>> {
    crate::gil::attached(|py| {
        let f = {
            let functions = FUNCTIONS.lock().unwrap_or_else(|e| e.into_inner());
            functions.get(id as usize).map(|f| f.clone_ref(py))
        };
        let f = f.ok_or_else(|| err!(NotFound, "operator py_func: no Python function has the number {id}"))?;
        let run = || -> PyResult<Vec<Value>> {
            let args = values
                .into_iter()
                .map(|v| if v.is_none() { Ok(py.None()) } else { handle(py, v) })
                .collect::<PyResult<Vec<_>>>()?;
            let results = f.bind(py).call1(PyTuple::new(py, args)?)?;
            results
                .try_iter()?
                .map(|r| {
                    let r = r?;
                    if r.is_none() {
                        Ok(Value::None)
                    } else {
                        value_of(&r)
                    }
                })
                .collect()
        };
        run().map_err(wrap)
    })
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let _ = CALL_PYTHON.set(call);
    m.add_function(wrap_pyfunction!(_append_python_callable_object_and_return_id, m)?)
}
