//! The groups of this process by ring number, as Program operators and `paddle.distributed` name them. Ring 0 is the
//! world.
//!
//! The process's rank comes from Paddle 2.0.2's environment (`PADDLE_TRAINER_ID`, `PADDLE_TRAINERS_NUM`,
//! `PADDLE_TRAINER_ENDPOINTS`). The launcher adds `PADDLE_MASTER`, the address of the store that it hosts,
//! `OAR_JOB_TOKEN` (hexadecimal) and `OAR_JOB_NAME`. Without a launcher rank 0 hosts the store: at `PADDLE_MASTER` if
//! the address is free, and without that variable at the first endpoint.

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;

use parking_lot::Mutex;

use crate::codec::from_hex;
use crate::context::{Context, Options};
use crate::error::{Error, Result};
use crate::fork::PerProcess;
use crate::group::Group;
use crate::socket::{Deadline, SLICE};
use crate::store::{Job, Store};
use crate::transport::MakeTransport;

#[derive(Default)]
struct Rings {
    context: Option<Arc<Context>>,
    /// The store that this process hosts, if any: it stays as long as the process is in the job.
    hosted: Option<Store>,
    /// `None` for a group without this rank.
    groups: HashMap<i32, Option<Arc<Group>>>,
    next: i32,
}

#[derive(Default)]
struct Member {
    rings: Mutex<Rings>,
    /// Held while joining or creating a group: groups must be created in the order of the calls.
    making: Mutex<()>,
}

/// Forked children are not members of their parent's job.
static MEMBER: PerProcess<Member> = PerProcess::new();

/// Transport of groups created from now on, if not shared memory and TCP.
static OVER: Mutex<Option<MakeTransport>> = Mutex::new(None);

pub fn set_transport(over: Option<MakeTransport>) {
    *OVER.lock() = over;
}

fn rings<T>(f: impl FnOnce(&mut Rings) -> T) -> T {
    f(&mut MEMBER.get().rings.lock())
}

/// Rank, job, and addresses, as the environment gives them.
#[derive(Clone, Debug)]
pub struct JobEnvironment {
    pub rank: usize,
    pub world: usize,
    /// Address of a store hosted by another process.
    pub master: Option<String>,
    /// Address at which rank 0 hosts the store otherwise.
    pub fallback: Option<String>,
    pub job: Job,
}

fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|v| v.trim().to_string()).filter(|v| !v.is_empty())
}

fn number<T: std::str::FromStr>(name: &str, default: T) -> Result<T> {
    match var(name) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| Error::invalid(format!("{name} is {text:?}, not a valid number"))),
    }
}

fn seconds(name: &str, default: Duration) -> Result<Duration> {
    let s: f64 = number(name, default.as_secs_f64())?;
    let given = Duration::try_from_secs_f64(s).ok().filter(|d| !d.is_zero());
    given.ok_or_else(|| Error::invalid(format!("{name} is {s}, not a number of seconds above 0")))
}

impl JobEnvironment {
    /// Reads the environment; a process without any of the variables is rank 0 of 1.
    pub fn from_env() -> Result<JobEnvironment> {
        let token = var("OAR_JOB_TOKEN").map(|t| from_hex(&t)).transpose()?.unwrap_or_default();
        let endpoints = var("PADDLE_TRAINER_ENDPOINTS").unwrap_or_default();
        Ok(JobEnvironment {
            rank: number("PADDLE_TRAINER_ID", 0)?,
            world: number("PADDLE_TRAINERS_NUM", 1)?,
            master: var("PADDLE_MASTER"),
            fallback: endpoints.split(',').next().map(str::to_string).filter(|e| !e.is_empty()),
            job: Job { name: var("OAR_JOB_NAME").unwrap_or_default(), token },
        })
    }
}

/// `OAR_TIMEOUT`, `OAR_INIT_TIMEOUT`, `OAR_HEARTBEAT_LIMIT` (seconds) and `OAR_SHARED_MEMORY=0` change the defaults.
pub fn options_from_env() -> Result<Options> {
    let d = Options::default();
    let heartbeat_limit = seconds("OAR_HEARTBEAT_LIMIT", d.heartbeat_limit)?;
    Ok(Options {
        timeout: seconds("OAR_TIMEOUT", d.timeout)?,
        init_timeout: seconds("OAR_INIT_TIMEOUT", d.init_timeout)?,
        beat: d.beat.min(heartbeat_limit / 4),
        heartbeat_limit,
        shared_memory: number("OAR_SHARED_MEMORY", 1u8)? != 0,
        over: OVER.lock().clone(),
        ..d
    })
}

/// Resolves an address of the form `host:port`.
pub fn resolve(address: &str) -> Result<SocketAddr> {
    let found = address.to_socket_addrs().map_err(|e| Error::io(format!("the address {address:?}"), e))?;
    let mut all: Vec<_> = found.collect();
    // IPv4 first: a store that listens on 127.0.0.1 must be found as "localhost".
    all.sort_by_key(SocketAddr::is_ipv6);
    all.first().copied().ok_or_else(|| Error::invalid(format!("{address:?} is not an address")))
}

/// Runs `body` on another thread and calls `tick` every 50 ms; once it returns true, `stop` is called, which must make
/// the body end.
pub fn watched<T: Send>(
    tick: &dyn Fn() -> bool,
    stop: impl Fn(),
    body: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("oar-join".into());
        thread
            .spawn_scoped(scope, move || {
                let _ = send.send(body());
            })
            .map_err(|e| Error::io("a thread", e))?;
        loop {
            match receive.recv_timeout(SLICE) {
                Ok(result) => return result,
                Err(mpsc::RecvTimeoutError::Timeout) if tick() => stop(),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(_) => return Err(Error::Broken { cause: "an internal error".into() }),
            }
        }
    })
}

/// Joins the job; ring 0 is then the group of all ranks. Joining the same job again returns the existing group.
pub fn join(place: &JobEnvironment, mut options: Options, tick: &dyn Fn() -> bool) -> Result<Arc<Group>> {
    let _making = MEMBER.get().making.lock();
    if let Some(context) = context() {
        if (context.rank(), context.world()) != (place.rank, place.world) {
            return Err(Error::invalid(format!(
                "this process is rank {} of {} already and cannot become rank {} of {}",
                context.rank(),
                context.world(),
                place.rank,
                place.world
            )));
        }
        return get(0);
    }
    if place.world == 0 || place.rank >= place.world {
        return Err(Error::invalid(format!("there is no rank {} among {}", place.rank, place.world)));
    }
    if place.world == 1 {
        return solo();
    }
    let (at, host) = match (&place.master, &place.fallback) {
        // Later versions of Paddle have rank 0 behind PADDLE_MASTER, not a launcher. A launcher sets the job's name.
        (Some(at), _) => (at, place.rank == 0 && place.job.name.is_empty()),
        (None, Some(at)) => (at, place.rank == 0),
        _ => {
            return Err(Error::invalid(
                "the other ranks cannot be found: neither PADDLE_MASTER nor PADDLE_TRAINER_ENDPOINTS is set",
            ))
        }
    };
    let stopped = AtomicBool::new(false);
    let reached: Mutex<Option<Store>> = Mutex::new(None);
    let stop = || {
        stopped.store(true, Ordering::Release);
        if let Some(store) = &*reached.lock() {
            store.interrupt(true);
        }
    };
    let (context, group, hosted) = watched(tick, stop, || {
        let address = resolve(at)?;
        let check = || match stopped.load(Ordering::Acquire) {
            true => Err(Error::Interrupted { during: "joining the job".into() }),
            false => Ok(()),
        };
        let deadline = Deadline::new(options.init_timeout, &check);
        let hosted = match host.then(|| Store::host(address, &place.job)).transpose() {
            // The address is in use, or belongs to another host.
            Err(Error::Io { .. }) if place.master.is_some() => None,
            made => made?,
        };
        let store = match &hosted {
            Some(store) => store.clone(),
            None => Store::connect_until(address, &place.job, &deadline)?,
        };
        *reached.lock() = Some(store.clone());
        check()?;
        options.bind = store.local_ip()?;
        options.init_timeout = deadline.left();
        let context = Context::init(place.rank, place.world, store.clone(), options)?;
        let group = context.world_group()?;
        Ok((context, group, hosted))
    })?;
    rings(|r| {
        *r = Rings { context: Some(context), hosted, groups: HashMap::from([(0, Some(group.clone()))]), next: 1 };
    });
    Ok(group)
}

/// The group of this process alone, registered as ring 0.
fn solo() -> Result<Arc<Group>> {
    rings(|r| {
        if let Some(Some(group)) = r.groups.get(&0) {
            return Ok(group.clone());
        }
        let group = Group::solo()?;
        r.groups.insert(0, Some(group.clone()));
        r.next = r.next.max(1);
        Ok(group)
    })
}

/// The membership in a job of several ranks, if this process has joined one.
pub fn context() -> Option<Arc<Context>> {
    rings(|r| r.context.clone())
}

/// The group of a ring. A process that is alone according to the environment has ring 0 without joining.
pub fn get(ring: i32) -> Result<Arc<Group>> {
    match rings(|r| r.groups.get(&ring).cloned()) {
        Some(Some(group)) => return Ok(group),
        Some(None) => {
            return Err(Error::invalid(format!(
                "this process is not a member of group {ring} and cannot operate in it"
            )))
        }
        None => {}
    }
    let place = JobEnvironment::from_env()?;
    if context().is_none() && place.world > 1 {
        return Err(Error::invalid(format!(
            "this process is to be rank {} of {} but has not joined them: call paddle.distributed.init_parallel_env() first",
            place.rank, place.world
        )));
    }
    if ring != 0 {
        return Err(Error::invalid(format!(
            "there is no group {ring}: new_group makes groups, or c_gen_nccl_id and c_comm_init in a Program (that of \
             fleet or of a transpiler)"
        )));
    }
    solo()
}

/// Registers a group under a ring number; a previous group of that number is released.
pub fn set(ring: i32, group: Arc<Group>) {
    let before = rings(|r| {
        r.next = r.next.max(ring.saturating_add(1));
        r.groups.insert(ring, Some(group))
    });
    drop(before); // after the lock: the last reference may shut a context down
}

/// Creates a group of these global ranks, under the lowest free number if `ring` is `None`. All members must create
/// their common groups in the same order; on other ranks this only reserves the number. An existing number must have
/// these ranks. `over`, if given, creates the transport.
pub fn make(
    ring: Option<i32>,
    ranks: &[usize],
    over: Option<&MakeTransport>,
    tick: &dyn Fn() -> bool,
) -> Result<(i32, Option<Arc<Group>>)> {
    let _making = MEMBER.get().making.lock();
    let world = get(0)?;
    if let Some(known) = ring.and_then(|ring| rings(|r| r.groups.get(&ring).cloned().map(|g| (ring, g)))) {
        return match &known.1 {
            Some(group) if group.ranks() != ranks => {
                Err(Error::invalid(format!("group {} has the ranks {:?}, not {ranks:?}", known.0, group.ranks())))
            }
            _ => Ok(known),
        };
    }
    let twice = |(i, r): (usize, &usize)| ranks[..i].contains(r);
    if ranks.is_empty() || ranks.iter().any(|r| *r >= world.world()) || ranks.iter().enumerate().any(twice) {
        return Err(Error::invalid(format!("{ranks:?} are not distinct ranks below {}", world.world())));
    }
    let member = ranks.contains(&world.rank());
    let group = match context() {
        _ if !member => None,
        None if world.world() > 1 => {
            return Err(Error::invalid("call paddle.distributed.init_parallel_env() before creating groups"))
        }
        None => Some(Group::solo()?),
        Some(context) => {
            let made = watched(
                tick,
                || context.interrupt(true),
                || match over {
                    Some(_) => context.group_over(ranks, over),
                    None => context.group(ranks),
                },
            );
            if matches!(made, Err(Error::Interrupted { .. })) {
                context.interrupt(false);
            }
            Some(made?)
        }
    };
    rings(|r| {
        let ring = ring.unwrap_or_else(|| (r.next..i32::MAX).find(|n| !r.groups.contains_key(n)).unwrap_or(i32::MAX));
        r.next = r.next.max(ring.saturating_add(1));
        r.groups.insert(ring, group.clone());
        Ok((ring, group))
    })
}

/// Releases a group that was registered under an automatic number; its sockets and memory are freed with its last user.
pub fn release(ring: i32, group: &Option<Arc<Group>>) {
    let same = |held: &Option<Arc<Group>>| match (held, group) {
        (Some(held), Some(group)) => Arc::ptr_eq(held, group),
        (None, None) => true,
        _ => false,
    };
    let held = rings(|r| r.groups.get(&ring).is_some_and(same).then(|| r.groups.remove(&ring)));
    drop(held);
}

/// Reports to the other ranks, of the job and of all rings, why this one cannot continue.
pub fn abort(reason: &str) {
    let mut notified: Vec<Arc<Context>> = Vec::new();
    let contexts: Vec<_> = rings(|r| {
        let of_rings = r.groups.values().flatten().filter_map(|g| g.context());
        r.context.iter().chain(of_rings).cloned().collect()
    });
    for context in contexts {
        if !notified.iter().any(|c| Arc::ptr_eq(c, &context)) {
            context.abort(reason);
            notified.push(context);
        }
    }
}

/// Leaves the job in order; all groups are closed. The process may join again.
pub fn leave() {
    let old = rings(std::mem::take);
    drop(old.groups);
    if let Some(context) = old.context {
        context.shutdown();
    }
    drop(old.hosted);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal() {
        assert_eq!(from_hex("00ffA0").unwrap(), [0, 255, 160]);
        assert!(from_hex("0").is_err() && from_hex("zz").is_err() && from_hex("é0").is_err());
    }

    #[test]
    fn alone() {
        let group = Group::solo().unwrap();
        let mut data = 2f32.to_ne_bytes();
        group.all_reduce(&mut data, crate::Dtype::F32, crate::ReduceOp::Sum).unwrap();
        group.barrier().unwrap();
        assert_eq!((f32::from_ne_bytes(data), group.world()), (2.0, 1));
        let work = group.start(crate::CollectiveCall::all_gather(vec![7], vec![0], crate::Dtype::U8)).unwrap();
        work.wait(None).unwrap();
        assert_eq!(work.take().into_vec(), Some(vec![7]));
    }
}
