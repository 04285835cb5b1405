//! center_loss: distances from class centers, which it updates.

use super::elements::{agree, check_outs, of_size, rows_and_width};
use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, bail, dispatch, ensure, slots};
use oar_kernels::loss::center as kernel;
use oar_ops_common::tensor_attr::scalar;

attrs! {
    pub struct CenterAttrs { cluster_num: i32, need_update: bool }
}

slots! {
    mod center {
        X "X", LABEL "Label", CENTERS "Centers", RATE "CenterUpdateRate"
        => CENTERS_OUT "CentersOut".aliases("Centers"), DIFF "SampleCenterDiff", LOSS "Loss"
    }
    mod center_grad { DLOSS "Loss@GRAD", DIFF "SampleCenterDiff", X "X".meta_only() => DX "X@GRAD" }
}

fn infer_center(cx: &mut ShapeContext) -> Result<()> {
    use center::{CENTERS, CENTERS_OUT, DIFF, LABEL, LOSS, X};
    let (x, centers, label, dtype) = (cx.dims(X)?, cx.dims(CENTERS)?, cx.dims(LABEL)?, cx.dtype(X)?);
    ensure!(
        x.len() >= 2 && centers.len() == 2,
        InvalidArgument,
        "operator center_loss: X must have 2 dimensions or more and Centers 2, got {:?} and {:?}",
        &x[..],
        &centers[..]
    );
    let (rows, width) = rows_and_width(&x);
    let clusters = cx.attrs::<CenterAttrs>().cluster_num as i64;
    ensure!(
        agree(width, centers[1]) && agree(clusters, centers[0]) && clusters > 0,
        InvalidArgument,
        "operator center_loss: Centers must have cluster_num {clusters} rows as wide as those of X {:?}, got {:?}",
        &x[..],
        &centers[..]
    );
    ensure!(
        !label.is_empty() && agree(label[0], rows) && label[1..].iter().all(|&d| agree(d, 1)),
        InvalidArgument,
        "operator center_loss: Label must have one class for each row of X {:?}, got shape {:?}",
        &x[..],
        &label[..]
    );
    let m = cx.meta(CENTERS, 0)?;
    cx.set_meta(CENTERS_OUT, 0, m);
    cx.set(DIFF, &[rows, width], dtype);
    cx.set(LOSS, &[rows, 1], dtype);
    cx.share_lod(LOSS, X);
    Ok(())
}

fn run_center(cx: &mut KernelContext) -> Result<()> {
    use center::{CENTERS_OUT, DIFF, LABEL, LOSS, RATE, X};
    let (x, labels, a) = (cx.input(X)?, cx.input(LABEL)?.to_i64s()?, cx.attrs::<CenterAttrs>());
    let rate = if a.need_update { scalar(cx, RATE)? } else { 0.0 };
    let clusters = a.cluster_num as usize;
    if let Some(label) = labels.iter().find(|label| !(0..clusters as i64).contains(*label)) {
        bail!(InvalidArgument, "operator center_loss: Label must hold classes from 0 to below {clusters}, got {label}");
    }
    let width = x.numel().checked_div(labels.len()).unwrap_or(0);
    let mut centers = cx.take_out(CENTERS_OUT)?;
    let (mut diff, mut loss) = (cx.take_out(DIFF)?, cx.take_out(LOSS)?);
    ensure!(
        centers.dtype() == x.dtype() && centers.numel() == clusters * width || labels.is_empty(),
        InvalidArgument,
        "operator center_loss: Centers must have the data type and width of X {x:?}, got {centers:?}"
    );
    dispatch!(x.dtype(), T in [f32, f64], {
        let (diff, loss, sizes) = (diff.data_mut::<T>()?, loss.data_mut::<T>()?, (clusters, width));
        let rows = (x.data::<T>(), &labels[..]);
        let (sums, counts) = kernel::center(rows, centers.data::<T>(), sizes, a.need_update, diff, loss);
        if a.need_update && width > 0 {
            kernel::update(&sums, &counts, width, rate as T, centers.data_mut::<T>()?);
        }
    }, other => return cx.unsupported(other));
    cx.set(CENTERS_OUT, centers);
    cx.set(DIFF, diff);
    cx.set(LOSS, loss);
    Ok(())
}

fn run_center_grad(cx: &mut KernelContext) -> Result<()> {
    use center_grad::{DIFF, DLOSS, DX};
    let diff = cx.input(DIFF)?;
    let rows = *diff.dims().first().unwrap_or(&0) as usize;
    let dloss = of_size(cx, DLOSS, rows, diff.dtype())?;
    let width = diff.numel().checked_div(rows).unwrap_or(0);
    check_outs(cx, &[DX], diff.numel(), diff.dtype())?;
    dispatch!(diff.dtype(), T in [f32, f64], {
        kernel::center_grad(diff.data::<T>(), dloss.data::<T>(), width, cx.out_data::<T>(DX)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static CENTER: Op = Op {
    name: "center_loss",
    inputs: center::INS,
    outputs: center::OUTS,
    dtypes: DTypes::FLOATS,
    attrs: CenterAttrs::FIELDS,
    infer: infer_center,
    cpu: Kernel::Pure(run_center),
    grad: Grad::By(&CENTER_GRAD),
    ..OP
};

pub static CENTER_GRAD: Op = Op {
    name: "center_loss_grad",
    inputs: center_grad::INS,
    outputs: center_grad::OUTS,
    attrs: CenterAttrs::FIELDS,
    infer: oar_core::op::infer::grads_like_inputs,
    cpu: Kernel::Pure(run_center_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&CENTER, &CENTER_GRAD];
