//! State of a group for running collectives: transport, shared memory of the host, and the placement of ranks on hosts.

use std::sync::Arc;
use std::time::Duration;

use crate::call::CollectiveCall;
use crate::collective_plan::{CollectivePlan, RankInfo};
use crate::context::Context;
use crate::costs::Costs;
use crate::dtype::{Dtype, ReduceOp};
use crate::error::Result;
use crate::executor::{self, Buffers, Scratch};
use crate::fingerprint::{CollectiveKind, Fingerprint};
use crate::reduce;
use crate::shm::area::Area;
use crate::shm::pair::PairTransport;
use crate::shm::symmetric::SymmetricBuffer;
use crate::shm::{self};
use crate::socket::Deadline;
use crate::state::{GroupState, Guard, Shared};
use crate::tcp::TcpTransport;
use crate::topology::Hosts;
use crate::transport::Transport;

/// Everything that one group needs to run operations; used by one thread at a time.
pub struct Engine {
    pub(crate) transport: Box<dyn Transport>,
    /// Shared memory with the group's other ranks on this host, if there are any.
    pub(crate) area: Option<Area>,
    pub(crate) way: Topology,
    scratch: Scratch,
    /// Copies of buffers that must not change, and half precision widened to float32.
    pub(crate) spare: Vec<u8>,
    pub(crate) place: RankInfo,
    pub(crate) costs: Costs,
    next: u64,
    /// Number of messages so far to and from every rank.
    sent: Vec<u64>,
    received: Vec<u64>,
}

/// Placement of the group's ranks on hosts, which decides how collectives run.
pub(crate) enum Topology {
    /// Collective plans over the transport.
    Flat,
    /// All on one host: lockstep over shared memory; the transport serves send and receive.
    Local,
    /// Several hosts: shared memory within a host, plans among one leader per host.
    Hosts(Hosts),
}

/// How long to spin before sleeping: non-zero only if every rank can have a core of its own.
fn spin(shared: &Shared, cores: usize, local: usize) -> Duration {
    let key = &shared.peers[shared.rank].host_key;
    let ranks_here = shared.peers.iter().filter(|p| p.host_key == *key).count();
    let online = std::thread::available_parallelism().map_or(1, usize::from).max(cores);
    if cores >= local && online >= ranks_here {
        Duration::from_millis(2)
    } else {
        Duration::ZERO
    }
}

/// An error if the creation of a group or buffer must be abandoned.
fn check_running(context: &Context) -> Result<()> {
    context.store.check_interrupt("creating a group")?;
    context.shared.failure().map_or(Ok(()), Err)
}

impl Engine {
    pub fn make(context: &Arc<Context>, state: &Arc<GroupState>, me: usize) -> Result<Engine> {
        let world = state.ranks.len();
        let shared = &context.shared;
        let on = Hosts::from_group(shared, state, me);
        let (mine, local) = on.here();
        let mut area = None;
        let mut pairs: Option<Box<dyn Transport>> = None;
        if mine.len() > 1 {
            let leader = state.ranks[mine[0]];
            let key = format!("oar/{}/shm/{:016x}/{leader}", context.options.name, state.id);
            let stop = || check_running(context);
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
            (None, h) if h == world => Topology::Flat,
            _ if context.options.flat => Topology::Flat,
            (_, 1) => Topology::Local,
            _ => Topology::Hosts(on),
        };
        let transport = pairs.unwrap_or_else(|| Box::new(TcpTransport::new(context.shared.clone(), state.clone(), me)));
        let engine = Engine::over(transport, RankInfo::new(me, world), context.options.costs);
        Ok(Engine { area, way, ..engine })
    }

    pub fn wants_symmetric_buffers(&self) -> bool {
        matches!(&self.way, Topology::Local) && self.area.as_ref().is_some_and(Area::wants_symmetric_buffers)
    }

    /// See `Group::symmetric_buffer`; called when all ranks want it.
    pub fn symmetric_buffer(
        &mut self,
        context: &Context,
        state: &GroupState,
        len: usize,
    ) -> Result<Option<Arc<SymmetricBuffer>>> {
        let Some(area) = &mut self.area else { return Ok(None) };
        let stop = || check_running(context);
        let deadline = Deadline::new(context.options.init_timeout, &stop);
        let id = area.next_symmetric_id();
        let key = format!("oar/{}/symmetric/{:016x}/{id}", context.options.name, state.id);
        let buffer = Arc::new(SymmetricBuffer::meet(&context.store, &key, (area.me, area.world), len, id, &deadline)?);
        area.add_symmetric(&buffer);
        Ok(Some(buffer))
    }

    /// An engine that runs collective plans over `transport`.
    pub fn over(transport: Box<dyn Transport>, place: RankInfo, costs: Costs) -> Engine {
        let (world, segment) = (place.world, transport.segment().max(1));
        Engine {
            transport,
            area: None,
            way: Topology::Flat,
            scratch: Scratch::new(),
            spare: Vec::new(),
            place: RankInfo { segment, ..place },
            costs,
            next: 0,
            sent: vec![0; world],
            received: vec![0; world],
        }
    }

    pub fn describe(&self) -> &'static str {
        match self.way {
            Topology::Hosts(_) => "shared memory within hosts, tcp between",
            _ => self.transport.name(),
        }
    }

    /// Numbers the operation. Send and receive are numbered per pair, since only two ranks take part.
    pub fn next_fingerprint(&mut self, call: &CollectiveCall, me: usize, group: u64) -> Fingerprint {
        let (root, counter) = match (call.kind, call.sends) {
            (CollectiveKind::SendRecv, true) => ((me as u64) << 32 | call.root as u64, &mut self.sent[call.root]),
            (CollectiveKind::SendRecv, false) => ((call.root as u64) << 32 | me as u64, &mut self.received[call.root]),
            (kind, _) => (if kind.has_root() { call.root as u64 } else { 0 }, &mut self.next),
        };
        let seq = *counter;
        *counter += 1;
        Fingerprint::new(call.kind, call.dtype, call.op, root, group, seq, &call.dims())
    }
}

/// A plan with its buffers.
pub(crate) struct Piece<'a> {
    pub plan: CollectivePlan,
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
        executor::run(&plan, &mut *self.transport, guard, &mut bufs, &mut self.scratch)
    }
}

/// Fills `spare` with the values in their accumulation type.
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

/// Converts accumulated values back to `dtype`.
pub(crate) fn lower(dtype: Dtype, from: &[u8], to: &mut [u8]) {
    if dtype.is_half() {
        reduce::narrow(dtype, from, to);
    } else {
        to.copy_from_slice(from);
    }
}
