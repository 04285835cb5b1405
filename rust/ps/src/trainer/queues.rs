//! Gradients are queued per variable; a thread merges those of several steps, sends them, and receives parameters.

use super::base::{check_signals, spawn, Base, CommunicatorMode, CommunicatorSettings};
use super::remote::{fetch, with_all};
use crate::merge::merge_steps;
use crate::parts::concat;
use crate::values::allocate;
use oar_comm::Signals;
use oar_core::base::Result;
use oar_core::tensor::Value;
use oar_core::{bail, err};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const OP: &str = "communicator";

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Value>,
    /// Numbers of values queued, sent, and reflected in received parameters.
    queued: u64,
    sent: u64,
    settled: u64,
}

#[derive(Default)]
struct State {
    queues: BTreeMap<String, Queue>,
    running: bool,
    /// Threads of the trainer that wait for their values to be reflected.
    waiting: usize,
    /// Values sent since parameters were last received.
    unseen: u64,
    /// The receive thread has to receive parameters now.
    wanted: bool,
    receiving: bool,
}

struct Shared {
    base: Arc<Base>,
    state: Mutex<State>,
    changed: Condvar,
}

pub struct Queued {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Queued {
    pub fn new(base: Arc<Base>) -> Queued {
        let queues = base.send.keys().map(|name| (name.clone(), Queue::default())).collect();
        let state = Mutex::new(State { queues, ..State::default() });
        Queued { shared: Arc::new(Shared { base, state, changed: Condvar::new() }), threads: Mutex::default() }
    }

    pub fn start(&self) -> Result<()> {
        self.shared.state.lock().running = true;
        let mut threads = self.threads.lock();
        let shared = self.shared.clone();
        threads.push(spawn("send", move || shared.guard(Shared::send_loop))?);
        if self.shared.has_receive_thread() {
            let shared = self.shared.clone();
            threads.push(spawn("receive", move || shared.guard(Shared::receive_loop))?);
        }
        Ok(())
    }

    pub fn stop(&self) -> Result<()> {
        self.shared.state.lock().running = false;
        self.shared.changed.notify_all();
        for thread in self.threads.lock().drain(..) {
            thread.join().map_err(|_| err!(Fatal, "the communicator's thread panicked"))?;
        }
        Ok(())
    }

    pub fn receive(&self) -> Result<()> {
        self.shared.receive()
    }

    /// Waits while `full`; signals are checked every 50 ms.
    fn wait(&self, signals: &Signals, full: impl Fn(&State) -> bool) -> Result<()> {
        loop {
            {
                let mut s = self.shared.state.lock();
                if !full(&s) {
                    return Ok(());
                }
                if !s.running {
                    self.shared.base.check()?;
                    bail!(Unavailable, "the communicator has stopped");
                }
                s.waiting += 1;
                self.shared.changed.notify_all();
                self.shared.changed.wait_for(&mut s, Duration::from_millis(50));
                s.waiting -= 1;
            }
            self.shared.base.check()?;
            check_signals(signals)?;
        }
    }

    pub fn put(&self, name: &str, value: Value, signals: &Signals) -> Result<()> {
        let s = &self.shared.base.settings;
        let (capacity, bound) = (s.send_queue_size, s.max_staleness);
        self.wait(signals, |state| {
            state
                .queues
                .get(name)
                .is_some_and(|q| q.waiting.len() >= capacity || bound > 0 && q.queued - q.settled >= bound)
        })?;
        let mut state = self.shared.state.lock();
        let q = state.queues.entry(name.to_string()).or_default();
        q.waiting.push_back(value);
        q.queued += 1;
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Waits until `done` of each queue has reached the number of values queued so far.
    fn wait_for(&self, signals: &Signals, done: fn(&Queue) -> u64) -> Result<()> {
        let queued: Vec<(String, u64)> =
            self.shared.state.lock().queues.iter().map(|(n, q)| (n.clone(), q.queued)).collect();
        self.wait(signals, |s| queued.iter().any(|(n, g)| s.queues.get(n).is_some_and(|q| done(q) < *g)))
    }

    pub fn barrier(&self, signals: &Signals) -> Result<()> {
        self.wait_for(signals, |q| q.settled)
    }

    /// Waits until the servers have received all values queued so far.
    pub fn sent(&self, signals: &Signals) -> Result<()> {
        self.wait_for(signals, |q| q.sent)
    }
}

impl Shared {
    /// Runs a thread; its error is reported to the trainer.
    fn guard(&self, run: fn(&Shared) -> Result<()>) {
        if let Err(e) = run(self) {
            self.base.fail(&e);
            self.state.lock().running = false;
        }
        self.changed.notify_all();
    }

    /// Whether parameters are received on a separate thread.
    fn has_receive_thread(&self) -> bool {
        self.base.mode == CommunicatorMode::Async
            && self.base.settings.independent_recv_thread
            && !self.base.recv.is_empty()
    }

    fn send_loop(&self) -> Result<()> {
        while let Some(batch) = self.batch() {
            let counts: Vec<(String, u64)> = batch.iter().map(|(n, v)| (n.clone(), v.len() as u64)).collect();
            self.send(batch)?;
            let separate = self.has_receive_thread();
            let now = {
                let mut s = self.state.lock();
                let mut sent = 0;
                for (name, n) in counts {
                    if let Some(q) = s.queues.get_mut(&name) {
                        q.sent += n;
                        sent = sent.max(n);
                    }
                }
                s.unseen += sent;
                let enough = s.unseen > 0 && s.unseen >= self.base.settings.min_send_grad_num_before_recv;
                let now = self.base.mode != CommunicatorMode::Async || enough || s.waiting > 0 || !s.running;
                s.wanted |= now && separate;
                now && !separate
            };
            self.changed.notify_all();
            if now {
                self.receive_and_settle()?;
            }
        }
        Ok(())
    }

    /// The next batch to send; `None` once the communicator has stopped and all is sent.
    fn batch(&self) -> Option<Vec<(String, Vec<Value>)>> {
        let o = &self.base.settings;
        let mut s = self.state.lock();
        let mut since: Option<Instant> = None;
        loop {
            let any = s.queues.values().any(|q| !q.waiting.is_empty());
            if !any && !s.running {
                return None;
            }
            let enough = if o.send_from == 0 { o.max_merge_var_num } else { o.send_from };
            let full = |q: &Queue| q.waiting.len() >= enough.min(o.send_queue_size);
            let ready = any
                && match self.base.mode {
                    // Enough values to merge, or no new value for a while.
                    CommunicatorMode::Async => {
                        let looked = since.get_or_insert_with(Instant::now).elapsed();
                        // The trainer receives the effect of what it sent before it sends more.
                        let busy = o.send_from > 0 && (s.wanted || s.receiving);
                        !busy
                            && (s.queues.values().all(full) || looked >= CommunicatorSettings::LOOK * o.send_wait_times)
                    }
                    // Gradients of a step are sent together.
                    _ => s.queues.values().any(full) && self.base.mode == CommunicatorMode::HalfAsync,
                };
            if ready || any && (s.waiting > 0 || !s.running) {
                break;
            }
            // The staleness limit must hold even if too few values were sent to trigger a receive.
            if s.waiting > 0 && s.unseen > 0 && self.has_receive_thread() && !s.wanted && !s.receiving {
                s.wanted = true;
                self.changed.notify_all();
            }
            self.changed.wait_for(&mut s, CommunicatorSettings::LOOK);
        }
        let most = if self.base.mode == CommunicatorMode::Sync { 1 } else { o.max_merge_var_num };
        let taken = s.queues.iter_mut().filter(|(_, q)| !q.waiting.is_empty());
        let batch = taken.map(|(name, q)| (name.clone(), q.waiting.drain(..q.waiting.len().min(most)).collect()));
        let batch = batch.collect();
        drop(s);
        self.changed.notify_all();
        Some(batch)
    }

    fn send(&self, batch: Vec<(String, Vec<Value>)>) -> Result<()> {
        let (shards, sessions) = self.base.sessions(&self.base.send)?;
        for (name, values) in batch {
            let Some(context) = self.base.send.get(&name) else { continue };
            let value = merge_steps(&name, values, !context.sum, self.base.settings.merge_sparse_grad)?;
            for (out, endpoint) in context.split(value)?.into_iter().zip(&context.endpoints) {
                if let Some(at) = shards.iter().position(|p| p == endpoint) {
                    sessions[at].send(out);
                }
            }
        }
        let steps = self.base.mode == CommunicatorMode::Sync;
        with_all(OP, &sessions, |_, session, stop| match steps {
            true => session.end_step(&allocate, stop),
            false => session.flush(&allocate, stop),
        })
        .map(drop)
    }

    fn receive_loop(&self) -> Result<()> {
        loop {
            {
                let mut s = self.state.lock();
                while !s.wanted && s.running {
                    self.changed.wait_for(&mut s, Duration::from_millis(100));
                }
                if !s.wanted {
                    break;
                }
                (s.wanted, s.receiving) = (false, true);
            }
            let result = self.receive_and_settle();
            self.state.lock().receiving = false;
            result?;
        }
        Ok(())
    }

    fn receive_and_settle(&self) -> Result<()> {
        let sent: Vec<(String, u64)> = {
            let mut s = self.state.lock();
            s.unseen = 0;
            s.queues.iter().map(|(n, q)| (n.clone(), q.sent)).collect()
        };
        self.receive()?;
        let mut s = self.state.lock();
        for (name, n) in sent {
            if let Some(q) = s.queues.get_mut(&name) {
                q.settled = q.settled.max(n);
            }
        }
        drop(s);
        self.changed.notify_all();
        Ok(())
    }

    fn receive(&self) -> Result<()> {
        let contexts: Vec<_> = self.base.recv.values().collect();
        let wanted: Vec<_> = contexts.iter().flat_map(|c| c.shards()).collect();
        let mut parts = fetch(OP, self.base.trainer(), &wanted)?.into_iter();
        for c in contexts {
            let mine: Vec<Value> = parts.by_ref().take(c.parts.len()).collect();
            let tensors = mine.iter().map(Value::dense).collect::<Result<Vec<_>>>()?;
            let whole = match tensors[..] {
                [one] => one.clone(),
                _ => concat(OP, &tensors)?,
            };
            let cell = self.base.scope.find(&c.name).unwrap_or_else(|| self.base.scope.var(&c.name));
            cell.set(whole);
        }
        Ok(())
    }
}
