//! Losses of one score against a label or another score: hinge_loss, modified_huber_loss, rank_loss, margin_rank_loss.

use super::elements::{agree, each2, each3, like, of_size, one_column, same_shapes};
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::{bail, dispatch, ensure, slots};
use oar_ops_common::half::in_f32;

attrs! {
    pub struct MarginRankAttrs { margin: f32 = 0.0 }
}

slots! {
    mod hinge { LOGITS "Logits", LABELS "Labels" => LOSS "Loss" }
    mod hinge_grad { LOGITS "Logits", LABELS "Labels", DLOSS "Loss@GRAD" => DLOGITS "Logits@GRAD" }
    mod modified { X "X", Y "Y" => VALUE "IntermediateVal".intermediate(), OUT "Out" }
    mod modified_grad { Y "Y", VALUE "IntermediateVal", DOUT "Out@GRAD" => DX "X@GRAD" }
    mod rank { LABEL "Label", LEFT "Left", RIGHT "Right" => OUT "Out" }
    mod rank_grad {
        LABEL "Label", LEFT "Left", RIGHT "Right", DOUT "Out@GRAD" => DLEFT "Left@GRAD", DRIGHT "Right@GRAD"
    }
    mod margin { X1 "X1", X2 "X2", LABEL "Label" => ACTIVATED "Activated".intermediate(), OUT "Out" }
    mod margin_grad { ACTIVATED "Activated", DOUT "Out@GRAD", LABEL "Label" => DX1 "X1@GRAD", DX2 "X2@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

// hinge_loss: labels are 0 or 1

fn run_hinge(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(hinge::LOGITS)?;
    let y = like(cx, hinge::LABELS, x)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        each2(x.data::<T>(), y.data::<T>(), cx.out_data::<T>(hinge::LOSS)?, |x, y| {
            let v = 1.0 - x * (2.0 * y - 1.0);
            if v < 0.0 { 0.0 } else { v }
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_hinge_grad(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(hinge_grad::LOGITS)?;
    let (y, d) = (like(cx, hinge_grad::LABELS, x)?, like(cx, hinge_grad::DLOSS, x)?);
    dispatch!(x.dtype(), T in [f32, f64], {
        each3(x.data::<T>(), y.data::<T>(), d.data::<T>(), cx.out_data::<T>(hinge_grad::DLOGITS)?, |x, y, d| {
            let sign = 2.0 * y - 1.0;
            d * if x * sign < 1.0 { -sign } else { 0.0 }
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static HINGE: Op = Op {
    name: "hinge_loss",
    inputs: hinge::INS,
    outputs: hinge::OUTS,
    dtypes: FLOATS,
    cannot_fail: true,
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        same_shapes(cx, &[hinge::LOGITS, hinge::LABELS])?;
        one_column(cx, hinge::LOGITS)?;
        like_first(cx)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, hinge::LOGITS, run_hinge)),
    grad: Grad::By(&HINGE_GRAD),
    ..OP
};

pub static HINGE_GRAD: Op = Op {
    name: "hinge_loss_grad",
    inputs: hinge_grad::INS,
    outputs: hinge_grad::OUTS,
    dtypes: FLOATS,
    attrs: NoAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, hinge_grad::LOGITS, run_hinge_grad)),
    ..OP
};

// modified_huber_loss: labels are 0 or 1

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

// rank_loss

fn infer_rank(cx: &mut ShapeContext) -> Result<()> {
    let rows = *cx.dims(rank::LABEL)?.first().unwrap_or(&-1);
    for slot in [rank::LABEL, rank::LEFT, rank::RIGHT] {
        let dims = cx.dims(slot)?;
        ensure!(
            (dims.len() == 1 || dims.len() == 2 && agree(dims[1], 1)) && agree(dims[0], rows),
            InvalidArgument,
            "operator rank_loss: Label, Left and Right must have the shape [N] or [N, 1] with one N, got {:?} for {}",
            &dims[..],
            cx.op.inputs[slot.0].name
        );
    }
    cx.like(rank::OUT, rank::LABEL)
}

fn run_rank(cx: &mut KernelContext) -> Result<()> {
    let label = cx.input(rank::LABEL)?;
    let (n, dtype) = (label.numel(), label.dtype());
    let (left, right) = (of_size(cx, rank::LEFT, n, dtype)?, of_size(cx, rank::RIGHT, n, dtype)?);
    dispatch!(label.dtype(), T in [f32, f64], {
        each3(label.data::<T>(), left.data::<T>(), right.data::<T>(), cx.out_data::<T>(rank::OUT)?, |y, l, r| {
            let v = l - r;
            // ln(1 + e^v) that does not overflow
            v.max(0.0) + (-v.abs()).exp().ln_1p() - y * v
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_rank_grad(cx: &mut KernelContext) -> Result<()> {
    use rank_grad::{DLEFT, DOUT, DRIGHT, LABEL, LEFT, RIGHT};
    let label = cx.input(LABEL)?;
    let (n, dtype) = (label.numel(), label.dtype());
    let [left, right, dout] =
        [of_size(cx, LEFT, n, dtype)?, of_size(cx, RIGHT, n, dtype)?, of_size(cx, DOUT, n, dtype)?];
    dispatch!(label.dtype(), T in [f32, f64], {
        let (y, l, r) = (label.data::<T>(), left.data::<T>(), right.data::<T>());
        for (slot, sign) in [(DLEFT, 1.0), (DRIGHT, -1.0)] {
            if cx.wants(slot) {
                let out = cx.out_data::<T>(slot)?;
                each3(y, l, r, out, |y, l, r| sign * (1.0 / (1.0 + (r - l).exp()) - y));
                out.iter_mut().zip(dout.data::<T>()).for_each(|(o, d)| *o *= d);
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static RANK: Op = Op {
    name: "rank_loss",
    inputs: rank::INS,
    outputs: rank::OUTS,
    dtypes: FLOATS,
    cannot_fail: true,
    attrs: NoAttrs::FIELDS,
    infer: infer_rank,
    cpu: Kernel::Pure(|cx| in_f32(cx, rank::LABEL, run_rank)),
    grad: Grad::By(&RANK_GRAD),
    ..OP
};

pub static RANK_GRAD: Op = Op {
    name: "rank_loss_grad",
    inputs: rank_grad::INS,
    outputs: rank_grad::OUTS,
    dtypes: FLOATS,
    attrs: NoAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, rank_grad::LABEL, run_rank_grad)),
    ..OP
};

// margin_rank_loss

fn run_margin(cx: &mut KernelContext) -> Result<()> {
    let label = cx.input(margin::LABEL)?;
    let (x1, x2) = (like(cx, margin::X1, label)?, like(cx, margin::X2, label)?);
    let gap = cx.attrs::<MarginRankAttrs>().margin;
    let mut activated = cx.take_out(margin::ACTIVATED)?;
    dispatch!(label.dtype(), T in [f32, f64], {
        let gap = gap as T;
        let out = cx.out_data::<T>(margin::OUT)?;
        each3(label.data::<T>(), x1.data::<T>(), x2.data::<T>(), out, |y, a, b| {
            let v = -y * (a - b) + gap;
            if v > 0.0 { v } else { 0.0 }
        });
        each2(out, out, activated.data_mut::<T>()?, |v, _| if v > 0.0 { 1.0 } else { 0.0 });
    }, other => return cx.unsupported(other));
    cx.set(margin::ACTIVATED, activated);
    Ok(())
}

fn run_margin_grad(cx: &mut KernelContext) -> Result<()> {
    use margin_grad::{ACTIVATED, DOUT, DX1, DX2, LABEL};
    let label = cx.input(LABEL)?;
    let (activated, dout) = (like(cx, ACTIVATED, label)?, like(cx, DOUT, label)?);
    dispatch!(label.dtype(), T in [f32, f64], {
        let (y, a, d) = (label.data::<T>(), activated.data::<T>(), dout.data::<T>());
        for (slot, sign) in [(DX1, -1.0), (DX2, 1.0)] {
            if cx.wants(slot) {
                each3(y, a, d, cx.out_data::<T>(slot)?, |y, a, d| sign * d * a * y);
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static MARGIN: Op = Op {
    name: "margin_rank_loss",
    inputs: margin::INS,
    outputs: margin::OUTS,
    dtypes: FLOATS,
    cannot_fail: true,
    attrs: MarginRankAttrs::FIELDS,
    infer: |cx| {
        same_shapes(cx, &[margin::LABEL, margin::X1, margin::X2])?;
        one_column(cx, margin::LABEL)?;
        cx.like(margin::ACTIVATED, margin::LABEL)?;
        cx.like(margin::OUT, margin::LABEL)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, margin::LABEL, run_margin)),
    grad: Grad::By(&MARGIN_GRAD),
    ..OP
};

pub static MARGIN_GRAD: Op = Op {
    name: "margin_rank_loss_grad",
    inputs: margin_grad::INS,
    outputs: margin_grad::OUTS,
    dtypes: FLOATS,
    attrs: MarginRankAttrs::FIELDS,
    infer: |cx| {
        cx.like(margin_grad::DX1, margin_grad::LABEL)?;
        cx.like(margin_grad::DX2, margin_grad::LABEL)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, margin_grad::LABEL, run_margin_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&HINGE, &HINGE_GRAD, &MODIFIED, &MODIFIED_GRAD, &RANK, &RANK_GRAD, &MARGIN, &MARGIN_GRAD];
