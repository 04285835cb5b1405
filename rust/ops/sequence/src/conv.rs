//! sequence_conv: convolution along the steps of each sequence. Steps outside a sequence are zeros or learned rows
//! (`PaddingData`).

use crate::levels;
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::gemm;
use oar_kernels::sequence::windows::Windows;

attrs! {
    #[allow(non_snake_case)]
    pub struct ConvAttrs {
        paddingTrainable: bool = false, contextLength: i32, contextStart: i32 = 0, contextStride: i32 = 1,
    }
}

slots! {
    mod conv { X "X", PADDING "PaddingData".dispensable(), FILTER "Filter" => OUT "Out" }
    mod conv_grad {
        PADDING "PaddingData".dispensable(), X "X", FILTER "Filter", DOUT "Out@GRAD"
        => DPADDING "PaddingData@GRAD", DX "X@GRAD", DFILTER "Filter@GRAD"
    }
}

/// Steps before and after a sequence that its windows cover.
fn pads(a: &ConvAttrs) -> (i64, i64) {
    let (start, length) = (a.contextStart as i64, a.contextLength as i64);
    ((-start).max(0), (start + length - 1).max(0))
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<ConvAttrs>();
    let (mut x, filter) = (cx.dims(conv::X)?, cx.dims(conv::FILTER)?);
    ensure!(
        a.contextStride == 1,
        InvalidArgument,
        "operator sequence_conv: attribute 'contextStride' must be 1, got {}",
        a.contextStride
    );
    ensure!(
        a.contextLength > 0,
        InvalidArgument,
        "operator sequence_conv: attribute 'contextLength' must be positive, got {}",
        a.contextLength
    );
    ensure!(
        x.len() == 2 && filter.len() == 2,
        InvalidArgument,
        "operator sequence_conv: X and Filter must have two dimensions, got shapes {:?} and {:?}",
        &x[..],
        &filter[..]
    );
    let height = x[1].saturating_mul(a.contextLength as i64);
    ensure!(
        filter[0] == height || filter[0] < 0 || x[1] < 0,
        InvalidArgument,
        "operator sequence_conv: Filter must have contextLength * width of X = {height} rows, got shape {:?}",
        &filter[..]
    );
    if a.paddingTrainable {
        let padding = cx.dims(conv::PADDING)?;
        let (up, down) = pads(a);
        ensure!(
            a.contextStart != 0 || a.contextLength != 1,
            InvalidArgument,
            "operator sequence_conv: paddingTrainable must be False where contextStart is 0 and contextLength 1"
        );
        ensure!(
            padding.len() == 2 && padding[0] == up + down && (padding[1] == x[1] || x[1] < 0),
            InvalidArgument,
            "operator sequence_conv: PaddingData must have shape {:?}, got {:?}",
            [up + down, x[1]],
            &padding[..]
        );
    }
    if cx.tensor(conv::X).is_some() {
        ensure!(
            cx.dtype(conv::X)? == cx.dtype(conv::FILTER)?,
            InvalidArgument,
            "operator sequence_conv: X is of {} but Filter of {}",
            cx.dtype(conv::X)?,
            cx.dtype(conv::FILTER)?
        );
    }
    x[1] = filter[1];
    let dtype = cx.dtype(conv::X)?;
    cx.set(conv::OUT, &x, dtype);
    cx.share_lod(conv::OUT, conv::X);
    Ok(())
}

fn windows<'a>(level: &'a [usize], a: &ConvAttrs) -> Windows<'a> {
    Windows { level, start: a.contextStart.into(), count: a.contextLength as usize, up: pads(a).0 }
}

/// The window matrix: [steps, contextLength * width].
fn columns<T: oar_core::base::dtype::Element>(
    level: &[usize],
    a: &ConvAttrs,
    x: &Tensor,
    padding: Option<&Tensor>,
) -> Result<Tensor> {
    let (width, count) = (levels::width(x), a.contextLength as usize);
    let mut all = Tensor::zeros(x.dtype(), &[x.dims()[0], (count * width) as i64])?;
    windows(level, a).gather(x.data::<T>(), padding.map(|p| p.data::<T>()), width, all.data_mut::<T>()?);
    Ok(all)
}

fn padding<'a>(
    cx: &KernelContext<'a>,
    a: &ConvAttrs,
    x: &Tensor,
    given: Option<&'a Tensor>,
) -> Result<Option<&'a Tensor>> {
    let Some(p) = given.filter(|_| a.paddingTrainable) else { return Ok(None) };
    ensure!(
        p.dtype() == x.dtype(),
        InvalidArgument,
        "operator {}: X is of {} but PaddingData of {}",
        cx.op.name,
        x.dtype(),
        p.dtype()
    );
    Ok(Some(p))
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<ConvAttrs>();
    let (x, filter) = (cx.input(conv::X)?, cx.input(conv::FILTER)?);
    let padding = padding(cx, a, x, cx.opt(conv::PADDING))?;
    let level = levels::only(cx.op.name, "X", x)?;
    let sizes = (x.dims()[0] as usize, filter.dims()[1] as usize, filter.dims()[0] as usize);
    dispatch!(x.dtype(), T in [f32, f64], {
        let all = columns::<T>(level, a, x, padding)?;
        gemm::matmul(sizes, all.data::<T>(), false, filter.data::<T>(), false, cx.out_data::<T>(conv::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<ConvAttrs>();
    let (x, filter, dout) = (cx.input(conv_grad::X)?, cx.input(conv_grad::FILTER)?, cx.input(conv_grad::DOUT)?);
    let padding = padding(cx, a, x, cx.opt(conv_grad::PADDING))?;
    let level = levels::only(cx.op.name, "X", x)?;
    let (steps, n, k) = (x.dims()[0] as usize, filter.dims()[1] as usize, filter.dims()[0] as usize);
    ensure!(
        dout.dims() == [steps as i64, n as i64] && dout.dtype() == x.dtype() && filter.dtype() == x.dtype(),
        InvalidArgument,
        "operator sequence_conv_grad: the gradient of Out must be {} of shape {:?}, got {dout:?}",
        x.dtype(),
        [steps, n]
    );
    let width = levels::width(x);
    dispatch!(dout.dtype(), T in [f32, f64], {
        if cx.wants(conv_grad::DX) || cx.wants(conv_grad::DPADDING) {
            let mut all = Tensor::zeros(x.dtype(), &[steps as i64, k as i64])?;
            gemm::matmul((steps, k, n), dout.data::<T>(), false, filter.data::<T>(), true, all.data_mut::<T>()?);
            let all = all.data::<T>();
            let [mut dx, mut dpadding] = cx.each_out([conv_grad::DX, conv_grad::DPADDING]);
            for t in [&mut dx, &mut dpadding].into_iter().flatten() {
                t.data_mut::<T>()?.fill(0 as T);
            }
            let dx = dx.map(|t| t.data_mut::<T>()).transpose()?;
            let dpadding = dpadding.filter(|_| padding.is_some()).map(|t| t.data_mut::<T>()).transpose()?;
            windows(level, a).scatter(all, width, dx, dpadding);
        }
        if cx.wants(conv_grad::DFILTER) {
            let all = columns::<T>(level, a, x, padding)?;
            gemm::matmul((k, n, steps), all.data::<T>(), true, dout.data::<T>(), false, cx.out_data::<T>(conv_grad::DFILTER)?);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

/// Inputs of the gradient are checked by the forward operator's shape rule, unless the gradient operator is called
/// directly.
fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    let (x, filter) = (cx.dims(conv_grad::X)?, cx.dims(conv_grad::FILTER)?);
    let a = cx.attrs::<ConvAttrs>();
    let fits = x.len() == 2
        && filter.len() == 2
        && a.contextLength > 0
        && (x[1].saturating_mul(a.contextLength as i64) == filter[0] || x[1] < 0 || filter[0] < 0);
    ensure!(
        fits,
        InvalidArgument,
        "operator sequence_conv_grad: Filter must have contextLength * width of X rows, got shapes {:?} and {:?}",
        &x[..],
        &filter[..]
    );
    if a.paddingTrainable && cx.has(conv_grad::PADDING) {
        let (up, down) = pads(a);
        let padding = cx.dims(conv_grad::PADDING)?;
        ensure!(
            padding.len() == 2 && padding[0] == up + down && (padding[1] == x[1] || x[1] < 0),
            InvalidArgument,
            "operator sequence_conv_grad: PaddingData must have shape {:?}, got {:?}",
            [up + down, x[1]],
            &padding[..]
        );
    }
    if cx.outs(conv_grad::DPADDING) > 0 && cx.has(conv_grad::PADDING) {
        cx.like(conv_grad::DPADDING, conv_grad::PADDING)?;
    }
    cx.like(conv_grad::DFILTER, conv_grad::FILTER)?;
    cx.like(conv_grad::DX, conv_grad::X)?;
    cx.share_lod(conv_grad::DX, conv_grad::X);
    Ok(())
}

pub static SEQUENCE_CONV: Op = Op {
    name: "sequence_conv",
    inputs: conv::INS,
    outputs: conv::OUTS,
    attrs: ConvAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&SEQUENCE_CONV_GRAD),
    ..OP
};

pub static SEQUENCE_CONV_GRAD: Op = Op {
    name: "sequence_conv_grad",
    inputs: conv_grad::INS,
    outputs: conv_grad::OUTS,
    attrs: ConvAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_grad,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&SEQUENCE_CONV, &SEQUENCE_CONV_GRAD];
