//! Rings: how a Program makes the groups that its collective operators name by `ring_id`.
//!
//! `c_gen_nccl_id` on the first rank opens a rendezvous store and hands its address to every other endpoint, where the
//! other ranks listen; `c_comm_init` lets all join there. What the variable between them holds are a few bytes.

use crate::base::Result;
use crate::op::{slot, Effect, Kernel, Op, Run, OP};
use crate::tensor::Value;
use crate::{attrs, bail, ensure, err};
use oar_dist::{rings, Context, Group, Job, Options, Store};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

attrs! {
    pub struct GenIdAttrs { endpoint: String, other_endpoints: Vec<String> = vec![], rank: i32 = 0 }
    pub struct CommInitAttrs { nranks: i32, rank: i32, device_id: i32 = -1, ring_id: i32 = 0 }
    pub struct CommInitAllAttrs { devices: Vec<i32> = vec![], ring_id: i32 = 0 }
}

/// How long ranks wait for each other when a ring is made.
const LIMIT: Duration = Duration::from_secs(300);
/// How long a wait may go on before it looks for a signal of the user's.
const SLICE: Duration = Duration::from_millis(50);
const KEY: &str = "ring id";

/// Stores that this process hosts: those of rings it is the first rank of, and its doorstep.
static HOSTED: Mutex<Option<HashMap<SocketAddr, Store>>> = Mutex::new(None);

/// The group of a ring.
pub fn group(op: &str, ring: i32) -> Result<Arc<Group>> {
    rings::get(ring).map_err(|e| err!(PreconditionNotMet, "operator {op}: ring {ring} has no communicator: {e}"))
}

/// The job that launch or spawn started this process in; no name and no token where nobody did.
fn job() -> Job {
    let var = |name| std::env::var(name).unwrap_or_default();
    let hex = var("OAR_JOB_TOKEN");
    let token: Option<Vec<u8>> =
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(hex.get(i..i + 2)?, 16).ok()).collect();
    match token {
        Some(token) if !token.is_empty() => Job::new(&var("OAR_JOB_NAME"), &token),
        _ => Job::default(),
    }
}

fn address(op: &str, endpoint: &str) -> Result<SocketAddr> {
    let found = endpoint.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| err!(InvalidArgument, "operator {op}: {endpoint:?} is not an endpoint (ip:port)"))
}

/// Tries until it succeeds, the limit has passed, or the user has asked to stop.
fn patiently<T>(cx: &Run, what: &str, mut attempt: impl FnMut() -> oar_dist::Result<Option<T>>) -> Result<T> {
    let until = Instant::now() + LIMIT;
    let mut last = None;
    while Instant::now() < until {
        cx.env.check_interrupt()?;
        match attempt() {
            Ok(Some(done)) => return Ok(done),
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Err(e @ (oar_dist::Error::Timeout { .. } | oar_dist::Error::Store { .. } | oar_dist::Error::Io { .. })) => {
                last = Some(e);
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(e) => return Err(e.into()),
        }
    }
    let why = last.map_or(String::new(), |e| format!(" ({e})"));
    bail!(Timeout, "operator {}: {what} within {} s{why}", cx.op.name, LIMIT.as_secs())
}

fn host(bind: SocketAddr) -> Result<Store> {
    let mut hosted = HOSTED.lock();
    let all = hosted.get_or_insert_default();
    if let Some(store) = all.get(&bind).filter(|_| bind.port() != 0) {
        return Ok(store.clone());
    }
    let store = Store::host(bind, &job())?;
    all.insert(store.address(), store.clone());
    Ok(store)
}

fn gen_id(cx: &mut Run) -> Result<()> {
    let a = cx.attrs::<GenIdAttrs>();
    let mine = address(cx.op.name, &a.endpoint)?;
    if a.rank != 0 {
        let doorstep = host(mine)?;
        let id = patiently(cx, &format!("nobody brought the ring's id to {mine}"), || {
            let id = doorstep.peek(KEY, SLICE * 20)?;
            if id.is_some() {
                doorstep.delete(KEY, SLICE * 20)?;
            }
            Ok(id)
        })?;
        cx.set(0, Value::Bytes(Arc::new(id)));
        return Ok(());
    }
    let store = host(SocketAddr::new(mine.ip(), 0))?;
    let id = store.address().to_string().into_bytes();
    for endpoint in &a.other_endpoints {
        let there = address(cx.op.name, endpoint)?;
        let doorstep =
            patiently(cx, &format!("{there} did not listen"), || Store::connect(there, &job(), SLICE).map(Some))?;
        // The id of another ring may still lie there.
        patiently(cx, &format!("{there} did not take an earlier id"), || {
            let now = doorstep.compare_and_set(KEY, None, &id, SLICE * 20)?;
            Ok((now.as_deref() == Some(&id[..])).then_some(()))
        })?;
    }
    cx.set(0, Value::Bytes(Arc::new(id)));
    Ok(())
}

fn join(cx: &Run, store: Store, rank: usize, world: usize, ring: i32) -> Result<()> {
    ensure!(ring >= 0, InvalidArgument, "operator {}: ring_id must not be negative, got {ring}", cx.op.name);
    let store = store.again(LIMIT)?;
    let options = Options { bind: store.local_ip()?, init_timeout: LIMIT, ..Options::default() };
    let made = std::thread::scope(|s| {
        let joining = s.spawn(|| Context::init(rank, world, store.clone(), options).and_then(|c| c.world_group()));
        while !joining.is_finished() {
            if cx.env.check_interrupt().is_err() {
                store.interrupt(true);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        joining.join().unwrap_or_else(|_| Err(oar_dist::Error::Closed("the making of the ring".into())))
    });
    cx.env.check_interrupt()?;
    rings::set(ring, made?);
    Ok(())
}

fn comm_init(cx: &mut Run) -> Result<()> {
    let a = cx.attrs::<CommInitAttrs>();
    let (op, world) = (cx.op.name, a.nranks);
    ensure!(
        world > 0 && (0..world).contains(&a.rank),
        InvalidArgument,
        "operator {op}: rank must be in [0, nranks), got rank {} of {world}",
        a.rank
    );
    let Value::Bytes(id) = cx.value(0)? else {
        bail!(InvalidArgument, "operator {op}: 'X' must hold what c_gen_nccl_id wrote, got {}", cx.value(0)?.what())
    };
    let at = std::str::from_utf8(id).ok().and_then(|s| s.parse::<SocketAddr>().ok());
    let at = at.ok_or_else(|| err!(InvalidArgument, "operator {op}: 'X' does not hold what c_gen_nccl_id wrote"))?;
    let own = HOSTED.lock().as_ref().and_then(|all| all.get(&at).cloned());
    let store = match own {
        Some(store) => store,
        None => Store::connect(at, &job(), LIMIT)?,
    };
    join(cx, store, a.rank as usize, world as usize, a.ring_id)
}

/// All devices of one process: on the CPU that is a ring of one.
fn comm_init_all(cx: &mut Run) -> Result<()> {
    let a = cx.attrs::<CommInitAllAttrs>();
    ensure!(
        a.devices.len() < 2,
        Unimplemented,
        "operator c_comm_init_all: one process drives one device here, got devices {:?}",
        a.devices
    );
    join(cx, host(([127, 0, 0, 1], 0).into())?, 0, 1, a.ring_id)
}

pub static C_GEN_NCCL_ID: Op = Op {
    name: "c_gen_nccl_id",
    outputs: &[slot("Out")],
    attrs: GenIdAttrs::FIELDS,
    cpu: Kernel::Host(gen_id),
    effect: Effect::World,
    ..OP
};
pub static C_COMM_INIT: Op = Op {
    name: "c_comm_init",
    inputs: &[slot("X")],
    attrs: CommInitAttrs::FIELDS,
    cpu: Kernel::Host(comm_init),
    effect: Effect::World,
    ..OP
};
pub static C_COMM_INIT_ALL: Op = Op {
    name: "c_comm_init_all",
    attrs: CommInitAllAttrs::FIELDS,
    cpu: Kernel::Host(comm_init_all),
    effect: Effect::World,
    ..OP
};

pub static TABLE: &[&Op] = &[&C_GEN_NCCL_ID, &C_COMM_INIT, &C_COMM_INIT_ALL];
