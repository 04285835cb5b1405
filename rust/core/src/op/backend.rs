//! Devices other than the CPU. A backend owns memory and runs the operators for which it has a kernel; the others run
//! on the CPU, with their operands copied there and back. Without a backend a call pays one relaxed load; with one, a
//! call whose operands are on the host while the CPU is the current device runs as without it.

use super::run::{self, Env, Out};
use super::{Args, Attrs, Kernel, Meta, Op};
use crate::base::{DType, Result};
use crate::ir::Attr;
use crate::tensor::{SelectedRows, Tensor, Value};
use parking_lot::RwLock;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::sync::Arc;

/// A kind of device. Its memory is freed when the last tensor over it is dropped.
pub trait Backend: Send + Sync {
    /// An uninitialised tensor on a device.
    fn alloc(&self, device: i32, dtype: DType, dims: &[i64]) -> Result<Tensor>;
    /// The tensor copied to a device, or to the host (`None`).
    fn copy(&self, t: &Tensor, to: Option<i32>) -> Result<Tensor>;
    /// True if the backend has a kernel for this operator.
    fn has(&self, op: &str) -> bool;
    /// Runs a segment: calls, in order, of operators for which the backend has kernels. A call that its kernel refuses
    /// (a data type, an option) stays with `ran` false, and so do the calls after it. An output with a LoD (one without
    /// levels: none) keeps it; others get that of the shape rule.
    fn run(&self, segment: &mut [DeviceCall]) -> Result<()>;
    /// Runs several segments at the cost of one entry.
    fn enter(&self, f: &mut dyn FnMut() -> Result<()>) -> Result<()>;
    /// Frees what was dropped since the last call; returns the number of blocks.
    fn drain(&self) -> usize;
    /// Reports, the first time, that an operator runs on the CPU instead.
    fn lacks(&self, op: &'static Op) -> Result<()>;
    /// From now on keeps what calls of this thread start on a device, in memory that stays theirs; false if the backend
    /// has no graphs.
    fn keep_started(&self, _device: i32) -> Result<bool> {
        Ok(false)
    }
    /// Runs `f`, whose launches are not kept and whose results lie in memory of their own; a graph does not repeat it.
    fn unkept(&self, f: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        f()
    }
    /// The launches kept so far; `None` if since the last call something was started, copied or read that a graph does
    /// not repeat.
    fn kept(&self) -> Option<usize> {
        None
    }
    /// Ends `keep_started`: ranges of the kept launches as a graph each; none if they cannot be captured.
    fn captured(&self, _parts: &[Range<usize>]) -> Result<Vec<Arc<dyn Graph>>> {
        Ok(Vec::new())
    }
    /// A tensor in the memory of what is kept, without the right to that memory: later launches may use it again.
    /// Other tensors are shared.
    fn lent(&self, t: &Tensor) -> Result<Tensor> {
        Ok(t.clone())
    }
    /// The elements of a tensor on a device in memory of its own, or copied over those of `to`, which has its size.
    fn duplicate(&self, t: &Tensor, _to: Option<&Tensor>) -> Result<Tensor> {
        crate::bail!(Unimplemented, "this backend copies no tensor of {t:?} within a device")
    }
}

/// Captured launches; they read and write the memory that they were captured with.
pub trait Graph: Send + Sync {
    fn launch(&self) -> Result<()>;
}

/// One call for a backend. Dense inputs are on the device, or have a shape only.
pub struct DeviceCall<'a> {
    pub op: &'static Op,
    pub attrs: &'a Attrs,
    pub device: i32,
    pub ins: &'a Args,
    pub outs: &'a mut Args<Out>,
    /// The outputs by the shape rule.
    pub metas: &'a Args<Meta>,
    pub ran: bool,
}

static ACTIVE: AtomicBool = AtomicBool::new(false);
static BACKEND: RwLock<Option<Arc<dyn Backend>>> = RwLock::new(None);
/// The device of operators without operands on a device; -1 is the CPU.
static CURRENT: AtomicI32 = AtomicI32::new(CPU);
const CPU: i32 = -1;
const NOT_SAID: i32 = -2;

thread_local! {
    /// The same for a run of an executor on this thread.
    static RUN: Cell<i32> = const { Cell::new(NOT_SAID) };
    /// Calls of this thread that ran on a device.
    static LAUNCHED: Cell<u64> = const { Cell::new(0) };
}

/// Registers the backend, or (`None`) removes it; returns the previous one.
pub fn register(backend: Option<Arc<dyn Backend>>) -> Option<Arc<dyn Backend>> {
    let mut held = BACKEND.write();
    ACTIVE.store(backend.is_some(), Relaxed);
    if backend.is_none() {
        CURRENT.store(CPU, Relaxed);
    }
    std::mem::replace(&mut *held, backend)
}

#[inline]
pub fn is_active() -> bool {
    ACTIVE.load(Relaxed)
}

pub fn registered() -> Option<Arc<dyn Backend>> {
    BACKEND.read().clone()
}

/// The device of new tensors; `None` is the CPU.
pub fn current() -> Option<i32> {
    let run = RUN.get();
    let device = if run == NOT_SAID { CURRENT.load(Relaxed) } else { run };
    (device >= 0).then_some(device)
}

pub fn set_current(device: Option<i32>) {
    CURRENT.store(device.unwrap_or(CPU), Relaxed);
}

/// Runs `f` with another current device on this thread.
pub fn on<T>(device: Option<i32>, f: impl FnOnce() -> T) -> T {
    struct Back(i32);
    impl Drop for Back {
        fn drop(&mut self) {
            RUN.set(self.0);
        }
    }
    let _back = Back(RUN.replace(device.unwrap_or(CPU)));
    f()
}

/// The number of calls of this thread that ran on a device.
pub fn launched() -> u64 {
    LAUNCHED.get()
}

/// The device of the first value that is on one.
pub fn device_of<'a>(mut values: impl Iterator<Item = &'a Value>) -> Option<i32> {
    values.find_map(|v| v.elements()?.on_device().map(|(memory, _)| memory.device()))
}

/// True if an operator on these tensors does not run on the CPU: one of them is on a device, or a device is current.
#[inline]
pub fn serves<'a>(mut tensors: impl Iterator<Item = &'a Tensor>) -> bool {
    is_active() && (current().is_some() || tensors.any(|t| t.on_device().is_some()))
}

/// Operators whose CPU kernel reads no elements of X and shares its bytes, or calls other operators with the tensors of
/// an array: they run on values of any device, without its backend. An index, or a shape that is a tensor, is read on
/// the host.
pub fn passes_on(op: &Op) -> bool {
    matches!(
        op.name,
        "assign"
            | "c_sync_calc_stream"
            | "c_sync_comm_stream"
            | "flatten"
            | "flatten2"
            | "flatten2_grad"
            | "flatten_contiguous_range"
            | "flatten_contiguous_range_grad"
            | "flatten_grad"
            | "lod_array_length"
            | "lod_reset"
            | "read_from_array"
            | "reshape"
            | "reshape2"
            | "reshape2_grad"
            | "reshape2_grad_grad"
            | "reshape_grad"
            | "shape"
            | "squeeze"
            | "squeeze2"
            | "squeeze2_grad"
            | "squeeze_grad"
            | "tensor_array_to_tensor"
            | "tensor_array_to_tensor_grad"
            | "unsqueeze"
            | "unsqueeze2"
            | "unsqueeze2_grad"
            | "unsqueeze_grad"
            | "write_to_array"
    )
}

/// True if the attributes place the result in host memory.
fn is_forced_to_host(op: &Op, attrs: &Attrs) -> bool {
    let value = |name| op.attrs.field(name).map(|at| attrs.get(at));
    matches!(value("force_cpu"), Some(Attr::Boolean(true)))
        || op.name == "fill_constant" && matches!(value("place_type"), Some(Attr::Int(0 | 2)))
}

/// The value with its elements copied by `copy`.
fn moved(value: &Value, copy: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Value> {
    Ok(match value {
        Value::Dense(t) if t.has_bytes() => Value::Dense(copy(t)?),
        Value::Rows(r) => SelectedRows { rows: r.rows.clone(), height: r.height, value: copy(&r.value)? }.into(),
        other => other.clone(),
    })
}

/// The value on the host.
pub fn to_host(value: &Value) -> Result<Value> {
    moved(value, Tensor::on_host)
}

/// The value on a device; shared if it is there already.
pub fn to_device(backend: &dyn Backend, value: &Value, device: i32) -> Result<Value> {
    moved(value, |t| match t.on_device() {
        Some((memory, _)) if memory.device() == device => Ok(t.clone()),
        _ => Ok(backend.copy(t, Some(device))?.with_lod(t.lod.clone())),
    })
}

/// [`run::call_cpu`] while a backend is registered.
#[cold]
#[inline(never)]
pub fn call(
    op: &'static Op,
    attrs: &Attrs,
    ins: &mut Args,
    outs: &mut Args<Out>,
    free: bool,
    env: &dyn Env,
) -> Result<()> {
    let here = device_of(ins.flat.iter().chain(outs.flat.iter().map(|o| &o.value)));
    let Some(device) = here.or_else(current) else { return run::call_cpu(op, attrs, ins, outs, free, env) };
    if matches!(op.cpu, Kernel::Control(_)) || passes_on(op) {
        return run::call_cpu(op, attrs, ins, outs, free, env);
    }
    let forced = is_forced_to_host(op, attrs);
    // What is on the host during the run of a plan belongs there: feeds are on the device.
    let stays = forced || here.is_none() && RUN.get() != NOT_SAID && ins.flat.iter().any(|v| v.elements().is_some());
    let backend = match registered() {
        Some(backend) if !stays => backend,
        _ => {
            move_to_host(ins, outs)?;
            return run::call_cpu(op, attrs, ins, outs, free, env);
        }
    };
    if backend.has(op.name) && run_launcher(&*backend, op, attrs, ins, outs, free, device)? {
        return Ok(());
    }
    // Operators that only create values (constants, random numbers) have nothing to copy back.
    if here.is_some() {
        backend.lacks(op)?;
    }
    move_to_host(ins, outs)?;
    run::call_cpu(op, attrs, ins, outs, free, env)?;
    for out in outs.flat.iter_mut() {
        out.value = to_device(&*backend, &out.value, device)?;
    }
    Ok(())
}

fn move_to_host(ins: &mut Args, outs: &mut Args<Out>) -> Result<()> {
    for v in ins.flat.iter_mut().chain(outs.flat.iter_mut().map(|o| &mut o.value)) {
        // A value that is there already stays the same reference: it may be preallocated memory.
        if v.elements().is_some_and(|t| t.on_device().is_some()) {
            *v = to_host(v)?;
        }
    }
    Ok(())
}

/// The value `new` of a variable that holds `old`: in the memory that holds the old elements, if there are any.
pub fn placed_like(old: &Value, new: &Value) -> Result<Value> {
    let Some(t) = old.elements().filter(|t| t.has_bytes()) else { return Ok(new.clone()) };
    match (t.on_device(), registered()) {
        (Some((memory, _)), Some(backend)) => to_device(&*backend, new, memory.device()),
        _ => to_host(new),
    }
}

fn run_launcher(
    backend: &dyn Backend,
    op: &'static Op,
    attrs: &Attrs,
    ins: &mut Args,
    outs: &mut Args<Out>,
    free: bool,
    device: i32,
) -> Result<bool> {
    let metas = run::inferred(op, attrs, ins, outs, free)?;
    for v in ins.flat.iter_mut() {
        if v.elements().is_some_and(|t| t.on_device().is_none_or(|(memory, _)| memory.device() != device)) {
            *v = to_device(backend, v, device)?;
        }
    }
    let mut segment = [DeviceCall { op, attrs, device, ins, outs, metas: &metas, ran: false }];
    backend.run(&mut segment)?;
    if !segment[0].ran {
        return Ok(false);
    }
    LAUNCHED.set(LAUNCHED.get() + 1);
    give_lod(op, ins, outs, &metas);
    Ok(true)
}

/// The LoD that the launcher has set, else that by the shape rule, or for a gradient that of its variable.
fn give_lod(op: &'static Op, ins: &Args, outs: &mut Args<Out>, metas: &Args<Meta>) {
    for (slot, s) in op.outputs.iter().enumerate() {
        let variable = s.name.strip_suffix("@GRAD").and_then(|name| op.input(name));
        for (i, at) in outs.range(slot).enumerate() {
            let said = metas.slot(slot).get(i).filter(|m| m.known);
            if let Value::Dense(t) = &mut outs.flat[at].value {
                t.lod = match (t.lod.take(), said) {
                    (Some(set), _) => Some(set).filter(|levels| !levels.is_empty()),
                    (None, Some(m)) => m.lod.clone(),
                    (None, None) => variable.and_then(|v| ins.slot(v).get(i)?.elements()).and_then(|t| t.lod.clone()),
                };
            }
        }
    }
}
