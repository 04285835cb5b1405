//! The operators by name. Families are crates above this one: `oar_ops::install` passes the table in, once.

use super::{Grad, Op};
use crate::base::Result;
use crate::err;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Groups of families of operators.
type Tables = &'static [&'static [&'static [&'static Op]]];

static TABLE: OnceLock<(Tables, HashMap<&'static str, &'static Op>)> = OnceLock::new();

fn in_order(tables: Tables) -> impl Iterator<Item = &'static Op> {
    tables.iter().flat_map(|group| group.iter()).flat_map(|family| family.iter().copied())
}

/// Sets the table at the first call; further calls do nothing.
pub fn install(tables: Tables) {
    TABLE.get_or_init(|| {
        let mut map = HashMap::new();
        for op in in_order(tables) {
            assert!(map.insert(op.name, op).is_none(), "operator {} is in the table twice", op.name);
        }
        (tables, map)
    });
}

/// The operator of that name.
pub fn lookup(name: &str) -> Option<&'static Op> {
    TABLE.get()?.1.get(name).copied()
}

/// Operators of Paddle that are not in the table, and what they need.
const ELSEWHERE: &[(&str, &str)] = &[
    ("ascend_trigger", "an Ascend device of Huawei"),
    (
        "create_ctr_reader",
        "a reader whose sources Paddle 2.0.2 no longer has: DataLoader or a Dataset reads such files",
    ),
    (
        "fusion_group",
        "the CUDA code that a pass of Paddle's has made in the same process: the operator only has its name",
    ),
    ("heter_listen_and_serv", "parameter servers over devices of several kinds"),
    ("lite_engine", "Paddle Lite"),
    ("nccl", "NCCL and NVIDIA's GPUs: the operators c_allreduce_sum, c_broadcast and c_reduce_sum do it on the CPU"),
    ("tensorrt_engine", "TensorRT and NVIDIA's GPUs"),
];

/// Why the operator is missing.
pub fn why_not(name: &str) -> String {
    let entry = ELSEWHERE.iter().find(|(what, _)| name == *what || *what == "nccl" && name.starts_with("nccl"));
    entry.map_or_else(|| "it is not there yet".into(), |(_, needs)| format!("it needs {needs}"))
}

/// An operator that the engine itself uses.
pub fn need(name: &str) -> Result<&'static Op> {
    lookup(name).ok_or_else(|| err!(NotFound, "operator {name} has not been registered: {}", why_not(name)))
}

/// The operators whose gradient, by name or by map, is this gradient operator.
pub fn forwards(grad: &'static Op) -> &'static [&'static Op] {
    static FORWARDS: OnceLock<HashMap<&'static str, Vec<&'static Op>>> = OnceLock::new();
    let forwards = FORWARDS.get_or_init(|| {
        let mut map: HashMap<&'static str, Vec<&'static Op>> = HashMap::new();
        for op in all() {
            if let Grad::By(grad) | Grad::Map(grad, _) = op.grad {
                map.entry(grad.name).or_default().push(op);
            }
        }
        map
    });
    forwards.get(grad.name).map_or(&[], |v| v)
}

/// True if the operator computes a gradient: it writes an `X@GRAD`, or it is the gradient of an operator and has none
/// itself. An operator such as concat, which is also the gradient of split, is none.
pub fn is_gradient(op: &'static Op) -> bool {
    let writes = op.outputs.iter().any(|slot| slot.name.ends_with("@GRAD"));
    writes || matches!(op.grad, Grad::None) && !forwards(op).is_empty()
}

/// All operators in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Op> {
    TABLE.get().into_iter().flat_map(|(tables, _)| in_order(tables))
}
