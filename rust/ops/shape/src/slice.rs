//! slice and strided_slice, of dense tensors and tensor arrays.

use oar_core::base::shape::axis;
use oar_core::base::{Dims, Result};
use oar_core::op::infer::VarKind;
use oar_core::op::{Attrs, Grad, InSlot, Kernel, KernelContext, Meta, Op, ShapeContext, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, ensure, slots};
use oar_ops_common::elements::set_zero;
use oar_ops_common::region::{span, Region, SliceAttrs, StridedSliceAttrs};
use oar_ops_common::tensor_attr::{tensor_attr, AttrInputs, AttrSource, TensorAttr};
use smallvec::SmallVec;
use std::sync::Arc;

slots! {
    // Large slices share the bytes. A slice of a tensor array is an array or one of its tensors.
    mod slice {
        INPUT "Input", STARTS "StartsTensor".dispensable(), ENDS "EndsTensor".dispensable(),
        START_LIST "StartsTensorList".duplicable().dispensable(), END_LIST "EndsTensorList".duplicable().dispensable()
        => OUT "Out".kernel_allocated()
    }
    mod slice_grad {
        INPUT "Input".meta_only(), STARTS "StartsTensor".dispensable(), ENDS "EndsTensor".dispensable(),
        START_LIST "StartsTensorList".duplicable().dispensable(), END_LIST "EndsTensorList".duplicable().dispensable(), DOUT "Out@GRAD"
        => DINPUT "Input@GRAD"
    }
    mod strided_slice {
        INPUT "Input", STARTS "StartsTensor".dispensable(), ENDS "EndsTensor".dispensable(), STRIDES "StridesTensor".dispensable(),
        START_LIST "StartsTensorList".duplicable().dispensable(), END_LIST "EndsTensorList".duplicable().dispensable(),
        STRIDE_LIST "StridesTensorList".duplicable().dispensable()
        => OUT "Out".kernel_allocated()
    }
    mod strided_slice_grad {
        DOUT "Out@GRAD", INPUT "Input".meta_only(), STARTS "StartsTensor".dispensable(), ENDS "EndsTensor".dispensable(),
        STRIDES "StridesTensor".dispensable(), START_LIST "StartsTensorList".duplicable().dispensable(),
        END_LIST "EndsTensorList".duplicable().dispensable(), STRIDE_LIST "StridesTensorList".duplicable().dispensable()
        => DINPUT "Input@GRAD"
    }
}

/// The slots of one operator, by role.
struct Slots {
    input: InSlot,
    /// Only of a gradient operator.
    dout: InSlot,
    /// Sources of starts, ends and (strided_slice) strides as tensor attributes.
    bounds: &'static [(InSlot, InSlot)],
}

const SLICE_SLOTS: Slots = Slots {
    input: slice_grad::INPUT,
    dout: slice_grad::DOUT,
    bounds: &[(slice_grad::STARTS, slice_grad::START_LIST), (slice_grad::ENDS, slice_grad::END_LIST)],
};
const STRIDED_SLOTS: Slots = Slots {
    input: strided_slice::INPUT,
    dout: strided_slice_grad::DOUT,
    bounds: &[
        (strided_slice::STARTS, strided_slice::START_LIST),
        (strided_slice::ENDS, strided_slice::END_LIST),
        (strided_slice::STRIDES, strided_slice::STRIDE_LIST),
    ],
};
const STRIDED_GRAD_SLOTS: Slots = Slots {
    input: strided_slice_grad::INPUT,
    dout: strided_slice_grad::DOUT,
    bounds: &[
        (strided_slice_grad::STARTS, strided_slice_grad::START_LIST),
        (strided_slice_grad::ENDS, strided_slice_grad::END_LIST),
        (strided_slice_grad::STRIDES, strided_slice_grad::STRIDE_LIST),
    ],
};

/// The arguments of a slice, from attributes and tensor attributes.
struct SliceArgs<'a> {
    op: &'static str,
    axes: &'a [i32],
    starts: SmallVec<[i64; 6]>,
    ends: SmallVec<[i64; 6]>,
    /// Empty (all 1) for slice.
    strides: SmallVec<[i64; 6]>,
    strided: bool,
    flags: &'a [i32],
    decrease: &'a [i32],
    /// A single tensor holds starts, ends or strides, whose values are unknown: no axis is known.
    unknown: bool,
    /// Lists of tensors hold some of the values, which are unknown: infer_flags name the axes.
    unknown_some: bool,
}

fn wide(v: &[i32]) -> SmallVec<[i64; 6]> {
    v.iter().map(|&n| n as i64).collect()
}

impl SliceArgs<'_> {
    /// All lists must have one entry per axis, where their lengths are known.
    fn check(&self) -> Result<()> {
        if self.unknown || self.unknown_some {
            return Ok(());
        }
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
            !self.strided || self.strides.len() == n,
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
        // Index -1 from a tensor: its end, 0, means the end of the axis.
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
        // Of an axis that is given twice the last entry counts, as in Paddle (and in `dims`).
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

    /// As in Paddle, strided_slice keeps the LoD even if it cuts the first dimension.
    fn keeps_lod(&self) -> bool {
        self.strided || self.axes.first() != Some(&0)
    }

    /// The shape without decreased axes; [1] if none is left.
    fn decreased(&self, dims: &[i64]) -> Result<Dims> {
        if self.decrease.is_empty() {
            return Ok(Dims::from_slice(dims));
        }
        let mut drop: SmallVec<[bool; 6]> = SmallVec::from_elem(false, dims.len());
        for &d in self.decrease {
            let at = axis(self.op, d as i64, dims.len())?;
            ensure!(
                dims[at] == 1 || dims[at] < 0,
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

    /// The shape of the slice of a tensor of these sizes, -1 where a size is unknown.
    fn dims(&self, dims: &[i64]) -> Result<Dims> {
        let mut out = Dims::from_slice(dims);
        for i in 0..self.axes.len() {
            let at = self.axis(i, dims.len())?;
            let given = i < self.starts.len() && i < self.ends.len() && (i < self.strides.len() || !self.strided);
            if self.unknown || self.unknown_some && self.flag(i) == -1 || !given {
                out[at] = -1;
            } else if dims[at] >= 0 {
                out[at] = self.span(i, dims[at])?.2;
            }
        }
        self.decreased(&out)
    }
}

fn from_attrs<'a>(op: &'static Op, attrs: &'a dyn std::any::Any) -> SliceArgs<'a> {
    macro_rules! of {
        ($a:expr, $strides:expr, $strided:expr) => {
            SliceArgs {
                op: op.name,
                axes: &$a.axes,
                starts: wide(&$a.starts),
                ends: wide(&$a.ends),
                strides: $strides,
                strided: $strided,
                flags: &$a.infer_flags,
                decrease: &$a.decrease_axis,
                unknown: false,
                unknown_some: false,
            }
        };
    }
    if let Some(a) = attrs.downcast_ref::<SliceAttrs>() {
        return of!(a, SmallVec::new(), false);
    }
    let a: &StridedSliceAttrs = attrs.downcast_ref().expect("attributes of another operator");
    of!(a, wide(&a.strides), true)
}

/// The arguments of the call; tensor attributes override attributes.
fn slice_args<'a>(cx: &impl AttrInputs, attrs: &'a Attrs, slots: &Slots) -> Result<SliceArgs<'a>> {
    let mut args = from_attrs(cx.op(), attrs.as_any());
    for (i, &(one, list)) in slots.bounds.iter().enumerate() {
        match tensor_attr(cx, &[AttrSource::One(one), AttrSource::List(list)])? {
            TensorAttr::Known(v) => *[&mut args.starts, &mut args.ends, &mut args.strides][i] = SmallVec::from_vec(v),
            TensorAttr::Length(_) if cx.count(one) > 0 => args.unknown = true,
            TensorAttr::Length(_) => args.unknown_some = true,
            TensorAttr::Absent => {}
        }
    }
    args.check()?;
    Ok(args)
}

fn infer_slice(cx: &mut ShapeContext, slots: &Slots) -> Result<()> {
    let args = slice_args(cx, cx.attrs, slots)?;
    let m = cx.meta(slots.input, 0)?;
    if let Some(items) = cx.items(slots.input) {
        let (from, ..) = array_span(&args, items.len())?;
        let item = if args.decrease.is_empty() { Some(m) } else { Meta::from_value(&items[from as usize]) };
        if let Some(item) = item {
            cx.set_meta(slice::OUT, 0, item);
        }
        return Ok(());
    }
    if m.kind == VarKind::Array {
        // A range of an array is an array; a single index is a tensor.
        let kind = if args.decrease.is_empty() { VarKind::Array } else { VarKind::Dense };
        cx.set_meta(slice::OUT, 0, Meta { kind, ..m });
        return Ok(());
    }
    cx.set(slice::OUT, &args.dims(&m.dims)?, m.dtype);
    if args.keeps_lod() {
        cx.share_lod(slice::OUT, slots.input);
    }
    Ok(())
}

fn slice(cx: &mut KernelContext, slots: &Slots) -> Result<()> {
    let args = slice_args(cx, cx.attrs, slots)?;
    if let Value::Array(items) = cx.value(slots.input)? {
        let (from, _, count) = array_span(&args, items.len())?;
        let items = &items[from as usize..(from + count) as usize];
        let out = if args.decrease.is_empty() { Value::Array(Arc::new(items.to_vec())) } else { items[0].clone() };
        cx.set(slice::OUT, out);
        return Ok(());
    }
    let x = cx.input(slots.input)?;
    let region = args.region(x.dims())?;
    let dims = args.decreased(&region.dims)?;
    let lod = x.lod.clone().filter(|_| args.keeps_lod());
    cx.set(slice::OUT, region.read(x, &dims)?.with_lod(lod));
    Ok(())
}

fn array_span(args: &SliceArgs, n: usize) -> Result<(i64, i64, i64)> {
    ensure!(
        args.axes.len() == 1 && args.strides.is_empty(),
        InvalidArgument,
        "operator {}: a LoDTensorArray has one axis and is sliced without strides, got axes {:?}",
        args.op,
        args.axes
    );
    let span = args.span(0, n as i64)?;
    ensure!(span.2 > 0, InvalidArgument, "operator {}: a slice of an empty LoDTensorArray", args.op);
    Ok(span)
}

fn infer_slice_grad(cx: &mut ShapeContext, slots: &Slots) -> Result<()> {
    let m = cx.meta(slots.input, 0)?;
    cx.set_meta(slice_grad::DINPUT, 0, m);
    Ok(())
}

fn slice_grad(cx: &mut KernelContext, slots: &Slots) -> Result<()> {
    let args = slice_args(cx, cx.attrs, slots)?;
    let (input, dout) = (cx.value(slots.input)?, cx.value(slots.dout)?);
    if let Value::Array(items) = input {
        let grad = array_grad(&args, items, dout)?;
        cx.set(slice_grad::DINPUT, grad);
        return Ok(());
    }
    let (x, dout) = (input.dense()?, dout.dense()?);
    let region = args.region(x.dims())?;
    ensure!(
        region.numel() == dout.numel(),
        InvalidArgument,
        "operator {}: the gradient of the slice has shape {:?}, but the slice has {:?}",
        args.op,
        dout.dims(),
        region.dims
    );
    let dx = cx.out(slice_grad::DINPUT)?;
    set_zero(dx)?;
    region.write(dout, dx)
}

/// The gradient of an array: zeros, and `dout` at the slice.
fn array_grad(args: &SliceArgs, items: &[Value], dout: &Value) -> Result<Value> {
    let (from, _, count) = array_span(args, items.len())?;
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
        other => bail!(InvalidArgument, "operator {}: the gradient of a slice cannot be {}", args.op, other.what()),
    }
    Ok(Value::Array(Arc::new(grads)))
}

const AGAIN: &[(&str, &str)] = &[("Input", "Input@GRAD@GRAD"), ("Out", "Out@GRAD@GRAD")];

/// An operator and its gradient: names, slot modules, slot roles.
macro_rules! slices {
    ($($attrs:ident: $op:ident $name:literal $slots:ident $of:expr,
        $grad:ident $grad_name:literal $grad_slots:ident $grad_of:expr;)*) => {$(
        pub static $op: Op = Op {
            name: $name,
            inputs: $slots::INS,
            outputs: $slots::OUTS,
            attrs: $attrs::FIELDS,
            infer: |cx| infer_slice(cx, &$of),
            cpu: Kernel::Pure(|cx| slice(cx, &$of)),
            grad: Grad::By(&$grad),
            ..OP
        };
        pub static $grad: Op = Op {
            name: $grad_name,
            inputs: $grad_slots::INS,
            outputs: $grad_slots::OUTS,
            attrs: $attrs::FIELDS,
            infer: |cx| infer_slice_grad(cx, &$grad_of),
            cpu: Kernel::Pure(|cx| slice_grad(cx, &$grad_of)),
            grad: Grad::Map(&$op, AGAIN),
            ..OP
        };
    )*};
}

slices! {
    SliceAttrs: SLICE "slice" slice SLICE_SLOTS, SLICE_GRAD "slice_grad" slice_grad SLICE_SLOTS;
    StridedSliceAttrs: STRIDED_SLICE "strided_slice" strided_slice STRIDED_SLOTS,
        STRIDED_SLICE_GRAD "strided_slice_grad" strided_slice_grad STRIDED_GRAD_SLOTS;
}

pub static TABLE: &[&Op] = &[&SLICE, &SLICE_GRAD, &STRIDED_SLICE, &STRIDED_SLICE_GRAD];
