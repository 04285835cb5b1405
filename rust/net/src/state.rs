//! State shared by the threads of a rank: peers, failures, and the operation that each group is in.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{Error, Last, Peer, Result};
use crate::fingerprint::Fingerprint;
use crate::frame::Type;
use crate::handshake::Identity;
use crate::mac::Seal;
use crate::socket::{Waker, SLICE};

/// Address and identity of a rank.
#[derive(Clone, Debug)]
pub struct PeerInfo {
    pub address: SocketAddr,
    pub host: String,
    /// The process's number in the whole job, as users know it.
    pub number: usize,
    /// Equal for ranks that can share memory.
    pub host_key: String,
}

pub const NOT_WAITING: u32 = u32::MAX;

/// The operation that a group is in, for heartbeats and the debug report.
pub struct Now {
    pub doing: Fingerprint,
    pub since: Instant,
}

/// The part of a group's state that the monitor thread uses.
pub struct GroupState {
    pub id: u64,
    /// Global ranks, by group rank.
    pub ranks: Vec<usize>,
    pub now: Mutex<Now>,
    /// The global rank that the group waits for.
    pub waiting: AtomicU32,
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
    pub waker: Waker,
}

impl GroupState {
    pub fn new(id: u64, ranks: Vec<usize>) -> Result<GroupState> {
        Ok(GroupState {
            id,
            ranks,
            now: Mutex::new(Now { doing: Fingerprint::NONE, since: Instant::now() }),
            waiting: AtomicU32::new(NOT_WAITING),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            waker: Waker::new()?,
        })
    }

    /// Records the first failure; later ones are ignored.
    pub fn fail(&self, e: Error) {
        let mut f = self.failure.lock();
        if f.is_none() {
            *f = Some(e);
            self.failed.store(true, Ordering::Release);
            self.waker.wake();
        }
    }

    pub fn failure(&self) -> Option<Error> {
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        self.failure.lock().clone()
    }

    /// The error for a rank that has left. If a failure made it leave, that failure was reported before and is
    /// returned.
    pub fn left(&self, shared: &Shared, rank: usize, doing: &Fingerprint) -> Error {
        let during = doing.to_string();
        match shared.failure().or_else(|| self.failure()) {
            Some(e) => e.during(&during),
            None => Error::Left { peer: shared.peer(rank), during },
        }
    }
}

/// Limit of failures kept for groups not created yet, which include those of groups that this rank has closed.
const MAX_EARLY: usize = 64;

/// State of one rank's context.
pub struct Shared {
    pub rank: usize,
    pub world: usize,
    pub identity: Arc<Identity>,
    pub peers: Vec<PeerInfo>,
    pub route: Option<Route>,
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
    left: Vec<AtomicBool>,
    pub interrupted: AtomicBool,
    pub groups: Mutex<HashMap<u64, Arc<GroupState>>>,
    /// Failures of groups that this rank has not created yet; accessed under the lock of `groups`.
    early: Mutex<HashMap<u64, Error>>,
    /// Accepted data connections, by group and global rank, until their group takes them.
    pub arrivals: Mutex<HashMap<(u64, usize), (TcpStream, Seal)>>,
    /// Control frames for the monitor to send: to the hub, or on the hub to all ranks.
    pub outbox: Mutex<Vec<(Type, Vec<u8>)>>,
    pub monitor_waker: Waker,
}

/// Rewrites the address by which a rank is reached, for port forwarding and for tests with a proxy.
pub type Route = Arc<dyn Fn(usize, SocketAddr) -> SocketAddr + Send + Sync>;

impl Shared {
    pub fn new(identity: Arc<Identity>, peers: Vec<PeerInfo>, route: Option<Route>) -> Result<Shared> {
        Ok(Shared {
            rank: identity.rank as usize,
            world: peers.len(),
            identity,
            left: peers.iter().map(|_| AtomicBool::new(false)).collect(),
            peers,
            route,
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            interrupted: AtomicBool::new(false),
            groups: Mutex::default(),
            early: Mutex::default(),
            arrivals: Mutex::default(),
            outbox: Mutex::default(),
            monitor_waker: Waker::new()?,
        })
    }

    pub fn peer(&self, rank: usize) -> Peer {
        let host = self.peers.get(rank).map_or("an unknown host".into(), |p| match p.number == rank {
            true => p.host.clone(),
            false => format!("{} (trainer {})", p.host, p.number),
        });
        Peer { rank, host }
    }

    pub fn address(&self, rank: usize) -> SocketAddr {
        let at = self.peers[rank].address;
        self.route.as_ref().map_or(at, |r| r(rank, at))
    }

    /// Marks the whole context as failed; the first reason is kept.
    pub fn fail(&self, e: Error) {
        {
            let mut f = self.failure.lock();
            if f.is_some() {
                return;
            }
            *f = Some(e);
            self.failed.store(true, Ordering::Release);
        }
        self.wake_groups();
    }

    /// Records the failure of a group, which this rank may not have created yet.
    pub fn fail_group(&self, id: u64, e: Error) {
        let groups = self.groups.lock();
        if let Some(g) = groups.get(&id).cloned() {
            drop(groups);
            return g.fail(e);
        }
        let mut early = self.early.lock();
        if early.len() < MAX_EARLY {
            early.entry(id).or_insert(e);
        }
    }

    /// Registers a group, with a failure received before.
    pub fn enter(&self, state: &Arc<GroupState>) {
        let known = {
            let mut groups = self.groups.lock();
            groups.insert(state.id, state.clone());
            self.early.lock().remove(&state.id)
        };
        if let Some(e) = known {
            state.fail(e);
        }
    }

    pub fn wake_groups(&self) {
        self.groups.lock().values().for_each(|g| g.waker.wake());
    }

    pub fn failure(&self) -> Option<Error> {
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        self.failure.lock().clone()
    }

    pub fn set_left(&self, rank: usize) {
        if let Some(l) = self.left.get(rank) {
            l.store(true, Ordering::Release);
            self.wake_groups();
        }
    }

    pub fn has_left(&self, rank: usize) -> bool {
        self.left.get(rank).is_some_and(|l| l.load(Ordering::Acquire))
    }

    pub fn post(&self, kind: Type, payload: Vec<u8>) {
        self.outbox.lock().push((kind, payload));
        self.monitor_waker.wake();
    }
}

/// One rank's view of one group, as heartbeats carry it.
#[derive(Clone, Debug)]
pub struct Status {
    pub group: u64,
    pub doing: Fingerprint,
    pub waiting: u32,
    pub millis: u32,
}

impl Status {
    pub fn last(&self) -> Last {
        Last(self.doing.to_string())
    }
}

impl Shared {
    /// The operations that this rank's groups are in; idle groups are left out.
    pub fn statuses(&self) -> Vec<Status> {
        let groups: Vec<_> = self.groups.lock().values().cloned().collect();
        let mut all = Vec::new();
        for g in groups {
            let now = g.now.lock();
            if !now.doing.is_none() {
                let millis = now.since.elapsed().as_millis().min(u128::from(u32::MAX)) as u32;
                all.push(Status { group: g.id, doing: now.doing, waiting: g.waiting.load(Ordering::Relaxed), millis });
            }
        }
        all
    }
}

/// Checked in every slice of every wait of one operation.
pub struct Guard<'a> {
    pub shared: &'a Shared,
    pub group: &'a GroupState,
    pub doing: Fingerprint,
    pub started: Instant,
    pub limit: Duration,
    /// The caller's check, such as for signals; `true` requests a stop.
    pub tick: Option<&'a dyn Fn() -> bool>,
}

impl Guard<'_> {
    /// Duration of the next slice of waiting for `peer` (a global rank); an error when the wait is over.
    pub fn slice(&self, peer: usize) -> Result<Duration> {
        self.group.waiting.store(peer as u32, Ordering::Relaxed);
        self.check()?;
        let waited = self.started.elapsed();
        if waited >= self.limit {
            let waiting_for = self.shared.peer(peer).to_string();
            return Err(Error::Timeout { waited, during: self.doing.to_string(), waiting_for });
        }
        Ok((self.limit - waited).min(SLICE))
    }

    pub fn check(&self) -> Result<()> {
        if let Some(e) = self.shared.failure().or_else(|| self.group.failure()) {
            return Err(e.during(&self.doing.to_string()));
        }
        if self.shared.interrupted.load(Ordering::Acquire) || self.tick.is_some_and(|t| t()) {
            return Err(Error::Interrupted { during: self.doing.to_string() });
        }
        Ok(())
    }

    pub fn left(&self, rank: usize) -> Error {
        self.group.left(self.shared, rank, &self.doing)
    }

    /// A lost connection is often the consequence of a death that the monitor is about to detect: waits up to 700 ms
    /// for it.
    pub fn explain(&self, e: Error) -> Error {
        let Error::Lost { peer, .. } = &e else { return e };
        let until = Instant::now() + Duration::from_millis(700);
        while Instant::now() < until {
            if let Some(known) = self.shared.failure().or_else(|| self.group.failure()) {
                return known.during(&self.doing.to_string());
            }
            if self.shared.has_left(peer.rank) {
                return self.left(peer.rank);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        e
    }
}
