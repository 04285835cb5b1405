//! Operators: sub-blocks, tensor arrays, feeding and fetching.

pub mod array_tensor;
pub mod arrays;
pub mod branch_rows;
pub mod control_flow;
pub mod delete_var;
pub mod program;
pub mod rank_table;
pub mod recurrent;
pub mod run_program;
pub mod select;
