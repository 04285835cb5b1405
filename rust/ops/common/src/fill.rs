//! Tensors filled with one value.

use half::{bf16, f16};
use num_complex::Complex;
use oar_core::base::dtype::Element;
use oar_core::base::{DType, Dims, Result};
use oar_core::op::{InSlot, ShapeContext};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, err};
use oar_kernels::elementwise::cast::CastFrom;
use oar_kernels::types::Plain;

/// A fill value; `int` is set if the text was an integer, which a double may not hold.
#[derive(Clone, Copy)]
pub struct Scalar {
    pub float: f64,
    pub int: Option<i64>,
}

impl From<f64> for Scalar {
    fn from(float: f64) -> Scalar {
        Scalar { float, int: None }
    }
}

impl Scalar {
    /// Parses `str_value` if it is not empty, else uses `value`.
    pub fn from_attrs(op: &str, value: f32, text: &str) -> Result<Scalar> {
        if text.is_empty() {
            return Ok(Scalar::from(value as f64));
        }
        let text = text.trim();
        let int = text.parse::<i64>().ok();
        let float = text
            .parse::<f64>()
            .map_err(|_| err!(InvalidArgument, "operator {op}: str_value '{text}' is not a number"))?;
        Ok(Scalar { float, int })
    }
}

/// A tensor filled with one value.
pub fn full(dtype: DType, dims: &[i64], value: Scalar) -> Result<Tensor> {
    let mut t = Tensor::empty(dtype, dims)?;
    set_all(&mut t, value)?;
    Ok(t)
}

/// Fills a tensor with one value.
pub fn set_all(t: &mut Tensor, value: Scalar) -> Result<()> {
    fn fill<T: Element + Plain>(t: &mut Tensor, v: T) -> Result<()> {
        oar_kernels::shape::copy::fill(v, t.data_mut::<T>()?);
        Ok(())
    }
    dispatch!(t.dtype(), T in [f32, f64, i32, i16, i8, u8, f16, bf16], {
        fill::<T>(t, value.float.cast::<T>())
    }, other => match other {
        DType::Bool => fill(t, value.float != 0.0),
        DType::C64 => fill(t, Complex::from(value.float as f32)),
        DType::C128 => fill(t, Complex::from(value.float)),
        _ => fill(t, value.int.unwrap_or(value.float.cast())),
    })
}

/// Shape of a `*_batch_size_like` operator: dimension `to` has the size of dimension `from` of the input; if `from` is
/// 0 and the input has LoD, the number of its sequences.
pub fn batch_size_like(cx: &ShapeContext, shape: &[i32], from: i32, to: i32) -> Result<Dims> {
    let input = InSlot(0);
    let x = cx.dims(input)?;
    let op = cx.op.name;
    ensure!(!shape.is_empty(), InvalidArgument, "operator {op}: attribute 'shape' must not be empty");
    ensure!(
        0 <= from && (from as usize) < x.len(),
        InvalidArgument,
        "operator {op}: input_dim_idx must be in [0, {}), got {from}",
        x.len()
    );
    ensure!(
        0 <= to && (to as usize) < shape.len(),
        InvalidArgument,
        "operator {op}: output_dim_idx must be in [0, {}), got {to}",
        shape.len()
    );
    let mut dims: Dims = shape.iter().map(|&d| d as i64).collect();
    dims[to as usize] = x[from as usize];
    if let Some(last) = cx.tensor(input).filter(|_| from == 0).and_then(|t| t.lod.as_ref()).and_then(|lod| lod.last()) {
        dims[to as usize] = last.len() as i64 - 1;
    }
    Ok(dims)
}
