//! Operators about the order of elements along an axis: cumsum, arg_max, arg_min, argsort, top_k, top_k_v2.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::shape::{axis, numel, to_usize};
use oar_core::base::{DType, Dims, Result};
use oar_core::op::{slot, Dst, Fwd, Grad, GradOp, Infer, Kernel, Op, Run, Slot, Src, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, err};
use oar_kernels::types::Plain;
use oar_kernels::{copy, order, pool, scan};

attrs! {
    pub struct CumsumAttrs { axis: i32 = -1, flatten: bool = false, exclusive: bool = false, reverse: bool = false }
    pub struct ArgAttrs { axis: i64, keepdims: bool = false, flatten: bool = false, dtype: i32 = 3 }
    pub struct ArgsortAttrs { axis: i32 = -1, descending: bool = false }
    pub struct TopkAttrs { k: i32 = 1 }
    pub struct TopkV2Attrs { k: i32 = 1, axis: i32 = -1, largest: bool = true, sorted: bool = true }
}

const X: &[Slot] = &[slot("X")];
const OUT: &[Slot] = &[slot("Out")];
const DX: &[Slot] = &[slot("X@GRAD")];

/// Sizes before, along and after an axis.
fn cut(dims: &[i64], at: usize) -> (usize, usize, usize) {
    (numel(&dims[..at]), dims[at] as usize, numel(&dims[at + 1..]))
}

/// The tensor with that axis moved to the end, so that every row is what the kernel works on.
fn to_last(t: &Tensor, at: usize) -> Result<Tensor> {
    if at + 1 == t.rank() {
        return Ok(t.clone());
    }
    let perm = last(t.rank(), at);
    moved(t, &perm)
}

/// The opposite of [`to_last`].
fn from_last(t: Tensor, at: usize) -> Result<Tensor> {
    if at + 1 == t.rank() {
        return Ok(t);
    }
    let there = last(t.rank(), at);
    let mut back = vec![0; there.len()];
    there.iter().enumerate().for_each(|(to, &from)| back[from] = to);
    moved(&t, &back)
}

fn last(rank: usize, at: usize) -> Vec<usize> {
    (0..rank).filter(|&i| i != at).chain([at]).collect()
}

fn moved(t: &Tensor, perm: &[usize]) -> Result<Tensor> {
    let dims: Dims = perm.iter().map(|&i| t.dims()[i]).collect();
    let mut out = Tensor::empty(t.dtype(), &dims)?;
    dispatch!(t.dtype(), T in [f32, f64, i32, i64, f16, bf16, i16, i8, u8, bool], {
        copy::transpose(t.data::<T>(), &to_usize(t.dims()), perm, out.data_mut::<T>()?);
    }, other => bail!(Unimplemented, "no CPU kernel orders data type {other}"));
    Ok(out)
}

// cumsum

fn infer_cumsum(cx: &mut Infer) -> Result<()> {
    let (mut dims, dtype) = (cx.dims(0)?, cx.dtype(0)?);
    if cx.attrs::<CumsumAttrs>().flatten {
        let n = if dims.contains(&-1) { -1 } else { numel(&dims) as i64 };
        dims = Dims::from_slice(&[n]);
    }
    cx.set(0, &dims, dtype);
    cx.share_lod(0, 0);
    Ok(())
}

/// Along the axis of the attributes, or of the flattened tensor.
fn scan(op: &str, a: &CumsumAttrs, reverse: bool, x: &Tensor, out: &mut Tensor) -> Result<()> {
    let flat = [x.numel() as i64];
    let dims = if a.flatten { &flat[..] } else { x.dims() };
    let rank = dims.len() as i64;
    ensure!(
        -rank <= a.axis as i64 && (a.axis as i64) < rank,
        OutOfRange,
        "operator {op}: axis must be in [-{rank}, {rank}), got {}",
        a.axis
    );
    let (_, n, inner) = cut(dims, axis(op, a.axis as i64, dims.len())?);
    dispatch!(x.dtype(), T in [f32, f64, i32, i64, f16, bf16, i16, i8, u8], {
        scan::cumsum(x.data::<T>(), n, inner, a.exclusive, reverse, out.data_mut::<T>()?);
    }, other => bail!(Unimplemented, "operator {op} has no CPU kernel for data type {other}"));
    Ok(())
}

fn cumsum(cx: &mut Run) -> Result<()> {
    let a = cx.attrs::<CumsumAttrs>();
    let x = cx.input(0)?;
    scan(cx.op.name, a, a.reverse, x, cx.out(0)?)
}

/// A cumsum the other way round; of a flattened tensor, one that gives the gradient X's shape back.
fn cumsum_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    let a = f.attrs::<CumsumAttrs>();
    if a.flatten {
        let ins = vec![vec![Src::In(0, None)], vec![Src::GradOut(0, None)]];
        return Ok(vec![GradOp { op: &CUMSUM_FLAT_GRAD, attrs: f.attrs.clone(), ins, outs: vec![vec![Dst(0, None)]] }]);
    }
    let attrs = std::sync::Arc::new(CumsumAttrs { reverse: !a.reverse, ..a.clone() });
    let ins = vec![vec![Src::GradOut(0, None)]];
    Ok(vec![GradOp { op: &CUMSUM, attrs, ins, outs: vec![vec![Dst(0, None)]] }])
}

pub static CUMSUM: Op = Op {
    name: "cumsum",
    inputs: X,
    outputs: OUT,
    attrs: CumsumAttrs::FIELDS,
    infer: infer_cumsum,
    cpu: Kernel::Pure(cumsum),
    grad: Grad::Fn(cumsum_grad),
    ..OP
};
pub static CUMSUM_FLAT_GRAD: Op = Op {
    name: "cumsum_flat_grad",
    inputs: &[slot("X").meta_only(), slot("Out@GRAD")],
    outputs: DX,
    attrs: CumsumAttrs::FIELDS,
    infer: like_x,
    cpu: Kernel::Pure(|cx| {
        let a = cx.attrs::<CumsumAttrs>();
        let dout = cx.input(1)?;
        ensure!(dout.numel() == cx.input(0)?.numel(), InvalidArgument, "operator cumsum_flat_grad: got {dout:?}");
        scan("cumsum_flat_grad", a, !a.reverse, dout, cx.out(0)?)
    }),
    ..OP
};

// arg_max, arg_min

fn infer_arg(cx: &mut Infer) -> Result<()> {
    let a = cx.attrs::<ArgAttrs>();
    let x = cx.dims(0)?;
    let at = axis(cx.op.name, a.axis, x.len())?;
    let dtype = match a.dtype {
        2 => DType::I32,
        3 | i32::MIN..=-1 => DType::I64,
        other => bail!(InvalidArgument, "operator {}: dtype must be int32 (2) or int64 (3), got {other}", cx.op.name),
    };
    if cx.is_run() {
        let n = if a.flatten { numel(&x) as i64 } else { x[at] };
        ensure!(n > 0, InvalidArgument, "operator {}: there is nothing to choose from in shape {x:?}", cx.op.name);
        ensure!(
            dtype == DType::I64 || n <= i32::MAX as i64,
            InvalidArgument,
            "operator {}: positions among {n} elements do not fit int32; set dtype to int64",
            cx.op.name
        );
    }
    let mut dims = Dims::new();
    if !a.flatten {
        dims.extend_from_slice(&x);
        if a.keepdims {
            dims[at] = 1;
        } else {
            dims.remove(at);
        }
    }
    if dims.is_empty() {
        dims.push(1);
    }
    cx.set(0, &dims, dtype);
    Ok(())
}

fn arg_extreme(cx: &mut Run, greatest: bool) -> Result<()> {
    let a = cx.attrs::<ArgAttrs>();
    let x = cx.input(0)?;
    let (n, inner) = if a.flatten {
        (x.numel(), 1)
    } else {
        let (_, n, inner) = cut(x.dims(), axis(cx.op.name, a.axis, x.rank())?);
        (n, inner)
    };
    let mut small = Vec::new();
    let name = cx.op.name;
    let out = cx.out(0)?;
    let narrow = out.dtype() == DType::I32;
    let count = out.numel();
    {
        let positions = if narrow {
            small.resize(count, 0i64);
            &mut small[..]
        } else {
            out.data_mut::<i64>()?
        };
        dispatch!(x.dtype(), T in [f32, f64, i32, i64, i16, u8, i8, f16, bf16], {
            order::arg_extreme(greatest, x.data::<T>(), n, inner, positions);
        }, other => bail!(Unimplemented, "operator {name} has no CPU kernel for data type {other}"));
    }
    if narrow {
        out.data_mut::<i32>()?.iter_mut().zip(&small).for_each(|(o, &p)| *o = p as i32);
    }
    Ok(())
}

const fn arg(name: &'static str, kernel: fn(&mut Run) -> Result<()>) -> Op {
    Op { name, inputs: X, outputs: OUT, attrs: ArgAttrs::FIELDS, infer: infer_arg, cpu: Kernel::Pure(kernel), ..OP }
}
pub static ARG_MAX: Op = arg("arg_max", |cx| arg_extreme(cx, true));
pub static ARG_MIN: Op = arg("arg_min", |cx| arg_extreme(cx, false));

// argsort and top-k: values and where they stood. The gradient goes back there.

const SORTED: &[Slot] = &[slot("Out"), slot("Indices")];
const SORT_GRAD: &[Slot] = &[slot("Indices"), slot("X").meta_only(), slot("Out@GRAD")];
const TOPK_GRAD_INPUTS: &[Slot] = &[slot("X").meta_only(), slot("Indices"), slot("Out@GRAD")];
const X_K: &[Slot] = &[slot("X"), slot("K").opt()];

fn set_sorted(cx: &mut Infer, dims: &[i64]) -> Result<()> {
    let dtype = cx.dtype(0)?;
    cx.set(0, dims, dtype);
    cx.set(1, dims, DType::I64);
    cx.share_lod(0, 0);
    cx.share_lod(1, 0);
    Ok(())
}

/// Gives the outputs what a kernel of rows made, the axis put back in its place.
fn give(cx: &mut Run, values: Tensor, indices: Tensor, at: usize) -> Result<()> {
    let lod = cx.input(0)?.lod.clone();
    cx.set(0, from_last(values, at)?.with_lod(lod.clone()));
    cx.set(1, from_last(indices, at)?.with_lod(lod));
    Ok(())
}

fn argsort(cx: &mut Run) -> Result<()> {
    let a = cx.attrs::<ArgsortAttrs>();
    let x = cx.input(0)?;
    let at = axis(cx.op.name, a.axis as i64, x.rank())?;
    let rows = to_last(x, at)?;
    let n = x.dims()[at] as usize;
    ensure!(n < u32::MAX as usize, Unimplemented, "operator argsort: {n} elements along an axis are too many");
    let mut values = Tensor::empty(x.dtype(), rows.dims())?;
    let mut indices = Tensor::empty(DType::I64, rows.dims())?;
    dispatch!(x.dtype(), T in [f32, f64, i32, i64, f16, bf16, i16, i8, u8, bool], {
        order::sort(a.descending, rows.data::<T>(), n, values.data_mut::<T>()?, indices.data_mut::<i64>()?);
    }, other => return cx.unsupported(other));
    give(cx, values, indices, at)
}

/// In a run the kernel makes the outputs, so nothing is allocated from the shape rule.
fn infer_argsort(cx: &mut Infer) -> Result<()> {
    let x = cx.dims(0)?;
    axis(cx.op.name, cx.attrs::<ArgsortAttrs>().axis as i64, x.len())?;
    if cx.is_run() {
        return Ok(());
    }
    set_sorted(cx, &x)
}

/// k and the axis of a top-k.
struct Top {
    k: i64,
    at: usize,
    largest: bool,
}

fn top(op: &Op, attrs: &oar_core::op::Attrs, rank: usize, k: Option<&Tensor>) -> Result<Top> {
    let (k_attr, at, largest) = match attrs.as_any().downcast_ref::<TopkV2Attrs>() {
        Some(a) => (a.k, a.axis, a.largest),
        None => (attrs.as_any().downcast_ref::<TopkAttrs>().map_or(1, |a| a.k), -1, true),
    };
    let k = match k {
        Some(t) => *t.to_i64s()?.first().ok_or_else(|| err!(InvalidArgument, "operator {}: K is empty", op.name))?,
        None => k_attr as i64,
    };
    ensure!(k >= 1, InvalidArgument, "operator {}: k must be at least 1, got {k}", op.name);
    Ok(Top { k, at: axis(op.name, at as i64, rank)?, largest })
}

fn infer_topk(cx: &mut Infer) -> Result<()> {
    let mut x = cx.dims(0)?;
    let top = top(cx.op, cx.attrs, x.len(), cx.tensor(1))?;
    if cx.is_run() {
        ensure!(
            x[top.at] >= top.k,
            InvalidArgument,
            "operator {}: the input must have at least {} elements along axis {}, got shape {x:?}",
            cx.op.name,
            top.k,
            top.at
        );
        return Ok(());
    }
    x[top.at] = if cx.has(1) { -1 } else { top.k };
    set_sorted(cx, &x)
}

fn topk(cx: &mut Run) -> Result<()> {
    let x = cx.input(0)?;
    let top = top(cx.op, cx.attrs, x.rank(), cx.opt(1))?;
    let rows = to_last(x, top.at)?;
    let n = x.dims()[top.at] as usize;
    let mut dims = Dims::from_slice(rows.dims());
    dims[x.rank() - 1] = top.k;
    let mut values = Tensor::empty(x.dtype(), &dims)?;
    let mut indices = Tensor::empty(DType::I64, &dims)?;
    let k = top.k as usize;
    dispatch!(x.dtype(), T in [f32, f64, i32, i64, f16, bf16, i16, i8, u8], {
        order::topk(top.largest, rows.data::<T>(), n, k, values.data_mut::<T>()?, indices.data_mut::<i64>()?);
    }, other => return cx.unsupported(other));
    give(cx, values, indices, top.at)
}

fn like_x(cx: &mut Infer) -> Result<()> {
    let x = cx.op.input("X").unwrap_or(0);
    let dout = cx.op.input("Out@GRAD").unwrap_or(0);
    let (dims, dtype) = (cx.dims(x)?, cx.dtype(dout)?);
    cx.set(0, &dims, dtype);
    cx.share_lod(0, x);
    Ok(())
}

/// dx[.., indices[.., j, ..], ..] = dout[.., j, ..] along the axis, zero elsewhere.
fn put_back(cx: &mut Run, axis_attr: i32) -> Result<()> {
    let slot = |name| cx.op.input(name).expect("gradients of sorting have X, Indices and Out@GRAD");
    let (x, indices, dout) = (cx.input(slot("X"))?, cx.input(slot("Indices"))?, cx.input(slot("Out@GRAD"))?);
    let name = cx.op.name;
    let at = axis(name, axis_attr as i64, x.rank())?;
    let (_, n, inner) = cut(x.dims(), at);
    let others = |t: &Tensor| t.rank() == x.rank() && (0..x.rank()).all(|i| i == at || t.dims()[i] == x.dims()[i]);
    ensure!(
        indices.dims() == dout.dims() && others(indices),
        InvalidArgument,
        "operator {name}: Indices {indices:?} and Out@GRAD {dout:?} do not fit X {x:?} along axis {at}"
    );
    let k = indices.dims()[at] as usize;
    ensure!(indices.dtype() == DType::I64, InvalidArgument, "operator {name}: Indices must be int64");
    let indices = indices.data::<i64>();
    if let Some(&bad) = indices.iter().find(|&&i| i < 0 || i >= n as i64) {
        bail!(OutOfRange, "operator {name}: index {bad} is outside an axis of {n} elements");
    }
    dispatch!(dout.dtype(), T in [f32, f64, i32, i64, f16, bf16, i16, i8, u8], {
        put(indices, dout.data::<T>(), (n, k, inner), cx.out_data::<T>(0)?);
        Ok(())
    }, other => cx.unsupported(other))
}

fn put<T: Element + Plain>(indices: &[i64], dout: &[T], (n, k, inner): (usize, usize, usize), dx: &mut [T]) {
    if dx.is_empty() {
        return;
    }
    let slab = n * inner;
    let slabs = (16 * 1024 / slab).max(1);
    pool::parts(dx, slabs * slab, |start, part| {
        for (o, dx) in part.chunks_mut(slab).enumerate() {
            let from = (start / slab + o) * k * inner;
            dx.fill(T::default());
            for j in 0..k {
                for i in 0..inner {
                    let at = from + j * inner + i;
                    dx[indices[at] as usize * inner + i] = dout[at];
                }
            }
        }
    });
}

pub static ARGSORT: Op = Op {
    name: "argsort",
    inputs: X,
    outputs: SORTED,
    attrs: ArgsortAttrs::FIELDS,
    infer: infer_argsort,
    cpu: Kernel::Pure(argsort),
    grad: Grad::By(&ARGSORT_GRAD),
    ..OP
};
pub static ARGSORT_GRAD: Op = Op {
    name: "argsort_grad",
    inputs: SORT_GRAD,
    outputs: DX,
    attrs: ArgsortAttrs::FIELDS,
    infer: like_x,
    cpu: Kernel::Pure(|cx| put_back(cx, cx.attrs::<ArgsortAttrs>().axis)),
    ..OP
};
pub static TOP_K: Op = Op {
    name: "top_k",
    inputs: X_K,
    outputs: SORTED,
    attrs: TopkAttrs::FIELDS,
    infer: infer_topk,
    cpu: Kernel::Pure(topk),
    grad: Grad::By(&TOP_K_GRAD),
    ..OP
};
pub static TOP_K_GRAD: Op = Op {
    name: "top_k_grad",
    inputs: TOPK_GRAD_INPUTS,
    outputs: DX,
    attrs: TopkAttrs::FIELDS,
    infer: like_x,
    cpu: Kernel::Pure(|cx| put_back(cx, -1)),
    ..OP
};
pub static TOP_K_V2: Op = Op {
    name: "top_k_v2",
    inputs: X_K,
    outputs: SORTED,
    attrs: TopkV2Attrs::FIELDS,
    infer: infer_topk,
    cpu: Kernel::Pure(topk),
    grad: Grad::By(&TOP_K_V2_GRAD),
    ..OP
};
pub static TOP_K_V2_GRAD: Op = Op {
    name: "top_k_v2_grad",
    inputs: TOPK_GRAD_INPUTS,
    outputs: DX,
    attrs: TopkV2Attrs::FIELDS,
    infer: like_x,
    cpu: Kernel::Pure(|cx| put_back(cx, cx.attrs::<TopkV2Attrs>().axis)),
    ..OP
};

pub static TABLE: &[&Op] = &[
    &CUMSUM,
    &CUMSUM_FLAT_GRAD,
    &ARG_MAX,
    &ARG_MIN,
    &ARGSORT,
    &ARGSORT_GRAD,
    &TOP_K,
    &TOP_K_GRAD,
    &TOP_K_V2,
    &TOP_K_V2_GRAD,
];
