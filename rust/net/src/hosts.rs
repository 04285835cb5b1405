//! Ranks on several hosts: what can be done within a host goes through its shared memory, and one rank of every host
//! speaks for it with the others.
//!
//! Operations that do not shrink by this (scatter, gather, all_to_all, send, receive) are plans over all ranks.

use crate::call::CollectiveCall;
use crate::dtype::{Dtype, ReduceOp};
use crate::engine::{lift, lower, Engine, Piece};
use crate::error::Result;
use crate::fingerprint::Kind;
use crate::plan::{self, RankInfo, Schedule};
use crate::shm::local::{self, For, Reduction};
use crate::state::Guard;
use crate::topology::Hosts;

/// Whether hosts help with this operation.
pub fn takes(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::AllReduce | Kind::Reduce | Kind::Broadcast | Kind::AllGather | Kind::ReduceScatter | Kind::Barrier
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
    // The first rank of a host speaks for it, on the root's host the root.
    let mut heads = vec![0; on.count()];
    if call.kind.has_root() {
        let (host, local) = on.find(call.root);
        heads[host] = local;
    }
    let mut t = Team { e, on, g, heads };
    if call.part() == 0 {
        return t.meet();
    }
    match call.kind {
        Kind::AllReduce => t.all_reduce(call, spare),
        Kind::Reduce => t.reduce(call, spare),
        Kind::Broadcast => t.broadcast(call),
        Kind::AllGather => t.all_gather(call),
        Kind::ReduceScatter => t.reduce_scatter(call, spare),
        _ => t.meet(),
    }
}

/// One operation among the hosts.
struct Team<'a> {
    e: &'a mut Engine,
    on: &'a Hosts,
    g: &'a Guard<'a>,
    /// Which of its ranks speaks for each host.
    heads: Vec<usize>,
}

impl Team<'_> {
    fn place(&self) -> RankInfo {
        RankInfo { me: self.on.host, world: self.on.count(), segment: self.e.place.segment }
    }

    fn head(&self) -> usize {
        self.heads[self.on.host]
    }

    fn speaks(&self) -> bool {
        self.on.local == self.head()
    }

    /// Run a plan in which hosts stand for ranks, where this rank speaks for its host.
    fn among(&mut self, mut plan: Schedule, work: &mut [u8], dtype: Dtype, op: ReduceOp) -> Result<()> {
        plan.steps.iter_mut().for_each(|s| s.peer = self.on.members[s.peer][self.heads[s.peer]]);
        self.e.run(self.g, Piece { plan, work, input: &[], dtype, op })
    }

    /// Combine the host's values in its head's buffer; no other changes. The average is taken by who finishes the sums.
    fn within(&mut self, work: &mut [u8], dtype: Dtype, op: ReduceOp) -> Result<()> {
        let head = self.head();
        let Some(a) = &mut self.e.area else { return Ok(()) };
        let op = if op == ReduceOp::Avg { ReduceOp::Sum } else { op };
        local::all_reduce(a, self.g, work, &Reduction { dtype, op, over: 1 }, For::Root(head))
    }

    /// Give the bytes of the host's head to all its ranks.
    fn hand_out(&mut self, work: &mut [u8]) -> Result<()> {
        let head = self.head();
        self.e.area.as_mut().map_or(Ok(()), |a| local::broadcast(a, self.g, work, head))
    }

    /// All of a host are there, then all hosts, and then all know.
    fn meet(&mut self) -> Result<()> {
        self.e.area.as_mut().map_or(Ok(()), |a| a.commit(self.g))?;
        if self.speaks() {
            let plan = plan::barrier(self.place());
            self.among(plan, &mut [], Dtype::U8, ReduceOp::Sum)?;
        }
        self.e.area.as_mut().map_or(Ok(()), |a| a.commit(self.g))
    }

    /// Combine within every host, then among their heads, then hand the result out within every host.
    fn all_reduce(&mut self, call: &mut CollectiveCall, spare: &mut Vec<u8>) -> Result<()> {
        let (dtype, op, acc) = (call.dtype, call.op, call.dtype.accumulator());
        let data = call.output.bytes_mut();
        // Halves are rounded once, at the end.
        let half = dtype.is_half();
        let work = if half { lift(spare, dtype, data) } else { &mut *data };
        self.within(work, acc, op)?;
        if self.speaks() {
            let plan = plan::all_reduce(self.place(), work.len() / acc.size(), acc.size(), &self.e.costs);
            self.among(plan, work, acc, op)?;
        }
        self.hand_out(work)?;
        if half {
            lower(dtype, &spare[..2 * data.len()], data);
        }
        Ok(())
    }

    /// Combine within every host, then among the heads, of which the root is one.
    fn reduce(&mut self, call: &mut CollectiveCall, spare: &mut Vec<u8>) -> Result<()> {
        let (dtype, op, acc) = (call.dtype, call.op, call.dtype.accumulator());
        let to = self.on.find(call.root);
        let root = to == (self.on.host, self.on.local);
        let data = call.output.bytes_mut();
        // The host's sum is made in its head's buffer, and only the root's may change.
        let copied = dtype.is_half() || self.speaks() && !root;
        let work = if copied { lift(spare, dtype, data) } else { &mut *data };
        self.within(work, acc, op)?;
        if self.speaks() {
            let plan = plan::reduce(self.place(), work.len(), to.0);
            self.among(plan, work, acc, op)?;
        }
        if root && copied {
            lower(dtype, &spare[..2 * data.len()], data);
        }
        Ok(())
    }

    /// From the root to the other hosts' heads, then within every host.
    fn broadcast(&mut self, call: &mut CollectiveCall) -> Result<()> {
        let from = self.on.find(call.root).0;
        let data = call.output.bytes_mut();
        // The root's neighbours need not wait for the network.
        if from == self.on.host {
            self.hand_out(data)?;
        }
        if self.speaks() {
            let plan = plan::broadcast(self.place(), data.len(), from);
            self.among(plan, data, call.dtype, call.op)?;
        }
        if from != self.on.host {
            self.hand_out(data)?;
        }
        Ok(())
    }

    /// Within every host everybody takes its neighbours' parts; then the heads pass on whole hosts' parts, and hand out
    /// those that came.
    fn all_gather(&mut self, call: &mut CollectiveCall) -> Result<()> {
        let on = self.on;
        let (input, out) = (call.input.bytes(), call.output.bytes_mut());
        let each = input.len();
        match &mut self.e.area {
            Some(a) => local::gather(a, self.g, input, out, For::All, |local| on.here().0[local])?,
            None => {
                let me = self.e.place.me;
                out[me * each..(me + 1) * each].copy_from_slice(input);
            }
        }
        if self.speaks() {
            let plan = plan::ring_all_gather(self.place(), |host| on.parts(host, each));
            self.among(plan, out, call.dtype, call.op)?;
        }
        for host in (0..on.count()).filter(|h| *h != on.host) {
            for (off, len) in on.parts(host, each) {
                self.hand_out(&mut out[off..off + len])?;
            }
        }
        Ok(())
    }

    /// Combine all parts within every host, then among the heads, each of which ends with its host's parts and hands
    /// them out.
    fn reduce_scatter(&mut self, call: &mut CollectiveCall, spare: &mut Vec<u8>) -> Result<()> {
        let (dtype, op, acc, on) = (call.dtype, call.op, call.dtype.accumulator(), self.on);
        let work = lift(spare, dtype, call.input.bytes());
        let (each, out) = (work.len() / self.e.place.world, call.output.bytes_mut());
        self.within(work, acc, op)?;
        if self.speaks() {
            let plan = plan::ring_reduce_scatter(self.place(), |host| on.parts(host, each));
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
