//! A plan: one block of a Program compiled for a set of feeds and fetches. Names became numbers, attributes typed
//! structs, and the last use of every temporary is known. A plan is immutable; the state of a run is apart.
//!
//! A variable lives in one of two places. A *temporary* is a value of the run alone, dropped after its last use. A
//! *cell* is a variable of a Scope: persistables, whatever a sub-block names, everything in a sub-block.

use super::bind::find_op;
pub use super::passes::fuse::Group;
use super::passes::{self, Passes};
use super::schedule::Schedule;
use oar_core::base::{DType, Dims, Result};
use oar_core::ir::desc::OpDesc;
use oar_core::ir::names::EMPTY;
use oar_core::ir::{Attr, BlockNode, Program};
use oar_core::op::pointwise::PointwiseCall;
use oar_core::op::{Args, Attrs, Op, KEEPS};
use std::collections::{HashMap, HashSet};

pub type Var = u32;
/// An empty name (`@EMPTY@`): an absent input, an unwanted output.
pub const ABSENT: Var = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    Temporary,
    /// A cell of the scope the program runs in, found through parents.
    Outer,
    /// A cell of the scope of this run (or of this step of a loop).
    Local,
}

pub struct PlanVar {
    pub name: String,
    pub place: Storage,
    /// The Program's block has it.
    pub declared: bool,
}

pub struct Step {
    pub op: &'static Op,
    pub attrs: Attrs,
    pub ins: Args<Var>,
    pub outs: Args<Var>,
    /// Pairs (input, output) in flat positions: computed in the variable of the input.
    pub in_place: Vec<(u32, u32)>,
    /// For steps with `in_place`: how each input (flat position) is read.
    pub reads: Vec<Read>,
    /// Outputs (flat positions) that start from what their variable holds.
    pub keeps: Vec<u32>,
    /// Temporaries that nobody reads after this step.
    pub dead: Vec<Var>,
    /// Temporaries of which only the shape is read after this step.
    pub release: Vec<Var>,
    /// The desc, for names, sub-blocks and the user's line.
    pub desc: OpDesc,
}

pub struct Plan {
    pub vars: Vec<PlanVar>,
    pub steps: Vec<Step>,
    /// Where each feed goes; `None`: the Program has no such variable.
    pub feeds: Vec<Option<Var>>,
    pub fetches: Vec<Var>,
    pub block: i32,
    /// Steps that run as one, and everything in order: groups, and the steps that are in none.
    pub groups: Vec<Group>,
    pub tasks: Vec<Task>,
    pub schedule: Schedule,
    /// Operators that were left out, and what must hold for that.
    pub dropped: Vec<&'static str>,
    pub needs: Vec<Need>,
}

/// How a step that writes in place reads an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// As others may be changing it.
    Storage,
    /// As it is now: the step itself changes it.
    Value,
    /// It is written.
    No,
}

/// What runs as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Step(usize),
    Group(usize),
}

/// A variable from outside that must be as declared (-1: any size).
pub struct Need {
    pub var: Var,
    pub dtype: DType,
    pub dims: Dims,
}

impl Step {
    /// What it computes element by element, if that is all it does.
    pub fn pointwise(&self) -> Option<PointwiseCall<'_>> {
        let rule = self.op.pointwise.filter(|_| self.op.is_pure())?;
        let (ins, outs) = (self.ins.map(|&v| v != ABSENT), self.outs.map(|&v| v != ABSENT));
        let mut pointwise = PointwiseCall::new(self.op, &self.attrs, ins, outs);
        rule(&mut pointwise)?;
        Some(pointwise)
    }
}

/// Names that operators of blocks other than `block` use.
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

/// Compiles a block.
pub fn compile(program: &Program, block: i32, feeds: &[String], fetches: &[String], passes: Passes) -> Result<Plan> {
    let node =
        program.block(block).ok_or_else(|| oar_core::err!(InvalidArgument, "the Program has no block {block}"))?;
    let elsewhere = if program.block_count() > 1 { used_elsewhere(program, block) } else { HashSet::new() };
    let mut b = Builder { block: &node, elsewhere, numbers: HashMap::new(), vars: Vec::new() };
    let mut steps = Vec::new();
    for op_node in node.all_ops() {
        let desc = op_node.read().clone();
        match desc.op_type.as_str() {
            // What they would do is done by the feeds and fetches of the call.
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
        let keeping = op.outputs.iter().enumerate().filter(|(_, s)| s.is(KEEPS));
        let keeps = keeping.flat_map(|(o, _)| outs.range(o)).filter(|&o| outs.flat[o] != ABSENT);
        let keeps = keeps.map(|o| o as u32).collect();
        steps.push(Step { op, attrs, ins, outs, in_place, reads, keeps, dead: Vec::new(), release: Vec::new(), desc });
    }
    let known = |b: &Builder, n: &String| b.numbers.contains_key(n) || node.find_var_recursive(n).is_some();
    let feeds = feeds.iter().map(|n| known(&b, n).then(|| b.var(n))).collect();
    let fetches: Vec<Var> = fetches.iter().map(|n| b.var(n)).collect();
    let vars = b.vars;
    let mut plan = Plan {
        vars,
        steps,
        feeds,
        fetches,
        block,
        groups: Vec::new(),
        tasks: Vec::new(),
        schedule: Schedule::default(),
        dropped: Vec::new(),
        needs: Vec::new(),
    };
    passes::run(&mut plan, &node, passes);
    Ok(plan)
}

fn covers(outputs: &[(String, Vec<String>)], feeds: &[String]) -> bool {
    outputs.iter().flat_map(|(_, v)| v).all(|n| feeds.contains(n))
}

/// Finds the last use of every temporary.
pub fn mark_dead(plan: &mut Plan) {
    let mut seen: HashSet<Var> = plan.fetches.iter().copied().collect();
    for step in plan.steps.iter_mut().rev() {
        for &v in step.ins.flat.iter().chain(&step.outs.flat) {
            if v != ABSENT && plan.vars[v as usize].place == Storage::Temporary && seen.insert(v) {
                step.dead.push(v);
            }
        }
    }
}

/// Adds the line of the user's script that made the operator.
pub fn at_line(e: oar_core::base::Error, desc: &OpDesc) -> oar_core::base::Error {
    match desc.attrs.get("op_callstack") {
        Some(Attr::Strings(lines)) if !lines.is_empty() => {
            e.context(format!("operator {} was made here:\n{}", desc.op_type, lines.join("\n")))
        }
        _ => e,
    }
}
