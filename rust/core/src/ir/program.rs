//! A Program that is being built, from its blocks (see `block`).

use super::codec::Message;
use super::desc::*;
use super::nodes::{BlockNode, Program, ProgramState, Revision};
use super::Attr;
use crate::base::Result;
use crate::{bail, ensure, err};
use parking_lot::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

static NEXT_UID: AtomicU64 = AtomicU64::new(1);

impl Program {
    /// An empty Program: one global block.
    pub fn new() -> Arc<Program> {
        Program::build(ProgramDesc::default())
    }

    /// A Program with these blocks; an error if one refers to a missing block.
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

    /// Replaces the contents by those of a file.
    pub fn replace(&self, desc: ProgramDesc) -> Result<()> {
        check(&desc)?;
        let new = ProgramState::new(desc, &self.this, &self.revision);
        let old = std::mem::replace(&mut *self.state.write(), new);
        self.revision.bump();
        drop(old);
        Ok(())
    }

    /// A number that is unique in this process.
    pub fn uid(&self) -> u64 {
        self.uid
    }

    /// The number of changes: results computed for an equal `(uid, revision)` are still valid.
    pub fn revision(&self) -> u64 {
        self.revision.get()
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

    pub(super) fn check_block(&self, idx: i32, what: &str) -> Result<()> {
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

    /// The version of Paddle that wrote it; 0 if unknown.
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

    /// The variables that the feed operators fill, by column.
    pub fn feed_targets(&self) -> Result<Vec<String>> {
        self.targets("feed", |op| op.output("Out"))
    }

    /// The variables that the fetch operators read, by column.
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
            // A column is a position among these operators: any other number would ask for unbounded memory.
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

    /// An independent Program with the same contents.
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

/// An error if a block refers to a missing block, or parents form a cycle.
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
