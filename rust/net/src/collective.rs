//! Maps a call to collective plans: chooses algorithm, buffers and accumulation type.

use crate::call::CollectiveCall;
use crate::collective_plan;
use crate::costs::AllReduce;
use crate::dtype::{Dtype, ReduceOp};
use crate::engine::{lift, lower, Engine, Piece, Topology};
use crate::error::Result;
use crate::fingerprint::CollectiveKind;
use crate::hosts;
use crate::reduce;
use crate::shm::area::Area;
use crate::shm::local::{self, Receivers, Reduction};
use crate::state::Guard;

pub fn perform(engine: &mut Engine, call: &mut CollectiveCall, guard: &Guard<'_>) -> Result<()> {
    if engine.place.world == 1 {
        alone(call);
        return Ok(());
    }
    engine.transport.begin(&guard.doing, guard.limit);
    match (&engine.way, call.kind) {
        (_, CollectiveKind::SendRecv) | (Topology::Flat, _) => over_transport(engine, call, guard),
        (Topology::Local, _) => {
            let Some(area) = &mut engine.area else { return over_transport(engine, call, guard) };
            area.begin(&guard.doing);
            in_memory(area, call, guard)
        }
        (Topology::Hosts(_), kind) if hosts::takes(kind) => {
            // `way` and the spare buffer move out of the engine while the engine is borrowed mutably.
            let way = std::mem::replace(&mut engine.way, Topology::Flat);
            let mut spare = std::mem::take(&mut engine.spare);
            let result = match &way {
                Topology::Hosts(on) => hosts::perform(engine, on, call, guard, &mut spare),
                _ => Ok(()),
            };
            engine.way = way;
            engine.spare = spare;
            result
        }
        (Topology::Hosts(_), _) => over_transport(engine, call, guard),
    }
}

/// Collective over shared memory: all ranks of the group are on one host.
fn in_memory(a: &mut Area, call: &mut CollectiveCall, g: &Guard<'_>) -> Result<()> {
    let over = if call.op == ReduceOp::Avg { a.world } else { 1 };
    let r = Reduction { dtype: call.dtype, op: call.op, over };
    let (input, out, root) = (call.input.bytes(), call.output.bytes_mut(), call.root);
    match call.kind {
        CollectiveKind::AllReduce => local::all_reduce(a, g, out, &r, Receivers::All),
        CollectiveKind::Reduce => local::all_reduce(a, g, out, &r, Receivers::Root(root)),
        CollectiveKind::Broadcast => local::broadcast(a, g, out, root),
        CollectiveKind::AllGather => local::gather(a, g, input, out, Receivers::All, |rank| rank),
        CollectiveKind::Gather => local::gather(a, g, input, out, Receivers::Root(root), |rank| rank),
        CollectiveKind::ReduceScatter => local::reduce_scatter(a, g, input, out, &r),
        CollectiveKind::Scatter => local::scatter(a, g, input, out, root),
        CollectiveKind::AllToAll => local::all_to_all(a, g, input, out),
        CollectiveKind::Barrier | CollectiveKind::SendRecv => a.commit(g),
    }
}

/// A group of one rank: results are the inputs. The average of one value is the value.
fn alone(call: &mut CollectiveCall) {
    if !matches!(
        call.kind,
        CollectiveKind::AllReduce
            | CollectiveKind::Reduce
            | CollectiveKind::Broadcast
            | CollectiveKind::Barrier
            | CollectiveKind::SendRecv
    ) {
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
    if part == 0 && call.kind != CollectiveKind::SendRecv {
        // No data to move, but ranks must still compare fingerprints and synchronize.
        return e.run(guard, Piece { plan: collective_plan::barrier(p), work: &mut [], input: &[], dtype, op });
    }
    if call.kind.reduces() {
        return reducing(e, call, guard);
    }
    let each = part;
    let plan = match call.kind {
        CollectiveKind::Broadcast => collective_plan::broadcast(p, part, root),
        CollectiveKind::AllGather => {
            work[p.me * each..(p.me + 1) * each].copy_from_slice(input);
            collective_plan::ring_all_gather(p, |r| [(r * each, each)])
        }
        CollectiveKind::Scatter => {
            if p.me == root {
                work.copy_from_slice(&input[root * each..(root + 1) * each]);
            }
            collective_plan::scatter(p, each, root)
        }
        CollectiveKind::Gather => {
            if p.me == root {
                work[root * each..(root + 1) * each].copy_from_slice(input);
            }
            collective_plan::gather(p, each, root)
        }
        CollectiveKind::AllToAll => {
            let one = part / p.world;
            let mine = p.me * one..(p.me + 1) * one;
            work[mine.clone()].copy_from_slice(&input[mine]);
            collective_plan::all_to_all(p, one)
        }
        CollectiveKind::SendRecv if call.sends => collective_plan::send(p, part, root),
        CollectiveKind::SendRecv => collective_plan::recv(p, part, root),
        CollectiveKind::Barrier
        | CollectiveKind::AllReduce
        | CollectiveKind::Reduce
        | CollectiveKind::ReduceScatter => collective_plan::barrier(p),
    };
    e.run(guard, Piece { plan, work, input, dtype, op })
}

fn reducing(e: &mut Engine, call: &mut CollectiveCall, guard: &Guard<'_>) -> Result<()> {
    // The spare buffer moves out of the engine while the engine is borrowed mutably.
    let mut spare = std::mem::take(&mut e.spare);
    let result = match call.kind {
        CollectiveKind::AllReduce => all_reduce(e, call, guard, &mut spare),
        CollectiveKind::Reduce => reduce_to(e, call, guard, &mut spare),
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
        let plan = collective_plan::all_reduce(p, count, acc.size(), &e.costs);
        e.run(guard, Piece { plan, work: &mut *work, input: &[], dtype: acc, op })?;
        lower(dtype, work, data);
        return Ok(());
    }
    if !dtype.is_half() {
        let plan = collective_plan::ring_all_reduce(p, count, dtype.size());
        return e.run(guard, Piece { plan, work: data, input: &[], dtype, op });
    }
    // Partial sums are sent in float32, finished values in half precision.
    let narrow = collective_plan::chunks(count, 2, p.world);
    let wide: Vec<_> = narrow.iter().map(|(off, len)| (2 * off, 2 * len)).collect();
    let work = lift(spare, dtype, data);
    let plan = collective_plan::ring_reduce_scatter(p, |r| [wide[r]]);
    e.run(guard, Piece { plan, work: &mut *work, input: &[], dtype: acc, op })?;
    let ((from, len), (to, short)) = (wide[p.me], narrow[p.me]);
    lower(dtype, &work[from..from + len], &mut data[to..to + short]);
    let plan = collective_plan::ring_all_gather(p, |r| [narrow[r]]);
    e.run(guard, Piece { plan, work: data, input: &[], dtype, op })
}

fn reduce_to(e: &mut Engine, call: &mut CollectiveCall, guard: &Guard<'_>, spare: &mut Vec<u8>) -> Result<()> {
    let (p, dtype, op, root) = (e.place, call.dtype, call.op, call.root);
    let acc = dtype.accumulator();
    let data = call.output.bytes_mut();
    // Reduce a copy: only the root's buffer may change.
    let work = lift(spare, dtype, data);
    let plan = collective_plan::reduce(p, work.len(), root);
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
    let plan = collective_plan::ring_reduce_scatter(p, |r| [(r * each, each)]);
    e.run(guard, Piece { plan, work: &mut *work, input: &[], dtype: dtype.accumulator(), op })?;
    lower(dtype, &work[p.me * each..(p.me + 1) * each], call.output.bytes_mut());
    Ok(())
}
