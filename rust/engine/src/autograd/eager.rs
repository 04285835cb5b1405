//! An eager call: read the variables, run the operator, wrap the outputs, record what backward needs.

pub use super::tape::Ins;
use super::tape::{next_number, EagerVar, GradEdge, Node, OutInfo, Saved, SavedVar};
use super::{autocast, trace};
use oar_core::base::{DType, Dims, Result};
use oar_core::op::call::call_checked;
use oar_core::op::infer::shape_of_first;
use oar_core::op::run::{Env, Out};
use oar_core::op::{profile, Args, Attrs, Fwd, Grad, GradOp, Op, SlotFlag, Src};
use oar_core::tensor::{Tensor, Value, VarStorage};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

thread_local! {
    /// True if this thread's calls are recorded; `no_grad` turns it off. Per thread: two overlapping `no_grad` on a
    /// common flag would leave it off.
    static RECORDING: std::cell::Cell<bool> = const { std::cell::Cell::new(true) };
}

pub fn is_recording() -> bool {
    RECORDING.get()
}

/// Sets the flag and returns its old value.
pub fn set_recording(on: bool) -> bool {
    RECORDING.replace(on)
}

/// The destination of an output of an eager call.
pub enum Destination<'a> {
    /// A new variable.
    New,
    /// Unused.
    Skip,
    /// An existing variable.
    Into(&'a EagerVar),
    /// A new variable, computed into the memory of this tensor if it fits.
    Preallocated(Mutex<Option<Tensor>>),
}

/// The outputs of a call that names none: one variable for every slot, or as many as the shape rule states. Outputs
/// that are not returned serve the gradient: they are unused where nothing is recorded.
pub fn default_targets<'a>(op: &Op, ins: &Ins) -> (Args<Destination<'a>>, bool) {
    let recorded = is_recording() && ins.flat.iter().flatten().any(|v| !v.stop_gradient());
    let mut targets = Args::new();
    let mut free = false;
    for s in op.outputs {
        if s.has(SlotFlag::Duplicable) {
            targets.push_slot([]);
            free = true;
        } else {
            targets.push_one(if recorded || !s.has(SlotFlag::NotReturned) {
                Destination::New
            } else {
                Destination::Skip
            });
        }
    }
    (targets, free)
}

/// Runs an operator on eager variables and records it if a gradient is needed.
#[inline]
pub fn call(
    op: &'static Op,
    attrs: &Attrs,
    ins: &Ins,
    targets: &Args<Destination>,
    free: bool,
    env: &dyn Env,
) -> Result<Args<Option<EagerVar>>> {
    if profile::is_casting() {
        if let Some(cast) = autocast::inputs(op, ins, env, compute_plain)? {
            return call_traced(op, attrs, &replaced(ins, &cast), targets, free, env);
        }
    }
    call_traced(op, attrs, ins, targets, free, env)
}

/// The inputs, with those that were cast in place of the given ones.
fn replaced<'a, 'b: 'a>(ins: &Ins<'b>, cast: &'a [Option<EagerVar>]) -> Ins<'a> {
    let mut i = 0;
    ins.map(|v| -> Option<&'a EagerVar> {
        i += 1;
        cast[i - 1].as_ref().or(*v)
    })
}

#[inline]
fn call_traced(
    op: &'static Op,
    attrs: &Attrs,
    ins: &Ins,
    targets: &Args<Destination>,
    free: bool,
    env: &dyn Env,
) -> Result<Args<Option<EagerVar>>> {
    let outs = call_in(op, attrs, ins, targets, free, env, is_recording())?;
    if profile::is_traced() {
        trace::call(op, attrs, ins, &outs);
    }
    Ok(outs)
}

/// True if the operator has one output that is always a new variable, as most have: they take a shorter path.
#[inline]
pub fn is_plain(op: &Op) -> bool {
    matches!(op.outputs, [out] if out.alias.is_none() && !out.has(SlotFlag::Duplicable) && !out.has(SlotFlag::InPlace))
}

/// [`call`] for a plain operator (see [`is_plain`]).
#[inline]
pub fn call_plain(op: &'static Op, attrs: &Attrs, ins: &Ins, env: &dyn Env) -> Result<Option<EagerVar>> {
    if profile::is_casting() {
        if let Some(cast) = autocast::inputs(op, ins, env, compute_plain)? {
            return compute_plain(op, attrs, &replaced(ins, &cast), env);
        }
    }
    compute_plain(op, attrs, ins, env)
}

#[inline(always)]
fn compute_plain(op: &'static Op, attrs: &Attrs, ins: &Ins, env: &dyn Env) -> Result<Option<EagerVar>> {
    let mut values = ins.map(|v| v.map_or(Value::None, |v| v.cell.read()));
    let mut outs = Args::new();
    outs.push_one(Out::wanted(true));
    call_checked(op, attrs, &mut values, &mut outs, false, env)?;
    match std::mem::take(&mut outs.flat[0].value) {
        Value::None => Ok(None),
        value => wrap_plain(op, attrs, ins, value).map(Some),
    }
}

/// The variable of an operator's only output, recorded if a gradient is needed. For callers that computed the value
/// themselves, bit for bit as the operator would have.
#[inline]
pub fn wrap_plain(op: &'static Op, attrs: &Attrs, ins: &Ins, value: Value) -> Result<EagerVar> {
    if profile::is_traced() {
        return wrap_traced(op, attrs, ins, value);
    }
    wrap_recorded(op, attrs, ins, value)
}

#[cold]
fn wrap_traced(op: &'static Op, attrs: &Attrs, ins: &Ins, value: Value) -> Result<EagerVar> {
    let result = wrap_recorded(op, attrs, ins, value)?;
    trace::plain_call(op, attrs, ins, &result);
    Ok(result)
}

#[inline(always)]
fn wrap_recorded(op: &'static Op, attrs: &Attrs, ins: &Ins, value: Value) -> Result<EagerVar> {
    let stop = !(is_recording() && ins.flat.iter().any(|v| v.is_some_and(|v| !v.stop_gradient())));
    let result = EagerVar::new(value, stop);
    if stop || matches!(op.grad, Grad::None | Grad::Program(_)) {
        return Ok(result);
    }
    refuse_overtaken(op, ins)?;
    let mut outs = Args::new();
    outs.push_one(Some(result));
    record_call(op, attrs, ins, &Args::new(), &mut outs)?;
    outs.flat.pop().flatten().ok_or_else(|| oar_core::err!(Fatal, "the output of operator {} is lost", op.name))
}

/// Operands of more bytes take the general path, which may release the GIL.
const QUICK_BYTES: usize = 256 << 10;

/// The shortcut of a call (see `Op::fast_path`), with an operand for each of the first slots. `None`: not applicable.
#[inline]
pub fn call_quick(op: &'static Op, attrs: &Attrs, ins: &[&EagerVar]) -> Option<EagerVar> {
    let fast_path = op.fast_path?;
    if profile::watched() {
        return None;
    }
    if ins.iter().any(|v| v.cell.is_stale()) {
        return None;
    }
    let is_host = |t: &Tensor| !oar_core::op::backend::serves(std::iter::once(t));
    let fits = |v: &EagerVar| v.cell.dense().filter(|t| t.nbytes() <= QUICK_BYTES && is_host(t));
    match *ins {
        [x] => {
            let held = [&fits(x)?];
            let value = fast_path(attrs, &held)?;
            wrap_quick(op, attrs, ins, &held, value)
        }
        [x, y] => {
            let held = [&fits(x)?, &fits(y)?];
            let value = fast_path(attrs, &held)?;
            wrap_quick(op, attrs, ins, &held, value)
        }
        _ => None,
    }
}

#[inline]
fn wrap_quick(op: &'static Op, attrs: &Attrs, ins: &[&EagerVar], held: &[&Tensor], value: Tensor) -> Option<EagerVar> {
    let stop = !(is_recording() && ins.iter().any(|v| !v.stop_gradient()));
    if stop || matches!(op.grad, Grad::None) {
        return Some(EagerVar::new(value, stop));
    }
    let wiring = op.wired()?;
    let (info, lod) = (OutInfo::from_tensor(&value), value.lod.clone());
    let cell = Arc::new(VarStorage::new(value));
    let mut saved = Saved::default();
    if wiring.reads_in != 0 {
        for (i, (v, t)) in ins.iter().zip(held).enumerate() {
            saved.ins.push(if wiring.reads_in >> i & 1 == 0 {
                SavedVar::Absent
            } else if wiring.needs_in >> i & 1 == 0 {
                SavedVar::Shape(OutInfo::from_tensor(t), t.lod.clone())
            } else {
                SavedVar::VarStorage { cell: v.cell.clone(), version: v.cell.version() }
            });
        }
    }
    if wiring.reads_out & 1 == 1 {
        saved.outs.push(match wiring.needs_out & 1 {
            0 => SavedVar::Shape(info.clone(), lod),
            _ => SavedVar::VarStorage { cell: cell.clone(), version: cell.version() },
        });
    }
    let mut outs = Args::new();
    outs.push_one(info);
    if let Some(hidden) = op.outputs.get(1).filter(|s| s.has(SlotFlag::ShapeOfFirst)) {
        debug_assert!(hidden.has(SlotFlag::NotReturned));
        let info = OutInfo { dims: shape_of_first(held[0].dims()), dtype: held[0].dtype() };
        outs.push_one(info.clone());
        if wiring.reads_out >> 1 & 1 == 1 {
            saved.outs.resize(1, SavedVar::Absent);
            saved.outs.push(SavedVar::Shape(info, held[0].lod.clone()));
        }
    }
    let mut edges = Args::new();
    for v in ins {
        edges.push_one((!v.stop_gradient()).then(|| v.track()));
    }
    let node = Node {
        op,
        attrs: attrs.clone(),
        number: next_number(),
        edges,
        outs,
        saved: Mutex::new(Some(saved)),
        ops: None,
        call: None,
        ran: AtomicBool::new(false),
    };
    Some(EagerVar::from_parts(cell, Some(Arc::new(GradEdge::from_output(Arc::new(node), 0))), false))
}

pub fn call_in(
    op: &'static Op,
    attrs: &Attrs,
    ins: &Ins,
    targets: &Args<Destination>,
    free: bool,
    env: &dyn Env,
    recording: bool,
) -> Result<Args<Option<EagerVar>>> {
    let mut outs = targets.map(|t| match t {
        Destination::Skip => Out::wanted(false),
        Destination::Preallocated(place) => Out::preallocated(place.lock().take()),
        _ => Out::wanted(true),
    });
    let mut in_place: SmallVec<[(usize, usize); 4]> = SmallVec::new();
    mark_in_place(op, ins, targets, &mut outs, &mut in_place);
    refuse_leaves(op, ins, targets, recording)?;
    if recording {
        refuse_overtaken(op, ins)?;
    }
    let written = |i: usize, v: &EagerVar| ins.flat[i].is_some_and(|w| Arc::ptr_eq(&w.cell, &v.cell));
    let mut k = 0;
    let mut values = ins.map(|v| {
        let i = k;
        k += 1;
        match v {
            None => Value::None,
            Some(_) if in_place.iter().any(|p| p.0 == i) => Value::None,
            // An input that is also written is read as it was before.
            Some(v) if in_place.iter().any(|p| written(p.0, v)) => v.cell.get(),
            // It may be an alias of a written variable.
            Some(v) if !in_place.is_empty() && v.cell.has_aliases() => v.cell.get(),
            Some(v) => v.cell.read(),
        }
    });
    for &(i, _) in &in_place {
        values.flat[i] = ins.flat[i].map_or(Ok(Value::None), |v| v.cell.write())?;
    }
    for (o, _) in op.outputs.iter().enumerate().filter(|(_, s)| s.has(SlotFlag::InPlace)) {
        for t in targets.range(o) {
            if let Destination::Into(v) = targets.flat[t] {
                outs.flat[t].value = v.cell.get();
            }
        }
    }
    call_checked(op, attrs, &mut values, &mut outs, free, env)?;
    drop(values);
    let needs = ins.flat.iter().any(|v| v.is_some_and(|v| !v.stop_gradient()));
    let stop = !(needs && recording);
    let record = !stop && !matches!(op.grad, Grad::None | Grad::Program(_));
    let mut result = wrap(op, ins, targets, &mut outs, stop, free);
    if record {
        record_call(op, attrs, ins, targets, &mut result)?;
    }
    Ok(result)
}

/// Marks the outputs that are computed in the variable of the input they alias.
fn mark_in_place(
    op: &'static Op,
    ins: &Ins,
    targets: &Args<Destination>,
    outs: &mut Args<Out>,
    in_place: &mut SmallVec<[(usize, usize); 4]>,
) {
    for (o, s) in op.outputs.iter().enumerate() {
        let Some(input) = s.alias.and_then(|name| op.input(name)) else { continue };
        for (i, t) in ins.range(input).zip(targets.range(o)) {
            if let (Some(v), Destination::Into(target)) = (ins.flat[i], &targets.flat[t]) {
                if Arc::ptr_eq(&v.cell, &target.cell) {
                    outs.flat[t].in_place = true;
                    in_place.push((i, t));
                }
            }
        }
    }
}

/// True if this output is written over one of the inputs, other than by the operator's declaration (`ParamOut`).
fn overwrites(op: &Op, slot: usize, ins: &Ins, v: &EagerVar) -> bool {
    op.outputs[slot].alias.is_none() && ins.flat.iter().flatten().any(|x| Arc::ptr_eq(&x.cell, &v.cell))
}

/// True if this output is a statistic that the operator updates (`MeanOut`). It has no history: no gradient flows into
/// it.
fn is_state(op: &Op, slot: usize, ins: &Ins, v: &EagerVar) -> bool {
    let input = op.outputs[slot].alias.filter(|_| slot > 0).and_then(|name| op.input(name));
    v.stop_gradient() && input.is_some_and(|i| ins.slot(i).iter().flatten().any(|x| Arc::ptr_eq(&x.cell, &v.cell)))
}

/// Refuses changing a leaf that needs a gradient in place: the gradient of its old value would be lost.
fn refuse_leaves(op: &Op, ins: &Ins, targets: &Args<Destination>, recording: bool) -> Result<()> {
    if matches!(op.grad, Grad::None | Grad::Program(_)) {
        return Ok(()); // never recorded: there is no gradient to lose
    }
    for slot in 0..targets.slots() {
        for t in targets.slot(slot) {
            let Destination::Into(v) = t else { continue };
            if recording && !v.stop_gradient() && v.is_leaf() && overwrites(op, slot, ins, v) {
                oar_core::bail!(
                    InvalidArgument,
                    "operator {}: a leaf Tensor with stop_gradient=False can not be changed in place: it is an input \
                     and an output of the operator",
                    op.name
                );
            }
        }
    }
    Ok(())
}

/// True if the variable was changed through an alias: its history does not contain the change, so its derivative would
/// be wrong. A leaf has no history.
pub(super) fn is_stale(v: &EagerVar) -> bool {
    v.cell.is_stale() && !v.stop_gradient() && !v.is_leaf()
}

fn refuse_overtaken(op: &Op, ins: &Ins) -> Result<()> {
    let derives = !matches!(op.grad, Grad::None | Grad::Program(_));
    oar_core::ensure!(
        !(derives && ins.flat.iter().flatten().any(|v| is_stale(v))),
        PermissionDenied,
        "operator {}: an input was changed in place through another Tensor that shares its memory (made by reshape, \
         squeeze, unsqueeze or flatten), and its gradient would not know of that: use that other Tensor, change a \
         clone() of it, or do it under paddle.no_grad()",
        op.name
    );
    Ok(())
}

fn wrap(
    op: &'static Op,
    ins: &Ins,
    targets: &Args<Destination>,
    outs: &mut Args<Out>,
    stop: bool,
    free: bool,
) -> Args<Option<EagerVar>> {
    let mut result = Args::new();
    for slot in 0..outs.slots() {
        let slot_targets = targets.slot(slot);
        result.push_slot(outs.slot_mut(slot).iter_mut().enumerate().map(|(i, out)| {
            let (value, in_place) = (std::mem::take(&mut out.value), out.in_place);
            match slot_targets.get(i) {
                Some(Destination::Into(v)) => {
                    if !value.is_none() {
                        if in_place {
                            v.cell.finish(value);
                        } else {
                            v.cell.set(value);
                        }
                        if overwrites(op, slot, ins, v) {
                            v.cell.bump();
                        }
                        // A view does not change the elements.
                        if !stop && !op.views {
                            v.cell.mark_aliases_stale();
                        }
                    }
                    if !stop && !is_state(op, slot, ins, v) {
                        v.set_stop_gradient(Some(false));
                    }
                    Some((*v).clone())
                }
                Some(Destination::New | Destination::Preallocated(_)) => {
                    (!value.is_none()).then(|| EagerVar::new(value, stop))
                }
                None if free => (!value.is_none()).then(|| EagerVar::new(value, stop)),
                _ => None,
            }
        }));
    }
    result
}

fn save(v: Option<&EagerVar>, elements: bool) -> SavedVar {
    let Some(v) = v else { return SavedVar::Absent };
    if !elements {
        if let Some(t) = v.cell.lock().as_dense() {
            return SavedVar::Shape(OutInfo::from_tensor(t), t.lod.clone());
        }
    }
    SavedVar::VarStorage { cell: v.cell.clone(), version: v.cell.version() }
}

/// What the gradient reads of the inputs and outputs (bit i: slot i), of which it needs the elements, and its
/// operators where a function makes them.
type Reads = ([u64; 4], Option<Vec<GradOp>>);

#[cold]
fn made_by_function(op: &'static Op, attrs: &Attrs, ins: &Ins, outs: &Args<Option<EagerVar>>) -> Result<Reads> {
    let n_ins: Vec<usize> = (0..op.inputs.len()).map(|i| ins.slot(i).iter().flatten().count()).collect();
    let n_outs: Vec<usize> = (0..op.outputs.len()).map(|i| outs.slot(i).len()).collect();
    let needs = |slot: usize, i: usize| ins.slot(slot).get(i).is_some_and(|v| v.is_some_and(|v| !v.stop_gradient()));
    let ops = op.grad_ops(&Fwd { op, attrs, ins: &n_ins, outs: &n_outs, needs: &needs })?;
    let mut bits = [0u64; 4];
    for g in &ops {
        for (slot, srcs) in g.ins.iter().enumerate() {
            let elements = !g.op.inputs[slot].has(oar_core::op::SlotFlag::MetaOnly) as u64;
            for src in srcs {
                match *src {
                    Src::In(i, _) => {
                        bits[0] |= 1 << i;
                        bits[2] |= elements << i;
                    }
                    Src::Out(i, _) => {
                        bits[1] |= 1 << i;
                        bits[3] |= elements << i;
                    }
                    Src::GradOut(..) => {}
                }
            }
        }
    }
    Ok((bits, Some(ops)))
}

fn record_call(
    op: &'static Op,
    attrs: &Attrs,
    ins: &Ins,
    targets: &Args<Destination>,
    outs: &mut Args<Option<EagerVar>>,
) -> Result<()> {
    let ([reads_in, reads_out, needs_in, needs_out], ops) = match op.wired() {
        Some(w) => ([w.reads_in, w.reads_out, w.needs_in, w.needs_out], None),
        None => made_by_function(op, attrs, ins, outs)?,
    };
    if ops.as_ref().is_some_and(Vec::is_empty) {
        return Ok(());
    }
    let mut saved = Saved::default();
    if reads_in != 0 {
        for slot in 0..ins.slots() {
            let (read, elements) = (reads_in >> slot & 1 == 1, needs_in >> slot & 1 == 1);
            for v in ins.slot(slot) {
                saved.ins.push(if read { save(*v, elements) } else { SavedVar::Absent });
            }
        }
    }
    if reads_out != 0 {
        for slot in 0..outs.slots() {
            let (read, elements) = (reads_out >> slot & 1 == 1, needs_out >> slot & 1 == 1);
            for v in outs.slot(slot) {
                saved.outs.push(if read { save(v.as_ref(), elements) } else { SavedVar::Absent });
            }
        }
    }
    let node = Arc::new(Node {
        op,
        attrs: attrs.clone(),
        number: next_number(),
        edges: ins.map(|v| v.filter(|v| !v.stop_gradient()).map(EagerVar::track)),
        outs: outs.map(|v| {
            let value = v.as_ref().map(|v| v.cell.lock());
            match value.as_deref() {
                Some(Value::Dense(t)) => OutInfo::from_tensor(t),
                _ => OutInfo { dims: Dims::new(), dtype: DType::F32 },
            }
        }),
        saved: Mutex::new(Some(saved)),
        ops,
        call: None,
        ran: AtomicBool::new(false),
    });
    for slot in 0..outs.slots() {
        for i in outs.range(slot) {
            let Some(v) = &mut outs.flat[i] else { continue };
            if is_state(op, slot, ins, v) {
                continue;
            }
            let track = Arc::new(GradEdge::from_output(node.clone(), i as u32));
            if let Some(Destination::Into(given)) = targets.flat.get(i) {
                given.set_track(Some(track.clone()));
            }
            v.place(track);
        }
    }
    Ok(())
}
