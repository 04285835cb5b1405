//! A rank's membership in a job: rendezvous through the store, groups, and monitoring of the other ranks.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::acceptor::Acceptor;
use crate::codec::{Put, Take};
use crate::costs::Costs;
use crate::error::{Error, Result};
use crate::failure;
use crate::fork::ForkGeneration;
use crate::frame::Type;
use crate::handshake::{self, Identity, Purpose};
use crate::monitor::{Monitor, Reports, Timing};
use crate::socket::{self, Deadline};
use crate::state::{PeerInfo, Route, Shared};
use crate::store::Store;
use crate::transport::MakeTransport;

/// Options of a context. The defaults suit one machine.
#[derive(Clone)]
pub struct Options {
    /// The address to listen at.
    pub bind: IpAddr,
    /// The address advertised to other ranks, if not the bound one.
    pub advertise: Option<IpAddr>,
    /// Time limit of an operation whose call sets none.
    pub timeout: Duration,
    /// Time limit for the other ranks to join, and to create a group.
    pub init_timeout: Duration,
    pub beat: Duration,
    /// A rank that sends no heartbeat for this long is considered dead.
    pub heartbeat_limit: Duration,
    /// How long rank 0 serves the other ranks after it shuts down.
    pub linger: Duration,
    /// Ranks of one host exchange data through shared memory.
    pub shared_memory: bool,
    /// Collectives use messages between pairs even if all ranks share memory; for comparisons.
    pub flat: bool,
    /// This process's number in the whole job, if it differs from its rank.
    pub number: Option<usize>,
    /// Transport of the groups' data instead of shared memory and TCP.
    pub over: Option<MakeTransport>,
    /// Overrides the host's identity: ranks with equal keys share memory.
    pub host_key: Option<String>,
    /// Costs by which collective plans are chosen; equal on all ranks.
    pub costs: Costs,
    pub route: Option<Route>,
    /// Namespace within the store, for several contexts over one store.
    pub name: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            bind: [127, 0, 0, 1].into(),
            advertise: None,
            timeout: Duration::from_secs(1800),
            init_timeout: Duration::from_secs(300),
            beat: Duration::from_millis(500),
            heartbeat_limit: Duration::from_secs(5),
            linger: Duration::from_secs(5),
            shared_memory: true,
            flat: false,
            number: None,
            over: None,
            host_key: None,
            costs: Costs::default(),
            route: None,
            name: "main".into(),
        }
    }
}

/// One rank's membership in a job of `world` ranks.
pub struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: Store,
    pub(crate) options: Options,
    reports: Arc<Reports>,
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
    /// Number of groups created so far, by their ranks: one list of ranks may have several groups.
    made: Mutex<HashMap<Vec<usize>, u64>>,
    generation: ForkGeneration,
}

impl Context {
    /// Joins the job as `rank` of `world`; all ranks must join within `init_timeout`. `store.interrupt` ends the wait.
    pub fn init(rank: usize, world: usize, store: Store, options: Options) -> Result<Arc<Context>> {
        if world == 0 || rank >= world || world > u32::MAX as usize / 2 {
            return Err(Error::invalid(format!("there is no rank {rank} among {world}")));
        }
        if options.beat.is_zero() || options.heartbeat_limit < options.beat * 2 {
            return Err(Error::invalid("the heartbeat limit must be at least two heartbeat intervals"));
        }
        // A connection of its own: a wait on the caller's connection must not block the creation of groups.
        let store = store.again(options.init_timeout)?;
        let stop = || store.check_interrupt("joining the job");
        let job = store.job().clone();
        let id = Arc::new(Identity::new(&job.name, &job.token, world as u32, rank as u32));
        let listener = socket::listen(SocketAddr::new(options.bind, 0))?;
        let mut address = socket::advertised(&listener, store.local_ip()?)?;
        if let Some(ip) = options.advertise {
            address.set_ip(ip);
        }
        let peers = meet(rank, world, &store, &options, address)?;
        let shared = Arc::new(Shared::new(id.clone(), peers, options.route.clone())?);
        let hub = if rank == 0 {
            None
        } else {
            let deadline = Deadline::new(options.init_timeout, &stop);
            Some(handshake::connect(shared.address(0), &id, Purpose::Control, 0, &deadline)?)
        };
        let (reports, stop) = (Arc::new(Reports::default()), Arc::new(AtomicBool::new(false)));
        let timing = Timing { beat: options.beat, limit: options.heartbeat_limit };
        let acceptor = Acceptor::new(listener, id)?;
        let monitor =
            Monitor::new(shared.clone(), acceptor, hub, timing, reports.clone(), stop.clone(), options.linger);
        let thread = std::thread::Builder::new()
            .name("oar-monitor".into())
            .spawn(move || monitor.run())
            .map_err(|e| Error::io("monitor thread", e))?;
        let context = Arc::new(Context {
            shared,
            store,
            options,
            reports,
            stop,
            thread: Mutex::new(Some(thread)),
            made: Mutex::default(),
            generation: ForkGeneration::now(),
        });
        context.all_up()?;
        Ok(context)
    }

    /// Returns when every rank is monitored; the error names the missing rank.
    fn all_up(&self) -> Result<()> {
        let limit = self.options.init_timeout;
        self.store.set(&self.key(&format!("up/{}", self.rank())), b"", limit)?;
        match self.store.barrier(&self.key("up"), self.world(), limit) {
            Err(Error::Timeout { waited, .. }) => {
                let here = |r: &usize| matches!(self.store.peek(&self.key(&format!("up/{r}")), limit), Ok(Some(_)));
                let missing = (0..self.world()).filter(|r| !here(r)).take(8);
                let missing: Vec<_> = missing.map(|r| self.shared.peer(r).to_string()).collect();
                let waiting_for = match missing.is_empty() {
                    true => "ranks that joined too late or gave up".to_string(),
                    false => missing.join(", "),
                };
                Err(Error::Timeout { waited, during: "joining the job".into(), waiting_for })
            }
            other => other,
        }
    }

    fn key(&self, what: &str) -> String {
        format!("oar/{}/{what}", self.options.name)
    }

    pub fn rank(&self) -> usize {
        self.shared.rank
    }

    pub fn world(&self) -> usize {
        self.shared.world
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// This rank's index within `ranks`, which must be distinct.
    pub(crate) fn place(&self, ranks: &[usize]) -> Result<usize> {
        let mut seen = vec![false; self.world()];
        for &r in ranks {
            if r >= self.world() || std::mem::replace(&mut seen[r], true) {
                return Err(Error::invalid(format!("{ranks:?} are not distinct ranks below {}", self.world())));
            }
        }
        let found = ranks.iter().position(|r| *r == self.rank());
        found.ok_or_else(|| Error::invalid(format!("rank {} is not among the group's ranks {ranks:?}", self.rank())))
    }

    /// A group id that is equal on every member, computed without communication.
    pub(crate) fn new_id(&self, ranks: &[usize]) -> u64 {
        let number = {
            let mut made = self.made.lock();
            let n = made.entry(ranks.to_vec()).or_insert(0);
            *n += 1;
            *n
        };
        let mut hash = Sha256::new();
        ranks.iter().for_each(|r| hash.update((*r as u64).to_le_bytes()));
        hash.update(number.to_le_bytes());
        let digest = hash.finalize();
        let mut id = [0; 8];
        id.copy_from_slice(&digest[..8]);
        u64::from_le_bytes(id)
    }

    /// Ends every wait of this rank within 50 ms with `Error::Interrupted`; groups with an operation in progress become
    /// unusable.
    pub fn interrupt(&self, on: bool) {
        self.shared.interrupted.store(on, Ordering::Release);
        self.store.interrupt(on);
        self.shared.wake_groups();
    }

    /// Reports to all ranks that this one cannot continue: their waits end with the reason.
    pub fn abort(&self, reason: &str) {
        let e = Error::PeerFailed {
            peer: self.shared.peer(self.rank()),
            reason: reason.to_string(),
            during: "no operation".into(),
        };
        self.shared.post(Type::Failure, failure::encode(None, &e, self.rank()));
        self.shared.fail(e);
    }

    /// The failure that broke this context, if any.
    pub fn failure(&self) -> Option<Error> {
        self.shared.failure()
    }

    /// The operation each rank is in, and the rank it waits for, from heartbeats (at most half a second old).
    pub fn report(&self, limit: Duration) -> Result<String> {
        let mut answer = self.reports.answer.lock();
        *answer = None;
        self.shared.post(Type::ReportAsk, Vec::new());
        let until = socket::after(Instant::now(), limit);
        while answer.is_none() {
            if let Some(e) = self.shared.failure() {
                return Err(e);
            }
            if Instant::now() >= until {
                let (during, waiting_for) = ("the debug report".into(), self.shared.peer(0).to_string());
                return Err(Error::Timeout { waited: limit, during, waiting_for });
            }
            self.reports.answered.wait_for(&mut answer, socket::SLICE.min(limit));
        }
        Ok(answer.take().unwrap_or_default())
    }

    /// As `report`, for this rank only; never waits.
    pub fn local_report(&self) -> String {
        let all = HashMap::from([(self.rank(), self.shared.statuses())]);
        crate::report::render(&self.shared, &all)
    }

    /// Leaves the job in order: other ranks are notified, and rank 0 serves them for up to `linger`.
    pub fn shutdown(&self) {
        if self.generation.is_forked() {
            return;
        }
        self.stop.store(true, Ordering::Release);
        self.shared.monitor_waker.wake();
        if let Some(t) = self.thread.lock().take() {
            let _ = t.join();
        }
        self.shared.fail(Error::Closed("the context".into()));
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Exchanges addresses: each rank stores its own, rank 0 combines them into one table, so that n ranks read n entries
/// and not n².
fn meet(rank: usize, world: usize, store: &Store, options: &Options, at: SocketAddr) -> Result<Vec<PeerInfo>> {
    let deadline = Deadline::only(options.init_timeout);
    let key = match &options.host_key {
        // A rank that shares no memory gets a host key of its own.
        _ if !(options.shared_memory && crate::os::SHARED_MEMORY) => format!("rank {rank}"),
        Some(key) => key.clone(),
        None => socket::host_key(),
    };
    let number = options.number.unwrap_or(rank) as u64;
    let (at, host) = (at.to_string(), socket::host_name());
    let mine = Put::default().bytes(at.as_bytes()).bytes(host.as_bytes()).bytes(key.as_bytes()).u64(number);
    let name = |r: usize| format!("oar/{}/rank/{r}", options.name);
    let table_key = format!("oar/{}/table", options.name);
    let stored = store.compare_and_set(&name(rank), None, &mine.0, deadline.left())?;
    if stored.as_deref() != Some(mine.0.as_slice()) {
        return Err(Error::invalid(format!("another process has already joined this job as rank {rank}")));
    }
    let table = if rank == 0 {
        let mut table = Put::default();
        for r in 0..world {
            let entry = store.get(&name(r), deadline.left()).map_err(|e| match e {
                Error::Timeout { waited, .. } => Error::Timeout {
                    waited,
                    during: "joining the job".into(),
                    waiting_for: format!("rank {r} of {world}"),
                },
                e => e,
            })?;
            table = table.bytes(&entry);
        }
        store.set(&table_key, &table.0, deadline.left())?;
        table.0
    } else {
        store.get(&table_key, deadline.left())?
    };
    let mut t = Take(&table);
    let mut peers = Vec::new();
    while let Some(entry) = t.bytes() {
        let mut e = Take(entry);
        let info = (|| {
            let address = e.text()?.parse().ok()?;
            Some(PeerInfo { address, host: e.text()?, host_key: e.text()?, number: e.u64()? as usize })
        })();
        peers.extend(info);
    }
    if peers.len() != world {
        return Err(Error::invalid(format!("the store lists {} ranks, this rank expects {world}", peers.len())));
    }
    Ok(peers)
}
