//! Slices: slice and strided_slice (dense tensors and tensor arrays), and assignment to a slice.

use super::raw::{given, part, strided, strided_write, strides_of};
use crate::attrs;
use crate::base::shape::{axis, numel};
use crate::base::{DType, Dims, Result};
use crate::op::infer::VarKind;
use crate::op::{slot, Grad, Infer, Kernel, Meta, Op, Run, Slot, OP};
use crate::tensor::{Tensor, Value};
use crate::{bail, ensure};
use smallvec::SmallVec;
use std::sync::Arc;

attrs! {
    pub struct SliceAttrs {
        axes: Vec<i32>, starts: Vec<i32> = vec![], ends: Vec<i32> = vec![], infer_flags: Vec<i32> = vec![],
        decrease_axis: Vec<i32> = vec![],
    }
    pub struct StridedSliceAttrs {
        axes: Vec<i32>, starts: Vec<i32> = vec![], ends: Vec<i32> = vec![], strides: Vec<i32> = vec![],
        infer_flags: Vec<i32> = vec![], decrease_axis: Vec<i32> = vec![],
    }
    pub struct SetValueAttrs {
        dtype: i32 = 5, axes: Vec<i64>, starts: Vec<i64>, ends: Vec<i64>, bool_values: Vec<i32> = vec![],
        fp32_values: Vec<f32> = vec![], int32_values: Vec<i32> = vec![], int64_values: Vec<i64> = vec![],
        fp64_values: Vec<f64> = vec![], shape: Vec<i64> = vec![],
    }
}

/// Elements of a tensor at `offset + index . strides` for every index of `dims`.
#[derive(Clone, Debug)]
pub struct Region {
    pub offset: usize,
    pub dims: Dims,
    pub strides: SmallVec<[isize; 6]>,
}

impl Region {
    /// The whole tensor.
    pub fn whole(dims: &[i64]) -> Region {
        Region { offset: 0, dims: Dims::from_slice(dims), strides: strides_of(dims) }
    }

    /// Keeps `count` indices of an axis: `first`, `first + step`, ...
    #[inline]
    pub fn narrow(&mut self, axis: usize, first: i64, step: i64, count: i64) {
        if count > 0 {
            self.offset = (self.offset as isize + first as isize * self.strides[axis]) as usize;
        }
        self.dims[axis] = count;
        self.strides[axis] *= step as isize;
    }

    pub fn numel(&self) -> usize {
        numel(&self.dims)
    }

    /// True if the elements follow each other in memory.
    fn is_contiguous(&self) -> bool {
        let mut step = 1;
        for (&d, &s) in self.dims.iter().zip(&self.strides).rev() {
            if d != 1 && s != step {
                return false;
            }
            step *= d as isize;
        }
        true
    }

    /// The elements as a tensor of shape `shape` (of as many elements).
    pub fn read(&self, x: &Tensor, shape: &[i64]) -> Result<Tensor> {
        if self.numel() == 0 {
            return Tensor::empty(x.dtype(), shape);
        }
        if self.is_contiguous() {
            return part(x, self.offset, shape);
        }
        Ok(strided(x, &self.dims, &self.strides, self.offset)?.reshaped(shape))
    }

    /// Writes a tensor of as many elements over these.
    pub fn write(&self, values: &Tensor, out: &mut Tensor) -> Result<()> {
        strided_write(values, &self.dims, out, &self.strides, self.offset)
    }
}

/// What a slice operator was asked for, attributes and tensors put together.
struct Ask<'a> {
    op: &'static str,
    axes: &'a [i32],
    starts: SmallVec<[i64; 6]>,
    ends: SmallVec<[i64; 6]>,
    /// Empty: all 1.
    strides: SmallVec<[i64; 6]>,
    flags: &'a [i32],
    decrease: &'a [i32],
}

fn wide(v: &[i32]) -> SmallVec<[i64; 6]> {
    v.iter().map(|&n| n as i64).collect()
}

impl Ask<'_> {
    fn check(&self, strided: bool) -> Result<()> {
        let n = self.axes.len();
        for (name, len) in [("starts", self.starts.len()), ("ends", self.ends.len())] {
            ensure!(
                len == n,
                InvalidArgument,
                "operator {}: {name} must be as many as axes, got {len} and {n}",
                self.op
            );
        }
        ensure!(
            !strided || self.strides.len() == n,
            InvalidArgument,
            "operator {}: strides must be as many as axes, got {} and {n}",
            self.op,
            self.strides.len()
        );
        Ok(())
    }

    fn flag(&self, i: usize) -> i32 {
        self.flags.get(i).copied().unwrap_or(1)
    }

    fn axis(&self, i: usize, rank: usize) -> Result<usize> {
        axis(self.op, self.axes[i] as i64, rank)
    }

    /// First index, step and count on axis number `i`, which has size `n`.
    fn span(&self, i: usize, n: i64) -> Result<(i64, i64, i64)> {
        let step = self.strides.get(i).copied().unwrap_or(1);
        ensure!(step != 0, InvalidArgument, "operator {}: a stride must not be 0", self.op);
        let (start, mut end) = (self.starts[i], self.ends[i]);
        // An index -1 that came as a tensor: its end, 0, means the end of the axis.
        if start == -1 && end == 0 && self.flag(i) == -1 && self.decrease.contains(&self.axes[i]) {
            end = if step > 0 { i64::MAX } else { n - 2 };
        }
        let span = span(start, end, step, n);
        if span.2 == 0 && n > 0 {
            bail!(
                InvalidArgument,
                "operator {}: end should be beyond start, got start {start} and end {} with step {step} on an axis of \
                 size {n}",
                self.op,
                self.ends[i]
            );
        }
        Ok(span)
    }

    fn region(&self, dims: &[i64]) -> Result<Region> {
        let mut region = Region::whole(dims);
        for i in 0..self.axes.len() {
            let at = self.axis(i, dims.len())?;
            let (first, step, count) = self.span(i, dims[at])?;
            region.narrow(at, first, step, count);
        }
        Ok(region)
    }

    /// The shape without the axes that were indexed; [1] if none is left.
    fn decreased(&self, dims: &[i64], run: bool) -> Result<Dims> {
        if self.decrease.is_empty() {
            return Ok(Dims::from_slice(dims));
        }
        let mut drop: SmallVec<[bool; 6]> = SmallVec::from_elem(false, dims.len());
        for &d in self.decrease {
            let at = axis(self.op, d as i64, dims.len())?;
            ensure!(
                !run || dims[at] == 1,
                InvalidArgument,
                "operator {}: decrease dim should be 1, got {} at axis {at}",
                self.op,
                dims[at]
            );
            drop[at] = true;
        }
        let mut out: Dims = dims.iter().zip(&drop).filter(|(_, &drop)| !drop).map(|(&d, _)| d).collect();
        if out.is_empty() {
            out.push(1);
        }
        Ok(out)
    }

    /// While a Program is built: -1 where a size is unknown.
    fn built(&self, dims: &[i64], unknown: bool) -> Result<Dims> {
        let mut out = Dims::from_slice(dims);
        for i in 0..self.axes.len() {
            let at = self.axis(i, dims.len())?;
            if unknown || self.flag(i) == -1 {
                out[at] = -1;
            } else if dims[at] >= 0 && i < self.starts.len() && i < self.ends.len() {
                out[at] = self.span(i, dims[at])?.2;
            }
        }
        self.decreased(&out, false)
    }
}

/// First index, step and number of indices of `start:end:step` on an axis of size `n`. Negative bounds count from the
/// end of the axis, except an end of -1 with a negative step: that is the place before the first index.
pub fn span(start: i64, end: i64, step: i64, n: i64) -> (i64, i64, i64) {
    let from_end = |v: i64| if v < 0 { v.saturating_add(n) } else { v };
    let first = from_end(start);
    if step > 0 {
        let (first, end) = (first.max(0), from_end(end).clamp(0, n));
        let count = if end > first { (end - first - 1) / step + 1 } else { 0 };
        (first, step, count)
    } else {
        let end = if end == -1 { -1 } else { from_end(end).max(-1) };
        let first = first.min(n - 1);
        let count = if first > end { (first - end - 1) / step.saturating_neg() + 1 } else { 0 };
        (first, step, count)
    }
}

// Slots of slice: Input, StartsTensor, EndsTensor, StartsTensorList, EndsTensorList. Of strided_slice: Input,
// Starts-, Ends-, StridesTensor, then the three lists. Gradient operators have one slot more, in front or behind.

/// Slots of the tensors that may stand for starts, ends and (strided) strides.
fn bound_slots(op: &Op) -> [Option<(usize, usize)>; 3] {
    let pair = |one: &str, list: &str| op.input(one).zip(op.input(list));
    [
        pair("StartsTensor", "StartsTensorList"),
        pair("EndsTensor", "EndsTensorList"),
        pair("StridesTensor", "StridesTensorList"),
    ]
}

fn from_attrs<'a>(op: &'static Op, attrs: &'a dyn std::any::Any) -> Ask<'a> {
    match attrs.downcast_ref::<SliceAttrs>() {
        Some(a) => Ask {
            op: op.name,
            axes: &a.axes,
            starts: wide(&a.starts),
            ends: wide(&a.ends),
            strides: SmallVec::new(),
            flags: &a.infer_flags,
            decrease: &a.decrease_axis,
        },
        None => {
            let a: &StridedSliceAttrs = attrs.downcast_ref().expect("attributes of another operator");
            Ask {
                op: op.name,
                axes: &a.axes,
                starts: wide(&a.starts),
                ends: wide(&a.ends),
                strides: wide(&a.strides),
                flags: &a.infer_flags,
                decrease: &a.decrease_axis,
            }
        }
    }
}

fn ask<'a>(cx: &Run<'a>) -> Result<Ask<'a>> {
    let mut ask = from_attrs(cx.op, cx.attrs.as_any());
    for (i, slots) in bound_slots(cx.op).into_iter().enumerate() {
        let Some((one, list)) = slots else { continue };
        if let Some(v) = given(cx, one, list)? {
            *[&mut ask.starts, &mut ask.ends, &mut ask.strides][i] = SmallVec::from_vec(v);
        }
    }
    ask.check(cx.attrs.as_any().is::<StridedSliceAttrs>())?;
    Ok(ask)
}

fn infer_slice(cx: &mut Infer) -> Result<()> {
    if cx.is_run() {
        return Ok(());
    }
    let ask = from_attrs(cx.op, cx.attrs.as_any());
    let m = cx.meta(0, 0)?;
    if m.kind == VarKind::Array {
        // Elements of the array are alike; a range of them is an array again.
        let kind = if ask.decrease.is_empty() { VarKind::Array } else { VarKind::Dense };
        cx.set_meta(0, 0, Meta { kind, ..m });
        return Ok(());
    }
    let slots = bound_slots(cx.op);
    let whole = slots.iter().flatten().any(|&(one, _)| cx.has(one));
    let lists = slots.iter().flatten().any(|&(_, list)| cx.has(list));
    if !whole && !lists {
        ask.check(cx.attrs.as_any().is::<StridedSliceAttrs>())?;
    }
    let out = ask.built(&m.dims, whole)?;
    cx.set(0, &out, m.dtype);
    if ask.axes.first() != Some(&0) || cx.op.name == "strided_slice" {
        cx.share_lod(0, 0);
    }
    Ok(())
}

fn slice(cx: &mut Run) -> Result<()> {
    let ask = ask(cx)?;
    if let Value::Array(items) = cx.value(0)? {
        let (from, _, count) = array_span(&ask, items.len())?;
        let items = &items[from as usize..(from + count) as usize];
        let out = if ask.decrease.is_empty() { Value::Array(Arc::new(items.to_vec())) } else { items[0].clone() };
        cx.set(0, out);
        return Ok(());
    }
    let x = cx.input(0)?;
    let region = ask.region(x.dims())?;
    let dims = ask.decreased(&region.dims, true)?;
    let lod = x.lod.clone().filter(|_| ask.axes.first() != Some(&0) || !ask.strides.is_empty());
    cx.set(0, region.read(x, &dims)?.with_lod(lod));
    Ok(())
}

fn array_span(ask: &Ask, n: usize) -> Result<(i64, i64, i64)> {
    ensure!(
        ask.axes.len() == 1 && ask.strides.is_empty(),
        InvalidArgument,
        "operator {}: a LoDTensorArray has one axis and is sliced without strides, got axes {:?}",
        ask.op,
        ask.axes
    );
    let span = ask.span(0, n as i64)?;
    ensure!(span.2 > 0, InvalidArgument, "operator {}: a slice of an empty LoDTensorArray", ask.op);
    Ok(span)
}

fn infer_slice_grad(cx: &mut Infer) -> Result<()> {
    if cx.is_run() {
        return Ok(());
    }
    let input = cx.op.input("Input").unwrap_or(0);
    let m = cx.meta(input, 0)?;
    cx.set_meta(0, 0, m);
    Ok(())
}

fn slice_grad(cx: &mut Run) -> Result<()> {
    let ask = ask(cx)?;
    let slot_of = |name| cx.op.input(name).unwrap_or(0);
    let (input, dout) = (cx.value(slot_of("Input"))?, cx.value(slot_of("Out@GRAD"))?);
    if let Value::Array(items) = input {
        let grad = array_grad(&ask, items, dout)?;
        cx.set(0, grad);
        return Ok(());
    }
    let (x, dout) = (input.dense()?, dout.dense()?);
    let region = ask.region(x.dims())?;
    ensure!(
        region.numel() == dout.numel(),
        InvalidArgument,
        "operator {}: the gradient of the slice has shape {:?}, but the slice has {:?}",
        ask.op,
        dout.dims(),
        region.dims
    );
    let mut dx = super::raw::zeros(dout.dtype(), x.dims())?;
    region.write(dout, &mut dx)?;
    cx.set(0, dx.with_lod(x.lod.clone()));
    Ok(())
}

/// Zeros for the elements of the array, and the gradient where the slice was.
fn array_grad(ask: &Ask, items: &[Value], dout: &Value) -> Result<Value> {
    let (from, _, count) = array_span(ask, items.len())?;
    let mut grads = items
        .iter()
        .map(|v| match v {
            Value::Dense(t) => Tensor::zeros(t.dtype(), t.dims()).map(Value::Dense),
            other => Ok(other.clone()),
        })
        .collect::<Result<Vec<_>>>()?;
    let at = from as usize;
    match dout {
        Value::Array(d) if d.len() <= count as usize => grads[at..at + d.len()].clone_from_slice(d),
        Value::Dense(_) => grads[at] = dout.clone(),
        other => bail!(InvalidArgument, "operator {}: the gradient of a slice cannot be {}", ask.op, other.what()),
    }
    Ok(Value::Array(Arc::new(grads)))
}

const fn list(name: &'static str) -> Slot {
    slot(name).many().opt()
}

const AGAIN: &[(&str, &str)] = &[("Input", "Input@GRAD@GRAD"), ("Out", "Out@GRAD@GRAD")];

pub static SLICE: Op = Op {
    name: "slice",
    inputs: &[
        slot("Input"),
        slot("StartsTensor").opt(),
        slot("EndsTensor").opt(),
        list("StartsTensorList"),
        list("EndsTensorList"),
    ],
    outputs: &[slot("Out")],
    attrs: SliceAttrs::FIELDS,
    infer: infer_slice,
    cpu: Kernel::Pure(slice),
    grad: Grad::By(&SLICE_GRAD),
    ..OP
};
pub static SLICE_GRAD: Op = Op {
    name: "slice_grad",
    inputs: &[
        slot("Input").meta_only(),
        slot("StartsTensor").opt(),
        slot("EndsTensor").opt(),
        list("StartsTensorList"),
        list("EndsTensorList"),
        slot("Out@GRAD"),
    ],
    outputs: &[slot("Input@GRAD")],
    attrs: SliceAttrs::FIELDS,
    infer: infer_slice_grad,
    cpu: Kernel::Pure(slice_grad),
    grad: Grad::Map(&SLICE, AGAIN),
    ..OP
};
pub static STRIDED_SLICE: Op = Op {
    name: "strided_slice",
    inputs: &[
        slot("Input"),
        slot("StartsTensor").opt(),
        slot("EndsTensor").opt(),
        slot("StridesTensor").opt(),
        list("StartsTensorList"),
        list("EndsTensorList"),
        list("StridesTensorList"),
    ],
    outputs: &[slot("Out")],
    attrs: StridedSliceAttrs::FIELDS,
    infer: infer_slice,
    cpu: Kernel::Pure(slice),
    grad: Grad::By(&STRIDED_SLICE_GRAD),
    ..OP
};
pub static STRIDED_SLICE_GRAD: Op = Op {
    name: "strided_slice_grad",
    inputs: &[
        slot("Out@GRAD"),
        slot("Input").meta_only(),
        slot("StartsTensor").opt(),
        slot("EndsTensor").opt(),
        slot("StridesTensor").opt(),
        list("StartsTensorList"),
        list("EndsTensorList"),
        list("StridesTensorList"),
    ],
    outputs: &[slot("Input@GRAD")],
    attrs: StridedSliceAttrs::FIELDS,
    infer: infer_slice_grad,
    cpu: Kernel::Pure(slice_grad),
    grad: Grad::Map(&STRIDED_SLICE, AGAIN),
    ..OP
};

// set_value: Out is Input with a slice replaced.

/// A tensor broadcast to the shape of a region, numpy's way (ones in front mean nothing).
pub fn broadcast_to(op: &str, value: &Tensor, dims: &[i64]) -> Result<Tensor> {
    if value.dims() == dims {
        return Ok(value.clone());
    }
    let mut from = value.dims();
    while from.len() > dims.len() && from[0] == 1 {
        from = &from[1..];
    }
    let lead = dims.len().wrapping_sub(from.len());
    let fits = from.len() <= dims.len() && from.iter().zip(&dims[lead..]).all(|(&f, &d)| f == d || f == 1);
    ensure!(
        fits,
        InvalidArgument,
        "operator {op}: a value of shape {:?} cannot be broadcast to shape {dims:?}",
        value.dims()
    );
    let own = strides_of(from);
    let strides: SmallVec<[isize; 6]> =
        (0..dims.len()).map(|i| if i < lead || from[i - lead] == 1 { 0 } else { own[i - lead] }).collect();
    strided(value, dims, &strides, 0)
}

fn set_value(cx: &mut Run) -> Result<()> {
    let a = cx.attrs::<SetValueAttrs>();
    let mut out = cx.take_out(0)?;
    let (n, rank) = (a.axes.len(), out.rank());
    let result = (|| {
        ensure!(
            a.starts.len() == n && a.ends.len() == n,
            InvalidArgument,
            "operator set_value: axes, starts and ends must be equally many, got {n}, {} and {}",
            a.starts.len(),
            a.ends.len()
        );
        let dtype = super::raw::data_type(cx.op.name, a.dtype)?;
        ensure!(
            dtype == out.dtype(),
            InvalidArgument,
            "operator set_value: attribute dtype is {dtype}, but Input is {}",
            out.dtype()
        );
        let mut region = Region::whole(out.dims());
        for i in 0..n {
            let at = axis(cx.op.name, a.axes[i], rank)?;
            let (first, step, count) = span(a.starts[i], a.ends[i], 1, out.dims()[at]);
            ensure!(
                count > 0,
                InvalidArgument,
                "operator set_value: end should be greater than start, got start {} and end {} on an axis of size {}",
                a.starts[i],
                a.ends[i],
                out.dims()[at]
            );
            region.narrow(at, first, step, count);
        }
        let value = match cx.opt(1) {
            Some(t) => {
                ensure!(
                    t.dtype() == dtype,
                    InvalidArgument,
                    "operator set_value: ValueTensor is {}, but Input is {dtype}",
                    t.dtype()
                );
                t.clone()
            }
            None => value_of(a, dtype)?,
        };
        region.write(&broadcast_to(cx.op.name, &value, &region.dims)?, &mut out)
    })();
    cx.set(0, out); // also after an error: an input worked on in place must not be lost
    result
}

/// The value that the attributes hold.
fn value_of(a: &SetValueAttrs, dtype: DType) -> Result<Tensor> {
    match dtype {
        DType::Bool => {
            let values: Vec<bool> = a.bool_values.iter().map(|&v| v != 0).collect();
            Tensor::from_slice(&values, &a.shape)
        }
        DType::F32 => Tensor::from_slice(&a.fp32_values, &a.shape),
        DType::F64 => Tensor::from_slice(&a.fp64_values, &a.shape),
        DType::I32 => Tensor::from_slice(&a.int32_values, &a.shape),
        DType::I64 => Tensor::from_slice(&a.int64_values, &a.shape),
        other => bail!(Unimplemented, "operator set_value has no CPU kernel for data type {other}"),
    }
}

pub static SET_VALUE: Op = Op {
    name: "set_value",
    inputs: &[slot("Input"), slot("ValueTensor").opt()],
    outputs: &[slot("Out").aliases("Input")],
    attrs: SetValueAttrs::FIELDS,
    infer: |cx| {
        cx.like(0, 0)?;
        cx.share_lod(0, 0);
        Ok(())
    },
    cpu: Kernel::Pure(set_value),
    ..OP
};

pub static TABLE: &[&Op] = &[&SLICE, &SLICE_GRAD, &STRIDED_SLICE, &STRIDED_SLICE_GRAD, &SET_VALUE];

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn spans_are_those_of_python() {
        let python = |start: i64, end: Option<i64>, step: i64, n: i64| -> Vec<i64> {
            let wrap = |v: i64| if v < 0 { v + n } else { v };
            let (mut i, end) = match step > 0 {
                true => (wrap(start).clamp(0, n), end.map_or(n, |e| wrap(e).clamp(0, n))),
                false => (wrap(start).clamp(-1, n - 1), end.map_or(-1, |e| wrap(e).clamp(-1, n - 1))),
            };
            let mut out = vec![];
            while (step > 0 && i < end) || (step < 0 && i > end) {
                out.push(i);
                i += step;
            }
            out
        };
        for n in [0, 1, 2, 7] {
            for start in -9..9 {
                for end in -9..9 {
                    for step in [1, 2, 3, 9, -1, -2, -3, -9] {
                        let end_given = if end == -1 && step < 0 { None } else { Some(end) };
                        let (first, step, count) = span(start, end, step, n);
                        let got: Vec<i64> = (0..count).map(|i| first + i * step).collect();
                        assert_eq!(got, python(start, end_given, step, n), "{start}:{end}:{step} of {n}");
                    }
                }
            }
        }
    }
}
