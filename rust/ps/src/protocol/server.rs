//! A parameter server: accepts trainers and serves each on a thread, until all are complete.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use super::channel::Channel;
use super::handler::{Connections, Handler};
use super::journal::Durability;
use super::ledger::{Ledger, LostTrainer, Recovery, SyncMode};
use super::limits::Waiting;
use super::Service;
use oar_net::acceptor::{Accepted, Acceptor};
use oar_net::error::{Error, Result};
use oar_net::handshake::{Identity, Purpose, NO_RANK};
use oar_net::socket::{self, random_bytes, SLICE};
use oar_net::store::Job;

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 1 << 14;

#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub mode: SyncMode,
    /// Number of expected trainers.
    pub trainers: u32,
    /// How long a trainer may be disconnected before `lost` applies.
    pub limit: Duration,
    pub lost: LostTrainer,
    /// Time limit for the first connection of a trainer.
    pub absence: Duration,
    /// Offer shared memory to trainers of this host.
    pub shared_memory: bool,
    /// Durable state, if configured.
    pub durability: Option<Durability>,
}

/// A server that listens, and serves once [`Server::serve`] is called.
pub struct Server {
    acceptor: Acceptor,
    address: SocketAddr,
    options: ServerOptions,
}

impl Server {
    pub fn listen(at: SocketAddr, job: &Job, options: ServerOptions) -> Result<Server> {
        let listener = socket::listen(at)?;
        let address = listener.local_addr().map_err(|e| Error::io("a server's address", e))?;
        let id = Identity::new(&job.name, &job.token, 0, NO_RANK);
        Ok(Server { acceptor: Acceptor::new(listener, Arc::new(id))?, address, options })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until all trainers are complete. `tick` is called every 50 ms; `true` stops the server.
    pub fn serve(mut self, service: &dyn Service, tick: &mut dyn FnMut() -> bool) -> Result<()> {
        let o = self.options.clone();
        let (ledger, recovery) = match o.durability.clone() {
            None => (Ledger::new(o.mode, o.trainers), Recovery::default()),
            Some(how) => Ledger::durable(o.mode, o.trainers, how, service)?,
        };
        let ended = AtomicBool::new(false);
        let life = u64::from_le_bytes(random_bytes::<8>()?);
        let stop = || match ended.load(Ordering::Acquire) {
            true => Err(Error::Interrupted { during: "serving".into() }),
            false => Ok(()),
        };
        let keeps = o.durability.is_some();
        let (stall_limit, shares, connections) = (o.limit, o.shared_memory, Connections::default());
        let handler =
            Handler { ledger: &ledger, service, stop: &stop, life, recovery, stall_limit, keeps, shares, connections };
        let named = Waiting::enter(&format!("the server {}", self.address));
        std::thread::scope(|scope| {
            let mut threads: Vec<std::thread::ScopedJoinHandle<'_, ()>> = Vec::new();
            let result = loop {
                if let Err(e) = self.wait() {
                    break Err(e);
                }
                for Accepted { stream, hello, seal } in self.acceptor.turn() {
                    socket::watch(&stream, o.limit);
                    threads.retain(|t| !t.is_finished());
                    if hello.purpose != Purpose::Server || threads.len() >= MAX_CONNECTIONS {
                        continue;
                    }
                    let handler = &handler;
                    let name = format!("oar-ps-{}", hello.rank);
                    let run = move || handler.run(Channel::new(stream).sealed(seal), hello.rank);
                    match std::thread::Builder::new().name(name).spawn_scoped(scope, run) {
                        Ok(thread) => threads.push(thread),
                        Err(e) => eprintln!("oar: no thread for trainer {}: {e}", hello.rank),
                    }
                }
                if tick() {
                    break Err(Error::Interrupted { during: "serving trainers".into() });
                }
                let (waits, since) = ledger.waits();
                named.set(format!("the server {}: {waits}", self.address), since);
                match ledger.absent(o.absence, o.lost, service) {
                    Some(Ok(trainers)) => break Err(self.absent_error(&trainers)),
                    Some(Err(why)) => break Err(Error::Server(why)),
                    None => {}
                }
                match ledger.check(o.limit, o.lost, service) {
                    Some(Ok(())) => break Ok(()),
                    Some(Err(why)) => break Err(Error::Server(why)),
                    None => {}
                }
            };
            if let Err(e) = &result {
                ledger.end(&format!("the server at {} has ended: {e}", self.address));
            }
            // Replies in progress are completed.
            let grace = std::time::Instant::now();
            while threads.iter().any(|t| !t.is_finished()) && grace.elapsed() < Duration::from_secs(2) {
                std::thread::sleep(Duration::from_millis(1));
            }
            ended.store(true, Ordering::Release);
            result.and_then(|()| ledger.finish(service))
        })
    }

    fn absent_error(&self, trainers: &[u32]) -> Error {
        let names: Vec<String> = trainers.iter().map(|t| format!("trainer {t}")).collect();
        Error::Timeout {
            waited: self.options.absence,
            during: format!("the server {}", self.address),
            waiting_for: format!(
                "{}, never seen since the server began (the limit is OAR_INIT_TIMEOUT, or FLAGS_rpc_deadline times 1 + \
                 FLAGS_rpc_retry_times where that is longer)",
                names.join(", ")
            ),
        }
    }

    fn wait(&self) -> Result<()> {
        let mut fds: Vec<_> = self.acceptor.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        socket::poll(&mut fds, SLICE)
    }
}
