//! Blocks, variables and operators of a Program that is being built: shared nodes, so that a handle stays valid
//! whatever is added or removed around it. Every change through any handle increments the Program's revision.

use super::desc::*;
use super::nodes::{BlockNode, BlockState, OpNode, Program, Revision, VarNode, VarTable};
use super::{Attr, AttrMap};
use crate::base::Result;
use crate::{bail, ensure};
use parking_lot::{RwLock, RwLockReadGuard};
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Weak};

/// The slot entry that stands for no variable.
pub const EMPTY_VAR_NAME: &str = "@EMPTY@";

impl VarNode {
    /// A variable without block.
    pub fn alone(name: &str) -> Arc<VarNode> {
        Arc::new(VarNode { desc: RwLock::new(VarDesc::new(name)), revision: Revision::default() })
    }

    pub fn read(&self) -> RwLockReadGuard<'_, VarDesc> {
        self.desc.read()
    }

    /// Changes the description; `change` returns whether it did.
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

impl OpNode {
    /// An operator without block.
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

    /// Sets the Program whose blocks the attributes name, for an operator without block.
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

impl BlockNode {
    pub(super) fn new(desc: BlockDesc, program: &Weak<Program>, revision: &Revision) -> Arc<BlockNode> {
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

    /// The enclosing block.
    pub fn parent(&self) -> Option<Arc<BlockNode>> {
        self.program()?.block(self.parent_idx())
    }

    pub fn forward_block(&self) -> Option<Arc<BlockNode>> {
        self.program()?.block(self.forward_block_idx())
    }

    /// The variable of this name, created if absent.
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

    /// Creates an operator before the one at `index` (at the end if it is the number of operators).
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

    /// Removes the operators `start..end`; an invalid range removes nothing, as in Paddle.
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
