//! Checks that the normalization operators share.

use oar_core::base::{DType, Result};
use oar_core::ensure;
use oar_core::op::{InSlot, KernelContext, OutSlot, ShapeContext};
use oar_core::tensor::Tensor;

/// Wiring of a normalization's second gradient: (slot, variable).
pub const SECOND_GRAD: &[(&str, &str)] = &[
    ("DDX", "X@GRAD@GRAD"),
    ("DDScale", "Scale@GRAD@GRAD"),
    ("DDBias", "Bias@GRAD@GRAD"),
    ("DY", "Y@GRAD"),
    ("DX", "X@GRAD"),
    ("DScale", "Scale@GRAD"),
    ("DDY", "Y@GRAD@GRAD"),
];

pub fn check_epsilon(op: &str, epsilon: f32) -> Result<()> {
    ensure!(
        (0.0..=0.001).contains(&epsilon),
        InvalidArgument,
        "operator {op}: epsilon must be between 0 and 0.001, got {epsilon}"
    );
    Ok(())
}

/// The data type of scale, bias and statistics: f64 for f64, f32 for all others.
pub fn statistics_dtype(x: DType) -> DType {
    if x == DType::F64 {
        DType::F64
    } else {
        DType::F32
    }
}

/// Fails unless the gradient's other inputs have the shape and data type of X.
pub fn check_like(cx: &KernelContext, x: &Tensor, slots: &[InSlot]) -> Result<()> {
    for &slot in slots {
        let Some(t) = cx.opt(slot) else { continue };
        ensure!(
            t.dims() == x.dims() && t.dtype() == x.dtype(),
            InvalidArgument,
            "operator {}: {} must be like X {x:?}, got {t:?}",
            cx.op.name,
            cx.op.inputs[slot.0].name
        );
    }
    Ok(())
}

/// Shape rule: inputs must have one element for each of `c` channels, where sizes are known.
pub fn infer_channel(cx: &ShapeContext, slots: &[InSlot], c: i64) -> Result<()> {
    for &slot in slots {
        let d = cx.dims(slot)?;
        ensure!(
            d.len() == 1 && (d[0] == c || d[0] < 0 || c < 0),
            InvalidArgument,
            "operator {}: {} must have shape [{c}], got {:?}",
            cx.op.name,
            cx.op.inputs[slot.0].name,
            &d[..]
        );
    }
    Ok(())
}

/// Fails unless the inputs have one element per channel.
pub fn check_channel(cx: &KernelContext, slots: &[InSlot], c: usize, dtype: DType) -> Result<()> {
    for &slot in slots {
        let Some(t) = cx.opt(slot) else { continue };
        ensure!(
            t.numel() == c && t.dtype() == dtype,
            InvalidArgument,
            "operator {}: {} must have one {dtype} per channel ({c}), got {t:?}",
            cx.op.name,
            cx.op.inputs[slot.0].name
        );
    }
    Ok(())
}

/// Fails unless scale, bias (`ins`) and running statistics (`outs`, which alias inputs) have the data type that belongs
/// to X.
pub fn check_statistics(cx: &mut KernelContext, x: DType, ins: &[InSlot], outs: &[OutSlot]) -> Result<()> {
    let (op, wanted) = (cx.op, statistics_dtype(x));
    let check = |name: &str, got: DType| {
        ensure!(
            got == wanted,
            InvalidArgument,
            "operator {}: {name} must have data type {wanted} where X has {x}, got {got}",
            op.name
        );
        Ok(())
    };
    for &slot in ins {
        if let Some(t) = cx.opt(slot) {
            check(op.inputs[slot.0].name, t.dtype())?;
        }
    }
    for &slot in outs {
        check(op.outputs[slot.0].name, cx.out(slot)?.dtype())?;
    }
    Ok(())
}
