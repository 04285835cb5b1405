//! A group of ranks with a program order of its own.
//!
//! A blocking operation runs on the caller's thread if none is queued before it, which saves two thread switches; all
//! others run on the group's communication thread, in the order of the calls.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::call::{CollectiveCall, Region};
use crate::codec::{Put, Take};
use crate::collective;
use crate::collective_plan::RankInfo;
use crate::context::Context;
use crate::costs::Costs;
use crate::dtype::{Dtype, ReduceOp};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::failure;
use crate::fingerprint::Fingerprint;
use crate::fork::ForkGeneration;
use crate::frame::Type;
use crate::handshake::Identity;
use crate::shm::symmetric::SymmetricBuffer;
use crate::socket::{self, SLICE};
use crate::state::{GroupState, Guard, PeerInfo, Shared, NOT_WAITING};
use crate::transport::{MakeTransport, Membership, NoPeers};
use crate::work::{Outcome, Work};

struct Job {
    call: CollectiveCall,
    outcome: Arc<Outcome>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// A thread runs an operation.
    busy: bool,
    closing: bool,
    has_thread: bool,
}

struct Inner {
    shared: Arc<Shared>,
    state: Arc<GroupState>,
    me: usize,
    timeout: Duration,
    engine: Mutex<Engine>,
    queue: Mutex<Queue>,
    changed: Condvar,
    generation: ForkGeneration,
}

/// Ranks that run operations together. All members must call the same operations in the same order.
pub struct Group {
    inner: Arc<Inner>,
    /// The context lives at least as long as its groups.
    context: Option<Arc<Context>>,
}

impl Context {
    /// Creates a group of these distinct ranks, in this order; this rank must be among them. All members must create
    /// it, and create their common groups in the same order.
    pub fn group(self: &Arc<Self>, ranks: &[usize]) -> Result<Arc<Group>> {
        self.group_over(ranks, self.options.over.as_ref())
    }

    /// A group whose data goes through a transport that `over` creates, such as MPI. Monitoring, fingerprints and
    /// collective plans are the same.
    pub fn group_over(self: &Arc<Self>, ranks: &[usize], over: Option<&MakeTransport>) -> Result<Arc<Group>> {
        self.place(ranks)?;
        let id = self.new_id(ranks);
        Group::make(self, id, ranks.to_vec(), over)
    }

    /// The group of all ranks.
    pub fn world_group(self: &Arc<Self>) -> Result<Arc<Group>> {
        self.group(&(0..self.world()).collect::<Vec<_>>())
    }
}

type Tick<'a> = &'a dyn Fn() -> bool;

impl Group {
    fn make(context: &Arc<Context>, id: u64, ranks: Vec<usize>, over: Option<&MakeTransport>) -> Result<Arc<Group>> {
        let shared = context.shared.clone();
        let me = ranks.iter().position(|r| *r == shared.rank).unwrap_or(0);
        let state = Arc::new(GroupState::new(id, ranks)?);
        shared.enter(&state);
        let engine = match over {
            Some(make) => make(Membership::new(shared.clone(), state.clone(), me))
                .map(|t| Engine::over(t, RankInfo::new(me, state.ranks.len()), context.options.costs)),
            None => Engine::make(context, &state, me),
        };
        let engine = match engine {
            Ok(engine) => engine,
            Err(e) => {
                shared.groups.lock().remove(&id);
                return Err(e);
            }
        };
        let inner = Arc::new(Inner {
            shared,
            state,
            me,
            timeout: context.options.timeout,
            engine: Mutex::new(engine),
            queue: Mutex::default(),
            changed: Condvar::new(),
            generation: ForkGeneration::now(),
        });
        Ok(Arc::new(Group { inner, context: Some(context.clone()) }))
    }

    /// The group of a process without a job: rank 0 of 1.
    pub fn solo() -> Result<Arc<Group>> {
        let identity = Arc::new(Identity::new("", &[], 1, 0));
        let (address, host) = (([127, 0, 0, 1], 0).into(), socket::host_name());
        let nowhere = PeerInfo { address, host, number: 0, host_key: String::new() };
        let shared = Arc::new(Shared::new(identity, vec![nowhere], None)?);
        let state = Arc::new(GroupState::new(0, vec![0])?);
        shared.enter(&state);
        let inner = Arc::new(Inner {
            shared,
            state,
            me: 0,
            timeout: Duration::MAX,
            engine: Mutex::new(Engine::over(Box::new(NoPeers), RankInfo::new(0, 1), Costs::default())),
            queue: Mutex::default(),
            changed: Condvar::new(),
            generation: ForkGeneration::now(),
        });
        Ok(Arc::new(Group { inner, context: None }))
    }

    /// The membership that created the group; `None` for a process without a job.
    pub(crate) fn context(&self) -> Option<&Arc<Context>> {
        self.context.as_ref()
    }

    /// This rank within the group.
    pub fn rank(&self) -> usize {
        self.inner.me
    }

    pub fn world(&self) -> usize {
        self.inner.state.ranks.len()
    }

    /// Global ranks, by group rank.
    pub fn ranks(&self) -> &[usize] {
        &self.inner.state.ranks
    }

    /// Number of the group's ranks on this host, this one included.
    pub fn neighbours(&self) -> usize {
        let shared = &self.inner.shared;
        let here = &shared.peers[shared.rank].host_key;
        self.ranks().iter().filter(|r| shared.peers[**r].host_key == *here).count()
    }

    /// Name of the data's transport: "shared memory", "tcp", or both.
    pub fn transport(&self) -> &'static str {
        self.inner.engine.lock().describe()
    }

    /// Allocates `bytes` of memory per rank, mapped by all ranks; all must call it. `all_reduce` reduces data at the
    /// same offset on every rank in place, without copies. `None` if not all ranks share memory, or if copies are
    /// faster.
    pub fn symmetric_buffer(&self, bytes: usize) -> Result<Option<Arc<SymmetricBuffer>>> {
        self.inner.generation.check("a group")?;
        let Some(context) = &self.context else { return Ok(None) };
        // All ranks create it, with one size, or none does.
        let wanted = u64::from(self.inner.engine.lock().wants_symmetric_buffers());
        let mut request = Put::default().u64(wanted).u64(bytes as u64).u64(!(bytes as u64)).0;
        self.all_reduce(&mut request, Dtype::I64, ReduceOp::Min)?;
        let mut least = Take(&request);
        let (wanted, smallest, largest) = (least.u64(), least.u64(), least.u64().map(|n| !n));
        if smallest != largest {
            return Err(Error::invalid(format!(
                "symmetric buffer: {bytes} bytes, where other ranks request another size"
            )));
        }
        match wanted {
            Some(1) => self.inner.engine.lock().symmetric_buffer(context, &self.inner.state, bytes),
            _ => Ok(None),
        }
    }

    /// Queues an operation for the communication thread.
    pub fn start(&self, call: CollectiveCall) -> Result<Work> {
        self.inner.generation.check("a group")?;
        call.check(self.rank(), self.world())?;
        let name = call.kind.name();
        let outcome = Arc::new(Outcome::default());
        let mut q = self.inner.queue.lock();
        if !q.has_thread {
            let inner = self.inner.clone();
            std::thread::Builder::new()
                .name("oar-comm".into())
                .spawn(move || inner.serve())
                .map_err(|e| Error::io("communication thread", e))?;
            q.has_thread = true;
        }
        q.jobs.push_back(Job { call, outcome: outcome.clone() });
        self.inner.changed.notify_all();
        Ok(Work { outcome, name, generation: self.inner.generation })
    }

    /// Runs an operation to its end and returns its output region.
    pub fn run(&self, call: CollectiveCall) -> Result<Region> {
        self.run_with(call, &|| false)
    }

    /// As `run`; `tick` is called at least every 50 ms while waiting, and `true` from it interrupts the operation.
    pub fn run_with(&self, mut call: CollectiveCall, tick: Tick<'_>) -> Result<Region> {
        self.inner.generation.check("a group")?;
        call.check(self.rank(), self.world())?;
        {
            let mut q = self.inner.queue.lock();
            if q.busy || !q.jobs.is_empty() {
                drop(q);
                return self.run_queued(call, tick);
            }
            q.busy = true;
        }
        let result = self.inner.perform(&mut call, Some(tick));
        self.inner.idle();
        result.map(|()| call.output)
    }

    fn run_queued(&self, call: CollectiveCall, tick: Tick<'_>) -> Result<Region> {
        let work = self.start(call)?;
        loop {
            // The buffers belong to the caller: this may not return before the operation has ended.
            match work.wait_with(None, tick) {
                Err(Error::Interrupted { .. }) if !work.is_done() => {
                    self.inner.state.fail(Error::Interrupted { during: "an operation".into() });
                }
                other => return other.map(|()| work.take()),
            }
        }
    }

    fn borrowed(&self, make: impl FnOnce() -> CollectiveCall) -> Result<()> {
        self.run(make()).map(drop)
    }

    pub fn barrier(&self) -> Result<()> {
        self.borrowed(CollectiveCall::barrier)
    }

    /// `data` becomes the reduction over all ranks, bitwise equal on every rank.
    pub fn all_reduce(&self, data: &mut [u8], dtype: Dtype, op: ReduceOp) -> Result<()> {
        self.borrowed(|| CollectiveCall::all_reduce(output(data), dtype, op))
    }

    pub fn reduce(&self, data: &mut [u8], dtype: Dtype, op: ReduceOp, root: usize) -> Result<()> {
        self.borrowed(|| CollectiveCall::reduce(output(data), dtype, op, root))
    }

    pub fn broadcast(&self, data: &mut [u8], dtype: Dtype, root: usize) -> Result<()> {
        self.borrowed(|| CollectiveCall::broadcast(output(data), dtype, root))
    }

    pub fn all_gather(&self, data: &[u8], all: &mut [u8], dtype: Dtype) -> Result<()> {
        self.borrowed(|| CollectiveCall::all_gather(input(data), output(all), dtype))
    }

    pub fn reduce_scatter(&self, all: &[u8], data: &mut [u8], dtype: Dtype, op: ReduceOp) -> Result<()> {
        self.borrowed(|| CollectiveCall::reduce_scatter(input(all), output(data), dtype, op))
    }

    /// `all` is read on the root only.
    pub fn scatter(&self, all: &[u8], data: &mut [u8], dtype: Dtype, root: usize) -> Result<()> {
        self.borrowed(|| CollectiveCall::scatter(input(all), output(data), dtype, root))
    }

    /// `all` is written on the root only.
    pub fn gather(&self, data: &[u8], all: &mut [u8], dtype: Dtype, root: usize) -> Result<()> {
        self.borrowed(|| CollectiveCall::gather(input(data), output(all), dtype, root))
    }

    pub fn all_to_all(&self, data: &[u8], all: &mut [u8], dtype: Dtype) -> Result<()> {
        self.borrowed(|| CollectiveCall::all_to_all(input(data), output(all), dtype))
    }

    pub fn send(&self, data: &[u8], dtype: Dtype, to: usize) -> Result<()> {
        self.borrowed(|| CollectiveCall::send(input(data), dtype, to))
    }

    pub fn recv(&self, data: &mut [u8], dtype: Dtype, from: usize) -> Result<()> {
        self.borrowed(|| CollectiveCall::recv(output(data), dtype, from))
    }
}

fn input(data: &[u8]) -> Region {
    // SAFETY: an input is only read, and the blocking call ends before the borrow does.
    unsafe { Region::raw(data.as_ptr().cast_mut(), data.len(), None) }
}

fn output(data: &mut [u8]) -> Region {
    // SAFETY: the blocking call ends before the exclusive borrow does.
    unsafe { Region::raw(data.as_mut_ptr(), data.len(), None) }
}

impl Inner {
    /// Runs one operation, on the thread that has set `busy`.
    fn perform(&self, call: &mut CollectiveCall, tick: Option<Tick<'_>>) -> Result<()> {
        let mut engine = self.engine.lock();
        let doing = engine.next_fingerprint(call, self.me, self.state.id);
        let started = Instant::now();
        {
            let mut now = self.state.now.lock();
            now.doing = doing;
            now.since = started;
        }
        let limit = call.limit.unwrap_or(self.timeout);
        let guard = Guard { shared: &self.shared, group: &self.state, doing, started, limit, tick };
        // A panic must not leave the queue busy for ever.
        let body = || guard.check().and_then(|()| collective::perform(&mut engine, call, &guard));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body))
            .unwrap_or_else(|_| Err(Error::Broken { cause: format!("an internal error in {doing}") }));
        self.state.now.lock().doing = Fingerprint::NONE;
        self.state.waiting.store(NOT_WAITING, std::sync::atomic::Ordering::Relaxed);
        if let Err(e) = &result {
            if self.state.failure().is_none() && self.shared.failure().is_none() {
                // Other ranks would wait for this one: they are notified, and the group becomes unusable.
                let payload = failure::encode(Some(self.state.id), e, self.shared.rank);
                self.shared.post(Type::Failure, payload);
                self.state.fail(Error::Broken { cause: e.to_string() });
            }
        }
        result
    }

    fn idle(&self) {
        let mut q = self.queue.lock();
        q.busy = false;
        if q.has_thread {
            self.changed.notify_all();
        }
    }

    /// The communication thread.
    fn serve(&self) {
        loop {
            let mut job = {
                let mut q = self.queue.lock();
                loop {
                    if q.closing {
                        return q.jobs.drain(..).for_each(|j| {
                            j.outcome.end(Err(Error::Closed("the group".into())), Region::Absent);
                        });
                    }
                    if !q.busy {
                        if let Some(job) = q.jobs.pop_front() {
                            q.busy = true;
                            break job;
                        }
                    }
                    self.changed.wait_for(&mut q, SLICE * 20);
                }
            };
            let result = self.perform(&mut job.call, None);
            self.idle();
            // The caller's memory is released now; owned output is kept for `Work::take`.
            let output = match std::mem::take(&mut job.call.output) {
                Region::Owned(bytes) => Region::Owned(bytes),
                _ => Region::Absent,
            };
            drop(job.call);
            job.outcome.end(result, output);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.inner.generation.is_forked() {
            // A forked child must not touch it, the shared memory in particular.
            std::mem::forget((self.inner.clone(), self.context.clone()));
            return;
        }
        self.inner.queue.lock().closing = true;
        self.inner.changed.notify_all();
        let id = self.inner.state.id;
        self.inner.shared.groups.lock().remove(&id);
        self.inner.shared.arrivals.lock().retain(|(group, _), _| *group != id);
    }
}
