//! The shared nodes of a Program that is being built. Their methods are in block.rs and program.rs.

use super::desc::{OpDesc, OpVersionMap, VarDesc, Version};
use parking_lot::RwLock;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Counts changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Revision(Arc<AtomicU64>);

impl Revision {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn bump(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

pub struct Program {
    pub(super) uid: u64,
    pub(super) revision: Revision,
    pub(super) this: Weak<Program>,
    pub(super) state: RwLock<ProgramState>,
}

pub(super) struct ProgramState {
    pub(super) blocks: Vec<Arc<BlockNode>>,
    pub(super) version: Option<Version>,
    pub(super) op_version_map: Option<OpVersionMap>,
    pub(super) unknown: Vec<u8>,
}

pub struct BlockNode {
    pub(super) idx: i32,
    pub(super) program: Weak<Program>,
    pub(super) revision: Revision,
    pub(super) state: RwLock<BlockState>,
}

pub(super) struct BlockState {
    pub(super) parent_idx: i32,
    pub(super) forward_block_idx: Option<i32>,
    pub(super) vars: VarTable,
    pub(super) ops: Vec<Arc<OpNode>>,
    pub(super) unknown: Vec<u8>,
}

/// The variables of a block in order of creation, with an index by name.
#[derive(Default)]
pub(super) struct VarTable {
    pub(super) next: u64,
    pub(super) by_name: HashMap<String, u64>,
    pub(super) in_order: BTreeMap<u64, Arc<VarNode>>,
}

impl VarTable {
    pub(super) fn get(&self, name: &str) -> Option<&Arc<VarNode>> {
        self.by_name.get(name).map(|seq| &self.in_order[seq])
    }

    /// Appends a variable, or replaces the one of the same name.
    pub(super) fn put(&mut self, name: &str, var: Arc<VarNode>) {
        let next = &mut self.next;
        let seq = *self.by_name.entry(name.to_string()).or_insert_with(|| {
            *next += 1;
            *next
        });
        self.in_order.insert(seq, var);
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Arc<VarNode>> {
        let seq = self.by_name.remove(name)?;
        self.in_order.remove(&seq)
    }
}

pub struct VarNode {
    pub(super) desc: RwLock<VarDesc>,
    pub(super) revision: Revision,
}

pub struct OpNode {
    pub(super) desc: RwLock<OpDesc>,
    pub(super) revision: Revision,
    /// The block of the operator; for an operator without block the global block of the Program whose blocks its
    /// attributes name.
    pub(super) block: RwLock<Weak<BlockNode>>,
}
