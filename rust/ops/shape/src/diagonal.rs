//! Diagonals of matrices: diag, diag_v2, diag_embed, trace, eye. All use one strided view of a tensor: the elements
//! whose indices along two axes grow together.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::reduce::{self, Reduce};
use oar_ops_common::axis::like;
use oar_ops_common::complex::sum_over;
use oar_ops_common::elements::{set_zero, strided, strided_write, strides_of};
use oar_ops_common::fill::{full, set_all, Scalar};
use oar_ops_common::tensor_attr::data_type;

attrs! {
    pub struct DiagV2Attrs { offset: i32 = 0, padding_value: f32 = 0.0 }
    pub struct DiagEmbedAttrs { offset: i32 = 0, dim1: i32 = -2, dim2: i32 = -1 }
    pub struct TraceAttrs { offset: i32 = 0, axis1: i32 = 0, axis2: i32 = 1 }
    pub struct EyeAttrs { dtype: i32 = 5, num_rows: i64, num_columns: i64 = -1 }
}

slots! {
    mod diag { X "Diagonal" => OUT "Out" }
    mod diag_v2 { X "X" => OUT "Out".kernel_allocated() }
    mod diag_embed { X "Input" => OUT "Out" }
    mod trace { X "Input" => OUT "Out" }
    mod trace_grad { X "Input".meta_only(), DOUT "Out@GRAD" => DX "Input@GRAD" }
    mod eye { => OUT "Out" }
}

/// A diagonal of two axes of a tensor, as a strided view.
struct Diagonal {
    /// The remaining sizes, then the length of the diagonal.
    dims: Dims,
    strides: Vec<isize>,
    first: usize,
}

impl Diagonal {
    fn new(dims: &[i64], offset: i64, rows: usize, cols: usize) -> Diagonal {
        let strides = strides_of(dims);
        let others = || (0..dims.len()).filter(|&i| i != rows && i != cols);
        let length = (dims[rows] - (-offset).max(0)).min(dims[cols] - offset.max(0)).max(0);
        let step = strides[if offset < 0 { rows } else { cols }] as i64;
        Diagonal {
            dims: others().map(|i| dims[i]).chain([length]).collect(),
            strides: others().map(|i| strides[i]).chain([strides[rows] + strides[cols]]).collect(),
            first: if length > 0 { (offset.abs() * step) as usize } else { 0 },
        }
    }

    fn read(&self, x: &Tensor) -> Result<Tensor> {
        strided(x, &self.dims, &self.strides, self.first)
    }

    fn write(&self, values: &Tensor, out: &mut Tensor) -> Result<()> {
        strided_write(values, &self.dims, out, &self.strides, self.first)
    }
}

/// Normalizes two axes, which must differ.
fn two_axes(op: &str, names: [&str; 2], axes: [i32; 2], rank: usize) -> Result<(usize, usize)> {
    let mut found = [0; 2];
    for ((to, &axis), name) in found.iter_mut().zip(&axes).zip(names) {
        let at = axis as i64 + if axis < 0 { rank as i64 } else { 0 };
        ensure!(
            0 <= at && (at as usize) < rank,
            OutOfRange,
            "operator {op}: attribute '{name}' must be in [-{rank}, {rank}), got {axis}"
        );
        *to = at as usize;
    }
    ensure!(found[0] != found[1], InvalidArgument, "operator {op}: the two axes must differ, got {axes:?}");
    Ok((found[0], found[1]))
}

/// `n + |offset|`, -1 if `n` is unknown; saturates instead of overflowing.
fn grown_size(n: i64, offset: i32) -> i64 {
    if n < 0 {
        -1
    } else {
        n.saturating_add((offset as i64).abs())
    }
}

// diag: a vector as the diagonal of a matrix of zeros.

pub static DIAG: Op = Op {
    name: "diag",
    inputs: diag::INS,
    outputs: diag::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        let (x, dtype) = (cx.dims(diag::X)?, cx.dtype(diag::X)?);
        ensure!(x.len() == 1, InvalidArgument, "operator diag: Diagonal must have one dimension, got {x:?}");
        cx.set(diag::OUT, &[x[0], x[0]], dtype);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let x = cx.input(diag::X)?;
        let out = cx.out(diag::OUT)?;
        set_zero(out)?;
        Diagonal::new(&Dims::from_slice(out.dims()), 0, 0, 1).write(x, out)
    }),
    ..OP
};

// diag_v2: a vector as a diagonal, or a diagonal as a vector.

fn infer_diag_v2(cx: &mut ShapeContext) -> Result<()> {
    let (offset, x, dtype) = (cx.attrs::<DiagV2Attrs>().offset, cx.dims(diag_v2::X)?, cx.dtype(diag_v2::X)?);
    match x[..] {
        [n] => cx.set(diag_v2::OUT, &[grown_size(n, offset); 2], dtype),
        [rows, cols] if rows < 0 || cols < 0 => cx.set(diag_v2::OUT, &[-1], dtype),
        [_, _] => cx.set(diag_v2::OUT, &Diagonal::new(&x, offset as i64, 0, 1).dims, dtype),
        _ => bail!(InvalidArgument, "operator diag_v2: X must have 1 or 2 dimensions, got shape {x:?}"),
    }
    Ok(())
}

pub static DIAG_V2: Op = Op {
    name: "diag_v2",
    inputs: diag_v2::INS,
    outputs: diag_v2::OUTS,
    attrs: DiagV2Attrs::FIELDS,
    infer: infer_diag_v2,
    cpu: Kernel::Pure(|cx| {
        let (a, x) = (cx.attrs::<DiagV2Attrs>(), cx.input(diag_v2::X)?);
        let offset = a.offset as i64;
        let out = if x.rank() == 2 {
            Diagonal::new(x.dims(), offset, 0, 1).read(x)?
        } else {
            let dims = [grown_size(x.dims()[0], a.offset); 2];
            let mut out = full(x.dtype(), &dims, Scalar::from(a.padding_value as f64))?;
            Diagonal::new(&dims, offset, 0, 1).write(x, &mut out)?;
            out
        };
        cx.set(diag_v2::OUT, out);
        Ok(())
    }),
    ..OP
};

// diag_embed: the last dimension as diagonals of matrices in two new ones.

fn infer_diag_embed(cx: &mut ShapeContext) -> Result<()> {
    let (a, x, dtype) = (cx.attrs::<DiagEmbedAttrs>(), cx.dims(diag_embed::X)?, cx.dtype(diag_embed::X)?);
    let Some((&n, others)) = x.split_last() else {
        bail!(InvalidArgument, "operator diag_embed: Input must have at least one dimension");
    };
    let (rows, cols) = two_axes(cx.op.name, ["dim1", "dim2"], [a.dim1, a.dim2], x.len() + 1)?;
    let mut dims = Dims::from_slice(others);
    for at in [rows.min(cols), rows.max(cols)] {
        dims.insert(at, grown_size(n, a.offset));
    }
    cx.set(diag_embed::OUT, &dims, dtype);
    Ok(())
}

pub static DIAG_EMBED: Op = Op {
    name: "diag_embed",
    inputs: diag_embed::INS,
    outputs: diag_embed::OUTS,
    attrs: DiagEmbedAttrs::FIELDS,
    infer: infer_diag_embed,
    cpu: Kernel::Pure(|cx| {
        let (a, op, x) = (cx.attrs::<DiagEmbedAttrs>(), cx.op.name, cx.input(diag_embed::X)?);
        let (rows, cols) = two_axes(op, ["dim1", "dim2"], [a.dim1, a.dim2], x.rank() + 1)?;
        let out = cx.out(diag_embed::OUT)?;
        set_zero(out)?;
        Diagonal::new(&Dims::from_slice(out.dims()), a.offset as i64, rows, cols).write(x, out)
    }),
    ..OP
};

// trace: the sums of diagonals.

fn axes_of_trace(op: &str, a: &TraceAttrs, rank: usize) -> Result<(usize, usize)> {
    ensure!(rank >= 2, OutOfRange, "operator {op}: Input must have at least 2 dimensions, got {rank}");
    two_axes(op, ["axis1", "axis2"], [a.axis1, a.axis2], rank)
}

fn traced(op: &str, a: &TraceAttrs, x: &[i64]) -> Result<Dims> {
    let (rows, cols) = axes_of_trace(op, a, x.len())?;
    if x.len() == 2 {
        return Ok(Dims::from_slice(&[1]));
    }
    Ok((0..x.len()).filter(|&i| i != rows && i != cols).map(|i| x[i]).collect())
}

/// The diagonal that trace sums. As in Paddle the offset counts along the later of the two axes.
fn of_trace(op: &str, a: &TraceAttrs, x: &[i64]) -> Result<Diagonal> {
    let (rows, cols) = axes_of_trace(op, a, x.len())?;
    Ok(Diagonal::new(x, a.offset as i64, rows.min(cols), rows.max(cols)))
}

fn trace(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(trace::X)?, cx.attrs::<TraceAttrs>());
    let t = of_trace(cx.op.name, a, x.dims())?.read(x)?;
    let n = t.dims().last().map_or(0, |&n| n as usize);
    if x.dtype().is_complex() {
        let axes: Vec<bool> = (0..t.rank()).map(|i| i + 1 == t.rank()).collect();
        let dims = Dims::from_slice(cx.out(trace::OUT)?.dims());
        cx.set(trace::OUT, sum_over(&t, &axes, &dims)?);
        return Ok(());
    }
    dispatch!(x.dtype(), T in [f32, f64, i32, i64, f16, bf16], {
        let out = cx.out_data::<T>(trace::OUT)?;
        reduce::reduce(Reduce::Sum, t.data::<T>(), &[out.len(), n], &[false, true], out);
        Ok(())
    }, other => cx.unsupported(other))
}

/// Data types of the sums.
const NUMBERS: DTypes = DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INDICES).union(DTypes::COMPLEX);

pub static TRACE: Op = Op {
    name: "trace",
    inputs: trace::INS,
    outputs: trace::OUTS,
    attrs: TraceAttrs::FIELDS,
    dtypes: NUMBERS,
    infer: |cx| {
        let (x, dtype) = (cx.dims(trace::X)?, cx.dtype(trace::X)?);
        let dims = traced(cx.op.name, cx.attrs(), &x)?;
        cx.set(trace::OUT, &dims, dtype);
        Ok(())
    },
    cpu: Kernel::Pure(trace),
    grad: Grad::By(&TRACE_GRAD),
    ..OP
};
pub static TRACE_GRAD: Op = Op {
    name: "trace_grad",
    inputs: trace_grad::INS,
    outputs: trace_grad::OUTS,
    attrs: TraceAttrs::FIELDS,
    dtypes: NUMBERS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| {
        let (a, op) = (cx.attrs::<TraceAttrs>(), cx.op.name);
        let (x, dout) = (cx.input(trace_grad::X)?, cx.input(trace_grad::DOUT)?);
        like(cx, dout, &traced(op, a, x.dims())?, x.dtype(), "Out@GRAD")?;
        let to = of_trace(op, a, x.dims())?;
        // Every element of a diagonal gets the gradient of its sum.
        let n = to.dims.len() - 1;
        let mut strides = strides_of(&to.dims[..n]);
        strides.push(0);
        let spread = strided(dout, &to.dims, &strides, 0)?;
        let dx = cx.out(trace_grad::DX)?;
        set_zero(dx)?;
        to.write(&spread, dx)
    }),
    ..OP
};

// eye: ones on the main diagonal.

pub static EYE: Op = Op {
    name: "eye",
    outputs: eye::OUTS,
    attrs: EyeAttrs::FIELDS,
    infer: |cx| {
        let a = cx.attrs::<EyeAttrs>();
        let cols = if a.num_columns == -1 { a.num_rows } else { a.num_columns };
        ensure!(
            a.num_rows >= 0 && cols >= 0,
            InvalidArgument,
            "operator eye: num_rows and num_columns must not be negative, got {} and {}",
            a.num_rows,
            a.num_columns
        );
        let dtype = data_type(cx.op.name, a.dtype)?;
        cx.set(eye::OUT, &[a.num_rows, cols], dtype);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let out = cx.out(eye::OUT)?;
        set_zero(out)?;
        let d = Diagonal::new(&Dims::from_slice(out.dims()), 0, 0, 1);
        let mut ones = Tensor::empty(out.dtype(), &d.dims)?;
        set_all(&mut ones, Scalar { float: 1.0, int: Some(1) })?;
        d.write(&ones, out)
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&DIAG, &DIAG_V2, &DIAG_EMBED, &TRACE, &TRACE_GRAD, &EYE];
