//! modified_huber_loss of labels 0 or 1.

use super::elements::{each2, each3, like, one_column, same_shapes};
use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, OP};
use oar_core::{bail, dispatch, slots};
use oar_ops_common::half::in_f32;

slots! {
    mod modified { X "X", Y "Y" => VALUE "IntermediateVal".intermediate(), OUT "Out" }
    mod modified_grad { Y "Y", VALUE "IntermediateVal", DOUT "Out@GRAD" => DX "X@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

fn run_modified(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(modified::X)?;
    let y = like(cx, modified::Y, x)?;
    let mut value = cx.take_out(modified::VALUE)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let ys = y.data::<T>();
        if let Some(y) = ys.iter().find(|&&y| y != 0.0 && y != 1.0) {
            bail!(InvalidArgument, "operator modified_huber_loss: Y must hold 0 and 1 only, got {y}");
        }
        each2(x.data::<T>(), ys, value.data_mut::<T>()?, |x, y| x * (2.0 * y - 1.0));
        let v = value.data::<T>();
        each2(v, v, cx.out_data::<T>(modified::OUT)?, |v, _| {
            if v < -1.0 { -4.0 * v } else if v < 1.0 { (1.0 - v) * (1.0 - v) } else { 0.0 }
        });
    }, other => return cx.unsupported(other));
    cx.set(modified::VALUE, value);
    Ok(())
}

fn run_modified_grad(cx: &mut KernelContext) -> Result<()> {
    let y = cx.input(modified_grad::Y)?;
    let (value, d) = (like(cx, modified_grad::VALUE, y)?, like(cx, modified_grad::DOUT, y)?);
    dispatch!(y.dtype(), T in [f32, f64], {
        each3(value.data::<T>(), y.data::<T>(), d.data::<T>(), cx.out_data::<T>(modified_grad::DX)?, |v, y, d| {
            let slope = if v < -1.0 { -4.0 } else if v < 1.0 { -2.0 * (1.0 - v) } else { 0.0 };
            slope * (2.0 * y - 1.0) * d
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static MODIFIED: Op = Op {
    name: "modified_huber_loss",
    inputs: modified::INS,
    outputs: modified::OUTS,
    dtypes: FLOATS,
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        same_shapes(cx, &[modified::X, modified::Y])?;
        one_column(cx, modified::X)?;
        cx.like(modified::VALUE, modified::X)?;
        cx.like(modified::OUT, modified::X)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, modified::X, run_modified)),
    grad: Grad::By(&MODIFIED_GRAD),
    ..OP
};

pub static MODIFIED_GRAD: Op = Op {
    name: "modified_huber_loss_grad",
    inputs: modified_grad::INS,
    outputs: modified_grad::OUTS,
    dtypes: FLOATS,
    attrs: NoAttrs::FIELDS,
    infer: |cx| cx.like(modified_grad::DX, modified_grad::VALUE),
    cpu: Kernel::Pure(|cx| in_f32(cx, modified_grad::Y, run_modified_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&MODIFIED, &MODIFIED_GRAD];
