//! The global random generator in Python. Its lock is taken without the GIL: another thread may be drawing for long.

use crate::error::OrRaise;
use oar_core::tensor::generator::{self, State};
use pyo3::prelude::*;

/// Seeds the global generator (`paddle.seed`).
#[pyfunction]
fn set_seed(py: Python<'_>, seed: i128) {
    crate::gil::detached(py, || generator::set_seed(seed as u64));
}

/// The seed that the global generator started from.
#[pyfunction]
fn initial_seed(py: Python<'_>) -> u64 {
    crate::gil::detached(py, generator::seed)
}

/// The state of the global generator, `(seed, words, position)`, for `set_rng_state`.
#[pyfunction]
fn get_rng_state(py: Python<'_>) -> (u64, Vec<u64>, usize) {
    let s = crate::gil::detached(py, generator::get_state);
    (s.seed, s.words, s.index)
}

/// Restores a state of `get_rng_state`.
#[pyfunction]
fn set_rng_state(py: Python<'_>, state: (u64, Vec<u64>, usize)) -> PyResult<()> {
    let (seed, words, index) = state;
    crate::gil::detached(py, || generator::set_state(&State { seed, words, index })).or_raise()
}

/// The next 64-bit number of the global generator.
#[pyfunction]
fn random_u64(py: Python<'_>) -> u64 {
    crate::gil::detached(py, generator::next_u64)
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(set_seed, m)?)?;
    m.add_function(wrap_pyfunction!(initial_seed, m)?)?;
    m.add_function(wrap_pyfunction!(get_rng_state, m)?)?;
    m.add_function(wrap_pyfunction!(set_rng_state, m)?)?;
    m.add_function(wrap_pyfunction!(random_u64, m)?)
}
