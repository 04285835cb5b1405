//! sequence_expand: repeats sequences by the sequence lengths of another tensor.

use super::pool::{check_level, same_type, width};
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::{Lod, Tensor};
use oar_core::{attrs, bail, dispatch, ensure, slots};
use oar_kernels::sequence::pool as kernel;
use oar_ops_common::half::in_f32;
use std::sync::Arc;

attrs! {
    pub struct SequenceExpandAttrs { ref_level: i32 = -1 }
}

slots! {
    mod sequence_expand { X "X", Y "Y" => OUT "Out".kernel_allocated() }
    mod sequence_expand_grad { X "X".meta_only(), Y "Y".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// Limit of the number of output sequences.
const MOST_SEQUENCES: usize = 1 << 28;

/// The level of Y's LoD whose lengths are the repeat counts.
fn reference(ref_level: i32, y: &Tensor) -> Result<&[usize]> {
    let levels = y.lod.as_ref().map_or(0, |l| l.len());
    ensure!(levels > 0, InvalidArgument, "operator sequence_expand: input 'Y' has no LoD");
    let at = if ref_level == -1 { levels as i32 - 1 } else { ref_level };
    ensure!(
        (0..levels as i32).contains(&at),
        InvalidArgument,
        "operator sequence_expand: ref_level must be -1 or below {levels}, the number of levels of Y, got {ref_level}"
    );
    let level = &y.lod.as_ref().expect("it has levels")[at as usize];
    // The level's end must not exceed the next level's sequences or the rows, which bounds the output.
    let next = y.lod.as_ref().and_then(|l| l.get(at as usize + 1)).map(|l| l.len().saturating_sub(1));
    let count = next.unwrap_or(y.dims().first().map_or(0, |&n| n as usize));
    check_level("sequence_expand", level, count)?;
    Ok(level)
}

/// The offsets of X's sequences: its LoD, or one row per sequence.
fn sequences(x: &Tensor, reference: &[usize]) -> Result<Vec<usize>> {
    ensure!(
        x.rank() >= 2,
        InvalidArgument,
        "operator sequence_expand: X must have two dimensions or more, got shape {:?}",
        x.dims()
    );
    let rows = x.dims()[0] as usize;
    let starts = match x.lod.as_deref().map(|l| &l[..]) {
        // X may have any number of empty rows: only the needed ones.
        None | Some([]) if rows + 1 == reference.len() => (0..=rows).collect(),
        None | Some([]) => bail!(
            InvalidArgument,
            "operator sequence_expand: X has {rows} rows, the level of Y {} sequences",
            reference.len() - 1
        ),
        Some([level]) => {
            check_level("sequence_expand", level, rows)?;
            level.clone()
        }
        Some(more) => {
            bail!(InvalidArgument, "operator sequence_expand: X may have one level of LoD at most, got {}", more.len())
        }
    };
    ensure!(
        starts.len() == reference.len(),
        InvalidArgument,
        "operator sequence_expand: X has {} sequences (rows, where it has no LoD), the level of Y {}",
        starts.len() - 1,
        reference.len() - 1
    );
    Ok(starts)
}

fn times(level: &[usize]) -> impl Fn(usize) -> usize + '_ {
    |i| level[i + 1] - level[i]
}

/// The number of rows depends on the LoD of Y.
fn infer_expand(cx: &mut ShapeContext) -> Result<()> {
    let (mut dims, dtype) = (cx.dims(sequence_expand::X)?, cx.dtype(sequence_expand::X)?);
    ensure!(
        dims.len() >= 2,
        InvalidArgument,
        "operator sequence_expand: X must have two dimensions or more, got shape {:?}",
        &dims[..]
    );
    dims[0] = -1;
    cx.set(sequence_expand::OUT, &dims, dtype);
    cx.share_lod(sequence_expand::OUT, sequence_expand::X);
    Ok(())
}

fn expand(cx: &mut KernelContext) -> Result<()> {
    let (x, y) = (cx.input(sequence_expand::X)?, cx.input(sequence_expand::Y)?);
    let level = reference(cx.attrs::<SequenceExpandAttrs>().ref_level, y)?;
    let starts = sequences(x, level)?;
    if level.len() <= 1 {
        cx.set(sequence_expand::OUT, x.clone());
        return Ok(());
    }
    let mut rows = 0usize;
    let mut lod: Lod = vec![vec![0]];
    let has_lod = x.lod.as_ref().is_some_and(|l| !l.is_empty());
    for i in 0..level.len() - 1 {
        let (times, length) = (level[i + 1] - level[i], starts[i + 1] - starts[i]);
        let total = times.checked_mul(length).and_then(|n| n.checked_add(rows)).filter(|&n| n <= i64::MAX as usize);
        let Some(total) = total else { bail!(ResourceExhausted, "operator sequence_expand: the result is too large") };
        if has_lod {
            // Sequences may be empty, so the output size does not bound their number.
            ensure!(
                times <= MOST_SEQUENCES && lod[0].len() + times <= MOST_SEQUENCES,
                ResourceExhausted,
                "operator sequence_expand: the result would have more than {MOST_SEQUENCES} sequences"
            );
            lod[0].extend((1..=times).map(|k| rows + k * length));
        }
        rows = total;
    }
    let mut dims: Dims = Dims::from_slice(x.dims());
    dims[0] = rows as i64;
    let mut out = Tensor::empty(x.dtype(), &dims)?;
    kernel::expand(&starts, times(level), width(x) * x.dtype().size(), x.bytes(), out.bytes_mut()?);
    out.lod = has_lod.then(|| Arc::new(lod));
    cx.set(sequence_expand::OUT, out);
    Ok(())
}

fn expand_grad(cx: &mut KernelContext) -> Result<()> {
    use sequence_expand_grad::{DOUT, DX, X, Y};
    let (x, y, dout) = (cx.input(X)?, cx.input(Y)?, cx.input(DOUT)?);
    let level = reference(cx.attrs::<SequenceExpandAttrs>().ref_level, y)?;
    let starts = sequences(x, level)?;
    same_type(cx, DX, dout)?;
    // Without sequences X passes unchanged.
    let unchanged = level.len() <= 1;
    let rows: usize = match unchanged {
        true => x.dims()[0] as usize,
        false => (0..level.len() - 1).map(|i| times(level)(i) * (starts[i + 1] - starts[i])).sum(),
    };
    let width = width(x);
    ensure!(
        dout.numel() == rows * width,
        InvalidArgument,
        "operator sequence_expand_grad: the gradient of Out must have {rows} rows of {width} elements, got {dout:?}"
    );
    if unchanged {
        cx.out(DX)?.bytes_mut()?.copy_from_slice(dout.bytes());
        return Ok(());
    }
    dispatch!(dout.dtype(), T in [f32, f64, i32, i64], {
        kernel::expand_grad(&starts, times(level), width, dout.data::<T>(), cx.out_data::<T>(DX)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SEQUENCE_EXPAND: Op = Op {
    name: "sequence_expand",
    inputs: sequence_expand::INS,
    outputs: sequence_expand::OUTS,
    attrs: SequenceExpandAttrs::FIELDS,
    infer: infer_expand,
    cpu: Kernel::Pure(expand),
    grad: Grad::By(&SEQUENCE_EXPAND_GRAD),
    ..OP
};

pub static SEQUENCE_EXPAND_GRAD: Op = Op {
    name: "sequence_expand_grad",
    inputs: sequence_expand_grad::INS,
    outputs: sequence_expand_grad::OUTS,
    attrs: SequenceExpandAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INDICES),
    infer: oar_core::op::infer::grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, sequence_expand_grad::DOUT, expand_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&SEQUENCE_EXPAND, &SEQUENCE_EXPAND_GRAD];
