//! send, send_barrier, fetch_barrier: values that a trainer sends to the servers.

use oar_comm::Signals;
use oar_core::base::Result;
use oar_core::op::{Kernel, KernelContext, Op, SparseKernel, OP};
use oar_core::tensor::Value;
use oar_core::{attrs, ensure, slots};
use oar_ps::trainer::communicator::{self, CommContext, CommunicatorMode};
use oar_ps::trainer::remote::{distinct, endpoints, one_each, open, trainer, with_all};
use oar_ps::values::{allocate, outgoing};

attrs! {
    pub struct SendAttrs {
        trainer_id: i32 = 0, endpoints: Vec<String> = vec!["127.0.0.1:6164".into()], sections: Vec<i64> = vec![],
        send_varnames: Vec<String> = vec![], num: i32 = 0, merge_add: bool = false, use_send_handler: bool = true,
    }
    pub struct BarrierAttrs {
        trainer_id: i32 = 0, endpoints: Vec<String> = vec!["127.0.0.1:6164".into()], half_async: bool = false,
    }
    pub struct FetchAttrs { trainer_id: i32 = 0, endpoints: Vec<String> = vec!["127.0.0.1:6164".into()] }
}

slots! {
    // Outputs express dependencies, and hold nothing.
    mod send { X "X".duplicable() => OUT "Out".duplicable().kernel_allocated() }
    mod barrier { X "X".duplicable() => OUT "Out".duplicable().kernel_allocated() }
    mod fetch { X "X".duplicable().dispensable() => OUT "Out".duplicable().kernel_allocated() }
}

/// The variables are queued until the end of the step or the next recv, which sends all in one message.
fn run_send(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<SendAttrs>();
    let signals = Signals::watch();
    let running = communicator::current().filter(|c| c.mode() == CommunicatorMode::Geo || !a.send_varnames.is_empty());
    if let Some(c) = running {
        if c.take(cx.op.name, &a.send_varnames, &cx.env.names("X"), cx.values(send::X), &signals)? {
            return Ok(());
        }
    }
    let (names, to, me) = (cx.env.names("X"), endpoints(cx, &a.endpoints, "epmap"), trainer(cx, a.trainer_id)?);
    if to.is_empty() {
        // GeoSgdTranspiler's operators; an input without value marks the end of a phase only.
        ensure!(
            !names.is_empty() && cx.values(send::X).iter().all(Value::is_none),
            PreconditionNotMet,
            "operator {}: it needs a running communicator: start fluid.communicator.Communicator(program) first",
            cx.op.name
        );
        return Ok(());
    }
    if a.use_send_handler && a.sections.len() > 1 && names.len() == 1 {
        // A variable that the communicator would split.
        return send_parts(cx, a, &to, me);
    }
    if a.use_send_handler {
        one_each(cx, &to, names.len())?;
    }
    for (i, (name, value)) in names.iter().zip(cx.values(send::X)).enumerate() {
        // A value that was not computed is not sent.
        if matches!(value, Value::None) {
            continue;
        }
        let name = a.send_varnames.get(i).unwrap_or(name);
        let to = if a.use_send_handler { &to[i..=i] } else { &to[..] };
        for endpoint in to {
            open(endpoint, me)?.send(outgoing(name, value.clone())?);
        }
    }
    Ok(())
}

fn send_parts(cx: &KernelContext, a: &SendAttrs, to: &[String], me: u32) -> Result<()> {
    let (name, value) = (cx.env.names("X").swap_remove(0), cx.value(send::X)?.clone());
    if value.is_none() {
        return Ok(());
    }
    let context = CommContext {
        name,
        parts: a.send_varnames.clone(),
        endpoints: to.to_vec(),
        sections: a.sections.clone(),
        trainer: me,
        sum: true,
        sparse: false,
        everywhere: false,
    };
    for (out, endpoint) in context.check()?.split(value)?.into_iter().zip(to) {
        open(endpoint, me)?.send(out);
    }
    Ok(())
}

pub static SEND: Op = Op {
    name: "send",
    inputs: send::INS,
    outputs: send::OUTS,
    attrs: SendAttrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    cpu: Kernel::Host(run_send),
    ..OP
};

/// Returns when the servers have taken the step; with `half_async`, when they have received what this trainer sent.
fn run_barrier(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<BarrierAttrs>();
    if let Some(c) = communicator::current().filter(|_| a.half_async) {
        return c.barrier(&Signals::watch());
    }
    let me = trainer(cx, a.trainer_id)?;
    let sessions = distinct(&a.endpoints).iter().map(|e| open(e, me)).collect::<Result<Vec<_>>>()?;
    with_all(cx.op.name, &sessions, |_, session, stop| match a.half_async {
        false => session.end_step(&allocate, stop),
        true => session.flush(&allocate, stop),
    })
    .map(drop)
}

pub static SEND_BARRIER: Op = Op {
    name: "send_barrier",
    inputs: barrier::INS,
    outputs: barrier::OUTS,
    attrs: BarrierAttrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    cpu: Kernel::Host(run_barrier),
    ..OP
};

/// Nothing to wait for: a server changes nothing before all trainers have ended their next step, so received values are
/// of one step.
fn run_fetch_barrier(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<FetchAttrs>();
    trainer(cx, a.trainer_id).map(drop)
}

pub static FETCH_BARRIER: Op = Op {
    name: "fetch_barrier",
    inputs: fetch::INS,
    outputs: fetch::OUTS,
    attrs: FetchAttrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    cpu: Kernel::Host(run_fetch_barrier),
    ..OP
};
