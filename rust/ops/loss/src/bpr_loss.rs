//! bpr_loss: Bayesian personalized ranking loss.

use super::elements::of_size;
use super::label::{labels, one_label_a_row};
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, OP};
use oar_core::{bail, dispatch, slots};
use oar_kernels::loss::bpr as kernel;
use oar_ops_common::half::in_f32;

slots! {
    mod bpr { X "X", LABEL "Label" => Y "Y" }
    mod bpr_grad { X "X", LABEL "Label", DY "Y@GRAD" => DX "X@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

fn check_classes(op: &str, labels: &[i64], width: usize) -> Result<()> {
    if let Some(label) = labels.iter().find(|label| !(0..width as i64).contains(*label)) {
        bail!(InvalidArgument, "operator {op}: Label must hold classes from 0 to below {width}, got {label}");
    }
    Ok(())
}

fn run_bpr(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(bpr::X)?;
    let (labels, width) = labels(cx, x, bpr::LABEL)?;
    check_classes(cx.op.name, &labels, width)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        kernel::bpr(x.data::<T>(), &labels, width, cx.out_data::<T>(bpr::Y)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_bpr_grad(cx: &mut KernelContext) -> Result<()> {
    use bpr_grad::{DX, DY, LABEL, X};
    let x = cx.input(X)?;
    let (labels, width) = labels(cx, x, LABEL)?;
    check_classes(cx.op.name, &labels, width)?;
    let dy = of_size(cx, DY, labels.len(), x.dtype())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        kernel::bpr_grad(x.data::<T>(), &labels, width, dy.data::<T>(), cx.out_data::<T>(DX)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static BPR: Op = Op {
    name: "bpr_loss",
    inputs: bpr::INS,
    outputs: bpr::OUTS,
    dtypes: FLOATS,
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        one_label_a_row(cx, bpr::X, bpr::LABEL)?;
        let (mut dims, dtype) = (cx.dims(bpr::X)?, cx.dtype(bpr::X)?);
        if let Some(last) = dims.last_mut() {
            *last = 1;
        }
        cx.set(bpr::Y, &dims, dtype);
        cx.share_lod(bpr::Y, bpr::X);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, bpr::X, run_bpr)),
    grad: Grad::By(&BPR_GRAD),
    ..OP
};

pub static BPR_GRAD: Op = Op {
    name: "bpr_loss_grad",
    inputs: bpr_grad::INS,
    outputs: bpr_grad::OUTS,
    dtypes: FLOATS,
    attrs: NoAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, bpr_grad::X, run_bpr_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&BPR, &BPR_GRAD];
