//! temporal_shift: shifts a part of the channels by one frame backward, another part by one frame forward.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{like_first, like_out_grad};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::{ensure, slots};
use oar_kernels::nn::temporal_shift::TemporalShift;
use oar_ops_common::by_size;
use oar_ops_common::elements::{words, words_mut};

attrs! {
    pub struct ShiftAttrs { seg_num: i32, shift_ratio: f32 = 0.25 }
}

slots! {
    mod forward { X "X" => OUT "Out" }
    mod backward { DOUT "Out@GRAD" => DX "X@GRAD" }
}

fn check(op: &str, a: &ShiftAttrs, x: &[i64]) -> Result<()> {
    ensure!(x.len() == 4, InvalidArgument, "operator {op}: X must have 4 dimensions, got shape {x:?}");
    ensure!(a.seg_num > 0, InvalidArgument, "operator {op}: seg_num must be greater than 0, got {}", a.seg_num);
    ensure!(
        a.shift_ratio > 0.0 && a.shift_ratio < 0.5,
        InvalidArgument,
        "operator {op}: shift_ratio must be greater than 0 and less than 0.5, got {}",
        a.shift_ratio
    );
    ensure!(
        x[0] < 0 || x[0] % a.seg_num as i64 == 0,
        InvalidArgument,
        "operator {op}: the first dimension of X ({}) must be a multiple of seg_num ({})",
        x[0],
        a.seg_num
    );
    Ok(())
}

/// `by`: -1 if the first channels come from the preceding frame (forward), 1 for the reverse (gradient).
fn shift(cx: &mut KernelContext, by: isize) -> Result<()> {
    let (x, a) = (cx.input(InSlot(0))?, cx.attrs::<ShiftAttrs>());
    check(cx.op.name, a, x.dims())?;
    if x.numel() == 0 {
        return Ok(());
    }
    let (channels, frames) = (x.dims()[1] as usize, a.seg_num as usize);
    let pixels = (x.dims()[2] * x.dims()[3]) as usize;
    let first = (channels as f32 * a.shift_ratio) as usize;
    let second = ((channels * 2) as f32 * a.shift_ratio) as usize;
    by_size!(x.dtype(), T, {
        let shift = TemporalShift { frames, channels, pixels, first, second, by };
        shift.run(words::<T>(x), words_mut::<T>(cx.out(OutSlot(0))?)?);
    });
    Ok(())
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let x = cx.dims(forward::X)?;
    check(cx.op.name, cx.attrs(), &x)?;
    like_first(cx)
}

const TYPES: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

pub static TEMPORAL_SHIFT: Op = Op {
    name: "temporal_shift",
    inputs: forward::INS,
    outputs: forward::OUTS,
    attrs: ShiftAttrs::FIELDS,
    dtypes: TYPES,
    infer,
    cpu: Kernel::Pure(|cx| shift(cx, -1)),
    grad: Grad::By(&TEMPORAL_SHIFT_GRAD),
    ..OP
};

pub static TEMPORAL_SHIFT_GRAD: Op = Op {
    name: "temporal_shift_grad",
    inputs: backward::INS,
    outputs: backward::OUTS,
    attrs: ShiftAttrs::FIELDS,
    dtypes: TYPES,
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| shift(cx, 1)),
    ..OP
};

pub static TABLE: &[&Op] = &[&TEMPORAL_SHIFT, &TEMPORAL_SHIFT_GRAD];
