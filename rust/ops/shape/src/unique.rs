//! unique: the distinct elements, or slices along an axis, with positions and counts; unique_with_counts of 1.x.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::shape::numel;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::{Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::shape::unique::{order, Groups};
use oar_ops_common::elements::{strided, strides_of};
use oar_ops_common::tensor_attr::data_type;

attrs! {
    pub struct UniqueAttrs {
        dtype: i32, return_index: bool = false, return_inverse: bool = false, return_counts: bool = false,
        axis: Vec<i32> = vec![], is_sorted: bool = false,
    }
    pub struct UniqueWithCountsAttrs { dtype: i32 }
}

slots! {
    mod unique {
        X "X" => OUT "Out".kernel_allocated(), INVERSE "Index".kernel_allocated(), FIRST "Indices".kernel_allocated().dispensable(), COUNTS "Counts".kernel_allocated().dispensable()
    }
    mod with_counts { X "X" => OUT "Out".kernel_allocated(), INVERSE "Index".kernel_allocated(), COUNT "Count".kernel_allocated() }
}

/// The data type of positions and counts.
fn index_type(op: &str, dtype: i32, count: usize) -> Result<DType> {
    match data_type(op, dtype)? {
        DType::I32 => {
            ensure!(
                count <= i32::MAX as usize,
                InvalidArgument,
                "operator {op}: positions among {count} elements do not fit int32; set dtype to int64"
            );
            Ok(DType::I32)
        }
        DType::I64 => Ok(DType::I64),
        other => bail!(InvalidArgument, "operator {op}: dtype must be int32 or int64, got {other}"),
    }
}

fn axis_of(op: &str, axis: &[i32], rank: usize) -> Result<Option<usize>> {
    axis.first().map(|&a| oar_core::base::shape::axis(op, a as i64, rank)).transpose()
}

fn count(dims: &[i64]) -> i64 {
    if dims.contains(&-1) {
        -1
    } else {
        numel(dims) as i64
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<UniqueAttrs>();
    let (op, x, dtype) = (cx.op.name, cx.dims(unique::X)?, cx.dtype(unique::X)?);
    let ids = index_type(op, a.dtype, 0)?;
    ensure!(a.is_sorted || x.len() == 1, InvalidArgument, "operator {op}: X must have one dimension, got {x:?}");
    let (mut dims, mut among) = (Dims::from_slice(&[-1]), count(&x));
    if let Some(at) = axis_of(op, &a.axis, x.len())?.filter(|_| a.is_sorted) {
        (dims, among) = (x.clone(), x[at]);
        dims[at] = -1;
    }
    cx.set(unique::OUT, &dims, dtype);
    if !a.is_sorted || a.return_inverse {
        cx.set(unique::INVERSE, &[among], ids);
    }
    for (slot, requested) in [(unique::FIRST, a.return_index), (unique::COUNTS, a.return_counts)] {
        if a.is_sorted && requested {
            cx.set(slot, &[-1], ids);
        }
    }
    Ok(())
}

fn numbers(values: &[usize], dtype: DType) -> Result<Tensor> {
    let mut t = Tensor::empty(dtype, &[values.len() as i64])?;
    match dtype {
        DType::I32 => t.data_mut::<i32>()?.iter_mut().zip(values).for_each(|(o, &v)| *o = v as i32),
        _ => t.data_mut::<i64>()?.iter_mut().zip(values).for_each(|(o, &v)| *o = v as i64),
    }
    Ok(t)
}

/// The first rows of the groups.
fn firsts<T: Element>(x: &[T], width: usize, groups: &Groups, dims: &[i64]) -> Result<Tensor> {
    let mut out = Tensor::empty(T::DTYPE, dims)?;
    groups.firsts(x, width, out.data_mut::<T>()?);
    Ok(out)
}

/// The groups and the tensor of their rows, in the operator's order.
fn group(x: &Tensor, n: usize, width: usize, sorted: bool, dims: &[i64]) -> Result<(Groups, Tensor)> {
    dispatch!(x.dtype(), T in [f32, f64, i32, i64, i16, i8, u8], {
        let data = x.data::<T>();
        let groups = if sorted {
            Groups::sorted(data, n, width, |a, b| order(a, b).is_eq())
        } else {
            Groups::sorted(data, n, width, |a, b| a == b).by_first() // as in a hash table: NaNs are distinct
        };
        let mut dims = Dims::from_slice(dims);
        dims[0] = groups.first.len() as i64;
        let out = firsts(data, width, &groups, &dims)?;
        Ok((groups, out))
    }, other => bail!(Unimplemented, "unique has no CPU kernel for data type {other}"))
}

/// The tensor with two axes swapped.
fn swapped(x: &Tensor, at: usize) -> Result<Tensor> {
    let (mut dims, mut strides) = (Dims::from_slice(x.dims()), strides_of(x.dims()));
    dims.swap(0, at);
    strides.swap(0, at);
    strided(x, &dims, &strides, 0)
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (a, op, x) = (cx.attrs::<UniqueAttrs>(), cx.op.name, cx.input(unique::X)?);
    let dtype = index_type(op, a.dtype, x.numel())?;
    let at = axis_of(op, &a.axis, x.rank())?.filter(|_| a.is_sorted);
    let (groups, out) = match at {
        None => group(x, x.numel(), 1, a.is_sorted, &[0])?,
        Some(at) => {
            let rows = swapped(x, at)?;
            let (groups, out) = group(&rows, rows.dims()[0] as usize, numel(&rows.dims()[1..]), true, rows.dims())?;
            (groups, swapped(&out, at)?)
        }
    };
    let mut give = |slot: OutSlot, requested: bool, values: &[usize]| -> Result<()> {
        if requested && cx.wants(slot) {
            cx.set(slot, numbers(values, dtype)?);
        }
        Ok(())
    };
    give(unique::INVERSE, !a.is_sorted || a.return_inverse, &groups.of)?;
    give(unique::FIRST, a.is_sorted && a.return_index, &groups.first)?;
    give(unique::COUNTS, a.is_sorted && a.return_counts, &groups.counts)?;
    cx.set(unique::OUT, out);
    Ok(())
}

const REAL: DTypes = DTypes::FLOATS.union(DTypes::INTEGERS);

pub static UNIQUE: Op = Op {
    name: "unique",
    inputs: unique::INS,
    outputs: unique::OUTS,
    attrs: UniqueAttrs::FIELDS,
    dtypes: REAL,
    infer,
    cpu: Kernel::Pure(run),
    ..OP
};

pub static UNIQUE_WITH_COUNTS: Op = Op {
    name: "unique_with_counts",
    inputs: with_counts::INS,
    outputs: with_counts::OUTS,
    attrs: UniqueWithCountsAttrs::FIELDS,
    dtypes: REAL,
    infer: |cx| {
        let (op, x, dtype) = (cx.op.name, cx.dims(with_counts::X)?, cx.dtype(with_counts::X)?);
        ensure!(x.len() == 1, InvalidArgument, "operator {op}: X must have one dimension, got {x:?}");
        let ids = index_type(op, cx.attrs::<UniqueWithCountsAttrs>().dtype, 0)?;
        cx.set(with_counts::OUT, &[-1], dtype);
        cx.set(with_counts::INVERSE, &x, ids);
        cx.set(with_counts::COUNT, &[-1], ids);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let x = cx.input(with_counts::X)?;
        let dtype = index_type(cx.op.name, cx.attrs::<UniqueWithCountsAttrs>().dtype, x.numel())?;
        let (groups, out) = group(x, x.numel(), 1, false, &[0])?;
        cx.set(with_counts::OUT, out);
        cx.set(with_counts::INVERSE, numbers(&groups.of, dtype)?);
        cx.set(with_counts::COUNT, numbers(&groups.counts, dtype)?);
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&UNIQUE, &UNIQUE_WITH_COUNTS];
