//! fill: a tensor whose elements are an attribute.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::shape::checked_numel;
use oar_core::base::{DType, Dims, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::elementwise::cast::CastFrom;
use oar_ops_common::tensor_attr::data_type;

attrs! { pub struct FillAttrs { value: Vec<f32>, shape: Vec<i32>, dtype: i32 = 5, force_cpu: bool = false } }

slots! { mod fill { => OUT "Out" } }

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<FillAttrs>());
    let dims: Dims = a.shape.iter().map(|&d| d as i64).collect();
    let count = checked_numel(&dims)?;
    ensure!(
        a.value.len() >= count,
        InvalidArgument,
        "operator {op}: value must have a number for each of the {count} elements of shape {:?}, got {}",
        a.shape,
        a.value.len()
    );
    cx.set(fill::OUT, &dims, data_type(op, a.dtype)?);
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let values = &cx.attrs::<FillAttrs>().value;
    let t = cx.out(fill::OUT)?;
    dispatch!(t.dtype(), T in [f32, f64, i64, i32, i16, i8, u8, f16, bf16], {
        t.data_mut::<T>()?.iter_mut().zip(values).for_each(|(o, &v)| *o = f64::from(v).cast::<T>());
    }, other => match other {
        DType::Bool => t.data_mut::<bool>()?.iter_mut().zip(values).for_each(|(o, &v)| *o = v != 0.0),
        _ => return cx.unsupported(other),
    });
    Ok(())
}

pub static FILL: Op = Op {
    name: "fill",
    inputs: fill::INS,
    outputs: fill::OUTS,
    attrs: FillAttrs::FIELDS,
    infer,
    cpu: Kernel::Pure(run),
    ..OP
};

pub static TABLE: &[&Op] = &[&FILL];
