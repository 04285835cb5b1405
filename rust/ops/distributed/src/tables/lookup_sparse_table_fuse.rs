//! Optimizers on the rows of a table that a gradient touches.

use oar_core::base::{DType, Result};
use oar_core::op::{Kernel, KernelContext, Op, SparseKernel, OP};
use oar_core::tensor::{SelectedRows, Tensor};
use oar_core::{attrs, bail, ensure, slots};
use oar_ops_common::selected_rows::merged;
use oar_ps::tables::{table, Table};

attrs! {
    pub struct SgdAttrs { is_entry: bool, tablename: String, value_names: Vec<String> }
    pub struct AdamAttrs {
        beta1: f32 = 0.9, beta2: f32 = 0.999, epsilon: f32 = 1e-8, is_entry: bool, tablename: String,
        value_names: Vec<String>,
    }
}

slots! {
    mod sgd { GRAD "Grad", RATE "LearningRate" => }
    mod adam {
        GRAD "Grad", POW1 "Beta1Pow", POW2 "Beta2Pow", RATE "LearningRate"
        => POW1_OUT "Beta1PowOut".kernel_allocated(), POW2_OUT "Beta2PowOut".kernel_allocated()
    }
}

fn number(cx: &KernelContext, what: &str, t: &Tensor) -> Result<f32> {
    let fits = t.dtype() == DType::F32 && t.numel() == 1;
    ensure!(
        fits,
        InvalidArgument,
        "operator {}: '{what}' must be one float32, got {} {:?}",
        cx.op.name,
        t.dtype(),
        t.dims()
    );
    Ok(t.data::<f32>()[0])
}

/// The gradient with duplicate rows merged, and the width of a row.
fn gradient(cx: &KernelContext, slot: oar_core::op::InSlot) -> Result<(SelectedRows, usize)> {
    let op = cx.op.name;
    let Some(grad) = cx.rows(slot) else { bail!(InvalidArgument, "operator {op}: 'Grad' must be SelectedRows") };
    let grad = merged(op, grad)?;
    let dtype = grad.value.dtype();
    ensure!(dtype == DType::F32, Unimplemented, "operator {op} has no CPU kernel for data type {dtype}");
    let width = grad.value.numel() / grad.rows.len().max(1);
    Ok((grad, width))
}

/// Offsets of the named columns, which must be as wide as the gradient.
fn places<const N: usize>(cx: &KernelContext, t: &Table, names: &[String], width: usize) -> Result<[usize; N]> {
    let op = cx.op.name;
    ensure!(names.len() == N, InvalidArgument, "operator {op}: expected {N} value_names, got {names:?}");
    let mut found = [0; N];
    for (place, name) in found.iter_mut().zip(names) {
        let (at, dim) = t.value(name)?;
        ensure!(
            dim == width,
            InvalidArgument,
            "operator {op}: rows of '{name}' have {dim} elements, those of 'Grad' {width}"
        );
        *place = at;
    }
    Ok(found)
}

fn run_sgd(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<SgdAttrs>();
    let (grad, width) = gradient(cx, sgd::GRAD)?;
    if grad.rows.is_empty() {
        return Ok(());
    }
    let rate = number(cx, "LearningRate", cx.input(sgd::RATE)?)?;
    let t = table(cx.op.name, &a.tablename)?;
    let [param] = places(cx, &t, &a.value_names, width)?;
    for (&id, g) in grad.rows.iter().zip(grad.value.data::<f32>().chunks_exact(width.max(1))) {
        if a.is_entry && !t.admits(id)? {
            continue;
        }
        t.train(id, |row| row[param..param + width].iter_mut().zip(g).for_each(|(p, g)| *p -= rate * g))?;
    }
    Ok(())
}

pub static FUSE_SGD: Op = Op {
    name: "lookup_sparse_table_fuse_sgd",
    inputs: sgd::INS,
    outputs: sgd::OUTS,
    attrs: SgdAttrs::FIELDS,
    sparse_kernel: SparseKernel::Own(run_sgd),
    cpu: Kernel::Host(run_sgd),
    ..OP
};

fn run_adam(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<AdamAttrs>();
    let (grad, width) = gradient(cx, adam::GRAD)?;
    if grad.rows.is_empty() {
        return Ok(());
    }
    let rate = number(cx, "LearningRate", cx.input(adam::RATE)?)?;
    let (pow1, pow2) = (cx.input(adam::POW1)?, cx.input(adam::POW2)?);
    let (p1, p2) = (number(cx, "Beta1Pow", pow1)?, number(cx, "Beta2Pow", pow2)?);
    let t = table(cx.op.name, &a.tablename)?;
    let [param, first, second] = places(cx, &t, &a.value_names, width)?;
    let rate = rate * (1.0 - p2).sqrt() / (1.0 - p1);
    for (&id, g) in grad.rows.iter().zip(grad.value.data::<f32>().chunks_exact(width.max(1))) {
        if a.is_entry && !t.admits(id)? {
            continue;
        }
        t.train(id, |row| {
            for (k, g) in g.iter().enumerate() {
                let m1 = a.beta1 * row[first + k] + (1.0 - a.beta1) * g;
                let m2 = a.beta2 * row[second + k] + (1.0 - a.beta2) * g * g;
                (row[first + k], row[second + k]) = (m1, m2);
                row[param + k] -= rate * (m1 / (m2.sqrt() + a.epsilon));
            }
        })?;
    }
    let outs = [Tensor::from_slice(&[a.beta1 * p1], pow1.dims())?, Tensor::from_slice(&[a.beta2 * p2], pow2.dims())?];
    let [out1, out2] = outs;
    cx.set(adam::POW1_OUT, out1);
    cx.set(adam::POW2_OUT, out2);
    Ok(())
}

pub static FUSE_ADAM: Op = Op {
    name: "lookup_sparse_table_fuse_adam",
    inputs: adam::INS,
    outputs: adam::OUTS,
    attrs: AdamAttrs::FIELDS,
    infer: |cx| {
        cx.like(adam::POW1_OUT, adam::POW1)?;
        cx.like(adam::POW2_OUT, adam::POW2)
    },
    sparse_kernel: SparseKernel::Own(run_adam),
    cpu: Kernel::Host(run_adam),
    ..OP
};
