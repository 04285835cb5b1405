//! Arithmetic of complex tensors. Sums and products with real numbers run on the real view, which has one more
//! dimension of two.

use super::cast::{cast_real, strides};
use super::elements::strided;
use num_complex::Complex;
use oar_core::base::{DType, Dims, Result};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure};
use oar_kernels::elementwise::complex as kernel;
use oar_kernels::elementwise::{self as ew, map, Binary};
use oar_kernels::reduce::{self, Reduce};

/// `dims` with an appended dimension of two.
fn with_parts(dims: &[i64]) -> Dims {
    let mut dims = Dims::from_slice(dims);
    dims.push(2);
    dims
}

/// The real view of a complex tensor, with one more dimension of two; shares the bytes.
pub fn parts(t: &Tensor) -> Tensor {
    t.retyped(t.dtype().real(), &with_parts(t.dims()))
}

/// The complex tensor of a real view.
fn of_parts(t: &Tensor) -> Tensor {
    let dtype = t.dtype().complex().expect("parts are float32 or float64");
    t.retyped(dtype, &t.dims()[..t.rank() - 1])
}

/// Real and imaginary parts.
pub fn split(t: &Tensor) -> Result<(Tensor, Tensor)> {
    let real = t.dtype().real();
    let (mut re, mut im) = (Tensor::empty(real, t.dims())?, Tensor::empty(real, t.dims())?);
    dispatch!(real, T in [f32, f64], {
        kernel::split(t.data::<Complex<T>>(), re.data_mut::<T>()?, im.data_mut::<T>()?);
    }, other => bail!(Fatal, "no complex numbers have parts of type {other}"));
    Ok((re, im))
}

pub fn join(re: &Tensor, im: &Tensor) -> Result<Tensor> {
    let Some(dtype) = re.dtype().complex() else {
        bail!(Unimplemented, "no complex numbers have parts of type {}", re.dtype())
    };
    let mut out = Tensor::empty(dtype, re.dims())?;
    dispatch!(re.dtype(), T in [f32, f64], {
        kernel::join(re.data::<T>(), im.data::<T>(), out.data_mut::<Complex<T>>()?);
    }, other => bail!(Fatal, "no complex numbers have parts of type {other}"));
    Ok(out)
}

/// The complex conjugate; real tensors are returned unchanged.
pub fn conj(t: &Tensor) -> Result<Tensor> {
    if !t.dtype().is_complex() {
        return Ok(t.clone());
    }
    let mut out = Tensor::empty(t.dtype(), t.dims())?;
    dispatch!(t.dtype().real(), T in [f32, f64], {
        kernel::conj(t.data::<Complex<T>>(), out.data_mut::<Complex<T>>()?);
    }, other => bail!(Fatal, "no complex numbers have parts of type {other}"));
    Ok(out)
}

/// A cast from or to a complex type: real numbers get imaginary part 0, complex ones lose it; as bool: not equal to 0.
pub fn convert(t: &Tensor, to: DType) -> Result<Tensor> {
    if !t.dtype().is_complex() {
        let re = cast_real(t, to.real())?;
        return join(&re, &Tensor::zeros(re.dtype(), re.dims())?);
    }
    if to.is_complex() {
        return Ok(of_parts(&cast_real(&parts(t), to.real())?));
    }
    if to == DType::Bool {
        let parts = cast_real(&parts(t), DType::Bool)?;
        let mut out = Tensor::empty(DType::Bool, t.dims())?;
        let axes: Vec<bool> = (0..parts.rank()).map(|i| i + 1 == parts.rank()).collect();
        let shape = oar_core::base::shape::to_usize(parts.dims());
        reduce::all_any(false, parts.data::<bool>(), &shape, &axes, out.data_mut::<bool>()?);
        return Ok(out);
    }
    cast_real(&split(t)?.0, to)
}

/// The operand cast to `dtype` and expanded to `dims`.
fn operand(t: &Tensor, dtype: DType, dims: &[i64], axis: i32) -> Result<Tensor> {
    let t = if t.dtype() == dtype { t.share()? } else { convert(t, dtype)? };
    if t.dims() == dims {
        return Ok(t);
    }
    strided(&t, dims, &strides(t.dims(), dims, axis)?, 0)
}

/// `x (op) y` where one operand is complex; `dims` is the broadcast shape.
pub fn binary(name: &str, op: Binary, x: &Tensor, y: &Tensor, axis: i32, dims: &[i64]) -> Result<Tensor> {
    let dtype = x.dtype().meet(y.dtype())?;
    let (x, y) = (operand(x, dtype, dims, axis)?, operand(y, dtype, dims, axis)?);
    let mut out = Tensor::empty(dtype, dims)?;
    dispatch!(dtype.real(), T in [f32, f64], {
        match op {
            Binary::Add | Binary::Sub => {
                let (x, y) = (parts(&x), parts(&y));
                let mut sum = Tensor::empty(x.dtype(), x.dims())?;
                let o = sum.data_mut::<T>()?;
                let done = ew::binary(op, &[o.len()], (x.data::<T>(), &[1]), (y.data::<T>(), &[1]), o);
                ensure!(done.is_ok(), Fatal, "operator {name}: sums do not fail");
                out = of_parts(&sum);
            }
            Binary::Mul => kernel::mul(x.data::<Complex<T>>(), y.data(), out.data_mut()?),
            Binary::Div => kernel::div(x.data::<Complex<T>>(), y.data(), out.data_mut()?),
            _ => bail!(Unimplemented, "operator {name} has no CPU kernel for data type {dtype}"),
        }
    }, other => bail!(Fatal, "no complex numbers have parts of type {other}"));
    Ok(out)
}

/// Sums over axes; the result has the shape `to`.
pub fn sum_over(t: &Tensor, axes: &[bool], to: &[i64]) -> Result<Tensor> {
    let parts = parts(t);
    let mut out = Tensor::empty(parts.dtype(), &with_parts(to))?;
    let axes: Vec<bool> = axes.iter().copied().chain([false]).collect();
    let shape = oar_core::base::shape::to_usize(parts.dims());
    dispatch!(parts.dtype(), T in [f32, f64], {
        reduce::reduce(Reduce::Sum, parts.data::<T>(), &shape, &axes, out.data_mut::<T>()?);
    }, other => bail!(Fatal, "no complex numbers have parts of type {other}"));
    Ok(of_parts(&out))
}

/// `scale * x + bias`, or `scale * (x + bias)`.
pub fn scaled(x: &Tensor, scale: f64, bias: f64, bias_first: bool) -> Result<Tensor> {
    let mut out = Tensor::empty(x.dtype(), x.dims())?;
    dispatch!(x.dtype().real(), T in [f32, f64], {
        let bias = (if bias_first { scale * bias } else { bias }) as T;
        let scale = scale as T;
        map(x.data::<Complex<T>>(), out.data_mut::<Complex<T>>()?, |v| v * scale + bias);
    }, other => bail!(Fatal, "no complex numbers have parts of type {other}"));
    Ok(out)
}

pub fn abs(x: &Tensor, out: &mut Tensor) -> Result<()> {
    dispatch!(out.dtype(), T in [f32, f64], {
        kernel::abs(x.data::<Complex<T>>(), out.data_mut::<T>()?);
    }, other => bail!(Fatal, "no modulus has the type {other}"));
    Ok(())
}

fn alike(op: &str, x: &Tensor, y: &Tensor, dtype: DType) -> Result<()> {
    ensure!(
        x.dims() == y.dims() && y.dtype() == dtype,
        InvalidArgument,
        "operator {op}: its inputs must be alike, got {x:?} and {y:?}"
    );
    Ok(())
}

pub fn abs_grad(op: &str, x: &Tensor, dout: &Tensor, out: &mut Tensor) -> Result<()> {
    alike(op, x, dout, x.dtype().real())?;
    dispatch!(dout.dtype(), T in [f32, f64], {
        kernel::abs_grad(x.data::<Complex<T>>(), dout.data::<T>(), out.data_mut()?);
    }, other => bail!(Fatal, "no modulus has the type {other}"));
    Ok(())
}

pub fn abs_grad_grad(op: &str, x: &Tensor, ddx: &Tensor, out: &mut Tensor) -> Result<()> {
    alike(op, x, ddx, x.dtype())?;
    dispatch!(out.dtype(), T in [f32, f64], {
        kernel::abs_grad_grad(x.data::<Complex<T>>(), ddx.data(), out.data_mut::<T>()?);
    }, other => bail!(Fatal, "no modulus has the type {other}"));
    Ok(())
}
