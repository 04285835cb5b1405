//! Queues between concurrent sections of a Program: queue_generator, enqueue, dequeue.
//!
//! A queue belongs to the variable of its name, and lives as long as the process. Waits can be interrupted by signals,
//! and end by FLAGS_rpc_deadline, like those for other processes.

use oar_comm::{error, Signals};
use oar_core::base::Result;
use oar_core::op::{Kernel, KernelContext, Op, OP};
use oar_core::tensor::Value;
use oar_core::{attrs, bail, ensure, err, slots};
use oar_ps::protocol::limits::Limits;
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

attrs! {
    pub struct GeneratorAttrs { names: Vec<String> = vec![], capacity: i32 = 1 }
    pub struct QueueAttrs { queue_name: String }
}

slots! {
    mod enqueue { X "X" => }
    mod dequeue { => OUT "Out".duplicable().kernel_allocated() }
}

struct Queue {
    capacity: usize,
    values: Mutex<VecDeque<Value>>,
    changed: Condvar,
}

static QUEUES: Mutex<Option<HashMap<String, Arc<Queue>>>> = Mutex::new(None);
/// Interval at which a wait checks for signals.
const TURN: Duration = Duration::from_millis(20);

impl Queue {
    /// Performs `work` once it succeeds; a timeout names the queue's state `of`.
    fn when<T>(
        &self,
        cx: &KernelContext,
        of: &str,
        mut work: impl FnMut(&mut VecDeque<Value>) -> Option<T>,
    ) -> Result<T> {
        let (signals, limits, since) = (Signals::watch(), Limits::now().map_err(error)?, Instant::now());
        loop {
            let mut values = self.values.lock();
            if let Some(done) = work(&mut values) {
                self.changed.notify_all();
                return Ok(done);
            }
            self.changed.wait_for(&mut values, TURN);
            drop(values);
            if signals.stop() {
                return Err(signals.pending());
            }
            let name = &cx.attrs::<QueueAttrs>().queue_name;
            ensure!(
                since.elapsed() < limits.whole(),
                Timeout,
                "operator {}: the queue '{name}' has been {of} for {:.1} s ({})",
                cx.op.name,
                since.elapsed().as_secs_f64(),
                limits.words()
            );
        }
    }
}

fn queue(cx: &KernelContext) -> Result<Arc<Queue>> {
    let name = &cx.attrs::<QueueAttrs>().queue_name;
    let queues = QUEUES.lock();
    let found = queues.as_ref().and_then(|q| q.get(name)).cloned();
    found
        .ok_or_else(|| err!(NotFound, "operator {}: there is no queue '{name}': run queue_generator first", cx.op.name))
}

/// An existing queue is kept.
fn generate(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<GeneratorAttrs>());
    ensure!(!a.names.is_empty(), InvalidArgument, "operator {op}: the attribute names must not be empty");
    let Some(capacity) = usize::try_from(a.capacity).ok().filter(|&c| c > 0) else {
        bail!(InvalidArgument, "operator {op}: capacity must be above 0, got {}", a.capacity)
    };
    let mut queues = QUEUES.lock();
    let queues = queues.get_or_insert_default();
    for name in &a.names {
        let made = || Arc::new(Queue { capacity, values: Mutex::default(), changed: Condvar::new() });
        queues.entry(name.clone()).or_insert_with(made);
    }
    Ok(())
}

pub static QUEUE_GENERATOR: Op =
    Op { name: "queue_generator", attrs: GeneratorAttrs::FIELDS, cpu: Kernel::Host(generate), ..OP };

fn put(cx: &mut KernelContext) -> Result<()> {
    let (queue, value) = (queue(cx)?, Value::Dense(cx.input(enqueue::X)?.clone()));
    queue.when(cx, "full", |values| (values.len() < queue.capacity).then(|| values.push_back(value.clone())))
}

pub static ENQUEUE: Op =
    Op { name: "enqueue", inputs: enqueue::INS, attrs: QueueAttrs::FIELDS, cpu: Kernel::Host(put), ..OP };

fn take(cx: &mut KernelContext) -> Result<()> {
    let queue = queue(cx)?;
    let n = cx.n_outs(dequeue::OUT);
    ensure!(n > 0, InvalidArgument, "operator {}: the output 'Out' must be given", cx.op.name);
    for i in 0..n {
        let value = queue.when(cx, "empty", VecDeque::pop_front)?;
        cx.set_nth(dequeue::OUT, i, value);
    }
    Ok(())
}

pub static DEQUEUE: Op =
    Op { name: "dequeue", outputs: dequeue::OUTS, attrs: QueueAttrs::FIELDS, cpu: Kernel::Host(take), ..OP };

pub static TABLE: &[&Op] = &[&QUEUE_GENERATOR, &ENQUEUE, &DEQUEUE];
