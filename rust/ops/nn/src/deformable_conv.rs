//! deformable_conv and deformable_conv_v1: every element of a window is displaced, and (v2) scaled.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::conv::deformable::Deform;
use oar_kernels::conv::deformable_conv::{DeformableConv, DeformableGrad};
use oar_ops_common::conv::Convolution;
use oar_ops_common::elements::same_types;
use oar_ops_common::half::in_f32;
use oar_ops_common::window::{Axis, Geometry};

attrs! {
    pub struct DeformAttrs {
        strides: Vec<i32> = vec![1, 1], paddings: Vec<i32> = vec![0, 0], dilations: Vec<i32> = vec![1, 1],
        groups: i32 = 1, deformable_groups: i32 = 1, im2col_step: i32 = 64,
    }
}

slots! {
    mod second { INPUT "Input", OFFSET "Offset", MASK "Mask", FILTER "Filter" => OUTPUT "Output" }
    mod first { INPUT "Input", OFFSET "Offset", FILTER "Filter" => OUTPUT "Output" }
    mod second_grad {
        INPUT "Input", FILTER "Filter", OFFSET "Offset", MASK "Mask", DOUTPUT "Output@GRAD"
        => DINPUT "Input@GRAD", DFILTER "Filter@GRAD", DOFFSET "Offset@GRAD", DMASK "Mask@GRAD"
    }
    mod first_grad {
        INPUT "Input", FILTER "Filter", OFFSET "Offset", DOUTPUT "Output@GRAD"
        => DINPUT "Input@GRAD", DFILTER "Filter@GRAD", DOFFSET "Offset@GRAD"
    }
}

/// The input slots by role.
struct Slots {
    input: InSlot,
    offset: InSlot,
    mask: Option<InSlot>,
    filter: InSlot,
}

const SECOND: Slots =
    Slots { input: second::INPUT, offset: second::OFFSET, mask: Some(second::MASK), filter: second::FILTER };
const FIRST: Slots = Slots { input: first::INPUT, offset: first::OFFSET, mask: None, filter: first::FILTER };
const SECOND_GRAD: Slots = Slots {
    input: second_grad::INPUT,
    offset: second_grad::OFFSET,
    mask: Some(second_grad::MASK),
    filter: second_grad::FILTER,
};
const FIRST_GRAD: Slots =
    Slots { input: first_grad::INPUT, offset: first_grad::OFFSET, mask: None, filter: first_grad::FILTER };

/// Checks the shapes; sizes may be -1 while a Program is built. Offset and Mask are checked by the kernel, as in
/// Paddle, which builds Programs with wrong ones.
fn geometry(op: &str, a: &DeformAttrs, x: &[i64], w: &[i64]) -> Result<(Geometry, Dims)> {
    ensure!(x.len() == 4, InvalidArgument, "operator {op}: Input must have 4 dimensions, got shape {x:?}");
    ensure!(
        a.paddings.len() == 2,
        InvalidArgument,
        "operator {op}: paddings must have 2 numbers, got {:?}",
        a.paddings
    );
    let conv = Convolution {
        op,
        data_format: "NCHW",
        groups: a.groups,
        strides: &a.strides,
        dilations: &a.dilations,
        paddings: &a.paddings,
        padding_algorithm: "EXPLICIT",
        transposed: None,
    };
    let g = conv.geometry(x, w)?;
    let (out, parts) = (g.out(w[0]), a.deformable_groups as i64);
    ensure!(
        parts > 0 && (w[0] < 0 || w[0] % parts == 0) && (g.channels < 0 || g.channels % parts == 0),
        InvalidArgument,
        "operator {op}: deformable_groups must be positive and divide the channels of Input {x:?} and the number of \
         filters {w:?}, got {parts}"
    );
    ensure!(
        a.im2col_step > 0 && (x[0] <= a.im2col_step as i64 || x[0] % a.im2col_step as i64 == 0),
        InvalidArgument,
        "operator {op}: im2col_step must be positive, and divide the number of images {} or exceed it, got {}",
        x[0],
        a.im2col_step
    );
    Ok((g, out))
}

/// The checked tensors of a call.
struct Call<'a> {
    x: &'a Tensor,
    w: &'a Tensor,
    offset: &'a Tensor,
    mask: Option<&'a Tensor>,
    deform: Deform,
    groups: usize,
    out: Dims,
}

fn look<'a>(cx: &KernelContext<'a>, slots: &Slots) -> Result<Call<'a>> {
    let a = cx.attrs::<DeformAttrs>();
    let (x, w, offset) = (cx.input(slots.input)?, cx.input(slots.filter)?, cx.input(slots.offset)?);
    let mask = slots.mask.map(|m| cx.input(m)).transpose()?;
    for t in [Some(w), Some(offset), mask].into_iter().flatten() {
        same_types(cx.op.name, x, &[t])?;
    }
    let (g, out) = geometry(cx.op.name, a, x.dims(), w.dims())?;
    let parts = a.deformable_groups as i64;
    let taps = w.dims()[2].checked_mul(w.dims()[3]).and_then(|t| t.checked_mul(2 * parts));
    for (name, t, share) in [("Offset", Some(offset), 1), ("Mask", mask, 2)] {
        let Some(t) = t else { continue };
        let wanted = [x.dims()[0], taps.map_or(-1, |t| t / share), out[2], out[3]];
        ensure!(
            t.dims() == wanted,
            InvalidArgument,
            "operator {}: {name} must have shape {wanted:?} for Input {:?}, Filter {:?} and {parts} deformable groups, \
             got {:?}",
            cx.op.name,
            x.dims(),
            w.dims(),
            t.dims()
        );
    }
    let pair = |number: fn(&Axis) -> i64| (number(&g.axes[0]) as usize, number(&g.axes[1]) as usize);
    let deform = Deform {
        channels: g.channels as usize,
        size: pair(|a| a.size),
        out: pair(|a| a.out),
        kernel: pair(|a| a.kernel),
        stride: pair(Axis::step),
        dilation: pair(|a| a.dilation),
        pad: pair(|a| a.pad.0),
        groups: a.deformable_groups as usize,
    };
    Ok(Call { x, w, offset, mask, deform, groups: a.groups as usize, out })
}

impl Call<'_> {
    fn conv<T: Element>(&self) -> DeformableConv<'_, T> {
        DeformableConv {
            deform: self.deform,
            groups: self.groups,
            images: self.x.dims()[0] as usize,
            filters: self.w.dims()[0] as usize,
            x: self.x.data::<T>(),
            w: self.w.data::<T>(),
            offset: self.offset.data::<T>(),
            mask: self.mask.map(|m| m.data::<T>()),
        }
    }
}

fn infer(cx: &mut ShapeContext, slots: &Slots, output: OutSlot) -> Result<()> {
    let (x, w) = (cx.dims(slots.input)?, cx.dims(slots.filter)?);
    let (_, out) = geometry(cx.op.name, cx.attrs(), &x, &w)?;
    let dtype = cx.dtype(slots.input)?;
    cx.set(output, &out, dtype);
    Ok(())
}

fn run(cx: &mut KernelContext, slots: &Slots, output: OutSlot) -> Result<()> {
    let call = look(cx, slots)?;
    dispatch!(call.x.dtype(), T in [f32, f64], call.conv::<T>().forward(cx.out_data::<T>(output)?),
        other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext, slots: &Slots, dy: InSlot, outs: [OutSlot; 4]) -> Result<()> {
    let (call, dy) = (look(cx, slots)?, cx.input(dy)?);
    ensure!(
        dy.dims() == &call.out[..] && dy.dtype() == call.x.dtype(),
        InvalidArgument,
        "operator {}: the gradient of Output must have shape {:?} and the type of Input, got {dy:?}",
        cx.op.name,
        &call.out[..]
    );
    let [x, w, offset, mask] = cx.each_out(outs);
    let mask = mask.filter(|_| slots.mask.is_some());
    dispatch!(call.x.dtype(), T in [f32, f64], {
        let grads = DeformableGrad {
            x: x.map(|t| t.data_mut::<T>()).transpose()?,
            w: w.map(|t| t.data_mut::<T>()).transpose()?,
            offset: offset.map(|t| t.data_mut::<T>()).transpose()?,
            mask: mask.map(|t| t.data_mut::<T>()).transpose()?,
        };
        call.conv::<T>().backward(dy.data::<T>(), grads);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_second_grad(cx: &mut KernelContext) -> Result<()> {
    use second_grad::{DFILTER, DINPUT, DMASK, DOFFSET, DOUTPUT};
    run_grad(cx, &SECOND_GRAD, DOUTPUT, [DINPUT, DFILTER, DOFFSET, DMASK])
}

fn run_first_grad(cx: &mut KernelContext) -> Result<()> {
    use first_grad::{DFILTER, DINPUT, DOFFSET, DOUTPUT};
    // v1 has no mask: the fourth slot is unused.
    run_grad(cx, &FIRST_GRAD, DOUTPUT, [DINPUT, DFILTER, DOFFSET, DOFFSET])
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

pub static DEFORMABLE: Op = Op {
    name: "deformable_conv",
    inputs: second::INS,
    outputs: second::OUTS,
    attrs: DeformAttrs::FIELDS,
    dtypes: FLOATS,
    infer: |cx| infer(cx, &SECOND, second::OUTPUT),
    cpu: Kernel::Pure(|cx| in_f32(cx, second::INPUT, |cx| run(cx, &SECOND, second::OUTPUT))),
    grad: Grad::By(&DEFORMABLE_GRAD),
    ..OP
};

pub static DEFORMABLE_GRAD: Op = Op {
    name: "deformable_conv_grad",
    inputs: second_grad::INS,
    outputs: second_grad::OUTS,
    attrs: DeformAttrs::FIELDS,
    dtypes: FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, second_grad::INPUT, run_second_grad)),
    ..OP
};

pub static DEFORMABLE_V1: Op = Op {
    name: "deformable_conv_v1",
    inputs: first::INS,
    outputs: first::OUTS,
    attrs: DeformAttrs::FIELDS,
    dtypes: FLOATS,
    infer: |cx| infer(cx, &FIRST, first::OUTPUT),
    cpu: Kernel::Pure(|cx| in_f32(cx, first::INPUT, |cx| run(cx, &FIRST, first::OUTPUT))),
    grad: Grad::By(&DEFORMABLE_V1_GRAD),
    ..OP
};

pub static DEFORMABLE_V1_GRAD: Op = Op {
    name: "deformable_conv_v1_grad",
    inputs: first_grad::INS,
    outputs: first_grad::OUTS,
    attrs: DeformAttrs::FIELDS,
    dtypes: FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, first_grad::INPUT, run_first_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&DEFORMABLE, &DEFORMABLE_GRAD, &DEFORMABLE_V1, &DEFORMABLE_V1_GRAD];
