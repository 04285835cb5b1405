//! minus: a difference of tensors of one shape.

use oar_core::base::{DTypes, Result};
use oar_core::ir::Attr;
use oar_core::op::{table, Dst, Fwd, Grad, GradOp, Kernel, KernelContext, Op, ShapeContext, Src, OP};
use oar_core::{ensure, slots};
use oar_kernels::elementwise::Binary;
use oar_ops_common::axis::like;
use oar_ops_common::broadcast::binary_into;

slots! { mod minus { X "X", Y "Y" => OUT "Out" } }

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, y) = (cx.dims(minus::X)?, cx.dims(minus::Y)?);
    let alike = x.len() == y.len() && x.iter().zip(&y).all(|(&a, &b)| a == b || a < 0 || b < 0);
    ensure!(
        alike,
        InvalidArgument,
        "operator {}: X and Y must have the same shape, got {:?} and {:?}",
        cx.op.name,
        &x[..],
        &y[..]
    );
    cx.like(minus::OUT, minus::X)?;
    cx.share_lod(minus::OUT, minus::X);
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, y) = (cx.input(minus::X)?, cx.input(minus::Y)?);
    like(cx, y, x.dims(), x.dtype(), "Y")?;
    let mut out = cx.take_out(minus::OUT)?;
    binary_into(cx.op.name, Binary::Sub, x, y, -1, &mut out)?;
    cx.set(minus::OUT, out);
    Ok(())
}

/// The gradients of X and Y: `Out@GRAD` and its negative.
fn grad(f: &Fwd) -> Result<Vec<GradOp>> {
    let op = table::need("scale")?;
    let mut grads = Vec::new();
    for (slot, scale) in [(minus::X.0, 1.0), (minus::Y.0, -1.0)] {
        if (f.needs)(slot, 0) {
            let attrs = [("scale".into(), Attr::Float(scale))].into_iter().collect();
            grads.push(GradOp {
                op,
                attrs: op.attrs.parse(op.name, &attrs)?,
                ins: (0..op.inputs.len()).map(|i| if i == 0 { vec![Src::GradOut(0, None)] } else { vec![] }).collect(),
                outs: vec![vec![Dst(slot, None)]],
            });
        }
    }
    Ok(grads)
}

pub static MINUS: Op = Op {
    name: "minus",
    inputs: minus::INS,
    outputs: minus::OUTS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::Fn(grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&MINUS];
