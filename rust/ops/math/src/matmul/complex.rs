//! Complex matrix products: four real products each.

use super::batches::product;
use super::gradients::{checked, grad_x, grad_y};
use super::plan::{backward, forward, second, MatmulPlan};
use oar_core::base::{DType, Result};
use oar_core::op::{InSlot, KernelContext, OutSlot};
use oar_core::tensor::Tensor;
use oar_ops_common::broadcast::cast;
use oar_ops_common::complex::conj;

/// The forward product when an operand is complex. The output has the promoted data type.
pub fn run(cx: &mut KernelContext, p: &MatmulPlan, dtype: DType) -> Result<()> {
    let (x, y) = (cast(cx.input(forward::X)?, dtype)?, cast(cx.input(forward::Y)?, dtype)?);
    product(p.alpha, (&x, &p.x), (&y, &p.y), (cx.out(forward::OUT)?, &p.out), false)
}

/// Writes a gradient with the data type and LoD of its variable; a real variable gets the real part.
fn set_grad(cx: &mut KernelContext, slot: OutSlot, like: InSlot, t: Tensor) -> Result<()> {
    let like = cx.input(like)?;
    cx.set(slot, cast(&t, like.dtype())?.with_lod(like.lod.clone()));
    Ok(())
}

/// dX = dOut Y^H and dY = X^H dOut, transposed as the plan requires.
pub fn run_backward(cx: &mut KernelContext, p: &MatmulPlan, dtype: DType) -> Result<()> {
    use backward::{DOUT, DX, DY, X, Y};
    let (x, y, dout) = (cx.input(X)?, cx.input(Y)?, cast(cx.input(DOUT)?, dtype)?);
    checked(cx, p, &dout)?;
    if cx.wants(DX) {
        let mut dx = Tensor::empty(dtype, x.dims())?;
        grad_x(p, &dout, &cast(&conj(y)?, dtype)?, &mut dx)?;
        set_grad(cx, DX, X, dx)?;
    }
    if cx.wants(DY) {
        let mut dy = Tensor::empty(dtype, y.dims())?;
        grad_y(p, &dout, &cast(&conj(x)?, dtype)?, &mut dy)?;
        set_grad(cx, DY, Y, dy)?;
    }
    Ok(())
}

/// Second gradients: reads X, Y, DOut, DDX, DDY; writes DX, DY, DDOut.
pub fn run_second(cx: &mut KernelContext, p: &MatmulPlan, dtype: DType) -> Result<()> {
    use second::{DDOUT, DDX, DDY, DOUT, DX, DY, X, Y};
    let (x, y, dout) = (cx.input(X)?, cx.input(Y)?, cast(cx.input(DOUT)?, dtype)?);
    let wide = |slot: InSlot| cx.opt(slot).map(|t| cast(t, dtype)).transpose();
    let (ddx, ddy) = (wide(DDX)?, wide(DDY)?);
    if cx.wants(DX) {
        let mut dx = Tensor::zeros(dtype, x.dims())?;
        if let Some(ddy) = &ddy {
            grad_x(p, &dout, &conj(ddy)?, &mut dx)?;
        }
        set_grad(cx, DX, X, dx)?;
    }
    if cx.wants(DY) {
        let mut dy = Tensor::zeros(dtype, y.dims())?;
        if let Some(ddx) = &ddx {
            grad_y(p, &dout, &conj(ddx)?, &mut dy)?;
        }
        set_grad(cx, DY, Y, dy)?;
    }
    if cx.wants(DDOUT) {
        let mut ddout = Tensor::zeros(dtype, dout.dims())?;
        if let Some(ddx) = &ddx {
            product(p.alpha, (ddx, &p.x), (&cast(y, dtype)?, &p.y), (&mut ddout, &p.out), false)?;
        }
        if let Some(ddy) = &ddy {
            product(p.alpha, (&cast(x, dtype)?, &p.x), (ddy, &p.y), (&mut ddout, &p.out), ddx.is_some())?;
        }
        set_grad(cx, DDOUT, DOUT, ddout)?;
    }
    Ok(())
}
