//! Devices besides the CPU. A backend holds memory and runs the operators that it has a twin of; the rest run on the
//! CPU with their operands copied there and back. As long as no backend is registered a call pays one relaxed load.

use super::run::{self, Env, Out};
use super::{Args, Attrs, Kernel, Meta, Op};
use crate::base::{DType, Result};
use crate::tensor::{SelectedRows, Tensor, Value};
use parking_lot::RwLock;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::sync::Arc;

/// A kind of device. What it allocates is given back when the last tensor over it is dropped.
pub trait Backend: Send + Sync {
    /// A tensor of some elements on a device.
    fn alloc(&self, device: i32, dtype: DType, dims: &[i64]) -> Result<Tensor>;
    /// The tensor copied to a device, or to the host (`None`).
    fn copy(&self, t: &Tensor, to: Option<i32>) -> Result<Tensor>;
    /// Is there a twin of this operator?
    fn has(&self, op: &str) -> bool;
    /// Runs a segment: calls of operators that have twins, in order. A call that its twin does not take (a data type,
    /// an option) stays with `ran` false, and so do those behind it.
    fn run(&self, segment: &mut [DeviceCall]) -> Result<()>;
    /// Runs several segments at the price of one entry.
    fn enter(&self, f: &mut dyn FnMut() -> Result<()>) -> Result<()>;
    /// Gives back what was dropped since the last call; returns how many blocks.
    fn drain(&self) -> usize;
    /// An operator runs on the CPU instead; says so the first time.
    fn lacks(&self, op: &'static Op) -> Result<()>;
}

/// One call for a backend. Dense inputs are on the device, or have a shape only.
pub struct DeviceCall<'a> {
    pub op: &'static Op,
    pub attrs: &'a Attrs,
    pub device: i32,
    pub ins: &'a Args,
    pub outs: &'a mut Args<Out>,
    /// What the shape rule says of the outputs.
    pub metas: &'a Args<Meta>,
    pub ran: bool,
}

static ACTIVE: AtomicBool = AtomicBool::new(false);
static BACKEND: RwLock<Option<Arc<dyn Backend>>> = RwLock::new(None);
/// Where operators without operands on a device run; -1 is the CPU.
static CURRENT: AtomicI32 = AtomicI32::new(CPU);
const CPU: i32 = -1;
const NOT_SAID: i32 = -2;

thread_local! {
    /// The same for a run of an executor on this thread.
    static RUN: Cell<i32> = const { Cell::new(NOT_SAID) };
}

/// Registers the backend, or (`None`) leaves the CPU alone; returns the former one.
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

/// The device that new tensors go to; `None` is the CPU.
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

fn device_of<'a>(values: impl Iterator<Item = &'a Value>) -> Option<i32> {
    values.filter_map(|v| v.elements()?.on_device()).map(|(memory, _)| memory.device()).next()
}

/// The value with its elements where `copy` puts them.
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

/// The value on a device; what is there already is shared.
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
    let (Some(backend), Some(device), false) =
        (registered(), here.or_else(current), matches!(op.cpu, Kernel::Control(_)))
    else {
        return run::call_cpu(op, attrs, ins, outs, free, env);
    };
    if backend.has(op.name) && run_twin(&*backend, op, attrs, ins, outs, free, device)? {
        return Ok(());
    }
    // Operators that only make values (constants, random numbers) have nothing to copy back first.
    if here.is_some() {
        backend.lacks(op)?;
    }
    for v in ins.flat.iter_mut().chain(outs.flat.iter_mut().map(|o| &mut o.value)) {
        // What is there already stays the very reference that it is: it may be a place to write.
        if v.elements().is_some_and(|t| t.on_device().is_some()) {
            *v = to_host(v)?;
        }
    }
    run::call_cpu(op, attrs, ins, outs, free, env)?;
    for out in outs.flat.iter_mut() {
        out.value = to_device(&*backend, &out.value, device)?;
    }
    Ok(())
}

fn run_twin(
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
    give_lod(op, ins, outs, &metas);
    Ok(true)
}

/// The LoD that the rule said, or for a gradient that of its variable.
fn give_lod(op: &'static Op, ins: &Args, outs: &mut Args<Out>, metas: &Args<Meta>) {
    for (slot, s) in op.outputs.iter().enumerate() {
        let variable = s.name.strip_suffix("@GRAD").and_then(|name| op.input(name));
        for (i, at) in outs.range(slot).enumerate() {
            let said = metas.slot(slot).get(i).filter(|m| m.known);
            if let Value::Dense(t) = &mut outs.flat[at].value {
                t.lod = match said {
                    Some(m) => m.lod.clone(),
                    None => variable.and_then(|v| ins.slot(v).get(i)?.elements()).and_then(|t| t.lod.clone()),
                };
            }
        }
    }
}
