//! `x[index]` of eager Tensors. 2.0.2 takes integers and slices; Ellipsis, None and one-element integer Tensors are
//! accepted as well.

use crate::error::{raise, OrRaise};
use crate::ops::eager::{is_large, run};
use crate::tensor::number::{attrs_with, call1, need};
use crate::tensor::numpy::is_array;
use crate::tensor::object::PyTensor;
use oar_core::base::{DType, Dims, Result};
use oar_core::err;
use oar_core::ir::Attr;
use oar_core::op::{backend, table, Args, Attrs, Op};
use oar_core::tensor::{Tensor, Value};
use oar_engine::autograd::eager::{is_recording, wrap_plain, Destination, Ins};
use oar_engine::autograd::{trace, EagerVar};
use oar_ops_common::region::{Region, SliceAttrs, StridedSliceAttrs};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PySlice, PyTuple};
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};

/// An index of integers, slices, Ellipsis and None over a shape.
pub(crate) struct Parsed {
    pub(crate) region: Region,
    /// Axes with an integer, which the result does not have.
    pub(crate) dropped: SmallVec<[bool; 6]>,
    /// Ranges of the axes that are not read whole: axis, first index, end, step.
    pub(crate) spans: SmallVec<[(i32, i64, i64, i64); 4]>,
    /// Axes of size 1 to insert, by their position in the result.
    pub(crate) new_axes: SmallVec<[usize; 2]>,
    pub(crate) strided: bool,
}

impl Parsed {
    /// The shape of the result; [1] where numpy would return a scalar and `scalars` is false.
    pub(crate) fn dims(&self, scalars: bool) -> Dims {
        let mut dims = self.kept();
        self.new_axes.iter().for_each(|&at| dims.insert(at, 1));
        if dims.is_empty() && !scalars {
            dims.push(1);
        }
        dims
    }

    fn kept(&self) -> Dims {
        self.region.dims.iter().zip(&self.dropped).filter(|(_, &drop)| !drop).map(|(&d, _)| d).collect()
    }
}

/// An integer index: an int, a numpy integer, a Tensor of one integer; not a bool.
fn integer(item: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if item.is_exact_instance_of::<PyInt>() {
        return item.extract().map(Some);
    }
    if item.is_instance_of::<PyBool>() || is_array(item) {
        return Ok(None);
    }
    if let Ok(t) = item.cast::<PyTensor>() {
        let t = t.get().tensor().or_raise()?;
        let one = t.numel() == 1 && matches!(t.dtype(), DType::I32 | DType::I64 | DType::I16);
        return Ok(if one { t.to_i64s().or_raise()?.first().copied() } else { None });
    }
    // SAFETY: a check of a live object.
    if unsafe { ffi::PyIndex_Check(item.as_ptr()) } == 0 || item.get_type().name()?.to_string().starts_with("bool") {
        return Ok(None);
    }
    item.extract().map(Some)
}

#[cold]
fn not_an_index(item: &Bound<'_, PyAny>) -> PyErr {
    let kind = item.get_type().name().map(|n| n.to_string()).unwrap_or_default();
    PyValueError::new_err(format!(
        "(InvalidArgument) a Tensor is indexed by integers, slices and tuples of these, got {kind}"
    ))
}

/// Start, stop and step of a slice within an axis of size `n`, and the number of indices.
fn unpack(slice: &Bound<'_, PySlice>, n: i64) -> PyResult<(i64, i64, i64, i64)> {
    let (mut start, mut stop, mut step) = (0, 0, 0);
    // SAFETY: a slice object and places for three integers; -1 says that an exception is set.
    let count = unsafe {
        if ffi::PySlice_Unpack(slice.as_ptr(), &mut start, &mut stop, &mut step) < 0 {
            return Err(PyErr::fetch(slice.py()));
        }
        ffi::PySlice_AdjustIndices(n as ffi::Py_ssize_t, &mut start, &mut stop, step)
    };
    Ok((start as i64, stop as i64, step as i64, count as i64))
}

/// None if the index holds anything but integers, slices, Ellipsis and None.
pub(crate) fn parse(index: &Bound<'_, PyAny>, dims: &[i64], write: bool) -> PyResult<Option<Parsed>> {
    let mut p = Parsed {
        region: Region::whole(dims),
        dropped: SmallVec::from_elem(false, dims.len()),
        spans: SmallVec::new(),
        new_axes: SmallVec::new(),
        strided: false,
    };
    let mut at = Cursor { axis: 0, out: 0 };
    let Ok(tuple) = index.cast::<PyTuple>() else {
        return Ok(p.item(index, &mut at, dims, 1, write)?.then_some(p));
    };
    let mut used = 0;
    for item in tuple.iter() {
        used += (!item.is_none() && !item.is_instance_of::<PyEllipsis>()) as usize;
    }
    if used > dims.len() {
        let text = format!("too many indices ({used}) for a tensor of dimension {}", dims.len());
        return Err(if write { PyIndexError::new_err(text) } else { PyValueError::new_err(text) });
    }
    let mut ellipses = 0;
    for item in tuple.iter() {
        ellipses += item.is_instance_of::<PyEllipsis>() as usize;
        if ellipses > 1 {
            return Err(PyIndexError::new_err("an index can have only one ellipsis ('...')"));
        }
        if !p.item(&item, &mut at, dims, used, write)? {
            return Ok(None);
        }
    }
    Ok(Some(p))
}

/// The progress of parsing: axes of the tensor, and of the result.
struct Cursor {
    axis: usize,
    out: usize,
}

impl Parsed {
    /// Parses one item of an index in which `used` items consume an axis each. False if it is of another kind.
    fn item(
        &mut self,
        item: &Bound<'_, PyAny>,
        at: &mut Cursor,
        dims: &[i64],
        used: usize,
        write: bool,
    ) -> PyResult<bool> {
        if let Ok(slice) = item.cast::<PySlice>() {
            let Some(&n) = dims.get(at.axis) else {
                return Err(PyIndexError::new_err("a slice of a tensor without dimensions"));
            };
            let (start, stop, step, count) = unpack(slice, n)?;
            if !(start == 0 && count == n && step == 1) {
                if count == 0 && !write {
                    return Err(empty_slice(start, stop, step, n));
                }
                self.region.narrow(at.axis, start, step, count);
                self.spans.push((at.axis as i32, start, stop, step));
                self.strided |= step != 1;
            }
            at.axis += 1;
            at.out += 1;
        } else if item.is_none() {
            self.new_axes.push(at.out);
            at.out += 1;
        } else if item.is_instance_of::<PyEllipsis>() {
            let whole = dims.len() - used.min(dims.len());
            at.axis += whole;
            at.out += whole;
        } else {
            let Some(i) = integer(item)? else { return Ok(false) };
            let n = dims.get(at.axis).copied().unwrap_or(0);
            let from_start = if i < 0 { i.saturating_add(n) } else { i };
            if !(0..n).contains(&from_start) {
                return Err(out_of_bounds(i, at.axis, n));
            }
            self.region.narrow(at.axis, from_start, 1, 1);
            self.dropped[at.axis] = true;
            self.spans.push((at.axis as i32, from_start, from_start + 1, 1));
            at.axis += 1;
        }
        Ok(true)
    }
}

#[cold]
fn out_of_bounds(i: i64, axis: usize, n: i64) -> PyErr {
    PyIndexError::new_err(format!(
        "the index {i} is out of bounds in the tensor's {axis}-th axis, it should be in the range of [-{n}, {n})"
    ))
}

#[cold]
fn empty_slice(start: i64, stop: i64, step: i64, n: i64) -> PyErr {
    PyValueError::new_err(format!(
        "(InvalidArgument) end should be beyond start, got the slice {start}:{stop}:{step} of an axis of size {n}"
    ))
}

pub(crate) fn int32(n: i64) -> i32 {
    n.clamp(i32::MIN as i64, i32::MAX as i64) as i32
}

/// The operator that reads this index, with its attributes.
fn operator(p: &Parsed) -> Result<(&'static Op, Attrs)> {
    static OPS: [OnceLock<Option<&'static Op>>; 2] = [const { OnceLock::new() }; 2];
    let name = if p.strided { "strided_slice" } else { "slice" };
    let op = OPS[p.strided as usize].get_or_init(|| table::lookup(name));
    let op = op.ok_or_else(|| err!(NotFound, "operator {name} is not there"))?;
    let axes = p.spans.iter().map(|s| s.0).collect();
    let starts = p.spans.iter().map(|s| int32(s.1)).collect();
    let ends = p.spans.iter().map(|s| int32(s.2)).collect();
    let infer_flags = vec![]; // all 1
    let decrease_axis = (0i32..).zip(&p.dropped).filter(|(_, &drop)| drop).map(|(i, _)| i).collect();
    if !p.strided {
        return Ok((op, Arc::new(SliceAttrs { axes, starts, ends, infer_flags, decrease_axis })));
    }
    let strides = p.spans.iter().map(|s| int32(s.3)).collect();
    Ok((op, Arc::new(StridedSliceAttrs { axes, starts, ends, strides, infer_flags, decrease_axis })))
}

/// Starts, ends and strides as tensors where one of them is no int32, as the attributes are; else none.
fn long_bounds(p: &Parsed) -> Result<SmallVec<[EagerVar; 3]>> {
    let bounds = p.spans.iter().flat_map(|s| [s.1, s.2, s.3]);
    if bounds.map(i32::try_from).all(|n| n.is_ok()) {
        return Ok(SmallVec::new());
    }
    let tensor = |of: fn(&(i32, i64, i64, i64)) -> i64| {
        let values: Vec<i64> = p.spans.iter().map(of).collect();
        Ok(EagerVar::new(Tensor::from_slice(&values, &[values.len() as i64])?, true))
    };
    let parts: [fn(&(i32, i64, i64, i64)) -> i64; 3] = [|s| s.1, |s| s.2, |s| s.3];
    parts[..2 + p.strided as usize].iter().map(|&of| tensor(of)).collect()
}

/// `x[index]`: a new Tensor, or `x` itself if the index selects everything.
pub fn get<'py>(slf: &Bound<'py, PyTensor>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTensor>> {
    let py = slf.py();
    let var = &slf.get().var;
    let x = slf.get().unfetched().or_raise()?;
    let Some(p) = parse(index, x.dims(), false)? else { return Err(not_an_index(index)) };
    if p.spans.is_empty() && p.new_axes.is_empty() {
        return Ok(slf.clone());
    }
    if (var.stop_gradient() || !is_recording()) && !trace::is_on() && x.on_device().is_none() {
        let mut out = p.region.read(&x, &p.dims(false)).or_raise()?;
        out.lod = x.lod.clone().filter(|_| p.new_axes.is_empty() && p.spans.first().is_some_and(|s| s.0 != 0));
        return PyTensor::wrap(py, EagerVar::new(out, true));
    }
    let sliced = if p.spans.is_empty() { var.clone() } else { call(py, &p, var, x)? };
    if p.new_axes.is_empty() {
        return PyTensor::wrap(py, sliced);
    }
    // An index of integers only has the shape [1], to which None adds axes.
    let (op, attr, sizes) = match p.kept().is_empty() {
        true => ("reshape2", "shape", p.dims(false).iter().map(|&d| int32(d)).collect()),
        false => ("unsqueeze2", "axes", p.new_axes.iter().map(|&at| at as i32).collect()),
    };
    let op = need(op).or_raise()?;
    PyTensor::wrap(py, call1(py, op, &attrs_with(op, &[(attr, Attr::Ints(sizes))]), &[&sliced])?)
}

/// The recorded call of the operator; a small part is read here, with the operator's result.
fn call(py: Python<'_>, p: &Parsed, var: &EagerVar, x: Tensor) -> PyResult<EagerVar> {
    let (op, attrs) = operator(p).or_raise()?;
    let bounds = long_bounds(p).or_raise()?;
    let mut ins: Ins = Args::new();
    ins.push_one(Some(var));
    for slot in 1..op.inputs.len() {
        // StartsTensor, EndsTensor and (strided_slice) StridesTensor follow the input.
        match bounds.get(slot - 1) {
            Some(bound) => ins.push_one(Some(bound)),
            None => ins.push_slot([]),
        }
    }
    if !is_large(&x) && !backend::serves(std::iter::once(&x)) {
        let mut dims = p.kept();
        if dims.is_empty() {
            dims.push(1);
        }
        let mut out = p.region.read(&x, &dims).or_raise()?;
        out.lod = x.lod.clone().filter(|_| p.strided || p.spans.first().is_some_and(|s| s.0 != 0));
        return wrap_plain(op, &attrs, &ins, Value::Dense(out)).or_raise();
    }
    drop(x);
    let mut targets = Args::new();
    targets.push_one(Destination::New);
    let outs = run(py, op, &attrs, &ins, &targets, false).or_raise()?;
    outs.flat.into_iter().flatten().next().ok_or_else(|| raise(err!(Fatal, "operator {} gave nothing", op.name)))
}
