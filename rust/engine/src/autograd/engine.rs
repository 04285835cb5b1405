//! Backward: nodes in descending order of their numbers, so that every consumer of a variable runs before its
//! producer. No recursion, no counting of dependencies.

use super::eager::{call_in, is_stale, Destination};
use super::leaf;
use super::reducer::{self, Pass};
pub use super::request::Request;
use super::tape::{GradEdge, Node, Saved};
use super::EagerVar;
use oar_core::base::fork;
use oar_core::base::interrupt::check_interrupt_now_and_then;
use oar_core::base::{DType, Result};
use oar_core::ir::{Attr, AttrMap};
use oar_core::op::call::call_simple;
use oar_core::op::run::NoEnv;
use oar_core::op::{table, Args, Dst, Grad, GradOp, Op, Src};
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, dispatch, ensure, err};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

struct Ready(Arc<Node>);

impl PartialEq for Ready {
    fn eq(&self, other: &Ready) -> bool {
        self.0.number == other.0.number
    }
}
impl Eq for Ready {}
impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Ready) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ready {
    fn cmp(&self, other: &Ready) -> std::cmp::Ordering {
        self.0.number.cmp(&other.0.number)
    }
}

type Grads = SmallVec<[Option<EagerVar>; 2]>;
/// For outputs of a node the grad edge, and the number of gradients that arrived by it.
type Arrived = SmallVec<[(u32, Arc<GradEdge>, usize); 1]>;
type Key = usize;

fn key(track: &Arc<GradEdge>) -> Key {
    Arc::as_ptr(track) as Key
}

/// The destination of a gradient: an output of a node, or a leaf.
fn place(track: &Arc<GradEdge>) -> (Key, u32) {
    match track.producer() {
        Some((node, index)) => (Arc::as_ptr(&node) as Key, index),
        None => (key(track), u32::MAX),
    }
}

struct Engine<'a> {
    request: &'a Request<'a>,
    heap: BinaryHeap<Ready>,
    pending: HashMap<u64, (Grads, Arrived), BuildFast>,
    /// Destinations whose gradients are requested, with the index of the request.
    wanted: HashMap<(Key, u32), usize>,
    found: Vec<Option<EagerVar>>,
    stopped: HashSet<(Key, u32)>,
    /// `paddle.grad`: numbers of the nodes on a path to a requested destination.
    useful: Option<HashSet<u64>>,
    /// Data parallelism that waits for gradients of this backward.
    passes: Vec<Pass>,
}

/// The identity: node numbers are spread enough.
#[derive(Default, Clone, Copy)]
struct Fast(u64);
impl std::hash::Hasher for Fast {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("only u64 keys")
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
type BuildFast = std::hash::BuildHasherDefault<Fast>;

/// Runs backward; the result has a gradient (or `None`) for each of `request.inputs`.
pub fn run(request: &Request) -> Result<Vec<Option<EagerVar>>> {
    let inputs = request.inputs.unwrap_or(&[]);
    let mut engine = Engine {
        request,
        heap: BinaryHeap::new(),
        pending: HashMap::default(),
        wanted: HashMap::new(),
        found: vec![None; inputs.len()],
        stopped: request.stop_at.iter().filter_map(|v| v.track_if_any()).map(|t| place(&t)).collect(),
        useful: None,
        passes: reducer::begin(request)?,
    };
    for (i, v) in inputs.iter().enumerate() {
        ensure!(
            !v.stop_gradient(),
            InvalidArgument,
            "input {i} of paddle.grad has stop_gradient=True: it has no gradient"
        );
        engine.wanted.insert(place(&v.track()), i);
    }
    if request.inputs.is_some() {
        engine.useful = Some(engine.mark_useful());
    }
    for (v, grad) in request.outputs.iter().zip(request.grads) {
        ensure!(!v.cell.lock().is_none(), PreconditionNotMet, "backward from a variable that holds no value");
        ensure!(
            !is_stale(v),
            PermissionDenied,
            "backward from a Tensor that was changed in place through another one that shares its memory (made by reshape, \
             squeeze, unsqueeze or flatten): its history does not know of that"
        );
        let grad = match grad {
            Some(g) => {
                let (want, got) = (v.tensor()?, g.tensor()?);
                ensure!(
                    want.dims() == got.dims(),
                    InvalidArgument,
                    "the gradient given for a tensor of shape {:?} has shape {:?}",
                    want.dims(),
                    got.dims()
                );
                g.clone()
            }
            None => EagerVar::new(ones_like(&v.tensor()?)?, true),
        };
        engine.deliver(&v.track(), grad)?;
        engine.passes.iter_mut().try_for_each(|p| p.arrived(&v.track()))?;
    }
    let mut steps = 0usize;
    while let Some(Ready(node)) = engine.heap.pop() {
        steps += 1;
        fork::pause();
        if steps & 3 == 0 {
            check_interrupt_now_and_then()?;
        }
        engine.step(&node)?;
        engine.passes.iter_mut().try_for_each(|p| p.stepped(&node))?;
    }
    std::mem::take(&mut engine.passes).into_iter().try_for_each(Pass::finish)?;
    for (i, v) in inputs.iter().enumerate() {
        if engine.found[i].is_none() && !request.allow_unused {
            let dims = v.tensor().map(|t| t.dims().to_vec()).unwrap_or_default();
            bail!(
                InvalidArgument,
                "input {i} of paddle.grad (shape {dims:?}) is not reachable from the outputs; \
                 set allow_unused=True to get None for it"
            );
        }
    }
    Ok(engine.found)
}

fn ones_like(t: &Tensor) -> Result<Tensor> {
    if t.on_device().is_some() {
        return ones_on_device(t);
    }
    let mut ones = Tensor::empty(t.dtype(), t.dims())?;
    fill_one(&mut ones)?;
    Ok(ones)
}

/// Written by a kernel of the device: nothing is uploaded.
#[cold]
fn ones_on_device(t: &Tensor) -> Result<Tensor> {
    let op = table::lookup("fill_any_like").ok_or_else(|| err!(Fatal, "the table has no operator fill_any_like"))?;
    let attrs = AttrMap::from_iter([("value".to_string(), Attr::Float(1.0))]);
    let made = call_simple(op, &attrs, vec![vec![Value::Dense(t.clone())]])?;
    match made.into_iter().flatten().next() {
        Some(Value::Dense(ones)) => Ok(ones),
        _ => bail!(Fatal, "operator fill_any_like gave nothing"),
    }
}

fn fill_one(t: &mut Tensor) -> Result<()> {
    use half::{bf16, f16};
    use num_complex::Complex;
    dispatch!(t.dtype(), T in [f32, f64, i32, i64, i16, i8, u8], {
        t.data_mut::<T>()?.fill(1 as T);
    }, other => match other {
        DType::F16 => t.data_mut::<f16>()?.fill(f16::ONE),
        DType::BF16 => t.data_mut::<bf16>()?.fill(bf16::ONE),
        DType::C64 => t.data_mut()?.fill(Complex::new(1f32, 0.0)),
        DType::C128 => t.data_mut()?.fill(Complex::new(1f64, 0.0)),
        other => bail!(InvalidArgument, "backward starts at a tensor of numbers, got {other}"),
    });
    Ok(())
}

impl Engine<'_> {
    /// Numbers of the nodes from which a requested destination can be reached.
    fn mark_useful(&self) -> HashSet<u64> {
        let mut useful = HashSet::new();
        let mut seen = HashSet::new();
        // Depth first with an explicit stack: (node, children visited?).
        let mut stack: Vec<(Arc<Node>, bool)> = Vec::new();
        for v in self.request.outputs {
            stack.extend(v.track_if_any().and_then(|t| t.producer()).map(|(n, _)| (n, false)));
        }
        while let Some((node, visited)) = stack.pop() {
            if visited {
                let leads = node.edges.flat.iter().flatten().any(|t| {
                    self.wanted.contains_key(&place(t)) || t.producer().is_some_and(|(n, _)| useful.contains(&n.number))
                });
                if leads {
                    useful.insert(node.number);
                }
            } else if seen.insert(node.number) {
                let producers: Vec<_> = node.edges.flat.iter().flatten().filter_map(|t| t.producer()).collect();
                stack.push((node, true));
                let new = |n: &Node| n.number >= self.request.since && !seen.contains(&n.number);
                stack.extend(producers.into_iter().filter(|(n, _)| new(n)).map(|(n, _)| (n, false)));
            }
        }
        useful
    }

    /// Accumulates a gradient at its destination.
    fn deliver(&mut self, track: &Arc<GradEdge>, grad: EagerVar) -> Result<()> {
        let producer = track.producer();
        let at = match &producer {
            Some((node, index)) => (Arc::as_ptr(node) as Key, *index),
            None => (key(track), u32::MAX),
        };
        if self.stopped.contains(&at) {
            return Ok(());
        }
        match producer {
            None => {
                if let Some(&i) = self.wanted.get(&at) {
                    let old = self.found[i].take();
                    self.found[i] = Some(self.add(old, grad)?);
                } else if self.request.inputs.is_none() {
                    leaf::accumulate(track, &grad, |old, new| self.add(old, new))?;
                }
            }
            Some((node, index)) => {
                if self.useful.as_ref().is_some_and(|u| !u.contains(&node.number)) && !self.wanted.contains_key(&at) {
                    return Ok(());
                }
                let n = node.outs.flat.len();
                let fresh = !self.pending.contains_key(&node.number);
                let (grads, arrived) =
                    self.pending.entry(node.number).or_insert_with(|| ((0..n).map(|_| None).collect(), Arrived::new()));
                let old = grads[index as usize].take();
                if self.request.inputs.is_none() {
                    match arrived.iter_mut().find(|a| a.0 == index) {
                        Some(a) => a.2 += 1,
                        None => arrived.push((index, track.clone(), 1)),
                    }
                }
                let sum = self.add(old, grad)?;
                if let Some((grads, _)) = self.pending.get_mut(&node.number) {
                    grads[index as usize] = Some(sum);
                }
                if fresh {
                    self.heap.push(Ready(node));
                }
            }
        }
        Ok(())
    }

    /// The sum of two gradients, recorded if `create_graph`.
    fn add(&self, old: Option<EagerVar>, new: EagerVar) -> Result<EagerVar> {
        static SUM: OnceLock<Option<&'static Op>> = OnceLock::new();
        let Some(old) = old else { return Ok(new) };
        let sum =
            SUM.get_or_init(|| oar_core::op::table::lookup("sum")).ok_or_else(|| err!(Fatal, "no operator sum"))?;
        let mut ins = Args::new();
        ins.push_slot([Some(&old), Some(&new)]);
        let mut targets = Args::new();
        targets.push_one(Destination::New);
        let out = call_in(sum, (sum.attrs.shared)(), &ins, &targets, false, &NoEnv, self.request.create_graph)?;
        out.flat.into_iter().flatten().next().ok_or_else(|| err!(Fatal, "sum gave nothing"))
    }

    fn step(&mut self, node: &Arc<Node>) -> Result<()> {
        let (mut grads, arrived) = self.pending.remove(&node.number).unwrap_or_default();
        for (index, track, count) in arrived {
            // Referenced by more than the calls that brought gradients: the user may read this variable's gradient. As
            // in 2.0.2 it keeps this pass's gradient.
            if Arc::strong_count(&track) > count + 1 {
                *track.grad.lock() = grads[index as usize].clone();
            }
        }
        for (i, slot) in grads.iter_mut().enumerate() {
            if let Some(&asker) = self.wanted.get(&(Arc::as_ptr(node) as Key, i as u32)) {
                self.found[asker] = slot.clone();
            }
        }
        if self.useful.as_ref().is_some_and(|u| !u.contains(&node.number)) {
            return Ok(());
        }
        if self.request.inputs.is_none() {
            node.ran.store(true, Ordering::Relaxed);
        }
        let leave = self.request.retain_graph || self.request.create_graph;
        let mut saved = node.saved_or_error(leave)?;
        let produced = match (node.op.wired(), &node.ops) {
            (Some(w), _) => self.run_wired(node, w, &saved, &grads),
            (None, Some(ops)) => self.run_ops(node, ops, &saved, &grads),
            // The call frees what it has read.
            _ => self.run_call(node, std::mem::take(&mut saved), &grads),
        };
        if produced.is_err() && !leave && node.call.is_none() {
            *node.saved.lock() = Some(saved);
        } else {
            drop(saved);
        }
        let produced = produced.map_err(|e| e.context(format!("in the gradient of operator {}", node.op.name)))?;
        for (track, grad) in produced {
            self.deliver(&track, grad)?;
        }
        Ok(())
    }

    fn run_call(&self, node: &Arc<Node>, saved: Saved, grads: &Grads) -> Result<Vec<(Arc<GradEdge>, EagerVar)>> {
        let Some(call) = &node.call else { return Ok(Vec::new()) };
        ensure!(!self.request.create_graph, Unimplemented, "operator {} has no second gradient", node.op.name);
        let tracks = node.edges.flat.iter().cloned();
        Ok(tracks.zip(call(saved, &node.edges.flat, grads)?).filter_map(|(t, g)| Some((t?, g?))).collect())
    }

    fn run_wired(
        &self,
        node: &Arc<Node>,
        w: &'static oar_core::op::grad::Wiring,
        saved: &Saved,
        grads: &Grads,
    ) -> Result<Vec<(Arc<GradEdge>, EagerVar)>> {
        let attrs = w.op.attrs.convert(w.op.name, &node.attrs)?;
        let mut owned: Args<Option<EagerVar>> = Args::new();
        for (slot, src) in w.ins.iter().enumerate() {
            match src {
                None => owned.push_slot([]),
                Some(src) => self.load(node, src, w.op, slot, saved, grads, &mut owned)?,
            }
        }
        let mut targets = Args::new();
        // What the second gradient reads is kept even if it is not requested.
        let kept = if self.request.create_graph { w.op.wired().map_or(0, |second| second.reads_out) } else { 0 };
        for (slot, dst) in w.outs.iter().enumerate() {
            match dst {
                None => targets.push_slot([]),
                Some(i) if kept >> slot & 1 == 1 => {
                    targets.push_slot(node.edges.slot(*i).iter().map(|_| Destination::New))
                }
                Some(i) => targets.push_slot(node.edges.slot(*i).iter().map(|e| self.target(e))),
            }
        }
        let ins = owned.map(Option::as_ref);
        if self.request.create_graph {
            check_second(w.op, &ins)?;
        }
        let outs = call_in(w.op, &attrs, &ins, &targets, false, &NoEnv, self.request.create_graph)?;
        let mut produced = Vec::with_capacity(2);
        for (slot, dst) in w.outs.iter().enumerate() {
            let Some(i) = dst else { continue };
            for (edge, grad) in node.edges.slot(*i).iter().zip(outs.slot(slot)) {
                if let (Some(track), Some(grad)) = (edge, grad) {
                    produced.push((track.clone(), grad.clone()));
                }
            }
        }
        Ok(produced)
    }

    fn run_ops(
        &self,
        node: &Arc<Node>,
        ops: &[GradOp],
        saved: &Saved,
        grads: &Grads,
    ) -> Result<Vec<(Arc<GradEdge>, EagerVar)>> {
        let mut produced = Vec::new();
        for g in ops {
            let mut owned: Args<Option<EagerVar>> = Args::new();
            for (slot, srcs) in g.ins.iter().enumerate() {
                let mut one: Args<Option<EagerVar>> = Args::new();
                for src in srcs {
                    self.load(node, src, g.op, slot, saved, grads, &mut one)?;
                }
                owned.push_slot(one.flat);
            }
            let mut targets = Args::new();
            let mut tracks: Vec<Option<Arc<GradEdge>>> = Vec::new();
            for dsts in &g.outs {
                let mut edges: Vec<Option<Arc<GradEdge>>> = Vec::new();
                for Dst(slot, i) in dsts {
                    let all = node.edges.slot(*slot);
                    edges.extend_from_slice(i.map_or(all, |i| all.get(i..i + 1).unwrap_or(&[])));
                }
                targets.push_slot(edges.iter().map(|e| self.target(e)));
                tracks.extend(edges);
            }
            if targets.flat.iter().all(|t| matches!(t, Destination::Skip)) {
                continue;
            }
            let ins = owned.map(Option::as_ref);
            if self.request.create_graph {
                check_second(g.op, &ins)?;
            }
            let outs = call_in(g.op, &g.attrs, &ins, &targets, false, &NoEnv, self.request.create_graph)?;
            produced.extend(tracks.into_iter().zip(outs.flat).filter_map(|(t, g)| Some((t?, g?))));
        }
        Ok(produced)
    }

    /// A gradient is computed only if it is needed.
    fn target(&self, edge: &Option<Arc<GradEdge>>) -> Destination<'static> {
        let Some(track) = edge else { return Destination::Skip };
        if let Some(useful) = &self.useful {
            let needed = self.wanted.contains_key(&place(track))
                || track.producer().is_some_and(|(n, _)| useful.contains(&n.number));
            if !needed {
                return Destination::Skip;
            }
        }
        if self.request.create_graph {
            return Destination::New;
        }
        let place = self.passes.iter().find_map(|pass| pass.lend(track));
        place.map_or(Destination::New, |place| Destination::Preallocated(Mutex::new(Some(place))))
    }

    /// Pushes one slot of a gradient operator.
    fn load(
        &self,
        node: &Arc<Node>,
        src: &Src,
        op: &Op,
        slot: usize,
        saved: &Saved,
        grads: &Grads,
        into: &mut Args<Option<EagerVar>>,
    ) -> Result<()> {
        let only = |range: std::ops::Range<usize>, i: Option<usize>| match i {
            Some(i) => range.start + i..range.start + i + 1,
            None => range,
        };
        let mut vars: SmallVec<[Option<EagerVar>; 2]> = SmallVec::new();
        match *src {
            Src::In(slot, i) => {
                for k in only(node.edges.range(slot), i) {
                    let edge = node.edges.flat[k].clone();
                    let stop = edge.is_none();
                    vars.push(saved.ins.get(k).map(|v| v.load(node.op, edge, stop)).transpose()?.flatten());
                }
                into.push_slot(vars);
            }
            Src::Out(out, i) => {
                for k in only(node.outs.range(out), i) {
                    vars.push(saved.outs.get(k).map(|v| v.load(node.op, None, false)).transpose()?.flatten());
                }
                if self.request.create_graph {
                    // Saved without edge, which would be a cycle: the output's destination is this node.
                    let start = node.outs.range(out).start + i.unwrap_or(0);
                    for (k, v) in vars.iter_mut().enumerate() {
                        if let Some(v) = v.as_mut().filter(|v| !v.stop_gradient()) {
                            v.set_track(Some(Arc::new(GradEdge::from_output(node.clone(), (start + k) as u32))));
                        }
                    }
                }
                into.push_slot(vars);
            }
            Src::GradOut(out, i) => {
                let optional = op.inputs[slot].has(oar_core::op::SlotFlag::Dispensable);
                for k in only(node.outs.range(out), i) {
                    vars.push(match grads.get(k).cloned().flatten() {
                        None if !optional => Some(EagerVar::new(node.outs.flat[k].zeros()?, true)),
                        grad => grad,
                    });
                }
                into.push_slot(vars);
            }
        }
        Ok(())
    }
}

/// With `create_graph`, an operator whose second gradient is needed but missing is an error, not zeros.
fn check_second(op: &'static Op, ins: &Args<Option<&EagerVar>>) -> Result<()> {
    if matches!(op.grad, Grad::None) && ins.flat.iter().flatten().any(|v| !v.stop_gradient()) {
        bail!(
            NotFound,
            "operator {} has no gradient operator: with create_graph=True its result could not be differentiated again",
            op.name
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::eager::call;
    use super::*;
    use oar_core::op::{infer, slot, Kernel, KernelContext, OP};
    use oar_core::op::{InSlot, OutSlot};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    static FORWARD: Op = Op {
        name: "comes_back",
        inputs: &[slot("X")],
        outputs: &[slot("Out")],
        infer: infer::like_first,
        cpu: Kernel::Pure(|cx: &mut KernelContext| {
            let x = cx.input(InSlot(0))?.clone();
            cx.set(OutSlot(0), x);
            Ok(())
        }),
        grad: Grad::By(&BACKWARD),
        ..OP
    };
    /// As a layer in Python might: its first gradient runs the gradient again.
    static BACKWARD: Op = Op {
        name: "comes_back_grad",
        inputs: &[slot("X"), slot("Out@GRAD")],
        outputs: &[slot("X@GRAD")],
        infer: infer::like_first,
        cpu: Kernel::Host(|cx: &mut KernelContext| {
            let again = AGAIN.lock().take();
            if let Some((out, x)) = again {
                backward(&out, Some(&[x]))?;
            }
            let x = cx.input(InSlot(1))?.clone();
            cx.set(OutSlot(0), x);
            Ok(())
        }),
        ..OP
    };
    static AGAIN: Mutex<Option<(EagerVar, EagerVar)>> = Mutex::new(None);

    fn backward(out: &EagerVar, inputs: Option<&[EagerVar]>) -> Result<Vec<Option<EagerVar>>> {
        run(&Request {
            outputs: std::slice::from_ref(out),
            grads: &[None],
            retain_graph: true,
            create_graph: false,
            inputs,
            stop_at: &[],
            since: 0,
            allow_unused: true,
        })
    }

    #[test]
    fn a_gradient_may_come_back_to_its_node() {
        let (done, ended) = channel();
        std::thread::spawn(move || {
            let x = EagerVar::new(Tensor::from_slice(&[1f32, 2.0], &[2]).unwrap(), false);
            let (mut ins, mut targets) = (Args::new(), Args::new());
            ins.push_one(Some(&x));
            targets.push_one(Destination::New);
            let outs = call(&FORWARD, (FORWARD.attrs.shared)(), &ins, &targets, false, &NoEnv).unwrap();
            let out = outs.flat[0].clone().unwrap();
            *AGAIN.lock() = Some((out.clone(), x.clone()));
            done.send(backward(&out, None).map(|_| AGAIN.lock().is_none())).unwrap();
        });
        let result = ended.recv_timeout(Duration::from_secs(20)).expect("backward waits for itself");
        assert!(result.unwrap());
    }
}
