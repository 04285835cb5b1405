//! pad2d and pad3d: images padded by a constant, the edge value, reflection or wrap-around.

use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Attrs, Dst, Fwd, Grad, GradOp, InSlot, Kernel, KernelContext, Op, ShapeContext, Src, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, err, slots};
use oar_kernels::resample::resize::{self as kernel, Taps};
use oar_kernels::types::Float;
use oar_ops_common::by_size;
use oar_ops_common::elements::{words, words_mut};
use oar_ops_common::fill::{set_all, Scalar};
use oar_ops_common::half::in_f32;
use oar_ops_common::region::Region;
use oar_ops_common::tensor_attr::{tensor_attr, AttrInputs, AttrSource, TensorAttr};
use oar_ops_common::window::{channels_last, split_images};
use std::sync::Arc;

attrs! {
    pub struct Pad2dAttrs {
        paddings: Vec<i32>, pad_value: f32 = 0.0, mode: Text = "constant".into(), data_format: Text = "NCHW".into(),
    }
    pub struct Pad3dAttrs {
        paddings: Vec<i32>, value: f32 = 0.0, mode: Text = "constant".into(), data_format: Text = "NCDHW".into(),
    }
}

slots! {
    mod forward { X "X", PADDINGS "Paddings".dispensable() => OUT "Out" }
    mod backward { X "X".meta_only(), PADDINGS "Paddings".dispensable(), DOUT "Out@GRAD" => DX "X@GRAD" }
}

#[derive(Clone, Copy, PartialEq)]
enum PadMode {
    Constant,
    Mirror,
    Edge,
    Around,
}

/// The attributes of both operators.
struct Border<'a> {
    paddings: &'a [i32],
    value: f32,
    mode: PadMode,
    last: bool,
    /// Number of spatial axes.
    axes: usize,
    /// 2.0: the paddings are listed from the last axis.
    from_last: bool,
}

fn border<'a>(op: &str, attrs: &'a Attrs) -> Result<Border<'a>> {
    let (mode, edge, paddings, value, format, axes) = match attrs.as_any().downcast_ref::<Pad2dAttrs>() {
        Some(a) => (&a.mode[..], "edge", &a.paddings, a.pad_value, &a.data_format, 2),
        None => {
            let a = attrs.as_any().downcast_ref::<Pad3dAttrs>().expect("attributes of another operator");
            (&a.mode[..], "replicate", &a.paddings, a.value, &a.data_format, 3)
        }
    };
    let mode = match mode {
        "constant" => PadMode::Constant,
        "reflect" => PadMode::Mirror,
        "circular" if axes == 3 => PadMode::Around,
        other if other == edge => PadMode::Edge,
        other => bail!(InvalidArgument, "operator {op}: unknown mode '{other}'"),
    };
    Ok(Border { paddings, value, mode, last: channels_last(format), axes, from_last: axes == 3 })
}

impl Border<'_> {
    /// Padding before and after each axis; `None` while unknown.
    fn paddings(&self, cx: &impl AttrInputs, slot: InSlot) -> Result<Option<Vec<[i64; 2]>>> {
        let flat = match tensor_attr(cx, &[AttrSource::One(slot)])? {
            TensorAttr::Known(v) => v,
            TensorAttr::Length(_) => return Ok(None),
            TensorAttr::Absent => self.paddings.iter().map(|&p| p as i64).collect(),
        };
        ensure!(
            flat.len() == 2 * self.axes,
            InvalidArgument,
            "operator {}: paddings must have {} numbers, two per axis, got {flat:?}",
            cx.op().name,
            2 * self.axes
        );
        let mut each: Vec<[i64; 2]> = flat.chunks_exact(2).map(|p| [p[0], p[1]]).collect();
        if self.from_last {
            each.reverse();
        }
        Ok(Some(each))
    }

    fn check(&self, op: &str, x: &[i64]) -> Result<()> {
        ensure!(
            x.len() == self.axes + 2,
            InvalidArgument,
            "operator {op}: X must have {} dimensions, got shape {x:?}",
            self.axes + 2
        );
        Ok(())
    }

    /// The output shape; -1 for unknown sizes.
    fn out(&self, op: &str, x: &[i64], paddings: Option<&[[i64; 2]]>) -> Result<Dims> {
        let first = if self.last { 1 } else { 2 };
        let mut out = Dims::from_slice(x);
        for (i, d) in out[first..first + self.axes].iter_mut().enumerate() {
            let Some(&[before, after]) = paddings.map(|p| &p[i]) else {
                *d = -1;
                continue;
            };
            if *d < 0 {
                continue;
            }
            let size = *d + before + after;
            ensure!(
                size >= 0,
                InvalidArgument,
                "operator {op}: paddings {before} and {after} take more than an axis of size {d} has"
            );
            let fits = match self.mode {
                PadMode::Mirror => before < *d && after < *d,
                PadMode::Edge | PadMode::Around => *d > 0 || size == 0,
                PadMode::Constant => true,
            };
            ensure!(
                fits,
                InvalidArgument,
                "operator {op}: an axis of size {d} cannot be padded by {before} and {after} elements of its own; \
                 mirrored, the axis must be longer than its paddings"
            );
            *d = size;
        }
        Ok(out)
    }

    /// The source element of position `at` (negative: before the first) on an axis of `n` elements; `None` in constant
    /// padding.
    fn element(&self, at: i64, n: i64) -> Option<usize> {
        let inside = match self.mode {
            PadMode::Constant => return (0 <= at && at < n).then_some(at as usize),
            PadMode::Edge => at.clamp(0, n - 1),
            PadMode::Around => at.rem_euclid(n),
            // Paddings are less than the axis, so one reflection suffices.
            PadMode::Mirror if at < 0 => -at,
            PadMode::Mirror if at >= n => 2 * (n - 1) - at,
            PadMode::Mirror => at,
        };
        Some(inside as usize)
    }

    /// Taps of rows (the axes before the last) and columns.
    fn taps<T: Float>(&self, op: &str, x: &[i64], paddings: &[[i64; 2]]) -> Result<(Taps<T>, Taps<T>)> {
        let too_large = || err!(ResourceExhausted, "operator {op}: out of memory for paddings {paddings:?}");
        let (_, _, axes) = split_images(x, self.last);
        let mut all = Vec::new();
        for (&n, &[before, after]) in axes.iter().zip(paddings) {
            let size = (n + before + after).max(0) as usize;
            let taps = Taps::picked(n as usize, size, |i| self.element(i as i64 - before, n));
            all.push(taps.ok_or_else(too_large)?);
        }
        let cols = all.pop().expect("two axes at least");
        let rows = match &all[..] {
            [depth, height] => depth.times(height).ok_or_else(too_large)?,
            _ => all.remove(0),
        };
        Ok((rows, cols))
    }

    fn inner(&self, x: &[i64]) -> usize {
        if self.last {
            x[x.len() - 1] as usize
        } else {
            1
        }
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype, b) = (cx.dims(forward::X)?, cx.dtype(forward::X)?, border(cx.op.name, cx.attrs)?);
    b.check(cx.op.name, &x)?;
    let paddings = b.paddings(cx, forward::PADDINGS)?;
    let out = b.out(cx.op.name, &x, paddings.as_deref())?;
    cx.set(forward::OUT, &out, dtype);
    cx.share_lod(forward::OUT, forward::X);
    Ok(())
}

/// The checked paddings and the output shape, in a kernel.
fn known(cx: &KernelContext, b: &Border, x: &[i64]) -> Result<(Vec<[i64; 2]>, Dims)> {
    b.check(cx.op.name, x)?;
    let paddings = b.paddings(cx, forward::PADDINGS)?;
    let paddings = paddings.ok_or_else(|| err!(NoValue, "operator {}: Paddings holds no value", cx.op.name))?;
    let out = b.out(cx.op.name, x, Some(&paddings))?;
    Ok((paddings, out))
}

fn run_pad(cx: &mut KernelContext) -> Result<()> {
    let (op, x) = (cx.op.name, cx.input(forward::X)?);
    let b = border(op, cx.attrs)?;
    let (paddings, _) = known(cx, &b, x.dims())?;
    let out = cx.out(forward::OUT)?;
    if b.mode == PadMode::Constant {
        return surround(&b, x, &paddings, out);
    }
    if out.numel() == 0 {
        return Ok(());
    }
    let (rows, cols) = b.taps::<f32>(op, x.dims(), &paddings)?;
    by_size!(x.dtype(), T, kernel::pick(&rows, &cols, b.inner(x.dims()), words::<T>(x), words_mut::<T>(out)?));
    Ok(())
}

/// The region of `x` that remains (negative paddings crop), and its region in the output.
fn kept_regions(b: &Border, x: &[i64], out: &[i64], paddings: &[[i64; 2]]) -> (Region, Region) {
    let (mut from, mut to) = (Region::whole(x), Region::whole(out));
    let first = if b.last { 1 } else { 2 };
    for (i, &[before, after]) in paddings.iter().enumerate() {
        let left = (x[first + i] + before.min(0) + after.min(0)).max(0);
        from.narrow(first + i, -before.min(0), 1, left);
        to.narrow(first + i, before.max(0), 1, left);
    }
    (from, to)
}

/// Constant padding.
fn surround(b: &Border, x: &Tensor, paddings: &[[i64; 2]], out: &mut Tensor) -> Result<()> {
    set_all(out, Scalar::from(b.value as f64))?;
    let (from, to) = kept_regions(b, x.dims(), out.dims(), paddings);
    if from.numel() == 0 {
        return Ok(());
    }
    let dims = from.dims.clone();
    to.write(&from.read(x, &dims)?, out)
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (op, d) = (cx.op.name, cx.input(backward::DOUT)?);
    let (b, x) = (border(op, cx.attrs)?, Dims::from_slice(cx.input(backward::X)?.dims()));
    let (paddings, out) = known(cx, &b, &x)?;
    let dx = cx.out(backward::DX)?;
    ensure!(
        d.dims() == &out[..] && d.dtype() == dx.dtype(),
        InvalidArgument,
        "operator {op}: Out@GRAD must have the shape {:?} and the data type of X, got {d:?}",
        &out[..]
    );
    if dx.numel() == 0 {
        return Ok(());
    }
    if d.numel() == 0 {
        return set_all(dx, Scalar::from(0.0));
    }
    if b.mode == PadMode::Constant {
        let (from, to) = kept_regions(&b, &x, &out, &paddings);
        if from.dims == x {
            *dx = to.read(d, &x)?.with_lod(dx.lod.take());
            return Ok(());
        }
        set_all(dx, Scalar::from(0.0))?;
        return if from.numel() > 0 { from.write(&to.read(d, &from.dims)?, dx) } else { Ok(()) };
    }
    dispatch!(d.dtype(), T in [f32, f64], {
        let (rows, cols) = b.taps::<T>(op, &x, &paddings)?;
        let turned = rows.transposed().zip(cols.transposed());
        let (rows, cols) = turned.ok_or_else(|| err!(ResourceExhausted, "operator {op}: out of memory"))?;
        kernel::resample(&rows, &cols, b.inner(&x), d.data::<T>(), dx.data_mut::<T>()?);
    }, other => return cx.unsupported(other));
    Ok(())
}

/// The gradient is linear: its gradient pads the incoming one, with zeros where the forward operator has the constant.
fn second(f: &Fwd) -> Result<Vec<GradOp>> {
    let zeros = Pad3dAttrs { value: 0.0, ..f.attrs::<Pad3dAttrs>().clone() };
    let paddings = match f.ins.get(backward::PADDINGS.0) {
        Some(&n) if n > 0 => vec![Src::In(backward::PADDINGS.0, None)],
        _ => vec![],
    };
    Ok(vec![GradOp {
        op: &PAD3D,
        attrs: Arc::new(zeros),
        ins: vec![vec![Src::GradOut(backward::DX.0, None)], paddings],
        outs: vec![vec![Dst(backward::DOUT.0, None)]],
    }])
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

macro_rules! pads {
    ($($op:ident $name:literal $attrs:ident, $grad:ident $grad_name:literal $second:expr;)*) => {
        $(pub static $op: Op = Op {
            name: $name, inputs: forward::INS, outputs: forward::OUTS, attrs: $attrs::FIELDS,
            dtypes: FLOATS.union(DTypes::INTEGERS).union(DTypes::BOOL), infer, cpu: Kernel::Pure(run_pad),
            grad: Grad::By(&$grad), ..OP
        };
        pub static $grad: Op = Op {
            name: $grad_name, inputs: backward::INS, outputs: backward::OUTS, attrs: $attrs::FIELDS, dtypes: FLOATS,
            infer: grads_like_inputs, cpu: Kernel::Pure(|cx| in_f32(cx, backward::DOUT, run_grad)), grad: $second,
            ..OP
        };)*
        pub static TABLE: &[&Op] = &[$(&$op, &$grad),*];
    };
}
pads! {
    PAD2D "pad2d" Pad2dAttrs, PAD2D_GRAD "pad2d_grad" Grad::None;
    PAD3D "pad3d" Pad3dAttrs, PAD3D_GRAD "pad3d_grad" Grad::Fn(second);
}
