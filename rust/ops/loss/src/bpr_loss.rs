//! bpr_loss: Bayesian personalized ranking loss.

use super::elements::of_size;
use super::label::{labels, one_label_a_row};
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, OP};
use oar_core::{dispatch, ensure, slots};
use oar_ops_common::half::in_f32;

slots! {
    mod bpr { X "X", LABEL "Label" => Y "Y" }
    mod bpr_grad { X "X", LABEL "Label", DY "Y@GRAD" => DX "X@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

/// Replaces infinities by large finite numbers.
macro_rules! tolerable {
    ($v:expr) => {{
        let v = $v;
        if v.is_infinite() {
            v.signum() * 1e20
        } else {
            v
        }
    }};
}

fn check_classes(op: &str, labels: &[i64], width: usize) -> Result<()> {
    for &label in labels {
        ensure!(
            (0..width as i64).contains(&label),
            InvalidArgument,
            "operator {op}: Label must hold classes from 0 to below {width}, got {label}"
        );
    }
    Ok(())
}

fn run_bpr(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(bpr::X)?;
    let (labels, width) = labels(cx, x, bpr::LABEL)?;
    check_classes(cx.op.name, &labels, width)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let xs = x.data::<T>();
        for (i, o) in cx.out_data::<T>(bpr::Y)?.iter_mut().enumerate() {
            let row = &xs[i * width..(i + 1) * width];
            let own = labels[i] as usize;
            let mut sum: T = 0.0;
            for (k, &v) in row.iter().enumerate() {
                if k != own {
                    sum += tolerable!((1.0 + tolerable!((v - row[own]).exp())).ln());
                }
            }
            *o = sum / (width as T - 1.0);
        }
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
        let (xs, d) = (x.data::<T>(), dy.data::<T>());
        let out = cx.out_data::<T>(DX)?;
        for (i, &own) in labels.iter().enumerate() {
            let (row, out) = (&xs[i * width..(i + 1) * width], &mut out[i * width..(i + 1) * width]);
            let own = own as usize;
            let mut sum: T = 0.0;
            for (k, (&v, o)) in row.iter().zip(out.iter_mut()).enumerate() {
                if k != own {
                    *o = d[i] / ((width as T - 1.0) * (1.0 + tolerable!((row[own] - v).exp())));
                    sum += *o;
                }
            }
            out[own] = -sum;
        }
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
