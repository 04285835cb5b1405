//! Broadcasting by Paddle's `axis` attribute, and binary tensor expressions.

use super::cast::cast_real;
pub use super::cast::strides;
use super::complex;
use half::{bf16, f16};
use oar_core::base::shape::to_usize;
use oar_core::base::{DType, Dims, Result};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure};
use oar_kernels::elementwise::{self as ew, Binary};
use oar_kernels::reduce::{self, Reduce};

/// The shape of `x (op) y`. With `axis` -1 shapes are aligned at the right; otherwise the smaller shape starts at
/// dimension `axis` of the larger. Sizes may be -1 (unknown) while a Program is built.
pub fn broadcast_dims(op: &str, x: &[i64], y: &[i64], axis: i32) -> Result<Dims> {
    if x == y {
        return Ok(Dims::from_slice(x));
    }
    let (large, small) = if x.len() >= y.len() { (x, y) } else { (y, x) };
    let gap = large.len() - small.len();
    let at = if axis == -1 { gap as i64 } else { axis as i64 };
    let mut out = Dims::from_slice(large);
    // With an explicit axis trailing ones of the smaller shape are ignored.
    let mut small = small;
    while axis != -1 && at + small.len() as i64 > large.len() as i64 && small.last() == Some(&1) {
        small = &small[..small.len() - 1];
    }
    let fits = at >= 0 && at as usize + small.len() <= large.len();
    ensure!(
        fits,
        InvalidArgument,
        "operator {op}: axis {axis} does not place shape {small:?} within shape {large:?} (X {x:?}, Y {y:?})"
    );
    for (i, &s) in small.iter().enumerate() {
        let l = &mut out[at as usize + i];
        *l = match (*l, s) {
            (a, b) if a == b => a,
            (1, b) => b,
            (a, 1) => a,
            (-1, b) => b,
            (a, -1) => a,
            (a, b) => bail!(
                InvalidArgument,
                "operator {op}: Broadcast dimension mismatch: the shapes of X {x:?} and Y {y:?} differ ({a} and {b}) \
                 with axis {axis}"
            ),
        };
    }
    Ok(out)
}

/// `out = x (op) y`; `out` has the broadcast shape.
#[inline]
pub fn binary_into(name: &str, op: Binary, x: &Tensor, y: &Tensor, axis: i32, out: &mut Tensor) -> Result<()> {
    if x.dtype().is_complex() || y.dtype().is_complex() {
        let dims = Dims::from_slice(out.dims());
        *out = complex::binary(name, op, x, y, axis, &dims)?.with_lod(out.lod.take());
        return Ok(());
    }
    ensure!(
        x.dtype() == y.dtype(),
        InvalidArgument,
        "operator {name}: the data types of X ({}) and Y ({}) must be the same",
        x.dtype(),
        y.dtype()
    );
    let same = x.dims() == y.dims();
    // Strides of the operands in the broadcast shape.
    let placed = if same {
        None
    } else {
        let dims = out.dims();
        Some((to_usize(dims), strides(x.dims(), dims, axis)?, strides(y.dims(), dims, axis)?))
    };
    dispatch!(x.dtype(), T in [f32, f64, i64, i32, f16, bf16, i16, i8, u8], {
        let (a, b) = (x.data::<T>(), y.data::<T>());
        let o = out.data_mut::<T>()?;
        let done = match &placed {
            None => ew::binary(op, &[o.len()], (a, &[1]), (b, &[1]), o),
            Some((shape, sx, sy)) => ew::binary(op, shape, (a, sx), (b, sy), o),
        };
        ensure!(done.is_ok(), InvalidArgument, "operator {name}: division by zero: Y contains zero");
    }, other => bail!(Unimplemented, "operator {name} has no CPU kernel for data type {other}"));
    Ok(())
}

/// `x (op) y` as a new tensor.
pub fn binary(name: &str, op: Binary, x: &Tensor, y: &Tensor, axis: i32) -> Result<Tensor> {
    let dims = broadcast_dims(name, x.dims(), y.dims(), axis)?;
    if x.dtype().is_complex() || y.dtype().is_complex() {
        return complex::binary(name, op, x, y, axis, &dims);
    }
    let mut out = Tensor::empty(x.dtype(), &dims)?;
    binary_into(name, op, x, y, axis, &mut out)?;
    Ok(out)
}

/// Sums a tensor over the axes along which a tensor of shape `to` was broadcast to it.
pub fn reduce_to(t: Tensor, to: &[i64], axis: i32) -> Result<Tensor> {
    if t.dims() == to {
        return t.share();
    }
    let steps = strides(to, t.dims(), axis)?;
    let axes: Vec<bool> = steps.iter().zip(t.dims()).map(|(&s, &d)| s == 0 && d != 1).collect();
    if !axes.contains(&true) {
        return Ok(t.share()?.reshaped(to));
    }
    if t.dtype().is_complex() {
        return complex::sum_over(&t, &axes, to);
    }
    let mut out = Tensor::empty(t.dtype(), to)?;
    let shape = to_usize(t.dims());
    dispatch!(t.dtype(), T in [f32, f64, i32, i64, f16, bf16], {
        reduce::reduce(Reduce::Sum, t.data::<T>(), &shape, &axes, out.data_mut::<T>()?);
    }, other => bail!(Unimplemented, "sums have no CPU kernel for data type {other}"));
    Ok(out)
}

/// The tensor broadcast to `dims`.
pub fn expand_to(t: &Tensor, dims: &[i64], axis: i32) -> Result<Tensor> {
    if t.dims() == dims {
        return Ok(t.clone());
    }
    let zeros = Tensor::zeros(t.dtype(), dims)?;
    let mut out = Tensor::empty(t.dtype(), dims)?;
    binary_into("expand", Binary::Add, &zeros, t, axis, &mut out)?;
    Ok(out)
}

/// The tensor in another data type; shared if it has that one already.
pub fn cast(t: &Tensor, to: DType) -> Result<Tensor> {
    if t.dtype() != to && (t.dtype().is_complex() || to.is_complex()) {
        return Ok(complex::convert(t, to)?.with_lod(t.lod.clone()));
    }
    cast_real(t, to)
}
