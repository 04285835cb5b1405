//! What the normalisations check alike.

use crate::base::{DType, Result};
use crate::ensure;
use crate::op::Run;
use crate::tensor::Tensor;

pub fn check_epsilon(op: &str, epsilon: f32) -> Result<()> {
    ensure!(
        (0.0..=0.001).contains(&epsilon),
        InvalidArgument,
        "operator {op}: epsilon must be between 0 and 0.001, got {epsilon}"
    );
    Ok(())
}

/// The type of scale, bias and statistics: f64 for f64, f32 for all others.
pub fn of_statistics(x: DType) -> DType {
    if x == DType::F64 {
        DType::F64
    } else {
        DType::F32
    }
}

/// Shapes and types of what a gradient gets beside X.
pub fn check_like(cx: &Run, x: &Tensor, slots: &[usize]) -> Result<()> {
    for &slot in slots {
        let Some(t) = cx.opt(slot) else { continue };
        ensure!(
            t.dims() == x.dims() && t.dtype() == x.dtype(),
            InvalidArgument,
            "operator {}: {} must be like X {x:?}, got {t:?}",
            cx.op.name,
            cx.op.inputs[slot].name
        );
    }
    Ok(())
}

pub fn check_channel(cx: &Run, slots: &[usize], c: usize, dtype: DType) -> Result<()> {
    for &slot in slots {
        let Some(t) = cx.opt(slot) else { continue };
        ensure!(
            t.numel() == c && t.dtype() == dtype,
            InvalidArgument,
            "operator {}: {} must have one {dtype} a channel ({c}), got {t:?}",
            cx.op.name,
            cx.op.inputs[slot].name
        );
    }
    Ok(())
}
