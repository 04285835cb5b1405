//! `_core.dist.Reducer`: what `paddle.DataParallel` keeps of the engine.

use crate::dist::group::PyGroup;
use crate::error::OrRaise;
use crate::tensor::object::PyTensor;
use oar_engine::autograd::reducer::{Param, Reducer};
use pyo3::prelude::*;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// Averages the gradients of these parameters over the group in every backward that reaches one of them, as long as the
/// object lives.
#[pyclass(name = "Reducer", module = "paddle._core.dist", frozen)]
struct PyReducer(Arc<Reducer>);

#[pymethods]
impl PyReducer {
    /// `sparse` says whose gradients are SelectedRows; `limits` are the bytes of the bucket reduced last and of the others.
    #[new]
    fn new(
        params: Vec<Bound<'_, PyTensor>>,
        names: Vec<String>,
        sparse: Vec<bool>,
        group: &Bound<'_, PyGroup>,
        limits: [usize; 2],
        find_unused: bool,
    ) -> PyResult<PyReducer> {
        let params = params.iter().zip(names).zip(sparse);
        let params = params.map(|((p, name), sparse)| Param { var: p.get().var.clone(), name, sparse });
        Ok(PyReducer(
            Reducer::new(params.collect(), group.get().member().or_raise()?.clone(), limits, find_unused).or_raise()?,
        ))
    }

    /// Whether gradients are averaged now (`no_sync` turns it off).
    #[getter]
    fn enabled(&self) -> bool {
        self.0.enabled.load(Relaxed)
    }

    #[setter]
    fn set_enabled(&self, on: bool) {
        self.0.enabled.store(on, Relaxed);
    }

    /// Whether full buckets are reduced while backward goes on; by itself only where a core is idle.
    #[getter]
    fn overlap(&self) -> bool {
        self.0.overlap.load(Relaxed)
    }

    #[setter]
    fn set_overlap(&self, on: bool) {
        self.0.overlap.store(on, Relaxed);
    }

    /// The numbers of the parameters in each bucket, in the order of the buckets.
    fn layout(&self) -> Vec<Vec<usize>> {
        self.0.layout()
    }
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyReducer>()
}
