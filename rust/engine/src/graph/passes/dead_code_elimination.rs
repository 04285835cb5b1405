//! Dead code elimination: removes operators whose results are not used.
//!
//! Paddle runs every operator, and one whose result is not fetched may still raise an error that the user relies on.
//! So an operator is removed only if it cannot fail: its kernel accepts all values, and the declared shapes of its
//! operands leave nothing to check in a run. Whether outside operands are present and as declared is checked before
//! each run (`ExecutionPlan::needs`); if not, the plan with all operators runs.

use crate::graph::bind::meta_of;
use crate::graph::plan::{ExecutionPlan, Need, Step, Storage, Var, ABSENT};
use oar_core::ir::BlockNode;
use oar_core::op::infer::{Meta, ShapeInputs, VarKind};
use oar_core::op::ShapeContext;

use std::collections::HashSet;

pub fn run(plan: &mut ExecutionPlan, block: &BlockNode) {
    let mut seen: HashSet<Var> = plan.fetches.iter().copied().collect();
    let mut keep = vec![true; plan.steps.len()];
    for (i, step) in plan.steps.iter().enumerate().rev() {
        let hidden =
            |v: &Var| *v == ABSENT || (plan.vars[*v as usize].place == Storage::Temporary && !seen.contains(v));
        if step.outs.flat.iter().all(hidden) && cannot_fail(step, plan, block) {
            keep[i] = false;
        } else {
            seen.extend(&step.ins.flat);
            seen.extend(step.keeps.iter().map(|&o| step.outs.flat[o as usize]));
        }
    }
    if !keep.contains(&false) {
        return;
    }
    let mut written: HashSet<Var> = HashSet::new();
    for (step, &kept) in plan.steps.iter().zip(&keep) {
        if !kept {
            plan.dropped.push(step.op.name);
            for &v in step.ins.flat.iter().filter(|&&v| v != ABSENT && !written.contains(&v)) {
                if let Some(meta) = meta_of(block, &plan.vars[v as usize].name) {
                    plan.needs.push(Need { var: v, dtype: meta.dtype, dims: meta.dims });
                }
            }
        }
        written.extend(&step.outs.flat);
    }
    let mut keep = keep.into_iter();
    plan.steps.retain(|_| keep.next() == Some(true));
}

fn cannot_fail(step: &Step, plan: &ExecutionPlan, block: &BlockNode) -> bool {
    let op = step.op;
    if !op.is_pure() || !step.in_place.is_empty() || !step.keeps.is_empty() {
        return false;
    }
    let given = step.ins.flat.iter().filter(|&&v| v != ABSENT);
    let Some(metas) = given.map(|&v| meta_of(block, &plan.vars[v as usize].name)).collect::<Option<Vec<_>>>() else {
        return false;
    };
    let plain = |m: &Meta| m.kind == VarKind::Dense && !m.dims.is_empty() && m.dtype.is_float();
    if metas.is_empty() || !metas.iter().all(|m| plain(m) && m.dtype == metas[0].dtype) {
        return false;
    }
    if !op.cannot_fail && op.pointwise.is_none_or(|_| step.pointwise().is_none()) {
        return false;
    }
    // If the first operand's batch size is unknown, the shape rule must accept every one: tried with sizes that have
    // nothing in common with other sizes.
    metas.len() == 1 || [1, 7_919, 104_729].iter().all(|&batch| rule_takes(step, &metas, batch))
}

/// True if the shape rule accepts these operands, with this size for the first one's unknown batch.
fn rule_takes(step: &Step, metas: &[Meta], batch: i64) -> bool {
    let mut metas = metas.to_vec();
    if metas[0].dims[0] < 0 {
        metas[0].dims[0] = batch;
    }
    if metas.iter().any(|m| m.dims.iter().any(|&d| d <= 0)) {
        return false;
    }
    let mut metas = metas.into_iter();
    let ins = step.ins.map(|&v| if v == ABSENT { None } else { metas.next() });
    let mut outs = step.outs.map(|_| Meta::default());
    let mut cx = ShapeContext {
        op: step.op,
        ins: ShapeInputs::Metas(&ins),
        attrs: &step.attrs,
        outs: &mut outs,
        free_outs: false,
    };
    (step.op.infer)(&mut cx).is_ok()
}
