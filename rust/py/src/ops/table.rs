//! The operator table as Python data, for tests, OpProto and the status command.

use crate::ops::attrs::to_py;
use oar_core::op::{self, profile, table, Grad, Kernel, Op, Slot};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

fn slots<'py>(py: Python<'py>, slots: &[Slot]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for s in slots {
        let d = PyDict::new(py);
        d.set_item("name", s.name)?;
        for (flag, key) in [
            (op::SlotFlag::Duplicable, "duplicable"),
            (op::SlotFlag::Dispensable, "dispensable"),
            (op::SlotFlag::Intermediate, "intermediate"),
            (op::SlotFlag::MetaOnly, "meta_only"),
            (op::SlotFlag::Extra, "extra"),
            (op::SlotFlag::NotReturned, "not_returned"),
        ] {
            d.set_item(key, s.has(flag))?;
        }
        d.set_item("alias", s.alias)?;
        list.append(d)?;
    }
    Ok(list)
}

fn describe<'py>(py: Python<'py>, op: &'static Op) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("type", op.name)?;
    d.set_item("layer", op.layer_name())?;
    d.set_item("inputs", slots(py, op.inputs)?)?;
    d.set_item("outputs", slots(py, op.outputs)?)?;
    let attrs = PyList::empty(py);
    for f in op.attrs.fields {
        let a = PyDict::new(py);
        a.set_item("name", f.name)?;
        a.set_item("type", f.kind as i32)?;
        a.set_item("required", f.required)?;
        match (f.default)() {
            Some(v) => a.set_item("default", to_py(py, &v)?)?,
            None => a.set_item("default", py.None())?,
        }
        attrs.append(a)?;
    }
    d.set_item("attrs", attrs)?;
    let (grad, form) = match op.grad {
        Grad::None => (None, "none"),
        Grad::By(g) => (Some(g.name), "by name"),
        Grad::Map(g, _) => (Some(g.name), "map"),
        Grad::Fn(_) => (None, "function"),
        Grad::Program(_) => (None, "program"),
    };
    d.set_item("grad", grad)?;
    d.set_item("grad_form", form)?;
    d.set_item("is_gradient", table::is_gradient(op))?;
    d.set_item(
        "kernel",
        match op.cpu {
            Kernel::Pure(_) => "kernel",
            Kernel::Random(_) => "random",
            Kernel::Host(_) => "host",
            Kernel::Control(_) => "control",
        },
    )?;
    d.set_item("needs", op.needs)?;
    d.set_item("elementwise", op.pointwise.is_some())?;
    d.set_item("dtypes", op.dtypes.iter().map(|t| t.name()).collect::<Vec<_>>())?;
    d.set_item("amp", format!("{:?}", op.amp).to_lowercase())?;
    Ok(d)
}

/// Every operator: type, inputs, outputs, attributes, gradient.
#[pyfunction]
fn op_table(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for op in table::all() {
        list.append(describe(py, op)?)?;
    }
    Ok(list)
}

/// The data types that the operands of an operator may have.
#[pyfunction]
fn op_dtypes(name: &str) -> PyResult<Vec<&'static str>> {
    let op = table::lookup(name).ok_or_else(|| PyKeyError::new_err(format!("there is no operator {name}")))?;
    Ok(op.dtypes.iter().map(|t| t.name()).collect())
}

#[pyfunction]
fn has_op(name: &str) -> bool {
    table::lookup(name).is_some()
}

/// Enables Winograd's transforms for convolutions (FLAGS_conv_winograd).
#[pyfunction]
fn set_conv_winograd(on: bool) {
    oar_kernels::conv::winograd::enable(on);
}

/// Enables the processor's matrix unit for large float32 products (FLAGS_amx_products).
#[pyfunction]
fn set_amx_products(on: bool) {
    oar_kernels::gemm::amx::enable(on);
}

/// Enables the check of every operator's outputs for NaN and infinities (FLAGS_check_nan_inf).
#[pyfunction]
fn set_check_nan_inf(on: bool) {
    profile::set_checked(on);
}

/// Selects the arithmetic of Paddle 1.8 (FLAGS_compat=1.8).
#[pyfunction]
fn set_compat_18(on: bool) {
    oar_core::base::release::set_18(on);
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(op_table, m)?)?;
    m.add_function(wrap_pyfunction!(op_dtypes, m)?)?;
    m.add_function(wrap_pyfunction!(has_op, m)?)?;
    m.add_function(wrap_pyfunction!(set_conv_winograd, m)?)?;
    m.add_function(wrap_pyfunction!(set_amx_products, m)?)?;
    m.add_function(wrap_pyfunction!(set_check_nan_inf, m)?)?;
    m.add_function(wrap_pyfunction!(set_compat_18, m)?)
}
