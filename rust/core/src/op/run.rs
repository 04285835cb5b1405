//! A call of a kernel: inputs by slot, outputs allocated from the shape rule, typed attributes.

use super::{Args, Attrs, InSlot, Meta, Op, OutSlot, ShapeContext};
use crate::base::dtype::Element;
use crate::base::{DTypes, Result};
use crate::ir::{Attr, Program};
use crate::op::infer::{ShapeInputs, VarKind};
use crate::op::{KernelFn, SlotFlag, SparseKernel};
use crate::tensor::{Scope, SelectedRows, Tensor, Value, VarStorage};
use crate::{bail, err};
use std::sync::Arc;

/// The environment of Host and Control operators, beyond their slots. An eager call has no scope and no blocks.
pub trait Env: Sync {
    /// The Program and scope of a plan; `None` in an eager call.
    fn frame(&self) -> Option<Frame> {
        None
    }
    /// Runs a sub-block of the Program once in a scope.
    fn run_block(&self, _block: i32, _scope: &Arc<Scope>) -> Result<()> {
        bail!(PreconditionNotMet, "sub-blocks run only inside a Program")
    }
    /// Attributes of the OpDesc that are in no schema.
    fn desc_attr(&self, _name: &str) -> Option<Attr> {
        None
    }
    /// Names of the variables of a slot; empty in eager calls.
    fn names(&self, _slot: &str) -> Vec<String> {
        Vec::new()
    }
    /// The Program whose blocks the attributes name.
    fn program(&self) -> Option<Arc<Program>> {
        self.frame().map(|f| f.program)
    }
    /// The variable of an input, unless it is a temporary.
    fn cell(&self, _slot: &str, _i: usize) -> Option<Arc<VarStorage>> {
        None
    }
    /// Runs a long kernel; an eager call releases the GIL for it.
    fn release_gil(&self, kernel: &mut (dyn FnMut() + Send)) {
        kernel()
    }
    /// An error if the user interrupted the call.
    fn check_interrupt(&self) -> Result<()> {
        Ok(())
    }
}

/// Where a plan runs.
#[derive(Clone)]
pub struct Frame {
    pub program: Arc<Program>,
    /// The scope of this run or step: it holds the block's own variables, its parents the rest.
    pub scope: Arc<Scope>,
}

/// Calls with more bytes of output than this run without the GIL.
pub const LARGE: usize = 256 << 10;

/// The environment of an eager call.
pub struct NoEnv;
impl Env for NoEnv {}

/// An output: its value and whether it is used.
pub struct Out {
    pub value: Value,
    pub wanted: bool,
    /// The variable is also the input that this output aliases: the input's value is moved here, not copied.
    pub in_place: bool,
    /// `value` is preallocated memory for the output, used if type and shape agree.
    preallocated: bool,
}

impl Out {
    pub fn wanted(wanted: bool) -> Out {
        Out { value: Value::None, wanted, in_place: false, preallocated: false }
    }

    /// A used output and optional memory for it.
    pub fn preallocated(bytes: Option<Tensor>) -> Out {
        let preallocated = bytes.is_some();
        Out { value: bytes.map_or(Value::None, Value::Dense), preallocated, ..Out::wanted(true) }
    }
}

impl Out {
    /// Drops preallocated memory that does not fit.
    #[cold]
    fn keep_preallocated(&mut self, meta: &Meta) {
        self.preallocated = false;
        let fits = meta.known && meta.kind == VarKind::Dense;
        match &mut self.value {
            Value::Dense(t) if fits && t.dtype() == meta.dtype && t.dims() == &meta.dims[..] => {
                t.lod = meta.lod.clone()
            }
            other => *other = Value::None,
        }
    }
}

/// A call of a kernel.
pub struct KernelContext<'a> {
    pub op: &'static Op,
    pub attrs: &'a Attrs,
    pub ins: &'a Args,
    pub outs: &'a mut Args<Out>,
    pub env: &'a dyn Env,
}

/// The kernel of an operator that has none.
pub fn not_there(cx: &mut KernelContext) -> Result<()> {
    match (cx.op.name, cx.op.needs) {
        (name, "") => bail!(Unimplemented, "operator {name} has no CPU kernel yet"),
        (name, needs) => bail!(Unavailable, "operator {name} needs {needs}"),
    }
}

impl<'a> KernelContext<'a> {
    /// The Program and scope; an error in an eager call.
    pub fn frame(&self) -> Result<Frame> {
        let name = self.op.name;
        self.env.frame().ok_or_else(|| err!(PreconditionNotMet, "operator {name} runs only inside a Program"))
    }

    #[inline]
    pub fn attrs<A: 'static>(&self) -> &'a A {
        self.attrs.as_any().downcast_ref().expect("attributes of another operator")
    }

    #[inline]
    pub fn has(&self, slot: InSlot) -> bool {
        let slot = slot.0;
        self.ins.get(slot).is_some()
    }

    /// A required dense input.
    #[inline]
    pub fn input(&self, slot: InSlot) -> Result<&'a Tensor> {
        let slot = slot.0;
        match self.ins.slot(slot).first() {
            Some(Value::Dense(t)) => Ok(t),
            other => Err(self.bad_input(slot, other.unwrap_or(&Value::None))),
        }
    }

    #[cold]
    fn bad_input(&self, slot: usize, got: &Value) -> crate::base::Error {
        let name = self.op.inputs.get(slot).map_or("?", |s| s.name);
        match got {
            Value::None => {
                err!(NoValue, "operator {}: input '{name}' is required but holds no value", self.op.name)
            }
            other => {
                err!(InvalidArgument, "operator {}: input '{name}' cannot be {}", self.op.name, other.what())
            }
        }
    }

    /// An optional dense input.
    #[inline]
    pub fn opt(&self, slot: InSlot) -> Option<&'a Tensor> {
        let slot = slot.0;
        self.ins.tensor(slot)
    }

    /// All dense inputs of a duplicable slot.
    pub fn inputs(&self, slot: InSlot) -> Result<Vec<&'a Tensor>> {
        let slot = slot.0;
        self.ins.slot(slot).iter().map(|v| v.as_dense().ok_or_else(|| self.bad_input(slot, v))).collect()
    }

    /// A required input of any kind.
    pub fn value(&self, slot: InSlot) -> Result<&'a Value> {
        let slot = slot.0;
        self.ins.get(slot).ok_or_else(|| self.bad_input(slot, &Value::None))
    }

    pub fn rows(&self, slot: InSlot) -> Option<&'a SelectedRows> {
        let slot = slot.0;
        match self.ins.get(slot) {
            Some(Value::Rows(r)) => Some(r),
            _ => None,
        }
    }

    /// The values of a slot, of any kind.
    #[inline]
    pub fn values(&self, slot: InSlot) -> &'a [Value] {
        self.ins.slot(slot.0)
    }

    /// True if the output is used.
    #[inline]
    pub fn wants(&self, slot: OutSlot) -> bool {
        let slot = slot.0;
        self.outs.slot(slot).iter().any(|o| o.wanted)
    }

    pub fn wants_nth(&self, slot: OutSlot, i: usize) -> bool {
        let slot = slot.0;
        self.outs.slot(slot).get(i).is_some_and(|o| o.wanted)
    }

    pub fn n_outs(&self, slot: OutSlot) -> usize {
        let slot = slot.0;
        self.outs.slot(slot).len()
    }

    /// A dense output, allocated by the shape rule (an aliased one holds its input's value).
    #[inline]
    pub fn out(&mut self, slot: OutSlot) -> Result<&mut Tensor> {
        self.out_nth(slot, 0)
    }

    pub fn out_nth(&mut self, slot: OutSlot, i: usize) -> Result<&mut Tensor> {
        let slot = slot.0;
        let op = self.op;
        match self.outs.slot_mut(slot).get_mut(i).map(|o| &mut o.value) {
            Some(Value::Dense(t)) => Ok(t),
            _ => bail!(NotFound, "operator {}: output '{}' is not there", op.name, op.outputs[slot].name),
        }
    }

    /// The elements of an output, to be written.
    #[inline]
    pub fn out_data<T: Element>(&mut self, slot: OutSlot) -> Result<&mut [T]> {
        self.out(slot)?.data_mut::<T>()
    }

    /// Several dense outputs at once; `None` for unused ones.
    pub fn each_out<const N: usize>(&mut self, slots: [OutSlot; N]) -> [Option<&mut Tensor>; N] {
        let ranges = slots.map(|s| self.outs.range(s.0));
        let mut found = [const { None }; N];
        for (at, out) in self.outs.flat.iter_mut().enumerate() {
            if let (Some(k), Value::Dense(t)) =
                (ranges.iter().position(|r| r.start == at && at < r.end), &mut out.value)
            {
                found[k] = Some(t);
            }
        }
        found
    }

    /// Takes an output out, to work on several at once; put it back with [`KernelContext::set`].
    pub fn take_out(&mut self, slot: OutSlot) -> Result<Tensor> {
        let slot = slot.0;
        let op = self.op;
        match self.outs.slot_mut(slot).first_mut().map(|o| std::mem::take(&mut o.value)) {
            Some(Value::Dense(t)) => Ok(t),
            _ => bail!(NotFound, "operator {}: output '{}' is not there", op.name, op.outputs[slot].name),
        }
    }

    /// Sets a kernel-allocated output (a size that depends on values, another kind, a shared buffer).
    #[inline]
    pub fn set(&mut self, slot: OutSlot, value: impl Into<Value>) {
        self.set_nth(slot, 0, value);
    }

    pub fn set_nth(&mut self, slot: OutSlot, i: usize, value: impl Into<Value>) {
        let slot = slot.0;
        if let Some(o) = self.outs.slot_mut(slot).get_mut(i) {
            o.value = value.into();
        }
    }

    /// Sets those of kernel-allocated outputs that are wanted.
    pub fn set_wanted(&mut self, outs: impl IntoIterator<Item = (OutSlot, Tensor)>) {
        for (slot, value) in outs {
            if self.wants(slot) {
                self.set(slot, value);
            }
        }
    }

    /// Runs the long part of a kernel that allocates its output of `bytes` bytes itself, without the GIL if that is
    /// large.
    pub fn release_gil<T: Send>(&self, bytes: usize, work: impl FnOnce() -> T + Send) -> T {
        if bytes <= LARGE {
            return work();
        }
        let (mut work, mut made) = (Some(work), None);
        self.env.release_gil(&mut || made = work.take().map(|work| work()));
        made.expect("every environment runs the kernel")
    }

    /// The error of a data type without kernel.
    pub fn unsupported<T>(&self, dtype: crate::base::DType) -> Result<T> {
        bail!(Unimplemented, "operator {} has no CPU kernel for data type {dtype}", self.op.name)
    }
}

/// The outputs by the shape rule. `free`: the rule also decides how many variables a duplicable slot has.
#[inline]
pub(super) fn inferred(
    op: &'static Op,
    attrs: &Attrs,
    ins: &Args,
    outs: &mut Args<Out>,
    free: bool,
) -> Result<Args<Meta>> {
    let mut metas = outs.map(|_| Meta::default());
    (op.infer)(&mut ShapeContext { op, ins: ShapeInputs::Values(ins), attrs, outs: &mut metas, free_outs: free })?;
    if free {
        for (i, _) in op.outputs.iter().enumerate().filter(|(_, s)| s.has(SlotFlag::Duplicable)) {
            outs.resize_slot(i, metas.slot(i).len(), || Out::wanted(true));
        }
    }
    Ok(metas)
}

/// Infers, allocates and runs one operator on values on the host.
///
/// `outs` has one entry for every output variable, with `wanted` and `in_place` set. An output that aliases an input
/// starts with that input's value, moved where `in_place`; the kernel reads the value there.
#[inline]
pub fn call_cpu(
    op: &'static Op,
    attrs: &Attrs,
    ins: &mut Args,
    outs: &mut Args<Out>,
    free: bool,
    env: &dyn Env,
) -> Result<()> {
    let mut metas = inferred(op, attrs, ins, outs, free)?;
    let kernel = kernel(op, ins)?;
    for (i, s) in op.outputs.iter().enumerate() {
        let Some(input) = s.alias.and_then(|name| op.input(name)) else { continue };
        for (k, at) in ins.range(input).enumerate() {
            if let Some(out) = outs.slot_mut(i).get_mut(k) {
                out.preallocated = false;
                out.value = if out.in_place { std::mem::take(&mut ins.flat[at]) } else { ins.flat[at].clone() };
            }
        }
    }
    let mut bytes = 0usize;
    for (slot, s) in op.outputs.iter().enumerate() {
        let made = s.has(SlotFlag::KernelAllocated);
        for at in outs.range(slot) {
            let (out, meta) = (&mut outs.flat[at], &mut metas.flat[at]);
            if out.preallocated {
                out.keep_preallocated(meta);
            }
            if made && meta.known {
                bytes = bytes.saturating_add(meta.nbytes());
            }
            if !made && out.wanted && out.value.is_none() && meta.known && meta.kind == VarKind::Dense {
                let mut t = Tensor::empty(meta.dtype, &meta.dims)?;
                t.lod = meta.lod.take();
                bytes = bytes.saturating_add(t.buffer().len());
                out.value = Value::Dense(t);
            }
        }
    }
    let mut run = KernelContext { op, attrs, ins, outs, env };
    if bytes <= LARGE {
        return kernel(&mut run);
    }
    let mut result = Ok(());
    env.release_gil(&mut || result = kernel(&mut run));
    result
}

/// The kernel for these values; an error if the operator has none for their kind or data type.
#[inline]
fn kernel(op: &'static Op, ins: &Args) -> Result<KernelFn> {
    let rows = |v: &Value| matches!(v, Value::Rows(_));
    if op.dtypes != DTypes::ALL {
        if let Some(t) = ins.flat.iter().find_map(Value::elements).filter(|t| !op.dtypes.has(t.dtype())) {
            bail!(Unimplemented, "operator {} has no CPU kernel for data type {}", op.name, t.dtype());
        }
    }
    match op.sparse_kernel {
        SparseKernel::Own(kernel) if ins.flat.iter().any(rows) => Ok(kernel),
        SparseKernel::None if ins.flat.iter().any(rows) => Err(rows_refused(op, ins)),
        _ => Ok(op.cpu.function()),
    }
}

#[cold]
fn rows_refused(op: &'static Op, ins: &Args) -> crate::base::Error {
    let held = |slot: &usize| ins.slot(*slot).iter().any(|v| matches!(v, Value::Rows(_)));
    let name = (0..op.inputs.len()).find(held).map_or("?", |slot| op.inputs[slot].name);
    err!(InvalidArgument, "operator {}: input '{name}' cannot be SelectedRows", op.name)
}
