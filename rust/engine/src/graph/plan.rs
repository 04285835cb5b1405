//! An execution plan: one block of a Program compiled for given feeds and fetches. Names are numbers, attributes typed
//! structs, and the last use of every temporary is known. A plan is immutable; the state of a run is separate.
//!
//! A variable is stored in one of two places. A *temporary* is a value of the run, dropped after its last use. A
//! *variable storage* belongs to a Scope: persistables, whatever a sub-block names, everything in a sub-block.

use super::found::Found;
use super::known::Captured;
use super::schedule::Schedule;
pub use super::var::{Var, ABSENT};
use oar_core::base::{DType, Dims};
use oar_core::ir::desc::OpDesc;
use oar_core::ir::Attr;
use oar_core::op::pointwise::{Operand, PointwiseCall};
use oar_core::op::{Args, Attrs, Kernel, Op};
use oar_kernels::formula::fused::Chain;
use std::collections::HashSet;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    Temporary,
    /// In the scope that the Program runs in, found through parents.
    Outer,
    /// In the scope of this run (or of this step of a loop).
    Local,
}

pub struct PlanVar {
    pub name: String,
    pub place: Storage,
    /// Declared in the Program's block.
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
    /// Outputs (flat positions) that start from the value of their variable.
    pub keeps: Vec<u32>,
    /// Temporaries that are not read after this step.
    pub dead: Vec<Var>,
    /// Temporaries of which only the shape is read after this step.
    pub release: Vec<Var>,
    /// The desc, for names, sub-blocks and the user's line.
    pub desc: OpDesc,
}

pub struct ExecutionPlan {
    pub vars: Vec<PlanVar>,
    pub steps: Vec<Step>,
    /// The variable of each feed; `None`: the Program has no such variable.
    pub feeds: Vec<Option<Var>>,
    pub fetches: Vec<Var>,
    /// The fetches of which only the shape is needed.
    pub shapes: Vec<Var>,
    pub block: i32,
    /// The execution order: groups, and the steps outside of groups.
    pub groups: Vec<Group>,
    pub tasks: Vec<Task>,
    pub schedule: Schedule,
    /// What is known of its runs on a device.
    pub(super) captured: Captured,
    /// The storage of its variables, as long as the scope and its names stay.
    pub(super) found: Found,
    /// Operators that were removed, and what must hold for that.
    pub dropped: Vec<&'static str>,
    pub needs: Vec<Need>,
}

/// How a step that writes in place reads an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Other threads may be changing it.
    Storage,
    /// A snapshot: the step itself changes it.
    Value,
    /// It is written, not read.
    No,
}

/// A unit of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Step(usize),
    Group(usize),
}

/// Consecutive steps that run as one.
pub struct Group {
    pub steps: Range<usize>,
    pub chain: Chain,
    /// The operands in memory.
    pub externals: Vec<External>,
    /// An operand of the results' size, as far as is known.
    pub probe: usize,
    pub parts: Vec<GroupStep>,
    /// The results that are kept.
    pub stores: Vec<Store>,
    /// Temporaries that are not read after the group, and those of which only the shape is.
    pub dead: Vec<Var>,
    pub release: Vec<Var>,
}

pub struct External {
    pub var: Var,
    /// Paddle's `axis` if it may be broadcast along the result; `None`: it has the result's shape.
    pub axis: Option<i32>,
    /// A result may be written over it.
    pub take: bool,
}

/// The source of an input of a step in the group.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    Absent,
    State(Var),
    /// A value computed in the group.
    Made(u16),
}

/// A step as the shape rules see it.
pub struct GroupStep {
    pub ins: Args<Source>,
    pub made: Vec<StepValue>,
}

pub struct StepValue {
    /// The output, by flat position.
    pub out: usize,
    pub like: Option<Source>,
    /// The operand that holds its elements.
    pub from: Operand,
}

pub struct Store {
    pub var: Var,
    /// The number of the value.
    pub made: usize,
    /// Its elements are not read.
    pub shape_only: bool,
}

/// An outside variable that must be as declared (-1: any size).
pub struct Need {
    pub var: Var,
    pub dtype: DType,
    pub dims: Dims,
}

impl Step {
    /// True if it runs a sub-block or a function of the user, which may read and write variables that it does not name.
    pub fn reaches_scope(&self) -> bool {
        matches!(self.op.cpu, Kernel::Control(_)) || self.op.name.starts_with("py_func")
    }

    /// The elementwise formula, of a step that computes nothing else.
    pub fn pointwise(&self) -> Option<PointwiseCall<'_>> {
        let rule = self.op.pointwise.filter(|_| self.op.is_pure())?;
        let (ins, outs) = (self.ins.map(|&v| v != ABSENT), self.outs.map(|&v| v != ABSENT));
        let mut pointwise = PointwiseCall::new(self.op, &self.attrs, ins, outs);
        rule(&mut pointwise)?;
        Some(pointwise)
    }
}

impl ExecutionPlan {
    /// The fetches whose elements are needed.
    pub fn fetched_elements(&self) -> impl Iterator<Item = Var> + '_ {
        self.fetches.iter().copied().filter(|v| !self.shapes.contains(v))
    }
}

/// Finds the last use of every temporary.
pub fn mark_dead(plan: &mut ExecutionPlan) {
    let mut seen: HashSet<Var> = plan.fetches.iter().copied().collect();
    for step in plan.steps.iter_mut().rev() {
        for &v in step.ins.flat.iter().chain(&step.outs.flat) {
            if v != ABSENT && plan.vars[v as usize].place == Storage::Temporary && seen.insert(v) {
                step.dead.push(v);
            }
        }
    }
}

/// Adds the line of the user's script that created the operator.
pub fn at_line(e: oar_core::base::Error, desc: &OpDesc) -> oar_core::base::Error {
    match desc.attrs.get("op_callstack") {
        Some(Attr::Strings(lines)) if !lines.is_empty() => {
            e.context(format!("operator {} was made here:\n{}", desc.op_type, lines.join("\n")))
        }
        _ => e,
    }
}
