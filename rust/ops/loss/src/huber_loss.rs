//! huber_loss: quadratic near zero, linear beyond delta.

use super::elements::{both_like, each2, like, same_shapes};
use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, OP};
use oar_core::{attrs, dispatch, slots};
use oar_kernels::loss::huber as kernel;
use oar_ops_common::half::in_f32;

attrs! {
    pub struct HuberAttrs { delta: f32 }
}

slots! {
    mod huber { X "X", Y "Y" => RESIDUAL "Residual".intermediate(), OUT "Out" }
    mod huber_grad { RESIDUAL "Residual", DOUT "Out@GRAD" => DX "X@GRAD", DY "Y@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

fn run_huber(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(huber::X)?;
    let y = like(cx, huber::Y, x)?;
    let delta = cx.attrs::<HuberAttrs>().delta;
    let mut residual = cx.take_out(huber::RESIDUAL)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let delta = delta as T;
        each2(x.data::<T>(), y.data::<T>(), residual.data_mut::<T>()?, |x, y| y - x);
        kernel::huber(residual.data::<T>(), delta, cx.out_data::<T>(huber::OUT)?);
    }, other => return cx.unsupported(other));
    cx.set(huber::RESIDUAL, residual);
    Ok(())
}

fn run_huber_grad(cx: &mut KernelContext) -> Result<()> {
    use huber_grad::{DOUT, DX, DY, RESIDUAL};
    let residual = cx.input(RESIDUAL)?;
    let dout = like(cx, DOUT, residual)?;
    let delta = cx.attrs::<HuberAttrs>().delta;
    dispatch!(residual.dtype(), T in [f32, f64], {
        let delta = delta as T;
        for (slot, sign) in [(DX, -1.0), (DY, 1.0)] {
            if cx.wants(slot) {
                kernel::huber_grad(residual.data::<T>(), dout.data::<T>(), delta, sign, cx.out_data::<T>(slot)?);
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static HUBER: Op = Op {
    name: "huber_loss",
    inputs: huber::INS,
    outputs: huber::OUTS,
    dtypes: FLOATS,
    cannot_fail: true,
    attrs: HuberAttrs::FIELDS,
    infer: |cx| {
        same_shapes(cx, &[huber::X, huber::Y])?;
        cx.like(huber::RESIDUAL, huber::Y)?;
        cx.like(huber::OUT, huber::Y)?;
        cx.share_lod(huber::OUT, huber::X);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, huber::X, run_huber)),
    grad: Grad::By(&HUBER_GRAD),
    ..OP
};

pub static HUBER_GRAD: Op = Op {
    name: "huber_loss_grad",
    inputs: huber_grad::INS,
    outputs: huber_grad::OUTS,
    dtypes: FLOATS,
    attrs: HuberAttrs::FIELDS,
    infer: |cx| both_like(cx, huber_grad::RESIDUAL, [huber_grad::DX, huber_grad::DY]),
    cpu: Kernel::Pure(|cx| in_f32(cx, huber_grad::RESIDUAL, run_huber_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&HUBER, &HUBER_GRAD];
