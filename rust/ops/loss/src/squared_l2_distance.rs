//! squared_l2_distance: squared Euclidean distances of rows.

use super::elements::{agree, check_outs, of_size, rows_and_width};
use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::loss::squared_l2_distance as kernel;
use oar_ops_common::half::in_f32;

slots! {
    mod distance { X "X", Y "Y" => SUB "sub_result".intermediate(), OUT "Out" }
    mod distance_grad {
        DOUT "Out@GRAD", SUB "sub_result", X "X".meta_only(), Y "Y".meta_only() => DX "X@GRAD", DY "Y@GRAD"
    }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

fn infer_distance(cx: &mut ShapeContext) -> Result<()> {
    use distance::{OUT, SUB, X, Y};
    let (x, y, dtype) = (cx.dims(X)?, cx.dims(Y)?, cx.dtype(X)?);
    ensure!(
        x.len() == y.len() && x.len() >= 2,
        InvalidArgument,
        "operator squared_l2_distance: X and Y must have as many dimensions, 2 or more, got {:?} and {:?}",
        &x[..],
        &y[..]
    );
    let ((rows, width), (others, other)) = (rows_and_width(&x), rows_and_width(&y));
    ensure!(
        agree(width, other) && (agree(rows, others) || others == 1),
        InvalidArgument,
        "operator squared_l2_distance: Y must have the rows of X {:?}, or one row, got {:?}",
        &x[..],
        &y[..]
    );
    cx.set(SUB, &[rows, width], dtype);
    cx.set(OUT, &[rows, 1], dtype);
    cx.share_lod(OUT, X);
    Ok(())
}

fn run_distance(cx: &mut KernelContext) -> Result<()> {
    use distance::{OUT, SUB, X, Y};
    let (x, y) = (cx.input(X)?, cx.input(Y)?);
    ensure!(
        x.dtype() == y.dtype(),
        InvalidArgument,
        "operator squared_l2_distance: X and Y must have the same data type, got {} and {}",
        x.dtype(),
        y.dtype()
    );
    let mut sub = cx.take_out(SUB)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        kernel::distance(x.data::<T>(), y.data::<T>(), sub.data_mut::<T>()?, cx.out_data::<T>(OUT)?);
    }, other => return cx.unsupported(other));
    cx.set(SUB, sub);
    Ok(())
}

fn run_distance_grad(cx: &mut KernelContext) -> Result<()> {
    use distance_grad::{DOUT, DX, DY, SUB};
    let sub = cx.input(SUB)?;
    let rows = *sub.dims().first().unwrap_or(&0) as usize;
    let dout = of_size(cx, DOUT, rows, sub.dtype())?;
    let width = sub.numel().checked_div(rows).unwrap_or(0);
    check_outs(cx, &[DX], sub.numel(), sub.dtype())?;
    if cx.wants(DY) {
        let n = cx.out(DY)?.numel();
        ensure!(
            n == sub.numel() || n == width,
            InvalidArgument,
            "operator squared_l2_distance_grad: Y must have the rows of X or one, got {n} elements for {}",
            sub.numel()
        );
        check_outs(cx, &[DY], n, sub.dtype())?;
    }
    dispatch!(sub.dtype(), T in [f32, f64], {
        let (v, d) = (sub.data::<T>(), dout.data::<T>());
        if cx.wants(DX) {
            kernel::distance_grad(v, d, width, cx.out_data::<T>(DX)?);
        }
        if cx.wants(DY) {
            kernel::distance_grad_y(v, d, width, cx.out_data::<T>(DY)?);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static DISTANCE: Op = Op {
    name: "squared_l2_distance",
    inputs: distance::INS,
    outputs: distance::OUTS,
    dtypes: FLOATS,
    attrs: NoAttrs::FIELDS,
    infer: infer_distance,
    cpu: Kernel::Pure(|cx| in_f32(cx, distance::X, run_distance)),
    grad: Grad::By(&DISTANCE_GRAD),
    ..OP
};

pub static DISTANCE_GRAD: Op = Op {
    name: "squared_l2_distance_grad",
    inputs: distance_grad::INS,
    outputs: distance_grad::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: oar_core::op::infer::grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, distance_grad::SUB, run_distance_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&DISTANCE, &DISTANCE_GRAD];
