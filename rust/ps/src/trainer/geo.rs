//! Geo mode: a trainer updates its own parameters; every few steps it sends the difference since the last exchange,
//! divided by the number of trainers, and adds the differences of the other trainers. Only accessed rows of sparse
//! tables are exchanged.
//!
//! Parameters change on the trainer's thread, between two steps, where received differences are added. The exchange
//! itself runs concurrently with the following steps.

use super::base::{check_signals, Base, CommContext};
use super::remote::{fetch, open, with_all};
use crate::merge::{add, difference};
use crate::parts::concat;
use crate::protocol::{Incoming, Outgoing};
use crate::values::{allocate, into_value};
use oar_comm::Signals;
use oar_core::base::{DType, Result};
use oar_core::tensor::{SelectedRows, Tensor, Value, VarStorage};
use oar_core::{bail, ensure, err};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

const OP: &str = "communicator";

/// Sent at the end of a startup Program: the trainer's parameters are those of the servers.
const STARTED: &str = "param_init";

/// Names that servers interpret: a table's version, and the rows changed since a version.
fn version_of(part: &str) -> String {
    format!("{part}@VERSION")
}

fn changed_since(part: &str, version: i64) -> String {
    format!("{part}@CHANGED@{version}")
}

/// The received values of one parameter.
enum Update {
    Dense(Tensor),
    /// For each part: its first row, its version, the changed rows.
    Rows(Vec<(i64, i64, SelectedRows)>),
}

type Pulled = Vec<(String, Update)>;

#[derive(Default)]
struct State {
    /// The first send operator of a step; its repetition starts the next step.
    first: Option<Vec<String>>,
    /// Steps since the last exchange began.
    steps: u64,
    /// Parameters as of the last exchange, including what was sent since.
    old: BTreeMap<String, Tensor>,
    /// Rows accessed since, by table.
    touched: BTreeMap<String, BTreeSet<i64>>,
    /// Versions of the parts of tables.
    versions: BTreeMap<String, i64>,
    in_flight: Option<JoinHandle<Result<Pulled>>>,
}

pub struct Geo {
    base: Arc<Base>,
    state: Mutex<State>,
}

impl Geo {
    pub fn new(base: Arc<Base>) -> Result<Geo> {
        for name in base.send.keys() {
            ensure!(base.recv.contains_key(name), InvalidArgument, "'{name}' is sent, but not received");
        }
        Ok(Geo { base, state: Mutex::default() })
    }

    fn cell(&self, name: &str) -> Result<Arc<VarStorage>> {
        self.base.scope.find(name).ok_or_else(|| err!(NotFound, "the scope has no parameter '{name}'"))
    }

    /// Receives the servers' parameters as the common start.
    pub fn start(&self) -> Result<()> {
        let mut state = self.state.lock();
        *state = State::default();
        for c in self.base.send.values() {
            let Some(from) = self.base.recv.get(&c.name) else { continue };
            let mut wanted = from.shards();
            if c.sparse {
                // Versions are read before the rows, so that no change is missed.
                let versions = from.endpoints.iter().cloned().zip(from.parts.iter().map(|p| version_of(p)));
                wanted.splice(0..0, versions);
            }
            let mut found = fetch(OP, from.trainer, &wanted)?;
            if c.sparse {
                let rest = found.split_off(from.parts.len());
                for (part, v) in from.parts.iter().zip(&found) {
                    state.versions.insert(part.clone(), number(v)?);
                }
                found = rest;
            }
            let whole = concat(OP, &found.iter().map(Value::dense).collect::<Result<Vec<_>>>()?)?;
            self.base.scope.find(&c.name).unwrap_or_else(|| self.base.scope.var(&c.name)).set(whole.clone());
            state.old.insert(c.name.clone(), whole);
        }
        Ok(())
    }

    /// A send operator at the end of a step, with the ids that the step looked up in each table.
    pub fn step(&self, op: &str, tables: &[String], values: &[Value], signals: &Signals) -> Result<()> {
        if tables == [STARTED] {
            return self.start();
        }
        let mut state = self.state.lock();
        for (table, ids) in tables.iter().zip(values) {
            if !self.base.send.get(table).is_some_and(|c| c.sparse) {
                continue;
            }
            let touched = state.touched.entry(table.clone()).or_default();
            match ids {
                Value::Rows(r) => touched.extend(r.rows.iter().copied()),
                Value::Dense(t) => touched.extend(t.to_i64s()?),
                Value::None => {}
                other => bail!(InvalidArgument, "operator {op}: the ids of '{table}' are {}", other.what()),
            }
        }
        if state.first.get_or_insert_with(|| tables.to_vec()) != tables {
            return Ok(());
        }
        state.steps += 1;
        let due = state.steps >= self.base.settings.push_nums;
        if due || state.in_flight.as_ref().is_some_and(JoinHandle::is_finished) {
            self.finish(&mut state, signals)?;
        }
        if due {
            self.begin(&mut state)?;
        }
        Ok(())
    }

    /// Sends the remaining differences, and receives those of other trainers.
    pub fn receive(&self, signals: &Signals) -> Result<()> {
        let mut state = self.state.lock();
        self.finish(&mut state, signals)?;
        self.begin(&mut state)?;
        self.finish(&mut state, signals)
    }

    /// Starts an exchange, which runs concurrently with the following steps.
    fn begin(&self, state: &mut State) -> Result<()> {
        state.steps = 0;
        let part = 1.0 / f64::from(self.base.settings.trainers);
        let mut out: Vec<(String, Outgoing)> = Vec::new();
        let mut want: Vec<(CommContext, Vec<i64>)> = Vec::new();
        for c in self.base.send.values() {
            let now = self.cell(&c.name)?.tensor()?;
            let Some(old) = state.old.get_mut(&c.name) else { bail!(Fatal, "'{}' was not received", c.name) };
            let delta = match c.sparse {
                false => {
                    let delta = difference(&now, old, part)?;
                    add(old, &delta, 1.0)?;
                    Value::Dense(delta)
                }
                true => {
                    let rows = state.touched.remove(&c.name).unwrap_or_default();
                    rows_delta(&c.name, &now, old, rows, part as f32)?
                }
            };
            let Some(from) = self.base.recv.get(&c.name) else { continue };
            let versions = from.parts.iter().map(|p| state.versions.get(p).copied().unwrap_or(0)).collect();
            want.push((CommContext { sparse: c.sparse, ..from.clone() }, versions));
            // A table without accessed rows sends nothing.
            if !matches!(&delta, Value::Rows(r) if r.rows.is_empty()) {
                out.extend(c.endpoints.iter().cloned().zip(c.split(delta)?));
            }
        }
        let me = self.base.trainer();
        state.in_flight = Some(super::base::spawn("geo", move || exchange(me, out, &want))?);
        Ok(())
    }

    /// Waits for the exchange in progress and adds what it received.
    fn finish(&self, state: &mut State, signals: &Signals) -> Result<()> {
        let Some(thread) = state.in_flight.take() else { return Ok(()) };
        while !thread.is_finished() {
            if let Err(e) = check_signals(signals) {
                state.in_flight = Some(thread);
                return Err(e);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        let pulled = thread.join().map_err(|_| err!(Fatal, "the communicator's thread panicked"))?;
        let pulled = pulled.inspect_err(|e| self.base.fail(e))?;
        for (name, received) in pulled {
            let cell = self.cell(&name)?;
            let Value::Dense(mut now) = cell.write()? else {
                bail!(InvalidArgument, "'{name}' is not a tensor any more")
            };
            let Some(old) = state.old.get_mut(&name) else { continue };
            match received {
                Update::Dense(whole) => {
                    let others = difference(&whole, old, 1.0)?;
                    add(&mut now, &others, 1.0)?;
                    *old = whole;
                }
                Update::Rows(parts) => {
                    let names = self.base.recv.get(&name).map(|c| c.parts.clone()).unwrap_or_default();
                    for ((start, version, rows), part) in parts.into_iter().zip(names) {
                        add_rows(&name, &mut now, old, start, &rows)?;
                        state.versions.insert(part, version);
                    }
                }
            }
            cell.finish(Value::Dense(now));
            cell.bump();
        }
        Ok(())
    }

    pub fn stop(&self, signals: &Signals) -> Result<()> {
        let mut state = self.state.lock();
        self.finish(&mut state, signals)?;
        if state.steps > 0 {
            self.begin(&mut state)?;
            self.finish(&mut state, signals)?;
        }
        Ok(())
    }
}

fn number(v: &Value) -> Result<i64> {
    v.dense()?.to_i64s()?.first().copied().ok_or_else(|| err!(Unavailable, "a server sent no version"))
}

/// Floats per row; the table must be float32.
fn width_of(name: &str, t: &Tensor) -> Result<usize> {
    ensure!(
        t.rank() >= 1 && t.dtype() == DType::F32,
        Unimplemented,
        "the table '{name}' must be float32 rows, got {} {:?}",
        t.dtype(),
        t.dims()
    );
    Ok(t.numel() / t.dims()[0].max(1) as usize)
}

/// The change of these rows since `old`, times `part`; `old` is advanced by it.
fn rows_delta(name: &str, now: &Tensor, old: &mut Tensor, rows: BTreeSet<i64>, part: f32) -> Result<Value> {
    let (width, height) = (width_of(name, now)?, now.dims()[0]);
    ensure!(old.dims() == now.dims(), InvalidArgument, "'{name}' has changed its shape");
    if let Some(bad) = rows.iter().find(|&&r| r < 0 || r >= height) {
        bail!(OutOfRange, "row {bad} is not within the {height} rows of '{name}'");
    }
    let mut dims = now.sizes().clone();
    dims[0] = rows.len() as i64;
    let mut value = Tensor::empty(DType::F32, &dims)?;
    let (from, base, to) = (now.data::<f32>(), old.data_mut::<f32>()?, value.data_mut::<f32>()?);
    for (i, &row) in rows.iter().enumerate() {
        let at = row as usize * width;
        for k in 0..width {
            let delta = (from[at + k] - base[at + k]) * part;
            base[at + k] += delta;
            to[i * width + k] = delta;
        }
    }
    Ok(SelectedRows { rows: Arc::new(rows.into_iter().collect()), height, value }.into())
}

/// Adds the change of these rows on the servers since `old`; `old` is updated.
fn add_rows(name: &str, now: &mut Tensor, old: &mut Tensor, start: i64, rows: &SelectedRows) -> Result<()> {
    let (width, height) = (width_of(name, now)?, now.dims()[0]);
    let fits = rows.value.dtype() == DType::F32 && rows.value.numel() == rows.rows.len() * width;
    let within = |r: &i64| *r >= 0 && start.checked_add(*r).is_some_and(|row| row < height);
    ensure!(fits && rows.rows.iter().all(within), Unavailable, "a server sent rows that '{name}' does not have");
    let from = rows.value.data::<f32>();
    let (now, old) = (now.data_mut::<f32>()?, old.data_mut::<f32>()?);
    for (i, row) in rows.rows.iter().enumerate() {
        let at = (start + row) as usize * width;
        for k in 0..width {
            now[at + k] += from[i * width + k] - old[at + k];
            old[at + k] = from[i * width + k];
        }
    }
    Ok(())
}

/// Sends all differences, and receives the servers' values in the replies.
fn exchange(me: u32, out: Vec<(String, Outgoing)>, want: &[(CommContext, Vec<i64>)]) -> Result<Pulled> {
    let servers: BTreeSet<&String> = want.iter().flat_map(|(c, _)| &c.endpoints).collect();
    let servers: Vec<String> = servers.into_iter().cloned().collect();
    let sessions = servers.iter().map(|e| open(e, me)).collect::<Result<Vec<_>>>()?;
    let mut requests: Vec<(Vec<Outgoing>, Vec<String>)> = servers.iter().map(|_| Default::default()).collect();
    let at = |e: &String| {
        servers.binary_search(e).map_err(|_| err!(Fatal, "the server {e} is not among those that were asked"))
    };
    for (endpoint, var) in out {
        requests[at(&endpoint)?].0.push(var);
    }
    for (c, versions) in want {
        for ((endpoint, part), &version) in c.shards().iter().zip(versions) {
            let names = &mut requests[at(endpoint)?].1;
            match c.sparse {
                true => names.extend([version_of(part), changed_since(part, version)]),
                false => names.push(part.clone()),
            }
        }
    }
    let requests: Vec<_> = requests.into_iter().map(|l| Mutex::new(Some(l))).collect();
    let answers = with_all(OP, &sessions, |i, session, stop| match requests[i].lock().take() {
        Some((vars, names)) => session.exchange(vars, names, &allocate, stop),
        None => Err(oar_net::Error::Invalid("a request is sent once".into())),
    })?;
    let mut answers: Vec<VecDeque<Incoming>> = answers.into_iter().map(VecDeque::from).collect();
    let mut next = |endpoint: &String| -> Result<Value> {
        let var = answers[at(endpoint)?].pop_front();
        into_value(var.ok_or_else(|| err!(Unavailable, "the server {endpoint} sent too few values"))?)
    };
    let mut pulled = Vec::with_capacity(want.len());
    for (c, _) in want {
        let received = if c.sparse {
            let (mut start, mut parts) = (0, Vec::new());
            for (i, endpoint) in c.endpoints.iter().enumerate() {
                let version = number(&next(endpoint)?)?;
                let Value::Rows(rows) = next(endpoint)? else { bail!(Unavailable, "{endpoint} sent no rows") };
                parts.push((start, version, *rows));
                start += c.sections.get(i).copied().unwrap_or(0);
            }
            Update::Rows(parts)
        } else {
            let values = c.endpoints.iter().map(&mut next).collect::<Result<Vec<_>>>()?;
            Update::Dense(concat(OP, &values.iter().map(Value::dense).collect::<Result<Vec<_>>>()?)?)
        };
        pulled.push((c.name.clone(), received));
    }
    Ok(pulled)
}
