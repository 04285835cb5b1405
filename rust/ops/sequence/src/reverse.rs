//! sequence_reverse: reverses the steps of every sequence. It is its own gradient.

use oar_core::base::Result;
use oar_core::op::infer::like_first;
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, OP};
use oar_core::tensor::Tensor;
use oar_core::{ensure, slots};
use oar_kernels::sequence::rows;
use oar_ops_common::by_size;
use oar_ops_common::elements::{words, words_mut};

slots! {
    /// X [steps of all sequences, ...]; its last LoD level holds the sequences.
    mod reverse { X "X" => Y "Y" }
}

fn kernel(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(reverse::X)?;
    let steps = x.dims().first().copied().unwrap_or(0);
    let level = x.lod.as_deref().and_then(|lod| lod.last());
    let offsets = level.filter(|level| level.last().is_some_and(|&end| end as i64 == steps)).cloned();
    ensure!(
        offsets.is_some(),
        InvalidArgument,
        "operator {}: X must have LoD whose last level ends at its first size, got {x:?} with LoD {:?}",
        cx.op.name,
        x.lod
    );
    let (x, width) = (x.clone(), x.numel() / (steps as usize).max(1));
    let y: &mut Tensor = cx.out(reverse::Y)?;
    by_size!(x.dtype(), T, {
        rows::reverse(&offsets.unwrap_or_default(), width, words::<T>(&x), words_mut::<T>(y)?);
    });
    Ok(())
}

pub static SEQUENCE_REVERSE: Op = Op {
    name: "sequence_reverse",
    inputs: reverse::INS,
    outputs: reverse::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: like_first,
    cpu: Kernel::Pure(kernel),
    grad: Grad::Map(&SEQUENCE_REVERSE, &[("X", "Y@GRAD"), ("Y", "X@GRAD")]),
    ..OP
};

pub static TABLE: &[&Op] = &[&SEQUENCE_REVERSE];
