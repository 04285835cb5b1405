//! `_core.dist.Reducer`, the native part of `paddle.DataParallel`.

use crate::dist::group::PyGroup;
use crate::error::{wrap, OrRaise};
use crate::tensor::object::PyTensor;
use oar_core::tensor::Value;
use oar_engine::autograd::reducer::{Average, Param, Reducer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// Averages the gradients of these parameters over the group in every backward that reaches one of them, as long as the
/// object lives.
#[pyclass(name = "Reducer", module = "paddle._core.dist", frozen)]
struct PyReducer(Arc<Reducer>);

#[pymethods]
impl PyReducer {
    /// `sparse` flags parameters whose gradients are SelectedRows; `limits` are the bytes of the bucket reduced last
    /// and of the others. `average`, if given, is called after each backward with pairs of a parameter's index and its
    /// gradient (None if only other ranks have one), and returns the averages.
    #[new]
    #[pyo3(signature = (params, names, sparse, group, limits, find_unused, average=None))]
    fn new(
        params: Vec<Bound<'_, PyTensor>>,
        names: Vec<String>,
        sparse: Vec<bool>,
        group: &Bound<'_, PyGroup>,
        limits: [usize; 2],
        find_unused: bool,
        average: Option<Py<PyAny>>,
    ) -> PyResult<PyReducer> {
        let params = params.iter().zip(names).zip(sparse);
        let params = params.map(|((p, name), sparse)| Param { var: p.get().var.clone(), name, sparse });
        let member = group.get().member().or_raise()?.clone();
        let average = average.map(by_function);
        Ok(PyReducer(Reducer::new(params.collect(), member, limits, find_unused, average).or_raise()?))
    }

    /// Whether gradients are averaged (`no_sync` turns it off).
    #[getter]
    fn enabled(&self) -> bool {
        self.0.enabled.load(Relaxed)
    }

    #[setter]
    fn set_enabled(&self, on: bool) {
        self.0.enabled.store(on, Relaxed);
    }

    /// Whether full buckets are reduced during backward; the default is true if a core is idle.
    #[getter]
    fn overlap(&self) -> bool {
        self.0.overlap.load(Relaxed)
    }

    #[setter]
    fn set_overlap(&self, on: bool) {
        self.0.overlap.store(on, Relaxed);
    }

    /// The indices of the parameters in each bucket, in the order of the buckets.
    fn layout(&self) -> Vec<Vec<usize>> {
        self.0.layout()
    }
}

/// Averages by a Python function.
fn by_function(function: Py<PyAny>) -> Average {
    Box::new(move |grads| {
        crate::gil::attached(|py| {
            let given =
                |(i, value): (usize, Option<Value>)| Ok((i, value.map(|v| PyTensor::given(py, v, true)).transpose()?));
            let given = grads.into_iter().map(given).collect::<PyResult<Vec<_>>>()?;
            let count = given.len();
            let found: Vec<Bound<'_, PyTensor>> = function.call1(py, (given,))?.extract(py)?;
            if found.len() != count {
                return Err(PyValueError::new_err(format!(
                    "{count} gradients are averaged, {} came back",
                    found.len()
                )));
            }
            Ok(found.iter().map(|t| t.get().var.cell.get()).collect())
        })
        .map_err(wrap)
    })
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyReducer>()
}
