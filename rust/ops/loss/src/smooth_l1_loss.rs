//! smooth_l1_loss: the Huber loss summed over each row, with weights.

use super::elements::{both_like, like, of_size, same_shapes};
use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::loss::huber as kernel;
use oar_ops_common::half::in_f32;

attrs! {
    pub struct SmoothAttrs { sigma: f32 = 1.0 }
}

slots! {
    mod smooth {
        X "X", Y "Y", INSIDE "InsideWeight".dispensable(), OUTSIDE "OutsideWeight".dispensable() => DIFF "Diff".intermediate(), OUT "Out"
    }
    mod smooth_grad {
        INSIDE "InsideWeight".dispensable(), OUTSIDE "OutsideWeight".dispensable(), DIFF "Diff", DOUT "Out@GRAD"
        => DX "X@GRAD", DY "Y@GRAD"
    }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

fn infer_smooth(cx: &mut ShapeContext) -> Result<()> {
    use smooth::{DIFF, INSIDE, OUT, OUTSIDE, X, Y};
    same_shapes(cx, &[X, Y])?;
    let (dims, dtype) = (cx.dims(X)?, cx.dtype(X)?);
    ensure!(
        dims.len() >= 2,
        InvalidArgument,
        "operator smooth_l1_loss: X must have 2 dimensions or more, got shape {:?}",
        &dims[..]
    );
    if cx.has(INSIDE) || cx.has(OUTSIDE) {
        ensure!(
            cx.has(INSIDE) && cx.has(OUTSIDE),
            InvalidArgument,
            "operator smooth_l1_loss: InsideWeight and OutsideWeight must be given together, got one of them"
        );
        same_shapes(cx, &[X, INSIDE, OUTSIDE])?;
    }
    cx.set(DIFF, &dims, dtype);
    cx.set(OUT, &[dims[0], 1], dtype);
    Ok(())
}

fn run_smooth(cx: &mut KernelContext) -> Result<()> {
    use smooth::{DIFF, INSIDE, OUT, OUTSIDE, X, Y};
    let x = cx.input(X)?;
    let y = like(cx, Y, x)?;
    let weights = if cx.has(INSIDE) { Some((like(cx, INSIDE, x)?, like(cx, OUTSIDE, x)?)) } else { None };
    let sigma = cx.attrs::<SmoothAttrs>().sigma;
    let mut diff = cx.take_out(DIFF)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let square = sigma as T * sigma as T;
        let (xs, ys) = (x.data::<T>(), y.data::<T>());
        let weights = weights.map(|(a, b)| (a.data::<T>(), b.data::<T>()));
        let mut losses = vec![0.0; xs.len()];
        kernel::smooth_l1(xs, ys, weights, square, diff.data_mut::<T>()?, &mut losses);
        kernel::row_sums(&losses, cx.out_data::<T>(OUT)?);
    }, other => return cx.unsupported(other));
    cx.set(DIFF, diff);
    Ok(())
}

fn run_smooth_grad(cx: &mut KernelContext) -> Result<()> {
    use smooth_grad::{DIFF, DOUT, DX, DY, INSIDE, OUTSIDE};
    let diff = cx.input(DIFF)?;
    ensure!(diff.rank() > 0, InvalidArgument, "operator smooth_l1_loss_grad: Diff must have a dimension, got {diff:?}");
    let rows = diff.dims()[0] as usize;
    let dout = of_size(cx, DOUT, rows, diff.dtype())?;
    let both = cx.has(INSIDE) && cx.has(OUTSIDE);
    let weights = if both { Some((like(cx, INSIDE, diff)?, like(cx, OUTSIDE, diff)?)) } else { None };
    let sigma = cx.attrs::<SmoothAttrs>().sigma;
    dispatch!(diff.dtype(), T in [f32, f64], {
        let square = sigma as T * sigma as T;
        let (v, d) = (diff.data::<T>(), dout.data::<T>());
        let weights = weights.map(|(a, b)| (a.data::<T>(), b.data::<T>()));
        for (slot, sign) in [(DX, 1.0), (DY, -1.0)] {
            if !cx.wants(slot) {
                continue;
            }
            kernel::smooth_l1_grad(v, d, weights, square, sign, cx.out_data::<T>(slot)?);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SMOOTH: Op = Op {
    name: "smooth_l1_loss",
    inputs: smooth::INS,
    outputs: smooth::OUTS,
    dtypes: FLOATS,
    attrs: SmoothAttrs::FIELDS,
    infer: infer_smooth,
    cpu: Kernel::Pure(|cx| in_f32(cx, smooth::X, run_smooth)),
    grad: Grad::By(&SMOOTH_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};

pub static SMOOTH_GRAD: Op = Op {
    name: "smooth_l1_loss_grad",
    inputs: smooth_grad::INS,
    outputs: smooth_grad::OUTS,
    attrs: SmoothAttrs::FIELDS,
    infer: |cx| both_like(cx, smooth_grad::DIFF, [smooth_grad::DX, smooth_grad::DY]),
    cpu: Kernel::Pure(|cx| in_f32(cx, smooth_grad::DIFF, run_smooth_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&SMOOTH, &SMOOTH_GRAD];
