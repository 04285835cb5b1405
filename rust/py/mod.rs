//! The only door to Python.

pub mod desc;

use pyo3::prelude::*;

#[pymodule]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    desc::register(m)
}
