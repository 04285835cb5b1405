//! The GIL around work of the engine: released while it computes, taken for calls of Python; forks wait for the work.

use oar_core::base::fork;
use pyo3::prelude::*;

/// Runs work without the GIL, as a region that forks wait for. The region ends before the GIL is taken again.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    py.detach(|| {
        let _region = fork::compute();
        work()
    })
}

/// Calls Python from a thread that may be in a region: it is left while the thread waits for the GIL.
pub fn attached<T>(call: impl for<'py> FnOnce(Python<'py>) -> T) -> T {
    fork::outside(|| Python::attach(call))
}
