//! `_core.dist`: the rendezvous store, joining and leaving a job.

use crate::dist::group::{group_of, seconds, PyGroup};
use crate::error::OrRaise;
use oar_comm::Signals;
use oar_core::base::Result;
use oar_net::rings::{self, JobEnvironment};
use oar_net::{Job, Store};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

fn socket(address: &str) -> PyResult<SocketAddr> {
    let found = address.to_socket_addrs()?.min_by_key(SocketAddr::is_ipv6);
    found.ok_or_else(|| PyValueError::new_err(format!("{address:?} is not an address (host:port)")))
}

/// Waits without the GIL; signals interrupt the wait.
fn watched<T: Send>(
    py: Python<'_>,
    stop: impl Fn() + Send + Sync,
    body: impl FnOnce() -> oar_net::Result<T> + Send,
) -> Result<T> {
    py.detach(|| {
        let signals = Signals::watch();
        let result = rings::watched(&|| signals.stop(), stop, body);
        signals.explain(result)
    })
}

/// A small key-value service through which the processes of a job find each other. Keys are texts, values bytes.
#[pyclass(name = "Store", module = "paddle._core.dist", frozen)]
struct PyStore(Store);

impl PyStore {
    /// One request on a connection that another thread's wait may hold.
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        timeout: f64,
        f: impl FnOnce(&Store, Duration) -> oar_net::Result<T> + Send,
    ) -> PyResult<T> {
        let limit = seconds(timeout)?;
        let result = watched(py, || self.0.interrupt(true), || f(&self.0, limit));
        self.0.interrupt(false);
        result.or_raise()
    }
}

#[pymethods]
impl PyStore {
    /// Hosts a store; port 0 takes a free port, see `address`. It ends with this object.
    #[staticmethod]
    #[pyo3(signature = (address="127.0.0.1:0", name="", token=vec![]))]
    fn host(py: Python<'_>, address: &str, name: &str, token: Vec<u8>) -> PyResult<PyStore> {
        let at = socket(address)?;
        let made: Result<Store> = py.detach(|| Store::host(at, &Job::new(name, &token)).map_err(oar_comm::error));
        Ok(PyStore(made.or_raise()?))
    }

    /// Connects to a store that another process hosts, or will host within `timeout` seconds.
    #[staticmethod]
    #[pyo3(signature = (address, name="", token=vec![], timeout=300.0))]
    fn connect(py: Python<'_>, address: &str, name: &str, token: Vec<u8>, timeout: f64) -> PyResult<PyStore> {
        use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
        let (at, limit, job) = (socket(address)?, seconds(timeout)?, Job::new(name, &token));
        let stopped = AtomicBool::new(false);
        let made = watched(
            py,
            || stopped.store(true, Relaxed),
            || {
                let check = || match stopped.load(Relaxed) {
                    true => Err(oar_net::Error::Interrupted { during: "connecting to the store".into() }),
                    false => Ok(()),
                };
                Store::connect_until(at, &job, &oar_net::socket::Deadline::new(limit, &check))
            },
        );
        Ok(PyStore(made.or_raise()?))
    }

    #[getter]
    fn address(&self) -> String {
        self.0.address().to_string()
    }

    #[pyo3(signature = (key, value, timeout=300.0))]
    fn set(&self, py: Python<'_>, key: &str, value: Vec<u8>, timeout: f64) -> PyResult<()> {
        self.ask(py, timeout, |s, limit| s.set(key, &value, limit))
    }

    /// The value; waits until it is set.
    #[pyo3(signature = (key, timeout=300.0))]
    fn get<'py>(&self, py: Python<'py>, key: &str, timeout: f64) -> PyResult<Bound<'py, PyBytes>> {
        self.ask(py, timeout, |s, limit| s.get(key, limit)).map(|v| PyBytes::new(py, &v))
    }

    /// The current value, or None.
    #[pyo3(signature = (key, timeout=300.0))]
    fn peek<'py>(&self, py: Python<'py>, key: &str, timeout: f64) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.ask(py, timeout, |s, limit| s.peek(key, limit)).map(|v| v.map(|v| PyBytes::new(py, &v)))
    }

    /// Adds to a number (0 if absent) and returns the sum.
    #[pyo3(signature = (key, delta, timeout=300.0))]
    fn add(&self, py: Python<'_>, key: &str, delta: i64, timeout: f64) -> PyResult<i64> {
        self.ask(py, timeout, |s, limit| s.add(key, delta, limit))
    }

    /// Sets `new` if the value is `old` (None: absent); returns the value afterwards.
    #[pyo3(signature = (key, old, new, timeout=300.0))]
    fn compare_and_set<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        old: Option<Vec<u8>>,
        new: Vec<u8>,
        timeout: f64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self.ask(py, timeout, |s, limit| s.compare_and_set(key, old.as_deref(), &new, limit))?;
        Ok(found.map(|v| PyBytes::new(py, &v)))
    }

    /// Waits until all keys are set.
    #[pyo3(signature = (keys, timeout=300.0))]
    fn wait(&self, py: Python<'_>, keys: Vec<String>, timeout: f64) -> PyResult<()> {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        self.ask(py, timeout, |s, limit| s.wait(&keys, limit))
    }

    #[pyo3(signature = (key, timeout=300.0))]
    fn delete(&self, py: Python<'_>, key: &str, timeout: f64) -> PyResult<bool> {
        self.ask(py, timeout, |s, limit| s.delete(key, limit))
    }

    /// Waits until `world` clients are in the barrier of this name.
    #[pyo3(signature = (name, world, timeout=300.0))]
    fn barrier(&self, py: Python<'_>, name: &str, world: usize, timeout: f64) -> PyResult<()> {
        self.ask(py, timeout, |s, limit| s.barrier(name, world, limit))
    }
}

/// A token of 32 random bytes, the secret that the processes of a job share.
#[pyfunction]
fn fresh_token(py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
    let token: Result<Vec<u8>> = Job::fresh_token().map_err(oar_comm::error);
    Ok(PyBytes::new(py, &token.or_raise()?))
}

/// Joins the job of the environment (see rust/net/src/rings.rs) and returns the group of all its ranks.
#[pyfunction]
fn join(py: Python<'_>) -> PyResult<PyGroup> {
    let joined: Result<()> = py.detach(|| {
        let (place, options) =
            (JobEnvironment::from_env().map_err(oar_comm::error)?, rings::options_from_env().map_err(oar_comm::error)?);
        let signals = Signals::watch();
        let result = rings::join(&place, options, &|| signals.stop());
        signals.explain(result).map(drop)
    });
    joined.or_raise()?;
    group_of(0)
}

/// Whether this process has joined a job of several ranks.
#[pyfunction]
fn joined() -> bool {
    rings::context().is_some()
}

/// Leaves the job in order.
#[pyfunction]
fn leave(py: Python<'_>) {
    py.detach(rings::leave);
}

/// Reports to the other ranks why this one cannot continue.
#[pyfunction]
fn abort(py: Python<'_>, reason: &str) {
    py.detach(|| rings::abort(reason));
}

/// The operation that each rank is in, and the rank it waits for; of this rank only if the others do not answer within
/// `timeout`.
#[pyfunction]
#[pyo3(signature = (timeout=2.0))]
fn report(py: Python<'_>, timeout: f64) -> PyResult<String> {
    let Some(context) = rings::context() else { return Ok("this process is in no job of several ranks\n".into()) };
    let limit = seconds(timeout)?;
    Ok(py.detach(|| {
        let here = || context.local_report();
        match context.failure() {
            Some(_) => here(),
            None => context.report(limit).unwrap_or_else(|e| format!("{}no full report: {e}\n", here())),
        }
    }))
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyStore>()?;
    m.add_function(wrap_pyfunction!(fresh_token, m)?)?;
    m.add_function(wrap_pyfunction!(join, m)?)?;
    m.add_function(wrap_pyfunction!(joined, m)?)?;
    m.add_function(wrap_pyfunction!(leave, m)?)?;
    m.add_function(wrap_pyfunction!(abort, m)?)?;
    m.add_function(wrap_pyfunction!(report, m)?)
}
