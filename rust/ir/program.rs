//! A Program that is being built: blocks, variables and operators as shared nodes, so that a handle to one of them stays
//! valid whatever is added or removed around it. Every change through any handle counts up the Program's revision.

use super::codec::Message;
use super::desc::*;
use super::{Attr, AttrMap};
use crate::base::Result;
use crate::{bail, ensure, err};
use parking_lot::{RwLock, RwLockReadGuard};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The name that stands in a slot for no variable.
pub const EMPTY_VAR_NAME: &str = "@EMPTY@";

/// Counts changes.
#[derive(Clone, Debug, Default)]
struct Revision(Arc<AtomicU64>);

impl Revision {
    fn bump(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

pub struct VarNode {
    desc: RwLock<VarDesc>,
    revision: Revision,
}

impl VarNode {
    /// A variable of no block.
    pub fn alone(name: &str) -> Arc<VarNode> {
        Arc::new(VarNode { desc: RwLock::new(VarDesc::new(name)), revision: Revision::default() })
    }

    pub fn read(&self) -> RwLockReadGuard<'_, VarDesc> {
        self.desc.read()
    }

    /// Changes the description; `change` says whether it did.
    pub fn update(&self, change: impl FnOnce(&mut VarDesc) -> Result<bool>) -> Result<()> {
        if change(&mut self.desc.write())? {
            self.revision.bump();
        }
        Ok(())
    }

    pub fn name(&self) -> String {
        self.read().name.clone()
    }

    pub fn kind(&self) -> VarKind {
        self.read().var_type.kind
    }

    pub fn set_kind(&self, kind: VarKind) -> Result<()> {
        self.update(|d| Ok(std::mem::replace(&mut d.var_type.kind, kind) != kind))
    }

    pub fn set_shape(&self, dims: &[i64]) -> Result<()> {
        self.update(|d| d.set_shape(dims))
    }

    pub fn set_data_type(&self, kind: VarKind) -> Result<()> {
        self.update(|d| d.set_data_type(kind))
    }

    pub fn set_lod_level(&self, level: i32) -> Result<()> {
        self.update(|d| d.set_lod_level(level))
    }
}

pub struct OpNode {
    desc: RwLock<OpDesc>,
    revision: Revision,
    /// The block it was made in, or for an operator of no block the global block of the Program whose blocks its
    /// attributes name.
    block: RwLock<Weak<BlockNode>>,
}

impl OpNode {
    /// An operator of no block.
    pub fn alone() -> Arc<OpNode> {
        OpNode::new(OpDesc::default(), Revision::default(), Weak::new())
    }

    fn new(desc: OpDesc, revision: Revision, block: Weak<BlockNode>) -> Arc<OpNode> {
        Arc::new(OpNode { desc: RwLock::new(desc), revision, block: RwLock::new(block) })
    }

    pub fn read(&self) -> RwLockReadGuard<'_, OpDesc> {
        self.desc.read()
    }

    pub fn modify<R>(&self, change: impl FnOnce(&mut OpDesc) -> R) -> R {
        let out = change(&mut self.desc.write());
        self.revision.bump();
        out
    }

    pub fn op_type(&self) -> String {
        self.read().op_type.clone()
    }

    pub fn set_attr(&self, name: &str, value: Attr) {
        self.modify(|d| d.attrs.insert(name, value));
    }

    /// A copy of an attribute.
    pub fn attr(&self, name: &str) -> Option<Attr> {
        self.read().attrs.get(name).cloned()
    }

    pub fn attrs(&self) -> AttrMap {
        self.read().attrs.clone()
    }

    pub fn block(&self) -> Option<Arc<BlockNode>> {
        self.block.read().upgrade()
    }

    /// Says which Program's blocks the attributes mean, where the operator is in none.
    pub fn bind(&self, block: &Arc<BlockNode>) {
        let mut have = self.block.write();
        if have.strong_count() == 0 {
            *have = Arc::downgrade(block);
        }
    }

    pub fn copy_from(&self, other: &OpNode) {
        let (desc, block) = (other.read().clone(), other.block());
        self.modify(|d| d.copy_from(&desc));
        if let Some(block) = block {
            self.bind(&block);
        }
    }
}

/// The variables of a block in the order in which they were made, found by name.
#[derive(Default)]
struct VarTable {
    next: u64,
    by_name: HashMap<String, u64>,
    in_order: BTreeMap<u64, Arc<VarNode>>,
}

impl VarTable {
    fn get(&self, name: &str) -> Option<&Arc<VarNode>> {
        self.by_name.get(name).map(|seq| &self.in_order[seq])
    }

    /// Puts a variable at the end, or in the place of the one of the same name.
    fn put(&mut self, name: &str, var: Arc<VarNode>) {
        let next = &mut self.next;
        let seq = *self.by_name.entry(name.to_string()).or_insert_with(|| {
            *next += 1;
            *next
        });
        self.in_order.insert(seq, var);
    }

    fn remove(&mut self, name: &str) -> Option<Arc<VarNode>> {
        let seq = self.by_name.remove(name)?;
        self.in_order.remove(&seq)
    }
}

struct BlockState {
    parent_idx: i32,
    forward_block_idx: Option<i32>,
    vars: VarTable,
    ops: Vec<Arc<OpNode>>,
    unknown: Vec<u8>,
}

pub struct BlockNode {
    idx: i32,
    program: Weak<Program>,
    revision: Revision,
    state: RwLock<BlockState>,
}

impl BlockNode {
    fn new(desc: BlockDesc, program: &Weak<Program>, revision: &Revision) -> Arc<BlockNode> {
        Arc::new_cyclic(|this| {
            let mut vars = VarTable::default();
            for var in desc.vars {
                let name = var.name.clone();
                vars.put(&name, Arc::new(VarNode { desc: RwLock::new(var), revision: revision.clone() }));
            }
            let ops = desc.ops.into_iter().map(|op| OpNode::new(op, revision.clone(), this.clone())).collect();
            let state = BlockState {
                parent_idx: desc.parent_idx,
                forward_block_idx: desc.forward_block_idx,
                vars,
                ops,
                unknown: desc.unknown,
            };
            BlockNode { idx: desc.idx, program: program.clone(), revision: revision.clone(), state: RwLock::new(state) }
        })
    }

    pub fn idx(&self) -> i32 {
        self.idx
    }

    pub fn program(&self) -> Option<Arc<Program>> {
        self.program.upgrade()
    }

    pub fn parent_idx(&self) -> i32 {
        self.state.read().parent_idx
    }

    pub fn forward_block_idx(&self) -> i32 {
        self.state.read().forward_block_idx.unwrap_or(NO_BLOCK)
    }

    /// The forward block of a gradient block; it can be set once.
    pub fn set_forward_block_idx(&self, idx: i32) -> Result<()> {
        if let Some(program) = self.program() {
            program.check_block(idx, "forward block")?;
        }
        let mut state = self.state.write();
        if let Some(have) = state.forward_block_idx {
            bail!(PreconditionNotMet, "the forward block of block {} is {have} and cannot become {idx}", self.idx);
        }
        state.forward_block_idx = Some(idx);
        self.revision.bump();
        Ok(())
    }

    /// The block around this one.
    pub fn parent(&self) -> Option<Arc<BlockNode>> {
        self.program()?.block(self.parent_idx())
    }

    pub fn forward_block(&self) -> Option<Arc<BlockNode>> {
        self.program()?.block(self.forward_block_idx())
    }

    /// The variable of this name, made where there is none.
    pub fn var(&self, name: &str) -> Arc<VarNode> {
        if let Some(var) = self.find_var(name) {
            return var;
        }
        let mut state = self.state.write();
        if let Some(var) = state.vars.get(name) {
            return var.clone();
        }
        let var = Arc::new(VarNode { desc: RwLock::new(VarDesc::new(name)), revision: self.revision.clone() });
        state.vars.put(name, var.clone());
        self.revision.bump();
        var
    }

    /// Puts a variable with this description into the block.
    pub fn put_var(&self, desc: VarDesc) -> Arc<VarNode> {
        let name = desc.name.clone();
        let var = Arc::new(VarNode { desc: RwLock::new(desc), revision: self.revision.clone() });
        self.state.write().vars.put(&name, var.clone());
        self.revision.bump();
        var
    }

    pub fn find_var(&self, name: &str) -> Option<Arc<VarNode>> {
        self.state.read().vars.get(name).cloned()
    }

    pub fn has_var(&self, name: &str) -> bool {
        self.state.read().vars.get(name).is_some()
    }

    /// The variable as seen from this block: its own, then those of forward blocks and parents, the nearest first.
    pub fn find_var_recursive(&self, name: &str) -> Option<Arc<VarNode>> {
        if name == EMPTY_VAR_NAME {
            return None;
        }
        if let Some(var) = self.find_var(name) {
            return Some(var);
        }
        let mut seen = HashSet::from([self.idx]);
        let mut waiting = VecDeque::from([self.forward_block(), self.parent()]);
        while let Some(next) = waiting.pop_front() {
            let Some(block) = next.filter(|b| seen.insert(b.idx)) else { continue };
            if let Some(var) = block.find_var(name) {
                return Some(var);
            }
            waiting.extend([block.forward_block(), block.parent()]);
        }
        None
    }

    pub fn all_vars(&self) -> Vec<Arc<VarNode>> {
        self.state.read().vars.in_order.values().cloned().collect()
    }

    pub fn remove_var(&self, name: &str) -> bool {
        let removed = self.state.write().vars.remove(name).is_some();
        if removed {
            self.revision.bump();
        }
        removed
    }

    /// Renames a variable, also in the operators of this block. Handles to the variable under its old name keep that.
    pub fn rename_var(&self, old: &str, new: &str) -> Option<Arc<VarNode>> {
        let mut state = self.state.write();
        let mut desc = state.vars.get(old)?.read().clone();
        desc.name = new.to_string();
        let var = Arc::new(VarNode { desc: RwLock::new(desc), revision: self.revision.clone() });
        if old != new {
            if let Some(seq) = state.vars.by_name.remove(old) {
                state.vars.remove(new);
                state.vars.by_name.insert(new.to_string(), seq);
            }
        }
        state.vars.put(new, var.clone());
        for op in &state.ops {
            op.modify(|d| {
                d.rename_input(old, new);
                d.rename_output(old, new);
            });
        }
        self.revision.bump();
        Some(var)
    }

    pub fn op_count(&self) -> usize {
        self.state.read().ops.len()
    }

    pub fn op(&self, index: usize) -> Option<Arc<OpNode>> {
        self.state.read().ops.get(index).cloned()
    }

    pub fn all_ops(&self) -> Vec<Arc<OpNode>> {
        self.state.read().ops.clone()
    }

    /// Makes an operator before the one at `index` (at the end where it is the number of operators).
    pub fn insert_op(self: &Arc<Self>, index: usize, desc: OpDesc) -> Result<Arc<OpNode>> {
        let mut state = self.state.write();
        let n = state.ops.len();
        ensure!(
            index <= n,
            OutOfRange,
            "an operator cannot be inserted at {index} into block {} of {n} operators",
            self.idx
        );
        let op = OpNode::new(desc, self.revision.clone(), Arc::downgrade(self));
        state.ops.insert(index, op.clone());
        self.revision.bump();
        Ok(op)
    }

    pub fn append_op(self: &Arc<Self>, desc: OpDesc) -> Arc<OpNode> {
        let op = OpNode::new(desc, self.revision.clone(), Arc::downgrade(self));
        self.state.write().ops.push(op.clone());
        self.revision.bump();
        op
    }

    /// Removes the operators `start..end`; a range that is not there removes nothing, as in Paddle.
    pub fn remove_ops(&self, start: usize, end: usize) {
        let mut state = self.state.write();
        if start < end && end <= state.ops.len() {
            state.ops.drain(start..end);
            self.revision.bump();
        }
    }

    /// A copy as plain values.
    pub fn to_desc(&self) -> BlockDesc {
        let state = self.state.read();
        BlockDesc {
            idx: self.idx,
            parent_idx: state.parent_idx,
            forward_block_idx: state.forward_block_idx,
            vars: state.vars.in_order.values().map(|v| v.read().clone()).collect(),
            ops: state.ops.iter().map(|o| o.read().clone()).collect(),
            unknown: state.unknown.clone(),
        }
    }
}

struct ProgramState {
    blocks: Vec<Arc<BlockNode>>,
    version: Option<Version>,
    op_version_map: Option<OpVersionMap>,
    unknown: Vec<u8>,
}

pub struct Program {
    uid: u64,
    revision: Revision,
    this: Weak<Program>,
    state: RwLock<ProgramState>,
}

static NEXT_UID: AtomicU64 = AtomicU64::new(1);

impl Program {
    /// An empty Program: one global block.
    pub fn new() -> Arc<Program> {
        Program::build(ProgramDesc::default())
    }

    /// A Program with these blocks; an error where one refers to a block that is not there.
    pub fn from_desc(desc: ProgramDesc) -> Result<Arc<Program>> {
        check(&desc)?;
        Ok(Program::build(desc))
    }

    pub fn parse(bytes: &[u8]) -> Result<Arc<Program>> {
        Program::from_desc(ProgramDesc::decode(bytes)?)
    }

    fn build(desc: ProgramDesc) -> Arc<Program> {
        let uid = NEXT_UID.fetch_add(1, Ordering::Relaxed);
        Arc::new_cyclic(|this| {
            let revision = Revision::default();
            let state = ProgramState::new(desc, this, &revision);
            Program { uid, revision, this: this.clone(), state: RwLock::new(state) }
        })
    }

    /// Puts the contents of a file in the place of what is there.
    pub fn replace(&self, desc: ProgramDesc) -> Result<()> {
        check(&desc)?;
        let new = ProgramState::new(desc, &self.this, &self.revision);
        let old = std::mem::replace(&mut *self.state.write(), new);
        self.revision.bump();
        drop(old);
        Ok(())
    }

    /// A number that no other Program of this process has.
    pub fn uid(&self) -> u64 {
        self.uid
    }

    /// Counts the changes: what was computed from an equal `(uid, revision)` still holds.
    pub fn revision(&self) -> u64 {
        self.revision.0.load(Ordering::Acquire)
    }

    pub fn block_count(&self) -> usize {
        self.state.read().blocks.len()
    }

    pub fn block(&self, idx: i32) -> Option<Arc<BlockNode>> {
        self.state.read().blocks.get(usize::try_from(idx).ok()?).cloned()
    }

    pub fn blocks(&self) -> Vec<Arc<BlockNode>> {
        self.state.read().blocks.clone()
    }

    fn check_block(&self, idx: i32, what: &str) -> Result<()> {
        let n = self.block_count();
        ensure!(
            (NO_BLOCK..n as i32).contains(&idx),
            OutOfRange,
            "{what} {idx} is not one of the {n} blocks of the Program"
        );
        Ok(())
    }

    /// Adds an empty block inside `parent_idx`.
    pub fn append_block(&self, parent_idx: i32) -> Result<Arc<BlockNode>> {
        self.check_block(parent_idx, "parent block")?;
        let mut state = self.state.write();
        let idx = state.blocks.len() as i32;
        let block = BlockNode::new(BlockDesc::new(idx, parent_idx), &self.this, &self.revision);
        state.blocks.push(block.clone());
        self.revision.bump();
        Ok(block)
    }

    /// The version of Paddle that wrote it, 0 where it is not said.
    pub fn version(&self) -> i64 {
        self.state.read().version.as_ref().and_then(|v| v.version).unwrap_or(0)
    }

    pub fn set_version(&self, version: i64) {
        self.state.write().version.get_or_insert_default().version = Some(version);
        self.revision.bump();
    }

    /// Versions of operators' definitions, by the operator's name.
    pub fn op_versions(&self) -> Vec<(String, i32)> {
        let state = self.state.read();
        state.op_version_map.iter().flat_map(|m| &m.pairs).map(|p| (p.op_name.clone(), p.version)).collect()
    }

    /// Sets the versions of the named operators; others keep theirs.
    pub fn set_op_versions<'a>(&self, versions: impl IntoIterator<Item = (&'a str, i32)>) {
        let mut state = self.state.write();
        let pairs = &mut state.op_version_map.get_or_insert_default().pairs;
        for (name, version) in versions {
            match pairs.iter_mut().find(|p| p.op_name == name) {
                Some(pair) => pair.version = version,
                None => pairs.push(OpVersion { op_name: name.to_string(), version, unknown: Vec::new() }),
            }
        }
        self.revision.bump();
    }

    /// The variables that the feed operators fill, by their column.
    pub fn feed_targets(&self) -> Result<Vec<String>> {
        self.targets("feed", |op| op.output("Out"))
    }

    /// The variables that the fetch operators take, by their column.
    pub fn fetch_targets(&self) -> Result<Vec<String>> {
        self.targets("fetch", |op| op.input("X"))
    }

    fn targets(&self, op_type: &str, args: impl Fn(&OpDesc) -> Option<&[String]>) -> Result<Vec<String>> {
        let Some(global) = self.block(0) else { return Ok(Vec::new()) };
        let ops = global.all_ops();
        let mut names: Vec<String> = Vec::new();
        for op in &ops {
            let op = op.read();
            if op.op_type != op_type {
                continue;
            }
            let Some(&Attr::Int(col)) = op.attrs.get("col") else {
                bail!(NotFound, "a {op_type} operator has no attribute `col`");
            };
            let name = args(&op).and_then(|a| a.first());
            let name = name.ok_or_else(|| err!(NotFound, "a {op_type} operator names no variable"))?;
            // A column is a position among these operators: anything else would ask for memory without bound.
            let at = usize::try_from(col).ok().filter(|&c| c < ops.len());
            let at = at.ok_or_else(|| err!(OutOfRange, "a {op_type} operator has the column {col}"))?;
            if names.len() <= at {
                names.resize(at + 1, String::new());
            }
            names[at].clone_from(name);
        }
        Ok(names)
    }

    /// A copy as plain values.
    pub fn to_desc(&self) -> ProgramDesc {
        let state = self.state.read();
        ProgramDesc {
            blocks: state.blocks.iter().map(|b| b.to_desc()).collect(),
            version: state.version.clone(),
            op_version_map: state.op_version_map.clone(),
            unknown: state.unknown.clone(),
        }
    }

    /// A Program of its own with the same contents.
    pub fn copy(&self) -> Arc<Program> {
        Program::build(self.to_desc())
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_desc().to_bytes()
    }
}

impl ProgramState {
    fn new(desc: ProgramDesc, program: &Weak<Program>, revision: &Revision) -> ProgramState {
        ProgramState {
            blocks: desc.blocks.into_iter().map(|b| BlockNode::new(b, program, revision)).collect(),
            version: desc.version,
            op_version_map: desc.op_version_map,
            unknown: desc.unknown,
        }
    }
}

/// Refuses references to blocks that are not there, and parents in a circle.
fn check(desc: &ProgramDesc) -> Result<()> {
    let n = desc.blocks.len() as i32;
    let known = |idx: i32, what: &str| -> Result<()> {
        ensure!((0..n).contains(&idx), InvalidArgument, "{what} refers to block {idx}, but the Program has {n} blocks");
        Ok(())
    };
    for (at, block) in desc.blocks.iter().enumerate() {
        ensure!(block.idx == at as i32, InvalidArgument, "block {at} of a Program says that it is block {}", block.idx);
        if block.parent_idx != NO_BLOCK {
            known(block.parent_idx, "a block's parent")?;
            ensure!(
                block.parent_idx < block.idx,
                InvalidArgument,
                "block {at} of a Program is inside block {}",
                block.parent_idx
            );
        }
        if let Some(forward) = block.forward_block_idx.filter(|&idx| idx != NO_BLOCK) {
            known(forward, "a block's forward block")?;
        }
        for op in &block.ops {
            for (name, attr) in &op.attrs {
                let what = || format!("attribute `{name}` of operator {} in block {at}", op.op_type);
                match attr {
                    Attr::Block(idx) => known(*idx, &what())?,
                    Attr::Blocks(list) => list.iter().try_for_each(|idx| known(*idx, &what()))?,
                    _ => {}
                }
            }
        }
    }
    Ok(())
}
