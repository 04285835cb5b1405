//! The tape: a node for every recorded call, a track for every variable that takes part.

use crate::base::{DType, Dims, Result};
use crate::op::{Args, Attrs, GradOp, Op};
use crate::tensor::{Cell, Lod, Tensor, Value};
use crate::{bail, err};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use super::EVar;

/// Where the gradient of a variable goes: to the call that made it, or (a leaf) into `grad`.
#[derive(Default)]
pub struct Track {
    pub node: Mutex<Option<(Arc<Node>, u16)>>,
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
    pub fn of(node: Arc<Node>, index: u16) -> Track {
        Track { node: Mutex::new(Some((node, index))), ..Track::default() }
    }

    #[inline]
    pub fn producer(&self) -> Option<(Arc<Node>, u16)> {
        self.node.lock().clone()
    }

    pub fn is_leaf(&self) -> bool {
        self.node.lock().is_none()
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
    pub outs: Args<OutInfo>,
    /// What the gradient reads; gone after a backward that did not retain the graph.
    pub saved: Mutex<Option<Saved>>,
    /// For gradients made by a function: what it made when the call was recorded.
    pub ops: Option<Vec<GradOp>>,
}

#[derive(Clone)]
pub struct OutInfo {
    pub dims: Dims,
    pub dtype: DType,
}

impl OutInfo {
    pub fn zeros(&self) -> Result<Value> {
        Ok(Value::Dense(Tensor::zeros(self.dtype, &self.dims)?))
    }
}

pub struct Saved {
    pub ins: Args<SavedVar>,
    pub outs: Args<SavedVar>,
}

/// A variable kept for the gradient. The cell is kept, not its value, so that a change in place is noticed.
#[derive(Clone, Default)]
pub enum SavedVar {
    #[default]
    Absent,
    Cell {
        cell: Arc<Cell>,
        version: u32,
        track: Option<Arc<Track>>,
        stop_gradient: bool,
    },
    /// Shape and dtype only.
    Shape(OutInfo, Option<Arc<Lod>>),
}

impl SavedVar {
    /// The variable again, if nobody changed it since.
    pub fn load(&self, op: &Op) -> Result<Option<EVar>> {
        Ok(match self {
            SavedVar::Absent => None,
            SavedVar::Shape(info, lod) => {
                Some(EVar::new(Tensor::shape_only(info.dtype, &info.dims)?.with_lod(lod.clone()), true))
            }
            SavedVar::Cell { cell, version, track, stop_gradient } => {
                let now = cell.version();
                if now != *version {
                    bail!(
                        PermissionDenied,
                        "a tensor that is needed to compute the gradient of operator {} has been modified by an \
                         inplace operation: received tensor_version:{now} != wrapper_version_snapshot:{version}",
                        op.name
                    );
                }
                Some(EVar::from_parts(cell.clone(), track.clone(), *stop_gradient))
            }
        })
    }
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

pub fn next_number() -> u64 {
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

type Tracks = SmallVec<[Arc<Track>; 8]>;

impl Node {
    /// Everything through which this node owns others.
    fn take_tracks(&mut self, into: &mut Tracks) {
        let mut take = |track: &mut Option<Arc<Track>>| {
            if let Some(track) = track.take() {
                into.push(track);
            }
        };
        self.edges.flat.iter_mut().for_each(&mut take);
        if let Some(saved) = self.saved.get_mut() {
            for var in saved.ins.flat.iter_mut().chain(saved.outs.flat.iter_mut()) {
                if let SavedVar::Cell { track, .. } = var {
                    take(track);
                }
            }
        }
    }

    pub fn saved_or_error(&self) -> Result<parking_lot::MappedMutexGuard<'_, Saved>> {
        parking_lot::MutexGuard::try_map(self.saved.lock(), Option::as_mut).map_err(|_| {
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
    fn drop(&mut self) {
        let mut tracks = Tracks::new();
        self.take_tracks(&mut tracks);
        while let Some(track) = tracks.pop() {
            let Some(track) = Arc::into_inner(track) else { continue };
            if let Some((node, _)) = track.node.into_inner() {
                if let Some(mut node) = Arc::into_inner(node) {
                    node.take_tracks(&mut tracks);
                }
            }
        }
    }
}
