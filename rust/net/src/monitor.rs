//! Monitoring of a job: one thread per rank that accepts connections, exchanges heartbeats and detects failures.
//!
//! Rank 0 is the hub. Every other rank keeps one control connection to it, so a job of n ranks has n - 1 of them. The
//! hub detects a killed rank by its closed connection at once and a stopped one by missing heartbeats, and reports to
//! all ranks in the same order. Heartbeats carry the operation each group is in; the hub compares them, and so detects
//! ranks that wait for each other in different operations although no byte moves.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags};

use crate::acceptor::{Accepted, Acceptor};
use crate::codec::{Put, Take};
use crate::error::{Error, Last};
use crate::failure;
use crate::frame::{Frame, Parser, Type, Writer, MAX_CONTROL};
use crate::handshake::{Connected, Purpose};
use crate::mac::Seal;
use crate::report;
use crate::socket::{self, moved, Moved};
use crate::state::{Shared, Status};

const HUB: usize = 0;

struct Link {
    rank: usize,
    stream: TcpStream,
    parser: Parser,
    writer: Writer,
    out: Vec<u8>,
    sent: usize,
    last_received: Instant,
    left: bool,
    /// Why the link has ended.
    ended: Option<Error>,
}

impl Link {
    fn new(rank: usize, stream: TcpStream, seal: Seal) -> Link {
        Link {
            rank,
            stream,
            parser: Parser::sealed(MAX_CONTROL, seal.incoming),
            writer: Writer::sealed(seal.out),
            out: Vec::new(),
            sent: 0,
            last_received: Instant::now(),
            left: false,
            ended: None,
        }
    }

    fn send(&mut self, kind: Type, payload: &[u8]) {
        // A peer that does not read accumulates heartbeats; missing heartbeats end the link, not the buffer's size.
        if self.out.len() - self.sent < MAX_CONTROL {
            self.writer.encode(kind, payload, &mut self.out);
        }
        self.flush();
    }

    fn flush(&mut self) {
        while self.sent < self.out.len() {
            match moved((&self.stream).write(&self.out[self.sent..])) {
                Moved::Some(n) => self.sent += n,
                // The reader detects a closed connection, after the peer's last frames.
                Moved::Blocked | Moved::Ended(_) => return,
            }
        }
        self.out.clear();
        self.sent = 0;
    }
}

/// Answers to `report` requests.
#[derive(Default)]
pub struct Reports {
    pub answer: Mutex<Option<String>>,
    pub answered: Condvar,
}

pub struct Timing {
    pub beat: Duration,
    pub limit: Duration,
}

pub struct Monitor {
    shared: Arc<Shared>,
    acceptor: Acceptor,
    links: Vec<Link>,
    statuses: HashMap<usize, Vec<Status>>,
    timing: Timing,
    last_beat: Instant,
    last_turn: Instant,
    reports: Arc<Reports>,
    stop: Arc<AtomicBool>,
    linger: Duration,
}

impl Monitor {
    /// `hub` is the control connection to rank 0; `None` on rank 0.
    pub fn new(
        shared: Arc<Shared>,
        acceptor: Acceptor,
        hub: Option<Connected>,
        timing: Timing,
        reports: Arc<Reports>,
        stop: Arc<AtomicBool>,
        linger: Duration,
    ) -> Monitor {
        Monitor {
            shared,
            acceptor,
            links: hub.into_iter().map(|c| Link::new(HUB, c.stream, c.seal)).collect(),
            statuses: HashMap::new(),
            last_beat: Instant::now(),
            last_turn: Instant::now(),
            timing,
            reports,
            stop,
            linger,
        }
    }

    fn is_hub(&self) -> bool {
        self.shared.rank == HUB
    }

    pub fn run(mut self) {
        let mut leaving: Option<Instant> = None;
        loop {
            if self.stop.load(Ordering::Acquire) && leaving.is_none() {
                leaving = Some(Instant::now() + self.linger);
                self.goodbye();
            }
            if let Some(until) = leaving {
                // The hub serves ranks that have not left; other ranks wait until their goodbye is sent.
                let others = self.links.iter().any(|l| l.ended.is_none() && !l.left);
                let unsent = self.links.iter().any(|l| l.ended.is_none() && !l.out.is_empty());
                if Instant::now() >= until || !(self.is_hub() && others || unsent) {
                    return;
                }
            }
            if let Err(e) = self.turn() {
                return self.shared.fail(e);
            }
        }
    }

    fn goodbye(&mut self) {
        self.drain_outbox();
        let bye = Put::default().u32(self.shared.rank as u32).0;
        self.links.iter_mut().for_each(|l| l.send(Type::Bye, &bye));
    }

    fn poll(&self) -> crate::Result<()> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.shared.monitor_waker.fd(), PollFlags::IN)];
        fds.extend(self.acceptor.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        fds.extend(self.links.iter().filter(|l| l.ended.is_none()).map(|l| {
            let out = if l.out.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            PollFd::from_borrowed_fd(l.stream.as_fd(), PollFlags::IN | out)
        }));
        // Until the next heartbeat, or until a link exceeds its silence limit.
        let silent =
            self.links.iter().filter(|l| l.ended.is_none() && !l.left).map(|l| l.last_received.elapsed()).max();
        let beat = self.timing.beat.saturating_sub(self.last_beat.elapsed());
        let due = silent.map_or(beat, |s| beat.min(self.deadline().saturating_sub(s)));
        socket::poll(&mut fds, due.max(Duration::from_millis(1)))
    }

    fn turn(&mut self) -> crate::Result<()> {
        self.poll()?;
        self.shared.monitor_waker.drain();
        // If this process was stopped, other ranks' silence during that time is not counted.
        let pause = self.last_turn.elapsed();
        self.last_turn = Instant::now();
        if pause > self.timing.beat * 2 + Duration::from_millis(500) {
            self.links.iter_mut().for_each(|l| l.last_received += pause);
        }
        self.accept();
        self.drain_outbox();
        self.read();
        if self.last_beat.elapsed() >= self.timing.beat {
            self.beat();
        }
        self.check();
        Ok(())
    }

    fn accept(&mut self) {
        for Accepted { stream, hello, seal } in self.acceptor.turn() {
            let rank = hello.rank as usize;
            match hello.purpose {
                Purpose::Data => {
                    socket::unpace(&stream);
                    self.shared.arrivals.lock().insert((hello.group, rank), (stream, seal));
                    if let Some(g) = self.shared.groups.lock().get(&hello.group) {
                        g.waker.wake();
                    }
                }
                Purpose::Control if self.is_hub() && self.links.iter().all(|l| l.rank != rank) => {
                    self.links.push(Link::new(rank, stream, seal));
                }
                _ => {}
            }
        }
    }

    fn drain_outbox(&mut self) {
        let out = std::mem::take(&mut *self.shared.outbox.lock());
        for (kind, payload) in out {
            match kind {
                Type::ReportAsk if self.is_hub() => self.own_report(),
                _ => self.broadcast(kind, &payload, None),
            }
        }
    }

    fn broadcast(&mut self, kind: Type, payload: &[u8], except: Option<usize>) {
        for l in self.links.iter_mut().filter(|l| l.ended.is_none() && Some(l.rank) != except) {
            l.send(kind, payload);
        }
    }

    fn read(&mut self) {
        let mut buf = [0; 16 << 10];
        for at in 0..self.links.len() {
            if self.links[at].ended.is_some() {
                continue;
            }
            self.links[at].flush();
            let l = &mut self.links[at];
            let ended = match moved((&l.stream).read(&mut buf)) {
                Moved::Some(n) => {
                    l.last_received = Instant::now();
                    l.parser.feed(&buf[..n]);
                    false
                }
                Moved::Blocked => false,
                Moved::Ended(_) => true,
            };
            self.frames(at);
            let l = &mut self.links[at];
            if ended && l.ended.is_none() {
                let peer = self.shared.peer(l.rank);
                let last = last_of(&self.statuses, l.rank);
                l.ended = Some(Error::Died { peer, last, during: "no operation".into() });
            }
        }
    }

    fn frames(&mut self, at: usize) {
        loop {
            let rank = self.links[at].rank;
            let peer = self.shared.peer(rank);
            let damaged = |what: String| Error::Corrupt {
                peer: peer.clone(),
                what: format!("control connection: {what}"),
                during: "no operation".into(),
            };
            match self.links[at].parser.next() {
                Ok(None) => return,
                Ok(Some(frame)) => {
                    if self.handle(at, &frame).is_none() {
                        let e = damaged(format!("an invalid {:?} frame", frame.kind));
                        self.links[at].ended = Some(e);
                        return;
                    }
                }
                Err(bad) => {
                    self.links[at].ended = Some(damaged(bad.to_string()));
                    return;
                }
            }
        }
    }

    fn handle(&mut self, at: usize, frame: &Frame) -> Option<()> {
        let rank = self.links[at].rank;
        match frame.kind {
            Type::Beat => {
                self.statuses.insert(rank, failure::decode_beat(&frame.payload)?);
            }
            Type::Failure => {
                let v = failure::decode(&frame.payload, &self.shared)?;
                if self.is_hub() {
                    self.broadcast(Type::Failure, &frame.payload, Some(rank));
                }
                self.apply(v.group, v.error);
            }
            Type::Bye => {
                let leaving_rank = Take(&frame.payload).u32()? as usize;
                if self.is_hub() {
                    self.broadcast(Type::Bye, &frame.payload, Some(rank));
                }
                if leaving_rank == rank {
                    self.links[at].left = true;
                }
                self.shared.set_left(leaving_rank);
            }
            Type::ReportAsk if self.is_hub() => {
                let text = report::render(&self.shared, &self.all_statuses());
                self.links[at].send(Type::Report, text.as_bytes());
            }
            Type::Report => {
                *self.reports.answer.lock() = Some(String::from_utf8_lossy(&frame.payload).into_owned());
                self.reports.answered.notify_all();
            }
            _ => return None,
        }
        Some(())
    }

    fn all_statuses(&self) -> HashMap<usize, Vec<Status>> {
        let mut all = self.statuses.clone();
        all.insert(self.shared.rank, self.shared.statuses());
        all
    }

    fn own_report(&self) {
        *self.reports.answer.lock() = Some(report::render(&self.shared, &self.all_statuses()));
        self.reports.answered.notify_all();
    }

    fn apply(&self, group: Option<u64>, error: Error) {
        match group {
            None => self.shared.fail(error),
            Some(id) => self.shared.fail_group(id, error),
        }
    }

    fn beat(&mut self) {
        self.last_beat = Instant::now();
        let payload = failure::encode_beat(&self.shared.statuses());
        self.broadcast(Type::Beat, &payload, None);
        if self.is_hub() {
            if let Some((group, e)) = disagreement(&self.shared, &self.all_statuses()) {
                self.broadcast(Type::Failure, &failure::encode(Some(group), &e, HUB), None);
                self.apply(Some(group), e);
            }
        }
    }

    /// Silence limit of a link: reduced by one heartbeat interval, so that a stop is detected within the limit.
    fn deadline(&self) -> Duration {
        self.timing.limit.saturating_sub(self.timing.beat).max(self.timing.beat)
    }

    /// Turns links that ended or fell silent into failures.
    fn check(&mut self) {
        let limit = self.deadline();
        for l in &mut self.links {
            let silent = l.last_received.elapsed();
            if l.ended.is_none() && !l.left && silent > limit {
                let (peer, last) = (self.shared.peer(l.rank), last_of(&self.statuses, l.rank));
                let seconds = silent.as_secs_f64();
                let e = Error::Silent { peer, seconds, last, during: "no operation".into() };
                // If the peer resumes, it learns why it was excluded.
                l.send(Type::Failure, &failure::encode(None, &e, self.shared.rank));
                l.ended = Some(e);
            }
        }
        let hub = self.is_hub();
        let mut over = Vec::new();
        self.links.retain_mut(|l| match l.ended.take() {
            None => true,
            Some(e) => {
                if !l.left {
                    over.push((l.rank, e));
                }
                false
            }
        });
        for (rank, e) in over {
            if hub {
                let payload = failure::encode(None, &e, HUB);
                self.broadcast(Type::Failure, &payload, Some(rank));
            }
            self.shared.fail(e);
        }
    }
}

fn last_of(statuses: &HashMap<usize, Vec<Status>>, rank: usize) -> Last {
    statuses.get(&rank).and_then(|s| s.first()).map_or_else(Last::default, Status::last)
}

/// Two ranks whose operations of the same number in the same group differ.
fn disagreement(shared: &Shared, all: &HashMap<usize, Vec<Status>>) -> Option<(u64, Error)> {
    let mut first: HashMap<(u64, u64), (usize, &Status)> = HashMap::new();
    let mut ranks: Vec<_> = all.keys().copied().collect();
    ranks.sort_unstable();
    for rank in ranks {
        for s in all[&rank].iter().filter(|s| !s.doing.is_point_to_point()) {
            let (other, seen) = *first.entry((s.group, s.doing.seq())).or_insert((rank, s));
            if seen.doing != s.doing {
                let e = Error::Mismatch {
                    a: shared.peer(other),
                    a_call: seen.doing.to_string(),
                    b: shared.peer(rank),
                    b_call: s.doing.to_string(),
                };
                return Some((s.group, e));
            }
        }
    }
    crossed_waits(shared, all)
}

/// Milliseconds that two ranks must have waited for each other: earlier messages have arrived by then.
const CROSSED: u32 = 3000;

/// A rank in a send or receive and a rank in a collective that wait for each other. Over sockets the fingerprints
/// reveal it; over shared memory the two wait at different words.
fn crossed_waits(shared: &Shared, all: &HashMap<usize, Vec<Status>>) -> Option<(u64, Error)> {
    let waits = |s: &Status, rank: usize| s.waiting as usize == rank && s.millis >= CROSSED;
    for (&a, of_a) in all {
        for s in of_a.iter().filter(|s| s.doing.is_point_to_point()) {
            let b = s.waiting as usize;
            let Some(of_b) = all.get(&b) else { continue };
            let crossed = |t: &&Status| t.group == s.group && !t.doing.is_point_to_point() && waits(t, a);
            let near = shared.peers[a].host_key == shared.peers[b].host_key;
            if let (true, true, Some(t)) = (near, waits(s, b), of_b.iter().find(crossed)) {
                let e = Error::Mismatch {
                    a: shared.peer(a),
                    a_call: s.doing.to_string(),
                    b: shared.peer(b),
                    b_call: t.doing.to_string(),
                };
                return Some((s.group, e));
            }
        }
    }
    None
}
