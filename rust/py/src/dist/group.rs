//! `_core.dist`: groups of processes and their collectives on Tensors.
//!
//! A blocking operation works on the tensor's bytes in place; a background one works on a copy, which `Work.wait`
//! assigns to the variable. A failed operation leaves a tensor of the same shape whose elements may be partially
//! reduced.

use crate::dist::transport::over_python;
use crate::error::{raise, OrRaise};
use crate::tensor::object::PyTensor;
use oar_comm as comm;
use oar_comm::Signals;
use oar_core::base::{DType, Result};
use oar_core::tensor::{Tensor, Value, VarStorage};
use oar_core::{bail, ensure};
use oar_engine::autograd::{trace, EagerVar};
use oar_net::{rings, CollectiveCall, Dtype, Group, ReduceOp, Region, Work};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

pub fn seconds(s: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(s)
        .map_err(|_| PyValueError::new_err(format!("timeout must be a number of seconds, got {s}")))
}

type Installs = Vec<(Arc<VarStorage>, Tensor)>;

/// A background operation, and the variables that receive its results.
struct Pending {
    work: Work,
    installs: Mutex<Installs>,
}

impl Pending {
    fn install(&self) {
        for (cell, t) in std::mem::take(&mut *self.installs.lock()) {
            cell.set(t);
            cell.bump();
        }
    }

    /// Called without the GIL: results may replace values that Python objects own.
    fn wait(&self, limit: Option<Duration>) -> Result<()> {
        let signals = Signals::watch();
        let result = self.work.wait_with(limit, &|| signals.stop());
        signals.explain(result)?;
        self.install();
        Ok(())
    }
}

/// A collective in progress.
#[pyclass(name = "Work", module = "paddle._core.dist", frozen)]
pub struct PyWork(Option<Arc<Pending>>);

#[pymethods]
impl PyWork {
    /// Whether it has ended; then the results are in their Tensors. A failure is raised by `wait`.
    fn is_completed(&self, py: Python<'_>) -> bool {
        let Some(pending) = &self.0 else { return true };
        let done = pending.work.is_done();
        if done && pending.work.wait(None).is_ok() {
            py.detach(|| pending.install());
        }
        done
    }

    /// Waits for the end, at most `timeout` seconds (None: the operation's own limit).
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let limit = timeout.map(seconds).transpose()?;
        let Some(pending) = &self.0 else { return Ok(()) };
        py.detach(|| pending.wait(limit)).or_raise()
    }
}

/// Ranks that run operations together.
#[pyclass(name = "Group", module = "paddle._core.dist", frozen, weakref)]
pub struct PyGroup {
    id: i32,
    /// The group ends with this object: `new_group` created it, and its ring number, by which operators find it, was
    /// not read.
    ours: AtomicBool,
    /// The global ranks, by rank within the group.
    #[pyo3(get)]
    ranks: Vec<usize>,
    group: Option<Arc<Group>>,
    pending: Mutex<Vec<Arc<Pending>>>,
}

/// Common arguments of operations: wait for the end, and the limit in seconds.
type How = (bool, Option<f64>);

fn wire(dtype: DType) -> Result<Dtype> {
    match u8::try_from(dtype.proto()).map(Dtype::from_number) {
        Ok(Ok(d)) => Ok(d),
        _ => bail!(InvalidArgument, "a Tensor of {dtype} cannot be exchanged between processes"),
    }
}

fn shape(dims: &[i64]) -> Vec<u64> {
    dims.iter().map(|d| *d as u64).collect()
}

/// The bytes as a region; the operation holds the tensor.
fn region(t: Tensor) -> Region {
    // SAFETY: the tensor, which goes with the region, keeps the bytes alive. They are an input that is not written
    // while shared, or an output that only the operation uses until it has ended.
    unsafe { Region::raw(t.ptr(), t.nbytes(), Some(Box::new(t))) }
}

/// A region to read. Bytes that other code may write in place (shared with numpy, for example) are copied.
fn input(t: &Tensor) -> Result<Region> {
    Ok(region(if t.buffer().is_pinned() { t.deep_copy()? } else { t.clone() }))
}

/// Concatenates `n` tensors of one type and size.
fn joined(list: &[Bound<'_, PyTensor>], n: usize, like: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
    ensure!(list.len() == n, InvalidArgument, "expected a list of {n} Tensors (one per rank), got {}", list.len());
    let parts: Vec<Tensor> = list.iter().map(|t| t.get().tensor()).collect::<Result<_>>()?;
    let Some(first) = like.or(parts.first()) else { bail!(InvalidArgument, "an empty list of Tensors") };
    let mut whole = Tensor::empty(first.dtype(), &[(first.numel() * n) as i64])?;
    let size = first.nbytes();
    let bytes = whole.bytes_mut()?;
    for (i, p) in parts.iter().enumerate() {
        ensure!(
            p.dtype() == first.dtype() && p.dims() == first.dims(),
            InvalidArgument,
            "Tensor {i} of the list is {} of shape {:?}, not {} of shape {:?}",
            p.dtype(),
            p.dims(),
            first.dtype(),
            first.dims()
        );
        bytes[i * size..(i + 1) * size].copy_from_slice(p.bytes());
    }
    Ok((whole, first.clone()))
}

/// New variables of one shape for the parts of `whole`.
fn parts<'py>(
    py: Python<'py>,
    whole: &Tensor,
    dims: &[i64],
    n: usize,
) -> PyResult<(Vec<Bound<'py, PyTensor>>, Installs)> {
    let size = whole.numel() / n;
    let mut made = Vec::with_capacity(n);
    let mut installs = Vec::with_capacity(n);
    for i in 0..n {
        let var = EagerVar::new(Tensor::zeros(whole.dtype(), dims).or_raise()?, true);
        installs.push((var.cell.clone(), whole.view(i * size, dims)));
        made.push(PyTensor::wrap(py, var)?);
    }
    Ok((made, installs))
}

impl PyGroup {
    pub fn member(&self) -> Result<&Arc<Group>> {
        match &self.group {
            Some(group) => Ok(group),
            None => bail!(InvalidArgument, "this process is not a member of group {} of {:?}", self.id, self.ranks),
        }
    }

    /// The group rank of a global rank.
    fn place(&self, rank: i64) -> Result<usize> {
        match self.ranks.iter().position(|r| *r as i64 == rank) {
            Some(at) => Ok(at),
            None => bail!(InvalidArgument, "rank {rank} is not in group {} of the ranks {:?}", self.id, self.ranks),
        }
    }

    fn finish(&self, py: Python<'_>, call: CollectiveCall, installs: Installs, how: &How) -> PyResult<PyWork> {
        let group = self.member().or_raise()?;
        installs.iter().for_each(|(cell, _)| trace::filled(cell));
        let call = match how.1 {
            Some(s) => call.limit(seconds(s)?),
            None => call,
        };
        if how.0 {
            let done: Result<()> = py.detach(|| {
                comm::run(group, call)?;
                installs.into_iter().for_each(|(cell, t)| {
                    cell.set(t);
                    cell.bump();
                });
                Ok(())
            });
            done.or_raise()?;
            return Ok(PyWork(None));
        }
        let work = group.start(call).map_err(oar_comm::error).or_raise()?;
        let pending = Arc::new(Pending { work, installs: Mutex::new(installs) });
        let mut all = self.pending.lock();
        all.retain(|p| !p.installs.lock().is_empty() || !p.work.is_done());
        all.push(pending.clone());
        Ok(PyWork(Some(pending)))
    }

    /// An operation whose result replaces the value of `tensor`.
    fn in_place(
        &self,
        py: Python<'_>,
        tensor: &Bound<'_, PyTensor>,
        how: &How,
        make: impl FnOnce(Region, Dtype) -> CollectiveCall,
    ) -> PyResult<PyWork> {
        self.member().or_raise()?;
        let cell = &tensor.get().var.cell;
        let old = tensor.get().tensor().or_raise()?;
        let dtype = wire(old.dtype()).or_raise()?;
        let dims = shape(old.dims());
        if !how.0 {
            let copy = py.detach(|| old.deep_copy()).or_raise()?;
            let call = make(region(copy.clone()), dtype).shape(&dims);
            return self.finish(py, call, vec![(cell.clone(), copy)], how);
        }
        drop(old);
        trace::given(&tensor.get().var);
        let mut value = py.detach(|| cell.write()).or_raise()?;
        let Value::Dense(t) = &mut value else {
            let text = "another thread has given the Tensor a value of another kind";
            return Err(raise(oar_core::err!(PreconditionNotMet, "{text}")));
        };
        let bytes = t.bytes_mut().or_raise()?;
        // SAFETY: `value`, which owns the bytes, lives until the blocking call has ended.
        let region = unsafe { Region::raw(bytes.as_mut_ptr(), bytes.len(), None) };
        let result = self.finish(py, make(region, dtype).shape(&dims), Vec::new(), how);
        if result.is_ok() {
            cell.finish(value);
        }
        cell.bump();
        result
    }
}

#[pymethods]
impl PyGroup {
    /// This process's rank within the group; -1 if it is not a member.
    #[getter]
    fn rank(&self) -> i64 {
        self.group.as_ref().map_or(-1, |g| g.rank() as i64)
    }

    /// The ring number. It may be used later: from now on the group lives as long as the process is in the job.
    #[getter]
    fn id(&self) -> i32 {
        self.ours.store(false, Relaxed);
        self.id
    }

    /// The ring number, without extending the group's life.
    #[getter]
    fn _number(&self) -> i32 {
        self.id
    }

    #[getter]
    fn nranks(&self) -> usize {
        self.ranks.len()
    }

    #[getter]
    fn world_size(&self) -> usize {
        self.ranks.len()
    }

    /// The transport of the data.
    #[getter]
    fn transport(&self) -> Option<&'static str> {
        self.group.as_ref().map(|g| g.transport())
    }

    fn is_member(&self) -> bool {
        self.group.is_some()
    }

    /// The group rank of a global rank; -1 if that is not a member.
    fn get_group_rank(&self, rank: i64) -> i64 {
        self.place(rank).map_or(-1, |at| at as i64)
    }

    fn __repr__(&self) -> String {
        format!("Group(id={}, rank={}, ranks={:?})", self.id, self.rank(), self.ranks)
    }

    fn all_reduce(&self, py: Python<'_>, tensor: &Bound<'_, PyTensor>, op: u8, how: How) -> PyResult<PyWork> {
        let op = ReduceOp::from_number(op).map_err(oar_comm::error).or_raise()?;
        self.in_place(py, tensor, &how, |data, dtype| CollectiveCall::all_reduce(data, dtype, op))
    }

    fn reduce(&self, py: Python<'_>, tensor: &Bound<'_, PyTensor>, dst: i64, op: u8, how: How) -> PyResult<PyWork> {
        let op = ReduceOp::from_number(op).map_err(oar_comm::error).or_raise()?;
        let root = self.place(dst).or_raise()?;
        self.in_place(py, tensor, &how, |data, dtype| CollectiveCall::reduce(data, dtype, op, root))
    }

    fn broadcast(&self, py: Python<'_>, tensor: &Bound<'_, PyTensor>, src: i64, how: How) -> PyResult<PyWork> {
        let root = self.place(src).or_raise()?;
        self.in_place(py, tensor, &how, |data, dtype| CollectiveCall::broadcast(data, dtype, root))
    }

    fn recv(&self, py: Python<'_>, tensor: &Bound<'_, PyTensor>, src: i64, how: How) -> PyResult<PyWork> {
        let from = self.place(src).or_raise()?;
        self.in_place(py, tensor, &how, |data, dtype| CollectiveCall::recv(data, dtype, from))
    }

    fn send(&self, py: Python<'_>, tensor: &Bound<'_, PyTensor>, dst: i64, how: How) -> PyResult<PyWork> {
        let to = self.place(dst).or_raise()?;
        let t = tensor.get().tensor().or_raise()?;
        let call = CollectiveCall::send(input(&t).or_raise()?, wire(t.dtype()).or_raise()?, to).shape(&shape(t.dims()));
        self.finish(py, call, Vec::new(), &how)
    }

    /// The tensors of all ranks, and the work that fills them.
    fn all_gather<'py>(
        &self,
        py: Python<'py>,
        tensor: &Bound<'py, PyTensor>,
        how: How,
    ) -> PyResult<(Vec<Bound<'py, PyTensor>>, PyWork)> {
        let (t, n) = (tensor.get().tensor().or_raise()?, self.ranks.len());
        let dtype = wire(t.dtype()).or_raise()?;
        let whole = Tensor::empty(t.dtype(), &[(t.numel() * n) as i64]).or_raise()?;
        let (made, installs) = parts(py, &whole, t.dims(), n)?;
        let call =
            CollectiveCall::all_gather(input(&t).or_raise()?, region(whole.clone()), dtype).shape(&shape(t.dims()));
        Ok((made, self.finish(py, call, installs, &how)?))
    }

    /// `list` is read on rank `src` only.
    fn scatter(
        &self,
        py: Python<'_>,
        tensor: &Bound<'_, PyTensor>,
        list: Vec<Bound<'_, PyTensor>>,
        src: i64,
        how: How,
    ) -> PyResult<PyWork> {
        let root = self.place(src).or_raise()?;
        let whole = match self.rank() == root as i64 {
            true => region(joined(&list, self.ranks.len(), Some(&tensor.get().tensor().or_raise()?)).or_raise()?.0),
            false => Region::Absent,
        };
        self.in_place(py, tensor, &how, |data, dtype| CollectiveCall::scatter(whole, data, dtype, root))
    }

    fn reduce_scatter(
        &self,
        py: Python<'_>,
        tensor: &Bound<'_, PyTensor>,
        list: Vec<Bound<'_, PyTensor>>,
        op: u8,
        how: How,
    ) -> PyResult<PyWork> {
        let op = ReduceOp::from_number(op).map_err(oar_comm::error).or_raise()?;
        let (whole, _) = joined(&list, self.ranks.len(), Some(&tensor.get().tensor().or_raise()?)).or_raise()?;
        self.in_place(py, tensor, &how, |data, dtype| CollectiveCall::reduce_scatter(region(whole), data, dtype, op))
    }

    /// Tensor s of this rank's result is tensor r (this rank) of rank s's list.
    fn all_to_all<'py>(
        &self,
        py: Python<'py>,
        list: Vec<Bound<'py, PyTensor>>,
        how: How,
    ) -> PyResult<(Vec<Bound<'py, PyTensor>>, PyWork)> {
        let n = self.ranks.len();
        let (whole, one) = joined(&list, n, None).or_raise()?;
        let dtype = wire(one.dtype()).or_raise()?;
        let out = Tensor::empty(one.dtype(), &[whole.numel() as i64]).or_raise()?;
        let (made, installs) = parts(py, &out, one.dims(), n)?;
        let mut dims = vec![n as u64];
        dims.extend(shape(one.dims()));
        let call = CollectiveCall::all_to_all(region(whole), region(out.clone()), dtype).shape(&dims);
        Ok((made, self.finish(py, call, installs, &how)?))
    }

    fn barrier(&self, py: Python<'_>, how: How) -> PyResult<PyWork> {
        self.finish(py, CollectiveCall::barrier(), Vec::new(), &how)
    }

    /// Waits for all operations in the background.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let limit = timeout.map(seconds).transpose()?;
        let all = std::mem::take(&mut *self.pending.lock());
        let done: Result<()> = py.detach(|| all.iter().try_for_each(|p| p.wait(limit)));
        done.or_raise()
    }
}

impl Drop for PyGroup {
    fn drop(&mut self) {
        if !*self.ours.get_mut() {
            return;
        }
        let (id, group) = (self.id, self.group.take());
        let all = std::mem::take(&mut *self.pending.lock());
        // Pending operations end first, and the last user closes connections: not with the GIL held.
        crate::gil::attached(|py| {
            py.detach(|| {
                all.iter().for_each(|p| drop(p.wait(None)));
                rings::release(id, &group);
                drop(group);
            });
        });
    }
}

/// The group of a ring number.
pub fn group_of(ring: i32) -> PyResult<PyGroup> {
    let group = rings::get(ring).map_err(oar_comm::error).or_raise()?;
    let ranks = group.ranks().to_vec();
    Ok(PyGroup { id: ring, ours: AtomicBool::new(false), ranks, group: Some(group), pending: Mutex::default() })
}

#[pyfunction]
fn get_group(ring: i32) -> PyResult<PyGroup> {
    group_of(ring)
}

/// Creates a group of these ranks under the lowest free number, or under the given one; `over` (see transport.rs)
/// creates its transport.
#[pyfunction]
#[pyo3(signature = (ranks, ring=None, over=None))]
fn new_group(py: Python<'_>, ranks: Vec<usize>, ring: Option<i32>, over: Option<Py<PyAny>>) -> PyResult<PyGroup> {
    let over = over.map(|make| over_python(py, make)).transpose()?;
    let made: Result<_> = py.detach(|| {
        let signals = Signals::watch();
        let made = rings::make(ring, &ranks, over.as_ref(), &|| signals.stop());
        signals.explain(made)
    });
    let (id, group) = made.or_raise()?;
    let ours = AtomicBool::new(ring.is_none());
    Ok(PyGroup { id, ours, ranks, group, pending: Mutex::default() })
}

/// Registers the module, with the functions of other files.
pub fn register(m: &Bound<'_, PyModule>, with: &[fn(&Bound<'_, PyModule>) -> PyResult<()>]) -> PyResult<()> {
    let dist = PyModule::new(m.py(), "dist")?;
    dist.add_class::<PyGroup>()?;
    dist.add_class::<PyWork>()?;
    dist.add_function(wrap_pyfunction!(get_group, &dist)?)?;
    dist.add_function(wrap_pyfunction!(new_group, &dist)?)?;
    for register in with {
        register(&dist)?;
    }
    m.add_submodule(&dist)
}
