//! `gen_nccl_id` of the transpiler's mode "nccl2": creates the rings of all trainers from their endpoints.
//!
//! Trainer 0 opens a rendezvous store for each ring and sends all addresses to the other trainers in one message. Every
//! trainer joins its rings at once, so that the main Program finds them by number.

use super::{address, host, join, queue, surroundings, until_deadline};
use oar_core::base::{Error, Result};
use oar_core::op::infer::VarKind;
use oar_core::op::{Kernel, KernelContext, Meta, Op, OP};
use oar_core::tensor::Value;
use oar_core::{attrs, ensure, err, slots};
use oar_net::message_queue::{deliver, topic};
use std::net::SocketAddr;
use std::sync::Arc;

attrs! {
    pub struct GenNcclIdAttrs {
        trainers: Vec<String> = vec![], trainer_id: i32, nccl_comm_num: i32 = 1, use_hierarchical_allreduce: bool = false,
        hierarchical_allreduce_inter_nranks: i32 = -1,
    }
}

slots! {
    mod gen_nccl_id { => NCCL_ID "NCCLID".kernel_allocated() }
}

/// Limit of rings of one kind.
const MOST_RINGS: i32 = 1024;

/// A group of trainers and its ring number. Disjoint groups may share a number.
struct Ring {
    number: i32,
    trainers: Vec<usize>,
}

/// The rings, in the order in which all trainers create them: `nccl_comm_num` rings of all trainers (0, 1, ..); then,
/// for each of these with hierarchical all-reduce, a ring of the trainers of a host (numbers n, n + 2, ..) and one of
/// the hosts' first trainers (n + 1, ..).
fn rings_of(op: &str, a: &GenNcclIdAttrs) -> Result<Vec<Ring>> {
    let (count, comms) = (a.trainers.len(), a.nccl_comm_num);
    ensure!(
        (1..=MOST_RINGS).contains(&comms),
        InvalidArgument,
        "operator {op}: nccl_comm_num must be in [1, {MOST_RINGS}], got {comms}"
    );
    let mut rings: Vec<Ring> = (0..comms).map(|number| Ring { number, trainers: (0..count).collect() }).collect();
    if !a.use_hierarchical_allreduce {
        return Ok(rings);
    }
    let inner = a.hierarchical_allreduce_inter_nranks;
    ensure!(
        inner > 1 && count % inner as usize == 0,
        PreconditionNotMet,
        "operator {op}: {count} trainers cannot be divided into groups of hierarchical_allreduce_inter_nranks = {inner}, which must be at least 2"
    );
    let inner = inner as usize;
    for comm in 0..comms {
        let number = comms + 2 * comm;
        rings
            .extend((0..count).step_by(inner).map(|first| Ring { number, trainers: (first..first + inner).collect() }));
        rings.push(Ring { number: number + 1, trainers: (0..count).step_by(inner).collect() });
    }
    Ok(rings)
}

fn make(cx: &mut KernelContext) -> Result<()> {
    let (a, op) = (cx.attrs::<GenNcclIdAttrs>(), cx.op.name);
    let me = usize::try_from(a.trainer_id).ok().filter(|i| *i < a.trainers.len()).ok_or_else(|| {
        err!(InvalidArgument, "operator {op}: trainer_id must be in [0, {}), got {}", a.trainers.len(), a.trainer_id)
    })?;
    let rings = rings_of(op, a)?;
    let every = a.trainers.iter().map(|e| address(op, e)).collect::<Result<Vec<_>>>()?;
    let (job, options) = surroundings()?;
    let about = topic("trainers", &a.trainers);
    let message = if me == 0 {
        let at = SocketAddr::new(every[0].ip(), 0);
        let stores = rings.iter().map(|_| Ok(host(at, &job)?.address().to_string())).collect::<Result<Vec<_>>>()?;
        let message = stores.join(" ").into_bytes();
        until_deadline(op, &options, |deadline| {
            every[1..].iter().try_for_each(|to| deliver(*to, &job, about, &message, deadline))
        })?;
        message
    } else {
        let queue = queue(every[me], &job)?;
        until_deadline(op, &options, |deadline| queue.take(Some(about), deadline))?
    };
    let stores = parse(&message).filter(|s| s.len() == rings.len()).ok_or_else(|| -> Error {
        err!(
            InvalidArgument,
            "operator {op}: trainer 0 sent addresses for another number of rings than {}: the attributes must be equal on all trainers",
            rings.len()
        )
    })?;
    for (ring, store) in rings.iter().zip(stores) {
        if let Some(rank) = ring.trainers.iter().position(|t| *t == me) {
            join(op, store, rank, ring.trainers.len(), ring.number)?;
        }
    }
    // Trainer 0 hosts the stores of all rings, also of those that it is not in: it must stay until all trainers have
    // joined.
    let world = oar_comm::group(op, 0)?;
    oar_comm::run(&world, oar_net::CollectiveCall::barrier())?;
    cx.set(gen_nccl_id::NCCL_ID, Value::Bytes(Arc::new(message)));
    Ok(())
}

fn parse(message: &[u8]) -> Option<Vec<SocketAddr>> {
    std::str::from_utf8(message).ok()?.split(' ').map(|s| s.parse().ok()).collect()
}

pub static GEN_NCCL_ID: Op = Op {
    name: "gen_nccl_id",
    outputs: gen_nccl_id::OUTS,
    attrs: GenNcclIdAttrs::FIELDS,
    infer: |cx| {
        cx.set_meta(gen_nccl_id::NCCL_ID, 0, Meta { kind: VarKind::Other, ..Meta::default() });
        Ok(())
    },
    cpu: Kernel::Host(make),
    ..OP
};
