//! From a call to plans: which algorithm, over what, in which precision.

use std::sync::Arc;
use std::time::Duration;

use crate::call::CollectiveCall;
use crate::context::Context;
use crate::dtype::{Dtype, ReduceOp};
use crate::error::Result;
use crate::exec::{self, Buffers, Scratch};
use crate::fingerprint::{Fingerprint, Kind};
use crate::hosts::{self, Hosts};
use crate::net::Deadline;
use crate::plan::{self, RankInfo, Schedule};
use crate::reduce;
use crate::shm::area::Area;
use crate::shm::local::{self, For, Reduction};
use crate::shm::pair::PairTransport;
use crate::shm::symmetric::SymmetricBuffer;
use crate::shm::{self};
use crate::state::{GroupState, Guard, Shared};
use crate::tcp::TcpTransport;
use crate::transport::Transport;

/// What one group needs to run operations; one thread has it at a time.
pub struct Engine {
    transport: Box<dyn Transport>,
    /// The ranks of this host, where there are several.
    pub(crate) area: Option<Area>,
    way: Way,
    scratch: Scratch,
    /// Copies of buffers that must not change, and halves in float32.
    spare: Vec<u8>,
    pub(crate) place: RankInfo,
    pub(crate) small: usize,
    next: u64,
    /// Messages so far to and from every rank.
    sent: Vec<u64>,
    received: Vec<u64>,
}

/// How the group's ranks lie on hosts.
enum Way {
    /// Plans over the transport.
    Flat,
    /// All on one host: lockstep over shared memory; the transport is for send and receive.
    Local,
    /// Within the hosts, and among those who speak for them.
    Hosts(Hosts),
}

/// How long to spin before sleeping: only where every rank can have a core of its own.
fn spin(shared: &Shared, cores: usize, local: usize) -> Duration {
    let key = &shared.peers[shared.rank].host_key;
    let everybody = shared.peers.iter().filter(|p| p.host_key == *key).count();
    let online = std::thread::available_parallelism().map_or(1, usize::from).max(cores);
    if cores >= local && online >= everybody {
        Duration::from_millis(2)
    } else {
        Duration::ZERO
    }
}

/// An error if whoever makes something with the others is to stop waiting.
fn may_wait(context: &Context) -> Result<()> {
    context.store.check_interrupt("making a group")?;
    context.shared.failure().map_or(Ok(()), Err)
}

impl Engine {
    pub fn make(context: &Arc<Context>, state: &Arc<GroupState>, me: usize) -> Result<Engine> {
        let world = state.ranks.len();
        let shared = &context.shared;
        let on = Hosts::of(shared, state, me);
        let (mine, local) = on.here();
        let mut area = None;
        let mut pairs: Option<Box<dyn Transport>> = None;
        if mine.len() > 1 {
            let leader = state.ranks[mine[0]];
            let key = format!("oar/{}/shm/{:016x}/{leader}", context.options.name, state.id);
            let stop = || may_wait(context);
            let deadline = Deadline::new(context.options.init_timeout, &stop);
            let seg = shm::meet(&context.store, &key, local, mine.len(), &deadline)?;
            let spin = spin(shared, seg.cores, mine.len());
            if mine.len() == world {
                let (shared, state) = (shared.clone(), state.clone());
                pairs = Some(Box::new(PairTransport::new(seg.clone(), shared, state, me, spin)));
            }
            let ranks = mine.iter().map(|r| state.ranks[*r]).collect();
            area = Some(Area::new(seg, local, ranks, spin));
        }
        let way = match (&area, on.count()) {
            (None, h) if h == world => Way::Flat,
            _ if context.options.flat => Way::Flat,
            (_, 1) => Way::Local,
            _ => Way::Hosts(on),
        };
        let transport = pairs.unwrap_or_else(|| Box::new(TcpTransport::new(context.shared.clone(), state.clone(), me)));
        let engine = Engine::over(transport, RankInfo::new(me, world), context.options.small);
        Ok(Engine { area, way, ..engine })
    }

    pub fn wants_rooms(&self) -> bool {
        matches!(&self.way, Way::Local) && self.area.as_ref().is_some_and(Area::wants_rooms)
    }

    /// As `Group::symmetric buffer`, when all ranks want it.
    pub fn symmetric_buffer(
        &mut self,
        context: &Context,
        state: &GroupState,
        len: usize,
    ) -> Result<Option<Arc<SymmetricBuffer>>> {
        let Some(area) = &mut self.area else { return Ok(None) };
        let stop = || may_wait(context);
        let deadline = Deadline::new(context.options.init_timeout, &stop);
        let id = area.next_room();
        let key = format!("oar/{}/symmetric/{:016x}/{id}", context.options.name, state.id);
        let buffer = Arc::new(SymmetricBuffer::meet(&context.store, &key, (area.me, area.world), len, id, &deadline)?);
        area.add_symmetric(&buffer);
        Ok(Some(buffer))
    }

    /// Plans over `transport`.
    pub fn over(transport: Box<dyn Transport>, place: RankInfo, small: usize) -> Engine {
        let (world, segment) = (place.world, transport.segment().max(1));
        Engine {
            transport,
            area: None,
            way: Way::Flat,
            scratch: Scratch::new(),
            spare: Vec::new(),
            place: RankInfo { segment, ..place },
            small,
            next: 0,
            sent: vec![0; world],
            received: vec![0; world],
        }
    }

    pub fn describe(&self) -> &'static str {
        match self.way {
            Way::Hosts(_) => "shared memory within hosts, tcp between",
            _ => self.transport.name(),
        }
    }

    /// Number the operation. Send and receive are numbered per pair, since only two ranks take part.
    pub fn next_fingerprint(&mut self, call: &CollectiveCall, me: usize, group: u64) -> Fingerprint {
        let (root, counter) = match (call.kind, call.sends) {
            (Kind::SendRecv, true) => ((me as u64) << 32 | call.root as u64, &mut self.sent[call.root]),
            (Kind::SendRecv, false) => ((call.root as u64) << 32 | me as u64, &mut self.received[call.root]),
            (kind, _) => (if kind.has_root() { call.root as u64 } else { 0 }, &mut self.next),
        };
        let seq = *counter;
        *counter += 1;
        Fingerprint::new(call.kind, call.dtype, call.op, root, group, seq, &call.dims())
    }
}

pub fn perform(engine: &mut Engine, call: &mut CollectiveCall, guard: &Guard<'_>) -> Result<()> {
    if engine.place.world == 1 {
        alone(call);
        return Ok(());
    }
    engine.transport.begin(&guard.doing, guard.limit);
    match (&engine.way, call.kind) {
        (_, Kind::SendRecv) | (Way::Flat, _) => over_transport(engine, call, guard),
        (Way::Local, _) => {
            let Some(area) = &mut engine.area else { return over_transport(engine, call, guard) };
            area.begin(&guard.doing);
            in_memory(area, call, guard)
        }
        (Way::Hosts(_), kind) if hosts::takes(kind) => {
            // The way and the spare buffer leave the engine while the engine runs.
            let way = std::mem::replace(&mut engine.way, Way::Flat);
            let mut spare = std::mem::take(&mut engine.spare);
            let result = match &way {
                Way::Hosts(on) => hosts::perform(engine, on, call, guard, &mut spare),
                _ => Ok(()),
            };
            engine.way = way;
            engine.spare = spare;
            result
        }
        (Way::Hosts(_), _) => over_transport(engine, call, guard),
    }
}

/// All ranks share memory.
fn in_memory(a: &mut Area, call: &mut CollectiveCall, g: &Guard<'_>) -> Result<()> {
    let over = if call.op == ReduceOp::Avg { a.world } else { 1 };
    let r = Reduction { dtype: call.dtype, op: call.op, over };
    let (input, out, root) = (call.input.bytes(), call.output.bytes_mut(), call.root);
    match call.kind {
        Kind::AllReduce => local::all_reduce(a, g, out, &r, For::All),
        Kind::Reduce => local::all_reduce(a, g, out, &r, For::Root(root)),
        Kind::Broadcast => local::broadcast(a, g, out, root),
        Kind::AllGather => local::gather(a, g, input, out, For::All, |rank| rank),
        Kind::Gather => local::gather(a, g, input, out, For::Root(root), |rank| rank),
        Kind::ReduceScatter => local::reduce_scatter(a, g, input, out, &r),
        Kind::Scatter => local::scatter(a, g, input, out, root),
        Kind::AllToAll => local::all_to_all(a, g, input, out),
        Kind::Barrier | Kind::SendRecv => a.commit(g),
    }
}

/// A group of one rank: results are the inputs. The average of one is itself.
fn alone(call: &mut CollectiveCall) {
    if !matches!(call.kind, Kind::AllReduce | Kind::Reduce | Kind::Broadcast | Kind::Barrier | Kind::SendRecv) {
        call.output.bytes_mut().copy_from_slice(call.input.bytes());
    }
    if call.kind.reduces() && call.dtype == Dtype::Bool {
        reduce::divide(Dtype::Bool, call.output.bytes_mut(), 1);
    }
}

/// A plan with its buffers.
pub(crate) struct Piece<'a> {
    pub plan: Schedule,
    pub work: &'a mut [u8],
    pub input: &'a [u8],
    pub dtype: Dtype,
    pub op: ReduceOp,
}

impl Engine {
    pub(crate) fn run(&mut self, guard: &Guard<'_>, piece: Piece<'_>) -> Result<()> {
        let Piece { plan, work, input, dtype, op } = piece;
        let over = if op == ReduceOp::Avg { self.place.world } else { 1 };
        let mut bufs = Buffers { work, input, dtype, op, over };
        exec::run(&plan, &mut *self.transport, guard, &mut bufs, &mut self.scratch)
    }
}

fn over_transport(e: &mut Engine, call: &mut CollectiveCall, guard: &Guard<'_>) -> Result<()> {
    let (p, dtype, op, root) = (e.place, call.dtype, call.op, call.root);
    let part = call.part();
    let (input, work) = (call.input.bytes(), call.output.bytes_mut());
    if part == 0 && call.kind != Kind::SendRecv {
        // Nothing to move, but the ranks must still agree and meet.
        return e.run(guard, Piece { plan: plan::barrier(p), work: &mut [], input: &[], dtype, op });
    }
    if call.kind.reduces() {
        return reducing(e, call, guard);
    }
    let each = part;
    let plan = match call.kind {
        Kind::Broadcast => plan::broadcast(p, part, root),
        Kind::AllGather => {
            work[p.me * each..(p.me + 1) * each].copy_from_slice(input);
            plan::ring_all_gather(p, |r| [(r * each, each)])
        }
        Kind::Scatter => {
            if p.me == root {
                work.copy_from_slice(&input[root * each..(root + 1) * each]);
            }
            plan::scatter(p, each, root)
        }
        Kind::Gather => {
            if p.me == root {
                work[root * each..(root + 1) * each].copy_from_slice(input);
            }
            plan::gather(p, each, root)
        }
        Kind::AllToAll => {
            let one = part / p.world;
            let mine = p.me * one..(p.me + 1) * one;
            work[mine.clone()].copy_from_slice(&input[mine]);
            plan::all_to_all(p, one)
        }
        Kind::SendRecv if call.sends => plan::send(p, part, root),
        Kind::SendRecv => plan::recv(p, part, root),
        Kind::Barrier | Kind::AllReduce | Kind::Reduce | Kind::ReduceScatter => plan::barrier(p),
    };
    e.run(guard, Piece { plan, work, input, dtype, op })
}

fn reducing(e: &mut Engine, call: &mut CollectiveCall, guard: &Guard<'_>) -> Result<()> {
    // The spare buffer leaves the engine while the engine runs.
    let mut spare = std::mem::take(&mut e.spare);
    let result = match call.kind {
        Kind::AllReduce => all_reduce(e, call, guard, &mut spare),
        Kind::Reduce => reduce_to(e, call, guard, &mut spare),
        _ => reduce_scatter(e, call, guard, &mut spare),
    };
    e.spare = spare;
    result
}

/// Fill `spare` with the values in the type in which they are combined.
pub(crate) fn lift<'a>(spare: &'a mut Vec<u8>, dtype: Dtype, from: &[u8]) -> &'a mut [u8] {
    let len = from.len() / dtype.size() * dtype.accumulator().size();
    spare.resize(len, 0);
    if dtype.is_half() {
        reduce::widen(dtype, from, spare);
    } else {
        spare.copy_from_slice(from);
    }
    spare
}

/// The way back.
pub(crate) fn lower(dtype: Dtype, from: &[u8], to: &mut [u8]) {
    if dtype.is_half() {
        reduce::narrow(dtype, from, to);
    } else {
        to.copy_from_slice(from);
    }
}

fn all_reduce(e: &mut Engine, call: &mut CollectiveCall, guard: &Guard<'_>, spare: &mut Vec<u8>) -> Result<()> {
    let (p, dtype, op) = (e.place, call.dtype, call.op);
    let acc = dtype.accumulator();
    let data = call.output.bytes_mut();
    let count = data.len() / dtype.size();
    if count * acc.size() <= e.small.min(p.segment) {
        let work = lift(spare, dtype, data);
        let plan = plan::doubling_all_reduce(p, work.len());
        e.run(guard, Piece { plan, work: &mut *work, input: &[], dtype: acc, op })?;
        lower(dtype, work, data);
        return Ok(());
    }
    if !dtype.is_half() {
        let plan = plan::ring_all_reduce(p, count, dtype.size());
        return e.run(guard, Piece { plan, work: data, input: &[], dtype, op });
    }
    // Partial sums travel in float32, finished values as halves.
    let narrow = plan::chunks(count, 2, p.world);
    let wide: Vec<_> = narrow.iter().map(|(off, len)| (2 * off, 2 * len)).collect();
    let work = lift(spare, dtype, data);
    let plan = plan::ring_reduce_scatter(p, |r| [wide[r]]);
    e.run(guard, Piece { plan, work: &mut *work, input: &[], dtype: acc, op })?;
    let ((from, len), (to, short)) = (wide[p.me], narrow[p.me]);
    lower(dtype, &work[from..from + len], &mut data[to..to + short]);
    let plan = plan::ring_all_gather(p, |r| [narrow[r]]);
    e.run(guard, Piece { plan, work: data, input: &[], dtype, op })
}

fn reduce_to(e: &mut Engine, call: &mut CollectiveCall, guard: &Guard<'_>, spare: &mut Vec<u8>) -> Result<()> {
    let (p, dtype, op, root) = (e.place, call.dtype, call.op, call.root);
    let acc = dtype.accumulator();
    let data = call.output.bytes_mut();
    // On a copy: only the root's buffer may change.
    let work = lift(spare, dtype, data);
    let plan = plan::reduce(p, work.len(), root);
    e.run(guard, Piece { plan, work: &mut *work, input: &[], dtype: acc, op })?;
    if p.me == root {
        lower(dtype, work, data);
    }
    Ok(())
}

fn reduce_scatter(e: &mut Engine, call: &mut CollectiveCall, guard: &Guard<'_>, spare: &mut Vec<u8>) -> Result<()> {
    let (p, dtype, op) = (e.place, call.dtype, call.op);
    let work = lift(spare, dtype, call.input.bytes());
    let each = work.len() / p.world;
    let plan = plan::ring_reduce_scatter(p, |r| [(r * each, each)]);
    e.run(guard, Piece { plan, work: &mut *work, input: &[], dtype: dtype.accumulator(), op })?;
    lower(dtype, &work[p.me * each..(p.me + 1) * each], call.output.bytes_mut());
    Ok(())
}
