//! Runs a plan over a transport: whatever can move, moves; when nothing can, it waits.

use crate::dtype::{Dtype, ReduceOp};
use crate::error::Result;
use crate::plan::{Plan, Step, What, NONE};
use crate::reduce;
use crate::state::Guard;
use crate::transport::{Transport, Want};

/// The buffers of one operation.
pub struct Buffers<'a> {
    pub work: &'a mut [u8],
    pub input: &'a [u8],
    pub dtype: Dtype,
    pub op: ReduceOp,
    /// Divide finished values by this many (for the average), 1 otherwise.
    pub over: usize,
}

/// The messages of one direction of one pair, in order.
struct Lane {
    peer: usize,
    send: bool,
    steps: Vec<u32>,
    next: usize,
}

fn lanes(plan: &Plan) -> Vec<Lane> {
    let mut lanes: Vec<Lane> = Vec::new();
    for (i, s) in plan.steps.iter().enumerate() {
        let send = s.what.is_send();
        match lanes.iter_mut().find(|l| l.peer == s.peer && l.send == send) {
            Some(l) => l.steps.push(i as u32),
            None => lanes.push(Lane { peer: s.peer, send, steps: vec![i as u32], next: 0 }),
        }
    }
    lanes
}

/// Room for pieces that are combined when whole, one per peer, kept between operations.
pub type Scratch = Vec<Vec<u8>>;

pub fn run(
    plan: &Plan,
    t: &mut dyn Transport,
    guard: &Guard<'_>,
    bufs: &mut Buffers<'_>,
    scratch: &mut Scratch,
) -> Result<()> {
    let mut lanes = lanes(plan);
    let mut done = vec![false; plan.steps.len()];
    let mut wants = Vec::with_capacity(lanes.len());
    loop {
        let mut moved = false;
        wants.clear();
        let mut open = false;
        for lane in &mut lanes {
            let Some(&at) = lane.steps.get(lane.next) else { continue };
            open = true;
            let step = &plan.steps[at as usize];
            if step.needs.iter().any(|n| *n != NONE && !done[*n as usize]) {
                continue;
            }
            if advance(step, t, bufs, scratch).map_err(|e| guard.explain(e))? {
                done[at as usize] = true;
                lane.next += 1;
                moved = true;
            } else {
                wants.push(Want { peer: lane.peer, send: lane.send });
            }
        }
        if !open {
            return Ok(());
        }
        if !moved {
            // Rather name the one whose data is missing than the one that is slow to take ours.
            let peer = wants.iter().find(|w| !w.send).or(wants.first()).map_or(0, |w| w.peer);
            let slice = guard.slice(guard.group.ranks[peer])?;
            t.wait(&wants, slice)?;
        }
    }
}

fn advance(step: &Step, t: &mut dyn Transport, bufs: &mut Buffers<'_>, scratch: &mut Scratch) -> Result<bool> {
    let range = step.off..step.off + step.len;
    match step.what {
        What::SendWork => t.try_send(step.peer, &bufs.work[range]),
        What::SendInput => t.try_send(step.peer, &bufs.input[range]),
        What::Recv => t.try_recv(step.peer, &mut bufs.work[range]),
        What::Combine { mine_first, finish } => {
            if scratch.len() <= step.peer {
                scratch.resize_with(step.peer + 1, Vec::new);
            }
            let over = if finish { bufs.over } else { 1 };
            let (dtype, op, mine) = (bufs.dtype, bufs.op, &mut bufs.work[range]);
            t.try_take(step.peer, step.len, &mut scratch[step.peer], &mut |at, piece| {
                reduce::combine_pair(dtype, op, &mut mine[at..at + piece.len()], piece, mine_first, over);
            })
        }
    }
}
