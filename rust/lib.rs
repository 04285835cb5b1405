//! Oar: the tensor engine behind the `paddle` package, as the extension module `paddle._core`. See ARCHITECTURE.md.
//! The engine's crates know no operator by name; here the table of operators is handed to them.

#[cfg(feature = "python")]
#[pyo3::pymodule]
fn _core(m: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
    oar_ops::install();
    oar_py::register(m)
}
