//! Parameters of elementwise operators that may be tensors: clip, pow.

use oar_core::base::Result;
use oar_core::ensure;
use oar_core::op::{InSlot, KernelContext};
use oar_core::tensor::Tensor;

/// The parameter: the only element of the tensor in `slot`, else the attribute.
pub(crate) fn parameter(cx: &KernelContext, slot: InSlot, attr: f32) -> Result<f64> {
    let Some(t) = cx.opt(slot) else { return Ok(attr as f64) };
    ensure!(
        t.numel() == 1,
        InvalidArgument,
        "operator {}: input '{}' must have one element, got shape {:?}",
        cx.op.name,
        cx.op.inputs[slot.0].name,
        t.dims()
    );
    Ok(t.to_f64s()[0])
}

/// X and `Out@GRAD` must agree in shape and data type: the integer kernels zip them.
pub(crate) fn alike(cx: &KernelContext, x: &Tensor, d: &Tensor) -> Result<()> {
    ensure!(
        x.dims() == d.dims() && x.dtype() == d.dtype(),
        InvalidArgument,
        "operator {}: X and Out@GRAD must be alike, got {x:?} and {d:?}",
        cx.op.name
    );
    Ok(())
}
