//! multiplex: row i of the output is row i of the input whose number is Ids[i].

use oar_core::base::{DType, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, ensure, slots};
use oar_kernels::shape::multiplex as kernel;
use oar_ops_common::elements::set_zero;

slots! {
    mod multiplex { IDS "Ids", X "X".duplicable() => OUT "Out" }
    mod multiplex_grad { IDS "Ids", DOUT "Out@GRAD" => DX "X@GRAD".duplicable() }
}

fn infer_multiplex(cx: &mut ShapeContext) -> Result<()> {
    let (op, ids, x) = (cx.op.name, cx.dims(multiplex::IDS)?, cx.meta(multiplex::X, 0)?);
    ensure!(
        ids.len() == 2 && (ids[1] == 1 || ids[1] < 0),
        PreconditionNotMet,
        "operator {op}: Ids must have the shape [n, 1], got {ids:?}"
    );
    let n = cx.count(multiplex::X);
    ensure!(n > 1, InvalidArgument, "operator {op}: X must be more than one tensor, got {n}");
    ensure!(x.dims.len() > 1, InvalidArgument, "operator {op}: X must have 2 dimensions or more, got {:?}", x.dims);
    for i in 1..n {
        let m = cx.meta(multiplex::X, i)?;
        ensure!(
            m.dims == x.dims && m.dtype == x.dtype,
            PreconditionNotMet,
            "operator {op}: all X must be alike, X[0] is {} of shape {:?}, X[{i}] {} of shape {:?}",
            x.dtype,
            x.dims,
            m.dtype,
            m.dims
        );
    }
    cx.set(multiplex::OUT, &x.dims, x.dtype);
    Ok(())
}

/// The input number of each row, and the bytes per row.
fn sources<'a>(op: &str, ids: &'a Tensor, whole: &Tensor, n: usize) -> Result<(&'a [i32], usize)> {
    ensure!(ids.dtype() == DType::I32, InvalidArgument, "operator {op}: Ids must be int32, got {}", ids.dtype());
    let rows = whole.dims().first().map_or(0, |&d| d as usize);
    let ids = ids.data::<i32>();
    ensure!(
        ids.len() >= rows,
        InvalidArgument,
        "operator {op}: Ids must name an input for each of {rows} rows, got {} of them",
        ids.len()
    );
    let ids = &ids[..rows];
    if let Some(k) = ids.iter().find(|&&k| k < 0 || k as usize >= n) {
        bail!(PreconditionNotMet, "operator {op}: Ids must be in [0, {n}), the number of inputs, got {k}");
    }
    Ok((ids, whole.nbytes() / rows.max(1)))
}

fn multiplex(cx: &mut KernelContext) -> Result<()> {
    let (op, ids, inputs) = (cx.op.name, cx.input(multiplex::IDS)?, cx.inputs(multiplex::X)?);
    let (ids, row) = sources(op, ids, inputs[0], inputs.len())?;
    let out = cx.out(multiplex::OUT)?.bytes_mut()?;
    let inputs: Vec<&[u8]> = inputs.iter().map(|t| t.bytes()).collect();
    kernel::multiplex(&inputs, ids, row, out);
    Ok(())
}

fn multiplex_grad(cx: &mut KernelContext) -> Result<()> {
    use multiplex_grad::{DOUT, DX, IDS};
    let (op, ids, dout, n) = (cx.op.name, cx.input(IDS)?, cx.input(DOUT)?, cx.n_outs(DX));
    let (ids, row) = sources(op, ids, dout, n)?;
    let from = dout.bytes();
    for k in 0..n {
        if !cx.wants_nth(DX, k) {
            continue;
        }
        let dx = cx.out_nth(DX, k)?;
        set_zero(dx)?;
        kernel::multiplex_grad(from, ids, k, row, dx.bytes_mut()?);
    }
    Ok(())
}

pub static MULTIPLEX: Op = Op {
    name: "multiplex",
    inputs: multiplex::INS,
    outputs: multiplex::OUTS,
    infer: infer_multiplex,
    cpu: Kernel::Pure(multiplex),
    grad: Grad::By(&MULTIPLEX_GRAD),
    ..OP
};

pub static MULTIPLEX_GRAD: Op = Op {
    name: "multiplex_grad",
    inputs: multiplex_grad::INS,
    outputs: multiplex_grad::OUTS,
    infer: |cx| {
        let (dims, dtype) = (cx.dims(multiplex_grad::DOUT)?, cx.dtype(multiplex_grad::DOUT)?);
        (0..cx.outs(multiplex_grad::DX)).for_each(|i| cx.set_nth(multiplex_grad::DX, i, &dims, dtype));
        Ok(())
    },
    cpu: Kernel::Pure(multiplex_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&MULTIPLEX, &MULTIPLEX_GRAD];
