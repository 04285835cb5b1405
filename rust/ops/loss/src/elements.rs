//! Shared by elementwise losses: shape checks, loops over slices.

use oar_core::base::{DType, Result};
use oar_core::ensure;
use oar_core::op::{InSlot, KernelContext, OutSlot, ShapeContext};
use oar_core::tensor::Tensor;
/// `out[i] = f(x[i], y[i])`, `out[i] = f(x[i], y[i], z[i])`.
pub(crate) use oar_kernels::elementwise::{zip as each2, zip3 as each3};

pub(crate) fn agree(a: i64, b: i64) -> bool {
    a == b || a < 0 || b < 0
}

/// Fails unless the inputs have the first one's shape, where sizes are known.
pub(crate) fn same_shapes(cx: &ShapeContext, slots: &[InSlot]) -> Result<()> {
    let first = cx.dims(slots[0])?;
    for &slot in &slots[1..] {
        let dims = cx.dims(slot)?;
        ensure!(
            dims.len() == first.len() && dims.iter().zip(&first).all(|(&a, &b)| agree(a, b)),
            InvalidArgument,
            "operator {}: {} and {} must have the same shape, got {:?} and {:?}",
            cx.op.name,
            cx.op.inputs[slots[0].0].name,
            cx.op.inputs[slot.0].name,
            &first[..],
            &dims[..]
        );
    }
    Ok(())
}

/// Fails unless the input has the shape [N, 1].
pub(crate) fn one_column(cx: &ShapeContext, slot: InSlot) -> Result<()> {
    let dims = cx.dims(slot)?;
    ensure!(
        dims.len() == 2 && agree(dims[1], 1),
        InvalidArgument,
        "operator {}: {} must have the shape [N, 1], got {:?}",
        cx.op.name,
        cx.op.inputs[slot.0].name,
        &dims[..]
    );
    Ok(())
}

/// The number of rows and the elements per row; -1 if unknown.
pub(crate) fn rows_and_width(dims: &[i64]) -> (i64, i64) {
    let rest = &dims[1..];
    let width = if rest.iter().any(|&d| d < 0) { -1 } else { rest.iter().product() };
    (dims[0], width)
}

/// A required input, which must have the shape and data type of `other`.
pub(crate) fn like<'a>(cx: &KernelContext<'a>, slot: InSlot, other: &Tensor) -> Result<&'a Tensor> {
    let t = cx.input(slot)?;
    oar_ops_common::axis::like(cx, t, other.dims(), other.dtype(), cx.op.inputs[slot.0].name)?;
    Ok(t)
}

/// A required input, which must have `n` elements of `dtype`.
pub(crate) fn of_size<'a>(cx: &KernelContext<'a>, slot: InSlot, n: usize, dtype: DType) -> Result<&'a Tensor> {
    let t = cx.input(slot)?;
    ensure!(
        t.numel() == n && t.dtype() == dtype,
        InvalidArgument,
        "operator {}: {} must have {n} elements of data type {dtype}, got {t:?}",
        cx.op.name,
        cx.op.inputs[slot.0].name
    );
    Ok(t)
}

/// Fails unless the requested outputs have `n` elements of `dtype`.
pub(crate) fn check_outs(cx: &mut KernelContext, slots: &[OutSlot], n: usize, dtype: DType) -> Result<()> {
    let op = cx.op;
    for &slot in slots {
        if cx.wants(slot) {
            let t = cx.out(slot)?;
            ensure!(
                t.numel() == n && t.dtype() == dtype,
                InvalidArgument,
                "operator {}: {} must have {n} elements of data type {dtype}, got {t:?}",
                op.name,
                op.outputs[slot.0].name
            );
        }
    }
    Ok(())
}

/// The gradients of X and Y have the shape of the saved difference.
pub(crate) fn both_like(cx: &mut ShapeContext, saved: InSlot, outs: [OutSlot; 2]) -> Result<()> {
    for out in outs {
        cx.like(out, saved)?;
    }
    Ok(())
}
