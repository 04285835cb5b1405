//! `x[index] = value` with a derivative. What is made of integers and slices without steps is the operator set_value;
//! any other index becomes positions in the flat tensor, for scatter. Both work in the variable of `x`.

use super::eager::run;
use super::indexing::{int32, parse, plain_index, tensor_of, Parsed};
use super::number::{attrs_with, call1, need};
use super::numpy::from_array;
use super::tensor::PyTensor;
use crate::error::OrRaise;
use oar_core::base::DType;
use oar_core::ir::Attr;
use oar_core::op::parts::region::broadcast_from;
use oar_core::op::{Args, Attrs, Op};
use oar_core::tensor::Tensor;
use oar_engine::autograd::eager::{Destination, Ins};
use oar_engine::autograd::EVar;
use pyo3::prelude::*;
use std::sync::Arc;

pub fn recorded(
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
    Ok(())
}

/// The value as a variable of the type of `x`, other than `x` itself, which the assignment works in.
fn operand(value: &Bound<'_, PyAny>, dtype: DType, x: &EVar) -> PyResult<EVar> {
    let py = value.py();
    if let Ok(t) = value.cast::<PyTensor>() {
        let var = &t.get().var;
        if t.get().tensor().or_raise()?.dtype() != dtype {
            let cast = need("cast").or_raise()?;
            let from = Attr::Int(t.get().tensor().or_raise()?.dtype().proto());
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
    Ok(EVar::new(tensor, true))
}

fn sizes(dims: &[i64]) -> Attr {
    Attr::Ints(dims.iter().map(|&d| int32(d)).collect())
}

fn reshaped(py: Python<'_>, v: &EVar, dims: &[i64]) -> PyResult<EVar> {
    if v.tensor().or_raise()?.dims() == dims {
        return Ok(v.clone());
    }
    let op = need("reshape2").or_raise()?;
    call1(py, op, &attrs_with(op, &[("shape", sizes(dims))]), &[v])
}

/// The value with the sizes of what it is assigned to, numpy's way.
fn broadcast(py: Python<'_>, v: &EVar, dims: &[i64]) -> PyResult<EVar> {
    let own = v.tensor().or_raise()?;
    let from = broadcast_from("set_value", own.dims(), dims).or_raise()?;
    if from == dims {
        return reshaped(py, v, dims);
    }
    // expand knows no tensors without dimensions.
    let from = if from.is_empty() { &[1][..] } else { from };
    let v = reshaped(py, v, from)?;
    let op = need("expand_v2").or_raise()?;
    call1(py, op, &attrs_with(op, &[("shape", sizes(dims))]), &[&v])
}

/// Runs an operator with `x`'s variable as its output.
fn into(py: Python<'_>, op: &'static Op, attrs: &Attrs, ins: &[&EVar], x: &EVar) -> PyResult<()> {
    let mut args: Ins = Args::new();
    ins.iter().for_each(|v| args.push_one(Some(*v)));
    let mut targets = Args::new();
    targets.push_one(Destination::Into(x));
    run(py, op, attrs, &args, &targets, false).or_raise()?;
    Ok(())
}

fn by_slices(py: Python<'_>, x: &EVar, p: &Parsed, value: EVar, dtype: DType) -> PyResult<()> {
    let dims = p.dims(true);
    let one = value.tensor().or_raise()?.numel() == 1;
    if p.region.numel() == 0 {
        broadcast_from("set_value", value.tensor().or_raise()?.dims(), &dims).or_raise()?;
        return Ok(());
    }
    // The operator sees a slice of x's rank: axes that the index drops or puts in are to be settled first.
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

fn by_positions(py: Python<'_>, x: &EVar, index: &Bound<'_, PyAny>, value: EVar, dims: &[i64]) -> PyResult<()> {
    let ids = positions(py, index, dims)?;
    let value = broadcast(py, &value, ids.dims())?;
    if ids.numel() == 0 {
        return Ok(());
    }
    let n = ids.numel() as i64;
    let ids = EVar::new(ids.reshaped(&[n]), true);
    let (flat, value) = (reshaped(py, x, &[-1])?, reshaped(py, &value, &[n])?);
    let scatter = need("scatter").or_raise()?;
    let out = call1(py, scatter, (scatter.attrs.shared)(), &[&flat, &ids, &value])?;
    let (out, assign) = (reshaped(py, &out, dims)?, need("assign").or_raise()?);
    into(py, assign, (assign.attrs.shared)(), &[&out], x)
}

/// Where the elements lie that numpy would assign to, in its order: of one that comes twice the last value stays.
fn positions(py: Python<'_>, index: &Bound<'_, PyAny>, dims: &[i64]) -> PyResult<Tensor> {
    let numpy = py.import("numpy")?;
    let n: i64 = dims.iter().product();
    let all = numpy.call_method1("arange", (n,))?.call_method1("reshape", (dims.to_vec(),))?;
    let ids = numpy.call_method1("asarray", (all.get_item(plain_index(index)?)?,))?;
    let ids = numpy.call_method1("ascontiguousarray", (ids.call_method1("astype", ("int64",))?,))?;
    let shape: Vec<i64> = ids.getattr("shape")?.extract()?;
    Ok(from_array(&ids)?.reshaped(&shape))
}
