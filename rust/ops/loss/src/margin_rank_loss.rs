//! margin_rank_loss: pairwise ranking loss with a margin.

use super::elements::{each2, each3, like, one_column, same_shapes};
use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, OP};
use oar_core::{attrs, dispatch, slots};
use oar_ops_common::half::in_f32;

attrs! {
    pub struct MarginRankAttrs { margin: f32 = 0.0 }
}

slots! {
    mod margin { X1 "X1", X2 "X2", LABEL "Label" => ACTIVATED "Activated".intermediate(), OUT "Out" }
    mod margin_grad { ACTIVATED "Activated", DOUT "Out@GRAD", LABEL "Label" => DX1 "X1@GRAD", DX2 "X2@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

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

pub static TABLE: &[&Op] = &[&MARGIN, &MARGIN_GRAD];
