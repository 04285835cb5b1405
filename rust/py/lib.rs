//! `paddle._core`: the only door to native code. The only crate that names pyo3 (beside the module itself).

mod assign;
mod attrs;
mod buffer;
mod cuda;
pub mod desc;
mod dist;
mod dist_reducer;
mod dist_servers;
mod dist_store;
mod dlpack;
mod eager;
mod error;
mod executor;
mod feed;
mod indexing;
mod lod_tensor;
mod number;
mod numpy;
mod object;
mod op_table;
mod ops;
mod profiler;
mod py_func;
mod random;
mod scope;
mod selected_rows;
mod tensor;
mod tensor_file;
mod tensor_new;
mod trace;

use pyo3::prelude::*;

/// Everything that `paddle._core` holds; the table of operators has been installed before.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    error::register(m)?;
    desc::register(m)?;
    tensor::register(m)?;
    tensor_new::register(m)?;
    numpy::register(m)?;
    tensor_file::register(m)?;
    lod_tensor::register(m)?;
    selected_rows::register(m)?;
    scope::register(m)?;
    dlpack::register(m)?;
    ops::register(m)?;
    op_table::register(m)?;
    eager::register(m)?;
    trace::register(m)?;
    executor::register(m)?;
    feed::register(m)?;
    py_func::register(m)?;
    random::register(m)?;
    cuda::register(m)?;
    dist::register(m, &[dist_reducer::register, dist_servers::register, dist_store::register])?;
    profiler::register(m)?;
    Ok(())
}
