//! `_core.dist`: a trainer's parameter servers.

use crate::error::OrRaise;
use oar_comm::Signals;
use oar_dist::ps::{limits, session};
use pyo3::prelude::*;

/// Sends what waits to be sent, and tells all servers that this process needs them no more.
#[pyfunction]
fn complete_servers(py: Python<'_>) -> PyResult<()> {
    if !session::any() {
        return Ok(());
    }
    let done: oar_core::base::Result<()> = py.detach(|| {
        let signals = Signals::watch();
        let stop = || match signals.stop() {
            true => Err(oar_dist::Error::Interrupted { during: "saying goodbye to the servers".into() }),
            false => Ok(()),
        };
        let result = session::complete_all(&stop);
        signals.explain(result)
    });
    done.or_raise()
}

/// Whether this process talks to parameter servers.
#[pyfunction]
fn has_servers() -> bool {
    session::any()
}

/// A setting of trainers and servers by its name (FLAGS_rpc_*, FLAGS_communicator_*).
#[pyfunction]
fn set_server_flag(name: &str, value: i64) {
    limits::set_flag(name, value);
}

/// What this process waits for at parameter servers, a line each.
#[pyfunction]
fn server_waits(py: Python<'_>) -> String {
    py.detach(limits::report)
}

pub fn register(dist: &Bound<'_, PyModule>) -> PyResult<()> {
    dist.add_function(wrap_pyfunction!(complete_servers, dist)?)?;
    dist.add_function(wrap_pyfunction!(set_server_flag, dist)?)?;
    dist.add_function(wrap_pyfunction!(server_waits, dist)?)?;
    dist.add_function(wrap_pyfunction!(has_servers, dist)?)
}
