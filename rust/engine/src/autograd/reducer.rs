//! Data parallelism: averages the ranks' gradients while backward is running.
//!
//! Parameters are assigned to buckets in reverse order, which is about the order in which backward completes them. A
//! bucket's all_reduce starts, on the group's communication thread, as soon as its gradients are complete and the
//! buckets before it have started, so that all ranks start them in one order. The last bucket is complete when
//! backward ends: it runs on the caller's thread, as all do where the ranks leave no core idle.
//!
//! A bucket's gradients are contiguous (`BucketMemory`). The gradient operator that computes a parameter's only
//! gradient writes into the bucket; other gradients are copied. Where the ranks share memory the bucket is visible to
//! all of them.
//!
//! Gradients on a device have no such memory: an [`Average`] starts the buckets there, all of them during backward.

pub use super::bucket::Param;
use super::bucket::{wire, Bucket, Slot};
use super::reducer_memory::{BucketMemory, Held, ALIGN};
use super::reducer_rows::{dense, rows_average};
use super::request::Request;
use super::tape::{EagerVar, GradEdge, Node};
use oar_comm as comm;
use oar_comm::Signals;
use oar_core::base::Result;
use oar_core::op::backend;
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, ensure};
use oar_net::{CollectiveCall, Dtype, Group, ReduceOp, Work};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Averages gradients over the ranks where they are.
pub trait Average: Send + Sync {
    /// Starts the average of a bucket: parameters by number with their gradients. `None` counts as zeros.
    fn start(&self, bucket: Vec<(usize, Option<Value>)>) -> Result<()>;
    /// The averages of all buckets that were started, by parameter.
    fn finish(&self) -> Result<Vec<(usize, Value)>>;
    /// Ends the buckets of a backward that failed.
    fn abort(&self);
}

pub struct Reducer {
    params: Vec<Param>,
    tracks: Vec<Arc<GradEdge>>,
    by_track: HashMap<usize, usize>,
    buckets: Vec<Bucket>,
    /// Bucket and position in it of a dense parameter.
    home: Vec<Option<(usize, usize)>>,
    sparse: Vec<usize>,
    group: Arc<Group>,
    /// For every bucket, where the ranks share memory: bytes that all of them see.
    seen: Mutex<Vec<Arc<BucketMemory>>>,
    /// Parameters without a gradient in a backward count as zeros; otherwise they are an error.
    find_unused: bool,
    /// Replaces the memory of the buckets and the all_reduce.
    average: Option<Box<dyn Average>>,
    pub enabled: AtomicBool,
    /// Reduce while backward computes.
    pub overlap: AtomicBool,
}

static REDUCERS: Mutex<Vec<Weak<Reducer>>> = Mutex::new(Vec::new());
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// A gradient of this many bytes is a bucket of its own.
const LARGE: usize = 256 << 10;

/// True if a core is idle for the communication thread while the ranks of this host compute.
fn has_idle_core(group: &Group) -> bool {
    let mine = std::thread::available_parallelism().map_or(1, usize::from);
    // SAFETY: the call has no precondition.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1) as usize;
    // With an affinity or quota below the number of cores, the cores are this rank's own.
    let ranks = if mine < online { 1 } else { group.neighbours() };
    mine > ranks * oar_kernels::pool::threads()
}

impl Reducer {
    /// `limits`: bytes of the bucket that is reduced last, and of the others. Every rank must call it.
    pub fn new(
        params: Vec<Param>,
        group: Arc<Group>,
        limits: [usize; 2],
        find_unused: bool,
        average: Option<Box<dyn Average>>,
    ) -> Result<Arc<Reducer>> {
        let tracks: Vec<_> = params.iter().map(|p| p.var.track()).collect();
        let by_track = tracks.iter().enumerate().map(|(i, t)| (Arc::as_ptr(t) as usize, i)).collect();
        let is_here = average.is_none();
        let mut buckets = assign(&params, limits, if is_here { LARGE } else { usize::MAX })?;
        buckets.reverse();
        let mut home = vec![None; params.len()];
        for (b, bucket) in buckets.iter().enumerate() {
            for (s, slot) in bucket.slots.iter().enumerate() {
                home[slot.param] = Some((b, s));
            }
        }
        let sparse = (0..params.len()).filter(|i| params[*i].sparse).collect();
        let has_memory = is_here && !buckets.is_empty();
        let seen = Mutex::new(if has_memory { bucket_memories(&group, &buckets)? } else { Vec::new() });
        let (enabled, overlap) = (AtomicBool::new(true), AtomicBool::new(!is_here || has_idle_core(&group)));
        let reducer = Arc::new(Reducer {
            params,
            tracks,
            by_track,
            buckets,
            home,
            sparse,
            group,
            seen,
            find_unused,
            average,
            enabled,
            overlap,
        });
        let mut all = REDUCERS.lock();
        all.retain(|r| r.strong_count() > 0);
        all.push(Arc::downgrade(&reducer));
        LIVE.store(all.len(), Relaxed);
        Ok(reducer)
    }

    /// The parameters of each bucket, in the order of reduction.
    pub fn layout(&self) -> Vec<Vec<usize>> {
        self.buckets.iter().map(|b| b.slots.iter().map(|s| s.param).collect()).collect()
    }

    /// The parameters that the graph behind `outputs` uses, with the number of gradients that each receives.
    fn count(&self, outputs: &[EagerVar]) -> Vec<u32> {
        let mut left = vec![0; self.params.len()];
        let mut seen: HashSet<u64> = HashSet::new();
        let mut stack: Vec<Arc<Node>> = Vec::new();
        let mut visit = |track: &Arc<GradEdge>, stack: &mut Vec<Arc<Node>>| match track.producer() {
            Some((node, _)) if seen.insert(node.number) => stack.push(node),
            Some(_) => {}
            None => {
                if let Some(i) = self.by_track.get(&(Arc::as_ptr(track) as usize)) {
                    left[*i] += 1;
                }
            }
        };
        for v in outputs {
            if let Some(track) = v.track_if_any() {
                visit(&track, &mut stack);
            }
        }
        while let Some(node) = stack.pop() {
            node.edges.flat.iter().flatten().for_each(|track| visit(track, &mut stack));
        }
        left
    }
}

/// Bytes for every bucket that all ranks see; empty where they share no memory.
fn bucket_memories(group: &Group, buckets: &[Bucket]) -> Result<Vec<Arc<BucketMemory>>> {
    let mut end = 0;
    let mut at = Vec::new();
    for b in buckets {
        at.push(end);
        end += b.bytes().next_multiple_of(ALIGN);
    }
    let buffer = group.symmetric_buffer(end).map_err(comm::error)?;
    Ok(buffer.map_or_else(Vec::new, |buffer| {
        buckets.iter().zip(at).map(|(b, at)| BucketMemory::seen(b, &buffer, at)).collect()
    }))
}

/// Assigns parameters, in order, to buckets of one type, filled up to the limits; one of `large` bytes is a bucket of its
/// own. As in 2.0.2 every type has its own open bucket.
fn assign(params: &[Param], limits: [usize; 2], large: usize) -> Result<Vec<Bucket>> {
    let mut done: Vec<Bucket> = Vec::new();
    let mut open: Vec<(Bucket, usize, usize)> = Vec::new();
    for (i, p) in params.iter().enumerate().filter(|(_, p)| !p.sparse) {
        let t = p.var.tensor()?;
        if t.nbytes() >= large {
            let slots = vec![Slot { param: i, from: 0, len: t.numel() }];
            done.push(Bucket { dtype: t.dtype(), slots, len: t.numel() });
            continue;
        }
        let at = match open.iter().position(|(b, ..)| b.dtype == t.dtype()) {
            Some(at) => at,
            None => {
                open.push((Bucket::new(t.dtype()), 0, 0));
                open.len() - 1
            }
        };
        let (bucket, bytes, made) = &mut open[at];
        let from = bucket.len.next_multiple_of(ALIGN / t.dtype().size());
        bucket.slots.push(Slot { param: i, from, len: t.numel() });
        bucket.len = from + t.numel();
        *bytes += t.nbytes();
        if *bytes >= limits[(*made).min(1)] {
            *bytes = 0;
            *made += 1;
            done.push(std::mem::replace(bucket, Bucket::new(t.dtype())));
        }
    }
    done.extend(open.into_iter().map(|(b, ..)| b).filter(|b| !b.slots.is_empty()));
    done.sort_by_key(|b| b.slots[0].param);
    Ok(done)
}

/// The state of one backward for one reducer.
pub struct Pass {
    reducer: Arc<Reducer>,
    /// Gradients that each parameter still receives.
    left: Vec<u32>,
    ready: Vec<bool>,
    used: Vec<bool>,
    filling: Vec<Filling>,
    /// The bucket that starts next.
    next: usize,
    is_done: bool,
}

struct Filling {
    /// None on a device.
    memory: Option<Arc<BucketMemory>>,
    /// The gradients that are complete, in their positions.
    grads: Vec<Option<Tensor>>,
    missing: usize,
    work: Option<Work>,
}

/// The reducers whose parameters this backward reaches.
pub fn begin(request: &Request) -> Result<Vec<Pass>> {
    if LIVE.load(Relaxed) == 0 || request.inputs.is_some() {
        return Ok(Vec::new());
    }
    let reducers: Vec<_> = REDUCERS.lock().iter().filter_map(Weak::upgrade).collect();
    let mut passes = Vec::new();
    for reducer in reducers.into_iter().filter(|r| r.enabled.load(Relaxed)) {
        let left = reducer.count(request.outputs);
        if left.iter().all(|n| *n == 0) {
            continue;
        }
        let mut filling = Vec::with_capacity(reducer.buckets.len());
        let seen = reducer.seen.lock();
        for (i, b) in reducer.buckets.iter().enumerate() {
            // Gradients of the last backward that are still referenced keep their bytes.
            let memory = match seen.get(i).filter(|memory| memory.is_free()) {
                Some(memory) => Some(memory.clone()),
                None if reducer.average.is_none() => Some(BucketMemory::own(b)?),
                None => None,
            };
            filling.push(Filling { memory, grads: vec![None; b.slots.len()], missing: b.slots.len(), work: None });
        }
        drop(seen);
        let n = left.len();
        let mut pass =
            Pass { reducer, left, ready: vec![false; n], used: vec![false; n], filling, next: 0, is_done: false };
        let unused: Vec<usize> = (0..n).filter(|i| pass.left[*i] == 0).collect();
        pass.refuse(&unused)?;
        unused.into_iter().try_for_each(|i| pass.complete(i))?;
        passes.push(pass);
    }
    Ok(passes)
}

impl Pass {
    fn refuse(&self, unused: &[usize]) -> Result<()> {
        if self.reducer.find_unused || unused.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = unused.iter().map(|i| self.reducer.params[*i].name.as_str()).collect();
        bail!(
            PreconditionNotMet,
            "this backward gives the parameters {names:?} no gradient; DataParallel needs find_unused_parameters=True \
             where that can happen"
        )
    }

    /// Memory in the bucket for this variable's gradient, if it is a parameter and the gradient about to be computed
    /// is its only one.
    pub fn lend(&self, track: &Arc<GradEdge>) -> Option<Tensor> {
        let i = *self.reducer.by_track.get(&(Arc::as_ptr(track) as usize))?;
        let (b, s) = self.reducer.home[i]?;
        let free = self.left[i] == 1 && !self.ready[i] && track.grad.lock().is_none() && track.hooks.lock().is_empty();
        let dims = self.reducer.params[i].var.tensor().ok().filter(|t| !backend::serves(std::iter::once(t)))?;
        if !free {
            return None;
        }
        self.filling[b].memory.as_ref()?.lend(&self.reducer.buckets[b], s, dims.dims())
    }

    /// A node's gradients have been delivered.
    pub fn stepped(&mut self, node: &Node) -> Result<()> {
        node.edges.flat.iter().flatten().try_for_each(|track| self.arrived(track))
    }

    /// An expected gradient of this variable has arrived, if it is a parameter.
    pub fn arrived(&mut self, track: &Arc<GradEdge>) -> Result<()> {
        let Some(&i) = self.reducer.by_track.get(&(Arc::as_ptr(track) as usize)) else { return Ok(()) };
        self.left[i] = self.left[i].saturating_sub(1);
        if self.left[i] == 0 && !self.ready[i] {
            self.complete(i)?;
        }
        Ok(())
    }

    /// The parameter's gradient is final: put it into the bucket.
    fn complete(&mut self, i: usize) -> Result<()> {
        self.ready[i] = true;
        let reducer = self.reducer.clone();
        let Some((b, s)) = reducer.home[i] else {
            self.used[i] = reducer.tracks[i].grad.lock().is_some();
            return Ok(());
        };
        let (bucket, slot) = (&reducer.buckets[b], reducer.buckets[b].slots[s]);
        let cell = reducer.tracks[i].grad.lock().as_ref().map(|g| g.cell.clone());
        // Read in place, so that its bytes keep one reference unless they are used elsewhere.
        let value = cell.as_ref().map(|cell| cell.lock());
        let scattered = if let Some(Value::Rows(r)) = value.as_deref() { Some(dense(r)?) } else { None };
        let grad = match value.as_deref().unwrap_or(&Value::None) {
            Value::None | Value::Rows(_) => scattered.as_ref(),
            Value::Dense(t) => Some(t),
            other => bail!(InvalidArgument, "the gradient of {} is {}", reducer.params[i].name, other.what()),
        };
        self.used[i] = grad.is_some();
        if let Some(t) = grad {
            ensure!(
                t.dtype() == bucket.dtype && t.numel() == slot.len,
                InvalidArgument,
                "the gradient of parameter {} is {t:?}, the parameter has {} elements of {}",
                reducer.params[i].name,
                slot.len,
                bucket.dtype
            );
        }
        self.filling[b].put(bucket, s, grad)?;
        drop(value);
        // The last one is left to the thread that waits; a device's stream takes it as well.
        let last = self.filling.len() - usize::from(reducer.average.is_none());
        while reducer.overlap.load(Relaxed) && self.next < last && self.filling[self.next].missing == 0 {
            match &reducer.average {
                Some(average) => self.start_on_device(&**average, self.next)?,
                None => {
                    let work = reducer.group.start(self.call(self.next)?).map_err(comm::error)?;
                    self.filling[self.next].work = Some(work);
                }
            }
            self.next += 1;
        }
        Ok(())
    }

    fn start_on_device(&self, average: &dyn Average, b: usize) -> Result<()> {
        let grad = |i: usize| self.reducer.tracks[i].grad.lock().as_ref().map(|g| g.cell.get());
        average.start(self.reducer.buckets[b].slots.iter().map(|slot| (slot.param, grad(slot.param))).collect())
    }

    fn call(&self, b: usize) -> Result<CollectiveCall> {
        let dtype = wire(self.reducer.buckets[b].dtype)?;
        let Some(memory) = &self.filling[b].memory else { bail!(Fatal, "a bucket on a device has no memory here") };
        Ok(CollectiveCall::all_reduce(memory.region(), dtype, ReduceOp::Avg))
    }

    /// Ends backward: waits for the averages and sets the gradients.
    pub fn finish(mut self) -> Result<()> {
        let reducer = self.reducer.clone();
        let late: Vec<usize> = (0..self.ready.len()).filter(|i| !self.ready[*i]).collect();
        let unused: Vec<usize> = late.iter().copied().filter(|i| reducer.tracks[*i].grad.lock().is_none()).collect();
        self.refuse(&unused)?;
        late.into_iter().try_for_each(|i| self.complete(i))?;
        for b in self.next..self.filling.len() {
            match &reducer.average {
                Some(average) => self.start_on_device(&**average, b)?,
                None => drop(comm::run(&reducer.group, self.call(b)?)?),
            }
        }
        for filling in &self.filling {
            let Some(work) = &filling.work else { continue };
            let signals = Signals::watch();
            let result = work.wait_with(None, &|| signals.stop());
            signals.explain(result)?;
        }
        // A parameter that no rank used has no gradient.
        let mut used: Vec<u8> = self.used.iter().map(|u| u8::from(*u)).collect();
        if reducer.find_unused {
            let call = CollectiveCall::all_reduce(used, Dtype::U8, ReduceOp::Max);
            used = comm::run(&reducer.group, call)?.into_vec().unwrap_or_default();
        }
        let mut found: Vec<(usize, Value)> = Vec::new();
        for &i in &reducer.sparse {
            let mine = reducer.tracks[i].grad.lock().as_ref().map(|g| g.cell.get());
            if let Some(value) = rows_average(&reducer.group, &reducer.params[i], mine)? {
                found.push((i, value));
            }
        }
        if let Some(average) = &reducer.average {
            found.extend(average.finish()?.into_iter().filter(|(i, _)| used[*i] != 0));
        }
        for (bucket, filling) in reducer.buckets.iter().zip(&self.filling) {
            for (slot, grad) in bucket.slots.iter().zip(&filling.grads).filter(|(s, _)| used[s.param] != 0) {
                let dims = reducer.params[slot.param].var.tensor()?;
                found.extend(grad.as_ref().map(|grad| (slot.param, grad.reshaped(dims.dims()).into())));
            }
        }
        for (i, value) in found {
            *reducer.tracks[i].grad.lock() = Some(EagerVar::new(value, true));
        }
        self.is_done = true;
        Ok(())
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(average) = self.reducer.average.as_ref().filter(|_| !self.is_done) {
            average.abort();
        }
    }
}

impl Filling {
    /// Puts a gradient (or zeros) into its position.
    fn put(&mut self, bucket: &Bucket, slot: usize, grad: Option<&Tensor>) -> Result<()> {
        self.missing -= 1;
        let Some(memory) = &mut self.memory else { return Ok(()) };
        let held = grad.map_or(Held::Elsewhere, |t| memory.holds(bucket, slot, t));
        if matches!(held, Held::Shared) {
            // The bytes are referenced elsewhere: the bucket gets new memory.
            let fresh = BucketMemory::own(bucket)?;
            for (i, grad) in self.grads.iter_mut().enumerate() {
                if let Some(t) = grad {
                    *t = copied(&fresh, bucket, i, Some(t))?;
                }
            }
            *memory = fresh;
        }
        self.grads[slot] = Some(match (held, grad) {
            (Held::There, Some(t)) => t.clone(),
            _ => copied(memory, bucket, slot, grad)?,
        });
        Ok(())
    }
}

/// The values (or zeros) in a free position.
fn copied(memory: &BucketMemory, bucket: &Bucket, slot: usize, values: Option<&Tensor>) -> Result<Tensor> {
    let dims = [bucket.slots[slot].len as i64];
    let mut t = memory.tensor(bucket, slot, values.map_or(&dims, Tensor::dims))?;
    match values {
        Some(values) => t.bytes_mut()?.copy_from_slice(values.bytes()),
        None => t.bytes_mut()?.fill(0),
    }
    Ok(t)
}
