//! fusion_repeated_fc_relu: a chain of fc with relu.

use super::compose::out;
use super::shapes::{alike, metas};
use oar_core::base::{DTypes, Result};
use oar_core::ir::Attr;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{ensure, slots};

slots! {
    mod repeated { X "X", W "W".duplicable(), BIAS "Bias".duplicable() => RELU_OUT "ReluOut".duplicable().intermediate().kernel_allocated(), OUT "Out".kernel_allocated() }
}

fn infer_repeated(cx: &mut ShapeContext) -> Result<()> {
    let (op, x, dtype) = (cx.op.name, cx.dims(repeated::X)?, cx.dtype(repeated::X)?);
    let (w, b) = (metas(cx, repeated::W)?, metas(cx, repeated::BIAS)?);
    ensure!(
        x.len() == 2 && w.len() > 1 && w.len() == b.len(),
        InvalidArgument,
        "operator {op}: X must have 2 dimensions, and there must be more than one W and as many Biases, got shape {:?}, {} \
         and {}",
        &x[..],
        w.len(),
        b.len()
    );
    cx.set_outs(repeated::RELU_OUT, w.len() - 1)?;
    let mut columns = x[1];
    for (i, (w, b)) in w.iter().zip(&b).enumerate() {
        let count = if b.dims.iter().any(|&d| d < 0) { -1 } else { b.dims.iter().product() };
        ensure!(
            w.dims.len() == 2 && alike(w.dims[0], columns) && alike(count, w.dims[1]),
            InvalidArgument,
            "operator {op}: W[{i}] must have {columns} rows, and Bias[{i}] a number for each of its columns, got shapes \
             {:?} and {:?}",
            &w.dims[..],
            &b.dims[..]
        );
        columns = w.dims[1];
        if i + 1 < cx.count(repeated::W) {
            cx.set_nth(repeated::RELU_OUT, i, &[x[0], columns], dtype);
        }
    }
    cx.set(repeated::OUT, &[x[0], columns], dtype);
    cx.share_lod(repeated::OUT, repeated::X);
    Ok(())
}

fn run_repeated(cx: &mut KernelContext) -> Result<()> {
    let (x, w, b) = (cx.input(repeated::X)?, cx.inputs(repeated::W)?, cx.inputs(repeated::BIAS)?);
    let mut t = x.clone();
    for (i, (w, b)) in w.iter().zip(&b).enumerate() {
        let bias = b.share()?.reshaped(&[b.numel() as i64]);
        t = out(
            "fc",
            &[("Input", &t), ("W", w), ("Bias", &bias)],
            &[("activation_type", Attr::String("relu".into()))],
        )?;
        if i < cx.n_outs(repeated::RELU_OUT) {
            cx.set_nth(repeated::RELU_OUT, i, t.clone());
        }
    }
    cx.set(repeated::OUT, t.with_lod(x.lod.clone()));
    Ok(())
}

pub static REPEATED: Op = Op {
    name: "fusion_repeated_fc_relu",
    inputs: repeated::INS,
    outputs: repeated::OUTS,
    dtypes: DTypes::FLOATS,
    infer: infer_repeated,
    cpu: Kernel::Pure(run_repeated),
    ..OP
};

pub static TABLE: &[&Op] = &[&REPEATED];
