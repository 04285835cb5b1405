//! From a call to plans: which algorithm, over what, in which precision.

use std::sync::Arc;

use crate::call::Call;
use crate::context::Context;
use crate::dtype::{Dtype, ReduceOp};
use crate::error::Result;
use crate::exec::{self, Buffers, Scratch};
use crate::fingerprint::{Fingerprint, Kind};
use crate::plan::{self, Place, Plan};
use crate::reduce;
use crate::state::{GroupState, Guard};
use crate::tcp::TcpTransport;
use crate::transport::Transport;

/// What one group needs to run operations; one thread has it at a time.
pub struct Engine {
    transport: Box<dyn Transport>,
    scratch: Scratch,
    /// Copies of buffers that must not change, and halves in float32.
    spare: Vec<u8>,
    place: Place,
    small: usize,
    next: u64,
    /// Messages so far to and from every rank.
    sent: Vec<u64>,
    received: Vec<u64>,
}

impl Engine {
    pub fn make(context: &Arc<Context>, state: &Arc<GroupState>, me: usize) -> Result<Engine> {
        let world = state.ranks.len();
        let transport: Box<dyn Transport> = Box::new(TcpTransport::new(context.shared.clone(), state.clone(), me, 0));
        let place = Place { me, world, segment: transport.segment() };
        Ok(Engine {
            transport,
            scratch: Scratch::new(),
            spare: Vec::new(),
            place,
            small: context.options.small,
            next: 0,
            sent: vec![0; world],
            received: vec![0; world],
        })
    }

    pub fn describe(&self) -> &'static str {
        self.transport.name()
    }

    /// Number the operation. Send and receive are numbered per pair, since only two ranks take part.
    pub fn next_fingerprint(&mut self, call: &Call, me: usize, group: u64) -> Fingerprint {
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

pub fn perform(engine: &mut Engine, call: &mut Call, guard: &Guard<'_>) -> Result<()> {
    if engine.place.world == 1 {
        alone(call);
        return Ok(());
    }
    engine.transport.begin(&guard.doing);
    over_transport(engine, call, guard)
}

/// A group of one rank: results are the inputs. The average of one is itself.
fn alone(call: &mut Call) {
    if !matches!(call.kind, Kind::AllReduce | Kind::Reduce | Kind::Broadcast | Kind::Barrier | Kind::SendRecv) {
        call.output.bytes_mut().copy_from_slice(call.input.bytes());
    }
    if call.kind.reduces() && call.dtype == Dtype::Bool {
        reduce::divide(Dtype::Bool, call.output.bytes_mut(), 1);
    }
}

/// A plan with its buffers.
struct Piece<'a> {
    plan: Plan,
    work: &'a mut [u8],
    input: &'a [u8],
    dtype: Dtype,
    op: ReduceOp,
}

impl Engine {
    fn run(&mut self, guard: &Guard<'_>, piece: Piece<'_>) -> Result<()> {
        let Piece { plan, work, input, dtype, op } = piece;
        let over = if op == ReduceOp::Avg { self.place.world } else { 1 };
        let mut bufs = Buffers { work, input, dtype, op, over };
        exec::run(&plan, &mut *self.transport, guard, &mut bufs, &mut self.scratch)
    }
}

fn over_transport(e: &mut Engine, call: &mut Call, guard: &Guard<'_>) -> Result<()> {
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
            let parts: Vec<_> = (0..p.world).map(|r| (r * each, each)).collect();
            plan::ring_all_gather(p, &parts)
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

fn reducing(e: &mut Engine, call: &mut Call, guard: &Guard<'_>) -> Result<()> {
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
fn lift<'a>(spare: &'a mut Vec<u8>, dtype: Dtype, from: &[u8]) -> &'a mut [u8] {
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
fn lower(dtype: Dtype, from: &[u8], to: &mut [u8]) {
    if dtype.is_half() {
        reduce::narrow(dtype, from, to);
    } else {
        to.copy_from_slice(from);
    }
}

fn all_reduce(e: &mut Engine, call: &mut Call, guard: &Guard<'_>, spare: &mut Vec<u8>) -> Result<()> {
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
    let plan = plan::ring_reduce_scatter(p, &wide);
    e.run(guard, Piece { plan, work: &mut *work, input: &[], dtype: acc, op })?;
    let ((from, len), (to, short)) = (wide[p.me], narrow[p.me]);
    lower(dtype, &work[from..from + len], &mut data[to..to + short]);
    let plan = plan::ring_all_gather(p, &narrow);
    e.run(guard, Piece { plan, work: data, input: &[], dtype, op })
}

fn reduce_to(e: &mut Engine, call: &mut Call, guard: &Guard<'_>, spare: &mut Vec<u8>) -> Result<()> {
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

fn reduce_scatter(e: &mut Engine, call: &mut Call, guard: &Guard<'_>, spare: &mut Vec<u8>) -> Result<()> {
    let (p, dtype, op) = (e.place, call.dtype, call.op);
    let work = lift(spare, dtype, call.input.bytes());
    let each = work.len() / p.world;
    let parts: Vec<_> = (0..p.world).map(|r| (r * each, each)).collect();
    let plan = plan::ring_reduce_scatter(p, &parts);
    e.run(guard, Piece { plan, work: &mut *work, input: &[], dtype: dtype.accumulator(), op })?;
    lower(dtype, &work[p.me * each..(p.me + 1) * each], call.output.bytes_mut());
    Ok(())
}
