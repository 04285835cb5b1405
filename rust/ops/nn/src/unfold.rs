//! unfold (one column per window) and im2sequence (one row, a step of a sequence, per window): image windows as
//! matrices.

use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Meta, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::conv::unfold::Unfold;
use oar_ops_common::half::in_f32;
use oar_ops_common::window::{Axis, Geometry, Windows};
use std::sync::Arc;

attrs! {
    pub struct UnfoldAttrs {
        kernel_sizes: Vec<i32>, strides: Vec<i32>, paddings: Vec<i32>, dilations: Vec<i32>,
    }
    pub struct SequenceAttrs {
        kernels: Vec<i32>, strides: Vec<i32> = vec![1, 1], paddings: Vec<i32> = vec![0, 0, 0, 0],
        out_stride: Vec<i32> = vec![1, 1],
    }
}

slots! {
    mod unfold { X "X" => Y "Y" }
    mod unfold_grad { DY "Y@GRAD", X "X".meta_only() => DX "X@GRAD" }
    mod sequence { X "X", Y "Y".dispensable() => OUT "Out".kernel_allocated() }
    mod sequence_grad { X "X".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

/// Attribute lists of two axes; paddings are top, left, bottom, right.
struct Lists<'a> {
    op: &'a str,
    kernel: &'a [i32],
    strides: &'a [i32],
    paddings: &'a [i32],
    dilations: &'a [i32],
}

impl Lists<'_> {
    fn geometry(&self, x: &[i64]) -> Result<Geometry> {
        let op = self.op;
        ensure!(x.len() == 4, InvalidArgument, "operator {op}: X must have 4 dimensions, got shape {x:?}");
        ensure!(
            self.kernel.len() == 2 && self.strides.len() == 2 && self.dilations.len() == 2 && self.paddings.len() == 4,
            InvalidArgument,
            "operator {op}: kernel sizes {:?}, strides {:?} and dilations {:?} must have 2 numbers, paddings 4, got {:?}",
            self.kernel,
            self.strides,
            self.dilations,
            self.paddings
        );
        ensure!(
            self.kernel.iter().all(|&k| k > 0),
            InvalidArgument,
            "operator {op}: kernel sizes must be positive, got {:?}",
            self.kernel
        );
        let kernel: Dims = self.kernel.iter().map(|&k| k as i64).collect();
        let p = self.paddings;
        Geometry::new(
            &Windows {
                op,
                data_format: "NCHW",
                kernel: &kernel,
                strides: self.strides,
                dilations: self.dilations,
                paddings: &[p[0], p[2], p[1], p[3]],
                padding_algorithm: "EXPLICIT",
                ceil_mode: false,
            },
            x,
        )
    }
}

/// The product of sizes, -1 if one is unknown; bounded, so that no later product wraps.
fn product(op: &str, sizes: &[i64]) -> Result<i64> {
    if sizes.iter().any(|&n| n < 0) {
        return Ok(-1);
    }
    let n = sizes.iter().try_fold(1i64, |n, &d| n.checked_mul(d)).filter(|&n| n < 1 << 48);
    ensure!(n.is_some(), ResourceExhausted, "operator {op}: windows of sizes {sizes:?} are too many elements");
    Ok(n.unwrap_or(0))
}

fn depth(op: &str, g: &Geometry) -> Result<i64> {
    product(op, &[g.channels, g.axes[0].kernel, g.axes[1].kernel])
}

/// The kernel's description; `column` and `row` are the strides of the matrix.
fn plan(g: &Geometry) -> Unfold {
    let pair = |number: fn(&Axis) -> i64| (number(&g.axes[0]) as usize, number(&g.axes[1]) as usize);
    Unfold {
        channels: g.channels as usize,
        size: pair(|a| a.size),
        out: pair(|a| a.out),
        kernel: pair(|a| a.kernel),
        stride: pair(Axis::step),
        dilation: pair(|a| a.dilation),
        pad: pair(|a| a.pad.0),
        column: 1,
        row: 1,
    }
}

fn columns(op: &str, a: &UnfoldAttrs, x: &[i64]) -> Result<(Unfold, Dims)> {
    let lists =
        Lists { op, kernel: &a.kernel_sizes, strides: &a.strides, paddings: &a.paddings, dilations: &a.dilations };
    let g = lists.geometry(x)?;
    let windows = product(op, &[g.axes[0].out, g.axes[1].out])?;
    let out = Dims::from_slice(&[g.images, depth(op, &g)?, windows]);
    Ok((Unfold { column: windows.max(0) as usize, row: 1, ..plan(&g) }, out))
}

fn infer_unfold(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (cx.dims(unfold::X)?, cx.dtype(unfold::X)?);
    let (_, out) = columns(cx.op.name, cx.attrs(), &x)?;
    cx.set(unfold::Y, &out, dtype);
    Ok(())
}

fn run_unfold(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(unfold::X)?;
    let (u, _) = columns(cx.op.name, cx.attrs(), x.dims())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        u.unfold_images(x.data::<T>(), cx.out_data::<T>(unfold::Y)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_unfold_grad(cx: &mut KernelContext) -> Result<()> {
    let (dy, x) = (cx.input(unfold_grad::DY)?, cx.input(unfold_grad::X)?);
    let (u, out) = columns(cx.op.name, cx.attrs(), x.dims())?;
    fold(cx, dy, &out, &u, unfold_grad::DX)
}

/// The gradient of the images.
fn fold(cx: &mut KernelContext, dy: &Tensor, out: &[i64], u: &Unfold, to: OutSlot) -> Result<()> {
    ensure!(
        dy.dims() == out && cx.out(to)?.dtype() == dy.dtype(),
        InvalidArgument,
        "operator {}: the output's gradient must have shape {out:?} and the type of X, got {dy:?}",
        cx.op.name
    );
    dispatch!(dy.dtype(), T in [f32, f64], {
        u.fold_images(dy.data::<T>(), cx.out_data::<T>(to)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn rows(op: &str, a: &SequenceAttrs, x: &[i64]) -> Result<(Geometry, i64)> {
    let lists = Lists { op, kernel: &a.kernels, strides: &a.strides, paddings: &a.paddings, dilations: &[1, 1] };
    let g = lists.geometry(x)?;
    let depth = depth(op, &g)?;
    Ok((g, depth))
}

fn infer_sequence(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (cx.dims(sequence::X)?, cx.dtype(sequence::X)?);
    let (g, depth) = rows(cx.op.name, cx.attrs(), &x)?;
    // The number of windows may depend on the values of Y.
    let sizes = [g.images, g.axes[0].out, g.axes[1].out];
    let count = if cx.has(sequence::Y) { -1 } else { product(cx.op.name, &sizes)? };
    let meta = Meta { dims: Dims::from_slice(&[count, depth]), dtype, lod_level: 1, ..Meta::default() };
    cx.set_meta(sequence::OUT, 0, meta);
    Ok(())
}

/// Limit of an image's claimed size, in multiples of X's. As in Paddle windows outside X are zeros.
const FAR: i64 = 16;

/// The windows of every image, by its own sizes before the network reduced them by `out_stride`: `sizes` [images, 2].
fn windows_of(op: &str, a: &SequenceAttrs, g: &Geometry, sizes: Option<&Tensor>) -> Result<Vec<(usize, usize)>> {
    let images = g.images as usize;
    let all = (g.axes[0].out as usize, g.axes[1].out as usize);
    // As in Paddle the sizes of a single image are ignored.
    let Some(sizes) = sizes.filter(|_| images > 1) else { return Ok(vec![all; images]) };
    ensure!(
        sizes.dims() == [images as i64, 2] && a.out_stride.len() == 2 && a.out_stride.iter().all(|&s| s > 0),
        InvalidArgument,
        "operator {op}: Y must have shape [{images}, 2] and out_stride two positive numbers, got {:?} and {:?}",
        sizes.dims(),
        a.out_stride
    );
    let mut found = Vec::with_capacity(images);
    #[allow(clippy::unnecessary_cast)] // one of the types is f64
    let values: Vec<f64> = dispatch!(sizes.dtype(), T in [f32, f64, i32, i64],
        sizes.data::<T>().iter().map(|&v| v as f64).collect(),
        other => bail!(InvalidArgument, "operator {op}: Y cannot be of data type {other}"));
    for pair in values.chunks_exact(2) {
        let mut windows = [0usize; 2];
        for i in 0..2 {
            let (axis, shrunk) = (&g.axes[i], a.out_stride[i] as i64);
            let size = pair[i] as i64;
            let fits = size > 0 && size <= axis.size.saturating_mul(shrunk).saturating_mul(FAR);
            let padded = (size + shrunk - 1) / shrunk + axis.pad.0 + axis.pad.1;
            ensure!(
                fits && padded >= axis.kernel,
                InvalidArgument,
                "operator {op}: Y says that an image has the size {size} along an axis: it must have room for a window, and \
                 be at most {FAR} times that of X, whose axis has {} times {shrunk}",
                axis.size
            );
            windows[i] = ((padded - axis.kernel) / axis.stride + 1) as usize;
        }
        found.push((windows[0], windows[1]));
    }
    Ok(found)
}

fn run_sequence(cx: &mut KernelContext) -> Result<()> {
    let (a, x) = (cx.attrs::<SequenceAttrs>(), cx.input(sequence::X)?);
    let (g, depth) = rows(cx.op.name, a, x.dims())?;
    let windows = windows_of(cx.op.name, a, &g, cx.opt(sequence::Y))?;
    let mut offsets = vec![0usize];
    windows.iter().for_each(|w| offsets.push(offsets[offsets.len() - 1] + w.0 * w.1));
    let mut out = Tensor::empty(x.dtype(), &[offsets[offsets.len() - 1] as i64, depth])?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let u = Unfold { column: 1, row: depth as usize, ..plan(&g) };
        u.unfold_sizes(x.data::<T>(), &windows, out.data_mut::<T>()?);
    }, other => return cx.unsupported(other));
    cx.set(sequence::OUT, out.with_lod(Some(Arc::new(vec![offsets]))));
    Ok(())
}

fn run_sequence_grad(cx: &mut KernelContext) -> Result<()> {
    let (a, x, dy) = (cx.attrs::<SequenceAttrs>(), cx.input(sequence_grad::X)?, cx.input(sequence_grad::DOUT)?);
    let (g, depth) = rows(cx.op.name, a, x.dims())?;
    let u = Unfold { column: 1, row: depth as usize, ..plan(&g) };
    let out = [g.images * u.windows() as i64, depth];
    fold(cx, dy, &out, &u, sequence_grad::DX)
}

pub static UNFOLD: Op = Op {
    name: "unfold",
    inputs: unfold::INS,
    outputs: unfold::OUTS,
    attrs: UnfoldAttrs::FIELDS,
    dtypes: FLOATS,
    infer: infer_unfold,
    cpu: Kernel::Pure(|cx| in_f32(cx, unfold::X, run_unfold)),
    grad: Grad::By(&UNFOLD_GRAD),
    ..OP
};

pub static UNFOLD_GRAD: Op = Op {
    name: "unfold_grad",
    inputs: unfold_grad::INS,
    outputs: unfold_grad::OUTS,
    attrs: UnfoldAttrs::FIELDS,
    dtypes: FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, unfold_grad::DY, run_unfold_grad)),
    ..OP
};

pub static IM2SEQUENCE: Op = Op {
    name: "im2sequence",
    inputs: sequence::INS,
    outputs: sequence::OUTS,
    attrs: SequenceAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_sequence,
    cpu: Kernel::Pure(run_sequence),
    grad: Grad::By(&IM2SEQUENCE_GRAD),
    ..OP
};

pub static IM2SEQUENCE_GRAD: Op = Op {
    name: "im2sequence_grad",
    inputs: sequence_grad::INS,
    outputs: sequence_grad::OUTS,
    attrs: SequenceAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_sequence_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&UNFOLD, &UNFOLD_GRAD, &IM2SEQUENCE, &IM2SEQUENCE_GRAD];
