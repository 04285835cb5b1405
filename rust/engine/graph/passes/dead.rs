//! Leaves out operators whose results nobody sees.
//!
//! Paddle runs every operator, and one whose result is not fetched may still raise an error that the user relies on. So
//! an operator goes only if it cannot fail: a kernel that takes all values, on operands whose declared shapes leave
//! nothing to be found out in a run. That those read from outside are there and as declared is looked up before each
//! run (`Plan::needs`); where they are not, the plan with all its operators runs.

use crate::graph::bind::meta_of;
use crate::graph::plan::{Need, Place, Plan, Step, Var, ABSENT};
use oar_core::ir::{Attr, BlockNode};
use oar_core::op::infer::{Meta, VarKind};
use oar_core::op::Effect;
use std::collections::HashSet;

/// Operators besides the elementwise ones that take all values of one floating-point operand.
const UNARY: &[&str] =
    &["softmax", "log_softmax", "mean", "reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "transpose2"];
/// The same of two.
const PRODUCTS: &[&str] = &["mul", "matmul", "matmul_v2"];

pub fn run(plan: &mut Plan, block: &BlockNode) {
    let mut seen: HashSet<Var> = plan.fetches.iter().copied().collect();
    let mut keep = vec![true; plan.steps.len()];
    for (i, step) in plan.steps.iter().enumerate().rev() {
        let hidden = |v: &Var| *v == ABSENT || (plan.vars[*v as usize].place == Place::Temporary && !seen.contains(v));
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

fn cannot_fail(step: &Step, plan: &Plan, block: &BlockNode) -> bool {
    let op = step.op;
    if !op.is_pure() || op.effect != Effect::None || !step.in_place.is_empty() || !step.keeps.is_empty() {
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
    let elementwise = op.point.is_some_and(|_| step.points().is_some());
    match &metas[..] {
        [_] => elementwise || UNARY.contains(&op.name),
        _ if !elementwise && !PRODUCTS.contains(&op.name) => false,
        metas if metas.iter().all(|m| m.dims.iter().all(|&d| d > 0)) => true,
        // A batch of any size, and an operand that its dimension does not meet.
        [x, y] => {
            let batch = x.dims[0] < 0 && x.dims[1..].iter().chain(&y.dims).all(|&d| d > 0);
            let option = |name| step.desc.attrs.get(name);
            let apart = match op.name {
                "mul" => true,
                "matmul" | "matmul_v2" => {
                    let straight = |name| !matches!(option(name), Some(Attr::Boolean(true)));
                    y.dims.len() == 2 && straight("transpose_X") && straight("trans_x")
                }
                _ => y.dims.len() < x.dims.len() && !matches!(option("axis"), Some(Attr::Int(0))),
            };
            batch && apart && x.dims.len() > 1
        }
        _ => false,
    }
}
