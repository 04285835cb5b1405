//! `_core.feed`: instances from files of MultiSlot text or with columns, and training over them.

use crate::error::{wrap, OrRaise};
use crate::gil::{attached_until_exit, wait_at_exit};
use crate::program::desc::PyProgramDesc;
use crate::program::executor::{handle, PyExecutor};
use crate::program::scope::PyScope;
use crate::tensor::numpy::over_array;
use oar_core::base::{DType, Error, Result};
use oar_core::op::backend;
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, err};
use oar_data::{columns, Batch, Batches, Column, ColumnReader, Desc, Memory, Reading, Slot, Stop, Values};
use oar_engine::graph::hogwild::{self, Next, Work};
use oar_engine::graph::passes::Passes;
use oar_engine::graph::How;
use parking_lot::{Mutex, RwLock};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

/// The format of lines and batches.
#[pyclass(name = "Feed", module = "paddle._core.feed", frozen)]
struct PyFeed {
    desc: Arc<Desc>,
    reading: Arc<Reading>,
}

/// The columns of some rows: for each slot the offsets of the rows (None: a value for each row), and the values.
type Arrays<'py> = Vec<(Option<Bound<'py, PyAny>>, Bound<'py, PyAny>)>;

/// Reads files through a function of Python: for a path it returns an iterator over `Arrays` (numpy, int64 and float32).
fn column_reader(read: Py<PyAny>) -> ColumnReader {
    Arc::new(move |desc, path, stop, take| {
        let ended = || err!(Unavailable, "{path}: reading was called off, the interpreter ends");
        let iterate = |py: Python<'_>| read.call1(py, (path,))?.bind(py).try_iter().map(Bound::unbind);
        let rows = attached_until_exit(iterate).ok_or_else(ended)?.map_err(wrap)?;
        let mut first = 0;
        let next = |py: Python<'_>| -> PyResult<Option<Vec<(Option<Tensor>, Tensor)>>> {
            let Some(arrays) = rows.bind(py).clone().next().transpose()? else { return Ok(None) };
            let tensors = arrays.extract::<Arrays>()?.into_iter().map(|(offsets, values)| {
                let (offsets, values) = (offsets.as_ref().map(over_array).transpose()?, over_array(&values)?);
                let fits = offsets.as_ref().is_none_or(|o| o.dtype() == DType::I64);
                match values.dtype() {
                    DType::F32 | DType::I64 if fits => Ok((offsets, values)),
                    _ => Err(PyTypeError::new_err("columns are arrays of int64 or float32, offsets of int64")),
                }
            });
            tensors.collect::<PyResult<_>>().map(Some)
        };
        while !stop.asked() {
            let Some(held) = attached_until_exit(next).ok_or_else(ended)?.map_err(wrap)? else { break };
            let columns = held.iter().map(|(offsets, values)| Column {
                offsets: offsets.as_ref().map(Tensor::data),
                values: if values.dtype() == DType::F32 {
                    Values::Floats(values.data())
                } else {
                    Values::Ints(values.data())
                },
            });
            let block = columns::block(desc, &columns.collect::<Vec<_>>(), first);
            let block = block.map_err(|e| Error::new(e.kind(), format!("{path}: {}", e.message())))?;
            first += block.len();
            if !block.is_empty() {
                take(block)?;
            }
        }
        Ok(())
    })
}

#[pymethods]
impl PyFeed {
    /// A slot is (name, is it float, is it dense, is it used, shape).
    #[new]
    #[pyo3(signature = (slots, batch_size, whole_batches, drop_zeros, ids, contents, files, pipe_command, download_command, columns=None))]
    fn new(
        py: Python<'_>,
        slots: Vec<(String, bool, bool, bool, Vec<i64>)>,
        batch_size: i64,
        whole_batches: bool,
        drop_zeros: bool,
        ids: bool,
        contents: bool,
        files: Vec<String>,
        pipe_command: String,
        download_command: String,
        columns: Option<Py<PyAny>>,
    ) -> PyResult<PyFeed> {
        let slots =
            slots.into_iter().map(|(name, float, dense, used, shape)| Slot::new(name, float, dense, used, shape));
        let slots = slots.collect::<Result<_>>().or_raise()?;
        let desc = Desc::new(slots, batch_size, whole_batches, drop_zeros, ids, contents).or_raise()?;
        if columns.is_some() {
            wait_at_exit(py)?;
        }
        let reading = Reading { files, pipe_command, download_command, columns: columns.map(column_reader) };
        Ok(PyFeed { desc: Arc::new(desc), reading: Arc::new(reading) })
    }

    /// The names of the slots in use.
    fn names(&self) -> Vec<String> {
        self.desc.used().map(|s| s.name.clone()).collect()
    }

    /// Batches of the files as they are read, on this number of threads.
    fn stream(&self, threads: usize) -> PyResult<Vec<PyBatches>> {
        let stop = Arc::new(Stop::default());
        let all = oar_data::stream::streams(&self.desc, &self.reading, threads, &stop).or_raise()?;
        Ok(all.into_iter().map(|b| PyBatches::new(b, &stop)).collect())
    }
}

/// Instances in memory.
#[pyclass(name = "Memory", module = "paddle._core.feed", frozen)]
struct PyMemory {
    held: RwLock<Memory>,
    /// The flag that stops the load in progress.
    stop: Mutex<Arc<Stop>>,
    /// Integers of the last load; counted until they are cleared or loaded again.
    loaded: AtomicUsize,
}

/// The integers that all data sets of this process have loaded and not cleared.
static LOADED: AtomicUsize = AtomicUsize::new(0);

impl Drop for PyMemory {
    fn drop(&mut self) {
        self.count(0);
    }
}

impl PyMemory {
    /// Locks the instances for reading; an error unless they have these slots.
    fn fitting(&self, feed: &Bound<'_, PyFeed>) -> PyResult<parking_lot::RwLockReadGuard<'_, Memory>> {
        let held = self.held.read();
        held.check(&feed.get().desc).or_raise()?;
        Ok(held)
    }

    fn count(&self, integers: usize) {
        LOADED.fetch_add(integers, Relaxed);
        LOADED.fetch_sub(self.loaded.swap(integers, Relaxed), Relaxed);
    }

    fn from_memory(held: Memory) -> PyMemory {
        PyMemory { held: RwLock::new(held), stop: Mutex::default(), loaded: AtomicUsize::new(0) }
    }

    fn change(&self, py: Python<'_>, f: impl FnOnce(&mut Memory) + Send) {
        py.detach(|| f(&mut self.held.write()));
    }
}

#[pymethods]
impl PyMemory {
    #[new]
    fn new() -> PyMemory {
        PyMemory::from_memory(Memory::default())
    }

    fn __len__(&self) -> usize {
        self.held.read().len()
    }

    /// Replaces the instances by those of the files.
    fn load(&self, py: Python<'_>, feed: &Bound<'_, PyFeed>, threads: usize) -> PyResult<()> {
        let (desc, reading) = (feed.get().desc.clone(), feed.get().reading.clone());
        let stop = Arc::new(Stop::default());
        *self.stop.lock() = stop.clone();
        py.detach(|| {
            let loaded = Memory::load(&desc, &reading, threads, &stop)?;
            if stop.asked() {
                bail!(Unavailable, "loading the data set was called off");
            }
            self.count(loaded.integers());
            *self.held.write() = loaded;
            Ok(())
        })
        .or_raise()
    }

    /// Stops a load in another thread.
    fn call_off(&self, py: Python<'_>) {
        let stop = self.stop.lock().clone();
        py.detach(|| stop.ask());
    }

    fn clear(&self, py: Python<'_>) {
        self.count(0);
        self.change(py, |m| *m = Memory::default());
    }

    fn shuffle(&self, py: Python<'_>) {
        self.change(py, Memory::shuffle);
    }

    /// Merges instances with one id; returns what was left out: (id, count, reason).
    fn merge(&self, py: Python<'_>, feed: &Bound<'_, PyFeed>, size: usize) -> PyResult<Vec<(String, usize, String)>> {
        drop(self.fitting(feed)?);
        let desc = feed.get().desc.clone();
        Ok(py.detach(|| {
            let mut held = self.held.write();
            let (merged, dropped) = held.merged(&desc, size);
            *held = merged;
            dropped
        }))
    }

    /// These instances with the values of some slots taken from others.
    fn slots_shuffled(
        &self,
        py: Python<'_>,
        feed: &Bound<'_, PyFeed>,
        slots: Vec<String>,
        candidates: usize,
    ) -> PyResult<PyMemory> {
        drop(self.fitting(feed)?);
        let desc = feed.get().desc.clone();
        let held = py.detach(|| self.held.read().slots_shuffled(&desc, &slots, candidates)).or_raise()?;
        Ok(PyMemory::from_memory(held))
    }

    /// A copy, which shares the values.
    fn copy(&self) -> PyMemory {
        PyMemory::from_memory(self.held.read().clone())
    }

    /// The distinct integers, by their remainder modulo `shards`.
    fn distinct(&self, py: Python<'_>, shards: u64) -> Vec<Vec<u64>> {
        py.detach(|| {
            let mut dealt = vec![Vec::new(); shards.max(1) as usize];
            for v in self.held.read().distinct() {
                dealt[(v % shards.max(1)) as usize].push(v);
            }
            dealt
        })
    }

    /// The instances as a message to each of `parts` trainers.
    fn deal<'py>(
        &self,
        py: Python<'py>,
        feed: &Bound<'_, PyFeed>,
        parts: usize,
        by_id: bool,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        drop(self.fitting(feed)?);
        let desc = feed.get().desc.clone();
        let messages = py.detach(|| self.held.read().deal(&desc, parts, by_id));
        Ok(messages.iter().map(|m| PyBytes::new(py, m)).collect())
    }

    /// Replaces the instances by those of the messages.
    fn take(&self, py: Python<'_>, feed: &Bound<'_, PyFeed>, messages: Vec<Bound<'_, PyBytes>>) -> PyResult<()> {
        let messages: Vec<&[u8]> = messages.iter().map(|m| m.as_bytes()).collect();
        let desc = feed.get().desc.clone();
        let taken = py.detach(|| Memory::take(&desc, &messages)).or_raise()?;
        *self.held.write() = taken;
        Ok(())
    }

    fn batches(&self, feed: &Bound<'_, PyFeed>, threads: usize) -> PyResult<Vec<PyBatches>> {
        let stop = Arc::new(Stop::default());
        let all = self.fitting(feed)?.batches(&feed.get().desc, threads, &stop);
        Ok(all.into_iter().map(|b| PyBatches::new(b, &stop)).collect())
    }
}

/// One thread's batches.
#[pyclass(name = "Batches", module = "paddle._core.feed", frozen)]
struct PyBatches {
    inner: Mutex<Option<Box<dyn Batches>>>,
    stop: Arc<Stop>,
}

impl PyBatches {
    fn new(inner: Box<dyn Batches>, stop: &Arc<Stop>) -> PyBatches {
        PyBatches { inner: Mutex::new(Some(inner)), stop: stop.clone() }
    }

    fn next_batch(&self) -> Result<Option<Batch>> {
        match self.inner.lock().as_mut() {
            Some(batches) => batches.next(),
            None => Ok(None),
        }
    }
}

#[pymethods]
impl PyBatches {
    /// The next batch: how many instances, and a LoDTensor for each slot. None after the last.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<(usize, Bound<'py, PyList>)>> {
        let Some(batch) = py.detach(|| self.next_batch()).or_raise()? else { return Ok(None) };
        let tensors = batch.values.into_iter().map(|v| handle(py, v)).collect::<PyResult<Vec<_>>>()?;
        Ok(Some((batch.instances, PyList::new(py, tensors)?)))
    }

    /// Stops the readers of all batches of this stream.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            self.stop.ask();
            *self.inner.lock() = None;
        });
    }
}

/// Trains block 0 of a Program over batches, a thread for each of `batches` with its scope of `scopes`. The first
/// thread calls `report(batch, values)` with the fetched values at every `period`th batch (0: never).
#[pyfunction]
#[pyo3(signature = (executor, program, root, scopes, names, batches, fetches, period, report, watched, passes=None))]
fn train(
    py: Python<'_>,
    executor: &Bound<'_, PyExecutor>,
    program: &Bound<'_, PyProgramDesc>,
    root: &Bound<'_, PyScope>,
    scopes: Vec<Bound<'_, PyScope>>,
    names: Vec<String>,
    batches: Vec<Bound<'_, PyBatches>>,
    fetches: Vec<String>,
    period: u64,
    report: Py<PyAny>,
    watched: Vec<String>,
    passes: Option<&str>,
) -> PyResult<()> {
    let how = How::with_passes(passes.map_or(Ok(Passes::ALL), Passes::parse).or_raise()?);
    let program = program.get().program().clone();
    let (executor, root) = (executor.get(), root.get().0.clone());
    let batches: Vec<&PyBatches> = batches.iter().map(|b| b.get()).collect();
    let scopes: Vec<_> = scopes.iter().map(|s| s.get().0.clone()).collect();
    let run = |scope: &Arc<_>, values: Vec<Value>, fetches: &[String]| {
        let run = || executor.inner.run(&program, scope, &names, values, fetches, how);
        match backend::is_active() {
            true => backend::on(executor.device, run),
            false => run(),
        }
    };
    let report = |batch: u64, values: Vec<Value>| {
        crate::gil::attached(|py| {
            let values = values.into_iter().map(|v| handle(py, v.share().or_raise()?)).collect::<PyResult<Vec<_>>>()?;
            report.call1(py, (batch, values)).map(drop)
        })
        .map_err(wrap)
    };
    let call_off = || batches.iter().for_each(|b| b.stop.ask());
    let work = Work {
        program: &program,
        run: &run,
        fetches: &fetches,
        period,
        report: &report,
        watched: &watched,
        call_off: &call_off,
    };
    let threads = scopes.into_iter().zip(&batches).map(|(scope, batches)| {
        let next: Next = Box::new(move || Ok(batches.next_batch()?.map(|b| b.values)));
        (scope, next)
    });
    py.detach(|| hogwild::train(&work, &root, threads.collect())).or_raise()
}

/// The number of integers that data sets in memory have loaded.
#[pyfunction]
fn integers_in_memory() -> usize {
    LOADED.load(Relaxed)
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = PyModule::new(m.py(), "feed")?;
    module.add_class::<PyFeed>()?;
    module.add_class::<PyMemory>()?;
    module.add_class::<PyBatches>()?;
    module.add_function(wrap_pyfunction!(train, &module)?)?;
    module.add_function(wrap_pyfunction!(integers_in_memory, &module)?)?;
    m.add_submodule(&module)
}
