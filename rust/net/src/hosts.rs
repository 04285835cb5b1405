//! Collectives over several hosts: shared memory within a host, and collective plans among one leader rank per host.
//!
//! Operations that move as much data either way (scatter, gather, all_to_all, send, receive) are plans over all ranks.

use crate::call::CollectiveCall;
use crate::collective_plan::{self, CollectivePlan, RankInfo};
use crate::dtype::{Dtype, ReduceOp};
use crate::engine::{lift, lower, Engine, Piece};
use crate::error::Result;
use crate::fingerprint::CollectiveKind;
use crate::shm::local::{self, Receivers, Reduction};
use crate::state::Guard;
use crate::topology::Hosts;

/// Whether the operation has a hierarchical algorithm.
pub fn takes(kind: CollectiveKind) -> bool {
    matches!(
        kind,
        CollectiveKind::AllReduce
            | CollectiveKind::Reduce
            | CollectiveKind::Broadcast
            | CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::Barrier
    )
}

pub fn perform(
    e: &mut Engine,
    on: &Hosts,
    call: &mut CollectiveCall,
    g: &Guard<'_>,
    spare: &mut Vec<u8>,
) -> Result<()> {
    if let Some(a) = &mut e.area {
        a.begin(&g.doing);
    }
    // A host's leader is its first rank; on the root's host, the root.
    let mut leaders = vec![0; on.count()];
    if call.kind.has_root() {
        let (host, local) = on.find(call.root);
        leaders[host] = local;
    }
    let mut t = HostCollective { e, on, g, leaders };
    if call.part() == 0 {
        return t.meet();
    }
    match call.kind {
        CollectiveKind::AllReduce => t.all_reduce(call, spare),
        CollectiveKind::Reduce => t.reduce(call, spare),
        CollectiveKind::Broadcast => t.broadcast(call),
        CollectiveKind::AllGather => t.all_gather(call),
        CollectiveKind::ReduceScatter => t.reduce_scatter(call, spare),
        _ => t.meet(),
    }
}

/// One collective over several hosts.
struct HostCollective<'a> {
    e: &'a mut Engine,
    on: &'a Hosts,
    g: &'a Guard<'a>,
    /// The leader of each host, as an index among the host's ranks.
    leaders: Vec<usize>,
}

impl HostCollective<'_> {
    fn place(&self) -> RankInfo {
        RankInfo { me: self.on.host, world: self.on.count(), segment: self.e.place.segment }
    }

    fn leader(&self) -> usize {
        self.leaders[self.on.host]
    }

    fn is_leader(&self) -> bool {
        self.on.local == self.leader()
    }

    /// Runs a plan among the leaders, in which hosts stand for ranks.
    fn among(&mut self, mut plan: CollectivePlan, work: &mut [u8], dtype: Dtype, op: ReduceOp) -> Result<()> {
        plan.steps.iter_mut().for_each(|s| s.peer = self.on.members[s.peer][self.leaders[s.peer]]);
        self.e.run(self.g, Piece { plan, work, input: &[], dtype, op })
    }

    /// Reduces the host's values into its leader's buffer; other buffers do not change. The average is divided where
    /// the sum is finished.
    fn within(&mut self, work: &mut [u8], dtype: Dtype, op: ReduceOp) -> Result<()> {
        let leader = self.leader();
        let Some(a) = &mut self.e.area else { return Ok(()) };
        let op = if op == ReduceOp::Avg { ReduceOp::Sum } else { op };
        local::all_reduce(a, self.g, work, &Reduction { dtype, op, over: 1 }, Receivers::Root(leader))
    }

    /// Broadcasts from the host's leader to its ranks.
    fn share(&mut self, work: &mut [u8]) -> Result<()> {
        let leader = self.leader();
        self.e.area.as_mut().map_or(Ok(()), |a| local::broadcast(a, self.g, work, leader))
    }

    /// Barrier over hosts: within each host, among the leaders, then within each host again.
    fn meet(&mut self) -> Result<()> {
        self.e.area.as_mut().map_or(Ok(()), |a| a.commit(self.g))?;
        if self.is_leader() {
            let plan = collective_plan::barrier(self.place());
            self.among(plan, &mut [], Dtype::U8, ReduceOp::Sum)?;
        }
        self.e.area.as_mut().map_or(Ok(()), |a| a.commit(self.g))
    }

    /// Reduces within every host, then among the leaders, then broadcasts within every host.
    fn all_reduce(&mut self, call: &mut CollectiveCall, spare: &mut Vec<u8>) -> Result<()> {
        let (dtype, op, acc) = (call.dtype, call.op, call.dtype.accumulator());
        let data = call.output.bytes_mut();
        // Half precision is rounded once, at the end.
        let half = dtype.is_half();
        let work = if half { lift(spare, dtype, data) } else { &mut *data };
        self.within(work, acc, op)?;
        if self.is_leader() {
            let plan = collective_plan::all_reduce(self.place(), work.len() / acc.size(), acc.size(), &self.e.costs);
            self.among(plan, work, acc, op)?;
        }
        self.share(work)?;
        if half {
            lower(dtype, &spare[..2 * data.len()], data);
        }
        Ok(())
    }

    /// Reduces within every host, then among the leaders, of which the root is one.
    fn reduce(&mut self, call: &mut CollectiveCall, spare: &mut Vec<u8>) -> Result<()> {
        let (dtype, op, acc) = (call.dtype, call.op, call.dtype.accumulator());
        let to = self.on.find(call.root);
        let root = to == (self.on.host, self.on.local);
        let data = call.output.bytes_mut();
        // The host's result is computed in its leader's buffer, and only the root's may change.
        let copied = dtype.is_half() || self.is_leader() && !root;
        let work = if copied { lift(spare, dtype, data) } else { &mut *data };
        self.within(work, acc, op)?;
        if self.is_leader() {
            let plan = collective_plan::reduce(self.place(), work.len(), to.0);
            self.among(plan, work, acc, op)?;
        }
        if root && copied {
            lower(dtype, &spare[..2 * data.len()], data);
        }
        Ok(())
    }

    /// From the root to the leaders of other hosts, then within every host.
    fn broadcast(&mut self, call: &mut CollectiveCall) -> Result<()> {
        let from = self.on.find(call.root).0;
        let data = call.output.bytes_mut();
        // Ranks on the root's host do not wait for the network.
        if from == self.on.host {
            self.share(data)?;
        }
        if self.is_leader() {
            let plan = collective_plan::broadcast(self.place(), data.len(), from);
            self.among(plan, data, call.dtype, call.op)?;
        }
        if from != self.on.host {
            self.share(data)?;
        }
        Ok(())
    }

    /// Gathers within every host; then the leaders exchange the parts of whole hosts, and broadcast received ones.
    fn all_gather(&mut self, call: &mut CollectiveCall) -> Result<()> {
        let on = self.on;
        let (input, out) = (call.input.bytes(), call.output.bytes_mut());
        let each = input.len();
        match &mut self.e.area {
            Some(a) => local::gather(a, self.g, input, out, Receivers::All, |local| on.here().0[local])?,
            None => {
                let me = self.e.place.me;
                out[me * each..(me + 1) * each].copy_from_slice(input);
            }
        }
        if self.is_leader() {
            let plan = collective_plan::ring_all_gather(self.place(), |host| on.parts(host, each));
            self.among(plan, out, call.dtype, call.op)?;
        }
        for host in (0..on.count()).filter(|h| *h != on.host) {
            for (off, len) in on.parts(host, each) {
                self.share(&mut out[off..off + len])?;
            }
        }
        Ok(())
    }

    /// Reduces all parts within every host, then among the leaders, each of which ends with its host's parts and
    /// scatters them.
    fn reduce_scatter(&mut self, call: &mut CollectiveCall, spare: &mut Vec<u8>) -> Result<()> {
        let (dtype, op, acc, on) = (call.dtype, call.op, call.dtype.accumulator(), self.on);
        let work = lift(spare, dtype, call.input.bytes());
        let (each, out) = (work.len() / self.e.place.world, call.output.bytes_mut());
        self.within(work, acc, op)?;
        if self.is_leader() {
            let plan = collective_plan::ring_reduce_scatter(self.place(), |host| on.parts(host, each));
            self.among(plan, work, acc, op)?;
        }
        let part = |rank: usize| &work[rank * each..(rank + 1) * each];
        let Some(a) = &mut self.e.area else {
            lower(dtype, part(self.e.place.me), out);
            return Ok(());
        };
        let mut parts = Vec::new();
        if on.local == 0 {
            parts.resize(out.len() * on.here().0.len(), 0);
            for (to, rank) in parts.chunks_exact_mut(out.len()).zip(on.here().0) {
                lower(dtype, part(*rank), to);
            }
        }
        local::scatter(a, self.g, &parts, out, 0)
    }
}
