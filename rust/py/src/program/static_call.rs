//! `_core.StaticCall`: a Program as one call on the tape.

use crate::error::OrRaise;
use crate::program::desc::PyProgramDesc;
use crate::tensor::object::PyTensor;
use oar_engine::static_call::{Names, StaticCall};
use pyo3::prelude::*;
use std::sync::Arc;

#[pyclass(name = "StaticCall", module = "paddle._core", frozen)]
pub struct PyStaticCall(Arc<StaticCall>);

#[pymethods]
impl PyStaticCall {
    /// Block 0 of `program`: operators before `forward` compute `outs` from `xs` and `params`; those from `gradient` on
    /// compute `<name>@GRAD` of inputs and parameters from `<name>@GRAD` of the outputs that `flows` marks.
    #[new]
    #[pyo3(signature = (program, forward, gradient, xs, params, outs, flows))]
    fn new(
        program: &Bound<'_, PyProgramDesc>,
        forward: usize,
        gradient: Option<usize>,
        xs: Vec<String>,
        params: Vec<String>,
        outs: Vec<String>,
        flows: Vec<bool>,
    ) -> PyResult<PyStaticCall> {
        let names = Names { xs, params, outs, flows };
        let call = StaticCall::new(program.get().program(), forward, gradient, names).or_raise()?;
        Ok(PyStaticCall(Arc::new(call)))
    }

    /// The outputs as new Tensors.
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        xs: Vec<Bound<'py, PyTensor>>,
        params: Vec<Bound<'py, PyTensor>>,
    ) -> PyResult<Vec<Bound<'py, PyTensor>>> {
        let [ins, held] = [&xs, &params].map(|list| list.iter().map(|t| &t.get().var).collect::<Vec<_>>());
        let outs = crate::gil::detached(py, || self.0.call(&ins, &held)).or_raise()?;
        outs.into_iter().map(|v| PyTensor::wrap(py, v)).collect()
    }
}
