//! softmax_with_cross_entropy: cross entropy of logits, hard or soft labels.

use super::label::{bad, by_label};
use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::loss::cross_entropy as loss;
use oar_ops_common::axis::{like, split};
use oar_ops_common::half::in_f32;

attrs! {
    pub struct SoftmaxEntropyAttrs {
        soft_label: bool = false, use_softmax: bool = true, numeric_stable_mode: bool = true,
        ignore_index: i32 = -100, axis: i32 = -1,
    }
}

slots! {
    mod softmax_entropy { LOGITS "Logits", LABEL "Label" => SOFTMAX "Softmax".intermediate(), LOSS "Loss" }
    mod softmax_entropy_grad { LABEL "Label", SOFTMAX "Softmax", DLOSS "Loss@GRAD" => DLOGITS "Logits@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

/// Logits and Label must agree outside the axis; along it Label has one class, or one number per class (soft_label).
fn check_labels(cx: &ShapeContext, x: &[i64], label: &[i64], axis: usize, soft: bool) -> Result<()> {
    let agrees = |i: usize, want: i64| label[i] == want || label[i] < 0 || want < 0;
    let fits = x.len() == label.len() && (0..x.len()).all(|i| agrees(i, if i == axis && !soft { 1 } else { x[i] }));
    ensure!(
        fits,
        InvalidArgument,
        "operator {}: Label must have the shape of Logits {x:?}, {} along axis {axis}, got {label:?}",
        cx.op.name,
        if soft { "also" } else { "but 1" }
    );
    Ok(())
}

fn infer_softmax_entropy(cx: &mut ShapeContext) -> Result<()> {
    use softmax_entropy::{LABEL, LOGITS, LOSS, SOFTMAX};
    let (x, label, dtype) = (cx.dims(LOGITS)?, cx.dims(LABEL)?, cx.dtype(LOGITS)?);
    let a = cx.attrs::<SoftmaxEntropyAttrs>();
    let axis = oar_core::base::shape::axis(cx.op.name, a.axis as i64, x.len())?;
    check_labels(cx, &x, &label, axis, a.soft_label)?;
    ensure!(
        a.numeric_stable_mode || axis + 1 == x.len(),
        InvalidArgument,
        "operator {}: axis can only be -1 without numeric_stable_mode",
        cx.op.name
    );
    cx.set(SOFTMAX, &x, dtype);
    let mut dims = x;
    dims[axis] = 1;
    cx.set(LOSS, &dims, dtype);
    cx.share_lod(SOFTMAX, LOGITS);
    cx.share_lod(LOSS, LOGITS);
    Ok(())
}

fn run_softmax_entropy(cx: &mut KernelContext) -> Result<()> {
    use softmax_entropy::{LABEL, LOGITS, LOSS, SOFTMAX};
    let (x, label) = (cx.input(LOGITS)?, cx.input(LABEL)?);
    let a = cx.attrs::<SoftmaxEntropyAttrs>();
    let name = cx.op.name;
    let dims = split(name, x.dims(), a.axis)?;
    let ignore = a.ignore_index as i64;
    if a.soft_label {
        like(cx, label, x.dims(), x.dtype(), "a soft Label")?;
    }
    let mut prob = cx.take_out(SOFTMAX)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let xs = x.data::<T>();
        let out = cx.out_data::<T>(LOSS)?;
        match (a.use_softmax, a.soft_label) {
            (true, true) => {
                loss::softmax_cross_entropy_soft(dims, xs, label.data::<T>(), prob.data_mut::<T>()?, out)
            }
            (true, false) => by_label!(cx, label, |l| {
                loss::softmax_cross_entropy(dims, xs, l, ignore, prob.data_mut::<T>()?, out).map_err(|e| bad(name, e))?
            }),
            (false, true) => loss::cross_entropy_soft(dims, xs, label.data::<T>(), out),
            (false, false) => by_label!(cx, label, |l| {
                loss::cross_entropy(dims, xs, l, ignore, out).map_err(|e| bad(name, e))?
            }),
        }
    }, other => return cx.unsupported(other));
    // With use_softmax = false the input is a softmax already.
    let out = if a.use_softmax { prob } else { x.share()? };
    cx.set(SOFTMAX, out);
    Ok(())
}

fn run_softmax_entropy_grad(cx: &mut KernelContext) -> Result<()> {
    use softmax_entropy_grad::{DLOGITS, DLOSS, LABEL, SOFTMAX};
    let (label, prob, dy) = (cx.input(LABEL)?, cx.input(SOFTMAX)?, cx.input(DLOSS)?);
    let a = cx.attrs::<SoftmaxEntropyAttrs>();
    let name = cx.op.name;
    let dims = split(name, prob.dims(), a.axis)?;
    let ignore = a.ignore_index as i64;
    ensure!(
        dy.numel() == dims.0 * dims.2 && dy.dtype() == prob.dtype(),
        InvalidArgument,
        "operator {name}: the gradient of Loss must have one element per loss, got {dy:?} for {prob:?}"
    );
    if a.soft_label {
        like(cx, label, prob.dims(), prob.dtype(), "a soft Label")?;
    } else {
        ensure!(label.numel() == dy.numel(), InvalidArgument, "operator {name}: Label must have one class per loss");
    }
    dispatch!(prob.dtype(), T in [f32, f64], {
        let (p, d) = (prob.data::<T>(), dy.data::<T>());
        let out = cx.out_data::<T>(DLOGITS)?;
        match (a.use_softmax, a.soft_label) {
            (true, true) => loss::softmax_cross_entropy_soft_grad(dims, p, label.data::<T>(), d, out),
            (true, false) => by_label!(cx, label, |l| {
                loss::softmax_cross_entropy_grad(dims, p, l, ignore, d, out).map_err(|e| bad(name, e))?
            }),
            (false, true) => loss::cross_entropy_soft_grad(dims, p, label.data::<T>(), d, out),
            (false, false) => by_label!(cx, label, |l| {
                loss::cross_entropy_grad(dims, p, l, ignore, d, out).map_err(|e| bad(name, e))?
            }),
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SOFTMAX_ENTROPY: Op = Op {
    name: "softmax_with_cross_entropy",
    inputs: softmax_entropy::INS,
    outputs: softmax_entropy::OUTS,
    dtypes: FLOATS,
    attrs: SoftmaxEntropyAttrs::FIELDS,
    infer: infer_softmax_entropy,
    cpu: Kernel::Pure(|cx| in_f32(cx, softmax_entropy::LOGITS, run_softmax_entropy)),
    grad: Grad::By(&SOFTMAX_ENTROPY_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};

pub static SOFTMAX_ENTROPY_GRAD: Op = Op {
    name: "softmax_with_cross_entropy_grad",
    inputs: softmax_entropy_grad::INS,
    outputs: softmax_entropy_grad::OUTS,
    attrs: SoftmaxEntropyAttrs::FIELDS,
    infer: |cx| {
        use softmax_entropy_grad::{DLOGITS, SOFTMAX};
        cx.like(DLOGITS, SOFTMAX)?;
        cx.share_lod(DLOGITS, SOFTMAX);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, softmax_entropy_grad::SOFTMAX, run_softmax_entropy_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&SOFTMAX_ENTROPY, &SOFTMAX_ENTROPY_GRAD];
