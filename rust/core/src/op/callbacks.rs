//! What those above (the engine, Python) do for operators. It is set once, before anything runs.

use crate::base::Result;
use crate::ir::Program;
use crate::tensor::{Scope, Value};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Calls Python function `id` on values (`py_func`).
pub static CALL_PYTHON: OnceLock<fn(i32, Vec<Value>) -> Result<Vec<Value>>> = OnceLock::new();

/// Some operators of a block, one after the other.
pub struct Part {
    pub program: Arc<Program>,
    pub block: i32,
    pub ops: Range<usize>,
}

/// Runs a part on values by name and gives those that are asked for (`run_program`). What sub-blocks see of it stays in the
/// scope.
pub type RunPart = fn(&Part, &Arc<Scope>, Vec<(String, Value)>, &[String]) -> Result<Vec<Value>>;
pub static RUN_PART: OnceLock<RunPart> = OnceLock::new();
