//! Executes a collective plan over a transport: advances every step that can move, and waits when none can.

use std::sync::Arc;

use crate::collective_plan::{Action, CollectivePlan, Step, NONE};
use crate::dtype::{Dtype, ReduceOp};
use crate::error::Result;
use crate::mac::{Digest, Hash};
use crate::reduce;
use crate::state::Guard;
use crate::transport::{Interest, Transport};

/// The buffers of one operation.
pub struct Buffers<'a> {
    pub work: &'a mut [u8],
    pub input: &'a [u8],
    pub dtype: Dtype,
    pub op: ReduceOp,
    /// Divisor of finished values (the average's number of ranks); 1 otherwise.
    pub over: usize,
}

/// The messages of one direction of one pair, in order.
struct Lane {
    peer: usize,
    send: bool,
    steps: Vec<u32>,
    next: usize,
}

fn lanes(plan: &CollectivePlan) -> Vec<Lane> {
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

/// Digests of pieces that are received and forwarded, so that they are not computed again.
struct Digests {
    /// The transport's hash and the bytes per digest; `None` if it has no codes.
    codes: Option<(Arc<Hash>, usize)>,
    /// Start of the digests of a step's piece in `all`, or `NONE`.
    at: Vec<u32>,
    all: Vec<Digest>,
}

impl Digests {
    fn new(plan: &CollectivePlan, codes: Option<(Arc<Hash>, usize)>) -> Digests {
        let mut kept = Digests { codes, at: vec![NONE; plan.steps.len()], all: Vec::new() };
        let Some(size) = kept.codes.as_ref().map(|c| c.1) else { return kept };
        for (i, s) in plan.steps.iter().enumerate() {
            let Some(from) = plan.steps.get(s.needs[0] as usize) else { continue };
            if s.what == Action::SendWork && !from.what.is_send() && (from.off, from.len) == (s.off, s.len) {
                let first = &mut kept.at[s.needs[0] as usize];
                if *first == NONE {
                    *first = kept.all.len() as u32;
                    kept.all.resize(kept.all.len() + s.len.div_ceil(size), Digest::default());
                }
                kept.at[i] = *first;
            }
        }
        kept
    }

    /// The digests of step `i`, with the hash and the bytes per digest; `None` if none are kept.
    fn of_step(&mut self, i: usize, len: usize) -> Option<Known<'_>> {
        let (hash, size) = self.codes.as_ref()?;
        let at = Some(self.at[i]).filter(|at| *at != NONE)? as usize;
        Some(Known { digests: &mut self.all[at..at + len.div_ceil(*size)], hash, size: *size })
    }
}

/// The digests of a step's piece: input for a send, output for a receive.
struct Known<'a> {
    digests: &'a mut [Digest],
    hash: &'a Hash,
    size: usize,
}

/// Buffers for pieces that are reduced when complete, one per peer, kept between operations.
pub type Scratch = Vec<Vec<u8>>;

pub fn run(
    plan: &CollectivePlan,
    t: &mut dyn Transport,
    guard: &Guard<'_>,
    bufs: &mut Buffers<'_>,
    scratch: &mut Scratch,
) -> Result<()> {
    let mut lanes = lanes(plan);
    let mut done = vec![false; plan.steps.len()];
    let mut digests = Digests::new(plan, t.codes());
    let mut interests = Vec::with_capacity(lanes.len());
    loop {
        let mut moved = false;
        interests.clear();
        let mut open = false;
        for lane in &mut lanes {
            let Some(&at) = lane.steps.get(lane.next) else { continue };
            open = true;
            let step = &plan.steps[at as usize];
            if step.needs.iter().any(|n| *n != NONE && !done[*n as usize]) {
                continue;
            }
            let known = digests.of_step(at as usize, step.len);
            if advance(step, t, bufs, scratch, known).map_err(|e| guard.explain(e))? {
                done[at as usize] = true;
                lane.next += 1;
                moved = true;
            } else {
                interests.push(Interest { peer: lane.peer, send: lane.send });
            }
        }
        if !open {
            return Ok(());
        }
        if !moved {
            // Errors name a rank whose data is missing rather than one that is slow to receive.
            let peer = interests.iter().find(|w| !w.send).or(interests.first()).map_or(0, |w| w.peer);
            let slice = guard.slice(guard.group.ranks[peer])?;
            t.wait(&interests, slice)?;
        }
    }
}

fn advance(
    step: &Step,
    t: &mut dyn Transport,
    bufs: &mut Buffers<'_>,
    scratch: &mut Scratch,
    known: Option<Known<'_>>,
) -> Result<bool> {
    let range = step.off..step.off + step.len;
    match step.what {
        Action::SendWork => t.try_forward(step.peer, &bufs.work[range], known.map_or(&[], |k| k.digests)),
        Action::SendInput => t.try_send(step.peer, &bufs.input[range]),
        Action::Recv => {
            let whole = t.try_recv(step.peer, &mut bufs.work[range])?;
            if let Some(known) = known.filter(|_| whole) {
                known.digests.iter_mut().zip(t.digests(step.peer)).for_each(|(mine, came)| *mine = *came);
            }
            Ok(whole)
        }
        Action::Reduce { mine_first, finish } => {
            if scratch.len() <= step.peer {
                scratch.resize_with(step.peer + 1, Vec::new);
            }
            let over = if finish { bufs.over } else { 1 };
            let (dtype, op, mine) = (bufs.dtype, bufs.op, &mut bufs.work[range]);
            let mut known = known;
            t.try_take(step.peer, step.len, &mut scratch[step.peer], &mut |at, piece| {
                let mine = &mut mine[at..at + piece.len()];
                reduce::combine_pair(dtype, op, mine, piece, mine_first, over);
                if let Some(Known { digests, hash, size }) = &mut known {
                    // Computed while the piece is in the cache.
                    let made = mine.chunks(*size).map(|piece| hash.digest(piece));
                    digests[at / *size..].iter_mut().zip(made).for_each(|(known, made)| *known = made);
                }
            })
        }
    }
}
