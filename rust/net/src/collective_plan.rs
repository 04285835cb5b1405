//! The steps (send, receive, reduce, copy) that one rank executes for a collective.
//!
//! Each step names its peer, its bytes, and the steps that must complete before it; the executor runs it over any
//! transport. Offsets and lengths are bytes of the work buffer or the input. Both ends of a pair list their messages in
//! the same order, so messages carry no identifiers.

use crate::costs::{AllReduce, Costs};

/// Absent entry of `Step::needs`.
pub const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    SendWork,
    SendInput,
    Recv,
    /// Receive, and reduce into the work buffer; `finish` divides by the number of ranks for the average.
    Reduce {
        mine_first: bool,
        finish: bool,
    },
}

impl Action {
    pub fn is_send(self) -> bool {
        matches!(self, Action::SendWork | Action::SendInput)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub peer: usize,
    pub what: Action,
    pub off: usize,
    pub len: usize,
    /// Indices of steps that must complete before this one starts; `NONE` for none.
    pub needs: [u32; 2],
}

#[derive(Debug, Default)]
pub struct CollectivePlan {
    pub steps: Vec<Step>,
}

/// Group rank, group size, and the longest message.
#[derive(Clone, Copy, Debug)]
pub struct RankInfo {
    pub me: usize,
    pub world: usize,
    pub segment: usize,
}

impl RankInfo {
    pub fn new(me: usize, world: usize) -> RankInfo {
        RankInfo { me, world, segment: 1 }
    }
}

impl CollectivePlan {
    fn push(&mut self, peer: usize, what: Action, (off, len): (usize, usize), needs: [u32; 2]) -> u32 {
        self.steps.push(Step { peer, what, off, len, needs });
        (self.steps.len() - 1) as u32
    }

    /// Adds flow control for pairs whose data goes one way only: the receiver first sends an empty message (a token),
    /// and the sender's data waits for it. Without it the sender would run ahead of the receiver without bound.
    pub fn with_tokens(mut self, world: usize) -> CollectivePlan {
        let mut ways = vec![[false; 2]; world];
        for s in &self.steps {
            ways[s.peer][usize::from(s.what.is_send())] = true;
        }
        let mut head = Vec::new();
        let mut token = vec![NONE; world];
        for (peer, [receives, sends]) in ways.into_iter().enumerate() {
            let what = match (receives, sends) {
                (true, false) => Action::SendWork,
                (false, true) => Action::Recv,
                _ => continue,
            };
            token[peer] = head.len() as u32;
            head.push(Step { peer, what, off: 0, len: 0, needs: [NONE; 2] });
        }
        let shift = head.len() as u32;
        for s in &mut self.steps {
            for n in &mut s.needs {
                if *n != NONE {
                    *n += shift;
                }
            }
            if s.what.is_send() && token[s.peer] != NONE {
                // Steps of one-way pairs need at most one other step, so an entry is free.
                if let Some(free) = s.needs.iter_mut().find(|n| **n == NONE) {
                    *free = token[s.peer];
                }
            }
        }
        head.append(&mut self.steps);
        CollectivePlan { steps: head }
    }
}

/// Splits a buffer of `count` elements of `size` bytes into one chunk per rank, as (offset, length) in bytes; the last
/// chunks may be short or empty.
pub fn chunks(count: usize, size: usize, world: usize) -> Vec<(usize, usize)> {
    // Chunks are whole cache lines, so that no two ranks write to the same line.
    let each = count.div_ceil(world).next_multiple_of(64 / size);
    (0..world)
        .map(|c| {
            let from = (c * each).min(count);
            let to = ((c + 1) * each).min(count);
            (from * size, (to - from) * size)
        })
        .collect()
}

fn pieces(range: (usize, usize), segment: usize) -> Vec<(usize, usize)> {
    let (off, len) = range;
    (0..len.div_ceil(segment)).map(|i| (off + i * segment, segment.min(len - i * segment))).collect()
}

/// Ring steps over the chunks, each of one or more ranges: in step t a rank forwards the chunk that it received in step
/// t - 1. `first` is the chunk sent in step 0; steps before `combine` reduce, later ones replace.
fn ring<R>(p: RankInfo, chunk: impl Fn(usize) -> R, first: usize, steps: usize, combine: usize) -> CollectivePlan
where
    R: IntoIterator<Item = (usize, usize)>,
{
    let n = p.world;
    let cut = |c: usize| chunk(c).into_iter().flat_map(|range| pieces(range, p.segment)).collect::<Vec<_>>();
    let (next, prev) = ((p.me + 1) % n, (p.me + n - 1) % n);
    let mut plan = CollectivePlan::default();
    let mut received: Vec<u32> = Vec::new();
    for t in 0..steps {
        let out = cut((first + n * steps - t) % n);
        for (i, piece) in out.into_iter().enumerate() {
            let needs = [received.get(i).copied().unwrap_or(NONE), NONE];
            plan.push(next, Action::SendWork, piece, needs);
        }
        let incoming = cut((first + n * steps - t - 1) % n);
        received = incoming
            .into_iter()
            .map(|piece| {
                let what = if t < combine {
                    Action::Reduce { mine_first: false, finish: t + 1 == combine }
                } else {
                    Action::Recv
                };
                plan.push(prev, what, piece, [NONE; 2])
            })
            .collect();
    }
    plan
}

/// Bandwidth-optimal all_reduce: reduce-scatter and all-gather on one ring, pipelined by pieces.
pub fn ring_all_reduce(p: RankInfo, count: usize, size: usize) -> CollectivePlan {
    let chunks = chunks(count, size, p.world);
    ring(p, |c| [chunks[c]], p.me, 2 * (p.world - 1), p.world - 1)
}

/// `part(r)` is the place of rank r's part in the work buffer; rank r ends with the reduction of part r.
pub fn ring_reduce_scatter<R>(p: RankInfo, part: impl Fn(usize) -> R) -> CollectivePlan
where
    R: IntoIterator<Item = (usize, usize)>,
{
    ring(p, part, (p.me + p.world - 1) % p.world, p.world - 1, p.world - 1)
}

/// Rank r starts with part r of the work buffer in place.
pub fn ring_all_gather<R>(p: RankInfo, part: impl Fn(usize) -> R) -> CollectivePlan
where
    R: IntoIterator<Item = (usize, usize)>,
{
    ring(p, part, p.me, p.world - 1, 0)
}

/// Pairwise algorithms over a power of two of ranks. Further ranks first fold their data into a neighbour and receive
/// the result at the end.
struct Fold {
    plan: CollectivePlan,
    power: usize,
    extra: usize,
    /// This rank's index within the power of two; `None` for a rank that folds into its neighbour.
    me: Option<usize>,
    /// The last step so far.
    ready: u32,
}

impl Fold {
    fn begin(p: RankInfo, len: usize) -> Fold {
        let power = 1 << p.world.ilog2();
        let extra = p.world - power;
        let mut fold =
            Fold { plan: CollectivePlan::default(), power, extra, me: Some(p.me.wrapping_sub(extra)), ready: NONE };
        if p.me < 2 * extra {
            let folds = p.me.is_multiple_of(2);
            fold.me = (!folds).then_some(p.me / 2);
            let (peer, what) = match folds {
                true => (p.me + 1, Action::SendWork),
                false => (p.me - 1, Action::Reduce { mine_first: false, finish: false }),
            };
            fold.step(peer, what, &pieces((0, len), p.segment), NONE);
        }
        fold
    }

    /// The group rank of an index within the power of two.
    fn real(&self, virt: usize) -> usize {
        if virt < self.extra {
            2 * virt + 1
        } else {
            virt + self.extra
        }
    }

    /// Adds pieces to or from a rank, after `needs`. Pieces of a pair complete in order, so the last one completes when
    /// all have.
    fn step(&mut self, peer: usize, what: Action, pieces: &[(usize, usize)], needs: u32) {
        for piece in pieces {
            self.ready = self.plan.push(peer, what, *piece, [needs, NONE]);
        }
    }

    fn end(mut self, p: RankInfo, len: usize) -> CollectivePlan {
        if p.me < 2 * self.extra {
            let (peer, what) = if self.me.is_none() { (p.me + 1, Action::Recv) } else { (p.me - 1, Action::SendWork) };
            let ready = self.ready;
            self.step(peer, what, &pieces((0, len), p.segment), ready);
        }
        self.plan
    }
}

/// Latency-optimal all_reduce of one piece: recursive doubling.
pub fn doubling_all_reduce(p: RankInfo, len: usize) -> CollectivePlan {
    let mut fold = Fold::begin(RankInfo { segment: len.max(1), ..p }, len);
    if let Some(me) = fold.me {
        let mut bit = 1;
        while bit < fold.power {
            let other = me ^ bit;
            let (peer, ready) = (fold.real(other), fold.ready);
            fold.step(peer, Action::SendWork, &[(0, len)], ready);
            // The lower block is the left operand on both sides, so both compute the same bits.
            let what = Action::Reduce { mine_first: me < other, finish: bit * 2 == fold.power };
            let sent = fold.ready;
            fold.step(peer, what, &[(0, len)], sent);
            bit *= 2;
        }
    }
    fold.end(RankInfo { segment: len.max(1), ..p }, len)
}

/// All_reduce in few messages: recursive halving gives every rank the reduction of a part, recursive doubling
/// distributes the parts. Moves as many bytes as a ring.
pub fn halving_all_reduce(p: RankInfo, count: usize, size: usize) -> CollectivePlan {
    let mut fold = Fold::begin(p, count * size);
    if let Some(me) = fold.me {
        let chunks = chunks(count, size, fold.power);
        let range = |from: usize, to: usize| {
            let (off, (last, len)) = (chunks[from].0, chunks[to - 1]);
            pieces((off, last + len - off), p.segment)
        };
        let (mut from, mut to) = (0, fold.power);
        while to - from > 1 {
            let half = (to - from) / 2;
            let (mid, upper) = (from + half, me & half != 0);
            let (peer, ready) = (fold.real(me ^ half), fold.ready);
            let (gives, keeps) = if upper { ((from, mid), (mid, to)) } else { ((mid, to), (from, mid)) };
            fold.step(peer, Action::SendWork, &range(gives.0, gives.1), ready);
            fold.ready = ready;
            let what = Action::Reduce { mine_first: !upper, finish: half == 1 };
            fold.step(peer, what, &range(keeps.0, keeps.1), ready);
            (from, to) = keeps;
        }
        while to - from < fold.power {
            let held = to - from;
            let (peer, ready) = (fold.real(me ^ held), fold.ready);
            fold.step(peer, Action::SendWork, &range(from, to), ready);
            fold.ready = ready;
            let other = if me & held != 0 { (from - held, from) } else { (to, to + held) };
            fold.step(peer, Action::Recv, &range(other.0, other.1), ready);
            (from, to) = (from.min(other.0), to.max(other.1));
        }
    }
    fold.end(p, count * size)
}

/// The all_reduce algorithm of least estimated cost.
pub fn all_reduce(p: RankInfo, count: usize, size: usize, costs: &Costs) -> CollectivePlan {
    match costs.best(p.world, p.segment, count * size) {
        AllReduce::Doubling => doubling_all_reduce(p, count * size),
        AllReduce::Halving => halving_all_reduce(p, count, size),
        AllReduce::Ring => ring_all_reduce(p, count, size),
    }
}

fn real(p: RankInfo, root: usize, virt: usize) -> usize {
    (virt + root) % p.world
}

/// Parent and children in a binomial tree around `root`, children in ascending order.
fn tree(p: RankInfo, root: usize) -> (Option<usize>, Vec<usize>) {
    let me = (p.me + p.world - root) % p.world;
    let mut children = Vec::new();
    let mut bit = 1;
    while bit < p.world {
        if me & bit != 0 {
            return (Some(real(p, root, me - bit)), children);
        }
        if me + bit < p.world {
            children.push(real(p, root, me + bit));
        }
        bit *= 2;
    }
    (None, children)
}

/// Predecessor and successor in a chain that starts at `root`.
fn chain(p: RankInfo, root: usize) -> (Option<usize>, Option<usize>) {
    let me = (p.me + p.world - root) % p.world;
    let before = (me > 0).then(|| real(p, root, me - 1));
    let after = (me + 1 < p.world).then(|| real(p, root, me + 1));
    (before, after)
}

/// One piece is sent down a binomial tree; several are pipelined along a chain.
pub fn broadcast(p: RankInfo, len: usize, root: usize) -> CollectivePlan {
    let (parent, children) = if len <= p.segment {
        let (parent, children) = tree(p, root);
        (parent, children.into_iter().rev().collect())
    } else {
        let (before, after) = chain(p, root);
        (before, after.into_iter().collect::<Vec<_>>())
    };
    let mut plan = CollectivePlan::default();
    for piece in pieces((0, len), p.segment) {
        let got = parent.map_or(NONE, |from| plan.push(from, Action::Recv, piece, [NONE; 2]));
        for to in &children {
            plan.push(*to, Action::SendWork, piece, [got, NONE]);
        }
    }
    plan.with_tokens(p.world)
}

/// The reverse of the broadcast. The result is in the root's work buffer; work buffers of other ranks hold partial
/// results.
pub fn reduce(p: RankInfo, len: usize, root: usize) -> CollectivePlan {
    let (parent, children) = if len <= p.segment {
        tree(p, root)
    } else {
        let (before, after) = chain(p, root);
        (before, after.into_iter().collect())
    };
    let mut plan = CollectivePlan::default();
    for piece in pieces((0, len), p.segment) {
        let mut ready = NONE;
        for (i, from) in children.iter().enumerate() {
            let finish = parent.is_none() && i + 1 == children.len();
            ready = plan.push(*from, Action::Reduce { mine_first: true, finish }, piece, [ready, NONE]);
        }
        if let Some(to) = parent {
            plan.push(to, Action::SendWork, piece, [ready, NONE]);
        }
    }
    plan.with_tokens(p.world)
}

/// The root receives part r of the work buffer from rank r; the others send their input.
pub fn gather(p: RankInfo, len: usize, root: usize) -> CollectivePlan {
    let mut plan = CollectivePlan::default();
    if p.me != root {
        pieces((0, len), p.segment).into_iter().for_each(|x| {
            plan.push(root, Action::SendInput, x, [NONE; 2]);
        });
    } else {
        for from in (0..p.world).filter(|r| *r != root) {
            pieces((from * len, len), p.segment).into_iter().for_each(|x| {
                plan.push(from, Action::Recv, x, [NONE; 2]);
            });
        }
    }
    plan.with_tokens(p.world)
}

/// The root sends part r of its input to rank r, which receives it in its work buffer.
pub fn scatter(p: RankInfo, len: usize, root: usize) -> CollectivePlan {
    let mut plan = CollectivePlan::default();
    if p.me != root {
        pieces((0, len), p.segment).into_iter().for_each(|x| {
            plan.push(root, Action::Recv, x, [NONE; 2]);
        });
    } else {
        for to in (0..p.world).filter(|r| *r != root) {
            pieces((to * len, len), p.segment).into_iter().for_each(|x| {
                plan.push(to, Action::SendInput, x, [NONE; 2]);
            });
        }
    }
    plan.with_tokens(p.world)
}

/// Part r of the input is sent to rank r, which receives it as part `me` of its work buffer.
pub fn all_to_all(p: RankInfo, len: usize) -> CollectivePlan {
    let mut plan = CollectivePlan::default();
    // Ranks start with different peers, so that no rank is flooded.
    for k in 1..p.world {
        let (to, from) = ((p.me + k) % p.world, (p.me + p.world - k) % p.world);
        for (a, b) in pieces((to * len, len), p.segment).into_iter().zip(pieces((from * len, len), p.segment)) {
            plan.push(to, Action::SendInput, a, [NONE; 2]);
            plan.push(from, Action::Recv, b, [NONE; 2]);
        }
    }
    plan
}

/// Dissemination barrier: completes when every rank has entered it.
pub fn barrier(p: RankInfo) -> CollectivePlan {
    let mut plan = CollectivePlan::default();
    let mut received = NONE;
    let mut far = 1;
    while far < p.world {
        let (to, from) = ((p.me + far) % p.world, (p.me + p.world - far) % p.world);
        plan.push(to, Action::SendWork, (0, 0), [received, NONE]);
        received = plan.push(from, Action::Recv, (0, 0), [received, NONE]);
        far *= 2;
    }
    plan
}

/// Messages up to this length are sent before the receiver is ready.
pub const EAGER: usize = 64 << 10;

pub fn send(p: RankInfo, len: usize, to: usize) -> CollectivePlan {
    let mut plan = CollectivePlan::default();
    if len == 0 {
        plan.push(to, Action::SendInput, (0, 0), [NONE; 2]);
    }
    pieces((0, len), p.segment).into_iter().for_each(|x| {
        plan.push(to, Action::SendInput, x, [NONE; 2]);
    });
    if len > EAGER {
        plan.with_tokens(p.world)
    } else {
        plan
    }
}

pub fn recv(p: RankInfo, len: usize, from: usize) -> CollectivePlan {
    let mut plan = CollectivePlan::default();
    if len == 0 {
        plan.push(from, Action::Recv, (0, 0), [NONE; 2]);
    }
    pieces((0, len), p.segment).into_iter().for_each(|x| {
        plan.push(from, Action::Recv, x, [NONE; 2]);
    });
    if len > EAGER {
        plan.with_tokens(p.world)
    } else {
        plan
    }
}
