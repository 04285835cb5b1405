//! roi_perspective_transform: quadrangles of the maps transformed to rectangles. Every output element is a bilinear
//! sample at its transformed position.

use crate::boxes::{least, most};
use crate::rois::{self, between, Bins, Feature, Line, Pooling};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, ErrorKind, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, slots};
use oar_kernels::pool;
use oar_kernels::types::{Float, Number};

attrs! {
    pub struct PerspectiveAttrs { spatial_scale: f32 = 1.0, transformed_height: i32 = 1, transformed_width: i32 = 1 }
}

slots! {
    mod fwd {
        X "X", ROIS "ROIs"
        => OUT "Out", MASK "Mask", MATRIX "TransformMatrix", INDEX "Out2InIdx".intermediate(), WEIGHTS "Out2InWeights".intermediate()
    }
    mod grad {
        X "X".meta_only(), ROIS "ROIs", INDEX "Out2InIdx".meta_only(), WEIGHTS "Out2InWeights".meta_only(),
        DOUT "Out@GRAD" => DX "X@GRAD"
    }
}

/// Coordinates that differ by less are equal.
const NEAR: f64 = 1e-4;

fn same<R: Float>(a: R, b: R) -> bool {
    (a - b).to_f64().abs() < NEAR
}
fn at_least<R: Float>(a: R, b: R) -> bool {
    a > b || same(a, b)
}
fn at_most<R: Float>(a: R, b: R) -> bool {
    at_least(b, a)
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<PerspectiveAttrs>();
    let sizes = (a.transformed_height, a.transformed_width, a.spatial_scale);
    let out = rois::shape(cx, (fwd::X, fwd::ROIS, None), 8, None, sizes, ErrorKind::InvalidArgument)?;
    let dtype = cx.dtype(fwd::X)?;
    cx.set(fwd::OUT, &out, dtype);
    cx.set(fwd::MASK, &[out[0], 1, out[2], out[3]], DType::I32);
    cx.set(fwd::MATRIX, &[out[0], 9], dtype);
    cx.set(fwd::INDEX, &out, DType::I32);
    cx.set(fwd::WEIGHTS, &out, dtype);
    cx.share_lod(fwd::OUT, fwd::ROIS);
    Ok(())
}

/// A quadrangle in the map, clockwise from the top left corner, and the transform from the rectangle.
struct Quad<R> {
    x: [R; 4],
    y: [R; 4],
    matrix: [R; 9],
}

impl<R: Float> Quad<R> {
    fn new<T: Feature<W = R>>(a: &PerspectiveAttrs, roi: &[T]) -> Quad<R> {
        let scale = rois::real(a.spatial_scale as f64);
        let x = [0, 2, 4, 6].map(|k| roi[k].wide() * scale);
        let y = [1, 3, 5, 7].map(|k| roi[k].wide() * scale);
        let matrix = transform(&x, &y, (a.transformed_height as i64, a.transformed_width as i64));
        Quad { x, y, matrix }
    }

    /// The map position of an element of the rectangle.
    fn place(&self, row: usize, col: usize) -> (R, R) {
        let (w, h, m) = (rois::real::<R>(col as f64), rois::real::<R>(row as f64), &self.matrix);
        let along = |k: usize| m[k] * w + m[k + 1] * h + m[k + 2];
        (along(0) / along(6), along(3) / along(6))
    }

    /// The sides by their ends; horizontal ones are excluded if `upright`.
    fn sides(&self, upright: bool) -> impl Iterator<Item = [R; 4]> + '_ {
        (0..4)
            .map(|i| [self.x[i], self.y[i], self.x[(i + 1) % 4], self.y[(i + 1) % 4]])
            .filter(move |s| same(s[1], s[3]) != upright)
    }

    fn contains(&self, x: R, y: R) -> bool {
        let cut = |[xs, ys, xe, ye]: [R; 4]| (y - ys) * (xe - xs) / (ye - ys) + xs;
        let within = |v: R, a: R, b: R| at_least(v, least(a, b)) && at_most(v, most(a, b));
        let on_level = self.sides(false).any(|s| same(y, s[1]) && same(y, s[3]) && within(x, s[0], s[2]));
        let on_upright = || self.sides(true).any(|s| same(cut(s), x) && within(y, s[1], s[3]));
        if on_level || on_upright() {
            return true;
        }
        // Inside: a ray to the right crosses the outline an odd number of times.
        let mut inside = false;
        for s in self.sides(true) {
            let (low, high) = (least(s[1], s[3]), most(s[1], s[3]));
            if at_most(y, low) || (y - high).to_f64() > NEAR {
                continue;
            }
            if same(cut(s), x) {
                return true;
            }
            inside ^= (cut(s) - x).to_f64() > NEAR;
        }
        inside
    }

    /// The position of an element, if within the quadrangle and the map.
    fn sample(&self, (row, col): (usize, usize), size: (usize, usize)) -> Option<(R, R)> {
        let (x, y) = self.place(row, col);
        let beyond = |v: R, size: usize| at_least(rois::real(-0.5), v) || at_least(v, rois::real(size as f64 - 0.5));
        (self.contains(x, y) && !beyond(x, size.1) && !beyond(y, size.0)).then_some((x, y))
    }
}

/// The perspective matrix that maps (0, 0), (w, 0), (w, h), (0, h) to the corners; the rectangle's width keeps the
/// quadrangle's proportions.
fn transform<R: Float>(x: &[R; 4], y: &[R; 4], (height, width): (i64, i64)) -> [R; 9] {
    let length = |i: usize| {
        let (dx, dy) = (x[i] - x[(i + 1) % 4], y[i] - y[(i + 1) % 4]);
        rois::real::<R>((dx * dx + dy * dy).to_f64().sqrt())
    };
    let mean = |a: usize, b: usize| rois::real::<R>((length(a) + length(b)).to_f64() / 2.0);
    let (tall, wide) = (mean(1, 3), mean(0, 2));
    let height = height.max(2);
    let ratio = wide * rois::real((height - 1) as f64) / tall;
    let width = rois::floor(rois::round(ratio)).saturating_add(1).min(width).max(2);
    let (w, h) = (rois::real::<R>((width - 1) as f64), rois::real::<R>((height - 1) as f64));
    let [dx1, dx2, dx3] = [x[1] - x[2], x[3] - x[2], x[0] - x[1] + x[2] - x[3]];
    let [dy1, dy2, dy3] = [y[1] - y[2], y[3] - y[2], y[0] - y[1] + y[2] - y[3]];
    // Computed in f64, so that the added epsilon prevents infinity in f32, too.
    let share = |v: R, by: R| rois::real::<R>(v.to_f64() / ((dx1 * dy2 - dx2 * dy1).to_f64() + 1e-5) / by.to_f64());
    let (m6, m7) = (share(dx3 * dy2 - dx2 * dy3, w), share(dx1 * dy3 - dx3 * dy1, h));
    let row = |v: &[R; 4]| [(v[1] - v[0] + m6 * w * v[1]) / w, (v[3] - v[0] + m7 * h * v[3]) / h, v[0]];
    let ([m0, m1, m2], [m3, m4, m5]) = (row(x), row(y));
    [m0, m1, m2, m3, m4, m5, m6, m7, R::ONE]
}

fn bins<T: Feature>(a: &PerspectiveAttrs, roi: &[T], size: (usize, usize), to: &mut Bins<T::W>) {
    let quad = Quad::new(a, roi);
    let around = |place: T::W, size: usize, to: &mut Line<T::W>| {
        let place = if at_most(place, T::W::ZERO) { T::W::ZERO } else { place };
        let Some((low, high, part)) = between(place, size) else { return };
        to.add(low, T::W::ONE - part);
        to.add(high, part);
    };
    for row in 0..a.transformed_height as usize {
        for col in 0..a.transformed_width as usize {
            let (mut rows, mut cols) = (0..0, 0..0);
            if let Some((x, y)) = quad.sample((row, col), size) {
                (rows, cols) = (to.line(|l| around(y, size.0, l)), to.line(|l| around(x, size.1, l)));
            }
            to.push(0, rows, cols, T::W::ONE);
        }
    }
}

fn pooling(cx: &KernelContext, x: InSlot, rois: InSlot) -> Result<Pooling> {
    let a = cx.attrs::<PerspectiveAttrs>();
    Pooling::new(cx, (x, rois, None), a.transformed_height as usize * a.transformed_width as usize)
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, rois, a) = (cx.input(fwd::X)?, cx.input(fwd::ROIS)?, cx.attrs::<PerspectiveAttrs>());
    let p = pooling(cx, fwd::X, fwd::ROIS)?;
    let size = p.size;
    // Unused: the gradient recomputes positions and weights.
    for slot in [fwd::INDEX, fwd::WEIGHTS] {
        if cx.wants(slot) {
            cx.out(slot)?.bytes_mut()?.fill(0);
        }
    }
    let [mask, matrix] = cx.each_out([fwd::MASK, fwd::MATRIX]);
    dispatch!(x.dtype(), T in [f32, f64], {
        let rois = rois.data::<T>();
        if let Some(mask) = mask {
            let width = a.transformed_width as usize;
            pool::parts(mask.data_mut::<i32>()?, p.bins, |at, mask| {
                let quad = Quad::new(a, &rois[at / p.bins * 8..][..8]);
                for (i, m) in mask.iter_mut().enumerate() {
                    *m = quad.sample((i / width, i % width), size).is_some() as i32;
                }
            });
        }
        if let Some(matrix) = matrix {
            for (m, roi) in matrix.data_mut::<T>()?.chunks_exact_mut(9).zip(rois.chunks_exact(8)) {
                m.copy_from_slice(&Quad::new(a, roi).matrix);
            }
        }
        p.forward(x.data::<T>(), cx.out_data::<T>(fwd::OUT)?, |n, _, to| bins(a, &rois[n * 8..][..8], size, to));
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, rois, a) = (cx.input(grad::X)?, cx.input(grad::ROIS)?, cx.attrs::<PerspectiveAttrs>());
    let p = pooling(cx, grad::X, grad::ROIS)?;
    let out = [rois.dims()[0], x.dims()[1], a.transformed_height as i64, a.transformed_width as i64];
    let dout = rois::grad_of(cx, grad::DOUT, &out, x.dtype())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let rois = rois.data::<T>();
        p.backward(dout.data::<T>(), cx.out_data::<T>(grad::DX)?, |n, _, to| bins(a, &rois[n * 8..][..8], p.size, to));
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static PERSPECTIVE: Op = Op {
    name: "roi_perspective_transform",
    inputs: fwd::INS,
    outputs: fwd::OUTS,
    attrs: PerspectiveAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&PERSPECTIVE_GRAD),
    ..OP
};

pub static PERSPECTIVE_GRAD: Op = Op {
    name: "roi_perspective_transform_grad",
    inputs: grad::INS,
    outputs: grad::OUTS,
    attrs: PerspectiveAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&PERSPECTIVE, &PERSPECTIVE_GRAD];
