//! The passes over a plan, in the order in which they run. Each can be disabled, and none changes a result, bit for
//! bit:
//!
//! - `dead` removes operators whose results are not used and that cannot fail;
//! - `release` frees the bytes of a temporary when only its shape is still read;
//! - `fuse` joins adjacent elementwise operators into one loop over memory;
//! - `inplace` lets elementwise operators write over an operand that is not read any more;
//! - `schedule` runs independent operators in parallel (`graph/schedule.rs`).

pub mod dead_code_elimination;
pub mod free_early;
pub mod fuse;
mod order;
mod select;

pub use select::{current, set_current, Passes};

use super::plan::{ExecutionPlan, Task};
use oar_core::ir::BlockNode;

/// Runs the passes over a plan of plain steps.
pub fn run(plan: &mut ExecutionPlan, block: &BlockNode, passes: Passes) {
    if passes.has(Passes::DEAD) {
        dead_code_elimination::run(plan, block);
    }
    super::plan::mark_dead(plan);
    if passes.has(Passes::RELEASE) {
        free_early::run(plan);
    }
    let groups = match passes.has(Passes::FUSE.with(Passes::INPLACE)) {
        true => fuse::groups(plan, block, passes),
        false => Vec::new(),
    };
    let mut tasks = Vec::with_capacity(plan.steps.len());
    let mut at = 0;
    for (g, group) in groups.iter().enumerate() {
        tasks.extend((at..group.steps.start).map(Task::Step));
        tasks.push(Task::Group(g));
        at = group.steps.end;
    }
    tasks.extend((at..plan.steps.len()).map(Task::Step));
    (plan.groups, plan.tasks) = (groups, tasks);
    // The inputs of a sub-block may differ from step to step, and so would its times.
    if passes.has(Passes::SCHEDULE) && (plan.block == 0 || passes.has(Passes::ALWAYS)) {
        plan.schedule = order::schedule(plan, passes.has(Passes::ALWAYS));
    }
}
