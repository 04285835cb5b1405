//! The tape: a node for every recorded call, a grad edge for every variable that takes part, and eager variables.

use oar_core::base::{shape, DType, Dims, Result};
use oar_core::op::{Args, Attrs, GradOp, Op, Src};
use oar_core::tensor::{Lod, Tensor, Value, VarStorage};
use oar_core::{bail, err};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering, Ordering::Relaxed};
use std::sync::Arc;

/// A variable's storage and its grad edge.
pub struct EagerVar {
    pub cell: Arc<VarStorage>,
    track: Mutex<Option<Arc<GradEdge>>>,
    /// 0: gradients flow; 1: they do not; 2: not set (counts as 1).
    stop: AtomicU8,
    pub persistable: AtomicBool,
}

impl Clone for EagerVar {
    /// The same variable. A leaf that needs a gradient gets its edge now; otherwise both clones would make one each.
    fn clone(&self) -> EagerVar {
        let track = if self.stop_gradient() { self.track_if_any() } else { Some(self.track()) };
        EagerVar {
            cell: self.cell.clone(),
            track: Mutex::new(track),
            stop: AtomicU8::new(self.stop.load(Relaxed)),
            persistable: AtomicBool::new(self.persistable.load(Relaxed)),
        }
    }
}

impl EagerVar {
    #[inline]
    pub fn new(value: impl Into<Value>, stop_gradient: bool) -> EagerVar {
        EagerVar::from_parts(Arc::new(VarStorage::new(value)), None, stop_gradient)
    }

    #[inline]
    pub fn from_parts(cell: Arc<VarStorage>, track: Option<Arc<GradEdge>>, stop_gradient: bool) -> EagerVar {
        EagerVar {
            cell,
            track: Mutex::new(track),
            stop: AtomicU8::new(stop_gradient as u8),
            persistable: AtomicBool::new(false),
        }
    }

    #[inline]
    pub fn stop_gradient(&self) -> bool {
        self.stop.load(Relaxed) != 0
    }

    pub fn set_stop_gradient(&self, stop: Option<bool>) {
        self.stop.store(stop.map_or(2, |s| s as u8), Relaxed);
    }

    /// The edge, created at first use.
    #[inline]
    pub fn track(&self) -> Arc<GradEdge> {
        self.track.lock().get_or_insert_with(Default::default).clone()
    }

    pub fn track_if_any(&self) -> Option<Arc<GradEdge>> {
        self.track.lock().clone()
    }

    pub fn is_leaf(&self) -> bool {
        self.track.lock().as_ref().is_none_or(|t| t.is_leaf())
    }

    /// The edge of a variable that is not shared yet.
    #[inline]
    pub(super) fn place(&mut self, track: Arc<GradEdge>) {
        *self.track.get_mut() = Some(track);
    }

    /// Sets another edge, after an operator worked in place; earlier readers keep the old edge.
    pub fn set_track(&self, track: Option<Arc<GradEdge>>) {
        let old = std::mem::replace(&mut *self.track.lock(), track);
        drop(old);
    }

    pub fn tensor(&self) -> Result<Tensor> {
        self.cell.tensor()
    }
}

pub type Ins<'a> = Args<Option<&'a EagerVar>>;

/// The destination of a variable's gradient: the call that computed it, or (a leaf) `grad`.
#[derive(Default)]
pub struct GradEdge {
    pub node: Mutex<Option<(Arc<Node>, u32)>>,
    pub grad: Mutex<Option<EagerVar>>,
    /// The gradient was cleared: it reads as zeros until the next one arrives.
    pub cleared: AtomicBool,
    /// Called with every complete gradient (of a leaf: the accumulated one); may replace it.
    pub hooks: Mutex<Vec<Hook>>,
}

pub type Backward =
    Arc<dyn Fn(Saved, &[Option<Arc<GradEdge>>], &[Option<EagerVar>]) -> Result<Vec<Option<EagerVar>>> + Send + Sync>;

pub type HookFn = Arc<dyn Fn(&EagerVar) -> Result<Option<EagerVar>> + Send + Sync>;

pub struct Hook {
    pub id: u64,
    pub call: HookFn,
}

impl GradEdge {
    /// The edge of output `index` of a node.
    pub fn from_output(node: Arc<Node>, index: u32) -> GradEdge {
        GradEdge { node: Mutex::new(Some((node, index))), ..GradEdge::default() }
    }

    #[inline]
    pub fn producer(&self) -> Option<(Arc<Node>, u32)> {
        self.node.lock().clone()
    }

    pub fn is_leaf(&self) -> bool {
        self.node.lock().is_none()
    }

    /// True if a missing gradient is zeros: it was cleared, or backward ran without reaching it.
    pub fn is_zero(&self) -> bool {
        self.cleared.load(Ordering::Relaxed)
            || self.producer().is_some_and(|(node, index)| node.ran.load(Ordering::Relaxed) && node.reads_grad(index))
    }
}

/// A recorded call.
pub struct Node {
    pub op: &'static Op,
    pub attrs: Attrs,
    /// Calls are numbered; a consumer always has a higher number than its producer.
    pub number: u64,
    /// For each input variable its edge, if it needs a gradient.
    pub edges: Args<Option<Arc<GradEdge>>>,
    /// For each output variable shape and dtype, to make a zero gradient.
    pub outs: Args<OutInfo, 2>,
    /// What the gradient reads; freed by a backward that does not retain the graph.
    pub saved: Mutex<Option<Saved>>,
    /// For gradients made by a function: its operators, made when the call was recorded.
    pub ops: Option<Vec<GradOp>>,
    /// Of a node that stands for several calls: computes gradients of its edges from what was saved and from those of
    /// its outputs.
    pub call: Option<Backward>,
    /// A backward reached this node: outputs without gradient counted as zeros then, and read as zeros since.
    pub ran: AtomicBool,
}

pub struct OutInfo {
    pub dims: Dims,
    pub dtype: DType,
}

impl Clone for OutInfo {
    #[inline]
    fn clone(&self) -> OutInfo {
        OutInfo { dims: shape::copied(&self.dims), dtype: self.dtype }
    }
}

impl OutInfo {
    #[inline]
    pub fn from_tensor(t: &Tensor) -> OutInfo {
        OutInfo { dims: shape::copied(t.sizes()), dtype: t.dtype() }
    }

    pub fn zeros(&self) -> Result<Value> {
        Ok(Value::Dense(Tensor::zeros(self.dtype, &self.dims)?))
    }
}

/// What the gradient reads of the inputs and outputs, in the order of the node's `edges` and `outs`; empty if nothing.
#[derive(Clone, Default)]
pub struct Saved {
    pub ins: SmallVec<[SavedVar; 2]>,
    pub outs: SmallVec<[SavedVar; 2]>,
}

/// A variable saved for the gradient. Its storage is saved, not its value, so that a change in place is detected. Its
/// edge is that of the node; an output is saved without one, which would be a cycle.
#[derive(Clone, Default)]
pub enum SavedVar {
    #[default]
    Absent,
    VarStorage {
        cell: Arc<VarStorage>,
        version: u32,
    },
    /// Shape and dtype only.
    Shape(OutInfo, Option<Arc<Lod>>),
}

impl SavedVar {
    /// The variable, if it was not changed since; otherwise an error.
    pub fn load(&self, op: &Op, track: Option<Arc<GradEdge>>, stop_gradient: bool) -> Result<Option<EagerVar>> {
        Ok(match self {
            SavedVar::Absent => None,
            SavedVar::Shape(info, lod) => {
                Some(EagerVar::new(Tensor::shape_only(info.dtype, &info.dims)?.with_lod(lod.clone()), true))
            }
            SavedVar::VarStorage { cell, version } => {
                let now = cell.version();
                if now != *version {
                    bail!(
                        PermissionDenied,
                        "a tensor that is needed to compute the gradient of operator {} has been modified by an \
                         inplace operation: received tensor_version:{now} != wrapper_version_snapshot:{version}",
                        op.name
                    );
                }
                Some(EagerVar::from_parts(cell.clone(), track, stop_gradient))
            }
        })
    }
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

pub fn next_number() -> u64 {
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

type Tracks = SmallVec<[Arc<GradEdge>; 4]>;

impl Node {
    /// Releases the edges through which this node owns others; those without other owners go to `into`.
    #[inline]
    fn release(&mut self, into: &mut Tracks) {
        for edge in &mut self.edges.flat {
            if let Some(track) = edge.take() {
                // Owned elsewhere as well, most often by a leaf.
                if Arc::strong_count(&track) == 1 {
                    into.push(track);
                }
            }
        }
    }

    /// True if the gradient operator reads the gradient of output `index`.
    pub fn reads_grad(&self, index: u32) -> bool {
        let read = |src: &Src| match *src {
            Src::GradOut(slot, only) => {
                let all = self.outs.range(slot);
                let index = index as usize;
                only.map_or(all.contains(&index), |i| all.start + i == index)
            }
            _ => false,
        };
        match (self.op.wired(), &self.ops) {
            (Some(w), _) => w.ins.iter().flatten().any(read),
            (None, Some(ops)) => ops.iter().flat_map(|g| g.ins.iter().flatten()).any(read),
            (None, None) => self.call.is_some(),
        }
    }

    /// What the gradient reads; `leave`: the node keeps it. No lock is held while the gradient runs: it may be Python,
    /// which may reach this node again.
    pub fn saved_or_error(&self, leave: bool) -> Result<Saved> {
        let mut held = self.saved.lock();
        let saved = if leave { held.clone() } else { held.take() };
        saved.ok_or_else(|| {
            err!(
                PermissionDenied,
                "trying to run backward through operator {} a second time, but its saved tensors have been freed; \
                 call backward with retain_graph=True the first time",
                self.op.name
            )
        })
    }
}

/// Without recursion: a chain of a million calls overflows no stack.
impl Drop for Node {
    #[inline]
    fn drop(&mut self) {
        let mut tracks = Tracks::new();
        self.release(&mut tracks);
        while let Some(mut track) = tracks.pop() {
            let node = Arc::get_mut(&mut track).and_then(|track| track.node.get_mut().take());
            if let Some((mut node, _)) = node {
                if let Some(node) = Arc::get_mut(&mut node) {
                    node.release(&mut tracks);
                }
            }
        }
    }
}
