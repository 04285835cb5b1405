//! Boxes that lie on a grid before anything is looked at: anchor_generator, prior_box, density_prior_box.

use super::boxes::{clipped, BoxFloat};
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::pool;

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

/// The most boxes of one place of the grid.
const MOST: f64 = (1 << 20) as f64;

fn bounded(op: &str, boxes: f64) -> Result<i64> {
    ensure!(
        boxes <= MOST,
        ResourceExhausted,
        "operator {op}: {boxes} boxes of each place are more than {MOST}, the most that there can be"
    );
    Ok(boxes as i64)
}

/// All numbers must be above 0.
fn positive(op: &str, name: &str, values: &[f32]) -> Result<()> {
    let wrong = values.iter().position(|&v| v.is_nan() || v <= 0.0);
    ensure!(wrong.is_none(), OutOfRange, "operator {op}: {name} must be greater than 0, got {values:?}");
    Ok(())
}

fn four(op: &str, variances: &[f32]) -> Result<()> {
    ensure!(variances.len() == 4, InvalidArgument, "operator {op}: variances must be 4 numbers, got {variances:?}");
    positive(op, "variances", variances)
}

/// An image or a feature map [batch, channels, height, width].
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

/// Every row of the output is the variances.
fn repeat<T: BoxFloat>(cx: &mut KernelContext, slot: OutSlot, variances: &[f32]) -> Result<()> {
    for row in cx.out_data::<T>(slot)?.chunks_exact_mut(4) {
        row.iter_mut().zip(variances).for_each(|(to, &v)| *to = T::of(v.into()));
    }
    Ok(())
}

/// Writes the boxes of each place of a grid: `place(row, column, boxes)`.
fn each_place<T: BoxFloat>(out: &mut [T], width: usize, boxes: usize, place: impl Fn(usize, usize, &mut [T]) + Sync) {
    // An index of a place is one of the second size of this array.
    let mut places: Vec<&mut [T]> = out.chunks_exact_mut((boxes * 4).max(1)).collect();
    pool::parts(&mut places, 256, |at, part| {
        for (i, to) in part.iter_mut().enumerate() {
            place((at + i) / width, (at + i) % width, to);
        }
    });
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
    let one = |v: f32| T::of(v.into());
    let (stride, half) = ([one(a.stride[0]), one(a.stride[1])], T::of(0.5));
    let mut sizes = Vec::with_capacity(a.aspect_ratios.len() * a.anchor_sizes.len());
    for &ratio in &a.aspect_ratios {
        let width = T::of((stride[0] * stride[1] / one(ratio)).to_f64().sqrt()).round();
        let height = (width * one(ratio)).round();
        for &size in &a.anchor_sizes {
            sizes.push([one(size) / stride[0] * width, one(size) / stride[1] * height]);
        }
    }
    let shift = stride.map(|s| one(a.offset) * (s - T::ONE));
    each_place(cx.out_data::<T>(anchor::ANCHORS)?, columns, sizes.len(), |row, column, to| {
        let x = T::of(column as f64) * stride[0] + shift[0];
        let y = T::of(row as f64) * stride[1] + shift[1];
        for (to, [width, height]) in to.chunks_exact_mut(4).zip(&sizes) {
            let (w, h) = (half * (*width - T::ONE), half * (*height - T::ONE));
            to.copy_from_slice(&[x - w, y - h, x + w, y + h]);
        }
    });
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

// prior_box

/// The aspect ratios with 1 before them, each once and, if flipped, its reciprocal.
fn ratios(a: &PriorAttrs) -> Vec<f32> {
    let mut all: Vec<f32> = vec![1.0];
    for &ratio in &a.aspect_ratios {
        if !all.iter().any(|&known| f64::from((ratio - known).abs()) < 1e-6) {
            all.push(ratio);
            all.extend(a.flip.then_some(1.0 / ratio));
        }
    }
    all
}

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
    // No more ratios than these differ from each other.
    ensure!(a.aspect_ratios.len() <= 1 << 12, ResourceExhausted, "operator {op}: more than 4096 aspect_ratios");
    let boxes = bounded(op, (ratios(a).len() * least.len() + most.len()) as f64)?;
    let dims = [height, width, boxes, 4];
    let dtype = cx.dtype(prior::INPUT)?;
    cx.set(prior::BOXES, &dims, dtype);
    cx.set(prior::VARIANCES, &dims, dtype);
    Ok(())
}

/// How far places are apart, in pixels of the image, and the image's width and height.
fn grid<T: BoxFloat>(cx: &KernelContext, w: f32, h: f32) -> Result<([T; 2], [T; 2])> {
    let (map, image) = (cx.input(prior::INPUT)?.dims(), cx.input(prior::IMAGE)?.dims());
    let size = [T::of(image[3] as f64), T::of(image[2] as f64)];
    let step = match w == 0.0 || h == 0.0 {
        true => [size[0] / T::of(map[3] as f64), size[1] / T::of(map[2] as f64)],
        false => [T::of(w.into()), T::of(h.into())],
    };
    Ok((step, size))
}

fn priors<T: BoxFloat>(cx: &mut KernelContext, a: &PriorAttrs) -> Result<()> {
    let columns = cx.input(prior::INPUT)?.dims()[3] as usize;
    // Half of each box's width and height.
    let mut halves: Vec<[T; 2]> = Vec::new();
    let square = |side: f32| [T::of(f64::from(side) / 2.0); 2];
    let of_ratio = |least: f32, r: f32| [least * r.sqrt(), least / r.sqrt()].map(|side| T::of(f64::from(side) / 2.0));
    let ratios = ratios(a);
    for (i, &least) in a.min_sizes.iter().enumerate() {
        let greater = a.max_sizes.get(i).map(|&most| square((least * most).sqrt()));
        if a.min_max_aspect_ratios_order {
            halves.push(square(least));
            halves.extend(greater);
            let others = ratios.iter().filter(|&&r| (f64::from(r) - 1.0).abs() >= 1e-6);
            halves.extend(others.map(|&r| of_ratio(least, r)));
        } else {
            halves.extend(ratios.iter().map(|&r| of_ratio(least, r)));
            halves.extend(greater);
        }
    }
    let (step, size) = grid::<T>(cx, a.step_w, a.step_h)?;
    let (offset, clip) = (T::of(a.offset.into()), a.clip);
    let count = cx.out(prior::BOXES)?.dims()[2] as usize;
    each_place(cx.out_data::<T>(prior::BOXES)?, columns, count, |row, column, to| {
        let x = (T::of(column as f64) + offset) * step[0];
        let y = (T::of(row as f64) + offset) * step[1];
        for (to, [w, h]) in to.chunks_exact_mut(4).zip(&halves) {
            let edges = [(x - *w) / size[0], (y - *h) / size[1], (x + *w) / size[0], (y + *h) / size[1]];
            to.copy_from_slice(&if clip { edges.map(|e| clipped(e, T::ONE)) } else { edges });
        }
        // Ratios that are almost 1, but not 1, leave places of the order with the squares first empty.
        to.iter_mut().skip(halves.len() * 4).for_each(|v| *v = T::ZERO);
    });
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

// density_prior_box

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
    // Each box: how far its center is from that of its place (in two steps, each rounded to float32 as in Paddle), and
    // half of its width and height.
    let mut boxes = Vec::new();
    for (&fixed, &density) in a.fixed_sizes.iter().zip(&a.densities) {
        let shift = average / density;
        for &ratio in &a.fixed_ratios {
            let sides = [fixed * ratio.sqrt(), fixed / ratio.sqrt()].map(|s| f64::from(s) / 2.0);
            let first = f64::from(shift) / 2.0 - f64::from(average) / 2.0;
            for k in 0..density * density {
                boxes.push((first, [k % density, k / density].map(|i| (i * shift) as f32), sides));
            }
        }
    }
    let size = size.map(|s| s.to_f64());
    let offset = T::of(a.offset.into());
    each_place(cx.out_data::<T>(prior::BOXES)?, columns, boxes.len(), |row, column, to| {
        let center = [(column, step[0]), (row, step[1])].map(|(i, s)| ((T::of(i as f64) + offset) * s).to_f64());
        for (to, (first, shift, sides)) in to.chunks_exact_mut(4).zip(&boxes) {
            for k in 0..2 {
                let middle = f64::from((center[k] + first) as f32 + shift[k]);
                to[k] = T::of(((middle - sides[k]) / size[k]).max(0.0));
                to[k + 2] = T::of(((middle + sides[k]) / size[k]).min(1.0));
            }
            if a.clip {
                to.iter_mut().for_each(|v| *v = clipped(*v, T::ONE));
            }
        }
    });
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
