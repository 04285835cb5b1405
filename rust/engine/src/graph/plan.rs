//! A plan: one block of a Program compiled for a set of feeds and fetches. Names became numbers, attributes typed
//! structs, and the last use of every temporary is known. A plan is immutable; the state of a run is apart.
//!
//! A variable lives in one of two places. A *temporary* is a value of the run alone, dropped after its last use. A
//! *cell* is a variable of a Scope: persistables, whatever a sub-block names, everything in a sub-block.

use super::schedule::Schedule;
use oar_core::base::{DType, Dims};
use oar_core::ir::desc::OpDesc;
use oar_core::ir::Attr;
use oar_core::op::pointwise::{Operand, PointwiseCall};
use oar_core::op::{Args, Attrs, Op};
use oar_kernels::formula::fused::Chain;
use std::collections::HashSet;
use std::ops::Range;

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

/// Steps in a row that run as one.
pub struct Group {
    pub steps: Range<usize>,
    pub chain: Chain,
    /// The operands in memory.
    pub externals: Vec<External>,
    /// One of them that is as large as the results, as far as is known.
    pub probe: usize,
    pub parts: Vec<Part>,
    /// What of the results is kept.
    pub stores: Vec<Store>,
    /// Temporaries that nobody reads behind the group, and those of which the shape alone is read.
    pub dead: Vec<Var>,
    pub release: Vec<Var>,
}

pub struct External {
    pub var: Var,
    /// Paddle's `axis` where it may be repeated along the result; `None`: it has the result's shape.
    pub axis: Option<i32>,
    /// A result may be written over it.
    pub take: bool,
}

/// Where a step of the group finds an input.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    Absent,
    State(Var),
    /// A value made in the group.
    Made(u16),
}

/// A step as the shape rules see it.
pub struct Part {
    pub ins: Args<Source>,
    pub made: Vec<PartMade>,
}

pub struct PartMade {
    /// The output, by flat position.
    pub out: usize,
    pub like: Option<Source>,
    /// Where its elements are.
    pub from: Operand,
}

pub struct Store {
    pub var: Var,
    /// The number of the value.
    pub made: usize,
    /// Nobody reads its elements.
    pub shape_only: bool,
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
