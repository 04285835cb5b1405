//! Matrix products of complex numbers: four real products of the parts.

use super::batches::product;
use super::{checked, grad_x, grad_y, Plan, Shape};
use oar_core::base::{DType, Result};
use oar_core::op::parts::broadcast::cast;
use oar_core::op::parts::complex::{conj, join, split};
use oar_core::op::Run;
use oar_core::tensor::Tensor;

/// `c = alpha * a b + beta * c`, all of one complex type.
pub fn complex_product(
    alpha: f64,
    a: (&Tensor, &Shape),
    b: (&Tensor, &Shape),
    c: (&mut Tensor, &Shape),
    add: bool,
) -> Result<()> {
    let ((ar, ai), (br, bi), (mut cr, mut ci)) = (split(a.0)?, split(b.0)?, split(c.0)?);
    product(alpha, (&ar, a.1), (&br, b.1), (&mut cr, c.1), add)?;
    product(-alpha, (&ai, a.1), (&bi, b.1), (&mut cr, c.1), true)?;
    product(alpha, (&ar, a.1), (&bi, b.1), (&mut ci, c.1), add)?;
    product(alpha, (&ai, a.1), (&br, b.1), (&mut ci, c.1), true)?;
    *c.0 = join(&cr, &ci)?.with_lod(c.0.lod.clone());
    Ok(())
}

/// The forward product where an operand is complex; the output has the type in which they meet.
pub fn forward(cx: &mut Run, p: &Plan, dtype: DType) -> Result<()> {
    let (x, y) = (cast(cx.input(0)?, dtype)?, cast(cx.input(1)?, dtype)?);
    product(p.alpha, (&x, &p.x), (&y, &p.y), (cx.out(0)?, &p.out), false)
}

/// Writes a gradient; that of a real operand is the real part.
fn give(cx: &mut Run, slot: usize, like: usize, t: Tensor) -> Result<()> {
    let like = cx.input(like)?;
    cx.set(slot, cast(&t, like.dtype())?.with_lod(like.lod.clone()));
    Ok(())
}

/// dX = dOut Y^H and dY = X^H dOut, in the orientation that the plan says.
pub fn backward(cx: &mut Run, p: &Plan, dtype: DType) -> Result<()> {
    let (x, y, dout) = (cx.input(0)?, cx.input(1)?, cast(cx.input(2)?, dtype)?);
    checked(cx, p, &dout)?;
    if cx.wants(0) {
        let mut dx = Tensor::empty(dtype, x.dims())?;
        grad_x(p, &dout, &cast(&conj(y)?, dtype)?, &mut dx)?;
        give(cx, 0, 0, dx)?;
    }
    if cx.wants(1) {
        let mut dy = Tensor::empty(dtype, y.dims())?;
        grad_y(p, &dout, &cast(&conj(x)?, dtype)?, &mut dy)?;
        give(cx, 1, 1, dy)?;
    }
    Ok(())
}

/// Second gradients: X, Y, DOut, DDX, DDY to DX, DY, DDOut.
pub fn second(cx: &mut Run, p: &Plan, dtype: DType) -> Result<()> {
    let (x, y, dout) = (cx.input(0)?, cx.input(1)?, cast(cx.input(2)?, dtype)?);
    let wide = |slot: usize| cx.opt(slot).map(|t| cast(t, dtype)).transpose();
    let (ddx, ddy) = (wide(3)?, wide(4)?);
    if cx.wants(0) {
        let mut dx = Tensor::zeros(dtype, x.dims())?;
        if let Some(ddy) = &ddy {
            grad_x(p, &dout, &conj(ddy)?, &mut dx)?;
        }
        give(cx, 0, 0, dx)?;
    }
    if cx.wants(1) {
        let mut dy = Tensor::zeros(dtype, y.dims())?;
        if let Some(ddx) = &ddx {
            grad_y(p, &dout, &conj(ddx)?, &mut dy)?;
        }
        give(cx, 1, 1, dy)?;
    }
    if cx.wants(2) {
        let mut ddout = Tensor::zeros(dtype, dout.dims())?;
        if let Some(ddx) = &ddx {
            product(p.alpha, (ddx, &p.x), (&cast(y, dtype)?, &p.y), (&mut ddout, &p.out), false)?;
        }
        if let Some(ddy) = &ddy {
            product(p.alpha, (&cast(x, dtype)?, &p.x), (ddy, &p.y), (&mut ddout, &p.out), ddx.is_some())?;
        }
        give(cx, 2, 2, ddout)?;
    }
    Ok(())
}
