//! Functions of the layers above (engine, Python) that operators call. Set once, before the first operator runs.

use crate::base::Result;
use crate::ir::Program;
use crate::tensor::{Scope, Value};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Calls Python function `id` on values (`py_func`).
pub static CALL_PYTHON: OnceLock<fn(i32, Vec<Value>) -> Result<Vec<Value>>> = OnceLock::new();

/// A range of operators of a block.
pub struct OpRange {
    pub program: Arc<Program>,
    pub block: i32,
    pub ops: Range<usize>,
}

/// Runs a range on named values and returns the values of the given names (`run_program`). The scope keeps what
/// sub-blocks read.
pub type RunOpRange = fn(&OpRange, &Arc<Scope>, Vec<(String, Value)>, &[String]) -> Result<Vec<Value>>;
pub static RUN_OP_RANGE: OnceLock<RunOpRange> = OnceLock::new();
