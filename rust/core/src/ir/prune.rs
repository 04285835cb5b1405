//! Pruned Programs: what given operators need (for inference), and all but the backward pass (for testing).

use super::desc::*;
use super::{Attr, OpDesc, ProgramDesc};
use crate::base::Result;
use crate::{ensure, err};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Bits of the attribute `op_role`.
pub const ROLE_BACKWARD: i32 = 1;
pub const ROLE_OPTIMIZE: i32 = 2;
pub const ROLE_LR_SCHED: i32 = 16;
pub const ROLE_LOSS: i32 = 256;

/// Block numbers of the pruned Program -> block numbers of the original.
pub type BlockMap = BTreeMap<i32, i32>;

/// Deeper nesting is refused: the recursion would overflow the stack.
const MAX_DEPTH: usize = 256;

fn role(op: &OpDesc) -> i32 {
    match op.attrs.get("op_role") {
        Some(&Attr::Int(role)) => role,
        _ => 0,
    }
}

/// The blocks that an operator runs. (Block 0 is never inside an operator.)
fn sub_blocks(op: &OpDesc) -> Vec<i32> {
    let mut out = Vec::new();
    for attr in op.attrs.values() {
        match attr {
            Attr::Block(idx) => out.push(*idx),
            Attr::Blocks(list) => out.extend(list),
            _ => {}
        }
    }
    out.retain(|&idx| idx > 0);
    out
}

/// Replaces the original's block numbers by those of the pruned Program.
fn renumber(blocks: &mut [BlockDesc], map: &BlockMap) -> Result<()> {
    // If a block was taken twice, the first copy counts.
    let mut new_of: HashMap<i32, i32> = HashMap::new();
    for (new, old) in map {
        new_of.entry(*old).or_insert(*new);
    }
    let renumber = |idx: &mut i32| -> Result<()> {
        if *idx > 0 {
            *idx = *new_of.get(idx).ok_or_else(|| err!(NotFound, "block {idx} is used, but was pruned"))?;
        }
        Ok(())
    };
    for block in blocks {
        if let Some(forward) = block.forward_block_idx.filter(|&idx| idx > 0) {
            block.forward_block_idx = new_of.get(&forward).copied();
        }
        for op in &mut block.ops {
            if sub_blocks(op).is_empty() {
                continue;
            }
            for (_, attr) in op.attrs.iter_mut() {
                match attr {
                    Attr::Block(idx) => renumber(idx)?,
                    Attr::Blocks(list) => list.iter_mut().try_for_each(renumber)?,
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

struct Pruner<'a> {
    whole: &'a ProgramDesc,
    feeds: &'a HashSet<String>,
    /// Block and position of the target operators.
    targets: HashSet<(usize, usize)>,
    blocks: Vec<BlockDesc>,
    map: BlockMap,
    /// Blocks of the original that were taken.
    taken: HashSet<i32>,
}

/// The part of a Program that is needed to run the operators `targets` (block and position of each) when the variables
/// `feeds` are fed.
pub fn prune(
    whole: &ProgramDesc,
    feeds: &HashSet<String>,
    targets: &[(usize, usize)],
) -> Result<(ProgramDesc, BlockMap)> {
    for &(block, op) in targets {
        let there = whole.blocks.get(block).is_some_and(|b| op < b.ops.len());
        ensure!(there, OutOfRange, "a target is operator {op} of block {block}, which is not in the Program");
    }
    let mut p = Pruner {
        whole,
        feeds,
        targets: targets.iter().copied().collect(),
        blocks: Vec::new(),
        map: BlockMap::new(),
        taken: HashSet::new(),
    };
    p.block(0, NO_BLOCK, HashSet::new(), 0)?;
    renumber(&mut p.blocks, &p.map)?;
    let part = ProgramDesc { blocks: p.blocks, version: None, op_version_map: None, unknown: Vec::new() };
    Ok((part, p.map))
}

impl Pruner<'_> {
    /// Copies block `old` of the original into the pruned Program, inside its block `parent`. `needed` are variables
    /// that the enclosing operator reads or writes.
    fn block(&mut self, old: i32, parent: i32, mut needed: HashSet<String>, depth: usize) -> Result<()> {
        ensure!(depth < MAX_DEPTH, InvalidArgument, "blocks of a Program are nested more than {MAX_DEPTH} deep");
        let whole = self.whole;
        let block = whole.blocks.get(old as usize).ok_or_else(|| err!(NotFound, "the Program has no block {old}"))?;
        let (first, last) = (
            block.ops.iter().position(|op| op.op_type != "feed").unwrap_or(block.ops.len()),
            block.ops.iter().rposition(|op| op.op_type != "fetch").map_or(0, |at| at + 1),
        );
        let stray = |ops: &[OpDesc], kind: &str| ops.iter().any(|op| op.op_type == kind);
        ensure!(
            !stray(&block.ops[first..], "feed"),
            PreconditionNotMet,
            "all feed operators must be at the beginning of the block"
        );
        ensure!(
            !stray(&block.ops[..last], "fetch"),
            PreconditionNotMet,
            "all fetch operators must be at the end of the block"
        );

        let mut keep = vec![false; block.ops.len()];
        for (at, op) in block.ops.iter().enumerate().rev() {
            let target = op.is_target == Some(true) || self.targets.contains(&(old as usize, at));
            // An optimizer's operator reads and writes parameters: it is kept only if it is a target itself.
            let feeds_needed = role(op) & ROLE_OPTIMIZE == 0 && op.output_args().any(|name| needed.contains(name));
            if target || feeds_needed {
                keep[at] = true;
                needed.extend(op.input_args().filter(|name| !self.feeds.contains(*name)).cloned());
            } else if parent != NO_BLOCK {
                // A loop may pass on a fed variable, as beam search does.
                keep[at] = op.output_args().any(|name| self.feeds.contains(name));
            }
        }

        let new = self.blocks.len() as i32;
        let mut part = BlockDesc { idx: new, parent_idx: parent, vars: Vec::new(), ops: Vec::new(), ..block.clone() };
        self.map.insert(new, old);
        self.taken.insert(old);
        self.blocks.push(BlockDesc::new(new, parent));
        for (at, op) in block.ops.iter().enumerate().filter(|(at, _)| keep[*at]) {
            let mut op = op.clone();
            if self.targets.contains(&(old as usize, at)) {
                op.is_target = Some(true);
            }
            for sub in sub_blocks(&op) {
                if self.taken.contains(&sub) {
                    continue;
                }
                let mut inner: Vec<&String> = op.input_args().chain(op.output_args()).collect();
                if op.op_type == "recurrent" {
                    for states in ["states", "ex_states"] {
                        if let Some(Attr::Strings(names)) = op.attrs.get(states) {
                            inner.extend(names);
                        }
                    }
                }
                let inner = inner.into_iter().filter(|name| !self.feeds.contains(*name)).cloned().collect();
                self.block(sub, new, inner, depth + 1)?;
            }
            part.ops.push(op);
        }
        let used: BTreeSet<&String> = part.ops.iter().flat_map(|op| op.input_args().chain(op.output_args())).collect();
        let by_name: HashMap<&String, &VarDesc> = block.vars.iter().map(|var| (&var.name, var)).collect();
        part.vars = used.into_iter().filter_map(|name| by_name.get(name)).map(|&var| var.clone()).collect();
        self.blocks[new as usize] = part;
        Ok(())
    }
}

/// The forward part of a Program, and its blocks by their old numbers; without backward part a copy and an empty map.
pub fn prune_backward(whole: &ProgramDesc) -> Result<(ProgramDesc, BlockMap)> {
    let of_loss = |op: &OpDesc| role(op) == ROLE_BACKWARD | ROLE_LOSS;
    if !whole.blocks.iter().any(|block| block.ops.iter().any(of_loss)) {
        return Ok((whole.clone(), BlockMap::new()));
    }
    let mut blocks: Vec<BlockDesc> = Vec::new();
    let mut map = BlockMap::new();
    let mut new_of = HashMap::from([(NO_BLOCK, NO_BLOCK)]);
    for block in &whole.blocks {
        let not_forward = ROLE_BACKWARD | ROLE_OPTIMIZE | ROLE_LR_SCHED;
        let ops = block.ops.iter().filter(|op| role(op) & not_forward == 0 && op.is_target != Some(false));
        let ops: Vec<OpDesc> = ops.cloned().collect();
        // A block without operators belonged to the backward pass.
        if ops.is_empty() {
            continue;
        }
        let used: HashSet<&String> = ops.iter().flat_map(|op| op.input_args().chain(op.output_args())).collect();
        let vars = block.vars.iter().filter(|var| used.contains(&var.name)).cloned().collect();
        let parent = new_of.get(&block.parent_idx);
        let parent = *parent.ok_or_else(|| err!(NotFound, "block {} is used, but was pruned", block.parent_idx))?;
        let new = blocks.len() as i32;
        new_of.insert(block.idx, new);
        map.insert(new, block.idx);
        blocks.push(BlockDesc { ops, vars, ..BlockDesc::new(new, parent) });
    }
    renumber(&mut blocks, &map)?;
    Ok((ProgramDesc { blocks, version: None, op_version_map: None, unknown: Vec::new() }, map))
}
