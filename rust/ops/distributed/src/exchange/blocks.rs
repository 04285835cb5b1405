//! The blocks of a server's step: which run sequentially, and which concurrently.

use oar_core::ir::{OpNode, Program};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Elements of a variable from which on kernels use all cores themselves.
const LARGE: i64 = 1 << 16;

/// Operators without side effects, which may run concurrently.
const PLAIN: &[&str] = &[
    "sum",
    "scale",
    "cast",
    "clip",
    "clip_by_norm",
    "sign",
    "sqrt",
    "square",
    "merge_selected_rows",
    "get_tensor_from_selected_rows",
    "elementwise_add",
    "elementwise_sub",
    "elementwise_mul",
    "elementwise_div",
    "elementwise_max",
    "sgd",
    "momentum",
    "lars_momentum",
    "adam",
    "adamax",
    "adagrad",
    "decayed_adagrad",
    "adadelta",
    "rmsprop",
    "ftrl",
    "lamb",
    "proximal_gd",
    "proximal_adagrad",
];

/// Large blocks run one after the other, on all cores; then small ones concurrently. If one block reads or writes a
/// variable that another writes, all run in Program order.
#[derive(Default)]
pub struct Blocks {
    pub sequential: Vec<i32>,
    pub concurrent: Vec<i32>,
}

struct Seen {
    index: i32,
    writes: HashSet<String>,
    reads: HashSet<String>,
    small: bool,
}

fn look(program: &Program, index: i32) -> Seen {
    let ops: Vec<Arc<OpNode>> = program.block(index).map(|b| b.all_ops()).unwrap_or_default();
    let numel = |name: &String| {
        let var = program.block(0)?.find_var(name)?;
        let desc = var.read();
        Some(desc.shape().ok()?.iter().fold(1i64, |n, &d| n.saturating_mul(d.max(1))))
    };
    let (mut writes, mut reads) = (HashSet::new(), HashSet::new());
    for op in &ops {
        writes.extend(op.read().output_args().cloned());
        reads.extend(op.read().input_args().cloned());
    }
    let plain = ops.iter().all(|op| PLAIN.contains(&op.op_type().as_str()));
    let small = plain && writes.iter().filter_map(numel).all(|n| n < LARGE);
    Seen { index, writes, reads, small }
}

impl Blocks {
    pub fn new(program: &Program, blocks: impl Iterator<Item = i32>) -> Blocks {
        let seen: Vec<Seen> = blocks.map(|index| look(program, index)).collect();
        let mut users: HashMap<&String, usize> = HashMap::new();
        for name in seen.iter().flat_map(|b| b.writes.union(&b.reads)) {
            *users.entry(name).or_default() += 1;
        }
        let apart = seen.iter().all(|b| b.writes.iter().all(|name| users[name] == 1));
        let (small, large): (Vec<&Seen>, Vec<&Seen>) = seen.iter().partition(|b| apart && b.small);
        let indices = |list: Vec<&Seen>| list.iter().map(|b| b.index).collect();
        Blocks { sequential: indices(large), concurrent: indices(small) }
    }
}
