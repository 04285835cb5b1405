//! The service of a parameter server: runs blocks of its Program on what trainers send.

use super::blocks::Blocks;
use super::changes::{Changes, Query};
use super::checkpoint;
use super::recv_save::write_tensor;
use oar_core::base::{DType, Result};
use oar_core::ir::desc::VarKind;
use oar_core::op::run::{Env, Frame};
use oar_core::tensor::{SelectedRows, Tensor, Value, VarStorage};
use oar_core::{bail, err};
use oar_kernels::pool;
use oar_kernels::simd::prefetch;
use oar_ps::protocol::{Buffer, Incoming, Meta, Outgoing, Pieces, Service, ValueKind};
use oar_ps::tables::table;
use oar_ps::values::{allocate, declared_type, into_value, outgoing};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Limit of the bytes of ids in one request.
const MAX_IDS: u64 = 1 << 30;
/// Rows are prefetched this many rows ahead.
const AHEAD: usize = 8;
const COUNTER: &str = "@LR_DECAY_COUNTER@";

pub struct Serving<'a> {
    pub env: &'a dyn Env,
    pub frame: Frame,
    /// Declared names of the variables that trainers send.
    pub received: Vec<String>,
    /// Blocks of a step: the learning rate's, then the optimizers'.
    pub lr_block: Option<i32>,
    pub blocks: Blocks,
    /// Async mode: the block of each gradient, and a lock under which it runs.
    pub by_grad: HashMap<String, (i32, Mutex<()>)>,
    pub lookups: HashMap<String, i32>,
    pub dc_asgd: bool,
    pub lr: Mutex<()>,
    /// Rows of tables that have changed, if trainers request them (geo mode).
    pub changes: Changes,
}

type Answer<T> = std::result::Result<T, String>;

fn words<T>(result: Result<T>) -> Answer<T> {
    result.map_err(|e| e.message().to_string())
}

/// The name without a trainer's suffix.
fn whole(name: &str) -> &str {
    name.find(".trainer_").map_or(name, |at| &name[..at])
}

impl Serving<'_> {
    /// The declared shape and kind of a variable.
    fn declared(&self, name: &str) -> Option<(DType, Vec<i64>, bool)> {
        let var = self.frame.program.block(0)?.find_var(name)?;
        let desc = var.read();
        let rows = desc.var_type.kind == VarKind::SELECTED_ROWS;
        Some((desc.dtype().ok()?, desc.shape().ok()?.to_vec(), rows))
    }

    /// The variable that holds a trainer's `name` during a step.
    fn of_trainer(&self, name: &str, trainer: u32) -> String {
        let own = format!("{}.trainer_{trainer}", whole(name));
        if self.received.contains(&own) {
            own
        } else {
            name.to_string()
        }
    }

    fn run(&self, block: i32, bound: Vec<(String, Value)>) -> Result<()> {
        let scope = self.frame.scope.child();
        for (name, value) in bound {
            scope.bind(&name, Arc::new(VarStorage::new(value)));
        }
        let result = self.env.run_block(block, &scope);
        self.frame.scope.drop_kid(&scope);
        result
    }

    /// Computes the learning rate of the next step.
    pub fn set_rate(&self) -> Result<()> {
        self.lr_block.map_or(Ok(()), |block| self.run(block, Vec::new()))
    }

    fn take_step(&self, pushed: Vec<(u32, Vec<Incoming>)>) -> Result<()> {
        let scope = &self.frame.scope;
        let mut there = HashSet::new();
        for (trainer, vars) in pushed {
            for var in vars {
                let name = self.of_trainer(&var.meta.name, trainer);
                let cell = scope.find(&name).unwrap_or_else(|| scope.var(&name));
                cell.set(into_value(var)?);
                there.insert(name);
            }
        }
        // A trainer that is complete, or had no gradient, contributes zeros.
        for name in self.received.iter().filter(|n| !there.contains(*n)) {
            let cell = scope.find(name).unwrap_or_else(|| scope.var(name));
            cell.set(self.nothing(name)?);
        }
        self.set_rate()?;
        self.optimize()?;
        for name in &self.received {
            if let Some(cell) = scope.find(name) {
                cell.set(Value::None);
            }
        }
        Ok(())
    }

    fn optimize(&self) -> Result<()> {
        self.blocks.sequential.iter().try_for_each(|&block| self.run(block, Vec::new()))?;
        let concurrent = &self.blocks.concurrent;
        let done: Vec<Mutex<Result<()>>> = concurrent.iter().map(|_| Mutex::new(Ok(()))).collect();
        pool::chunks(concurrent.len(), |i| *done[i].lock() = self.run(concurrent[i], Vec::new()));
        done.into_iter().try_for_each(Mutex::into_inner)
    }

    fn nothing(&self, name: &str) -> Result<Value> {
        let Some((dtype, mut dims, rows)) = self.declared(name) else {
            bail!(NotFound, "the server's Program does not declare '{name}'")
        };
        if !rows {
            return Ok(Value::Dense(Tensor::zeros(dtype, &dims)?));
        }
        let height = dims.first().copied().unwrap_or(0);
        dims[0] = 0;
        Ok(SelectedRows { rows: Arc::default(), height, value: Tensor::zeros(dtype, &dims)? }.into())
    }

    fn apply_one(&self, trainer: u32, var: Incoming) -> Result<()> {
        let name = var.meta.name.clone();
        if name.contains(COUNTER) {
            return self.count(&name, into_value(var)?);
        }
        let Some((block, turn)) = self.by_grad.get(whole(&name)).or_else(|| self.by_grad.get(&name)) else {
            bail!(NotFound, "the server has no block for '{name}'")
        };
        let value = into_value(var)?;
        let rows = match &value {
            Value::Rows(r) if self.changes.knows(&name) => r.rows.clone(),
            _ => Arc::default(),
        };
        let id = Tensor::from_slice(&[i64::from(trainer)], &[1])?;
        let _turn = turn.lock();
        let bound = vec![(whole(&name).to_string(), value), ("@TRAINER_ID@".to_string(), Value::Dense(id))];
        self.run(*block, bound)?;
        self.changes.record(&name, &rows);
        Ok(())
    }

    /// A trainer reports the number of steps it has taken; the learning rate follows the sum.
    fn count(&self, name: &str, more: Value) -> Result<()> {
        let _one = self.lr.lock();
        let cell = self.frame.scope.find(name).ok_or_else(|| err!(NotFound, "the server does not count '{name}'"))?;
        let counts = [cell.tensor()?.to_i64s()?, more.dense()?.to_i64s()?];
        let sum: Vec<i64> = counts[0].iter().zip(&counts[1]).map(|(a, b)| a.wrapping_add(*b)).collect();
        cell.set(Tensor::from_slice(&sum, &[sum.len() as i64])?);
        self.set_rate()
    }

    fn held(&self, name: &str) -> Result<Value> {
        let value = self.frame.scope.find(name).map(|c| c.get()).unwrap_or_default();
        if value.is_none() {
            bail!(NotFound, "the server has no variable '{name}'");
        }
        Ok(value)
    }

    fn give(&self, trainer: u32, name: &str) -> Result<Outgoing> {
        if let Some(asked) = Query::parse(name) {
            return outgoing(name, self.changes.answer(&asked, |table| self.held(table))?);
        }
        let value = self.held(name)?;
        if self.dc_asgd {
            if let Some(copy) = self.frame.scope.find(&format!("{name}.trainer_{trainer}_bak")) {
                copy.set(value.clone());
            }
        }
        outgoing(name, value)
    }

    /// Saves a sparse table to a folder, any other variable to a file.
    fn checkpoint(&self, path: &str, name: &str) -> Result<Vec<String>> {
        let place = checkpoint::place(path)?;
        match table("checkpoint_notify", name) {
            Ok(found) => {
                checkpoint::replaceable_table(&place, &found.columns())?;
                found.save(&place)?;
            }
            Err(_) => {
                let value = self.held(name)?;
                checkpoint::replaceable(&place)?;
                write_tensor(value.dense()?, &place)?;
            }
        }
        Ok(Vec::new())
    }

    fn find_rows(&self, name: &str, ids: Incoming) -> Result<Outgoing> {
        let ids = into_value(ids)?;
        if let Some(&block) = self.lookups.get(name) {
            return self.run_lookup(block, name, ids);
        }
        let (table, ids) = (self.held(name)?, ids.dense()?.to_i64s()?);
        let table = table.dense()?;
        let height = table.dims().first().copied().unwrap_or(0);
        if let Some(id) = ids.iter().find(|&&id| id < 0 || id >= height) {
            bail!(OutOfRange, "row {id} is not within the {height} rows of '{name}'");
        }
        let mut dims = table.sizes().clone();
        dims[0] = ids.len() as i64;
        let mut out = Tensor::empty(table.dtype(), &dims)?;
        let width = table.nbytes() / height.max(1) as usize;
        if width > 0 {
            let from = table.bytes();
            let row = |id: i64| &from[id as usize * width..][..width];
            for (i, to) in out.bytes_mut()?.chunks_exact_mut(width).enumerate() {
                // Rows are at random addresses: later ones are prefetched.
                if let Some(&soon) = ids.get(i + AHEAD) {
                    prefetch(row(soon));
                }
                to.copy_from_slice(row(ids[i]));
            }
        }
        outgoing(name, Value::Dense(out))
    }

    /// Runs the Program's block for lookups: it reads the ids under their name, and writes its first output.
    fn run_lookup(&self, block: i32, name: &str, ids: Value) -> Result<Outgoing> {
        let node = self.frame.program.block(block).ok_or_else(|| err!(NotFound, "there is no block {block}"))?;
        let ops = node.all_ops();
        let last = ops.last().ok_or_else(|| err!(NotFound, "block {block} is empty"))?;
        let out = last.read().outputs.iter().find_map(|(_, v)| v.first().cloned());
        let out = out.ok_or_else(|| err!(NotFound, "block {block} has no output"))?;
        let scope = self.frame.scope.child();
        scope.bind(name, Arc::new(VarStorage::new(ids)));
        scope.bind(&out, Arc::new(VarStorage::default()));
        let result = self.env.run_block(block, &scope);
        let found = scope.find_local(&out).map(|c| c.get()).unwrap_or_default();
        self.frame.scope.drop_kid(&scope);
        result?;
        outgoing(name, found)
    }
}

impl Service for Serving<'_> {
    fn allocate(&self, meta: &Meta) -> Answer<Box<dyn Buffer>> {
        let (dtype, dims) = declared_type(meta)?;
        let known = self.declared(&meta.name).or_else(|| self.declared(&format!("{}.trainer_0", whole(&meta.name))));
        match known {
            Some((d, shape, rows)) => {
                let same_rows = dims.len() == shape.len() && dims.get(1..) == shape.get(1..);
                let fits = match meta.kind {
                    ValueKind::Rows => rows && same_rows,
                    ValueKind::Dense => {
                        !rows && same_rows && (dims.first() == shape.first() || shape.first() == Some(&-1))
                    }
                };
                if d != dtype || !fits {
                    return Err(format!(
                        "{} is declared as {d} {shape:?}, and was sent as {dtype} {:?}",
                        meta.name,
                        &dims[..]
                    ));
                }
            }
            None => return Err(format!("the server has no variable {}", meta.name)),
        }
        allocate(meta)
    }

    fn allocate_ids(&self, meta: &Meta) -> Answer<Box<dyn Buffer>> {
        let (dtype, _) = declared_type(meta)?;
        match matches!(dtype, DType::I64 | DType::I32) && meta.bytes <= MAX_IDS {
            true => allocate(meta),
            false => Err(format!("ids of {dtype}, {} bytes", meta.bytes)),
        }
    }

    fn step(&self, pushed: Vec<(u32, Vec<Incoming>)>) -> Answer<()> {
        words(self.take_step(pushed))
    }

    fn apply(&self, trainer: u32, pushed: Vec<Incoming>) -> Answer<()> {
        words(pushed.into_iter().try_for_each(|var| self.apply_one(trainer, var)))
    }

    fn get(&self, trainer: u32, names: &[String]) -> Answer<Vec<Outgoing>> {
        words(names.iter().map(|n| self.give(trainer, n)).collect())
    }

    fn lookup(&self, _trainer: u32, name: &str, ids: Incoming) -> Answer<Outgoing> {
        words(self.find_rows(name, ids))
    }

    fn allocate_state(&self, meta: &Meta) -> Answer<Box<dyn Buffer>> {
        allocate(meta)
    }

    fn capture(&self) -> Answer<Pieces> {
        words(self.state())
    }

    fn restore(&self, state: Vec<Incoming>) -> Answer<()> {
        words(self.set_state(state))
    }

    fn adopt(&self, state: Vec<Incoming>, layout: &str) -> Answer<()> {
        words(self.take_part(state, layout))
    }

    /// Reading parameters makes copies for delay compensation; a lookup by a block may initialize and count rows.
    fn remembers(&self, table: Option<&str>) -> bool {
        table.map_or(self.dc_asgd, |name| self.lookups.contains_key(name))
    }

    fn notify(&self, _trainer: u32, what: &[String]) -> Answer<Vec<String>> {
        match what {
            [word, path, name] if word == "checkpoint" => words(self.checkpoint(path, name)),
            _ => Err(format!("unknown command {what:?}")),
        }
    }
}
