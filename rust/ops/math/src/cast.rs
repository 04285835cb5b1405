//! cast: a tensor in another data type.

use oar_core::attrs;
use oar_core::base::{DType, Result};
use oar_core::op::{Fwd, Grad, GradOp, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{err, slots};
use oar_ops_common::broadcast::{self};

slots! {
    mod cast { X "X" => OUT "Out".kernel_allocated() }
}

attrs! {
    pub struct CastAttrs { out_dtype: i32, in_dtype: i32 }
}

fn target(attrs: &CastAttrs) -> Result<DType> {
    let to = attrs.out_dtype;
    DType::from_proto(to)
        .ok_or_else(|| err!(InvalidArgument, "operator cast: out_dtype {to} is not a data type of tensors"))
}

fn infer_cast(cx: &mut ShapeContext) -> Result<()> {
    let dtype = target(cx.attrs())?;
    match cx.tensor(cast::X) {
        Some(x) => cx.set(cast::OUT, x.dims(), dtype),
        None => cx.set(cast::OUT, &cx.dims(cast::X)?, dtype),
    }
    cx.share_lod(cast::OUT, cast::X);
    Ok(())
}

/// Returns X itself, sharing its bytes, if it already has the data type.
fn run_cast(cx: &mut KernelContext) -> Result<()> {
    let out = broadcast::cast(cx.input(cast::X)?, target(cx.attrs())?)?;
    cx.set(cast::OUT, out);
    Ok(())
}

/// The gradient is a cast to the input's data type.
fn cast_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    let a = f.attrs::<CastAttrs>();
    let mut attrs = (CAST.attrs.new)();
    let set = oar_core::op::attrs::unshared(&mut attrs);
    for (i, v) in [a.in_dtype, a.out_dtype].into_iter().enumerate() {
        set.set(i, oar_core::ir::Attr::Int(v)).map_err(|_| err!(Fatal, "data types are ints"))?;
    }
    Ok(vec![GradOp::of_first(&CAST, attrs)])
}

pub static CAST: Op = Op {
    name: "cast",
    inputs: cast::INS,
    outputs: cast::OUTS,
    attrs: CastAttrs::FIELDS,
    infer: infer_cast,
    cpu: Kernel::Pure(run_cast),
    cannot_fail: true,
    grad: Grad::Fn(cast_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&CAST];
