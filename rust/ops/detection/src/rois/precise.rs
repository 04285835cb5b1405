//! prroi_pool: the mean of the interpolated map over each bin of a RoI, an integral that is differentiable by the RoI's
//! coordinates, too. Integers are averaged in f64 and truncated once.

use crate::boxes::{least, most};
use crate::rois::{self, Bins, Feature, Line, Pooling};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, ErrorKind, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::pool;
use oar_kernels::types::{Float, Number};

attrs! {
    pub struct PrRoiAttrs { spatial_scale: f32 = 1.0, pooled_height: i32 = 1, pooled_width: i32 = 1 }
}

slots! {
    mod fwd { X "X", ROIS "ROIs", COUNT "BatchRoINums".dispensable() => OUT "Out" }
    mod grad {
        X "X", OUT "Out", ROIS "ROIs", COUNT "BatchRoINums".dispensable(), DOUT "Out@GRAD" => DX "X@GRAD", DROIS "ROIs@GRAD"
    }
}

const NUMBERS: DTypes = DTypes::FLOATS.union(DTypes::of(&[DType::I32, DType::I64]));

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<PrRoiAttrs>();
    let sizes = (a.pooled_height, a.pooled_width, a.spatial_scale);
    let out = rois::shape(cx, (fwd::X, fwd::ROIS, Some(fwd::COUNT)), 4, None, sizes, ErrorKind::InvalidArgument)?;
    if cx.has(fwd::COUNT) {
        let (x, count) = (cx.dims(fwd::X)?, cx.dims(fwd::COUNT)?);
        ensure!(
            count[0] == x[0] || count[0] < 0 || x[0] < 0,
            InvalidArgument,
            "operator prroi_pool: BatchRoINums must have one number for each of the {} images, got {}",
            x[0],
            count[0]
        );
    }
    let dtype = cx.dtype(fwd::X)?;
    cx.set(fwd::OUT, &out, dtype);
    Ok(())
}

/// A RoI along one axis.
struct Side<R> {
    start: R,
    bin: R,
    size: usize,
}

impl<R: Float> Side<R> {
    fn new<T: Feature<W = R>>(a: &PrRoiAttrs, (from, to): (T, T), pooled: i32, size: usize) -> Side<R> {
        let scale = rois::real(a.spatial_scale as f64);
        let start = from.wide() * scale;
        let length = most(to.wide() * scale - start, R::ZERO);
        Side { start, bin: length / rois::real(pooled as f64), size }
    }

    fn ends(&self, bin: usize) -> (R, R) {
        let from = rois::real::<R>(bin as f64) * self.bin + self.start;
        (from, from + self.bin)
    }

    /// Integrals of the elements' hat functions over a bin.
    fn weights(&self, bin: usize, to: &mut Line<R>) {
        let (from, end) = self.ends(bin);
        let half: R = rois::real(0.5);
        let hat = |a: R, b: R| b - half * b * b - a + half * a * a;
        let last = self.size as i64 - 1;
        for cell in rois::floor(from).max(-1)..rois::ceil(end).min(last + 1) {
            let low: R = rois::real(cell as f64);
            let (a, b) = (most(from, low) - low, least(end, low + R::ONE) - low);
            if cell >= 0 {
                to.add(cell as usize, hat(a, b));
            }
            if cell < last {
                to.add((cell + 1) as usize, hat(R::ONE - b, R::ONE - a));
            }
        }
    }

    /// Interpolation weights at a coordinate.
    fn at(&self, place: R, to: &mut Line<R>) {
        let low = rois::floor(place);
        let part = place - rois::real(low as f64);
        for (at, weight) in [(low, R::ONE - part), (low.saturating_add(1), part)] {
            if (0..self.size as i64).contains(&at) {
                to.push(at as usize, weight);
            }
        }
    }
}

fn sides<T: Feature>(a: &PrRoiAttrs, roi: &[T], (height, width): (usize, usize)) -> (Side<T::W>, Side<T::W>) {
    let down = Side::new(a, (roi[1], roi[3]), a.pooled_height, height);
    (down, Side::new(a, (roi[0], roi[2]), a.pooled_width, width))
}

fn bins<T: Feature>(a: &PrRoiAttrs, roi: &[T], size: (usize, usize), to: &mut Bins<T::W>) {
    let (down, across) = sides(a, roi, size);
    let area = most(T::W::ZERO, across.bin * down.bin);
    let cols: Vec<_> = (0..a.pooled_width as usize).map(|p| to.line(|l| across.weights(p, l))).collect();
    for p in 0..a.pooled_height as usize {
        let rows = to.line(|l| down.weights(p, l));
        cols.iter().for_each(|cols| to.push(0, rows.clone(), cols.clone(), area));
    }
}

/// The gradient of a RoI's coordinates. The derivative of a bin's mean by a side is the integral along that side minus
/// the mean along it; a side's coordinate is a mixture of the RoI's two ends.
fn of_places<T: Feature>((p, a): (&Pooling, &PrRoiAttrs), roi: &[T], (x, out, dout): (&[T], &[T], &[T]), to: &mut [T]) {
    let (down, across) = sides(a, roi, p.size);
    let area = across.bin * down.bin;
    let (plane, width) = (p.size.0 * p.size.1, p.size.1);
    let mut sums = [T::W::ZERO; 4];
    if area > T::W::ZERO {
        let scale = rois::real::<T::W>(a.spatial_scale as f64) / area;
        let part = |k: usize, of: i32| rois::real::<T::W>(k as f64 / of as f64);
        let mut lines = Bins::default();
        for ph in 0..a.pooled_height as usize {
            for pw in 0..a.pooled_width as usize {
                lines.clear();
                let (rows, cols) = (lines.line(|l| down.weights(ph, l)), lines.line(|l| across.weights(pw, l)));
                let (top, bottom) = down.ends(ph);
                let (left, right) = across.ends(pw);
                let [top, bottom] = [top, bottom].map(|y| lines.line(|l| down.at(y, l)));
                let [left, right] = [left, right].map(|x| lines.line(|l| across.at(x, l)));
                for c in 0..p.channels {
                    let at = (c * a.pooled_height as usize + ph) * a.pooled_width as usize + pw;
                    let (mean, d, x) = (out[at].wide(), dout[at].wide() * scale, &x[c * plane..][..plane]);
                    let along = |rows: &std::ops::Range<usize>, cols: &std::ops::Range<usize>, length: T::W| {
                        (lines.sum(x, width, rows.clone(), cols.clone()) - length * mean) * d
                    };
                    let x1 = T::W::ZERO - along(&rows, &left, down.bin);
                    let x2 = along(&rows, &right, down.bin);
                    let y1 = T::W::ZERO - along(&top, &cols, across.bin);
                    let y2 = along(&bottom, &cols, across.bin);
                    for (k, low, high, (from, to)) in [
                        (0, x1, x2, (part(pw, a.pooled_width), part(pw + 1, a.pooled_width))),
                        (1, y1, y2, (part(ph, a.pooled_height), part(ph + 1, a.pooled_height))),
                    ] {
                        sums[k] += low * (T::W::ONE - from) + high * (T::W::ONE - to);
                        sums[k + 2] += high * to + low * from;
                    }
                }
            }
        }
    }
    to.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::narrow(sum));
}

fn pooling(cx: &KernelContext, x: InSlot, rois: InSlot, count: InSlot) -> Result<Pooling> {
    let a = cx.attrs::<PrRoiAttrs>();
    Pooling::new(cx, (x, rois, Some(count)), a.pooled_height as usize * a.pooled_width as usize)
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, rois, a) = (cx.input(fwd::X)?, cx.input(fwd::ROIS)?, cx.attrs::<PrRoiAttrs>());
    let p = pooling(cx, fwd::X, fwd::ROIS, fwd::COUNT)?;
    dispatch!(x.dtype(), T in [f32, f64, i32, i64], {
        let rois = rois.data::<T>();
        p.forward(x.data::<T>(), cx.out_data::<T>(fwd::OUT)?, |n, _, to| bins(a, &rois[n * 4..][..4], p.size, to));
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, rois, a) = (cx.input(grad::X)?, cx.input(grad::ROIS)?, cx.attrs::<PrRoiAttrs>());
    let p = pooling(cx, grad::X, grad::ROIS, grad::COUNT)?;
    let dims = [rois.dims()[0], x.dims()[1], a.pooled_height as i64, a.pooled_width as i64];
    let (out, dout) =
        (rois::grad_of(cx, grad::OUT, &dims, x.dtype())?, rois::grad_of(cx, grad::DOUT, &dims, x.dtype())?);
    let [dx, drois] = cx.each_out([grad::DX, grad::DROIS]);
    dispatch!(x.dtype(), T in [f32, f64, i32, i64], {
        let (rois, x, out, dout) = (rois.data::<T>(), x.data::<T>(), out.data::<T>(), dout.data::<T>());
        if let Some(dx) = dx {
            p.backward(dout, dx.data_mut::<T>()?, |n, _, to| bins(a, &rois[n * 4..][..4], p.size, to));
        }
        if let Some(drois) = drois {
            let (map, each) = (p.planes * p.size.0 * p.size.1, p.channels * p.bins);
            let image_of = p.image_of_rois();
            pool::parts(drois.data_mut::<T>()?, 4, |at, to| {
                let n = at / 4;
                let x = &x[image_of[n] * map..][..map];
                of_places((&p, a), &rois[at..][..4], (x, &out[n * each..][..each], &dout[n * each..][..each]), to);
            });
        }
        Ok(())
    }, other => cx.unsupported(other))
}

pub static PRROI_POOL: Op = Op {
    name: "prroi_pool",
    inputs: fwd::INS,
    outputs: fwd::OUTS,
    attrs: PrRoiAttrs::FIELDS,
    dtypes: NUMBERS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&PRROI_POOL_GRAD),
    ..OP
};

pub static PRROI_POOL_GRAD: Op = Op {
    name: "prroi_pool_grad",
    inputs: grad::INS,
    outputs: grad::OUTS,
    attrs: PrRoiAttrs::FIELDS,
    dtypes: NUMBERS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&PRROI_POOL, &PRROI_POOL_GRAD];
