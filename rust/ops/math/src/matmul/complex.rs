//! Matrix products of complex numbers: four real products of the parts.

use super::batches::product;
use super::gradients::{checked, grad_x, grad_y};
use super::plan::{backward, forward, second, Plan};
use oar_core::base::{DType, Result};
use oar_core::op::{InSlot, KernelContext, OutSlot};
use oar_core::tensor::Tensor;
use oar_ops_common::broadcast::cast;
use oar_ops_common::complex::conj;

/// The forward product where an operand is complex; the output has the type in which they meet.
pub fn run(cx: &mut KernelContext, p: &Plan, dtype: DType) -> Result<()> {
    let (x, y) = (cast(cx.input(forward::X)?, dtype)?, cast(cx.input(forward::Y)?, dtype)?);
    product(p.alpha, (&x, &p.x), (&y, &p.y), (cx.out(forward::OUT)?, &p.out), false)
}

/// Writes a gradient with the data type and LoD of its variable; that of a real one is the real part.
fn give(cx: &mut KernelContext, slot: OutSlot, like: InSlot, t: Tensor) -> Result<()> {
    let like = cx.input(like)?;
    cx.set(slot, cast(&t, like.dtype())?.with_lod(like.lod.clone()));
    Ok(())
}

/// dX = dOut Y^H and dY = X^H dOut, in the orientation that the plan says.
pub fn run_backward(cx: &mut KernelContext, p: &Plan, dtype: DType) -> Result<()> {
    use backward::{DOUT, DX, DY, X, Y};
    let (x, y, dout) = (cx.input(X)?, cx.input(Y)?, cast(cx.input(DOUT)?, dtype)?);
    checked(cx, p, &dout)?;
    if cx.wants(DX) {
        let mut dx = Tensor::empty(dtype, x.dims())?;
        grad_x(p, &dout, &cast(&conj(y)?, dtype)?, &mut dx)?;
        give(cx, DX, X, dx)?;
    }
    if cx.wants(DY) {
        let mut dy = Tensor::empty(dtype, y.dims())?;
        grad_y(p, &dout, &cast(&conj(x)?, dtype)?, &mut dy)?;
        give(cx, DY, Y, dy)?;
    }
    Ok(())
}

/// Second gradients: X, Y, DOut, DDX, DDY to DX, DY, DDOut.
pub fn run_second(cx: &mut KernelContext, p: &Plan, dtype: DType) -> Result<()> {
    use second::{DDOUT, DDX, DDY, DOUT, DX, DY, X, Y};
    let (x, y, dout) = (cx.input(X)?, cx.input(Y)?, cast(cx.input(DOUT)?, dtype)?);
    let wide = |slot: InSlot| cx.opt(slot).map(|t| cast(t, dtype)).transpose();
    let (ddx, ddy) = (wide(DDX)?, wide(DDY)?);
    if cx.wants(DX) {
        let mut dx = Tensor::zeros(dtype, x.dims())?;
        if let Some(ddy) = &ddy {
            grad_x(p, &dout, &conj(ddy)?, &mut dx)?;
        }
        give(cx, DX, X, dx)?;
    }
    if cx.wants(DY) {
        let mut dy = Tensor::zeros(dtype, y.dims())?;
        if let Some(ddx) = &ddx {
            grad_y(p, &dout, &conj(ddx)?, &mut dy)?;
        }
        give(cx, DY, Y, dy)?;
    }
    if cx.wants(DDOUT) {
        let mut ddout = Tensor::zeros(dtype, dout.dims())?;
        if let Some(ddx) = &ddx {
            product(p.alpha, (ddx, &p.x), (&cast(y, dtype)?, &p.y), (&mut ddout, &p.out), false)?;
        }
        if let Some(ddy) = &ddy {
            product(p.alpha, (&cast(x, dtype)?, &p.x), (ddy, &p.y), (&mut ddout, &p.out), ddx.is_some())?;
        }
        give(cx, DDOUT, DOUT, ddout)?;
    }
    Ok(())
}
