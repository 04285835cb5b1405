//! `x[index] = value` of eager Tensors. As in 2.0.2 every index of numpy is accepted: one that is not made of integers
//! and slices goes through a numpy array. With a gradient, integers and slices without steps are the operator
//! set_value; any other index becomes positions in the flat tensor, for scatter. Both work in the variable of `x`.

use crate::error::{raise, OrRaise};
use crate::ops::eager::run;
use crate::tensor::indexing::{int32, parse, Parsed};
use crate::tensor::number::{attrs_with, call1, need};
use crate::tensor::numpy::{from_array, is_array, to_array, without_gil};
use crate::tensor::object::PyTensor;
use oar_core::base::shape::numel;
use oar_core::base::{DType, Dims, Result};
use oar_core::ir::Attr;
use oar_core::op::{Args, Attrs, Op};
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, ensure, err};
use oar_engine::autograd::eager::{is_recording, Destination, Ins};
use oar_engine::autograd::{trace, EagerVar};
use oar_ops_common::fill::{full, Scalar};
use oar_ops_common::region::{broadcast_from, broadcast_to, Region};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyTuple};
use std::sync::Arc;

/// `x[index] = value`, in place. Recorded where a gradient flows to `x` or from the value.
pub fn set(slf: &Bound<'_, PyTensor>, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let x = slf.get().unfetched().or_raise()?;
    let (dims, dtype, on_device) = (Dims::from_slice(x.dims()), x.dtype(), x.on_device().is_some());
    drop(x);
    if is_recording() && (dtype.is_float() || dtype.is_complex()) {
        let var = &slf.get().var;
        let flows = |t: &Bound<'_, PyTensor>| !t.get().var.stop_gradient();
        if !var.stop_gradient() && var.is_leaf() {
            return Err(raise(err!(
                InvalidArgument,
                "a leaf Tensor with stop_gradient=False can not be assigned to in place: its gradient would have no \
                 place to go; do it under paddle.no_grad(), or on a copy"
            )));
        }
        if !var.stop_gradient() || value.cast::<PyTensor>().is_ok_and(flows) {
            return recorded(slf, index, value, &dims, dtype);
        }
    }
    if on_device {
        // By operators: they run where the elements are.
        return recorded(slf, index, value, &dims, dtype);
    }
    let cell = &slf.get().var.cell;
    match (parse(index, &dims, true)?, tensor_of(value, dtype)?) {
        (Some(p), Some(v)) => {
            let part = p.dims(true);
            let work = || {
                let v = broadcast_to("set_value", &v, &part)?;
                match &mut *cell.lock() {
                    Value::Dense(t) => write(t, &dims, &p.region, &v),
                    _ => bail!(PreconditionNotMet, "the Tensor lost its memory"),
                }
            };
            // Shared bytes are copied before the write.
            let whole = cell.lock().as_dense().is_some_and(|t| !t.buffer().is_writable());
            let bytes = numel(if whole { &dims } else { &part }) * dtype.size();
            without_gil(slf.py(), bytes, work).or_raise()?;
        }
        _ => by_numpy(slf, index, value)?,
    }
    cell.bump();
    trace::given(&slf.get().var);
    Ok(())
}

fn write(t: &mut Tensor, dims: &[i64], region: &Region, value: &Tensor) -> Result<()> {
    ensure!(t.dims() == dims, PreconditionNotMet, "the Tensor was changed by another thread");
    region.write(value, t)
}

/// A value of the tensor's own type; None if numpy must convert it.
fn tensor_of(value: &Bound<'_, PyAny>, dtype: DType) -> PyResult<Option<Tensor>> {
    if let Ok(t) = value.cast::<PyTensor>() {
        let t = t.get().tensor().or_raise()?;
        return Ok((t.dtype() == dtype).then_some(t));
    }
    if is_array(value) {
        let t = from_array(value)?;
        return Ok((t.dtype() == dtype && dtype != DType::BF16).then_some(t));
    }
    let scalar = if value.is_instance_of::<PyInt>() && dtype.is_integer() {
        let n: i64 = value.extract()?;
        let bits = 8 * dtype.size() as u32;
        let (low, high) = match dtype {
            DType::U8 => (0, 255),
            _ => (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
        };
        if !(low..=high).contains(&n) {
            return Err(PyOverflowError::new_err(format!("Python integer {n} out of bounds for {dtype}")));
        }
        Scalar { float: n as f64, int: Some(n) }
    } else if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        let v: f64 = value.extract()?;
        if dtype.is_integer() && !v.is_finite() {
            return Err(PyValueError::new_err(format!("cannot convert float {v} to {dtype}")));
        }
        Scalar::from(v)
    } else {
        return Ok(None);
    };
    Ok(Some(full(dtype, &[1], scalar).or_raise()?))
}

/// A Tensor as a numpy array; other objects unchanged.
fn plain(obj: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    match obj.cast::<PyTensor>() {
        Ok(t) => Ok(to_array(obj.py(), &t.get().tensor().or_raise()?)?.unbind()),
        Err(_) => Ok(obj.clone().unbind()),
    }
}

/// An index as numpy accepts it.
fn plain_index(index: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let Ok(items) = index.cast::<PyTuple>() else { return plain(index) };
    let items = items.iter().map(|i| plain(&i)).collect::<PyResult<Vec<_>>>()?;
    Ok(PyTuple::new(index.py(), items)?.into_any().unbind())
}

/// Any other index: through a numpy copy of the whole tensor.
fn by_numpy(slf: &Bound<'_, PyTensor>, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = slf.py();
    let x = slf.get().tensor().or_raise()?;
    if x.dtype() == DType::BF16 {
        return Err(raise(err!(Unimplemented, "assigning converted values to a bfloat16 Tensor is not supported")));
    }
    let array = to_array(py, &x)?;
    drop(x);
    let index = plain_index(index)?;
    array.set_item(index, plain(value)?)?;
    let new = from_array(&array)?;
    let cell = &slf.get().var.cell;
    let copy = || match &mut *cell.lock() {
        Value::Dense(t) if t.dims() == new.dims() && t.dtype() == new.dtype() => {
            t.bytes_mut()?.copy_from_slice(new.bytes());
            Ok(())
        }
        _ => bail!(PreconditionNotMet, "the Tensor was changed while it was assigned to"),
    };
    without_gil(py, new.nbytes(), copy).or_raise()
}

fn recorded(
    slf: &Bound<'_, PyTensor>,
    index: &Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
    dims: &[i64],
    dtype: DType,
) -> PyResult<()> {
    let py = slf.py();
    let var = &slf.get().var;
    let value = operand(value, dtype, var)?;
    match parse(index, dims, true)? {
        Some(p) if !p.strided => by_slices(py, var, &p, value, dtype)?,
        _ => by_positions(py, var, index, value, dims)?,
    }
    var.cell.bump();
    var.cell.mark_aliases_stale();
    Ok(())
}

/// The value as a variable with the type of `x`; a copy if it is `x` itself, in which the assignment works.
fn operand(value: &Bound<'_, PyAny>, dtype: DType, x: &EagerVar) -> PyResult<EagerVar> {
    let py = value.py();
    if let Ok(t) = value.cast::<PyTensor>() {
        let var = &t.get().var;
        let own = t.get().unfetched().or_raise()?.dtype();
        if own != dtype {
            let cast = need("cast").or_raise()?;
            let from = Attr::Int(own.proto());
            return call1(
                py,
                cast,
                &attrs_with(cast, &[("in_dtype", from), ("out_dtype", Attr::Int(dtype.proto()))]),
                &[var],
            );
        }
        if Arc::ptr_eq(&var.cell, &x.cell) {
            let assign = need("assign").or_raise()?;
            return call1(py, assign, (assign.attrs.shared)(), &[var]);
        }
        return Ok(var.clone());
    }
    let tensor = match tensor_of(value, dtype)? {
        Some(t) => t,
        None => {
            let numpy = py.import("numpy")?;
            let array = numpy.call_method1("asarray", (value,))?.call_method1("astype", (dtype.name(),))?;
            from_array(&array)?
        }
    };
    Ok(EagerVar::new(tensor, true))
}

fn sizes(dims: &[i64]) -> Attr {
    Attr::Ints(dims.iter().map(|&d| int32(d)).collect())
}

fn reshaped(py: Python<'_>, v: &EagerVar, dims: &[i64]) -> PyResult<EagerVar> {
    if v.tensor().or_raise()?.dims() == dims {
        return Ok(v.clone());
    }
    let op = need("reshape2").or_raise()?;
    call1(py, op, &attrs_with(op, &[("shape", sizes(dims))]), &[v])
}

/// The value broadcast to the assigned sizes, as numpy does.
fn broadcast(py: Python<'_>, v: &EagerVar, dims: &[i64]) -> PyResult<EagerVar> {
    let own = v.tensor().or_raise()?;
    let from = broadcast_from("set_value", own.dims(), dims).or_raise()?;
    if from == dims {
        return reshaped(py, v, dims);
    }
    // expand takes no tensors of rank 0.
    let from = if from.is_empty() { &[1][..] } else { from };
    let v = reshaped(py, v, from)?;
    let op = need("expand_v2").or_raise()?;
    call1(py, op, &attrs_with(op, &[("shape", sizes(dims))]), &[&v])
}

/// Runs an operator with `x`'s variable as its output.
fn into(py: Python<'_>, op: &'static Op, attrs: &Attrs, ins: &[&EagerVar], x: &EagerVar) -> PyResult<()> {
    let mut args: Ins = Args::new();
    ins.iter().for_each(|v| args.push_one(Some(*v)));
    let mut targets = Args::new();
    targets.push_one(Destination::Into(x));
    run(py, op, attrs, &args, &targets, false).or_raise()?;
    Ok(())
}

fn by_slices(py: Python<'_>, x: &EagerVar, p: &Parsed, value: EagerVar, dtype: DType) -> PyResult<()> {
    let dims = p.dims(true);
    let one = value.tensor().or_raise()?.numel() == 1;
    if p.region.numel() == 0 {
        broadcast_from("set_value", value.tensor().or_raise()?.dims(), &dims).or_raise()?;
        return Ok(());
    }
    // The operator sees a slice of x's rank: axes that the index drops or inserts are handled first.
    let changed = p.dropped.contains(&true) || !p.new_axes.is_empty();
    let value = match (one, changed) {
        (true, _) => reshaped(py, &value, &[1])?,
        (false, true) => reshaped(py, &broadcast(py, &value, &dims)?, &p.region.dims)?,
        (false, false) => value,
    };
    let op = need("set_value").or_raise()?;
    let longs = |of: fn(&(i32, i64, i64, i64)) -> i64| Attr::Longs(p.spans.iter().map(of).collect());
    let attrs = [
        ("dtype", Attr::Int(dtype.proto())),
        ("axes", longs(|s| s.0 as i64)),
        ("starts", longs(|s| s.1)),
        ("ends", longs(|s| s.2)),
    ];
    into(py, op, &attrs_with(op, &attrs), &[x, &value], x)
}

fn by_positions(py: Python<'_>, x: &EagerVar, index: &Bound<'_, PyAny>, value: EagerVar, dims: &[i64]) -> PyResult<()> {
    let ids = positions(py, index, dims)?;
    let value = broadcast(py, &value, ids.dims())?;
    if ids.numel() == 0 {
        return Ok(());
    }
    let n = ids.numel() as i64;
    let ids = EagerVar::new(ids.reshaped(&[n]), true);
    let (flat, value) = (reshaped(py, x, &[-1])?, reshaped(py, &value, &[n])?);
    let scatter = need("scatter").or_raise()?;
    let out = call1(py, scatter, (scatter.attrs.shared)(), &[&flat, &ids, &value])?;
    let (out, assign) = (reshaped(py, &out, dims)?, need("assign").or_raise()?);
    into(py, assign, (assign.attrs.shared)(), &[&out], x)
}

/// The flat positions to which numpy would assign, in its order: of repeated positions the last value stays.
fn positions(py: Python<'_>, index: &Bound<'_, PyAny>, dims: &[i64]) -> PyResult<Tensor> {
    let numpy = py.import("numpy")?;
    let n: i64 = dims.iter().product();
    let all = numpy.call_method1("arange", (n,))?.call_method1("reshape", (dims.to_vec(),))?;
    let ids = numpy.call_method1("asarray", (all.get_item(plain_index(index)?)?,))?;
    let ids = numpy.call_method1("ascontiguousarray", (ids.call_method1("astype", ("int64",))?,))?;
    let shape: Vec<i64> = ids.getattr("shape")?.extract()?;
    Ok(from_array(&ids)?.reshaped(&shape))
}
