//! Frees the bytes of temporaries of which only the shape is still read (Paddle: no-need-buffer inputs of gradients).
//! The tape keeps tensors without bytes for the same kernels.

use crate::graph::plan::{ExecutionPlan, Step, Storage, Var, ABSENT};
use oar_core::op::SlotFlag;
use std::collections::HashSet;

/// The inputs of a step, and whether their elements are read.
pub fn reads(step: &Step) -> impl Iterator<Item = (Var, bool)> + '_ {
    step.op.inputs.iter().enumerate().flat_map(|(slot, s)| {
        let elements = !s.has(SlotFlag::MetaOnly);
        step.ins.slot(slot).iter().filter(|&&v| v != ABSENT).map(move |&v| (v, elements))
    })
}

pub fn run(plan: &mut ExecutionPlan) {
    let mut read: HashSet<Var> = plan.fetched_elements().collect();
    let mut shape_read: HashSet<Var> = plan.shapes.iter().copied().collect();
    for step in plan.steps.iter_mut().rev() {
        let elements = reads(step).filter(|r| r.1).map(|r| r.0).chain(step.outs.flat.iter().copied());
        let elements: Vec<Var> = elements.filter(|&v| v != ABSENT).collect();
        for v in elements {
            let temporary = plan.vars[v as usize].place == Storage::Temporary;
            if read.insert(v) && temporary && shape_read.contains(&v) {
                step.release.push(v);
            }
        }
        shape_read.extend(reads(step).filter(|r| !r.1).map(|r| r.0));
    }
}
