//! Data parallelism: the ranks' gradients are averaged while backward is still running.
//!
//! Parameters are put into buckets in the reverse of their order, which is about the order in which backward finishes
//! them. A bucket's all_reduce starts, on the group's communication thread, as soon as its gradients are complete and
//! the buckets before it have started, so that every rank starts them in one order. The last one is complete when
//! backward is: it runs on the caller's thread. The gradients are then views of the buckets.

use super::engine::Request;
use super::tape::{Node, Track};
use super::EVar;
use crate::base::comm::{self, Signals};
use crate::base::{DType, Result};
use crate::tensor::{SelectedRows, Tensor, Value};
use crate::{bail, ensure, err};
use oar_dist::{Call, Dtype, Group, ReduceOp, Region, Work};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// A parameter whose gradients are averaged.
pub struct Param {
    pub var: EVar,
    pub name: String,
    /// Its gradient is expected to be SelectedRows.
    pub sparse: bool,
}

/// Where a dense parameter's gradient lies: in elements, from the start of the bucket.
#[derive(Clone, Copy)]
struct Slot {
    param: usize,
    from: usize,
    len: usize,
}

struct Bucket {
    dtype: DType,
    slots: Vec<Slot>,
    /// Elements, with one for each parameter that says whether somebody used it.
    len: usize,
    flags: usize,
}

pub struct Reducer {
    params: Vec<Param>,
    tracks: Vec<Arc<Track>>,
    by_track: HashMap<usize, usize>,
    buckets: Vec<Bucket>,
    /// Bucket and place in it of a dense parameter.
    home: Vec<Option<(usize, usize)>>,
    sparse: Vec<usize>,
    group: Arc<Group>,
    /// Parameters without a gradient in a backward count as zeros; otherwise they are an error.
    find_unused: bool,
    pub enabled: AtomicBool,
}

static REDUCERS: Mutex<Vec<Weak<Reducer>>> = Mutex::new(Vec::new());
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Gradients in a bucket start on lines of the cache.
const ALIGN: usize = 64;

impl Reducer {
    /// `limits` are bytes: of the bucket that is reduced last, and of the others.
    pub fn new(params: Vec<Param>, group: Arc<Group>, limits: [usize; 2], find_unused: bool) -> Result<Arc<Reducer>> {
        let tracks: Vec<_> = params.iter().map(|p| p.var.track()).collect();
        let by_track = tracks.iter().enumerate().map(|(i, t)| (Arc::as_ptr(t) as usize, i)).collect();
        let mut buckets = assign(&params, limits)?;
        buckets.reverse();
        let mut home = vec![None; params.len()];
        for (b, bucket) in buckets.iter().enumerate() {
            for (s, slot) in bucket.slots.iter().enumerate() {
                home[slot.param] = Some((b, s));
            }
        }
        let sparse = (0..params.len()).filter(|i| params[*i].sparse).collect();
        let enabled = AtomicBool::new(true);
        let reducer =
            Arc::new(Reducer { params, tracks, by_track, buckets, home, sparse, group, find_unused, enabled });
        let mut all = REDUCERS.lock();
        all.retain(|r| r.strong_count() > 0);
        all.push(Arc::downgrade(&reducer));
        LIVE.store(all.len(), Relaxed);
        Ok(reducer)
    }

    /// The parameters of each bucket, in the order in which the buckets are reduced.
    pub fn layout(&self) -> Vec<Vec<usize>> {
        self.buckets.iter().map(|b| b.slots.iter().map(|s| s.param).collect()).collect()
    }

    /// The parameters that the graph behind `outputs` uses, with the number of gradients that will come to each.
    fn count(&self, outputs: &[EVar]) -> Vec<u32> {
        let mut left = vec![0; self.params.len()];
        let mut seen: HashSet<u64> = HashSet::new();
        let mut stack: Vec<Arc<Node>> = Vec::new();
        let mut visit = |track: &Arc<Track>, stack: &mut Vec<Arc<Node>>| match track.producer() {
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

/// Buckets of parameters of one type, filled up to the limits, in the order of the parameters. As in 2.0.2 every type
/// has a bucket under way of its own.
fn assign(params: &[Param], limits: [usize; 2]) -> Result<Vec<Bucket>> {
    let mut done: Vec<Bucket> = Vec::new();
    let mut open: Vec<(Bucket, usize, usize)> = Vec::new();
    for (i, p) in params.iter().enumerate().filter(|(_, p)| !p.sparse) {
        let t = p.var.tensor()?;
        let at = match open.iter().position(|(b, ..)| b.dtype == t.dtype()) {
            Some(at) => at,
            None => {
                open.push((Bucket { dtype: t.dtype(), slots: Vec::new(), len: 0, flags: 0 }, 0, 0));
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
            let fresh = Bucket { dtype: t.dtype(), slots: Vec::new(), len: 0, flags: 0 };
            done.push(std::mem::replace(bucket, fresh));
        }
    }
    done.extend(open.into_iter().map(|(b, ..)| b).filter(|b| !b.slots.is_empty()));
    done.sort_by_key(|b| b.slots[0].param);
    for b in &mut done {
        b.flags = b.len;
        b.len += b.slots.len();
    }
    Ok(done)
}

/// What one backward does for one reducer.
pub struct Pass {
    reducer: Arc<Reducer>,
    /// Gradients still to come to each parameter.
    left: Vec<u32>,
    ready: Vec<bool>,
    used: Vec<bool>,
    filling: Vec<Filling>,
    /// The bucket that starts next.
    next: usize,
}

struct Filling {
    tensor: Tensor,
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
        for b in &reducer.buckets {
            let mut tensor = Tensor::empty(b.dtype, &[b.len as i64])?;
            // What lies between the gradients is summed, too: let it be numbers.
            let size = b.dtype.size();
            let ends = b.slots.iter().skip(1).map(|s| s.from).chain([b.flags]);
            let bytes = tensor.bytes_mut()?;
            for (slot, end) in b.slots.iter().zip(ends) {
                bytes[(slot.from + slot.len) * size..end * size].fill(0);
            }
            filling.push(Filling { tensor, missing: b.slots.len(), work: None });
        }
        let n = left.len();
        let mut pass = Pass { reducer, left, ready: vec![false; n], used: vec![false; n], filling, next: 0 };
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

    /// A call's gradients have been delivered.
    pub fn stepped(&mut self, node: &Node) -> Result<()> {
        node.edges.flat.iter().flatten().try_for_each(|track| self.arrived(track))
    }

    /// One of the expected gradients has come to this variable, if it is one of the parameters.
    pub fn arrived(&mut self, track: &Arc<Track>) -> Result<()> {
        let Some(&i) = self.reducer.by_track.get(&(Arc::as_ptr(track) as usize)) else { return Ok(()) };
        self.left[i] = self.left[i].saturating_sub(1);
        if self.left[i] == 0 && !self.ready[i] {
            self.complete(i)?;
        }
        Ok(())
    }

    /// The parameter's gradient is as it will be: into its bucket with it.
    fn complete(&mut self, i: usize) -> Result<()> {
        self.ready[i] = true;
        let reducer = self.reducer.clone();
        let Some((b, s)) = reducer.home[i] else { return Ok(()) };
        let (bucket, slot) = (&reducer.buckets[b], reducer.buckets[b].slots[s]);
        let grad = reducer.tracks[i].grad.lock().as_ref().map(|g| g.cell.get());
        let size = bucket.dtype.size();
        let filling = &mut self.filling[b];
        let (data, flags) = filling.tensor.bytes_mut()?.split_at_mut(bucket.flags * size);
        let into = &mut data[slot.from * size..(slot.from + slot.len) * size];
        self.used[i] = match grad {
            None | Some(Value::None) => {
                into.fill(0);
                false
            }
            Some(value) => {
                let t = match value {
                    Value::Rows(r) => dense(&r)?,
                    other => other.dense()?.clone(),
                };
                ensure!(
                    t.dtype() == bucket.dtype && t.numel() == slot.len,
                    InvalidArgument,
                    "the gradient of parameter {} is {t:?}, the parameter has {} elements of {}",
                    reducer.params[i].name,
                    slot.len,
                    bucket.dtype
                );
                into.copy_from_slice(t.bytes());
                true
            }
        };
        one(bucket.dtype, self.used[i], &mut flags[s * size..(s + 1) * size])?;
        filling.missing -= 1;
        while self.next + 1 < self.filling.len() && self.filling[self.next].missing == 0 {
            let call = self.call()?;
            self.filling[self.next].work = Some(self.reducer.group.start(call)?);
            self.next += 1;
        }
        Ok(())
    }

    fn call(&self) -> Result<Call> {
        average(&self.filling[self.next].tensor)
    }

    /// The end of backward: wait for the averages and make them the gradients.
    pub fn finish(mut self) -> Result<()> {
        let reducer = self.reducer.clone();
        let late: Vec<usize> = (0..self.ready.len()).filter(|i| !self.ready[*i]).collect();
        let unused: Vec<usize> = late.iter().copied().filter(|i| reducer.tracks[*i].grad.lock().is_none()).collect();
        self.refuse(&unused)?;
        late.into_iter().try_for_each(|i| self.complete(i))?;
        if let Some(last) = self.filling.len().checked_sub(1) {
            debug_assert_eq!(self.next, last);
            comm::run(&reducer.group, self.call()?)?;
        }
        for filling in &self.filling {
            let Some(work) = &filling.work else { continue };
            let signals = Signals::watch();
            let result = work.wait_with(None, &|| signals.stop());
            signals.explain(result)?;
        }
        let mut found: Vec<(usize, Value)> = Vec::new();
        for &i in &reducer.sparse {
            let mine = reducer.tracks[i].grad.lock().as_ref().map(|g| g.cell.get());
            if let Some(value) = rows_average(&reducer.group, &reducer.params[i], mine)? {
                found.push((i, value));
            }
        }
        for (bucket, filling) in reducer.buckets.iter().zip(&self.filling) {
            let flags = filling.tensor.view(bucket.flags, &[bucket.slots.len() as i64]).to_f64s();
            for (slot, flag) in bucket.slots.iter().zip(flags) {
                if flag > 0.0 {
                    let dims = reducer.params[slot.param].var.tensor()?;
                    found.push((slot.param, filling.tensor.view(slot.from, dims.dims()).into()));
                }
            }
        }
        for (i, value) in found {
            *reducer.tracks[i].grad.lock() = Some(EVar::new(value, true));
        }
        Ok(())
    }
}

fn wire(dtype: DType) -> Result<Dtype> {
    Ok(Dtype::from_number(dtype.proto() as u8)?)
}

fn raw(t: &Tensor) -> Region {
    // SAFETY: the tensor goes with the region and keeps the bytes; only the operation uses them until it has ended.
    unsafe { Region::raw(t.ptr(), t.nbytes(), Some(Box::new(t.clone()))) }
}

fn average(t: &Tensor) -> Result<Call> {
    Ok(Call::all_reduce(raw(t), wire(t.dtype())?, ReduceOp::Avg))
}

/// 1 or 0 as an element.
fn one(dtype: DType, set: bool, into: &mut [u8]) -> Result<()> {
    use half::{bf16, f16};
    let x = f32::from(u8::from(set));
    match dtype {
        DType::F32 => into.copy_from_slice(&x.to_ne_bytes()),
        DType::F64 => into.copy_from_slice(&f64::from(x).to_ne_bytes()),
        DType::F16 => into.copy_from_slice(&f16::from_f32(x).to_ne_bytes()),
        DType::BF16 => into.copy_from_slice(&bf16::from_f32(x).to_ne_bytes()),
        other => bail!(InvalidArgument, "gradients of {other} cannot be averaged"),
    }
    Ok(())
}

trait Number: crate::base::dtype::Element + Copy + Default + std::ops::AddAssign + std::ops::Div<Output = Self> {
    fn of(n: usize) -> Self;
}
impl Number for f32 {
    fn of(n: usize) -> f32 {
        n as f32
    }
}
impl Number for f64 {
    fn of(n: usize) -> f64 {
        n as f64
    }
}

fn dense(r: &SelectedRows) -> Result<Tensor> {
    match r.value.dtype() {
        DType::F32 => dense_of::<f32>(r),
        DType::F64 => dense_of::<f64>(r),
        other => bail!(Unimplemented, "SelectedRows of {other} as a gradient between processes"),
    }
}

/// The whole matrix, with zeros in the rows that are not there.
fn dense_of<T: Number>(r: &SelectedRows) -> Result<Tensor> {
    let mut dims = r.value.dims().to_vec();
    dims[0] = r.height;
    let mut whole = Tensor::zeros(r.value.dtype(), &dims)?;
    let width = r.value.numel() / r.rows.len().max(1);
    let (out, values) = (whole.data_mut::<T>()?, r.value.data::<T>());
    for (k, &row) in r.rows.iter().enumerate() {
        ensure!((0..r.height).contains(&row), InvalidArgument, "row {row} of SelectedRows with {} rows", r.height);
        let at = row as usize * width;
        out[at..at + width].iter_mut().zip(&values[k * width..(k + 1) * width]).for_each(|(o, v)| *o += *v);
    }
    Ok(whole)
}

fn gather(group: &Group, mine: Tensor) -> Result<Tensor> {
    let all = Tensor::empty(mine.dtype(), &[(mine.numel() * group.world()) as i64])?;
    comm::run(group, Call::all_gather(raw(&mine), raw(&all), wire(mine.dtype())?))?;
    Ok(all)
}

/// The average of gradients that are SelectedRows; rows rise, so that every rank has the same bits. If one of the ranks
/// has a dense gradient, all get one. `None` where no rank has any.
fn rows_average(group: &Group, param: &Param, mine: Option<Value>) -> Result<Option<Value>> {
    const ABSENT: i64 = -1;
    const DENSE: i64 = -2;
    let like = param.var.tensor()?;
    let mine = mine.unwrap_or_default();
    let state = match &mine {
        Value::None => ABSENT,
        Value::Rows(r) => r.rows.len() as i64,
        _ => DENSE,
    };
    let states = gather(group, Tensor::scalar(state)?)?.to_i64s()?;
    if states.iter().all(|s| *s == ABSENT) {
        return Ok(None);
    }
    if states.contains(&DENSE) {
        let sum = match mine {
            Value::None => Tensor::zeros(like.dtype(), like.dims())?,
            Value::Rows(r) => dense(&r)?,
            other => other.dense()?.deep_copy()?,
        };
        comm::run(group, average(&sum)?)?;
        return Ok(Some(sum.into()));
    }
    let width: usize = like.dims()[1..].iter().map(|d| *d as usize).product();
    let most = states.iter().max().map_or(0, |n| (*n).max(0) as usize);
    let mut rows = Tensor::zeros(DType::I64, &[most as i64])?;
    let mut values = Tensor::zeros(like.dtype(), &[(most * width) as i64])?;
    if let Value::Rows(r) = &mine {
        let n = r.rows.len();
        ensure!(
            r.value.dtype() == like.dtype() && r.value.numel() == n * width,
            InvalidArgument,
            "the gradient of parameter {} has rows {:?}, the parameter is {like:?}",
            param.name,
            r.value
        );
        rows.data_mut::<i64>()?[..n].copy_from_slice(&r.rows);
        values.bytes_mut()?[..r.value.nbytes()].copy_from_slice(r.value.bytes());
    }
    let (rows, values) = (gather(group, rows)?, gather(group, values)?);
    // For every row the places it is found at, by rank and then as the rank had them.
    let mut places: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (rank, n) in states.iter().enumerate() {
        for k in 0..(*n).max(0) as usize {
            let at = rank * most + k;
            places.entry(rows.data::<i64>()[at]).or_default().push(at);
        }
    }
    let mut dims = like.dims().to_vec();
    dims[0] = places.len() as i64;
    let value = match like.dtype() {
        DType::F32 => merged::<f32>(&places, &values, width, &dims, group.world())?,
        DType::F64 => merged::<f64>(&places, &values, width, &dims, group.world())?,
        other => return Err(err!(Unimplemented, "SelectedRows of {other} as a gradient between processes")),
    };
    let rows = Arc::new(places.into_keys().collect());
    Ok(Some(SelectedRows { rows, height: like.dims()[0], value }.into()))
}

fn merged<T: Number>(
    places: &BTreeMap<i64, Vec<usize>>,
    values: &Tensor,
    width: usize,
    dims: &[i64],
    world: usize,
) -> Result<Tensor> {
    let mut out = Tensor::zeros(T::DTYPE, dims)?;
    let (into, from) = (out.data_mut::<T>()?, values.data::<T>());
    for (k, at) in places.values().enumerate() {
        let row = &mut into[k * width..(k + 1) * width];
        for p in at {
            row.iter_mut().zip(&from[p * width..(p + 1) * width]).for_each(|(o, v)| *o += *v);
        }
        row.iter_mut().for_each(|o| *o = *o / T::of(world));
    }
    Ok(out)
}
