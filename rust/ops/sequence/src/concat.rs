//! sequence_concat: sequence i of the output is the concatenation of sequence i of every input.

use crate::levels;
use oar_core::base::shape::numel;
use oar_core::base::{Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{ensure, slots};
use oar_kernels::sequence::rows;

slots! {
    mod concat { X "X".duplicable() => OUT "Out" }
    mod concat_grad { X "X".duplicable().meta_only(), DOUT "Out@GRAD" => DX "X@GRAD".duplicable() }
}

/// The inputs' levels, which must have one number of sequences.
fn all_levels<'a>(op: &str, xs: &[&'a Tensor]) -> Result<Vec<&'a [usize]>> {
    let found = xs.iter().map(|x| levels::first(op, "X", x)).collect::<Result<Vec<_>>>()?;
    for level in &found {
        ensure!(
            level.len() == found[0].len(),
            InvalidArgument,
            "operator {op}: every input must have as many sequences, the first has {}, another {}",
            found[0].len() - 1,
            level.len() - 1
        );
    }
    Ok(found)
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let count = cx.count(concat::X);
    ensure!(count > 1, InvalidArgument, "operator sequence_concat: there must be more than one input, got {count}");
    let first = cx.meta(concat::X, 0)?;
    let mut rows = 0i64;
    for i in 0..count {
        let m = cx.meta(concat::X, i)?;
        ensure!(!m.dims.is_empty(), InvalidArgument, "operator sequence_concat: input 'X' must have a dimension");
        ensure!(
            m.dtype == first.dtype,
            InvalidArgument,
            "operator sequence_concat: all inputs must have one data type, got {} and {}",
            first.dtype,
            m.dtype
        );
        let known = |d: &[i64]| d[1..].iter().all(|&n| n >= 0);
        ensure!(
            !known(&m.dims) || !known(&first.dims) || numel(&m.dims[1..]) == numel(&first.dims[1..]),
            InvalidArgument,
            "operator sequence_concat: the rows of all inputs must be of one size, got {:?} and {:?}",
            &first.dims[..],
            &m.dims[..]
        );
        rows = if rows < 0 || m.dims[0] < 0 { -1 } else { rows + m.dims[0] };
    }
    let mut dims: Dims = first.dims.clone();
    dims[0] = rows;
    cx.set(concat::OUT, &dims, first.dtype);
    cx.share_lod(concat::OUT, concat::X);
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let xs = cx.inputs(concat::X)?;
    let levels = all_levels(cx.op.name, &xs)?;
    let out = cx.out(concat::OUT)?;
    let row = levels::width(out) * out.dtype().size();
    let parts: Vec<&[u8]> = xs.iter().map(|x| x.bytes()).collect();
    rows::concat(&parts, &levels, row, out.bytes_mut()?);
    let ends = (0..levels[0].len()).map(|i| levels.iter().map(|l| l[i]).sum()).collect();
    out.lod = levels::one(ends);
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (xs, dout) = (cx.inputs(concat_grad::X)?, cx.input(concat_grad::DOUT)?);
    let levels = all_levels(cx.op.name, &xs)?;
    let rows: usize = levels.iter().map(|l| l[l.len() - 1]).sum();
    let row = xs.first().map_or(0, |x| levels::width(x)) * dout.dtype().size();
    ensure!(
        dout.nbytes() == rows * row,
        InvalidArgument,
        "operator sequence_concat_grad: the gradient of Out must have {rows} rows, got {dout:?}"
    );
    for k in 0..levels.len() {
        if !cx.wants_nth(concat_grad::DX, k) {
            continue;
        }
        let dx = cx.out_nth(concat_grad::DX, k)?;
        ensure!(
            dx.dtype() == dout.dtype(),
            InvalidArgument,
            "operator sequence_concat_grad: X is of {}, the gradient of Out of {}",
            dx.dtype(),
            dout.dtype()
        );
        rows::split(&levels, k, row, dout.bytes(), dx.bytes_mut()?);
    }
    Ok(())
}

pub static SEQUENCE_CONCAT: Op = Op {
    name: "sequence_concat",
    inputs: concat::INS,
    outputs: concat::OUTS,
    attrs: NoAttrs::FIELDS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&SEQUENCE_CONCAT_GRAD),
    ..OP
};

pub static SEQUENCE_CONCAT_GRAD: Op = Op {
    name: "sequence_concat_grad",
    inputs: concat_grad::INS,
    outputs: concat_grad::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&SEQUENCE_CONCAT, &SEQUENCE_CONCAT_GRAD];
