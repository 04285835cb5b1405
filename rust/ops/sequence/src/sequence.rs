//! Operators on LoD sequences: pooling of each to one row, expansion by another's lengths.

use oar_core::attrs;
use oar_core::base::shape::numel;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Grad, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::{Lod, Tensor};
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::sequence::pool::{self as kernel, Pooling};
use oar_ops_common::half::in_f32;
use std::sync::Arc;

attrs! {
    pub struct SequencePoolAttrs {
        is_test: bool = false, pooltype: Text = "AVERAGE".into(), pad_value: f32 = 0.0,
    }
    pub struct SequenceExpandAttrs { ref_level: i32 = -1 }
}

slots! {
    mod sequence_pool { X "X" => OUT "Out", MAX_INDEX "MaxIndex".intermediate().kernel_allocated() }
    mod sequence_pool_grad { X "X".meta_only(), MAX_INDEX "MaxIndex".dispensable(), DOUT "Out@GRAD" => DX "X@GRAD" }
    mod sequence_expand { X "X", Y "Y" => OUT "Out".kernel_allocated() }
    mod sequence_expand_grad { X "X".meta_only(), Y "Y".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// A level's offsets must ascend from 0 and not pass the number of things that they cut.
pub fn check_level(op: &str, level: &[usize], count: usize) -> Result<()> {
    let fine = level.first() == Some(&0) && level.is_sorted() && level.last().is_some_and(|&l| l <= count);
    ensure!(fine, InvalidArgument, "operator {op}: the LoD {level:?} does not cut {count} rows into sequences");
    Ok(())
}

/// The offsets of the last level, which cut the tensor's rows.
fn last_level<'a>(op: &str, x: &'a Tensor) -> Result<&'a [usize]> {
    let Some(level) = x.lod.as_ref().and_then(|l| l.last()) else {
        bail!(InvalidArgument, "operator {op}: input 'X' has no LoD")
    };
    ensure!(x.rank() > 0, InvalidArgument, "operator {op}: input 'X' must have a dimension");
    check_level(op, level, x.dims()[0] as usize)?;
    Ok(level)
}

/// The gradient of X is to be of the type of the gradient of Out.
fn same_type(cx: &mut KernelContext, dx: OutSlot, dout: &Tensor) -> Result<()> {
    let (name, dtype) = (cx.op.name, cx.out(dx)?.dtype());
    ensure!(
        dtype == dout.dtype(),
        InvalidArgument,
        "operator {name}: X is of {dtype} but the gradient of Out of {}",
        dout.dtype()
    );
    Ok(())
}

fn width(x: &Tensor) -> usize {
    numel(&x.dims()[1..])
}

// sequence_pool

fn pooling(a: &SequencePoolAttrs) -> Result<Pooling> {
    Ok(match &a.pooltype[..] {
        "AVERAGE" => Pooling::Average,
        "SUM" => Pooling::Sum,
        "SQRT" => Pooling::Sqrt,
        "LAST" => Pooling::Last,
        "FIRST" => Pooling::First,
        "MAX" => Pooling::Max,
        other => bail!(
            InvalidArgument,
            "operator sequence_pool: pooltype must be AVERAGE, SUM, SQRT, LAST, FIRST or MAX, got '{other}'"
        ),
    })
}

/// One row for each sequence of the last level; how many there are says the LoD of a run.
fn infer_pool(cx: &mut ShapeContext) -> Result<()> {
    use sequence_pool::{MAX_INDEX, OUT, X};
    let max = pooling(cx.attrs())? == Pooling::Max;
    let mut m = cx.meta(X, 0)?;
    ensure!(!m.dims.is_empty(), InvalidArgument, "operator sequence_pool: input 'X' must have a dimension");
    if let Some(x) = cx.tensor(X) {
        let level = last_level(cx.op.name, x)?;
        let levels = x.lod.as_ref().map_or(0, |l| l.len());
        ensure!(
            levels <= 2,
            InvalidArgument,
            "operator sequence_pool: X may have two levels of LoD at most, got {levels}"
        );
        m.dims[0] = level.len() as i64 - 1;
        m.lod = None;
        if let (2, Some(lod)) = (levels, &x.lod) {
            check_level(cx.op.name, &lod[0], level.len() - 1)?;
            m.lod = Some(Arc::new(vec![lod[0].clone()]));
        }
    } else {
        ensure!(m.lod_level > 0, InvalidArgument, "operator sequence_pool: X must have a LoD level greater than 0");
        m.dims[0] = -1;
    }
    m.lod_level -= 1;
    if max {
        cx.set(MAX_INDEX, &m.dims, DType::I32);
    }
    cx.set_meta(OUT, 0, m);
    Ok(())
}

fn pool(cx: &mut KernelContext) -> Result<()> {
    use sequence_pool::{MAX_INDEX, OUT, X};
    let x = cx.input(X)?;
    let a = cx.attrs::<SequencePoolAttrs>();
    let kind = pooling(a)?;
    let starts = last_level(cx.op.name, x)?;
    let out = cx.out(OUT)?;
    // A test run has no gradient, so nobody asks where the largest elements were.
    let mut index =
        if kind == Pooling::Max && !a.is_test { Some(Tensor::empty(DType::I32, out.dims())?) } else { None };
    dispatch!(x.dtype(), T in [f32, f64], {
        let rows = index.as_mut().map(|t| t.data_mut::<i32>()).transpose()?;
        kernel::pool(kind, starts, width(x), a.pad_value as T, x.data::<T>(), out.data_mut::<T>()?, rows);
    }, other => return cx.unsupported(other));
    if let Some(t) = index {
        cx.set(MAX_INDEX, t);
    }
    Ok(())
}

fn pool_grad(cx: &mut KernelContext) -> Result<()> {
    use sequence_pool_grad::{DOUT, DX, MAX_INDEX, X};
    let (x, index, dout) = (cx.input(X)?, cx.opt(MAX_INDEX), cx.input(DOUT)?);
    let kind = pooling(cx.attrs())?;
    same_type(cx, DX, dout)?;
    let starts = last_level(cx.op.name, x)?;
    let width = width(x);
    ensure!(
        dout.numel() == (starts.len() - 1) * width,
        InvalidArgument,
        "operator sequence_pool_grad: the gradient of Out {dout:?} must have {} rows of {width} elements",
        starts.len() - 1
    );
    let index = match (kind, index) {
        (Pooling::Max, Some(t)) => {
            ensure!(
                t.dtype() == DType::I32 && t.numel() == dout.numel(),
                InvalidArgument,
                "operator sequence_pool_grad: MaxIndex must be int32 and like Out, got {t:?}"
            );
            Some(t.data::<i32>())
        }
        (Pooling::Max, None) => {
            bail!(InvalidArgument, "operator sequence_pool_grad: MAX needs MaxIndex, which is_test does not compute")
        }
        _ => None,
    };
    dispatch!(dout.dtype(), T in [f32, f64], {
        kernel::pool_grad(kind, starts, width, dout.data::<T>(), index, cx.out_data::<T>(DX)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SEQUENCE_POOL: Op = Op {
    name: "sequence_pool",
    inputs: sequence_pool::INS,
    outputs: sequence_pool::OUTS,
    attrs: SequencePoolAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: infer_pool,
    cpu: Kernel::Pure(|cx| in_f32(cx, sequence_pool::X, pool)),
    grad: Grad::By(&SEQUENCE_POOL_GRAD),
    ..OP
};

pub static SEQUENCE_POOL_GRAD: Op = Op {
    name: "sequence_pool_grad",
    inputs: sequence_pool_grad::INS,
    outputs: sequence_pool_grad::OUTS,
    attrs: SequencePoolAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: oar_core::op::infer::grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, sequence_pool_grad::DOUT, pool_grad)),
    ..OP
};

// sequence_expand: sequence i of X (row i, without LoD) as often as sequence i of Y's level is long.

/// The most sequences that a result may have.
const MOST_SEQUENCES: usize = 1 << 28;

/// The level of Y's LoD by whose lengths X is repeated.
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
    // What the level cuts is there: sequences of the next level, or rows. So no level asks for more than memory holds.
    let next = y.lod.as_ref().and_then(|l| l.get(at as usize + 1)).map(|l| l.len().saturating_sub(1));
    let count = next.unwrap_or(y.dims().first().map_or(0, |&n| n as usize));
    check_level("sequence_expand", level, count)?;
    Ok(level)
}

/// The offsets of X's sequences: its LoD, or one row each.
fn sequences(x: &Tensor, reference: &[usize]) -> Result<Vec<usize>> {
    ensure!(
        x.rank() >= 2,
        InvalidArgument,
        "operator sequence_expand: X must have two dimensions or more, got shape {:?}",
        x.dims()
    );
    let rows = x.dims()[0] as usize;
    let starts = match x.lod.as_deref().map(|l| &l[..]) {
        // As many as will be asked for below: X may have any number of rows of no elements.
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

/// The number of rows follows from the LoD of Y.
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
            // Sequences may be empty, so the size of the result does not bound how many there are.
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
    // Without sequences X passed unchanged.
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

pub static TABLE: &[&Op] = &[&SEQUENCE_POOL, &SEQUENCE_POOL_GRAD, &SEQUENCE_EXPAND, &SEQUENCE_EXPAND_GRAD];
