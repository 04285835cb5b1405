//! Eager mode: backward, recording, static mode, allocator statistics.

use crate::error::{wrap, OrRaise};
use crate::gil::{attached, detached};
use crate::tensor::object::PyTensor;
use oar_core::base::{fork, DType, Result};
use oar_core::ir::Program;
use oar_core::op::run::{Env, NoEnv, LARGE};
use oar_core::op::{Args, Attrs, Op};
use oar_core::tensor::{alloc, Tensor, Value, VarStorage};
use oar_engine::autograd::engine::{self, Request};
use oar_engine::autograd::linear::linear as product_and_bias;
use oar_engine::autograd::tape::next_number;
use oar_engine::autograd::{autocast, eager, segment, trace, EagerVar};
use pyo3::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

#[inline]
pub fn is_large(t: &Tensor) -> bool {
    t.nbytes() > LARGE
}

/// The environment of a call that starts with the GIL.
struct Attached;

impl Env for Attached {
    fn release_gil(&self, kernel: &mut (dyn FnMut() + Send)) {
        fork::outside(|| Python::attach(|py| detached(py, kernel)));
    }
}

/// The environment of a call with a block of a Program among its attributes.
pub struct InBlock {
    pub program: Arc<Program>,
    /// The variables by slot, with their names.
    pub operands: Vec<(&'static str, Vec<(String, Arc<VarStorage>)>)>,
}

impl InBlock {
    fn slot(&self, slot: &str) -> &[(String, Arc<VarStorage>)] {
        self.operands.iter().find(|(name, _)| *name == slot).map_or(&[], |(_, list)| list)
    }
}

impl Env for InBlock {
    fn program(&self) -> Option<Arc<Program>> {
        Some(self.program.clone())
    }

    fn names(&self, slot: &str) -> Vec<String> {
        self.slot(slot).iter().map(|(name, _)| name.clone()).collect()
    }

    fn cell(&self, slot: &str, i: usize) -> Option<Arc<VarStorage>> {
        self.slot(slot).get(i).map(|(_, cell)| cell.clone())
    }
}

/// True for operators that may wait: for other processes, the disk, or the random generator.
#[inline]
fn waits(op: &Op) -> bool {
    !op.is_pure()
}

/// Runs an eager call; large ones, and those that may wait, release the GIL.
#[inline]
pub fn run(
    py: Python<'_>,
    op: &'static Op,
    attrs: &Attrs,
    ins: &eager::Ins,
    targets: &Args<eager::Destination>,
    free: bool,
) -> Result<Args<Option<EagerVar>>> {
    run_sized(py, op, attrs, ins, targets, free, any_large(ins))
}

/// [`run`] for callers that know whether the inputs are large.
#[inline]
pub fn run_sized(
    py: Python<'_>,
    op: &'static Op,
    attrs: &Attrs,
    ins: &eager::Ins,
    targets: &Args<eager::Destination>,
    free: bool,
    large: bool,
) -> Result<Args<Option<EagerVar>>> {
    if large || waits(op) {
        detached(py, || eager::call(op, attrs, ins, targets, free, &NoEnv))
    } else {
        eager::call(op, attrs, ins, targets, free, &Attached)
    }
}

/// [`run_sized`] for an operator with one plain output.
#[inline]
pub fn plain_sized(
    py: Python<'_>,
    op: &'static Op,
    attrs: &Attrs,
    ins: &eager::Ins,
    large: bool,
) -> Result<Option<EagerVar>> {
    if large || waits(op) {
        detached(py, || eager::call_plain(op, attrs, ins, &NoEnv))
    } else {
        eager::call_plain(op, attrs, ins, &Attached)
    }
}

/// True if an input is so large that the call should release the GIL.
pub fn any_large(ins: &eager::Ins) -> bool {
    ins.flat.iter().flatten().any(|v| match &*v.cell.lock() {
        Value::Dense(t) => is_large(t),
        Value::None => false,
        _ => true,
    })
}

/// `x @ weight + bias` in one call; None if the two operators have to be called (see `oar_engine::autograd::linear`).
#[pyfunction]
fn linear<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    weight: &Bound<'py, PyAny>,
    bias: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyTensor>>> {
    let (Ok(x), Ok(weight), Ok(bias)) = (x.cast::<PyTensor>(), weight.cast::<PyTensor>(), bias.cast::<PyTensor>())
    else {
        return Ok(None);
    };
    let [x, weight, bias] = [x, weight, bias].map(|t| &t.get().var);
    let mut ins: eager::Ins = Args::new();
    [x, weight].iter().for_each(|v| ins.push_one(Some(v)));
    let made = if any_large(&ins) {
        detached(py, || product_and_bias(x, weight, bias, &NoEnv))
    } else {
        product_and_bias(x, weight, bias, &Attached)
    };
    made.or_raise()?.map(|v| PyTensor::wrap(py, v)).transpose()
}

static STATIC_MODE: AtomicU8 = AtomicU8::new(0);
/// Bits of `STATIC_MODE`.
const STATIC: u8 = 1;
const SOME_THREAD: u8 = 2;
static APPEND: Mutex<Option<Py<PyAny>>> = Mutex::new(None);
static VARIABLE_OF: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

thread_local! {
    /// The mode of a thread that builds a Program; other threads stay in the process's mode meanwhile.
    static MODE: Cell<Option<bool>> = const { Cell::new(None) };
}

#[inline]
pub fn is_static() -> bool {
    match STATIC_MODE.load(Relaxed) {
        0 => false,
        STATIC => true,
        mode => MODE.get().unwrap_or(mode & STATIC != 0),
    }
}

/// True if this thread has a mode of its own: it builds a Program from dygraph code.
#[inline]
pub fn is_building() -> bool {
    STATIC_MODE.load(Relaxed) & SOME_THREAD != 0 && MODE.get() == Some(true)
}

/// The Variable that stands for a Tensor in the Program that this thread builds.
#[cold]
pub fn variable_of<'py>(tensor: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let hook = VARIABLE_OF.lock().unwrap_or_else(|e| e.into_inner()).as_ref().map(|f| f.clone_ref(py));
    match hook {
        Some(hook) => hook.bind(py).call1((tensor,)),
        None => Ok(tensor.clone().into_any()),
    }
}

/// The Python function that appends an operator to the current block.
pub fn append_hook(py: Python<'_>) -> PyResult<Py<PyAny>> {
    APPEND.lock().unwrap_or_else(|e| e.into_inner()).as_ref().map(|f| f.clone_ref(py)).ok_or_else(|| {
        pyo3::exceptions::PyRuntimeError::new_err(
            "static mode is on, but no append function is set (see set_append_hook)",
        )
    })
}

/// Turns static mode on or off; returns the old value. In a thread with a mode of its own it sets that one.
#[pyfunction]
fn set_static_mode(on: bool) -> bool {
    let old = is_static();
    if MODE.get().is_some() {
        MODE.set(Some(on));
    } else if on {
        STATIC_MODE.fetch_or(STATIC, Relaxed);
    } else {
        STATIC_MODE.fetch_and(!STATIC, Relaxed);
    }
    old
}

/// Gives this thread a mode of its own, or that of the process (None); returns the old one. One thread at a time.
#[pyfunction]
#[pyo3(signature = (on))]
fn set_thread_mode(on: Option<bool>) -> Option<bool> {
    if on.is_some() {
        STATIC_MODE.fetch_or(SOME_THREAD, Relaxed);
    } else {
        STATIC_MODE.fetch_and(!SOME_THREAD, Relaxed);
    }
    MODE.replace(on)
}

/// Sets the function that returns the Variable of a Tensor while a Program is built from dygraph code.
#[pyfunction]
fn set_variable_hook(f: Py<PyAny>) {
    *VARIABLE_OF.lock().unwrap_or_else(|e| e.into_inner()) = Some(f);
}

#[pyfunction]
fn in_static_mode() -> bool {
    is_static()
}

/// Sets the function `append(op_type, inputs, attrs, outputs) -> {slot: [variable]}` that builtins call in static mode.
#[pyfunction]
fn set_append_hook(f: Py<PyAny>) {
    *APPEND.lock().unwrap_or_else(|e| e.into_inner()) = Some(f);
}

/// Turns recording of gradients on or off; returns the old value.
#[pyfunction]
fn set_grad_enabled(on: bool) -> bool {
    eager::set_recording(on)
}

#[pyfunction]
fn is_grad_enabled() -> bool {
    eager::is_recording()
}

/// The calls of this thread cast their inputs to `dtype`, a type of half precision, by the lists of operators (see
/// `oar_engine::autograd::autocast`); None: no casts.
#[pyfunction]
#[pyo3(signature = (dtype, white=vec![], black=vec![]))]
fn set_autocast(dtype: Option<&str>, white: Vec<String>, black: Vec<String>) -> PyResult<()> {
    let low = match dtype {
        None => {
            autocast::set(None);
            return Ok(());
        }
        Some("float16") => DType::F16,
        Some("bfloat16") => DType::BF16,
        Some(other) => {
            let text = format!("set_autocast: dtype must be float16 or bfloat16, got {other}");
            return Err(pyo3::exceptions::PyValueError::new_err(text));
        }
    };
    let (white, black) = (white.into_iter().collect(), black.into_iter().collect());
    autocast::set(Some(autocast::Lists { low, white, black }));
    Ok(())
}

fn vars(list: &[Bound<'_, PyTensor>]) -> Vec<EagerVar> {
    list.iter().map(|t| t.get().var.clone()).collect()
}

fn grads(list: Vec<Option<Bound<'_, PyTensor>>>, n: usize) -> Vec<Option<EagerVar>> {
    let mut out: Vec<Option<EagerVar>> = list.into_iter().map(|t| t.map(|t| t.get().var.clone())).collect();
    out.resize_with(n, || None);
    out
}

/// Runs backward from `tensors`; gradients accumulate in the leaves. Without effect if all of them have stop_gradient
/// set, even if they were computed with it unset.
#[pyfunction]
#[pyo3(signature = (tensors, grad_tensors=vec![], retain_graph=false))]
fn run_backward(
    py: Python<'_>,
    tensors: Vec<Bound<'_, PyTensor>>,
    grad_tensors: Vec<Option<Bound<'_, PyTensor>>>,
    retain_graph: bool,
) -> PyResult<()> {
    let outputs = vars(&tensors);
    if outputs.iter().all(EagerVar::stop_gradient) {
        return Ok(());
    }
    let grads = grads(grad_tensors, outputs.len());
    detached(py, || {
        engine::run(&Request {
            outputs: &outputs,
            grads: &grads,
            retain_graph,
            create_graph: false,
            inputs: None,
            stop_at: &[],
            allow_unused: true,
            since: 0,
        })
    })
    .or_raise()?;
    Ok(())
}

/// The gradients of `outputs` with respect to `inputs` only.
#[pyfunction]
fn partial_grad<'py>(
    py: Python<'py>,
    outputs: Vec<Bound<'py, PyTensor>>,
    inputs: Vec<Bound<'py, PyTensor>>,
    grad_outputs: Vec<Option<Bound<'py, PyTensor>>>,
    no_grad_vars: Vec<Bound<'py, PyTensor>>,
    retain_graph: bool,
    create_graph: bool,
    allow_unused: bool,
) -> PyResult<Vec<Option<Bound<'py, PyTensor>>>> {
    let (outputs, inputs, stop_at) = (vars(&outputs), vars(&inputs), vars(&no_grad_vars));
    let grads = grads(grad_outputs, outputs.len());
    let found = detached(py, || {
        engine::run(&Request {
            outputs: &outputs,
            grads: &grads,
            retain_graph,
            create_graph,
            inputs: Some(&inputs),
            stop_at: &stop_at,
            allow_unused,
            since: 0,
        })
    })
    .or_raise()?;
    found.iter().flatten().for_each(trace::given);
    found.into_iter().map(|g| g.map(|g| PyTensor::wrap(py, g)).transpose()).collect()
}

/// The number of the next recorded call.
#[pyfunction]
fn tape_number() -> u64 {
    next_number()
}

/// The tensors `outs` as outputs of one node that stands for all calls from number `since` on; backward calls `again`
/// to compute outputs and number again. None for a tensor that gradients do not flow to.
#[pyfunction]
fn close_segment<'py>(
    py: Python<'py>,
    outs: Vec<Bound<'py, PyTensor>>,
    since: u64,
    again: Py<PyAny>,
) -> PyResult<Vec<Option<Bound<'py, PyTensor>>>> {
    let outs = vars(&outs);
    let again = move || {
        attached(|py| {
            let called = || -> PyResult<_> {
                let (outs, since): (Vec<Bound<'_, PyTensor>>, u64) = again.bind(py).call0()?.extract()?;
                Ok((vars(&outs), since))
            };
            called().map_err(wrap)
        })
    };
    let made = detached(py, || segment::close(&outs, since, again)).or_raise()?;
    made.into_iter().map(|v| v.map(|v| PyTensor::wrap(py, v)).transpose()).collect()
}

/// Bytes in use, their peak, and bytes cached for reuse.
#[pyfunction]
fn memory_stats() -> (usize, usize, usize) {
    let s = alloc::stats();
    (s.in_use, s.peak, s.cached)
}

#[pyfunction]
fn reset_peak_memory() {
    alloc::reset_peak();
}

/// Returns idle memory to the system.
#[pyfunction]
fn empty_cache() {
    alloc::empty_cache();
}

/// Number of threads of the compute pool.
#[pyfunction]
fn num_threads() -> usize {
    oar_kernels::pool::threads()
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(set_static_mode, m)?)?;
    m.add_function(wrap_pyfunction!(set_thread_mode, m)?)?;
    m.add_function(wrap_pyfunction!(set_variable_hook, m)?)?;
    m.add_function(wrap_pyfunction!(in_static_mode, m)?)?;
    m.add_function(wrap_pyfunction!(set_append_hook, m)?)?;
    m.add_function(wrap_pyfunction!(linear, m)?)?;
    m.add_function(wrap_pyfunction!(set_autocast, m)?)?;
    m.add_function(wrap_pyfunction!(set_grad_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(is_grad_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(run_backward, m)?)?;
    m.add_function(wrap_pyfunction!(partial_grad, m)?)?;
    m.add_function(wrap_pyfunction!(tape_number, m)?)?;
    m.add_function(wrap_pyfunction!(close_segment, m)?)?;
    m.add_function(wrap_pyfunction!(memory_stats, m)?)?;
    m.add_function(wrap_pyfunction!(reset_peak_memory, m)?)?;
    m.add_function(wrap_pyfunction!(empty_cache, m)?)?;
    m.add_function(wrap_pyfunction!(num_threads, m)?)
}
