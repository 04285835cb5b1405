//! dropout: zeroes random elements.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::like_out_grad;
use oar_core::op::{Grad, Kernel, KernelContext, Op, OutSlot, OP};
use oar_core::tensor::generator::with_engine;
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::elementwise::{map, zip};
use oar_kernels::random as draw;
use oar_kernels::types::Number;

attrs! {
    pub struct DropoutAttrs {
        dropout_prob: f32 = 0.5, is_test: bool = false, fix_seed: bool = false, seed: i32 = 0,
        dropout_implementation: Text = "downgrade_in_infer".into(),
    }
}

slots! {
    mod dropout { X "X", SEED "Seed".dispensable() => OUT "Out", MASK "Mask".intermediate() }
    mod dropout_grad { DOUT "Out@GRAD", MASK "Mask".dispensable() => DX "X@GRAD" }
}

fn check_dropout(a: &DropoutAttrs) -> Result<bool> {
    ensure!(
        (0.0..=1.0).contains(&a.dropout_prob),
        InvalidArgument,
        "operator dropout: dropout_prob must be between 0 and 1, got {}",
        a.dropout_prob
    );
    match a.dropout_implementation.as_str() {
        "upscale_in_train" => Ok(true),
        "downgrade_in_infer" => Ok(false),
        other => oar_core::bail!(
            InvalidArgument,
            "operator dropout: dropout_implementation must be downgrade_in_infer or upscale_in_train, got '{other}'"
        ),
    }
}

/// out = x * factor.
fn times(cx: &mut KernelContext, slot: OutSlot, x: &Tensor, factor: f32) -> Result<()> {
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16], {
        let f = <T as Number>::from_f64(factor as f64);
        map(x.data::<T>(), cx.out_data::<T>(slot)?, |v| v.mul(f));
    }, other => return cx.unsupported(other));
    Ok(())
}

fn drop_out(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<DropoutAttrs>();
    let upscale = check_dropout(a)?;
    let x = cx.input(dropout::X)?;
    if a.is_test {
        if upscale {
            let same = x.share()?;
            cx.set(dropout::OUT, same);
            return Ok(());
        }
        return times(cx, dropout::OUT, x, 1.0 - a.dropout_prob);
    }
    let seed = match cx.opt(dropout::SEED) {
        Some(t) => {
            ensure!(t.numel() == 1, InvalidArgument, "operator dropout: Seed must hold one integer, got {t:?}");
            oar_ops_common::tensor_attr::ints(cx.op.name, t)?[0]
        }
        None if a.fix_seed => a.seed as i64,
        None => 0,
    };
    // The mask is drawn even if it is not requested. The generator is released before the mask is applied.
    let mut mask =
        if cx.wants(dropout::MASK) { cx.take_out(dropout::MASK)? } else { Tensor::empty(DType::U8, x.dims())? };
    let drawn = mask.data_mut::<u8>()?;
    with_engine(seed as u64, |e| draw::dropout_mask(e, a.dropout_prob, drawn));
    let keep = if upscale { 1.0 - a.dropout_prob } else { 1.0 };
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16], {
        draw::dropped(x.data::<T>(), mask.data::<u8>(), keep, cx.out_data::<T>(dropout::OUT)?);
    }, other => return cx.unsupported(other));
    if cx.wants(dropout::MASK) {
        cx.set(dropout::MASK, mask);
    }
    Ok(())
}

pub static DROPOUT: Op = Op {
    name: "dropout",
    inputs: dropout::INS,
    outputs: dropout::OUTS,
    attrs: DropoutAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: |cx| {
        let a = cx.attrs::<DropoutAttrs>();
        check_dropout(a)?;
        cx.like(dropout::OUT, dropout::X)?;
        cx.share_lod(dropout::OUT, dropout::X);
        if !a.is_test {
            let dims = cx.dims(dropout::X)?;
            cx.set(dropout::MASK, &dims, DType::U8);
        }
        Ok(())
    },
    cpu: Kernel::Random(drop_out),
    grad: Grad::By(&DROPOUT_GRAD),
    ..OP
};

/// Also for is_test, where the output is a multiple of the input (Paddle from 2.1 on).
pub static DROPOUT_GRAD: Op = Op {
    name: "dropout_grad",
    inputs: dropout_grad::INS,
    outputs: dropout_grad::OUTS,
    attrs: DropoutAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| {
        let a = cx.attrs::<DropoutAttrs>();
        let upscale = check_dropout(a)?;
        let d = cx.input(dropout_grad::DOUT)?;
        if a.is_test {
            return times(cx, dropout_grad::DX, d, if upscale { 1.0 } else { 1.0 - a.dropout_prob });
        }
        let mask = cx.input(dropout_grad::MASK)?;
        ensure!(
            mask.dtype() == DType::U8 && mask.numel() == d.numel(),
            InvalidArgument,
            "operator dropout_grad: Mask must be uint8 of the gradient's shape, got {mask:?} and {d:?}"
        );
        let keep = if upscale && a.dropout_prob < 1.0 { 1.0 - a.dropout_prob } else { 1.0 };
        dispatch!(d.dtype(), T in [f32, f64, f16, bf16], {
            let keep = <T as Number>::from_f64(keep as f64);
            zip(d.data::<T>(), mask.data::<u8>(), cx.out_data::<T>(dropout_grad::DX)?, |d, m| {
                // Multiply by 0: NaN stays NaN, as in the product with the mask.
                let none = d.mul(T::ZERO);
                (if m != 0 { d } else { none }).div(keep)
            });
        }, other => return cx.unsupported(other));
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&DROPOUT, &DROPOUT_GRAD];
