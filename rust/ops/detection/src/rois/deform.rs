//! deformable_psroi_pooling: the mean of bilinear samples in each bin of a RoI, where a bin is displaced by a learned
//! part of the RoI's size and may read its own plane.

use crate::boxes::{least, most};
use crate::rois::{self, between, Bins, Line, Pooling};
use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, ErrorKind, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::pool::{self, Shared};
use oar_kernels::types::Float;

attrs! {
    pub struct DeformRoiAttrs {
        no_trans: bool, spatial_scale: f32, output_dim: i32, group_size: Vec<i32>, pooled_height: i32,
        pooled_width: i32, part_size: Vec<i32>, sample_per_part: i32, trans_std: f32,
    }
}

slots! {
    mod fwd { INPUT "Input", ROIS "ROIs", TRANS "Trans" => COUNT "TopCount", OUTPUT "Output" }
    mod grad {
        INPUT "Input", TRANS "Trans", ROIS "ROIs", COUNT "TopCount", DOUTPUT "Output@GRAD"
        => DINPUT "Input@GRAD", DTRANS "Trans@GRAD"
    }
}

/// Limit of samples along one side of a RoI.
const MOST_SAMPLES: i64 = 1 << 16;

/// The number of classes; channels of a class have one displacement.
fn classes(op: &str, a: &DeformRoiAttrs, trans: i64) -> Result<usize> {
    let classes = if a.no_trans { 1 } else { trans / 2 };
    let each = (a.output_dim as i64).checked_div(classes).unwrap_or(0);
    ensure!(
        each >= 1 && (a.output_dim as i64 - 1) / each < classes,
        InvalidArgument,
        "operator {op}: output_dim {} channels must be divisible by {classes} classes, half the {trans} channels of \
         Trans",
        a.output_dim
    );
    Ok(classes as usize)
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<DeformRoiAttrs>());
    let sizes = (a.pooled_height, a.pooled_width, a.spatial_scale);
    let channels = a.output_dim as i64;
    let out = rois::shape(cx, (fwd::INPUT, fwd::ROIS, None), 4, Some(channels), sizes, ErrorKind::InvalidArgument)?;
    let (x, trans, dtype) = (cx.dims(fwd::INPUT)?, cx.dims(fwd::TRANS)?, cx.dtype(fwd::INPUT)?);
    ensure!(
        trans.len() == 4,
        InvalidArgument,
        "operator {op}: input 'Trans' must have 4 dimensions, [N, 2, H, W], got shape {:?}",
        &trans[..]
    );
    ensure!(a.trans_std >= 0.0, InvalidArgument, "operator {op}: trans_std must not be below 0, got {}", a.trans_std);
    for (name, pair) in [("group_size", &a.group_size), ("part_size", &a.part_size)] {
        ensure!(
            pair.len() == 2 && pair.iter().all(|&n| n > 0),
            InvalidArgument,
            "operator {op}: attribute '{name}' must be 2 numbers above 0, got {pair:?}"
        );
    }
    let wanted = a.group_size.iter().try_fold(channels, |n, &g| n.checked_mul(g as i64));
    ensure!(
        channels >= 1 && (x[1] < 0 || wanted.is_some_and(|n| n <= x[1])),
        InvalidArgument,
        "operator {op}: output_dim {channels} in groups of {:?} reads more than the {} channels of Input",
        a.group_size,
        x[1]
    );
    let fits = (2..4).all(|i| trans[i] < 0 || a.part_size[i - 2] as i64 <= trans[i]);
    ensure!(
        fits,
        InvalidArgument,
        "operator {op}: part_size {:?} must not exceed the sizes of Trans, got shape {:?}",
        a.part_size,
        &trans[..]
    );
    let samples = a.sample_per_part as i64;
    ensure!(samples > 0, InvalidArgument, "operator {op}: sample_per_part must be above 0, got {samples}");
    ensure!(
        samples * a.pooled_height.max(a.pooled_width) as i64 <= MOST_SAMPLES,
        ResourceExhausted,
        "operator {op}: sample_per_part {samples} makes too many samples of bins {} x {}",
        a.pooled_height,
        a.pooled_width
    );
    if !a.no_trans {
        ensure!(
            trans[0] >= out[0] || trans[0] < 0,
            InvalidArgument,
            "operator {op}: Trans must have a row for each of the {} RoIs, got shape {:?}",
            out[0],
            &trans[..]
        );
        if trans[1] >= 0 {
            classes(op, a, trans[1])?;
        }
    }
    for slot in [fwd::COUNT, fwd::OUTPUT] {
        cx.set(slot, &out, dtype);
    }
    Ok(())
}

/// A RoI along one axis.
struct Side<R> {
    start: R,
    length: R,
    bin: R,
    size: usize,
}

impl<R: Float> Side<R> {
    fn new(a: &DeformRoiAttrs, from: R, to: R, pooled: i32, size: usize) -> Side<R> {
        let (scale, half) = (rois::real::<R>(a.spatial_scale as f64), rois::real::<R>(0.5));
        let start = rois::round(from) * scale - half;
        let end = rois::real::<R>(rois::round(to).to_f64() + 1.0) * scale - half;
        let length = most(end - start, rois::real(0.1));
        Side { start, length, bin: length / rois::real(pooled as f64), size }
    }

    /// The samples of a displaced bin within the map.
    fn places<'a>(&'a self, a: &'a DeformRoiAttrs, bin: usize, moved: R) -> impl Iterator<Item = R> + 'a {
        let begin = rois::real::<R>(bin as f64) * self.bin + self.start + moved * self.length;
        let step = self.bin / rois::real(a.sample_per_part as f64);
        let (low, high) = (rois::real::<R>(-0.5), rois::real::<R>(self.size as f64 - 0.5));
        (0..a.sample_per_part).filter_map(move |i| {
            let place = begin + rois::real::<R>(i as f64) * step;
            let last = rois::real::<R>(self.size as f64 - 1.0);
            (!(place < low || place > high)).then(|| least(most(place, R::ZERO), last))
        })
    }

    /// The weights of a bin's samples, and the number of samples.
    fn weights(&self, a: &DeformRoiAttrs, bin: usize, moved: R, to: &mut Line<R>) -> usize {
        let mut count = 0;
        for place in self.places(a, bin, moved) {
            count += 1;
            let Some((low, high, part)) = between(place, self.size) else { continue };
            to.add(low, R::ONE - part);
            if part != R::ZERO {
                to.add(high, part);
            }
        }
        count
    }

    /// Derivatives of the weights by the displacement.
    fn changes(&self, a: &DeformRoiAttrs, bin: usize, moved: R, to: &mut Line<R>) {
        for place in self.places(a, bin, moved) {
            let Some((low, high, part)) = between(place, self.size) else { continue };
            if part != R::ZERO {
                to.add(low, R::ZERO - R::ONE);
                to.add(high, R::ONE);
            }
        }
    }
}

/// Feature maps, RoIs and displacements of a call.
struct Call<'a, T> {
    a: &'a DeformRoiAttrs,
    p: &'a Pooling,
    rois: &'a [T],
    trans: &'a [T],
    classes: usize,
}

impl<T: rois::Feature<W = T> + Float> Call<'_, T> {
    fn sides(&self, roi: usize) -> (Side<T>, Side<T>) {
        let (a, r) = (self.a, &self.rois[roi * 4..][..4]);
        let down = Side::new(a, r[1], r[3], a.pooled_height, self.p.size.0);
        (down, Side::new(a, r[0], r[2], a.pooled_width, self.p.size.1))
    }

    /// Offsets of a bin's displacements along (height, width).
    fn entries(&self, roi: usize, class: usize, (ph, pw): (usize, usize)) -> (usize, usize) {
        let (a, [height, width]) = (self.a, [self.a.part_size[0] as usize, self.a.part_size[1] as usize]);
        let part = |p: usize, pooled: i32, parts: usize| {
            let at = T::from_f64(p as f64) / T::from_f64(pooled as f64) * T::from_f64(parts as f64);
            (rois::floor(at).max(0) as usize).min(parts - 1)
        };
        let (row, col) = (part(ph, a.pooled_height, height), part(pw, a.pooled_width, width));
        let of = |axis: usize| (((roi * self.classes + class) * 2 + axis) * height + row) * width + col;
        (of(1), of(0))
    }

    fn moved(&self, at: usize) -> T {
        match self.a.no_trans {
            true => T::ZERO,
            false => self.trans[at] * T::from_f64(self.a.trans_std as f64),
        }
    }

    fn each_bin(&self, mut f: impl FnMut((usize, usize))) {
        for ph in 0..self.a.pooled_height as usize {
            (0..self.a.pooled_width as usize).for_each(|pw| f((ph, pw)));
        }
    }

    /// The plane of a channel's group that a bin reads.
    fn plane(&self, (ph, pw): (usize, usize)) -> usize {
        let group = |p: usize, groups: i32, pooled: i32| {
            let at = T::from_f64(p as f64) * T::from_f64(groups as f64) / T::from_f64(pooled as f64);
            rois::floor(at).clamp(0, groups as i64 - 1) as usize
        };
        let g = &self.a.group_size;
        group(ph, g[0], self.a.pooled_height) * g[1] as usize + group(pw, g[1], self.a.pooled_width)
    }

    fn bins(&self, roi: usize, class: usize, to: &mut Bins<T>) {
        let (down, across) = self.sides(roi);
        self.each_bin(|bin| {
            let (y, x) = self.entries(roi, class, bin);
            let (mut tall, mut wide) = (0, 0);
            let rows = to.line(|l| tall = down.weights(self.a, bin.0, self.moved(y), l));
            let cols = to.line(|l| wide = across.weights(self.a, bin.1, self.moved(x), l));
            to.push(self.plane(bin), rows, cols, T::from_f64((tall * wide) as f64));
        });
    }

    fn counts(&self, count: &mut [T]) {
        pool::parts(count, (self.p.channels * self.p.bins).max(1), |at, count| {
            let mut bins = Bins::default();
            let roi = at / (self.p.channels * self.p.bins);
            for (c, count) in count.chunks_exact_mut(self.p.bins).enumerate() {
                if c % self.p.alike == 0 {
                    bins.clear();
                    self.bins(roi, c / self.p.alike, &mut bins);
                }
                bins.divisors().zip(count).for_each(|(d, to)| *to = d);
            }
        });
    }

    /// The gradient of the displacements.
    fn of_trans(&self, x: &[T], dout: &[T], dtrans: &mut [T]) {
        let (p, area) = (self.p, self.p.size.0 * self.p.size.1);
        let image_of = p.image_of_rois();
        let each = self.classes * 2 * (self.a.part_size[0] * self.a.part_size[1]) as usize;
        dtrans.fill(T::ZERO);
        let shared = Shared::new(dtrans);
        pool::chunks(image_of.len(), |roi| {
            // SAFETY: RoIs have disjoint displacements, and `dtrans` outlives all chunks.
            let to = unsafe { shared.part(roi * each..(roi + 1) * each) };
            let (down, across) = self.sides(roi);
            let std = T::from_f64(self.a.trans_std as f64);
            let mut lines = Bins::default();
            for class in 0..self.classes {
                let mut index = 0;
                self.each_bin(|bin| {
                    lines.clear();
                    let (y, x_at) = self.entries(roi, class, bin);
                    let (my, mx) = (self.moved(y), self.moved(x_at));
                    let (mut tall, mut wide) = (0, 0);
                    let rows = lines.line(|l| tall = down.weights(self.a, bin.0, my, l));
                    let cols = lines.line(|l| wide = across.weights(self.a, bin.1, mx, l));
                    let by_row = lines.line(|l| down.changes(self.a, bin.0, my, l));
                    let by_col = lines.line(|l| across.changes(self.a, bin.1, mx, l));
                    let at = index;
                    index += 1;
                    if tall * wide == 0 {
                        return;
                    }
                    let count = T::from_f64((tall * wide) as f64);
                    for c in class * p.alike..((class + 1) * p.alike).min(p.channels) {
                        let plane = (image_of[roi] * p.planes + c * p.reads + self.plane(bin)) * area;
                        let x = &x[plane..][..area];
                        let d = dout[(roi * p.channels + c) * p.bins + at] / count * std;
                        let along = |rows: &std::ops::Range<usize>, cols: &std::ops::Range<usize>, length: T| {
                            lines.sum(x, p.size.1, rows.clone(), cols.clone()) * d * length
                        };
                        to[y - roi * each] += along(&by_row, &cols, down.length);
                        to[x_at - roi * each] += along(&rows, &by_col, across.length);
                    }
                });
            }
        });
    }
}

/// The pooling geometry and the number of classes.
fn pooling(cx: &KernelContext, [x, rois, trans]: [InSlot; 3]) -> Result<(Pooling, usize)> {
    let a = cx.attrs::<DeformRoiAttrs>();
    let (input, moves) = (cx.input(x)?, cx.input(trans)?);
    rois::same_type(cx, input.dtype(), if a.no_trans { &[] } else { std::slice::from_ref(&trans) })?;
    let classes = classes(cx.op.name, a, moves.dims()[1])?;
    let channels = a.output_dim as usize;
    let p = Pooling::new(cx, (x, rois, None), a.pooled_height as usize * a.pooled_width as usize)?;
    let reads = (a.group_size[0] * a.group_size[1]) as usize;
    Ok((Pooling { channels, reads, alike: (channels / classes).max(1), ..p }, classes))
}

fn places<T: Element>(a: &DeformRoiAttrs, t: &Tensor) -> Vec<T> {
    if a.no_trans {
        return Vec::new();
    }
    t.data::<T>().to_vec()
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, rois, trans) = (cx.input(fwd::INPUT)?, cx.input(fwd::ROIS)?, cx.input(fwd::TRANS)?);
    let a = cx.attrs::<DeformRoiAttrs>();
    let (p, classes) = pooling(cx, [fwd::INPUT, fwd::ROIS, fwd::TRANS])?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let trans = places::<T>(a, trans);
        let call = Call { a, p: &p, rois: rois.data::<T>(), trans: &trans, classes };
        p.forward(x.data::<T>(), cx.out_data::<T>(fwd::OUTPUT)?, |n, class, to| call.bins(n, class, to));
        if cx.wants(fwd::COUNT) {
            call.counts(cx.out_data::<T>(fwd::COUNT)?);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, rois, trans) = (cx.input(grad::INPUT)?, cx.input(grad::ROIS)?, cx.input(grad::TRANS)?);
    let a = cx.attrs::<DeformRoiAttrs>();
    let (p, classes) = pooling(cx, [grad::INPUT, grad::ROIS, grad::TRANS])?;
    let out = [rois.dims()[0], a.output_dim as i64, a.pooled_height as i64, a.pooled_width as i64];
    let dout = rois::grad_of(cx, grad::DOUTPUT, &out, x.dtype())?;
    let [dx, dtrans] = cx.each_out([grad::DINPUT, grad::DTRANS]);
    dispatch!(x.dtype(), T in [f32, f64], {
        let trans = places::<T>(a, trans);
        let call = Call { a, p: &p, rois: rois.data::<T>(), trans: &trans, classes };
        if let Some(dx) = dx {
            p.backward(dout.data::<T>(), dx.data_mut::<T>()?, |n, class, to| call.bins(n, class, to));
        }
        match dtrans {
            Some(dtrans) if a.no_trans => dtrans.bytes_mut()?.fill(0),
            Some(dtrans) => call.of_trans(x.data::<T>(), dout.data::<T>(), dtrans.data_mut::<T>()?),
            None => {}
        }
        Ok(())
    }, other => cx.unsupported(other))
}

pub static DEFORMABLE_PSROI: Op = Op {
    name: "deformable_psroi_pooling",
    inputs: fwd::INS,
    outputs: fwd::OUTS,
    attrs: DeformRoiAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&DEFORMABLE_PSROI_GRAD),
    ..OP
};

pub static DEFORMABLE_PSROI_GRAD: Op = Op {
    name: "deformable_psroi_pooling_grad",
    inputs: grad::INS,
    outputs: grad::OUTS,
    attrs: DeformRoiAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&DEFORMABLE_PSROI, &DEFORMABLE_PSROI_GRAD];
