//! The two gradients of a matrix product, which are matrix products.

use super::batches::product;
use super::plan::MatmulPlan;
use oar_core::base::shape::numel;
use oar_core::base::Result;
use oar_core::ensure;
use oar_core::op::KernelContext;
use oar_core::tensor::Tensor;

/// The gradient of X: `dOut op(Y)^T`, or its transpose if X is read transposed.
pub(super) fn grad_x(p: &MatmulPlan, dout: &Tensor, y: &Tensor, dx: &mut Tensor) -> Result<()> {
    if p.x.trans {
        product(p.alpha, (y, &p.y), (dout, &p.out.turned()), (dx, &p.x), false)
    } else {
        product(p.alpha, (dout, &p.out), (y, &p.y.turned()), (dx, &p.x), false)
    }
}

/// The gradient of Y: `op(X)^T dOut`, or its transpose if Y is read transposed.
pub(super) fn grad_y(p: &MatmulPlan, dout: &Tensor, x: &Tensor, dy: &mut Tensor) -> Result<()> {
    if p.y.trans {
        product(p.alpha, (dout, &p.out.turned()), (x, &p.x), (dy, &p.y), false)
    } else {
        product(p.alpha, (x, &p.x.turned()), (dout, &p.out), (dy, &p.y), false)
    }
}

/// `dOut` must have the shape of the product of X and Y.
pub(super) fn checked(cx: &KernelContext, p: &MatmulPlan, dout: &Tensor) -> Result<()> {
    ensure!(
        dout.numel() == numel(&p.dims),
        InvalidArgument,
        "operator {}: the gradient of Out must have shape {:?}, got {:?}",
        cx.op.name,
        &p.dims[..],
        dout.dims()
    );
    Ok(())
}
