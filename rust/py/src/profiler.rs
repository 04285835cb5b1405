//! `_core.profiler`: the log of what ran.

use oar_core::op::profile::{self, Event};
use pyo3::prelude::*;

/// Starts the log.
#[pyfunction]
fn start() {
    profile::start();
}

/// Clears the log.
#[pyfunction]
fn reset() {
    profile::reset();
}

#[pyfunction]
fn is_on() -> bool {
    profile::on()
}

type Row = (String, u64, u64, u32, u32);

/// Ends the log and returns it, in the order of the ends: (name, start and end in ns, number of the thread, depth).
#[pyfunction]
fn stop() -> Vec<Row> {
    let row = |e: Event| (e.name.into_owned(), e.start, e.end, e.thread, e.depth);
    profile::stop().into_iter().map(row).collect()
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = PyModule::new(m.py(), "profiler")?;
    module.add_function(wrap_pyfunction!(start, &module)?)?;
    module.add_function(wrap_pyfunction!(reset, &module)?)?;
    module.add_function(wrap_pyfunction!(is_on, &module)?)?;
    module.add_function(wrap_pyfunction!(stop, &module)?)?;
    m.add_submodule(&module)
}
