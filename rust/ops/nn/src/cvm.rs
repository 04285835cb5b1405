//! cvm: rows that begin with show and click, which are replaced by logarithms or dropped.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::nn::cvm as kernel;

attrs! { pub struct CvmAttrs { use_cvm: bool = true } }

slots! {
    mod cvm { X "X", CVM "CVM" => Y "Y" }
    mod cvm_grad { CVM "CVM", X "X", DY "Y@GRAD" => DX "X@GRAD" }
}

/// The widths of X and Y.
fn widths(op: &str, x: &[i64], use_cvm: bool) -> Result<(i64, i64)> {
    ensure!(
        x.len() == 2 && (x[1] < 0 || x[1] >= 2),
        InvalidArgument,
        "operator {op}: X must have 2 dimensions, and rows that begin with show and click, got shape {x:?}"
    );
    Ok((x[1], if use_cvm || x[1] < 0 { x[1] } else { x[1] - 2 }))
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (cx.dims(cvm::X)?, cx.dtype(cvm::X)?);
    let (_, width) = widths(cx.op.name, &x, cx.attrs::<CvmAttrs>().use_cvm)?;
    cx.set(cvm::Y, &[x[0], width], dtype);
    cx.share_lod(cvm::Y, cvm::X);
    Ok(())
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let (x, keep) = (cx.input(cvm::X)?, cx.attrs::<CvmAttrs>().use_cvm);
    let (width, to) = widths(cx.op.name, x.dims(), keep)?;
    let (width, to) = (width as usize, to as usize);
    dispatch!(x.dtype(), T in [f32, f64], {
        kernel::forward(x.data::<T>(), width, to, T::ln, cx.out_data::<T>(cvm::Y)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    widths(cx.op.name, &cx.dims(cvm_grad::X)?, true)?;
    cx.like(cvm_grad::DX, cvm_grad::X)?;
    cx.share_lod(cvm_grad::DX, cvm_grad::X);
    Ok(())
}

/// The CVM row of each row of X: the same row, or that of its sequence.
fn owners(op: &str, x: &Tensor) -> Result<Vec<usize>> {
    let rows = x.dims()[0] as usize;
    let Some(offsets) = x.lod.as_deref().and_then(|levels| levels.first()) else { return Ok((0..rows).collect()) };
    ensure!(
        offsets.first() == Some(&0) && offsets.last() == Some(&rows) && offsets.is_sorted(),
        InvalidArgument,
        "operator {op}: the LoD of X must ascend from 0 to its {rows} rows, got {offsets:?}"
    );
    Ok(offsets.windows(2).enumerate().flat_map(|(i, w)| std::iter::repeat_n(i, w[1] - w[0])).collect())
}

/// As gradients of show and click the operator returns their values, which servers accumulate.
fn backward(cx: &mut KernelContext) -> Result<()> {
    let (op, x, counts, d) = (cx.op.name, cx.input(cvm_grad::X)?, cx.input(cvm_grad::CVM)?, cx.input(cvm_grad::DY)?);
    let (width, from) = widths(op, x.dims(), cx.attrs::<CvmAttrs>().use_cvm)?;
    let owners = owners(op, x)?;
    let needed = owners.last().map_or(0, |&i| i as i64 + 1);
    ensure!(
        counts.rank() == 2 && counts.dims()[1] == 2 && counts.dims()[0] >= needed && counts.dtype() == d.dtype(),
        InvalidArgument,
        "operator {op}: CVM must have show and click for {needed} rows in the type of X, got {counts:?}"
    );
    ensure!(
        d.dims() == [x.dims()[0], from] && d.dtype() == x.dtype(),
        InvalidArgument,
        "operator {op}: Y@GRAD must have shape [{}, {from}] and the type of X, got {d:?}",
        x.dims()[0]
    );
    let (width, from) = (width as usize, from as usize);
    dispatch!(d.dtype(), T in [f32, f64], {
        let (d, counts) = (d.data::<T>(), counts.data::<T>());
        let dx = cx.out_data::<T>(cvm_grad::DX)?;
        kernel::backward(d, counts, &owners, width, from, dx);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static CVM: Op = Op {
    name: "cvm",
    inputs: cvm::INS,
    outputs: cvm::OUTS,
    attrs: CvmAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(forward),
    grad: Grad::By(&CVM_GRAD),
    ..OP
};

pub static CVM_GRAD: Op = Op {
    name: "cvm_grad",
    inputs: cvm_grad::INS,
    outputs: cvm_grad::OUTS,
    attrs: CvmAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_grad,
    cpu: Kernel::Pure(backward),
    ..OP
};

pub static TABLE: &[&Op] = &[&CVM, &CVM_GRAD];
