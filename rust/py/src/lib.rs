//! `paddle._core`: the Python interface of the native code. The only crate that names pyo3 (except the extension
//! module itself).

mod device;
mod dist;
mod error;
mod gil;
mod io;
mod ops;
mod profiler;
mod program;
mod tensor;

use pyo3::prelude::*;

/// Registers everything in `paddle._core`; the table of operators is installed already.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    oar_core::base::fork::install();
    error::register(m)?;
    program::desc::register(m)?;
    tensor::class::register(m)?;
    tensor::new::register(m)?;
    io::tensor_file::register(m)?;
    tensor::lod_tensor::register(m)?;
    tensor::selected_rows::register(m)?;
    program::scope::register(m)?;
    tensor::dlpack::register(m)?;
    ops::builtins::register(m)?;
    ops::table::register(m)?;
    ops::eager::register(m)?;
    ops::trace::register(m)?;
    program::executor::register(m)?;
    io::feed::register(m)?;
    ops::py_func::register(m)?;
    ops::recorded::register(m)?;
    tensor::random::register(m)?;
    device::cuda::register(m)?;
    dist::group::register(
        m,
        &[dist::reducer::register, dist::servers::register, dist::store::register, dist::transport::register],
    )?;
    profiler::register(m)?;
    m.add("build_info", build_info())
}

/// What `paddle.version.show` prints about this build: version, commit (environment variable OAR_COMMIT of the build,
/// else "unknown"), profile and platform.
fn build_info() -> [(&'static str, String); 4] {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let platform = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    let commit = option_env!("OAR_COMMIT").unwrap_or("unknown");
    [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("commit", commit.to_owned()),
        ("profile", profile.to_owned()),
        ("platform", platform),
    ]
}
