//! Checks of operands: sizes that agree, data types.

use oar_core::base::{DType, Result};
use oar_core::ensure;
use oar_core::op::{InSlot, KernelContext};
use oar_core::tensor::Tensor;

/// True if two sizes may be equal: one is unknown, or both are the same.
pub(crate) fn agree(a: i64, b: i64) -> bool {
    a == b || a < 0 || b < 0
}

/// The operands must have this data type.
pub(crate) fn of_type(cx: &KernelContext, dtype: DType, slots: &[InSlot]) -> Result<()> {
    for &slot in slots {
        let t = cx.input(slot)?;
        ensure!(
            t.dtype() == dtype,
            InvalidArgument,
            "operator {}: input '{}' must be {dtype}, got {}",
            cx.op.name,
            cx.op.inputs[slot.0].name,
            t.dtype()
        );
    }
    Ok(())
}

/// The operands must have one data type, and `dout` the meta of X.
pub(crate) fn check(cx: &KernelContext, x: &Tensor, other: &Tensor, dout: Option<&Tensor>) -> Result<()> {
    let fits = other.dtype() == x.dtype() && dout.is_none_or(|d| d.dims() == x.dims() && d.dtype() == x.dtype());
    ensure!(
        fits,
        InvalidArgument,
        "operator {}: all inputs must have one data type, and the gradient of Out the shape of X, got {x:?}, {other:?} and \
         {dout:?}",
        cx.op.name
    );
    Ok(())
}
