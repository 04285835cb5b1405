//! Control operators: sub-blocks, tensor arrays, feed and fetch, readers, files.

pub mod control_flow;
pub mod delete_var;
pub mod feed_fetch;
pub mod get_places;
pub mod print;
pub mod py_func;
pub mod rank_table;
pub mod reader;
pub mod recurrent;
pub mod run_program;
pub mod save_load;
pub mod select_input;
pub mod split_lod_tensor;
pub mod tensor_array;
pub mod tensor_array_to_tensor;

/// The operators of this group, one line per family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    tensor_array::TABLE,           // LoDTensorArrays
    tensor_array_to_tensor::TABLE, // arrays as one tensor
    control_flow::TABLE,           // sub-blocks
    split_lod_tensor::TABLE,       // split_lod_tensor, merge_lod_tensor
    feed_fetch::TABLE,             // feed and fetch
    print::TABLE,
    print::assert::TABLE,
    py_func::TABLE,
    delete_var::TABLE,
    rank_table::TABLE, // sequences by length, for dynamic recurrent networks
    recurrent::TABLE,
    run_program::TABLE,
    select_input::TABLE, // select_input and select_output
    get_places::TABLE,
    reader::TABLE,    // create_py_reader, read
    save_load::TABLE, // save, load
];
