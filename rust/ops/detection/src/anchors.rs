//! anchor_generator, prior_box, density_prior_box: boxes on a grid, independent of the image content.

use super::boxes::BoxFloat;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::detection::anchors::{self as kernel, PriorGrid};

attrs! {
    pub struct AnchorAttrs {
        anchor_sizes: Vec<f32>, aspect_ratios: Vec<f32>, variances: Vec<f32>, stride: Vec<f32> = vec![16.0, 16.0],
        offset: f32 = 0.5,
    }
    pub struct PriorAttrs {
        min_sizes: Vec<f32>, max_sizes: Vec<f32> = vec![], aspect_ratios: Vec<f32>, variances: Vec<f32>,
        flip: bool = true, clip: bool = true, step_w: f32 = 0.0, step_h: f32 = 0.0, offset: f32 = 0.5,
        min_max_aspect_ratios_order: bool = false, use_mkldnn: bool = false, use_quantizer: bool = false,
        mkldnn_data_type: Text = "float32".into(),
    }
    pub struct DensityAttrs {
        variances: Vec<f32>, clip: bool = true, flatten_to_2d: bool = false, step_w: f32 = 0.0, step_h: f32 = 0.0,
        offset: f32 = 0.5, fixed_sizes: Vec<f32> = vec![], fixed_ratios: Vec<f32> = vec![],
        densities: Vec<i32> = vec![],
    }
}

slots! {
    mod anchor { INPUT "Input" => ANCHORS "Anchors", VARIANCES "Variances" }
    mod prior { INPUT "Input", IMAGE "Image" => BOXES "Boxes", VARIANCES "Variances" }
}

/// Limit of boxes per grid position.
const MOST: f64 = (1 << 20) as f64;

fn bounded(op: &str, boxes: f64) -> Result<i64> {
    ensure!(
        boxes <= MOST,
        ResourceExhausted,
        "operator {op}: {boxes} boxes per position exceed {MOST}, the most that there can be"
    );
    Ok(boxes as i64)
}

/// Fails unless all numbers are positive.
fn positive(op: &str, name: &str, values: &[f32]) -> Result<()> {
    let wrong = values.iter().position(|&v| v.is_nan() || v <= 0.0);
    ensure!(wrong.is_none(), OutOfRange, "operator {op}: {name} must be greater than 0, got {values:?}");
    Ok(())
}

fn four(op: &str, variances: &[f32]) -> Result<()> {
    ensure!(variances.len() == 4, InvalidArgument, "operator {op}: variances must be 4 numbers, got {variances:?}");
    positive(op, "variances", variances)
}

/// Height and width of an image or feature map [batch, channels, height, width].
fn image(cx: &ShapeContext, slot: InSlot) -> Result<(i64, i64)> {
    let d = cx.dims(slot)?;
    if d.len() != 4 {
        return cx.wrong(slot, "of four dimensions, [batch, channels, height, width]");
    }
    Ok((d[2], d[3]))
}

fn steps(op: &str, w: f32, h: f32) -> Result<()> {
    ensure!(w >= 0.0 && h >= 0.0, InvalidArgument, "operator {op}: step_w and step_h cannot be negative, got {w}, {h}");
    Ok(())
}

/// Writes the variances to every row of the output.
fn repeat<T: BoxFloat>(cx: &mut KernelContext, slot: OutSlot, variances: &[f32]) -> Result<()> {
    kernel::repeat(variances, cx.out_data::<T>(slot)?);
    Ok(())
}

fn infer_anchors(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<AnchorAttrs>());
    let (height, width) = image(cx, anchor::INPUT)?;
    ensure!(!a.anchor_sizes.is_empty(), InvalidArgument, "operator {op}: anchor_sizes must have at least one size");
    positive(op, "anchor_sizes", &a.anchor_sizes)?;
    four(op, &a.variances)?;
    ensure!(a.stride.len() == 2, InvalidArgument, "operator {op}: stride must be two numbers, got {:?}", a.stride);
    positive(op, "stride", &a.stride)?;
    let boxes = bounded(op, a.anchor_sizes.len() as f64 * a.aspect_ratios.len() as f64)?;
    let dims = [height, width, boxes, 4];
    let dtype = cx.dtype(anchor::INPUT)?;
    cx.set(anchor::ANCHORS, &dims, dtype);
    cx.set(anchor::VARIANCES, &dims, dtype);
    Ok(())
}

fn anchors<T: BoxFloat>(cx: &mut KernelContext, a: &AnchorAttrs) -> Result<()> {
    let columns = cx.input(anchor::INPUT)?.dims()[3] as usize;
    let one = |v: f32| T::from_f64(v.into());
    let stride = [one(a.stride[0]), one(a.stride[1])];
    let sizes = kernel::anchor_sizes(&a.aspect_ratios, &a.anchor_sizes, stride);
    kernel::anchors(&sizes, stride, one(a.offset), columns, cx.out_data::<T>(anchor::ANCHORS)?);
    repeat::<T>(cx, anchor::VARIANCES, &a.variances)
}

pub static ANCHOR_GENERATOR: Op = Op {
    name: "anchor_generator",
    inputs: anchor::INS,
    outputs: anchor::OUTS,
    attrs: AnchorAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_anchors,
    cpu: Kernel::Pure(|cx| {
        let (a, dtype) = (cx.attrs::<AnchorAttrs>(), cx.input(anchor::INPUT)?.dtype());
        dispatch!(dtype, T in [f32, f64], anchors::<T>(cx, a), other => cx.unsupported(other))
    }),
    ..OP
};

fn infer_prior(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<PriorAttrs>());
    let (height, width) = image(cx, prior::INPUT)?;
    image(cx, prior::IMAGE)?;
    ensure!(!a.min_sizes.is_empty(), InvalidArgument, "operator {op}: min_sizes must have at least one size");
    positive(op, "min_sizes", &a.min_sizes)?;
    four(op, &a.variances)?;
    steps(op, a.step_w, a.step_h)?;
    let (least, most) = (&a.min_sizes, &a.max_sizes);
    ensure!(
        most.is_empty() || most.len() == least.len() && most.iter().zip(least).all(|(m, l)| m > l),
        InvalidArgument,
        "operator {op}: max_sizes must be as many as min_sizes and greater than those, got {most:?} and {least:?}"
    );
    // Limits the quadratic search for duplicates.
    ensure!(a.aspect_ratios.len() <= 1 << 12, ResourceExhausted, "operator {op}: more than 4096 aspect_ratios");
    let boxes =
        bounded(op, (kernel::distinct_ratios(&a.aspect_ratios, a.flip).len() * least.len() + most.len()) as f64)?;
    let dims = [height, width, boxes, 4];
    let dtype = cx.dtype(prior::INPUT)?;
    cx.set(prior::BOXES, &dims, dtype);
    cx.set(prior::VARIANCES, &dims, dtype);
    Ok(())
}

/// Grid steps in pixels, and the image's width and height.
fn grid<T: BoxFloat>(cx: &KernelContext, w: f32, h: f32) -> Result<([T; 2], [T; 2])> {
    let (map, image) = (cx.input(prior::INPUT)?.dims(), cx.input(prior::IMAGE)?.dims());
    let size = [T::from_f64(image[3] as f64), T::from_f64(image[2] as f64)];
    let step = match w == 0.0 || h == 0.0 {
        true => [size[0] / T::from_f64(map[3] as f64), size[1] / T::from_f64(map[2] as f64)],
        false => [T::from_f64(w.into()), T::from_f64(h.into())],
    };
    Ok((step, size))
}

fn priors<T: BoxFloat>(cx: &mut KernelContext, a: &PriorAttrs) -> Result<()> {
    let columns = cx.input(prior::INPUT)?.dims()[3] as usize;
    let ratios = kernel::distinct_ratios(&a.aspect_ratios, a.flip);
    let halves: Vec<[T; 2]> = kernel::half_sizes(&ratios, &a.min_sizes, &a.max_sizes, a.min_max_aspect_ratios_order);
    let (step, size) = grid::<T>(cx, a.step_w, a.step_h)?;
    // Ratios that are almost but not exactly 1 have no box in the order with the squares first: their boxes are zeros.
    let count = cx.out(prior::BOXES)?.dims()[2] as usize;
    let grid = PriorGrid { columns, step, size, offset: T::from_f64(a.offset.into()), clip: a.clip };
    kernel::priors(&grid, &halves, count, cx.out_data::<T>(prior::BOXES)?);
    repeat::<T>(cx, prior::VARIANCES, &a.variances)
}

pub static PRIOR_BOX: Op = Op {
    name: "prior_box",
    inputs: prior::INS,
    outputs: prior::OUTS,
    attrs: PriorAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_prior,
    cpu: Kernel::Pure(|cx| {
        let (a, dtype) = (cx.attrs::<PriorAttrs>(), cx.input(prior::INPUT)?.dtype());
        dispatch!(dtype, T in [f32, f64], priors::<T>(cx, a), other => cx.unsupported(other))
    }),
    ..OP
};

fn infer_density(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<DensityAttrs>());
    let (map, whole) = (image(cx, prior::INPUT)?, image(cx, prior::IMAGE)?);
    ensure!(
        cx.tensor(prior::INPUT).is_none() || map.0 < whole.0 && map.1 < whole.1,
        InvalidArgument,
        "operator {op}: Input must be smaller than Image, got heights and widths {map:?} and {whole:?}"
    );
    four(op, &a.variances)?;
    steps(op, a.step_w, a.step_h)?;
    positive(op, "fixed_sizes", &a.fixed_sizes)?;
    positive(op, "fixed_ratios", &a.fixed_ratios)?;
    ensure!(
        a.fixed_sizes.len() == a.densities.len() && a.densities.iter().all(|&d| d > 0),
        InvalidArgument,
        "operator {op}: densities must be as many as fixed_sizes and greater than 0, got {:?} for {:?}",
        a.densities,
        a.fixed_sizes
    );
    let squares: f64 = a.densities.iter().map(|&d| f64::from(d).powi(2)).sum();
    let boxes = bounded(op, squares * a.fixed_ratios.len() as f64)?;
    let known = map.0 >= 0 && map.1 >= 0;
    let all = if known { map.0.saturating_mul(map.1).saturating_mul(boxes) } else { -1 };
    let dims: &[i64] = if a.flatten_to_2d { &[all, 4] } else { &[map.0, map.1, boxes, 4] };
    let dtype = cx.dtype(prior::INPUT)?;
    cx.set(prior::BOXES, dims, dtype);
    cx.set(prior::VARIANCES, dims, dtype);
    Ok(())
}

fn dense<T: BoxFloat>(cx: &mut KernelContext, a: &DensityAttrs) -> Result<()> {
    let columns = cx.input(prior::INPUT)?.dims()[3] as usize;
    let (step, size) = grid::<T>(cx, a.step_w, a.step_h)?;
    let average = ((step[0] + step[1]).to_f64() * 0.5) as i32;
    let boxes = kernel::dense_boxes(&a.fixed_sizes, &a.densities, &a.fixed_ratios, average);
    let grid = PriorGrid { columns, step, size, offset: T::from_f64(a.offset.into()), clip: a.clip };
    kernel::dense_priors(&grid, &boxes, cx.out_data::<T>(prior::BOXES)?);
    repeat::<T>(cx, prior::VARIANCES, &a.variances)
}

pub static DENSITY_PRIOR_BOX: Op = Op {
    name: "density_prior_box",
    inputs: prior::INS,
    outputs: prior::OUTS,
    attrs: DensityAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_density,
    cpu: Kernel::Pure(|cx| {
        let (a, dtype) = (cx.attrs::<DensityAttrs>(), cx.input(prior::INPUT)?.dtype());
        dispatch!(dtype, T in [f32, f64], dense::<T>(cx, a), other => cx.unsupported(other))
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&ANCHOR_GENERATOR, &PRIOR_BOX, &DENSITY_PRIOR_BOX];
