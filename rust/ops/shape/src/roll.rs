//! roll: elements shifted along axes, wrapping around.

use oar_core::attrs;
use oar_core::base::{Dims, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{ensure, slots};
use oar_kernels::shape::roll as kernel;
use oar_ops_common::axis::split;
use oar_ops_common::by_size;
use oar_ops_common::elements::{share, words, words_mut};

attrs! {
    pub struct RollAttrs { shifts: Vec<i64> = vec![], axis: Vec<i64> = vec![] }
}

slots! {
    mod roll { X "X" => OUT "Out".kernel_allocated() }
    mod roll_grad { X "X".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated() }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (a, rank) = (cx.attrs::<RollAttrs>(), cx.dims(roll::X)?.len() as i64);
    ensure!(
        a.axis.len() == a.shifts.len(),
        InvalidArgument,
        "operator {}: 'axis' and 'shifts' must have one length, got {:?} and {:?}",
        cx.op.name,
        a.axis,
        a.shifts
    );
    if let Some(axis) = a.axis.iter().find(|&&d| d < -rank || d >= rank) {
        oar_core::bail!(OutOfRange, "operator {}: 'axis' must be in [-{rank}, {rank}), got {axis}", cx.op.name);
    }
    like_first(cx)
}

/// Shifts the elements by the attribute, or back.
fn rolled(cx: &KernelContext, x: &Tensor, back: bool) -> Result<Tensor> {
    let a = cx.attrs::<RollAttrs>();
    let mut t = share(x)?;
    // One pass for each axis with a nonzero shift.
    let mut total: Dims = Dims::from_elem(0, x.rank());
    for (&axis, &shift) in a.axis.iter().zip(&a.shifts) {
        let at = oar_core::base::shape::axis(cx.op.name, axis, x.rank())?;
        let n = x.dims()[at].max(1);
        let step = if back { -(shift % n) } else { shift % n };
        total[at] = (total[at] + step).rem_euclid(n);
    }
    for (at, &shift) in total.iter().enumerate().filter(|(_, &s)| s != 0) {
        let (_, n, inner) = split(cx.op.name, x.dims(), at as i32)?;
        let (slab, head) = (n * inner, (n - shift as usize) * inner);
        let mut out = t.empty_like()?;
        by_size!(x.dtype(), T, {
            kernel::roll(words::<T>(&t), slab, head, words_mut::<T>(&mut out)?);
        });
        t = out;
    }
    Ok(t.with_lod(x.lod.clone()))
}

pub static ROLL: Op = Op {
    name: "roll",
    inputs: roll::INS,
    outputs: roll::OUTS,
    attrs: RollAttrs::FIELDS,
    infer,
    cpu: Kernel::Pure(|cx| {
        let out = rolled(cx, cx.input(roll::X)?, false)?;
        cx.set(roll::OUT, out);
        Ok(())
    }),
    grad: Grad::By(&ROLL_GRAD),
    ..OP
};
pub static ROLL_GRAD: Op = Op {
    name: "roll_grad",
    inputs: roll_grad::INS,
    outputs: roll_grad::OUTS,
    attrs: RollAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| {
        let (x, dout) = (cx.input(roll_grad::X)?, cx.input(roll_grad::DOUT)?);
        ensure!(
            x.dims() == dout.dims() && x.dtype() == dout.dtype(),
            InvalidArgument,
            "operator roll_grad: Out@GRAD must be like X {x:?}, got {dout:?}"
        );
        let dx = rolled(cx, dout, true)?;
        cx.set(roll_grad::DX, dx);
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&ROLL, &ROLL_GRAD];
