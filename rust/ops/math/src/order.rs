//! Operators about the order of elements along an axis: cumsum, arg_max, arg_min, argsort, top_k, top_k_v2.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::shape::{axis, numel, to_usize};
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::{Dst, Fwd, Grad, GradOp, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, Src, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, err, slots};
use oar_kernels::types::Plain;
use oar_kernels::{order, pool, scan, shape::copy};

attrs! {
    pub struct CumsumAttrs { axis: i32 = -1, flatten: bool = false, exclusive: bool = false, reverse: bool = false }
    pub struct ArgAttrs { axis: i64, keepdims: bool = false, flatten: bool = false, dtype: i32 = 3 }
    pub struct ArgsortAttrs { axis: i32 = -1, descending: bool = false }
    pub struct TopkAttrs { k: i32 = 1 }
    pub struct TopkV2Attrs { k: i32 = 1, axis: i32 = -1, largest: bool = true, sorted: bool = true }
}

slots! {
    mod unary { X "X" => OUT "Out" }
    mod cumsum_flat_grad { X "X".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD" }
    mod argsort { X "X" => OUT "Out".kernel_allocated(), INDICES "Indices".kernel_allocated() }
    mod argsort_grad { INDICES "Indices", X "X".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD" }
    mod top_k { X "X", K "K".dispensable() => OUT "Out".kernel_allocated(), INDICES "Indices".kernel_allocated() }
    mod top_k_grad { X "X".meta_only(), INDICES "Indices", DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// What these kernels take.
const REAL: DTypes = DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INTEGERS);

/// Sizes before, along and after an axis.
fn cut(dims: &[i64], at: usize) -> (usize, usize, usize) {
    (numel(&dims[..at]), dims[at] as usize, numel(&dims[at + 1..]))
}

/// Number of elements, -1 if a size is unknown.
fn count(dims: &[i64]) -> i64 {
    if dims.iter().any(|&d| d < 0) {
        return -1;
    }
    numel(dims) as i64
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

fn infer_cumsum(cx: &mut ShapeContext) -> Result<()> {
    let (mut dims, dtype) = (cx.dims(unary::X)?, cx.dtype(unary::X)?);
    if cx.attrs::<CumsumAttrs>().flatten {
        dims = Dims::from_slice(&[count(&dims)]);
    }
    cx.set(unary::OUT, &dims, dtype);
    cx.share_lod(unary::OUT, unary::X);
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

fn cumsum(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<CumsumAttrs>();
    let x = cx.input(unary::X)?;
    scan(cx.op.name, a, a.reverse, x, cx.out(unary::OUT)?)
}

/// A cumsum the other way round; of a flattened tensor, one that gives the gradient X's shape back.
fn cumsum_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    let a = f.attrs::<CumsumAttrs>();
    if a.flatten {
        let (x, out) = (unary::X.0, unary::OUT.0);
        let ins = vec![vec![Src::In(x, None)], vec![Src::GradOut(out, None)]];
        return Ok(vec![GradOp { op: &CUMSUM_FLAT_GRAD, attrs: f.attrs.clone(), ins, outs: vec![vec![Dst(x, None)]] }]);
    }
    let attrs = std::sync::Arc::new(CumsumAttrs { reverse: !a.reverse, ..a.clone() });
    Ok(vec![GradOp::of_first(&CUMSUM, attrs)])
}

pub static CUMSUM: Op = Op {
    name: "cumsum",
    inputs: unary::INS,
    outputs: unary::OUTS,
    attrs: CumsumAttrs::FIELDS,
    dtypes: REAL,
    infer: infer_cumsum,
    cpu: Kernel::Pure(cumsum),
    grad: Grad::Fn(cumsum_grad),
    ..OP
};
pub static CUMSUM_FLAT_GRAD: Op = Op {
    name: "cumsum_flat_grad",
    inputs: cumsum_flat_grad::INS,
    outputs: cumsum_flat_grad::OUTS,
    attrs: CumsumAttrs::FIELDS,
    dtypes: REAL,
    infer: |cx| shape_of_x(cx, cumsum_flat_grad::X, cumsum_flat_grad::DOUT, cumsum_flat_grad::DX),
    cpu: Kernel::Pure(|cx| {
        let a = cx.attrs::<CumsumAttrs>();
        let (x, dout) = (cx.input(cumsum_flat_grad::X)?, cx.input(cumsum_flat_grad::DOUT)?);
        ensure!(
            dout.numel() == x.numel(),
            InvalidArgument,
            "operator cumsum_flat_grad: Out@GRAD must have as many elements as X of shape {:?}, got {dout:?}",
            x.dims()
        );
        scan("cumsum_flat_grad", a, !a.reverse, dout, cx.out(cumsum_flat_grad::DX)?)
    }),
    ..OP
};

// arg_max, arg_min

fn infer_arg(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<ArgAttrs>();
    let x = cx.dims(unary::X)?;
    let at = axis(cx.op.name, a.axis, x.len())?;
    let dtype = match a.dtype {
        2 => DType::I32,
        3 | i32::MIN..=-1 => DType::I64,
        other => bail!(InvalidArgument, "operator {}: dtype must be int32 (2) or int64 (3), got {other}", cx.op.name),
    };
    let n = if a.flatten { count(&x) } else { x[at] };
    ensure!(n != 0, InvalidArgument, "operator {}: there is nothing to choose from in shape {x:?}", cx.op.name);
    ensure!(
        dtype == DType::I64 || n <= i32::MAX as i64,
        InvalidArgument,
        "operator {}: positions among {n} elements do not fit int32; set dtype to int64",
        cx.op.name
    );
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
    cx.set(unary::OUT, &dims, dtype);
    Ok(())
}

fn arg_extreme(cx: &mut KernelContext, greatest: bool) -> Result<()> {
    let a = cx.attrs::<ArgAttrs>();
    let x = cx.input(unary::X)?;
    let (n, inner) = if a.flatten {
        (x.numel(), 1)
    } else {
        let (_, n, inner) = cut(x.dims(), axis(cx.op.name, a.axis, x.rank())?);
        (n, inner)
    };
    let mut small = Vec::new();
    let name = cx.op.name;
    let out = cx.out(unary::OUT)?;
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

const fn arg(name: &'static str, kernel: fn(&mut KernelContext) -> Result<()>) -> Op {
    Op {
        name,
        inputs: unary::INS,
        outputs: unary::OUTS,
        attrs: ArgAttrs::FIELDS,
        dtypes: REAL,
        infer: infer_arg,
        cpu: Kernel::Pure(kernel),
        ..OP
    }
}
pub static ARG_MAX: Op = arg("arg_max", |cx| arg_extreme(cx, true));
pub static ARG_MIN: Op = arg("arg_min", |cx| arg_extreme(cx, false));

// argsort and top-k: values and where they stood. The gradient goes back there.

/// Values of X's data type and int64 positions, both of shape `dims` and with the LoD of X.
fn set_sorted(cx: &mut ShapeContext, dims: &[i64], [values, indices]: [OutSlot; 2]) -> Result<()> {
    let dtype = cx.dtype(argsort::X)?;
    cx.set(values, dims, dtype);
    cx.set(indices, dims, DType::I64);
    cx.share_lod(values, argsort::X);
    cx.share_lod(indices, argsort::X);
    Ok(())
}

/// Gives the outputs what a kernel of rows made, the axis put back in its place.
fn give(cx: &mut KernelContext, values: Tensor, indices: Tensor, at: usize, slots: [OutSlot; 2]) -> Result<()> {
    let lod = &cx.input(argsort::X)?.lod;
    cx.set(slots[0], from_last(values, at)?.with_lod(lod.clone()));
    cx.set(slots[1], from_last(indices, at)?.with_lod(lod.clone()));
    Ok(())
}

fn run_argsort(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<ArgsortAttrs>();
    let x = cx.input(argsort::X)?;
    let at = axis(cx.op.name, a.axis as i64, x.rank())?;
    let rows = to_last(x, at)?;
    let n = x.dims()[at] as usize;
    ensure!(n < u32::MAX as usize, Unimplemented, "operator argsort: {n} elements along an axis are too many");
    let mut values = Tensor::empty(x.dtype(), rows.dims())?;
    let mut indices = Tensor::empty(DType::I64, rows.dims())?;
    dispatch!(x.dtype(), T in [f32, f64, i32, i64, f16, bf16, i16, i8, u8, bool], {
        order::sort(a.descending, rows.data::<T>(), n, values.data_mut::<T>()?, indices.data_mut::<i64>()?);
    }, other => return cx.unsupported(other));
    give(cx, values, indices, at, [argsort::OUT, argsort::INDICES])
}

fn infer_argsort(cx: &mut ShapeContext) -> Result<()> {
    let x = cx.dims(argsort::X)?;
    axis(cx.op.name, cx.attrs::<ArgsortAttrs>().axis as i64, x.len())?;
    set_sorted(cx, &x, [argsort::OUT, argsort::INDICES])
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

fn infer_topk(cx: &mut ShapeContext) -> Result<()> {
    let mut x = cx.dims(top_k::X)?;
    let k = cx.tensor(top_k::K);
    let top = top(cx.op, cx.attrs, x.len(), k)?;
    // Without values of K the attribute says nothing.
    let known = k.is_some() || !cx.has(top_k::K);
    ensure!(
        !known || x[top.at] < 0 || x[top.at] >= top.k,
        InvalidArgument,
        "operator {}: the input must have at least {} elements along axis {}, got shape {x:?}",
        cx.op.name,
        top.k,
        top.at
    );
    x[top.at] = if known { top.k } else { -1 };
    set_sorted(cx, &x, [top_k::OUT, top_k::INDICES])
}

fn topk(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(top_k::X)?;
    let top = top(cx.op, cx.attrs, x.rank(), cx.opt(top_k::K))?;
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
    give(cx, values, indices, top.at, [top_k::OUT, top_k::INDICES])
}

/// The gradient has the shape and LoD of X and the data type of `Out@GRAD`.
fn shape_of_x(cx: &mut ShapeContext, x: InSlot, dout: InSlot, dx: OutSlot) -> Result<()> {
    let (dims, dtype) = (cx.dims(x)?, cx.dtype(dout)?);
    cx.set(dx, &dims, dtype);
    cx.share_lod(dx, x);
    Ok(())
}

/// Slots of the gradient of a sorting.
struct SortGrad {
    x: InSlot,
    indices: InSlot,
    dout: InSlot,
    dx: OutSlot,
}

const ARGSORT_SLOTS: SortGrad =
    SortGrad { x: argsort_grad::X, indices: argsort_grad::INDICES, dout: argsort_grad::DOUT, dx: argsort_grad::DX };
const TOP_K_SLOTS: SortGrad =
    SortGrad { x: top_k_grad::X, indices: top_k_grad::INDICES, dout: top_k_grad::DOUT, dx: top_k_grad::DX };

/// dx[.., indices[.., j, ..], ..] = dout[.., j, ..] along the axis, zero elsewhere.
fn put_back(cx: &mut KernelContext, slots: SortGrad, axis_attr: i32) -> Result<()> {
    let (x, indices, dout) = (cx.input(slots.x)?, cx.input(slots.indices)?, cx.input(slots.dout)?);
    let name = cx.op.name;
    let at = axis(name, axis_attr as i64, x.rank())?;
    let (_, n, inner) = cut(x.dims(), at);
    let others = |t: &Tensor| t.rank() == x.rank() && (0..x.rank()).all(|i| i == at || t.dims()[i] == x.dims()[i]);
    ensure!(
        indices.dims() == dout.dims() && others(indices) && dout.dtype() == x.dtype(),
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
        put(indices, dout.data::<T>(), (n, k, inner), cx.out_data::<T>(slots.dx)?);
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
    inputs: argsort::INS,
    outputs: argsort::OUTS,
    attrs: ArgsortAttrs::FIELDS,
    dtypes: REAL.union(DTypes::BOOL),
    infer: infer_argsort,
    cpu: Kernel::Pure(run_argsort),
    grad: Grad::By(&ARGSORT_GRAD),
    ..OP
};
pub static ARGSORT_GRAD: Op = Op {
    name: "argsort_grad",
    inputs: argsort_grad::INS,
    outputs: argsort_grad::OUTS,
    attrs: ArgsortAttrs::FIELDS,
    infer: |cx| shape_of_x(cx, argsort_grad::X, argsort_grad::DOUT, argsort_grad::DX),
    cpu: Kernel::Pure(|cx| put_back(cx, ARGSORT_SLOTS, cx.attrs::<ArgsortAttrs>().axis)),
    ..OP
};
pub static TOP_K: Op = Op {
    name: "top_k",
    inputs: top_k::INS,
    outputs: top_k::OUTS,
    dtypes: REAL,
    attrs: TopkAttrs::FIELDS,
    infer: infer_topk,
    cpu: Kernel::Pure(topk),
    grad: Grad::By(&TOP_K_GRAD),
    ..OP
};
pub static TOP_K_GRAD: Op = Op {
    name: "top_k_grad",
    inputs: top_k_grad::INS,
    outputs: top_k_grad::OUTS,
    dtypes: REAL,
    attrs: TopkAttrs::FIELDS,
    infer: |cx| shape_of_x(cx, top_k_grad::X, top_k_grad::DOUT, top_k_grad::DX),
    cpu: Kernel::Pure(|cx| put_back(cx, TOP_K_SLOTS, -1)),
    ..OP
};
pub static TOP_K_V2: Op = Op {
    name: "top_k_v2",
    inputs: top_k::INS,
    outputs: top_k::OUTS,
    dtypes: REAL,
    attrs: TopkV2Attrs::FIELDS,
    infer: infer_topk,
    cpu: Kernel::Pure(topk),
    grad: Grad::By(&TOP_K_V2_GRAD),
    ..OP
};
pub static TOP_K_V2_GRAD: Op = Op {
    name: "top_k_v2_grad",
    inputs: top_k_grad::INS,
    outputs: top_k_grad::OUTS,
    dtypes: REAL,
    attrs: TopkV2Attrs::FIELDS,
    infer: |cx| shape_of_x(cx, top_k_grad::X, top_k_grad::DOUT, top_k_grad::DX),
    cpu: Kernel::Pure(|cx| put_back(cx, TOP_K_SLOTS, cx.attrs::<TopkV2Attrs>().axis)),
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
