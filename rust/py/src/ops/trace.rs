//! The log of eager calls (`autograd::trace`) as Python objects.

use crate::error::OrRaise;
use crate::ops::attrs::to_py;
use crate::tensor::object::PyTensor;
use oar_core::op::{Args, Attrs, Slot};
use oar_core::tensor::VarStorage;
use oar_engine::autograd::trace::{self, Event, Seen};
use oar_engine::autograd::EagerVar;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// The Tensor that represents each variable: a given one, or a new one.
struct Tensors<'py> {
    py: Python<'py>,
    by_cell: HashMap<*const VarStorage, Bound<'py, PyTensor>>,
}

impl<'py> Tensors<'py> {
    fn tensor(&mut self, seen: &Seen) -> PyResult<Bound<'py, PyTensor>> {
        if let Some(t) = self.by_cell.get(&Arc::as_ptr(&seen.cell)) {
            return Ok(t.clone());
        }
        let var = EagerVar::from_parts(seen.cell.clone(), None, true);
        var.persistable.store(seen.persistable, Relaxed);
        let t = PyTensor::wrap(self.py, var)?;
        self.by_cell.insert(Arc::as_ptr(&seen.cell), t.clone());
        Ok(t)
    }

    /// Slot name -> list, for slots with a variable.
    fn slots(&mut self, slots: &[Slot], args: &Args<Option<Seen>>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(self.py);
        for (i, slot) in slots.iter().enumerate() {
            let vars = args.slot(i).iter().flatten().map(|v| self.tensor(v)).collect::<PyResult<Vec<_>>>()?;
            if !vars.is_empty() {
                dict.set_item(slot.name, vars)?;
            }
        }
        Ok(dict)
    }
}

/// The attributes that differ from their defaults.
fn named<'py>(py: Python<'py>, attrs: &Attrs) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (i, field) in attrs.schema().fields.iter().enumerate() {
        let value = attrs.get(i);
        if (field.default)().as_ref() != Some(&value) {
            dict.set_item(field.name, to_py(py, &value)?)?;
        }
    }
    Ok(dict)
}

type Log<'py> = (Bound<'py, PyList>, Vec<Bound<'py, PyTensor>>);

/// Starts the log of what this thread's eager calls read and write.
#[pyfunction]
fn start_trace() -> PyResult<()> {
    trace::start().or_raise()
}

/// Ends the log: a list of (operator, {slot: inputs}, {slot: outputs}, attributes) in order, and for each Tensor in
/// `known` the one that represents its variable there: the first in `known` that shares it. The operator is None where
/// no operator computed the outputs' values.
#[pyfunction]
fn stop_trace<'py>(py: Python<'py>, known: Vec<Bound<'py, PyTensor>>) -> PyResult<Log<'py>> {
    let events = trace::stop();
    let mut tensors = Tensors { py, by_cell: HashMap::new() };
    let stand_in = |t: Bound<'py, PyTensor>| {
        let cell = Arc::as_ptr(&t.get().var.cell);
        tensors.by_cell.entry(cell).or_insert(t).clone()
    };
    let known = known.into_iter().map(stand_in).collect();
    let list = PyList::empty(py);
    for event in &events {
        match event {
            Event::Call { op, attrs, ins, outs } => {
                let (ins, outs) = (tensors.slots(op.inputs, ins)?, tensors.slots(op.outputs, outs)?);
                list.append((op.name, ins, outs, named(py, attrs)?))?;
            }
            Event::Given(seen) => {
                let outs = PyDict::new(py);
                outs.set_item("Out", vec![tensors.tensor(seen)?])?;
                list.append((py.None(), PyDict::new(py), outs, PyDict::new(py)))?;
            }
        }
    }
    Ok((list, known))
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(start_trace, m)?)?;
    m.add_function(wrap_pyfunction!(stop_trace, m)?)
}
