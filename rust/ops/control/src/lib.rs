//! Operators: sub-blocks, tensor arrays, feeding and fetching, readers, files.

pub mod array_tensor;
pub mod arrays;
pub mod branch_rows;
pub mod control_flow;
pub mod delete_var;
pub mod files;
pub mod program;
pub mod rank_table;
pub mod reader;
pub mod recurrent;
pub mod run_program;
pub mod select;

/// The operators of this group, a line a family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    arrays::TABLE,       // LoDTensorArrays
    array_tensor::TABLE, // arrays as one tensor
    control_flow::TABLE, // sub-blocks
    branch_rows::TABLE,  // split_lod_tensor, merge_lod_tensor
    program::TABLE,      // feed, fetch, print, py_func
    delete_var::TABLE,   // delete_var
    rank_table::TABLE,   // sequences by length, for dynamic recurrent networks
    recurrent::TABLE,    // recurrent
    run_program::TABLE,  // run_program
    select::TABLE,       // select_input, select_output, get_places
    reader::TABLE,       // create_py_reader, read
    files::TABLE,        // save, load
];
