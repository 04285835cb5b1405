//! What the embedding (Python) does for operators. It is set once, before anything runs.

use crate::base::Result;
use crate::tensor::Value;
use std::sync::OnceLock;

/// Calls Python function `id` on values (`py_func`).
pub static CALL_PYTHON: OnceLock<fn(i32, Vec<Value>) -> Result<Vec<Value>>> = OnceLock::new();
