//! slice and strided_slice, of dense tensors and tensor arrays.

use oar_core::base::shape::axis;
use oar_core::base::{Dims, Result};
use oar_core::op::infer::VarKind;
use oar_core::op::{Attrs, Grad, InSlot, Kernel, KernelContext, Meta, Op, ShapeContext, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, ensure, slots};
use oar_ops_common::elements::set_zero;
use oar_ops_common::given::{given, Given, Inputs, Way};
use oar_ops_common::region::{span, Region, SliceAttrs, StridedSliceAttrs};
use smallvec::SmallVec;
use std::sync::Arc;

slots! {
    // Large parts share the bytes, and a slice of an array is an array or one of its tensors.
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

/// The slots of one of the operators by what they mean.
struct Slots {
    input: InSlot,
    /// Of a gradient operator.
    dout: InSlot,
    /// Tensor and list of tensors that may stand for starts, ends and (strided) strides.
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

/// What a slice operator was asked for, attributes and tensors put together.
struct Ask<'a> {
    op: &'static str,
    axes: &'a [i32],
    starts: SmallVec<[i64; 6]>,
    ends: SmallVec<[i64; 6]>,
    /// Empty unless strided: all 1.
    strides: SmallVec<[i64; 6]>,
    strided: bool,
    flags: &'a [i32],
    decrease: &'a [i32],
    /// One tensor holds starts, ends or strides, whose values are not known: no axis is.
    unknown: bool,
    /// Lists of tensors hold some of them, whose values are not known: the flags say of which axes.
    unknown_some: bool,
}

fn wide(v: &[i32]) -> SmallVec<[i64; 6]> {
    v.iter().map(|&n| n as i64).collect()
}

impl Ask<'_> {
    /// There must be as many of everything as axes, as far as that is known.
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
        // Of an axis that is given twice the last word counts, as in Paddle (and in `dims`).
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

    /// As in Paddle, strided_slice keeps the LoD also where it cuts the first dimension.
    fn keeps_lod(&self) -> bool {
        self.strided || self.axes.first() != Some(&0)
    }

    /// The shape without the axes that were indexed; [1] if none is left.
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

fn from_attrs<'a>(op: &'static Op, attrs: &'a dyn std::any::Any) -> Ask<'a> {
    macro_rules! of {
        ($a:expr, $strides:expr, $strided:expr) => {
            Ask {
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

/// What the call asks for, tensors for attributes where they were given.
fn ask<'a>(cx: &impl Inputs, attrs: &'a Attrs, slots: &Slots) -> Result<Ask<'a>> {
    let mut ask = from_attrs(cx.op(), attrs.as_any());
    for (i, &(one, list)) in slots.bounds.iter().enumerate() {
        match given(cx, &[Way::One(one), Way::List(list)])? {
            Given::Values(v) => *[&mut ask.starts, &mut ask.ends, &mut ask.strides][i] = SmallVec::from_vec(v),
            Given::Count(_) if cx.count(one) > 0 => ask.unknown = true,
            Given::Count(_) => ask.unknown_some = true,
            Given::No => {}
        }
    }
    ask.check()?;
    Ok(ask)
}

fn infer_slice(cx: &mut ShapeContext, slots: &Slots) -> Result<()> {
    let ask = ask(cx, cx.attrs, slots)?;
    let m = cx.meta(slots.input, 0)?;
    if let Some(items) = cx.items(slots.input) {
        let (from, ..) = array_span(&ask, items.len())?;
        let item = if ask.decrease.is_empty() { Some(m) } else { Meta::of(&items[from as usize]) };
        if let Some(item) = item {
            cx.set_meta(slice::OUT, 0, item);
        }
        return Ok(());
    }
    if m.kind == VarKind::Array {
        // Tensors of the array are alike; a range of them is an array again.
        let kind = if ask.decrease.is_empty() { VarKind::Array } else { VarKind::Dense };
        cx.set_meta(slice::OUT, 0, Meta { kind, ..m });
        return Ok(());
    }
    cx.set(slice::OUT, &ask.dims(&m.dims)?, m.dtype);
    if ask.keeps_lod() {
        cx.share_lod(slice::OUT, slots.input);
    }
    Ok(())
}

fn slice(cx: &mut KernelContext, slots: &Slots) -> Result<()> {
    let ask = ask(cx, cx.attrs, slots)?;
    if let Value::Array(items) = cx.value(slots.input)? {
        let (from, _, count) = array_span(&ask, items.len())?;
        let items = &items[from as usize..(from + count) as usize];
        let out = if ask.decrease.is_empty() { Value::Array(Arc::new(items.to_vec())) } else { items[0].clone() };
        cx.set(slice::OUT, out);
        return Ok(());
    }
    let x = cx.input(slots.input)?;
    let region = ask.region(x.dims())?;
    let dims = ask.decreased(&region.dims)?;
    let lod = x.lod.clone().filter(|_| ask.keeps_lod());
    cx.set(slice::OUT, region.read(x, &dims)?.with_lod(lod));
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

fn infer_slice_grad(cx: &mut ShapeContext, slots: &Slots) -> Result<()> {
    let m = cx.meta(slots.input, 0)?;
    cx.set_meta(slice_grad::DINPUT, 0, m);
    Ok(())
}

fn slice_grad(cx: &mut KernelContext, slots: &Slots) -> Result<()> {
    let ask = ask(cx, cx.attrs, slots)?;
    let (input, dout) = (cx.value(slots.input)?, cx.value(slots.dout)?);
    if let Value::Array(items) = input {
        let grad = array_grad(&ask, items, dout)?;
        cx.set(slice_grad::DINPUT, grad);
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
    let dx = cx.out(slice_grad::DINPUT)?;
    set_zero(dx)?;
    region.write(dout, dx)
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

const AGAIN: &[(&str, &str)] = &[("Input", "Input@GRAD@GRAD"), ("Out", "Out@GRAD@GRAD")];

/// An operator and its gradient: names, modules of slots, what these mean.
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
