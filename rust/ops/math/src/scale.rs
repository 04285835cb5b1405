//! scale: `scale * x + bias`, or `scale * (x + bias)`.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::kind_of_first;
use oar_core::op::pointwise::{self, PointwiseCall};
use oar_core::op::{Fwd, Grad, GradOp, Kernel, KernelContext, Op, SparseKernel, Src, OP};
use oar_core::tensor::{SelectedRows, Tensor};
use oar_core::{bail, dispatch, err, slots};
use oar_kernels::elementwise::cast::CastFrom;
use oar_kernels::elementwise::map;
use oar_kernels::formula::rows;
use oar_ops_common::formula::scaled_grad;

attrs! {
    pub struct ScaleAttrs { scale: f32 = 1.0, bias: f32 = 0.0, bias_after_scale: bool = true }
}

slots! {
    mod scale { X "X", SCALE "ScaleTensor".dispensable() => OUT "Out" }
}

fn scaled(cx: &KernelContext, x: &Tensor, out: &mut Tensor) -> Result<()> {
    let a = cx.attrs::<ScaleAttrs>();
    let scale = match cx.opt(scale::SCALE) {
        Some(t) => *t.to_f64s().first().ok_or_else(|| err!(InvalidArgument, "operator scale: ScaleTensor is empty"))?,
        None => a.scale as f64,
    };
    let bias = a.bias as f64;
    if x.dtype().is_complex() {
        *out = oar_ops_common::complex::scaled(x, scale, bias, !a.bias_after_scale)?.with_lod(out.lod.take());
        return Ok(());
    }
    let row = if a.bias_after_scale { &rows::scale } else { &rows::scale_bias_first };
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16], {
        row.run(&[x.data::<T>()], &[scale, bias], out.data_mut::<T>()?);
    }, other => dispatch!(other, T in [i32, i64, i16, i8, u8], {
        // Attributes are converted to the element type first, as in Paddle.
        let (s, b) = (scale.cast::<T>(), bias.cast::<T>());
        let after = a.bias_after_scale;
        map(x.data::<T>(), out.data_mut::<T>()?, |v| {
            if after { s.wrapping_mul(v).wrapping_add(b) } else { s.wrapping_mul(v.wrapping_add(b)) }
        });
    }, other => bail!(Unimplemented, "operator scale has no CPU kernel for data type {other}")));
    Ok(())
}

fn run_scale(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(scale::X)?;
    let mut out = cx.take_out(scale::OUT)?;
    scaled(cx, x, &mut out)?;
    cx.set(scale::OUT, out);
    Ok(())
}

/// SelectedRows kernel: scales the values.
fn scale_rows(cx: &mut KernelContext) -> Result<()> {
    let Some(r) = cx.rows(scale::X) else { return run_scale(cx) };
    let mut value = Tensor::empty(r.value.dtype(), r.value.dims())?;
    scaled(cx, &r.value, &mut value)?;
    cx.set(scale::OUT, SelectedRows { value, ..r.clone() });
    Ok(())
}

fn scale_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    let mut g = scaled_grad(f.attrs::<ScaleAttrs>().scale)?;
    if f.ins.get(scale::SCALE.0).is_some_and(|&n| n > 0) {
        g.ins.push(vec![Src::In(scale::SCALE.0, None)]);
    }
    Ok(vec![g])
}

fn scale_pointwise(p: &mut PointwiseCall) -> Option<()> {
    let a = p.attrs::<ScaleAttrs>();
    let row = if a.bias_after_scale { &rows::scale } else { &rows::scale_bias_first };
    if p.has(scale::SCALE) {
        None
    } else {
        pointwise::by_row(p, row, &[a.scale as f64, a.bias as f64])
    }
}

pub static SCALE: Op = Op {
    name: "scale",
    inputs: scale::INS,
    outputs: scale::OUTS,
    attrs: ScaleAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INTEGERS).union(DTypes::COMPLEX),
    infer: kind_of_first,
    cpu: Kernel::Pure(run_scale),
    sparse_kernel: SparseKernel::Own(scale_rows),
    grad: Grad::Fn(scale_grad),
    pointwise: Some(scale_pointwise),
    ..OP
};

pub static TABLE: &[&Op] = &[&SCALE];
