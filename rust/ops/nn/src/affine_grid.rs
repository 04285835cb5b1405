//! affine_grid: sampling positions of an affine transform.

use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, bail, dispatch, ensure, slots};
use oar_kernels::resample::affine_grid::{self as kernel, Places};
use oar_ops_common::tensor_attr::{tensor_attr, AttrInputs, AttrSource, TensorAttr};

attrs! {
    pub struct AffineAttrs { use_cudnn: bool = true, align_corners: bool = true, output_shape: Vec<i32> = vec![] }
}

slots! {
    mod affine { THETA "Theta", SHAPE "OutputShape".dispensable() => OUT "Output".kernel_allocated() }
    mod affine_grad { SHAPE "OutputShape".dispensable(), DOUT "Output@GRAD" => DTHETA "Theta@GRAD" }
}

/// Height and width of the grid; -1 while unknown.
fn target(cx: &impl AttrInputs, a: &AffineAttrs, slot: InSlot) -> Result<[i64; 2]> {
    let op = cx.op().name;
    let shape: Dims = match a.output_shape.is_empty() {
        false => a.output_shape.iter().map(|&d| d as i64).collect(),
        true => match tensor_attr(cx, &[AttrSource::One(slot)])? {
            TensorAttr::Known(v) => v.into(),
            TensorAttr::Length(_) => return Ok([-1, -1]),
            TensorAttr::Absent => {
                bail!(NotFound, "operator {op}: OutputShape or the attribute output_shape must be given")
            }
        },
    };
    ensure!(
        shape.len() == 4,
        InvalidArgument,
        "operator {op}: output_shape must have 4 numbers (N, C, H, W), got {:?}",
        &shape[..]
    );
    Ok([shape[2], shape[3]])
}

fn check_theta(op: &str, theta: &[i64]) -> Result<()> {
    let fits = theta.len() == 3 && matches!(theta[1], 2 | -1) && matches!(theta[2], 3 | -1);
    ensure!(fits, InvalidArgument, "operator {op}: Theta must have shape [N, 2, 3], got {theta:?}");
    Ok(())
}

fn infer_affine(cx: &mut ShapeContext) -> Result<()> {
    let (theta, dtype) = (cx.dims(affine::THETA)?, cx.dtype(affine::THETA)?);
    check_theta(cx.op.name, &theta)?;
    target(cx, cx.attrs(), affine::SHAPE)?;
    // As in 2.0.2, the sizes are left to the kernel.
    cx.set(affine::OUT, &[theta[0], -1, -1, 2], dtype);
    cx.share_lod(affine::OUT, affine::THETA);
    Ok(())
}

fn axes(op: &str, [h, w]: [i64; 2], align_corners: bool) -> Result<[Places; 2]> {
    ensure!(
        h >= 0 && w >= 0,
        InvalidArgument,
        "operator {op}: height and width of the grid must not be negative, got {h} and {w}"
    );
    Ok([Places::new(h as usize, align_corners), Places::new(w as usize, align_corners)])
}

fn run_affine(cx: &mut KernelContext) -> Result<()> {
    let (op, theta, a) = (cx.op.name, cx.input(affine::THETA)?, cx.attrs::<AffineAttrs>());
    check_theta(op, theta.dims())?;
    let [h, w] = target(cx, a, affine::SHAPE)?;
    let [ys, xs] = axes(op, [h, w], a.align_corners)?;
    let mut out = Tensor::empty(theta.dtype(), &[theta.dims()[0], h, w, 2])?;
    if out.numel() > 0 {
        dispatch!(theta.dtype(), T in [f32, f64], {
            kernel::affine_grid(theta.data::<T>(), [ys, xs], out.data_mut::<T>()?);
        }, other => return cx.unsupported(other));
    }
    cx.set(affine::OUT, out.with_lod(theta.lod.clone()));
    Ok(())
}

fn infer_affine_grad(cx: &mut ShapeContext) -> Result<()> {
    let (d, dtype) = (cx.dims(affine_grad::DOUT)?, cx.dtype(affine_grad::DOUT)?);
    ensure!(
        d.len() == 4 && matches!(d[3], 2 | -1),
        InvalidArgument,
        "operator {}: the gradient of Output must have shape [N, H, W, 2], got {:?}",
        cx.op.name,
        &d[..]
    );
    cx.set(affine_grad::DTHETA, &[d[0], 2, 3], dtype);
    Ok(())
}

fn run_affine_grad(cx: &mut KernelContext) -> Result<()> {
    let (op, d, a) = (cx.op.name, cx.input(affine_grad::DOUT)?, cx.attrs::<AffineAttrs>());
    let size = target(cx, a, affine_grad::SHAPE)?;
    ensure!(
        d.dims()[1..] == [size[0], size[1], 2],
        InvalidArgument,
        "operator {op}: the gradient of Output must have shape [N, {}, {}, 2], got {d:?}",
        size[0],
        size[1]
    );
    let axes = axes(op, size, a.align_corners)?;
    dispatch!(d.dtype(), T in [f32, f64], {
        kernel::affine_grid_grad(d.data::<T>(), axes, cx.out_data::<T>(affine_grad::DTHETA)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static AFFINE_GRID: Op = Op {
    name: "affine_grid",
    inputs: affine::INS,
    outputs: affine::OUTS,
    attrs: AffineAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_affine,
    cpu: Kernel::Pure(run_affine),
    grad: Grad::By(&AFFINE_GRID_GRAD),
    ..OP
};

pub static AFFINE_GRID_GRAD: Op = Op {
    name: "affine_grid_grad",
    inputs: affine_grad::INS,
    outputs: affine_grad::OUTS,
    attrs: AffineAttrs::FIELDS,
    infer: infer_affine_grad,
    cpu: Kernel::Pure(run_affine_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&AFFINE_GRID, &AFFINE_GRID_GRAD];
