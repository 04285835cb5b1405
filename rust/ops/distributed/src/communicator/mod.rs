//! Rings: how a Program creates the groups that its collective operators name by `ring_id`.
//!
//! `c_gen_nccl_id` on the first rank opens a rendezvous store and sends its address to all other endpoints, where the
//! other ranks listen; `c_comm_init` joins all ranks there. The variable between the two holds the address.

use oar_comm::{error, Signals};
use oar_core::base::{Error, ErrorKind, Result};
use oar_core::op::infer::VarKind;
use oar_core::op::{Kernel, KernelContext, Meta, Op, OP};
use oar_core::tensor::Value;
use oar_core::{attrs, bail, ensure, err, slots};
use oar_net::message_queue::{deliver, topic, MessageQueue};
use oar_net::socket::Deadline;
use oar_net::{rings, Context, Job, Options, Store};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

mod nccl_id;

attrs! {
    pub struct GenIdAttrs { endpoint: String, other_endpoints: Vec<String> = vec![], rank: i32 = 0 }
    pub struct CommInitAttrs { nranks: i32, rank: i32, device_id: i32 = -1, ring_id: i32 = 0 }
    pub struct CommInitAllAttrs { devices: Vec<i32> = vec![], ring_id: i32 = 0 }
}

slots! {
    mod gen_id { => OUT "Out".kernel_allocated() }
    mod comm_init { X "X" => }
}

/// The stores of the rings whose first rank this process is, and its message queues. They live as long as the process.
#[derive(Default)]
struct Hosted {
    stores: HashMap<SocketAddr, Store>,
    queues: HashMap<SocketAddr, MessageQueue>,
    /// Rings over the devices of this process.
    of_devices: HashSet<i32>,
}

static HOSTED: Mutex<Option<Hosted>> = Mutex::new(None);

fn hosted<T>(f: impl FnOnce(&mut Hosted) -> T) -> T {
    f(HOSTED.lock().get_or_insert_default())
}

/// The job in which launch or spawn started this process (without name and token otherwise), and time limits for other
/// ranks.
fn surroundings() -> Result<(Job, Options)> {
    Ok((rings::JobEnvironment::from_env().map_err(error)?.job, rings::options_from_env().map_err(error)?))
}

fn address(op: &str, endpoint: &str) -> Result<SocketAddr> {
    rings::resolve(endpoint).map_err(|e| err!(InvalidArgument, "operator {op}: an endpoint must be ip:port: {e}"))
}

/// Prefixes an error with the operator's name; a signal's error is unchanged.
fn named(op: &str, e: Error) -> Error {
    match e.kind() {
        ErrorKind::Interrupted => e,
        kind => Error::new(kind, format!("operator {op}: {}", e.message())),
    }
}

/// Runs a wait for other processes that signals can interrupt.
fn until_deadline<T: Send>(
    op: &str,
    options: &Options,
    body: impl FnOnce(&Deadline<'_>) -> oar_net::Result<T> + Send,
) -> Result<T> {
    let (signals, stopped) = (Signals::watch(), AtomicBool::new(false));
    let result = rings::watched(
        &|| signals.stop(),
        || stopped.store(true, Ordering::Release),
        || {
            let check = || match stopped.load(Ordering::Acquire) {
                true => Err(oar_net::Error::Interrupted { during: "the creation of a ring".into() }),
                false => Ok(()),
            };
            body(&Deadline::new(options.init_timeout, &check))
        },
    );
    signals.explain(result).map_err(|e| named(op, e))
}

fn host(bind: SocketAddr, job: &Job) -> Result<Store> {
    let store = Store::host(bind, job).map_err(error)?;
    hosted(|h| h.stores.insert(store.address(), store.clone()));
    Ok(store)
}

fn queue(at: SocketAddr, job: &Job) -> Result<MessageQueue> {
    hosted(|h| {
        if let Some(known) = h.queues.get(&at) {
            return Ok(known.clone());
        }
        let made = MessageQueue::open(at, job).map_err(error)?;
        h.queues.insert(at, made.clone());
        Ok(made)
    })
}

fn gen_id(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<GenIdAttrs>();
    let op = cx.op.name;
    let mine = address(op, &a.endpoint)?;
    let others = a.other_endpoints.iter().map(|e| address(op, e)).collect::<Result<Vec<_>>>()?;
    let (job, options) = surroundings()?;
    // Messages of two rings may arrive in any order.
    let about = topic("ring", a.other_endpoints.iter().chain([&a.endpoint]));
    let id = if a.rank != 0 {
        let queue = queue(mine, &job)?;
        let about = (!others.is_empty()).then_some(about);
        until_deadline(op, &options, |deadline| queue.take(about, deadline))?
    } else {
        let id = host(SocketAddr::new(mine.ip(), 0), &job)?.address().to_string().into_bytes();
        until_deadline(op, &options, |deadline| {
            others.iter().try_for_each(|to| deliver(*to, &job, about, &id, deadline))
        })?;
        id
    };
    cx.set(gen_id::OUT, Value::Bytes(Arc::new(id)));
    Ok(())
}

/// Joins the ring whose store is at `at`.
fn join(op: &str, at: SocketAddr, rank: usize, world: usize, ring: i32) -> Result<()> {
    ensure!(ring >= 0, InvalidArgument, "operator {op}: ring_id must not be negative, got {ring}");
    let (job, mut options) = surroundings()?;
    let here = hosted(|h| h.stores.get(&at).cloned());
    // A connection of its own, which a signal interrupts.
    let store = until_deadline(op, &options, |deadline| match here {
        Some(store) => store.again(deadline.left()),
        None => Store::connect_until(at, &job, deadline),
    })?;
    options.bind = store.local_ip().map_err(error)?;
    // Errors name ranks of the ring by their number in the job.
    options.number = std::env::var("PADDLE_TRAINER_ID").ok().and_then(|t| t.trim().parse().ok());
    let signals = Signals::watch();
    let made = rings::watched(
        &|| signals.stop(),
        || store.interrupt(true),
        || Context::init(rank, world, store.clone(), options).and_then(|c| c.world_group()),
    );
    rings::set(ring, signals.explain(made).map_err(|e| named(op, e))?);
    Ok(())
}

fn comm_init(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<CommInitAttrs>();
    let (op, world) = (cx.op.name, a.nranks);
    ensure!(
        world > 0 && (0..world).contains(&a.rank),
        InvalidArgument,
        "operator {op}: rank must be in [0, nranks), got rank {} of {world}",
        a.rank
    );
    let Value::Bytes(id) = cx.value(comm_init::X)? else {
        bail!(
            InvalidArgument,
            "operator {op}: 'X' must be the output of c_gen_nccl_id, got {}",
            cx.value(comm_init::X)?.what()
        )
    };
    let at = std::str::from_utf8(id).ok().and_then(|s| s.parse::<SocketAddr>().ok());
    let at = at.ok_or_else(|| err!(InvalidArgument, "operator {op}: 'X' is not an output of c_gen_nccl_id"))?;
    join(op, at, a.rank as usize, world as usize, a.ring_id)
}

/// A ring of all devices of one process; on the CPU it has one rank.
fn comm_init_all(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<CommInitAllAttrs>();
    ensure!(
        a.devices.len() < 2,
        Unimplemented,
        "operator c_comm_init_all: one process drives one device here, got devices {:?}",
        a.devices
    );
    ensure!(
        hosted(|h| h.of_devices.insert(a.ring_id)),
        InvalidArgument,
        "operator {}: ring {} exists already",
        cx.op.name,
        a.ring_id
    );
    let store = host(([127, 0, 0, 1], 0).into(), &surroundings()?.0)?;
    join(cx.op.name, store.address(), 0, 1, a.ring_id)
}

pub static C_GEN_NCCL_ID: Op = Op {
    name: "c_gen_nccl_id",
    outputs: gen_id::OUTS,
    attrs: GenIdAttrs::FIELDS,
    infer: |cx| {
        cx.set_meta(gen_id::OUT, 0, Meta { kind: VarKind::Other, ..Meta::default() });
        Ok(())
    },
    cpu: Kernel::Host(gen_id),
    ..OP
};
pub static C_COMM_INIT: Op = Op {
    name: "c_comm_init",
    inputs: comm_init::INS,
    attrs: CommInitAttrs::FIELDS,
    cpu: Kernel::Host(comm_init),
    ..OP
};
pub static C_COMM_INIT_ALL: Op =
    Op { name: "c_comm_init_all", attrs: CommInitAllAttrs::FIELDS, cpu: Kernel::Host(comm_init_all), ..OP };

pub static TABLE: &[&Op] = &[&C_GEN_NCCL_ID, &C_COMM_INIT, &C_COMM_INIT_ALL, &nccl_id::GEN_NCCL_ID];
