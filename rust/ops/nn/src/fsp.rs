//! fsp (flow of the solution procedure): channel-wise inner products of two feature maps, averaged over positions.

use oar_core::base::{DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, slots};
use oar_kernels::nn::fsp as kernel;
use oar_ops_common::axis;

slots! {
    mod fsp { X "X", Y "Y" => OUT "Out" }
    mod fsp_grad { X "X", Y "Y", DOUT "Out@GRAD" => DX "X@GRAD", DY "Y@GRAD" }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    cx.shaped(fsp::X, &[-1; 4])?;
    let x = cx.dims(fsp::X)?;
    cx.shaped(fsp::Y, &[x[0], -1, x[2], x[3]])?;
    let (channels, dtype) = (cx.dims(fsp::Y)?[1], cx.dtype(fsp::X)?);
    cx.set(fsp::OUT, &[x[0], x[1], channels], dtype);
    cx.share_lod(fsp::OUT, fsp::X);
    Ok(())
}

/// Images, positions per image, and channels of both inputs.
fn sizes(cx: &KernelContext, x: &Tensor, y: &Tensor) -> Result<(usize, usize, [usize; 2])> {
    axis::like(cx, y, y.dims(), x.dtype(), "Y")?;
    let d = x.dims();
    Ok((d[0] as usize, (d[2] * d[3]) as usize, [d[1] as usize, y.dims()[1] as usize]))
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, y) = (cx.input(fsp::X)?, cx.input(fsp::Y)?);
    let (images, places, channels) = sizes(cx, x, y)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let out = cx.out_data::<T>(fsp::OUT)?;
        kernel::fsp(x.data::<T>(), y.data::<T>(), images, places, channels, out);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use fsp_grad::{DOUT, DX, DY, X, Y};
    let (x, y, d) = (cx.input(X)?, cx.input(Y)?, cx.input(DOUT)?);
    let (images, places, channels) = sizes(cx, x, y)?;
    let [m, n] = channels;
    axis::like(cx, d, &[images as i64, m as i64, n as i64], x.dtype(), "Out@GRAD")?;
    let sides: [(OutSlot, &Tensor, bool); 2] = [(DX, y, false), (DY, x, true)];
    dispatch!(x.dtype(), T in [f32, f64], {
        for (slot, other, transposed) in sides {
            if !cx.wants(slot) {
                continue;
            }
            let out = cx.out_data::<T>(slot)?;
            let (d, other) = (d.data::<T>(), other.data::<T>());
            kernel::fsp_grad(d, other, images, places, channels, transposed, out);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static FSP: Op = Op {
    name: "fsp",
    inputs: fsp::INS,
    outputs: fsp::OUTS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&FSP_GRAD),
    ..OP
};
pub static FSP_GRAD: Op = Op {
    name: "fsp_grad",
    inputs: fsp_grad::INS,
    outputs: fsp_grad::OUTS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&FSP, &FSP_GRAD];
