//! Hand-made plans: what the passes find, and how windows run.

use super::compile::compile;
use super::passes::Passes;
use super::plan::{ExecutionPlan, Task};
use super::schedule::RunMode;
use super::window::{Uses, Window};
use oar_core::ir::desc::{OpDesc, VarKind};
use oar_core::ir::Program;
use oar_kernels::pool;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

/// A Program of float32 variables [4, 8] and operators `type out = a, b`.
fn program(ops: &[&str]) -> Arc<Program> {
    oar_ops::install();
    super::bind::connect();
    let program = Program::new();
    let block = program.block(0).unwrap();
    for line in ops {
        let (left, right) = line.split_once(" = ").unwrap();
        let (kind, out) = left.split_once(' ').unwrap();
        let ins: Vec<String> = right.split(", ").map(str::to_string).collect();
        for name in ins.iter().map(String::as_str).chain([out]).filter(|n| !block.has_var(n)) {
            let var = block.var(name);
            var.set_shape(&[4, 8]).unwrap();
            var.set_data_type(VarKind::FP32).unwrap();
        }
        let inputs = match ins.len() {
            1 => vec![("X".to_string(), ins)],
            _ => vec![("X".to_string(), ins[..1].to_vec()), ("Y".to_string(), ins[1..].to_vec())],
        };
        let outputs = vec![("Out".to_string(), vec![out.to_string()])];
        block.append_op(OpDesc { op_type: kind.to_string(), inputs, outputs, ..OpDesc::default() });
    }
    program
}

fn plan(ops: &[&str], fetches: &[&str], passes: &str) -> ExecutionPlan {
    let fetches: Vec<String> = fetches.iter().map(|f| f.to_string()).collect();
    compile(&program(ops), 0, &["x".to_string()], &fetches, &HashSet::new(), Passes::parse(passes).unwrap()).unwrap()
}

fn groups(plan: &ExecutionPlan) -> Vec<std::ops::Range<usize>> {
    plan.groups.iter().map(|g| g.steps.clone()).collect()
}

fn over(plan: &ExecutionPlan) -> Vec<&str> {
    let taken = plan.groups.iter().flat_map(|g| &g.externals).filter(|e| e.take);
    taken.map(|e| plan.vars[e.var as usize].name.as_str()).collect()
}

#[test]
fn names_of_passes() {
    assert_eq!(Passes::parse("all").unwrap(), Passes::ALL);
    assert_eq!(Passes::parse("fuse, dead").unwrap().names(), ["dead", "fuse"]);
    assert_eq!(Passes::ALL.without(Passes::FUSE).within(Passes::FUSE.with(Passes::DEAD)), Passes::DEAD);
    assert!(Passes::parse("fusion").is_err());
}

#[test]
fn unused_operators_are_removed() {
    let ops = ["relu a = x", "tanh b = a", "softmax c = b", "exp d = a"];
    let p = plan(&ops, &["d"], "dead");
    assert_eq!((p.dropped.clone(), p.steps.len()), (vec!["tanh", "softmax"], 2));
    assert!(p.needs.is_empty(), "their operands are computed in the plan");
    assert_eq!(plan(&ops, &["c"], "dead").dropped, ["exp"]);
    assert!(plan(&ops, &["d"], "none").dropped.is_empty());
    let outside = plan(&["relu a = x", "tanh b = w"], &["a"], "dead");
    assert_eq!(outside.needs.len(), 1);
    // floor division may divide by zero
    assert!(plan(&["elementwise_floordiv a = x, x", "relu b = x"], &["b"], "dead").dropped.is_empty());
}

#[test]
fn adjacent_elementwise_operators_are_fused() {
    let ops = ["relu a = x", "tanh b = a", "elementwise_add c = b, a", "softmax d = c", "exp e = d", "square f = e"];
    let p = plan(&ops, &["f"], "fuse");
    assert_eq!(groups(&p), [0..3, 4..6]);
    assert_eq!(p.tasks, [Task::Group(0), Task::Step(3), Task::Group(1)]);
    // of the first group only `c` is read after it
    assert_eq!(p.groups[0].stores.len(), 1);
    assert!(over(&p).is_empty());
    assert_eq!(plan(&ops, &["a", "f"], "fuse").groups[0].stores.len(), 2);
    assert!(plan(&ops, &["f"], "dead").groups.is_empty());
}

#[test]
fn results_overwrite_dead_values() {
    let ops = ["softmax a = x", "tanh b = a", "softmax c = b", "relu d = c", "softmax e = d", "exp f = e"];
    let p = plan(&ops, &["c", "f"], "inplace");
    // `c` is fetched, `x` is not read by an elementwise operator
    assert_eq!(over(&p), ["a", "e"]);
    let again = plan(&["softmax a = x", "tanh a = a", "softmax b = a"], &["b"], "inplace");
    assert_eq!(over(&again), ["a"]);
}

#[test]
fn edges_between_units() {
    // 0: a <- x   1: b <- a (raw 0)   2: a <- x (waw 0, war 1)   3: c <- a (raw 2)   4: d <- x
    let ops = ["softmax a = x", "softmax b = a", "softmax a = x", "softmax c = a", "softmax d = x"];
    let p = plan(&ops, &["a", "b", "c", "d"], "schedule");
    assert_eq!(p.schedule.after, [vec![], vec![0], vec![0, 1], vec![2], vec![]]);
    let chain = plan(&["softmax a = x", "softmax b = a", "softmax c = b"], &["c"], "schedule");
    assert!(chain.schedule.after.is_empty() && matches!(chain.schedule.mode(|| 0, 0), RunMode::Plain));
    // an operand that is written over counts as written
    let ops = ["softmax a = x", "softmax b = a", "tanh c = a"];
    let p = plan(&ops, &["b", "c"], "inplace,schedule");
    assert!(p.schedule.after.is_empty(), "tanh writes over what softmax reads");
    assert_eq!(plan(&ops, &["b", "c"], "schedule").schedule.after, [vec![], vec![0], vec![0]]);
}

#[test]
fn windows_keep_the_edges_and_raise_the_first_error() {
    // A ladder: task 2i and 2i + 1 wait for both before them.
    let after: Vec<Vec<u32>> =
        (0..40u32).map(|u| if u < 2 { vec![] } else { vec![u / 2 * 2 - 2, u / 2 * 2 - 1] }).collect();
    let window = Window::from_tasks(&after, &[], 0..40);
    let nothing = |_: u32, _: bool| {};
    for _ in 0..50 {
        let done = Mutex::new(Vec::new());
        window
            .run(
                2,
                &|u| {
                    assert!(after[u].iter().all(|w| done.lock().contains(&(*w as usize))));
                    done.lock().push(u);
                    Ok(())
                },
                &nothing,
            )
            .unwrap();
        assert_eq!(done.into_inner().len(), 40);
        let failed = window.run(
            2,
            &|u| {
                if u == 21 || u == 20 {
                    Err(oar_core::err!(Fatal, "task {u}"))
                } else {
                    Ok(())
                }
            },
            &nothing,
        );
        assert!(format!("{:?}", failed.unwrap_err()).contains("task 20"));
        let panicked = window.run(2, &|u| if u == 7 { panic!("seven") } else { Ok(()) }, &nothing);
        assert!(format!("{:?}", panicked.unwrap_err()).contains("seven"));
    }
    assert!(pool::threads() >= 1);
}

#[test]
fn what_ends_in_a_window_ends_with_its_last_user() {
    // 0 and 1 write what 2 and 3 read; of variable 0 the shape alone is read by 3.
    let after = vec![vec![], vec![], vec![0, 1], vec![0, 1]];
    let uses = |vars: &[u32], dead: &[u32], release: &[u32]| Uses {
        vars: vars.to_vec(),
        dead: dead.to_vec(),
        release: release.to_vec(),
    };
    let all = [uses(&[0, 0], &[], &[]), uses(&[1], &[], &[]), uses(&[0, 1], &[], &[0]), uses(&[0, 1], &[0, 1], &[])];
    let window = Window::from_tasks(&after, &all, 0..4);
    for _ in 0..50 {
        let log = Mutex::new(Vec::new());
        let task = |u: usize| {
            log.lock().push(format!("{u}"));
            Ok(())
        };
        window.run(2, &task, &|v, shape| log.lock().push(format!("{v}{}", if shape { "-" } else { "!" }))).unwrap();
        let log = log.into_inner();
        let at = |what: &str| log.iter().position(|l| l == what).unwrap();
        assert_eq!(log.len(), 7);
        assert!(at("2") < at("0-") && at("3") < at("0!") && at("2") < at("0!"));
        assert!(at("2").max(at("3")) < at("1!"));
    }
    // By the times 3, 3, 5, 5 two threads need 8.
    assert_eq!(window.play(2, 0, |u| [3, 3, 5, 5][u]), (16, 8));
}
