//! linspace: numbers at equal distances; meshgrid: vectors as the coordinates of a grid.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::types::Number;
use oar_ops_common::broadcast::{cast, reduce_to};
use oar_ops_common::elements::{share, strided};
use oar_ops_common::given::data_type;
use oar_ops_common::join::same_dtype;

attrs! {
    pub struct LinspaceAttrs { dtype: i32 }
}

slots! {
    mod linspace { START "Start", STOP "Stop", NUM "Num" => OUT "Out".kernel_allocated() }
    mod meshgrid { X "X".duplicable() => OUT "Out".duplicable().kernel_allocated() }
    mod meshgrid_grad { X "X".duplicable().meta_only(), DOUT "Out@GRAD".duplicable() => DX "X@GRAD".duplicable().kernel_allocated() }
}

// linspace

fn infer_linspace(cx: &mut ShapeContext) -> Result<()> {
    for slot in [linspace::START, linspace::STOP, linspace::NUM] {
        let dims = cx.dims(slot)?;
        if dims[..] != [1] && dims[..] != [-1] {
            return cx.wrong(slot, "of shape [1]");
        }
    }
    let dtype = data_type(cx.op.name, cx.attrs::<LinspaceAttrs>().dtype)?;
    cx.set(linspace::OUT, &[-1], dtype);
    Ok(())
}

/// The first half counts from the start, the second back from the stop, each in double precision: as Paddle rounds.
fn line<T: Element + Number>(start: T, stop: T, n: i64) -> Result<Tensor> {
    let mut out = Tensor::empty(T::DTYPE, &[n])?;
    let step = Number::sub(stop, start).to_f64() / (n - 1).max(1) as f64;
    let (first, last) = (start.to_f64(), stop.to_f64());
    for (i, o) in (0..n).zip(out.data_mut::<T>()?) {
        let v = if i < n / 2 || n == 1 { first + step * i as f64 } else { last - step * (n - i - 1) as f64 };
        *o = T::from_f64(v);
    }
    Ok(out)
}

fn linspace(cx: &mut KernelContext) -> Result<()> {
    let op = cx.op.name;
    let dtype = data_type(op, cx.attrs::<LinspaceAttrs>().dtype)?;
    let one = |slot| -> Result<Tensor> {
        let t = cx.input(slot)?;
        ensure!(t.numel() == 1, InvalidArgument, "operator {op}: its inputs must hold one number each, got {t:?}");
        cast(t, dtype)
    };
    let (start, stop) = (one(linspace::START)?, one(linspace::STOP)?);
    let n = cx.input(linspace::NUM)?.to_i64s()?[0];
    ensure!(n > 0, InvalidArgument, "operator {op}: Num must be positive, got {n}");
    let out = dispatch!(dtype, T in [f32, f64, i32, i64], line(start.data::<T>()[0], stop.data::<T>()[0], n)?,
        other => return cx.unsupported(other));
    cx.set(linspace::OUT, out);
    Ok(())
}

pub static LINSPACE: Op = Op {
    name: "linspace",
    inputs: linspace::INS,
    outputs: linspace::OUTS,
    attrs: LinspaceAttrs::FIELDS,
    infer: infer_linspace,
    cpu: Kernel::Pure(linspace),
    ..OP
};

// meshgrid

/// The length of each vector; a tensor without dimensions counts as one of length 1.
fn lengths<'a>(op: &str, vectors: impl Iterator<Item = &'a [i64]>) -> Result<Dims> {
    let lengths = vectors.map(|dims| match dims {
        [] => Ok(1),
        [n] => Ok(*n),
        _ => bail!(InvalidArgument, "operator {op}: each input must have one dimension at most, got shape {dims:?}"),
    });
    let lengths: Dims = lengths.collect::<Result<_>>()?;
    ensure!(
        (2..=6).contains(&lengths.len()),
        InvalidArgument,
        "operator {op}: there must be 2 to 6 inputs, got {}",
        lengths.len()
    );
    Ok(lengths)
}

fn infer_meshgrid(cx: &mut ShapeContext) -> Result<()> {
    let n = cx.count(meshgrid::X);
    let metas = (0..n).map(|i| cx.meta(meshgrid::X, i)).collect::<Result<Vec<_>>>()?;
    let dims = lengths(cx.op.name, metas.iter().map(|m| &m.dims[..]))?;
    cx.set_outs(meshgrid::OUT, n)?;
    for (i, m) in metas.iter().enumerate() {
        ensure!(
            m.dtype == metas[0].dtype,
            InvalidArgument,
            "operator {}: all inputs must have one data type, input 0 is {}, input {i} is {}",
            cx.op.name,
            metas[0].dtype,
            m.dtype
        );
        cx.set_nth(meshgrid::OUT, i, &dims, m.dtype);
    }
    Ok(())
}

fn meshgrid(cx: &mut KernelContext) -> Result<()> {
    let vectors = cx.inputs(meshgrid::X)?;
    let dims = lengths(cx.op.name, vectors.iter().map(|t| t.dims()))?;
    for (i, x) in vectors.iter().enumerate().filter(|(i, _)| cx.wants_nth(meshgrid::OUT, *i)).collect::<Vec<_>>() {
        let strides: Vec<isize> = (0..dims.len()).map(|k| (k == i) as isize).collect();
        let out = strided(x, &dims, &strides, 0)?;
        cx.set_nth(meshgrid::OUT, i, out);
    }
    Ok(())
}

fn meshgrid_grad(cx: &mut KernelContext) -> Result<()> {
    use meshgrid_grad::{DOUT, DX, X};
    let (vectors, douts) = (cx.inputs(X)?, cx.inputs(DOUT)?);
    let dims = lengths(cx.op.name, vectors.iter().map(|t| t.dims()))?;
    same_dtype(cx.op.name, &douts)?;
    ensure!(
        douts.len() == vectors.len() && douts.iter().all(|d| d.dims() == &dims[..]),
        InvalidArgument,
        "operator {}: there must be an Out@GRAD of shape {dims:?} for each X",
        cx.op.name
    );
    for (i, (x, dout)) in vectors.iter().zip(&douts).enumerate() {
        if cx.wants_nth(DX, i) {
            let mut row = Dims::from_elem(1, dims.len());
            row[i] = dims[i];
            let dx = reduce_to(share(dout)?, &row, -1)?.reshaped(x.dims());
            cx.set_nth(DX, i, dx);
        }
    }
    Ok(())
}

pub static MESHGRID: Op = Op {
    name: "meshgrid",
    inputs: meshgrid::INS,
    outputs: meshgrid::OUTS,
    infer: infer_meshgrid,
    cpu: Kernel::Pure(meshgrid),
    grad: Grad::By(&MESHGRID_GRAD),
    ..OP
};
pub static MESHGRID_GRAD: Op = Op {
    name: "meshgrid_grad",
    inputs: meshgrid_grad::INS,
    outputs: meshgrid_grad::OUTS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INDICES),
    infer: grads_like_inputs,
    cpu: Kernel::Pure(meshgrid_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&LINSPACE, &MESHGRID, &MESHGRID_GRAD];
