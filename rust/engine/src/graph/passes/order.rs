//! Dependencies between tasks (see `graph/schedule.rs`).

use crate::graph::plan::{ExecutionPlan, Storage, Task, ABSENT};
use crate::graph::schedule::Schedule;
use crate::graph::window;
use std::collections::HashMap;

/// The variables that one task reads and writes.
struct Uses {
    reads: Vec<u32>,
    writes: Vec<u32>,
}

fn uses(plan: &ExecutionPlan, task: Task) -> Uses {
    let (range, taken) = match task {
        Task::Step(i) => (i..i + 1, Vec::new()),
        Task::Group(g) => {
            let group = &plan.groups[g];
            (group.steps.clone(), group.externals.iter().filter(|e| e.take).map(|e| e.var).collect())
        }
    };
    let mut uses = Uses { reads: Vec::new(), writes: taken };
    for step in &plan.steps[range] {
        uses.reads.extend(step.ins.flat.iter().filter(|&&v| v != ABSENT));
        uses.writes.extend(step.outs.flat.iter().filter(|&&v| v != ABSENT));
        uses.writes.extend(step.in_place.iter().map(|&(i, _)| step.ins.flat[i as usize]));
    }
    uses
}

/// The temporaries that a task touches, and which of them end with it in program order.
fn used(plan: &ExecutionPlan, task: Task, reads: &[u32], writes: &[u32]) -> window::Uses {
    let (dead, release) = match task {
        Task::Step(i) => (&plan.steps[i].dead, &plan.steps[i].release),
        Task::Group(g) => (&plan.groups[g].dead, &plan.groups[g].release),
    };
    let temporary = |v: &u32| plan.vars[*v as usize].place == Storage::Temporary;
    let vars = reads.iter().chain(writes).copied().filter(temporary).collect();
    window::Uses { vars, dead: dead.clone(), release: release.clone() }
}

/// The plain path where no two tasks are independent.
pub fn schedule(plan: &ExecutionPlan, always: bool) -> Schedule {
    let n = plan.tasks.len();
    let (mut after, mut barrier) = (Vec::with_capacity(n), vec![false; n]);
    let mut writer: HashMap<u32, u32> = HashMap::new();
    let mut readers: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut drawn: Option<u32> = None;
    // The length of the longest chain that ends with each task.
    let mut depth: Vec<u32> = Vec::with_capacity(n);
    let mut ends = Vec::with_capacity(n);
    for (u, &task) in plan.tasks.iter().enumerate() {
        let mut waits: Vec<u32> = Vec::new();
        if let Task::Step(i) = task {
            let op = plan.steps[i].op;
            let random = op.draws();
            barrier[u] = !random && !op.is_pure();
            if random {
                waits.extend(drawn.replace(u as u32));
            }
        }
        let Uses { reads, writes } = uses(plan, task);
        ends.push(used(plan, task, &reads, &writes));
        for v in &reads {
            waits.extend(writer.get(v));
        }
        for v in &writes {
            waits.extend(writer.get(v));
            waits.extend(readers.get(v).into_iter().flatten());
        }
        for v in reads {
            readers.entry(v).or_default().push(u as u32);
        }
        for v in writes {
            writer.insert(v, u as u32);
            readers.remove(&v);
        }
        waits.retain(|&w| w != u as u32);
        waits.sort_unstable();
        waits.dedup();
        depth.push(1 + waits.iter().map(|&w| depth[w as usize]).max().unwrap_or(0));
        after.push(waits);
    }
    if depth.iter().max().is_none_or(|&longest| longest as usize == n) {
        return Schedule::default();
    }
    Schedule::new(after, barrier, ends, always)
}
