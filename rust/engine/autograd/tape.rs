//! The tape: a node for every recorded call, a track for every variable that takes part.

use oar_core::base::{shape, DType, Dims, Result};
use oar_core::op::{Args, Attrs, GradOp, Op, Src};
use oar_core::tensor::{Cell, Lod, Tensor, Value};
use oar_core::{bail, err};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use super::EVar;

/// Where the gradient of a variable goes: to the call that made it, or (a leaf) into `grad`.
#[derive(Default)]
pub struct Track {
    pub node: Mutex<Option<(Arc<Node>, u32)>>,
    pub grad: Mutex<Option<EVar>>,
    /// The gradient was cleared: where it is looked at before the next one comes, it is zeros.
    pub cleared: AtomicBool,
    /// Called with every gradient that is ready (leaf: accumulated); may replace it.
    pub hooks: Mutex<Vec<Hook>>,
}

pub type HookFn = Arc<dyn Fn(&EVar) -> Result<Option<EVar>> + Send + Sync>;

pub struct Hook {
    pub id: u64,
    pub call: HookFn,
}

impl Track {
    /// The track of output `index` of a node.
    pub fn of(node: Arc<Node>, index: u32) -> Track {
        Track { node: Mutex::new(Some((node, index))), ..Track::default() }
    }

    #[inline]
    pub fn producer(&self) -> Option<(Arc<Node>, u32)> {
        self.node.lock().clone()
    }

    pub fn is_leaf(&self) -> bool {
        self.node.lock().is_none()
    }

    /// Whether a gradient that is not there is zeros: it was cleared, or backward ran without reaching it.
    pub fn is_zero(&self) -> bool {
        self.cleared.load(Ordering::Relaxed)
            || self.producer().is_some_and(|(node, index)| node.ran.load(Ordering::Relaxed) && node.reads_grad(index))
    }
}

/// A recorded call.
pub struct Node {
    pub op: &'static Op,
    pub attrs: Attrs,
    /// Calls are numbered; a consumer always has a higher number than what it consumes.
    pub number: u64,
    /// For each input variable its track, where it needs a gradient.
    pub edges: Args<Option<Arc<Track>>>,
    /// For each output variable what a zero gradient would look like.
    pub outs: Args<OutInfo, 2>,
    /// What the gradient reads; gone after a backward that did not retain the graph.
    pub saved: Mutex<Option<Saved>>,
    /// For gradients made by a function: what it made when the call was recorded.
    pub ops: Option<Vec<GradOp>>,
    /// A backward came here. Gradients of outputs that had none were taken for zeros then, and are zeros since.
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
    pub fn of(t: &Tensor) -> OutInfo {
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

/// A variable kept for the gradient. The cell is kept, not its value, so that a change in place is noticed. Its track is
/// that of the node's edge; an output is kept without one, which would be a cycle.
#[derive(Clone, Default)]
pub enum SavedVar {
    #[default]
    Absent,
    Cell {
        cell: Arc<Cell>,
        version: u32,
    },
    /// Shape and dtype only.
    Shape(OutInfo, Option<Arc<Lod>>),
}

impl SavedVar {
    /// The variable again, if nobody changed it since.
    pub fn load(&self, op: &Op, track: Option<Arc<Track>>, stop_gradient: bool) -> Result<Option<EVar>> {
        Ok(match self {
            SavedVar::Absent => None,
            SavedVar::Shape(info, lod) => {
                Some(EVar::new(Tensor::shape_only(info.dtype, &info.dims)?.with_lod(lod.clone()), true))
            }
            SavedVar::Cell { cell, version } => {
                let now = cell.version();
                if now != *version {
                    bail!(
                        PermissionDenied,
                        "a tensor that is needed to compute the gradient of operator {} has been modified by an \
                         inplace operation: received tensor_version:{now} != wrapper_version_snapshot:{version}",
                        op.name
                    );
                }
                Some(EVar::from_parts(cell.clone(), track, stop_gradient))
            }
        })
    }
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

pub fn next_number() -> u64 {
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

type Tracks = SmallVec<[Arc<Track>; 4]>;

impl Node {
    /// Gives up the tracks through which this node owns others; those that nobody else holds go to `into`.
    #[inline]
    fn release(&mut self, into: &mut Tracks) {
        for edge in &mut self.edges.flat {
            if let Some(track) = edge.take() {
                // Held elsewhere: of a leaf that lives on, most often.
                if Arc::strong_count(&track) == 1 {
                    into.push(track);
                }
            }
        }
    }

    /// Whether the gradient operator reads the gradient of output `index`.
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
            (None, None) => false,
        }
    }

    /// What the gradient reads, for a backward that leaves it here or not. Nothing is locked while the gradient runs:
    /// it may be Python, which may come back to this node.
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

/// A chain of a million calls is freed without recursion.
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
