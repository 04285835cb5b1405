//! Batched GEMM over tensors, and the checks that bmm, mv, dot and addmm share.

use half::{bf16, f16};
use oar_core::base::dtype::Element;
use oar_core::base::Result;
use oar_core::op::{InSlot, ShapeContext};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::gemm::{self, strided_batch, Epilogue, Gemm, View};

slots! {
    pub(crate) mod product { X "X", Y "Y" => OUT "Out" }
    pub(crate) mod product_grad { X "X", Y "Y", DOUT "Out@GRAD" => DX "X@GRAD", DY "Y@GRAD" }
}

/// Matrices `[.., rows, cols]` as stored, and whether they are read transposed.
pub(crate) type Operand<'a> = (&'a Tensor, bool);

/// Sizes of the product: batch, rows and columns of C, inner size.
pub(crate) type Sizes = (usize, usize, usize, usize);

/// c = alpha * op(a) op(b) + beta * c for each matrix of a batch.
pub(crate) fn multiply(sizes: Sizes, scale: [f64; 2], a: Operand, b: Operand, c: &mut Tensor) -> Result<()> {
    fn typed<T: Gemm + Element + oar_kernels::types::Number>(
        (batch, m, n, k): Sizes,
        [alpha, beta]: [f64; 2],
        (a, ta): (&[T], bool),
        (b, tb): (&[T], bool),
        c: &mut [T],
    ) {
        let (a, b) = (View::rows(a, if ta { m } else { k }, ta), View::rows(b, if tb { k } else { n }, tb));
        let (alpha, beta) = (T::from_f64(alpha), T::from_f64(beta));
        let at = strided_batch(batch, m * k, k * n, m * n);
        gemm::batched((m, n, k), alpha, a, b, beta, c, n, Epilogue::NONE, &at);
    }
    dispatch!(c.dtype(), T in [f32, f64, f16, bf16], {
        typed::<T>(sizes, scale, (a.0.data(), a.1), (b.0.data(), b.1), c.data_mut()?);
        Ok(())
    }, other => bail!(Unimplemented, "matrix products have no CPU kernel for data type {other}"))
}

/// Fails if the inputs differ in data type.
pub(crate) fn one_type(cx: &ShapeContext, slots: &[InSlot]) -> Result<()> {
    let first = cx.dtype(slots[0])?;
    for &slot in &slots[1..] {
        let other = cx.dtype(slot)?;
        let names = [slots[0], slot].map(|s| cx.op.inputs[s.0].name);
        ensure!(
            first == other,
            InvalidArgument,
            "operator {}: {} and {} must have one data type, got {first} and {other}",
            cx.op.name,
            names[0],
            names[1]
        );
    }
    Ok(())
}

pub(crate) fn agree(a: i64, b: i64) -> bool {
    a == b || a < 0 || b < 0
}

pub(crate) fn to_sizes(sizes: [i64; 4]) -> Sizes {
    let [b, m, n, k] = sizes.map(|d| d as usize);
    (b, m, n, k)
}
