//! partial_concat and partial_sum: the same columns of several matrices, concatenated or added.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::shape::partial::{add_columns, copy_columns};
use std::ops::Range;

attrs! {
    pub struct ConcatAttrs { start_index: i32 = 0, length: i32 = -1 }
    pub struct SumAttrs { use_mkldnn: bool = false, start_index: i32 = 0, length: i32 = -1 }
}

slots! {
    mod fwd { X "X".duplicable() => OUT "Out" }
    mod grad { X "X".duplicable().meta_only(), DOUT "Out@GRAD" => DX "X@GRAD".duplicable() }
}

const NUMBERS: DTypes = DTypes::FLOATS.union(DTypes::of(&[DType::I32, DType::I64]));

/// The selected columns of matrices of `width` columns.
fn columns(op: &str, start: i32, length: i32, width: i64, from_end: bool) -> Result<Range<usize>> {
    let at = if start < 0 && from_end { start as i64 + width } else { start as i64 };
    let kind =
        if from_end { oar_core::base::ErrorKind::InvalidArgument } else { oar_core::base::ErrorKind::OutOfRange };
    let end = if length < 0 { width } else { at + length as i64 };
    if at < 0 || at >= width || end > width {
        return Err(oar_core::base::Error::new(
            kind,
            format!("operator {op}: start_index {start} and length {length} must lie within the {width} columns of X"),
        ));
    }
    Ok(at as usize..end as usize)
}

/// The common shape of the matrices.
fn shape(cx: &ShapeContext) -> Result<[i64; 2]> {
    let count = cx.count(fwd::X);
    ensure!(count > 0, InvalidArgument, "operator {}: X must have at least one matrix", cx.op.name);
    let first = cx.meta(fwd::X, 0)?;
    for i in 0..count {
        let m = cx.meta(fwd::X, i)?;
        ensure!(
            m.dims.len() == 2 && m.dims == first.dims && m.dtype == first.dtype,
            InvalidArgument,
            "operator {}: X must be matrices of one shape and type, got {:?} and {:?}",
            cx.op.name,
            &first.dims[..],
            &m.dims[..]
        );
    }
    Ok([first.dims[0], first.dims[1]])
}

fn set(cx: &mut ShapeContext, rows: i64, columns: i64) -> Result<()> {
    let dtype = cx.meta(fwd::X, 0)?.dtype;
    cx.set(fwd::OUT, &[rows, columns], dtype);
    cx.share_lod(fwd::OUT, fwd::X);
    Ok(())
}

fn infer_concat(cx: &mut ShapeContext) -> Result<()> {
    let ([rows, width], a) = (shape(cx)?, cx.attrs::<ConcatAttrs>());
    let each = match width {
        -1 => a.length as i64,
        _ => columns(cx.op.name, a.start_index, a.length, width, true)?.len() as i64,
    };
    set(cx, rows, if each < 0 { -1 } else { each * cx.count(fwd::X) as i64 })
}

fn infer_sum(cx: &mut ShapeContext) -> Result<()> {
    let ([rows, width], a) = (shape(cx)?, cx.attrs::<SumAttrs>());
    let each = match width {
        -1 => a.length.max(-1) as i64,
        _ => columns(cx.op.name, a.start_index, a.length, width, false)?.len() as i64,
    };
    set(cx, rows, each)
}

/// Rows and columns of the matrices, and the selected columns; `None` if there are no elements.
fn sizes(
    op: &str,
    xs: &[&Tensor],
    (start, length): (i32, i32),
    from_end: bool,
) -> Result<(usize, usize, Range<usize>)> {
    let d = xs.first().map_or(&[][..], |x| x.dims());
    ensure!(d.len() == 2, InvalidArgument, "operator {op}: X must be matrices");
    Ok((d[0] as usize, d[1] as usize, columns(op, start, length, d[1], from_end)?))
}

fn run_concat(cx: &mut KernelContext) -> Result<()> {
    let (xs, a) = (cx.inputs(fwd::X)?, cx.attrs::<ConcatAttrs>());
    let (_, width, taken) = sizes(cx.op.name, &xs, (a.start_index, a.length), true)?;
    let size = xs[0].dtype().size();
    let (n, out) = (taken.len() * size, cx.out(fwd::OUT)?.bytes_mut()?);
    let from = taken.start * size..taken.end * size;
    for (i, x) in xs.iter().enumerate() {
        copy_columns(x.bytes(), width * size, from.clone(), out, n * xs.len(), i * n);
    }
    Ok(())
}

fn run_concat_grad(cx: &mut KernelContext) -> Result<()> {
    let (xs, dout, a) = (cx.inputs(grad::X)?, cx.input(grad::DOUT)?, cx.attrs::<ConcatAttrs>());
    let (rows, width, taken) = sizes(cx.op.name, &xs, (a.start_index, a.length), true)?;
    fits(cx, dout, xs[0], rows * taken.len() * xs.len())?;
    let (size, count) = (dout.dtype().size(), xs.len());
    let n = taken.len() * size;
    for i in (0..count).filter(|&i| cx.wants_nth(grad::DX, i)).collect::<Vec<_>>() {
        let dx = cx.out_nth(grad::DX, i)?.bytes_mut()?;
        dx.fill(0);
        copy_columns(dout.bytes(), count * n, i * n..(i + 1) * n, dx, width * size, taken.start * size);
    }
    Ok(())
}

fn fits(cx: &KernelContext, dout: &Tensor, x: &Tensor, count: usize) -> Result<()> {
    ensure!(
        dout.numel() == count && dout.dtype() == x.dtype(),
        InvalidArgument,
        "operator {}: the gradient of Out must have {count} elements of {}, got {dout:?}",
        cx.op.name,
        x.dtype()
    );
    Ok(())
}

fn run_sum(cx: &mut KernelContext) -> Result<()> {
    let (xs, a) = (cx.inputs(fwd::X)?, cx.attrs::<SumAttrs>());
    let (_, width, taken) = sizes(cx.op.name, &xs, (a.start_index, a.length), false)?;
    dispatch!(xs[0].dtype(), T in [f32, f64, i32, i64], {
        let out = cx.out_data::<T>(fwd::OUT)?;
        out.fill(T::default());
        for x in &xs {
            add_columns(x.data::<T>(), width, taken.clone(), out);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_sum_grad(cx: &mut KernelContext) -> Result<()> {
    let (xs, dout, a) = (cx.inputs(grad::X)?, cx.input(grad::DOUT)?, cx.attrs::<SumAttrs>());
    let (rows, width, taken) = sizes(cx.op.name, &xs, (a.start_index, a.length), false)?;
    fits(cx, dout, xs[0], rows * taken.len())?;
    let size = dout.dtype().size();
    let n = taken.len() * size;
    for i in (0..xs.len()).filter(|&i| cx.wants_nth(grad::DX, i)).collect::<Vec<_>>() {
        let dx = cx.out_nth(grad::DX, i)?.bytes_mut()?;
        dx.fill(0);
        copy_columns(dout.bytes(), n, 0..n, dx, width * size, taken.start * size);
    }
    Ok(())
}

pub static PARTIAL_CONCAT: Op = Op {
    name: "partial_concat",
    inputs: fwd::INS,
    outputs: fwd::OUTS,
    attrs: ConcatAttrs::FIELDS,
    dtypes: NUMBERS,
    infer: infer_concat,
    cpu: Kernel::Pure(run_concat),
    grad: Grad::By(&PARTIAL_CONCAT_GRAD),
    ..OP
};

pub static PARTIAL_CONCAT_GRAD: Op = Op {
    name: "partial_concat_grad",
    inputs: grad::INS,
    outputs: grad::OUTS,
    attrs: ConcatAttrs::FIELDS,
    dtypes: NUMBERS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_concat_grad),
    ..OP
};

pub static PARTIAL_SUM: Op = Op {
    name: "partial_sum",
    inputs: fwd::INS,
    outputs: fwd::OUTS,
    attrs: SumAttrs::FIELDS,
    dtypes: NUMBERS,
    infer: infer_sum,
    cpu: Kernel::Pure(run_sum),
    grad: Grad::By(&PARTIAL_SUM_GRAD),
    ..OP
};

pub static PARTIAL_SUM_GRAD: Op = Op {
    name: "partial_sum_grad",
    inputs: grad::INS,
    outputs: grad::OUTS,
    attrs: SumAttrs::FIELDS,
    dtypes: NUMBERS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_sum_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&PARTIAL_CONCAT, &PARTIAL_CONCAT_GRAD, &PARTIAL_SUM, &PARTIAL_SUM_GRAD];
