//! slice and strided_slice, of dense tensors and tensor arrays.

use oar_core::base::shape::axis;
use oar_core::base::{Dims, Result};
use oar_core::op::infer::VarKind;
use oar_core::op::parts::given::{given, Way};
use oar_core::op::parts::region::{span, Region, SliceAttrs, StridedSliceAttrs};
use oar_core::op::{slot, Grad, Infer, Kernel, Meta, Op, Run, Slot, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, ensure};
use smallvec::SmallVec;
use std::sync::Arc;

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
        // Of an axis that is given twice the last word counts, as in Paddle (and in `built`).
        let mut spans: SmallVec<[Option<(i64, i64, i64)>; 6]> = SmallVec::from_elem(None, dims.len());
        for i in 0..self.axes.len() {
            let at = self.axis(i, dims.len())?;
            spans[at] = Some(self.span(i, dims[at])?);
        }
        let mut region = Region::whole(dims);
        for (at, span) in spans.into_iter().enumerate() {
            if let Some((first, step, count)) = span {
                region.narrow(at, first, step, count);
            }
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
    macro_rules! of {
        ($a:expr, $strides:expr) => {
            Ask {
                op: op.name,
                axes: &$a.axes,
                starts: wide(&$a.starts),
                ends: wide(&$a.ends),
                strides: $strides,
                flags: &$a.infer_flags,
                decrease: &$a.decrease_axis,
            }
        };
    }
    if let Some(a) = attrs.downcast_ref::<SliceAttrs>() {
        return of!(a, SmallVec::new());
    }
    let a: &StridedSliceAttrs = attrs.downcast_ref().expect("attributes of another operator");
    of!(a, wide(&a.strides))
}

fn ask<'a>(cx: &Run<'a>) -> Result<Ask<'a>> {
    let mut ask = from_attrs(cx.op, cx.attrs.as_any());
    for (i, slots) in bound_slots(cx.op).into_iter().enumerate() {
        let Some((one, list)) = slots else { continue };
        if let Some(v) = given(cx, &[Way::One(one.into()), Way::List(list.into())])?.values() {
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
    let mut dx = oar_core::op::parts::elements::zeros(dout.dtype(), x.dims())?;
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

const STARTS: Slot = slot("StartsTensor").opt();
const ENDS: Slot = slot("EndsTensor").opt();
const STRIDES: Slot = slot("StridesTensor").opt();
const START_LIST: Slot = slot("StartsTensorList").many().opt();
const END_LIST: Slot = slot("EndsTensorList").many().opt();
const STRIDE_LIST: Slot = slot("StridesTensorList").many().opt();

const AGAIN: &[(&str, &str)] = &[("Input", "Input@GRAD@GRAD"), ("Out", "Out@GRAD@GRAD")];

pub static SLICE: Op = Op {
    name: "slice",
    inputs: &[slot("Input"), STARTS, ENDS, START_LIST, END_LIST],
    outputs: &[slot("Out")],
    attrs: SliceAttrs::FIELDS,
    infer: infer_slice,
    cpu: Kernel::Pure(slice),
    grad: Grad::By(&SLICE_GRAD),
    ..OP
};
pub static SLICE_GRAD: Op = Op {
    name: "slice_grad",
    inputs: &[slot("Input").meta_only(), STARTS, ENDS, START_LIST, END_LIST, slot("Out@GRAD")],
    outputs: &[slot("Input@GRAD")],
    attrs: SliceAttrs::FIELDS,
    infer: infer_slice_grad,
    cpu: Kernel::Pure(slice_grad),
    grad: Grad::Map(&SLICE, AGAIN),
    ..OP
};
pub static STRIDED_SLICE: Op = Op {
    name: "strided_slice",
    inputs: &[slot("Input"), STARTS, ENDS, STRIDES, START_LIST, END_LIST, STRIDE_LIST],
    outputs: &[slot("Out")],
    attrs: StridedSliceAttrs::FIELDS,
    infer: infer_slice,
    cpu: Kernel::Pure(slice),
    grad: Grad::By(&STRIDED_SLICE_GRAD),
    ..OP
};
pub static STRIDED_SLICE_GRAD: Op = Op {
    name: "strided_slice_grad",
    inputs: &[slot("Out@GRAD"), slot("Input").meta_only(), STARTS, ENDS, STRIDES, START_LIST, END_LIST, STRIDE_LIST],
    outputs: &[slot("Input@GRAD")],
    attrs: StridedSliceAttrs::FIELDS,
    infer: infer_slice_grad,
    cpu: Kernel::Pure(slice_grad),
    grad: Grad::Map(&STRIDED_SLICE, AGAIN),
    ..OP
};

pub static TABLE: &[&Op] = &[&SLICE, &SLICE_GRAD, &STRIDED_SLICE, &STRIDED_SLICE_GRAD];
