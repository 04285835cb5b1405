//! `_core.dist`: a trainer's parameter servers, and the communicator, which sends and receives concurrently with its
//! steps.

use crate::error::OrRaise;
use crate::program::scope::PyScope;
use oar_comm::Signals;
use oar_core::base::Result;
use oar_core::ensure;
use oar_ps::protocol::{limits, session};
use oar_ps::reshard::reshard;
use oar_ps::tables::{table, Table, TableSize};
use oar_ps::trainer::communicator::{self, CommContext, CommunicatorMode, CommunicatorSettings};
use oar_ps::trainer::remote::{distinct, open, with_all};
use oar_ps::values::allocate;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Arc;

/// The placement of a variable of the communicator.
#[derive(FromPyObject)]
struct PyCommContext {
    name: String,
    parts: Vec<String>,
    endpoints: Vec<String>,
    sections: Vec<i64>,
    trainer: u32,
    sum: bool,
    sparse: bool,
    everywhere: bool,
}

impl From<PyCommContext> for CommContext {
    fn from(c: PyCommContext) -> CommContext {
        let PyCommContext { name, parts, endpoints, sections, trainer, sum, sparse, everywhere } = c;
        CommContext { name, parts, endpoints, sections, trainer, sum, sparse, everywhere }
    }
}

#[derive(FromPyObject)]
struct PySettings {
    max_merge_var_num: usize,
    send_queue_size: usize,
    send_from: usize,
    send_wait_times: u32,
    min_send_grad_num_before_recv: u64,
    independent_recv_thread: bool,
    merge_sparse_grad: bool,
    max_staleness: u64,
    trainers: u32,
    push_nums: u64,
}

#[pyclass(name = "Communicator", module = "paddle._core", frozen)]
struct PyCommunicator(Arc<communicator::Communicator>);

impl PyCommunicator {
    fn run(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Arc<communicator::Communicator>) -> Result<()> + Send,
    ) -> PyResult<()> {
        py.detach(|| work(&self.0)).or_raise()
    }
}

#[pymethods]
impl PyCommunicator {
    #[new]
    fn new(
        mode: &str,
        send: Vec<PyCommContext>,
        recv: Vec<PyCommContext>,
        scope: &PyScope,
        settings: PySettings,
    ) -> PyResult<PyCommunicator> {
        let s = settings;
        let settings = CommunicatorSettings {
            max_merge_var_num: s.max_merge_var_num,
            send_queue_size: s.send_queue_size,
            send_from: s.send_from,
            send_wait_times: s.send_wait_times,
            min_send_grad_num_before_recv: s.min_send_grad_num_before_recv,
            independent_recv_thread: s.independent_recv_thread,
            merge_sparse_grad: s.merge_sparse_grad,
            max_staleness: s.max_staleness,
            trainers: s.trainers,
            push_nums: s.push_nums,
        };
        let contexts = |list: Vec<PyCommContext>| list.into_iter().map(CommContext::from).collect();
        let made = CommunicatorMode::parse(mode).and_then(|mode| {
            communicator::Communicator::new(mode, contexts(send), contexts(recv), scope.0.clone(), settings)
        });
        Ok(PyCommunicator(Arc::new(made.or_raise()?)))
    }

    fn start(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |c| c.start())
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |c| c.stop())
    }

    fn is_running(&self) -> bool {
        self.0.is_running()
    }

    fn recv(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |c| c.receive())
    }
}

/// Sends queued values, and declares to all servers that this process is finished, even if the values cannot be sent.
#[pyfunction]
fn complete_servers(py: Python<'_>) -> PyResult<()> {
    if communicator::current().is_none() && !session::any() {
        return Ok(());
    }
    let done: Result<()> = py.detach(|| {
        let signals = Signals::watch();
        let sent = communicator::stop_current();
        let stop = || match signals.stop() {
            true => Err(oar_net::Error::Interrupted { during: "completion at the servers".into() }),
            false => Ok(()),
        };
        let completed = session::complete_all(&stop);
        sent.and(signals.explain(completed))
    });
    done.or_raise()
}

/// The number of steps that this trainer has sent to these servers in earlier processes, after which it continues.
/// Steps that reached only some of the servers are sent again; servers that have them skip them.
#[pyfunction]
fn resume_trainer(py: Python<'_>, endpoints: Vec<String>, trainer: u32) -> PyResult<u64> {
    let asked = py.detach(|| -> Result<u64> {
        let op = "resume_steps";
        let sessions = distinct(&endpoints).iter().map(|e| open(e, trainer)).collect::<Result<Vec<_>>>()?;
        let counts = with_all(op, &sessions, |_, s, stop| s.notify(vec!["progress".into()], &allocate, stop))?;
        let counts = counts.iter().map(|words| words.first().and_then(|w| w.parse::<u64>().ok()).unwrap_or(0));
        let least = counts.min().unwrap_or(0);
        let words = || vec!["resume".to_string(), least.to_string()];
        with_all(op, &sessions, |_, s, stop| s.notify(words(), &allocate, stop))?;
        Ok(least)
    });
    asked.or_raise()
}

/// Whether this process is connected to parameter servers.
#[pyfunction]
fn has_servers() -> bool {
    session::any()
}

/// Sets a flag of trainers and servers by its name (FLAGS_rpc_*, FLAGS_communicator_*, FLAGS_ps_*).
#[pyfunction]
fn set_server_flag(name: &str, value: &str) {
    limits::set_flag(name, value);
}

/// The waits of this process for parameter servers, one per line.
#[pyfunction]
fn server_waits(py: Python<'_>) -> String {
    py.detach(limits::report)
}

/// Combines the snapshots of a job's servers into a state for another job's; returns a report.
#[pyfunction]
fn reshard_state(py: Python<'_>, old: PathBuf, new: PathBuf, uneven: bool) -> PyResult<Vec<String>> {
    py.detach(|| reshard(&old, &new, uneven)).or_raise()
}

fn of_table(py: Python<'_>, name: &str, work: impl FnOnce(&Table) -> Result<()> + Send) -> PyResult<()> {
    py.detach(|| work(&*table("LargeScaleKV", name)?)).or_raise()
}

/// Ids from the bytes of an int64 array.
fn of_bytes(ids: &[u8]) -> Result<Vec<i64>> {
    ensure!(ids.len().is_multiple_of(8), InvalidArgument, "ids are int64, got {} bytes", ids.len());
    Ok(ids.chunks_exact(8).map(|b| i64::from_ne_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])).collect())
}

/// All rows, or those of `ids`.
#[pyfunction]
#[pyo3(signature = (name, folder, ids=None))]
fn save_table(py: Python<'_>, name: &str, folder: PathBuf, ids: Option<&[u8]>) -> PyResult<()> {
    of_table(py, name, |t| match ids {
        Some(ids) => t.save_rows(&folder, &of_bytes(ids)?),
        None => t.save(&folder),
    })
}

/// The ids of all rows, ascending.
#[pyfunction]
fn table_ids<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
    let mut found = Vec::new();
    of_table(py, name, |t| {
        found = t.ids().iter().flat_map(|id| id.to_ne_bytes()).collect();
        Ok(())
    })?;
    Ok(PyBytes::new(py, &found))
}

/// Removes these rows; returns how many existed.
#[pyfunction]
fn forget_rows(py: Python<'_>, name: &str, ids: &[u8]) -> PyResult<usize> {
    let mut removed = 0;
    of_table(py, name, |t| {
        removed = t.forget(&of_bytes(ids)?)?;
        Ok(())
    })?;
    Ok(removed)
}

/// Loads the rows of a saved table that belong to this server, by the remainder of their ids.
#[pyfunction]
fn load_table(py: Python<'_>, name: &str, folder: PathBuf, server: i64, servers: i64) -> PyResult<()> {
    of_table(py, name, |t| {
        ensure!((0..servers).contains(&server), InvalidArgument, "there is no server {server} of {servers}");
        t.load(&folder, |id| id.rem_euclid(servers) == server)
    })
}

/// Number of rows, how many of them are on disk, and the memory of the others in bytes.
#[pyfunction]
fn table_memory(py: Python<'_>, name: &str) -> PyResult<(usize, usize, usize)> {
    let mut found = TableSize::default();
    of_table(py, name, |t| {
        found = t.size();
        Ok(())
    })?;
    Ok((found.rows, found.spilled, found.bytes))
}

#[pyfunction]
fn shrink_table(py: Python<'_>, name: &str, unseen: usize) -> PyResult<usize> {
    let mut removed = 0;
    of_table(py, name, |t| {
        removed = t.shrink(unseen)?;
        Ok(())
    })?;
    Ok(removed)
}

#[pyfunction]
fn table_size(py: Python<'_>, name: &str) -> PyResult<usize> {
    let mut found = 0;
    of_table(py, name, |t| {
        found = t.len();
        Ok(())
    })?;
    Ok(found)
}

pub fn register(dist: &Bound<'_, PyModule>) -> PyResult<()> {
    dist.add_class::<PyCommunicator>()?;
    dist.add_function(wrap_pyfunction!(save_table, dist)?)?;
    dist.add_function(wrap_pyfunction!(table_ids, dist)?)?;
    dist.add_function(wrap_pyfunction!(forget_rows, dist)?)?;
    dist.add_function(wrap_pyfunction!(load_table, dist)?)?;
    dist.add_function(wrap_pyfunction!(table_size, dist)?)?;
    dist.add_function(wrap_pyfunction!(table_memory, dist)?)?;
    dist.add_function(wrap_pyfunction!(shrink_table, dist)?)?;
    dist.add_function(wrap_pyfunction!(reshard_state, dist)?)?;
    dist.add_function(wrap_pyfunction!(complete_servers, dist)?)?;
    dist.add_function(wrap_pyfunction!(set_server_flag, dist)?)?;
    dist.add_function(wrap_pyfunction!(server_waits, dist)?)?;
    dist.add_function(wrap_pyfunction!(resume_trainer, dist)?)?;
    dist.add_function(wrap_pyfunction!(has_servers, dist)?)
}
