//! spp: spatial pyramid pooling to 1, 4, 16, .. windows, levels concatenated.

use super::geometry::FLOATS;
use oar_core::attrs;
use oar_core::base::{Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::pooling::pyramid::Pyramid;
use oar_ops_common::half::in_f32;

attrs! { pub struct SppAttrs { pyramid_height: i32, pooling_type: String } }

slots! {
    mod spp { X "X" => OUT "Out" }
    mod spp_grad { X "X", OUT "Out", DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// The finest level has 2^11 windows along an axis.
const HIGHEST: i32 = 12;

fn out_shape(op: &str, a: &SppAttrs, x: &[i64]) -> Result<Dims> {
    ensure!(x.len() == 4, InvalidArgument, "operator {op}: X must have 4 dimensions, got shape {x:?}");
    ensure!(!x[2..].contains(&0), InvalidArgument, "operator {op}: X of shape {x:?} has an empty axis");
    ensure!(
        (1..=HIGHEST).contains(&a.pyramid_height),
        InvalidArgument,
        "operator {op}: pyramid_height must be in 1..={HIGHEST}, got {}",
        a.pyramid_height
    );
    ensure!(
        matches!(&a.pooling_type[..], "max" | "avg"),
        InvalidArgument,
        "operator {op}: pooling_type must be max or avg, got '{}'",
        a.pooling_type
    );
    let windows = ((1i64 << (2 * a.pyramid_height)) - 1) / 3;
    let features = if x[1] < 0 { -1 } else { x[1].saturating_mul(windows) };
    Ok(Dims::from_slice(&[x[0], features]))
}

fn pyramid(a: &SppAttrs, x: &[i64]) -> Pyramid {
    Pyramid {
        images: x[0] as usize,
        channels: x[1] as usize,
        size: [x[2] as usize, x[3] as usize],
        levels: a.pyramid_height as u32,
        max: a.pooling_type == "max",
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (cx.dims(spp::X)?, cx.dtype(spp::X)?);
    let out = out_shape(cx.op.name, cx.attrs(), &x)?;
    cx.set(spp::OUT, &out, dtype);
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (a, x) = (cx.attrs::<SppAttrs>(), cx.input(spp::X)?);
    out_shape(cx.op.name, a, x.dims())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        pyramid(a, x.dims()).forward(x.data::<T>(), cx.out_data::<T>(spp::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use spp_grad::{DOUT, DX, OUT, X};
    let (a, x, out, dout) = (cx.attrs::<SppAttrs>(), cx.input(X)?, cx.input(OUT)?, cx.input(DOUT)?);
    let dims = out_shape(cx.op.name, a, x.dims())?;
    ensure!(
        out.dims() == &dims[..] && dout.dims() == &dims[..] && out.dtype() == x.dtype() && dout.dtype() == x.dtype(),
        InvalidArgument,
        "operator {}: Out and its gradient must have shape {:?} and the type of X, got {out:?} and {dout:?}",
        cx.op.name,
        &dims[..]
    );
    dispatch!(x.dtype(), T in [f32, f64], {
        let results = (out.data::<T>(), dout.data::<T>());
        pyramid(a, x.dims()).backward(x.data::<T>(), results, cx.out_data::<T>(DX)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SPP: Op = Op {
    name: "spp",
    inputs: spp::INS,
    outputs: spp::OUTS,
    attrs: SppAttrs::FIELDS,
    dtypes: FLOATS,
    infer,
    cpu: Kernel::Pure(|cx| in_f32(cx, spp::X, run)),
    grad: Grad::By(&SPP_GRAD),
    ..OP
};

pub static SPP_GRAD: Op = Op {
    name: "spp_grad",
    inputs: spp_grad::INS,
    outputs: spp_grad::OUTS,
    attrs: SppAttrs::FIELDS,
    dtypes: FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, spp_grad::X, run_grad)),
    ..OP
};
