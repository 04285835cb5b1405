//! masked_select: the elements where a mask is true.

use oar_core::base::{DType, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{ensure, slots};
use oar_kernels::shape::masked_select as kernel;
use oar_ops_common::by_size;
use oar_ops_common::elements::{words, words_mut};

slots! {
    mod masked { X "X", MASK "Mask" => Y "Y".kernel_allocated() }
    mod masked_grad { X "X".meta_only(), MASK "Mask", DY "Y@GRAD" => DX "X@GRAD" }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, mask) = (cx.dims(masked::X)?, cx.dims(masked::MASK)?);
    ensure!(
        x.len() == mask.len() && x.iter().zip(&mask).all(|(&a, &b)| a == b || a < 0 || b < 0),
        InvalidArgument,
        "operator {}: X and Mask must have one shape, got {x:?} and {mask:?}",
        cx.op.name
    );
    if cx.dtype(masked::MASK)? != DType::Bool {
        return cx.wrong(masked::MASK, "bools");
    }
    let dtype = cx.dtype(masked::X)?;
    cx.set(masked::Y, &[-1], dtype);
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, mask) = (cx.input(masked::X)?, cx.input(masked::MASK)?.data::<bool>());
    let count = mask.iter().filter(|&&m| m).count();
    let mut y = Tensor::empty(x.dtype(), &[count as i64])?;
    by_size!(x.dtype(), T, {
        kernel::select(words::<T>(x), mask, words_mut::<T>(&mut y)?);
    });
    cx.set(masked::Y, y);
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use masked_grad::{DX, DY, MASK, X};
    let (x, mask, dy) = (cx.input(X)?, cx.input(MASK)?, cx.input(DY)?);
    ensure!(
        mask.dtype() == DType::Bool && mask.dims() == x.dims() && dy.dtype() == x.dtype(),
        InvalidArgument,
        "operator {}: Mask {mask:?} and Y@GRAD {dy:?} do not fit X {x:?}",
        cx.op.name
    );
    let mask = mask.data::<bool>();
    let count = mask.iter().filter(|&&m| m).count();
    ensure!(
        dy.numel() == count,
        InvalidArgument,
        "operator {}: Y@GRAD must have an element for each of {count} that Mask names, got {dy:?}",
        cx.op.name
    );
    let dx = cx.out(DX)?;
    by_size!(dy.dtype(), T, {
        kernel::select_grad(words::<T>(dy), mask, words_mut::<T>(dx)?);
    });
    Ok(())
}

pub static MASKED_SELECT: Op = Op {
    name: "masked_select",
    inputs: masked::INS,
    outputs: masked::OUTS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&MASKED_SELECT_GRAD),
    ..OP
};
pub static MASKED_SELECT_GRAD: Op = Op {
    name: "masked_select_grad",
    inputs: masked_grad::INS,
    outputs: masked_grad::OUTS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&MASKED_SELECT, &MASKED_SELECT_GRAD];
