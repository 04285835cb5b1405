//! Interpolation: linear, bilinear, trilinear, bicubic and nearest, of 1.x (one scale) and 2.0 (a scale per axis).

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Attrs, Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, err, slots};
use oar_kernels::resample::resize::{self as kernel, Axis, Method, Taps};
use oar_kernels::types::Float;
use oar_ops_common::half::in_f32;
use oar_ops_common::tensor_attr::{tensor_attr, AttrInputs, AttrSource, TensorAttr};
use oar_ops_common::window::split_images;
use smallvec::SmallVec;

attrs! {
    pub struct ResizeAttrs {
        data_layout: Text = "NCHW".into(), out_d: i32 = 0, out_h: i32 = 0, out_w: i32 = 0, scale: f32 = 0.0,
        interp_method: Text = "bilinear".into(), align_corners: bool = true, align_mode: i32 = 1,
        use_mkldnn: bool = false,
    }
    pub struct ResizeV2Attrs {
        data_layout: Text = "NCHW".into(), out_d: i32 = 0, out_h: i32 = 0, out_w: i32 = 0, scale: Vec<f32> = vec![],
        interp_method: Text = "bilinear".into(), align_corners: bool = true, align_mode: i32 = 1,
    }
}

slots! {
    mod forward { X "X", OUT_SIZE "OutSize".dispensable(), SIZES "SizeTensor".duplicable().dispensable(), SCALE "Scale".dispensable() => OUT "Out" }
    mod backward {
        X "X".meta_only(), OUT_SIZE "OutSize".dispensable(), SIZES "SizeTensor".duplicable().dispensable(), SCALE "Scale".dispensable(),
        DOUT "Out@GRAD" => DX "X@GRAD"
    }
}

/// One value per resized axis (one to three).
type Axes<T> = SmallVec<[T; 3]>;

/// The attributes of both versions. X, the sizes and the scale have the same slot numbers in forward and gradient
/// operators.
struct Resize<'a> {
    last: bool,
    /// Depth, height, width; unset if not positive.
    sizes: [i32; 3],
    scale: &'a [f32],
    /// 1.x: one scale, used only if positive, and not for the sampling positions.
    one_scale: bool,
    method: &'a str,
    align_corners: bool,
    align_mode: i32,
}

fn resize_of(attrs: &Attrs) -> Resize<'_> {
    macro_rules! view {
        ($a:expr, $scale:expr, $one_scale:expr) => {
            Resize {
                last: &$a.data_layout[..] != "NCHW",
                sizes: [$a.out_d, $a.out_h, $a.out_w],
                scale: $scale,
                one_scale: $one_scale,
                method: &$a.interp_method,
                align_corners: $a.align_corners,
                align_mode: $a.align_mode,
            }
        };
    }
    match attrs.as_any().downcast_ref::<ResizeAttrs>() {
        Some(a) => view!(a, if a.scale > 0.0 { std::slice::from_ref(&a.scale) } else { &[] }, true),
        None => {
            let a = attrs.as_any().downcast_ref::<ResizeV2Attrs>().expect("attributes of another operator");
            view!(a, &a.scale, false)
        }
    }
}

/// The output sizes (-1: unknown while a Program is built) and the scales, if they apply.
struct Wanted {
    sizes: Axes<i64>,
    scale: Option<Axes<f32>>,
}

impl Resize<'_> {
    fn check(&self, op: &str, x: &[i64]) -> Result<()> {
        ensure!(
            (3..=5).contains(&x.len()),
            Unimplemented,
            "operator {op}: X must have 3, 4 or 5 dimensions, got shape {x:?}"
        );
        let methods: &[&str] = [&["linear"][..], &["bilinear", "nearest", "bicubic"], &["trilinear"]][x.len() - 3];
        ensure!(
            methods.contains(&self.method),
            InvalidArgument,
            "operator {op}: interp_method for an X of {} dimensions must be one of {methods:?}, got '{}'",
            x.len(),
            self.method
        );
        Ok(())
    }

    fn method(&self) -> Method {
        match self.method {
            "nearest" => Method::Nearest,
            "bicubic" => Method::Cubic,
            _ => Method::Linear,
        }
    }

    /// A size per axis: from the list of tensors, else the tensor, else the scale, else the attributes.
    fn wanted(&self, cx: &impl AttrInputs, axes: &[i64]) -> Result<Wanted> {
        use forward::{OUT_SIZE, SCALE, SIZES};
        let (op, n) = (cx.op().name, axes.len());
        let attr_sizes: Axes<i64> = self.sizes[3 - n..].iter().map(|&s| if s > 0 { s as i64 } else { -1 }).collect();
        let count = |what: &str, got: usize| {
            ensure!(
                got == n,
                InvalidArgument,
                "operator {op}: {what} must have {n} sizes, one per axis, got {got} of them"
            );
            Ok(())
        };
        let positive = |sizes: Axes<i64>| {
            ensure!(
                sizes.iter().all(|&s| 0 < s && s <= i32::MAX as i64),
                InvalidArgument,
                "operator {op}: the sizes of Out must be greater than 0, got {sizes:?}"
            );
            Ok(sizes)
        };
        match tensor_attr(cx, &[AttrSource::List(SIZES)])? {
            TensorAttr::Known(v) => {
                count("SizeTensor", v.len())?;
                return Ok(Wanted { sizes: positive(v.into())?, scale: None });
            }
            TensorAttr::Length(k) => {
                count("SizeTensor", k)?;
                return Ok(Wanted { sizes: attr_sizes, scale: None });
            }
            TensorAttr::Absent => {}
        }
        let scale = match cx.count(SCALE) {
            0 if self.scale.is_empty() => None,
            0 => Some(self.scale_of(op, self.scale, n)?),
            _ => match cx.tensors(SCALE).as_deref() {
                Some([t, ..]) => Some(self.scale_of(op, &floats(op, t)?, n)?),
                _ => return self.sized(cx, n, Wanted { sizes: Axes::from_elem(-1, n), scale: None }),
            },
        };
        // 1.x: a scale tensor that is not positive is ignored.
        let scale = scale.filter(|s| !s.is_empty());
        let sizes = match &scale {
            Some(scale) => {
                let scaled = |(&d, &s): (&i64, &f32)| if d < 0 { -1 } else { (d as f32 * s) as i64 };
                axes.iter().zip(scale).map(scaled).collect()
            }
            None => attr_sizes,
        };
        let wanted = self.sized(cx, n, Wanted { sizes, scale })?;
        let known = cx.count(OUT_SIZE) == 0 && axes.iter().all(|&d| d >= 0);
        if known {
            positive(wanted.sizes.clone())?;
        }
        Ok(wanted)
    }

    /// The sizes of the tensor OutSize, if given.
    fn sized(&self, cx: &impl AttrInputs, n: usize, other: Wanted) -> Result<Wanted> {
        let op = cx.op().name;
        match tensor_attr(cx, &[AttrSource::One(forward::OUT_SIZE)])? {
            TensorAttr::Known(v) => {
                ensure!(
                    v.len() == n && v.iter().all(|&s| 0 < s && s <= i32::MAX as i64),
                    InvalidArgument,
                    "operator {op}: OutSize must hold {n} sizes greater than 0, one per axis, got {v:?}"
                );
                Ok(Wanted { sizes: v.into(), scale: other.scale })
            }
            _ => Ok(other),
        }
    }

    /// A scale per axis; empty if 1.x ignores it.
    fn scale_of(&self, op: &str, scale: &[f32], n: usize) -> Result<Axes<f32>> {
        let fits = scale.len() == 1 || !self.one_scale && scale.len() == n;
        ensure!(fits, InvalidArgument, "operator {op}: scale must be one number or one per axis, got {scale:?}");
        if self.one_scale && scale[0].is_nan() | (scale[0] <= 0.0) {
            return Ok(Axes::new());
        }
        ensure!(
            scale.iter().all(|&s| s > 0.0),
            InvalidArgument,
            "operator {op}: scale must be greater than 0, got {scale:?}"
        );
        Ok((0..n).map(|i| scale[i % scale.len()]).collect())
    }

    fn out(&self, x: &[i64], sizes: &[i64]) -> Dims {
        let mut out = Dims::from_slice(x);
        let first = if self.last { 1 } else { 2 };
        out[first..first + sizes.len()].copy_from_slice(sizes);
        out
    }
}

/// The elements of a floating-point tensor.
#[allow(clippy::unnecessary_cast)] // one of the types is f32
fn floats(op: &str, t: &Tensor) -> Result<SmallVec<[f32; 4]>> {
    ensure!(t.rank() == 1, InvalidArgument, "operator {op}: Scale must have one dimension, got {t:?}");
    Ok(dispatch!(t.dtype(), T in [f32, f64], t.data::<T>().iter().map(|&v| v as f32).collect(), other => {
        bail!(InvalidArgument, "operator {op}: Scale must be float32 or float64, got {other}")
    }))
}

/// Taps of rows (depth and height) and columns, and the number of interleaved values per position.
struct ResizePlan<T> {
    rows: Taps<T>,
    cols: Taps<T>,
    inner: usize,
}

fn plan<T: Float>(op: &str, r: &Resize, x: &[i64], w: &Wanted) -> Result<ResizePlan<T>> {
    let (_, channels, axes) = split_images(x, r.last);
    let mut taps = Vec::new();
    for (i, (&input, &output)) in axes.iter().zip(&w.sizes).enumerate() {
        let ratio = match (output > 1, r.align_corners) {
            (false, _) => 0.0,
            (true, true) => (input - 1) as f32 / (output - 1) as f32,
            (true, false) => match w.scale.as_ref().filter(|_| !r.one_scale) {
                Some(scale) => (1.0 / scale[i] as f64) as f32,
                None => input as f32 / output as f32,
            },
        };
        let centres = r.align_mode == 0 && !r.align_corners;
        let (input, output) = (input as usize, output as usize);
        let axis = Axis { input, output, ratio, align_corners: r.align_corners, centres };
        taps.push(Taps::new(&axis, r.method()).ok_or_else(|| too_large(op, &w.sizes))?);
    }
    let cols = taps.pop().expect("one axis at least");
    let rows = match &taps[..] {
        [] => Taps::single(),
        [height] => height.clone(),
        [depth, height, ..] => depth.times(height).ok_or_else(|| too_large(op, &w.sizes))?,
    };
    Ok(ResizePlan { rows, cols, inner: if r.last { channels as usize } else { 1 } })
}

fn too_large(op: &str, sizes: &[i64]) -> oar_core::base::Error {
    err!(ResourceExhausted, "operator {op}: out of memory for the weights of sizes {sizes:?}")
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (cx.dims(forward::X)?, cx.dtype(forward::X)?);
    let r = resize_of(cx.attrs);
    r.check(cx.op.name, &x)?;
    let wanted = r.wanted(cx, split_images(&x, r.last).2)?;
    cx.set(forward::OUT, &r.out(&x, &wanted.sizes), dtype);
    if cx.has(forward::OUT_SIZE) {
        cx.share_lod(forward::OUT, forward::X);
    }
    Ok(())
}

/// The output sizes, and whether they equal X's.
fn output_size<'a>(cx: &KernelContext<'a>, x: &[i64]) -> Result<(Resize<'a>, Wanted, bool)> {
    let r = resize_of(cx.attrs);
    r.check(cx.op.name, x)?;
    let axes = split_images(x, r.last).2;
    let wanted = r.wanted(cx, axes)?;
    let same = axes == &wanted.sizes[..];
    Ok((r, wanted, same))
}

fn resize(cx: &mut KernelContext) -> Result<()> {
    let (op, x) = (cx.op.name, cx.input(forward::X)?);
    let (r, wanted, same) = output_size(cx, x.dims())?;
    let out = cx.out(forward::OUT)?;
    if same || x.numel() == 0 || out.numel() == 0 {
        ensure!(x.numel() == out.numel(), InvalidArgument, "operator {op}: X must have elements to be resized");
        return oar_ops_common::elements::copy_to(x, out);
    }
    match x.dtype() {
        DType::F32 => run::<f32, f32>(op, &r, x, &wanted, out),
        DType::F64 => run::<f64, f64>(op, &r, x, &wanted, out),
        DType::U8 => run::<u8, f64>(op, &r, x, &wanted, out),
        other => cx.unsupported(other),
    }
}

/// Elements of `T`, weights of `W`. Integer results are truncated.
fn run<T: Element + oar_kernels::types::Number, W: Element + Float>(
    op: &str,
    r: &Resize,
    x: &Tensor,
    wanted: &Wanted,
    out: &mut Tensor,
) -> Result<()> {
    let p = plan::<W>(op, r, x.dims(), wanted)?;
    if r.method() == Method::Nearest {
        kernel::pick(&p.rows, &p.cols, p.inner, x.data::<T>(), out.data_mut::<T>()?);
    } else if T::DTYPE == W::DTYPE {
        kernel::resample(&p.rows, &p.cols, p.inner, x.data::<W>(), out.data_mut::<W>()?);
    } else {
        let mut wide = Tensor::empty(W::DTYPE, x.dims())?;
        wide.data_mut::<W>()?.iter_mut().zip(x.data::<T>()).for_each(|(w, v)| *w = W::from_f64(v.to_f64()));
        let mut resampled = Tensor::empty(W::DTYPE, out.dims())?;
        kernel::resample(&p.rows, &p.cols, p.inner, wide.data::<W>(), resampled.data_mut::<W>()?);
        let results = resampled.data::<W>().iter();
        out.data_mut::<T>()?.iter_mut().zip(results).for_each(|(o, &v)| *o = T::from_f64(v.to_f64()));
    }
    Ok(())
}

fn resize_grad(cx: &mut KernelContext) -> Result<()> {
    let (op, dout) = (cx.op.name, cx.input(backward::DOUT)?);
    let x = Dims::from_slice(cx.input(backward::X)?.dims());
    let (r, wanted, same) = output_size(cx, &x)?;
    let dx = cx.out(backward::DX)?;
    ensure!(
        dout.dims() == &r.out(&x, &wanted.sizes)[..] && dout.dtype() == dx.dtype(),
        InvalidArgument,
        "operator {op}: Out@GRAD must have the shape {:?} and the data type of X, got {dout:?}",
        &r.out(&x, &wanted.sizes)[..]
    );
    if same || dx.numel() == 0 {
        return oar_ops_common::elements::copy_to(dout, dx);
    }
    dispatch!(dout.dtype(), T in [f32, f64], {
        let p = plan::<T>(op, &r, &x, &wanted)?;
        let turned = |t: &Taps<T>| t.transposed().ok_or_else(|| too_large(op, &x));
        kernel::resample(&turned(&p.rows)?, &turned(&p.cols)?, p.inner, dout.data::<T>(), dx.data_mut::<T>()?);
    }, other => return cx.unsupported(other));
    Ok(())
}

const _: () = {
    // `wanted` reads the slots of both operators by the forward operator's numbers.
    const fn same(a: InSlot, b: InSlot) -> bool {
        a.0 == b.0
    }
    assert!(same(forward::X, backward::X) && same(forward::OUT_SIZE, backward::OUT_SIZE));
    assert!(same(forward::SIZES, backward::SIZES) && same(forward::SCALE, backward::SCALE));
};

macro_rules! resizes {
    ($($op:ident $name:literal, $grad:ident $grad_name:literal, $attrs:ident;)*) => {
        $(pub static $op: Op = Op {
            name: $name,
            inputs: forward::INS,
            outputs: forward::OUTS,
            attrs: $attrs::FIELDS,
            dtypes: DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::of(&[DType::U8])),
            infer,
            cpu: Kernel::Pure(|cx| in_f32(cx, forward::X, resize)),
            grad: Grad::By(&$grad),
            ..OP
        };
        pub static $grad: Op = Op {
            name: $grad_name,
            inputs: backward::INS,
            outputs: backward::OUTS,
            attrs: $attrs::FIELDS,
            dtypes: DTypes::FLOATS.union(DTypes::HALVES),
            infer: oar_core::op::infer::grads_like_inputs,
            cpu: Kernel::Pure(|cx| in_f32(cx, backward::DOUT, resize_grad)),
            ..OP
        };)*
        pub static TABLE: &[&Op] = &[$(&$op, &$grad),*];
    };
}

resizes! {
    LINEAR "linear_interp", LINEAR_GRAD "linear_interp_grad", ResizeAttrs;
    BILINEAR "bilinear_interp", BILINEAR_GRAD "bilinear_interp_grad", ResizeAttrs;
    TRILINEAR "trilinear_interp", TRILINEAR_GRAD "trilinear_interp_grad", ResizeAttrs;
    BICUBIC "bicubic_interp", BICUBIC_GRAD "bicubic_interp_grad", ResizeAttrs;
    NEAREST "nearest_interp", NEAREST_GRAD "nearest_interp_grad", ResizeAttrs;
    LINEAR_V2 "linear_interp_v2", LINEAR_V2_GRAD "linear_interp_v2_grad", ResizeV2Attrs;
    BILINEAR_V2 "bilinear_interp_v2", BILINEAR_V2_GRAD "bilinear_interp_v2_grad", ResizeV2Attrs;
    TRILINEAR_V2 "trilinear_interp_v2", TRILINEAR_V2_GRAD "trilinear_interp_v2_grad", ResizeV2Attrs;
    BICUBIC_V2 "bicubic_interp_v2", BICUBIC_V2_GRAD "bicubic_interp_v2_grad", ResizeV2Attrs;
    NEAREST_V2 "nearest_interp_v2", NEAREST_V2_GRAD "nearest_interp_v2_grad", ResizeV2Attrs;
}
