//! Fuses adjacent elementwise operators (`Op::pointwise`) that read each other's results, or a common operand, into
//! groups of one loop over memory, and finds operands over which the result may be written. A single operator is a
//! group if it has such an operand. Shapes are checked when the group runs (`graph/fused.rs`); declared shapes only
//! separate groups that could not run.

use super::free_early::reads;
use super::select::Passes;
use crate::graph::bind::meta_of;
use crate::graph::plan::{
    ExecutionPlan, External, Group, GroupStep, Source, Step, StepValue, Storage, Store, Var, ABSENT,
};
use oar_core::ir::BlockNode;
use oar_core::op::pointwise::{Lane, Operand, PointwiseCall};
use oar_kernels::formula::fused::Chain;
use std::collections::{HashMap, HashSet};

/// Bound of the lanes and operands of a group: their tiles should fit the first-level cache.
const MOST: usize = 24;
const _: () = assert!(MOST <= oar_kernels::formula::fused::MOST);

#[derive(Default)]
struct Open {
    start: usize,
    lanes: Vec<Lane>,
    externals: Vec<External>,
    parts: Vec<GroupStep>,
    froms: Vec<Operand>,
    /// The last value of each variable that the group writes.
    values: HashMap<Var, u16>,
    shape: Option<Vec<i64>>,
}

pub fn groups(plan: &ExecutionPlan, block: &BlockNode, passes: Passes) -> Vec<Group> {
    let last = LastReads::from_plan(plan);
    let (mut groups, mut open) = (Vec::new(), Open::default());
    for (i, step) in plan.steps.iter().enumerate() {
        let pointwise = step.pointwise().filter(|p| fits(p, step, plan, block));
        let shape = pointwise.as_ref().and_then(|_| declared(step, plan, block));
        let goes_on = passes.has(Passes::FUSE) && pointwise.as_ref().is_some_and(|p| open.takes(p, step, &shape));
        if !goes_on {
            groups.extend(std::mem::take(&mut open).close(plan, block, passes, &last));
        }
        if let Some(pointwise) = pointwise {
            if open.parts.is_empty() {
                open.start = i;
            }
            open.add(&pointwise, step, shape);
        }
    }
    groups.extend(open.close(plan, block, passes, &last));
    groups
}

/// The last steps that read a variable, and its elements.
struct LastReads {
    any: HashMap<Var, usize>,
    elements: HashMap<Var, usize>,
}

impl LastReads {
    fn from_plan(plan: &ExecutionPlan) -> LastReads {
        let mut last = LastReads { any: HashMap::new(), elements: HashMap::new() };
        for (i, step) in plan.steps.iter().enumerate() {
            let kept = step.keeps.iter().map(|&o| (step.outs.flat[o as usize], true));
            for (v, elements) in reads(step).chain(kept) {
                last.any.insert(v, i);
                if elements {
                    last.elements.insert(v, i);
                }
            }
        }
        last.any.extend(plan.fetches.iter().map(|&v| (v, usize::MAX)));
        last.elements.extend(plan.fetched_elements().map(|v| (v, usize::MAX)));
        last
    }
}

fn dims_of(v: Var, plan: &ExecutionPlan, block: &BlockNode) -> Option<Vec<i64>> {
    let dims = meta_of(block, &plan.vars[v as usize].name)?.dims;
    (!dims.is_empty()).then(|| dims.to_vec())
}

/// The declared shape of the step's result.
fn declared(step: &Step, plan: &ExecutionPlan, block: &BlockNode) -> Option<Vec<i64>> {
    let first = step.outs.flat.iter().find(|&&v| v != ABSENT)?;
    dims_of(*first, plan, block)
}

/// True if the operands, by their declared shapes, suit the rule.
fn fits(p: &PointwiseCall, step: &Step, plan: &ExecutionPlan, block: &BlockNode) -> bool {
    let wanted = (0..step.outs.flat.len()).filter(|&o| step.outs.flat[o] != ABSENT);
    let all = wanted.clone().all(|o| p.made.iter().filter(|m| m.out as usize == o).count() == 1);
    let mut seen = HashSet::new();
    let distinct = wanted.clone().all(|o| seen.insert(step.outs.flat[o]));
    let many = p.lanes.len() > MOST || p.ins.flat.len() > MOST;
    if many || !all || !distinct || p.made.is_empty() || !step.in_place.is_empty() || !step.keeps.is_empty() {
        return false;
    }
    let Some(shape) = declared(step, plan, block) else { return true };
    let same = |flat: u16| dims_of(step.ins.flat[flat as usize], plan, block).is_none_or(|d| d == shape);
    let full = |arg: &Operand| !matches!(arg, Operand::Input(i) if !same(*i));
    let rows = p.lanes.iter().zip(&p.axes).all(|(lane, axis)| axis.is_some() || lane.args.iter().all(full));
    rows && p.made.iter().all(|m| m.like.is_none_or(same) && full(&m.from))
}

impl Open {
    /// True if the group can take this step.
    fn takes(&self, p: &PointwiseCall, step: &Step, shape: &Option<Vec<i64>>) -> bool {
        if self.parts.is_empty() {
            return true;
        }
        let room = self.lanes.len() + p.lanes.len() <= MOST && self.externals.len() + p.ins.flat.len() <= MOST;
        if !room || matches!((&self.shape, shape), (Some(a), Some(b)) if a != b) {
            return false;
        }
        let args = p.lanes.iter().flat_map(|l| &l.args).chain(p.made.iter().map(|m| &m.from));
        let mut vars = args.filter_map(|a| match a {
            Operand::Input(i) => Some(step.ins.flat[*i as usize]),
            _ => None,
        });
        // A broadcast operand (a bias) does not join a group: its readers may have other shapes.
        vars.any(|v| self.values.contains_key(&v) || self.externals.iter().any(|e| e.var == v && e.axis.is_none()))
    }

    fn external(&mut self, var: Var, axis: Option<i32>) -> Operand {
        // One use with the result's shape decides for all.
        let same = |e: &External| e.var == var && (e.axis == axis || e.axis.is_none() || axis.is_none());
        let at = self.externals.iter().position(same).unwrap_or_else(|| {
            self.externals.push(External { var, axis, take: false });
            self.externals.len() - 1
        });
        if axis.is_none() {
            self.externals[at].axis = None;
        }
        Operand::Input(at as u16)
    }

    fn add(&mut self, p: &PointwiseCall, step: &Step, shape: Option<Vec<i64>>) {
        let base = self.lanes.len() as u16;
        // The step reads the values before its own.
        let before = self.values.clone();
        let source = |v: Var| match before.get(&v) {
            _ if v == ABSENT => Source::Absent,
            Some(&made) => Source::Made(made),
            None => Source::State(v),
        };
        let operand = |open: &mut Open, arg: &Operand, axis: Option<i32>| match *arg {
            Operand::Lane(l) => Operand::Lane(base + l),
            Operand::Zero => Operand::Zero,
            Operand::Input(i) => match source(step.ins.flat[i as usize]) {
                Source::Made(m) => open.froms[m as usize],
                _ => open.external(step.ins.flat[i as usize], axis),
            },
        };
        for (lane, &axis) in p.lanes.iter().zip(&p.axes) {
            let args = lane.args.iter().map(|a| operand(self, a, axis)).collect();
            self.lanes.push(Lane { code: lane.code, args, params: lane.params.clone() });
        }
        let mut made = Vec::new();
        for m in &p.made {
            let from = operand(self, &m.from, None);
            self.values.insert(step.outs.flat[m.out as usize], self.froms.len() as u16);
            self.froms.push(from);
            let like = m.like.map(|i| source(step.ins.flat[i as usize]));
            made.push(StepValue { out: m.out as usize, like, from });
        }
        self.parts.push(GroupStep { ins: step.ins.map(|&v| source(v)), made });
        self.shape = self.shape.take().or(shape);
    }

    fn close(mut self, plan: &ExecutionPlan, block: &BlockNode, passes: Passes, last: &LastReads) -> Option<Group> {
        let steps = self.start..self.start + self.parts.len();
        if self.lanes.is_empty() || self.externals.is_empty() {
            return None;
        }
        let large = |e: &External| e.axis.is_none() || dims_of(e.var, plan, block) == self.shape;
        let probe = self.externals.iter().position(large).unwrap_or(0);
        let members = &plan.steps[steps.clone()];
        let dead: Vec<Var> = members.iter().flat_map(|s| s.dead.iter().copied()).collect();
        let release: Vec<Var> = members.iter().flat_map(|s| s.release.iter().copied()).collect();
        let later = |reads: &HashMap<Var, usize>, v: Var| reads.get(&v).is_some_and(|&at| at >= steps.end);
        let mut stores: Vec<Store> = self
            .values
            .iter()
            .filter(|(&v, _)| plan.vars[v as usize].place != Storage::Temporary || later(&last.any, v))
            .map(|(&var, &made)| {
                let temporary = plan.vars[var as usize].place == Storage::Temporary;
                let shape_only = temporary && passes.has(Passes::RELEASE) && !later(&last.elements, var);
                Store { var, made: made as usize, shape_only }
            })
            .collect();
        stores.sort_by_key(|s| s.made);
        let shared = |e: usize| stores.iter().any(|s| !s.shape_only && self.froms[s.made] == Operand::Input(e as u16));
        let taken: Vec<bool> = (0..self.externals.len())
            .map(|e| {
                let v = self.externals[e].var;
                let over = dead.contains(&v) || release.contains(&v) || self.values.contains_key(&v);
                let fetched_or_kept = plan.vars[v as usize].place != Storage::Temporary;
                let twice = self.externals.iter().filter(|e| e.var == v).count() > 1;
                passes.has(Passes::INPLACE) && over && !fetched_or_kept && !twice && !shared(e)
            })
            .collect();
        self.externals.iter_mut().zip(&taken).for_each(|(e, &take)| e.take = take);
        let pays = self.lanes.len() > 1 && self.parts.len() > 1 || taken.contains(&true);
        pays.then(|| Group {
            steps,
            chain: Chain::new(self.lanes),
            externals: self.externals,
            probe,
            parts: self.parts,
            stores,
            dead,
            release,
        })
    }
}
