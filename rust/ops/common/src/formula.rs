//! Kernels and gradients of operators that are one elementwise formula.

use half::{bf16, f16};
use oar_core::base::Result;
use oar_core::ir::Attr;
use oar_core::op::attrs::unshared;
use oar_core::op::{table, GradOp, KernelContext, OutSlot};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, err};
use oar_kernels::formula::Row;

/// `out = row(inputs)` for floating-point data types.
pub fn by_row(cx: &mut KernelContext, row: &Row, inputs: &[&Tensor], params: &[f64], slot: OutSlot) -> Result<()> {
    let first = inputs[0];
    for t in inputs {
        if t.dims() != first.dims() || t.dtype() != first.dtype() {
            bail!(InvalidArgument, "operator {}: its inputs must be alike, got {:?} and {:?}", cx.op.name, first, t);
        }
    }
    let name = cx.op.name;
    let out = cx.out(slot)?;
    ensure!(
        out.dims() == first.dims() && out.dtype() == first.dtype(),
        InvalidArgument,
        "operator {name}: its inputs must be alike, got {first:?} for an output like {out:?}"
    );
    dispatch!(first.dtype(), T in [f32, f64, f16, bf16], {
        let views: smallvec::SmallVec<[&[T]; 4]> = inputs.iter().map(|t| t.data::<T>()).collect();
        row.run(&views, params, out.data_mut::<T>()?);
    }, other => bail!(Unimplemented, "operator {name} has no CPU kernel for data type {other}"));
    Ok(())
}

/// A `scale` operator: the gradient of X is `by * Out@GRAD`.
pub fn scaled_grad(by: f32) -> Result<GradOp> {
    let scale = table::need("scale")?;
    let mut attrs = (scale.attrs.new)();
    let set = unshared(&mut attrs);
    set.set(0, Attr::Float(by)).map_err(|_| err!(Fatal, "scale is a float"))?;
    set.set(2, Attr::Boolean(true)).map_err(|_| err!(Fatal, "bias_after_scale is a bool"))?;
    Ok(GradOp::of_first(scale, attrs))
}
