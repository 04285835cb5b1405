//! From a call to plans: which algorithm, over what, in which precision.

use crate::call::CollectiveCall;
use crate::costs::AllReduce;
use crate::dtype::{Dtype, ReduceOp};
use crate::engine::{lift, lower, Engine, Piece, Way};
use crate::error::Result;
use crate::fingerprint::Kind;
use crate::hosts;
use crate::plan;
use crate::reduce;
use crate::shm::area::Area;
use crate::shm::local::{self, For, Reduction};
use crate::state::Guard;

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

fn all_reduce(e: &mut Engine, call: &mut CollectiveCall, guard: &Guard<'_>, spare: &mut Vec<u8>) -> Result<()> {
    let (p, dtype, op) = (e.place, call.dtype, call.op);
    let acc = dtype.accumulator();
    let data = call.output.bytes_mut();
    let count = data.len() / dtype.size();
    if e.costs.best(p.world, p.segment, count * acc.size()) != AllReduce::Ring {
        let work = lift(spare, dtype, data);
        let plan = plan::all_reduce(p, count, acc.size(), &e.costs);
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
