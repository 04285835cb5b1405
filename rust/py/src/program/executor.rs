//! `core.Executor` and the gradient descs of Programs.

use crate::device::place::device_number;
use crate::error::OrRaise;
use crate::program::desc::{PyBlockDesc, PyOpDesc, PyProgramDesc};
use crate::program::scope::{PyScope, PyTensorArray};
use crate::tensor::lod_tensor::PyLoDTensor;
use crate::tensor::numpy::from_array;
use crate::tensor::object::PyTensor;
use crate::tensor::selected_rows::PySelectedRows;
use oar_core::base::interrupt::{interrupted, INTERRUPT};
use oar_core::ensure;
use oar_core::ir::{OpNode, Program};
use oar_core::op::call::call_checked;
use oar_core::op::callbacks::RUN_OP_RANGE;
use oar_core::op::{backend, run, Args};
use oar_core::tensor::{Scope, Value, VarStorage};
use oar_engine::graph::passes::{self, Passes};
use oar_engine::graph::plan::Task;
use oar_engine::graph::{bind, grad_desc, op_range, Executor, How};
use oar_kernels::pool;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

#[pyclass(name = "Executor", module = "paddle.fluid.core", frozen)]
pub struct PyExecutor {
    pub inner: Executor,
    /// The device of its place; `None` is the CPU.
    pub device: Option<i32>,
}

/// The value of a handle, a Tensor or a numpy array.
pub fn value_of(obj: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(t) = obj.cast::<PyLoDTensor>() {
        return Ok(t.get().0.get());
    }
    if let Ok(t) = obj.cast::<PyTensor>() {
        return Ok(t.get().held());
    }
    if let Ok(t) = obj.cast::<PySelectedRows>() {
        return Ok(t.get().0.get());
    }
    if let Ok(t) = obj.cast::<PyTensorArray>() {
        return Ok(t.get().0.get());
    }
    Ok(Value::Dense(from_array(obj)?))
}

/// A value as the handle that Paddle returns for it.
pub fn handle(py: Python<'_>, value: Value) -> PyResult<Py<PyAny>> {
    let kind = match &value {
        Value::Rows(_) => 1,
        Value::Array(_) => 2,
        _ => 0,
    };
    let cell = Arc::new(VarStorage::new(value));
    Ok(match kind {
        1 => Bound::new(py, PySelectedRows(cell))?.into_any().unbind(),
        2 => Bound::new(py, PyTensorArray(cell))?.into_any().unbind(),
        _ => Bound::new(py, PyLoDTensor(cell))?.into_any().unbind(),
    })
}

#[pymethods]
impl PyExecutor {
    #[new]
    #[pyo3(signature = (place=None))]
    fn new(place: Option<&Bound<'_, PyAny>>) -> PyResult<PyExecutor> {
        let device = place.map(device_number).transpose()?.flatten();
        Ok(PyExecutor { inner: Executor::new(), device })
    }

    /// Runs block 0 of a Program; returns LoDTensors (SelectedRows, LoDTensorArrays) for the fetched names. `passes`
    /// (names separated by commas) restricts the passes over the plan; operators may run on `threads` threads in
    /// parallel, even where one of them uses fewer. `kernel_threads` is the number of threads of one operator (0: that
    /// of the process).
    #[pyo3(signature = (
        program, scope, feed_names, feed_tensors, fetch_names, passes=None, threads=0, kernel_threads=0
    ))]
    #[allow(clippy::too_many_arguments)] // Paddle's five, and options of the plan
    fn run(
        &self,
        py: Python<'_>,
        program: &Bound<'_, PyProgramDesc>,
        scope: &Bound<'_, PyScope>,
        feed_names: Vec<String>,
        feed_tensors: Vec<Bound<'_, PyAny>>,
        fetch_names: Vec<String>,
        passes: Option<&str>,
        threads: usize,
        kernel_threads: usize,
    ) -> PyResult<Vec<Py<PyAny>>> {
        let how = How { passes: passes.map_or(Ok(Passes::ALL), Passes::parse).or_raise()?, threads };
        let (program, scope) = (program.get().program().clone(), scope.get().0.clone());
        self.call(py, &Call { program, scope, feed_names, fetch_names, how, kernel_threads }, feed_tensors)
    }

    /// `run` with these arguments, as a function of the feed tensors.
    fn bound(
        slf: Py<PyExecutor>,
        program: &Bound<'_, PyProgramDesc>,
        scope: &Bound<'_, PyScope>,
        feed_names: Vec<String>,
        fetch_names: Vec<String>,
        kernel_threads: usize,
    ) -> PyBoundRun {
        let (program, scope) = (program.get().program().clone(), scope.get().0.clone());
        let how = How::with_passes(Passes::ALL);
        PyBoundRun { executor: slf, call: Call { program, scope, feed_names, fetch_names, how, kernel_threads } }
    }

    /// The plan of block 0: `tasks` (the operators of each task), `dropped` (removed operators), `over` (the variables
    /// over which results may be written), `after` (for each task those it waits for; empty for a chain).
    #[pyo3(signature = (program, feed_names, fetch_names, passes=None))]
    fn plan<'py>(
        &self,
        py: Python<'py>,
        program: &Bound<'_, PyProgramDesc>,
        feed_names: Vec<String>,
        fetch_names: Vec<String>,
        passes: Option<&str>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let passes = passes.map_or_else(passes::current, Passes::parse).or_raise()?;
        let plan = self.inner.plan(program.get().program(), 0, &feed_names, &fetch_names, passes).or_raise()?;
        let names = |range: std::ops::Range<usize>| plan.steps[range].iter().map(|s| s.op.name).collect::<Vec<_>>();
        let tasks = plan.tasks.iter().map(|task| match *task {
            Task::Step(i) => names(i..i + 1),
            Task::Group(g) => names(plan.groups[g].steps.clone()),
        });
        let taken = plan.groups.iter().flat_map(|g| g.externals.iter().filter(|e| e.take));
        let d = PyDict::new(py);
        d.set_item("tasks", tasks.collect::<Vec<_>>())?;
        d.set_item("dropped", plan.dropped.clone())?;
        d.set_item("over", taken.map(|e| plan.vars[e.var as usize].name.as_str()).collect::<Vec<_>>())?;
        d.set_item("after", plan.schedule.after.clone())?;
        d.set_item("barriers", plan.schedule.barrier.clone())?;
        Ok(d)
    }

    fn close(&self) {}
}

/// The arguments of a run but the values of its feeds.
struct Call {
    program: Arc<Program>,
    scope: Arc<Scope>,
    feed_names: Vec<String>,
    fetch_names: Vec<String>,
    how: How,
    kernel_threads: usize,
}

impl PyExecutor {
    fn call(&self, py: Python<'_>, call: &Call, feed_tensors: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<Py<PyAny>>> {
        if call.feed_names.len() != feed_tensors.len() {
            return Err(pyo3::exceptions::PyValueError::new_err("as many feed tensors as feed names are needed"));
        }
        let values = feed_tensors.iter().map(|f| value_of(f)?.share().or_raise()).collect::<PyResult<Vec<_>>>()?;
        let run = || {
            pool::with_threads(call.kernel_threads, || {
                self.inner.run(&call.program, &call.scope, &call.feed_names, values, &call.fetch_names, call.how)
            })
        };
        let run = || if backend::is_active() { backend::on(self.device, run) } else { run() };
        let fetched = crate::gil::detached(py, run).or_raise()?;
        fetched.into_iter().map(|v| handle(py, v.share().or_raise()?)).collect()
    }
}

#[pyclass(name = "BoundRun", module = "paddle._core", frozen)]
struct PyBoundRun {
    executor: Py<PyExecutor>,
    call: Call,
}

#[pymethods]
impl PyBoundRun {
    fn __call__(&self, py: Python<'_>, feed_tensors: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<Py<PyAny>>> {
        self.executor.get().call(py, &self.call, feed_tensors)
    }
}

/// The passes over plans that this process uses; given names (separated by commas; `all`, `none`) replace them.
#[pyfunction]
#[pyo3(signature = (names=None))]
fn plan_passes(names: Option<&str>) -> PyResult<Vec<&'static str>> {
    if let Some(names) = names {
        passes::set_current(Passes::parse(names).or_raise()?);
    }
    Ok(passes::current().or_raise()?.names())
}

/// The gradient operators of an OpDesc and the owner of every gradient variable they write.
#[pyfunction]
#[pyo3(signature = (op_desc, no_grad_set, grad_sub_blocks=vec![]))]
fn get_grad_op_desc(
    op_desc: &Bound<'_, PyOpDesc>,
    no_grad_set: HashSet<String>,
    grad_sub_blocks: Vec<Bound<'_, PyBlockDesc>>,
) -> PyResult<(Vec<PyOpDesc>, BTreeMap<String, String>)> {
    let desc = op_desc.get().node().read().clone();
    let blocks: Vec<_> = grad_sub_blocks.iter().map(|b| b.get().node().clone()).collect();
    let (descs, owners) = grad_desc::grad_descs(&desc, &no_grad_set, &blocks).or_raise()?;
    let descs = descs
        .into_iter()
        .map(|d| {
            let node = OpNode::alone();
            node.modify(|n| *n = d);
            PyOpDesc::new(node, None)
        })
        .collect();
    Ok((descs, owners))
}

/// Writes an output; as in Paddle a dense one replaces the value of a variable that was created as SelectedRows.
fn store(cell: &VarStorage, value: Value) -> oar_core::base::Result<()> {
    match (&mut *cell.lock(), value) {
        (_, Value::None) => {}
        (Value::Rows(r), Value::Dense(t)) => {
            ensure!(t.rank() > 0, InvalidArgument, "the value of SelectedRows needs at least one dimension");
            r.value = t;
        }
        (held, value) => *held = value,
    }
    Ok(())
}

/// Runs one OpDesc on the variables of a scope (tests of single operators).
#[pyfunction]
fn run_op(py: Python<'_>, op_desc: &Bound<'_, PyOpDesc>, scope: &Bound<'_, PyScope>) -> PyResult<()> {
    let desc = op_desc.get().node().read().clone();
    let scope = scope.get().0.clone();
    crate::gil::detached(py, || -> oar_core::base::Result<()> {
        let op = bind::find_op(&desc.op_type)?;
        let attrs = op.attrs.parse(op.name, &desc.attrs)?;
        let find = |n: &String| scope.find(n).unwrap_or_else(|| scope.var(n));
        let mut ins = Args::new();
        for s in op.inputs {
            ins.push_slot(desc.input(s.name).unwrap_or(&[]).iter().map(|n| find(n).get()));
        }
        let (mut outs, mut cells) = (Args::new(), Vec::new());
        for s in op.outputs {
            let names = desc.output(s.name).unwrap_or(&[]);
            outs.push_slot(names.iter().map(|_| run::Out::wanted(true)));
            cells.extend(names.iter().map(find));
        }
        call_checked(op, &attrs, &mut ins, &mut outs, false, &run::NoEnv)?;
        drop(ins);
        for (cell, out) in cells.iter().zip(outs.flat) {
            store(cell, out.value)?;
        }
        Ok(())
    })
    .or_raise()?;
    Ok(())
}

/// Polls Python for a signal that interrupts the run.
fn check_signals() -> oar_core::base::Result<()> {
    crate::gil::attached(|py| py.check_signals().map_err(|e| interrupted().with_cause(Box::new(e))))
}

/// True if the operator has a gradient.
#[pyfunction]
fn has_non_empty_grad_op_maker(op_type: &str) -> bool {
    oar_core::op::table::lookup(op_type).is_some_and(|op| !matches!(op.grad, oar_core::op::Grad::None))
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    bind::connect();
    let _ = INTERRUPT.set(check_signals);
    let _ = RUN_OP_RANGE.set(op_range::run);
    m.add_class::<PyExecutor>()?;
    m.add_class::<crate::program::static_call::PyStaticCall>()?;
    m.add_function(wrap_pyfunction!(get_grad_op_desc, m)?)?;
    m.add_function(wrap_pyfunction!(plan_passes, m)?)?;
    m.add_function(wrap_pyfunction!(has_non_empty_grad_op_maker, m)?)?;
    m.add_function(wrap_pyfunction!(run_op, m)?)
}
