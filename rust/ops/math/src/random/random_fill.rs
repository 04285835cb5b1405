//! Slots, shape rule and fill loop of the operators that draw a tensor. Numbers are those of Paddle on CPU, bit for bit.

use half::{bf16, f16};
use oar_core::base::{DType, Result};
use oar_core::op::{KernelContext, OutSlot, ShapeContext};
use oar_core::tensor::generator::with_engine;
use oar_core::tensor::Tensor;
use oar_core::{ensure, slots};
use oar_kernels::random::Mt64;
use oar_kernels::types::Half;
use oar_ops_common::tensor_attr::{data_type, shape, AttrSource};

slots! {
    /// The shape is an attribute or a tensor attribute.
    pub(crate) mod drawn { SHAPE "ShapeTensor".dispensable(), SHAPE_LIST "ShapeTensorList".duplicable().dispensable() => OUT "Out" }
    /// One dimension has the size of another tensor's.
    pub(crate) mod drawn_like { INPUT "Input".meta_only() => OUT "Out" }
    pub(crate) mod drawn_plain { => OUT "Out" }
}

/// The only output of these operators.
pub(crate) const OUT: OutSlot = drawn::OUT;

pub(crate) const SOURCES: [AttrSource; 2] = [AttrSource::One(drawn::SHAPE), AttrSource::List(drawn::SHAPE_LIST)];

/// Fills a slice from a distribution with two parameters.
pub(crate) type Draw<T> = fn(&mut Mt64, T, T, &mut [T]);

/// Fills the output from a distribution with parameters `a` and `b`: f32 and f64 in their own precision, half precision
/// through f32.
pub(crate) fn floats(
    cx: &mut KernelContext,
    seed: i32,
    (a, b): (f32, f32),
    (f32s, f64s): (Draw<f32>, Draw<f64>),
) -> Result<()> {
    let seed = seed as u32 as u64; // Paddle reads the attribute as unsigned int
    let t = cx.out(OUT)?;
    match t.dtype() {
        DType::F32 => {
            let out = t.data_mut()?;
            with_engine(seed, |e| f32s(e, a, b, out));
        }
        DType::F64 => {
            let out = t.data_mut()?;
            with_engine(seed, |e| f64s(e, a as f64, b as f64, out));
        }
        half @ (DType::F16 | DType::BF16) => {
            let mut wide = Tensor::empty(DType::F32, t.dims())?;
            let out = wide.data_mut()?;
            with_engine(seed, |e| f32s(e, a, b, out));
            match half {
                DType::F16 => <f16 as Half>::narrow(wide.data(), t.data_mut()?),
                _ => <bf16 as Half>::narrow(wide.data(), t.data_mut()?),
            }
        }
        other => return cx.unsupported(other),
    }
    Ok(())
}

pub(crate) fn infer_drawn(cx: &mut ShapeContext, attr: &[i64], dtype: i32) -> Result<()> {
    ensure!(
        !attr.is_empty() || cx.has(drawn::SHAPE) || cx.has(drawn::SHAPE_LIST),
        InvalidArgument,
        "operator {}: a shape is required, as attribute 'shape' or as ShapeTensor",
        cx.op.name
    );
    let dtype = data_type(cx.op.name, dtype)?;
    let dims = shape(cx, &SOURCES, attr)?;
    cx.set(drawn::OUT, &dims, dtype);
    Ok(())
}
