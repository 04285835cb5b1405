//! `_core.dist.Reducer`, the native part of `paddle.DataParallel`.

use crate::dist::group::PyGroup;
use crate::error::{wrap, OrRaise};
use crate::tensor::object::PyTensor;
use oar_core::base::Result;
use oar_core::tensor::Value;
use oar_engine::autograd::reducer::{Average, Param, Reducer};
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
    /// and of the others. `average`, if given, averages in place of the group: `start(bucket)` gets pairs of a
    /// parameter's index and its gradient (None counts as zeros) while backward runs, `finish()` returns such pairs of all
    /// that was started, `abort()` ends what a failed backward started.
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
        let average = average.map(|object| Box::new(ByObject(object)) as Box<dyn Average>);
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

/// Averages by a Python object (`paddle.distributed.on_device.Averages`).
struct ByObject(Py<PyAny>);

impl Average for ByObject {
    fn start(&self, bucket: Vec<(usize, Option<Value>)>) -> Result<()> {
        crate::gil::attached(|py| {
            let given =
                |(i, value): (usize, Option<Value>)| Ok((i, value.map(|v| PyTensor::given(py, v, true)).transpose()?));
            let given = bucket.into_iter().map(given).collect::<PyResult<Vec<_>>>()?;
            self.0.call_method1(py, "start", (given,)).map(drop)
        })
        .map_err(wrap)
    }

    fn finish(&self) -> Result<Vec<(usize, Value)>> {
        crate::gil::attached(|py| {
            let found: Vec<(usize, Bound<'_, PyTensor>)> = self.0.call_method0(py, "finish")?.extract(py)?;
            Ok(found.into_iter().map(|(i, t)| (i, t.get().var.cell.get())).collect())
        })
        .map_err(wrap)
    }

    fn abort(&self) {
        crate::gil::attached(|py| {
            if let Err(e) = self.0.call_method0(py, "abort") {
                e.write_unraisable(py, Some(self.0.bind(py)));
            }
        });
    }
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyReducer>()
}
