//! Compiles a block of a Program into an execution plan.

use super::bind::find_op;
use super::passes::{self, Passes};
use super::plan::{at_line, ExecutionPlan, PlanVar, Read, Step, Storage, Var, ABSENT};
use super::schedule::Schedule;
use oar_core::base::Result;
use oar_core::ir::names::EMPTY;
use oar_core::ir::{BlockNode, Program};
use oar_core::op::{Args, SlotFlag};
use std::collections::{HashMap, HashSet};

/// Names that operators of other blocks than `block` use.
fn used_elsewhere(program: &Program, block: i32) -> HashSet<String> {
    let mut names = HashSet::new();
    for b in program.blocks().iter().filter(|b| b.idx() != block) {
        for op in b.all_ops() {
            let op = op.read();
            names.extend(op.inputs.iter().chain(&op.outputs).flat_map(|(_, v)| v.iter().cloned()));
        }
    }
    names
}

struct Builder<'a> {
    block: &'a BlockNode,
    elsewhere: HashSet<String>,
    numbers: HashMap<String, Var>,
    vars: Vec<PlanVar>,
}

impl Builder<'_> {
    fn var(&mut self, name: &str) -> Var {
        if name.is_empty() || name == EMPTY {
            return ABSENT;
        }
        if let Some(&v) = self.numbers.get(name) {
            return v;
        }
        let node = self.block.find_var(name);
        let outer = node.as_ref().is_none_or(|n| n.read().is_persistable());
        let place = if outer {
            Storage::Outer
        } else if self.block.idx() != 0 || self.elsewhere.contains(name) {
            Storage::Local
        } else {
            Storage::Temporary
        };
        let number = self.vars.len() as Var;
        self.vars.push(PlanVar { name: name.to_string(), place, declared: node.is_some() });
        self.numbers.insert(name.to_string(), number);
        number
    }
}

/// Compiles a block. Of the fetches in `shapes` only the shape is needed.
pub fn compile(
    program: &Program,
    block: i32,
    feeds: &[String],
    fetches: &[String],
    shapes: &HashSet<String>,
    passes: Passes,
) -> Result<ExecutionPlan> {
    let node =
        program.block(block).ok_or_else(|| oar_core::err!(InvalidArgument, "the Program has no block {block}"))?;
    let elsewhere = if program.block_count() > 1 { used_elsewhere(program, block) } else { HashSet::new() };
    let mut b = Builder { block: &node, elsewhere, numbers: HashMap::new(), vars: Vec::new() };
    let mut steps = Vec::new();
    for op_node in node.all_ops() {
        let desc = op_node.read().clone();
        match desc.op_type.as_str() {
            // The feeds and fetches of the call replace these operators.
            "feed" if covers(&desc.outputs, feeds) => continue,
            "fetch" if !fetches.is_empty() => continue,
            _ => {}
        }
        let op = find_op(&desc.op_type).map_err(|e| at_line(e, &desc))?;
        let attrs = op.attrs.parse(op.name, &desc.attrs).map_err(|e| at_line(e, &desc))?;
        let (mut ins, mut outs) = (Args::new(), Args::new());
        for s in op.inputs {
            let names = desc.input(s.name).unwrap_or(&[]);
            let vars: Vec<Var> = names.iter().map(|n| b.var(n)).collect();
            ins.push_slot(vars);
        }
        for s in op.outputs {
            let names = desc.output(s.name).unwrap_or(&[]);
            let vars: Vec<Var> = names.iter().map(|n| b.var(n)).collect();
            outs.push_slot(vars);
        }
        let mut in_place = Vec::new();
        for (o, s) in op.outputs.iter().enumerate() {
            let Some(i) = s.alias.and_then(|name| op.input(name)) else { continue };
            for (from, to) in ins.range(i).zip(outs.range(o)) {
                if ins.flat[from] == outs.flat[to] && ins.flat[from] != ABSENT {
                    in_place.push((from as u32, to as u32));
                }
            }
        }
        let read = |(i, &v): (usize, &Var)| match () {
            () if in_place.iter().any(|p| p.0 as usize == i) => Read::No,
            () if in_place.iter().any(|p| ins.flat[p.0 as usize] == v) => Read::Value,
            () => Read::Storage,
        };
        let reads = if in_place.is_empty() { Vec::new() } else { ins.flat.iter().enumerate().map(read).collect() };
        let keeping = op.outputs.iter().enumerate().filter(|(_, s)| s.has(SlotFlag::InPlace));
        let keeps = keeping.flat_map(|(o, _)| outs.range(o)).filter(|&o| outs.flat[o] != ABSENT);
        let keeps = keeps.map(|o| o as u32).collect();
        steps.push(Step { op, attrs, ins, outs, in_place, reads, keeps, dead: Vec::new(), release: Vec::new(), desc });
    }
    let known = |b: &Builder, n: &String| b.numbers.contains_key(n) || node.find_var_recursive(n).is_some();
    let feeds = feeds.iter().map(|n| known(&b, n).then(|| b.var(n))).collect();
    let of_shapes = fetches.iter().filter(|n| shapes.contains(*n)).map(|n| b.var(n)).collect();
    let fetches: Vec<Var> = fetches.iter().map(|n| b.var(n)).collect();
    let vars = b.vars;
    let mut plan = ExecutionPlan {
        vars,
        steps,
        feeds,
        fetches,
        shapes: of_shapes,
        block,
        groups: Vec::new(),
        tasks: Vec::new(),
        schedule: Schedule::default(),
        captured: Default::default(),
        found: Default::default(),
        dropped: Vec::new(),
        needs: Vec::new(),
    };
    passes::run(&mut plan, &node, passes);
    Ok(plan)
}

fn covers(outputs: &[(String, Vec<String>)], feeds: &[String]) -> bool {
    outputs.iter().flat_map(|(_, v)| v).all(|n| feeds.contains(n))
}
