//! Losses of differences: huber_loss, smooth_l1_loss, squared_l2_distance, center_loss.

use super::elements::{agree, check_outs, each2, each3, like, of_size, rows_and_width, same_shapes};
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, NoAttrs, Op, OutSlot, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_ops_common::half::in_f32;
use oar_ops_common::tensor_attr::scalar;

attrs! {
    pub struct HuberAttrs { delta: f32 }
    pub struct SmoothAttrs { sigma: f32 = 1.0 }
    pub struct CenterAttrs { cluster_num: i32, need_update: bool }
}

slots! {
    mod huber { X "X", Y "Y" => RESIDUAL "Residual".intermediate(), OUT "Out" }
    mod huber_grad { RESIDUAL "Residual", DOUT "Out@GRAD" => DX "X@GRAD", DY "Y@GRAD" }
    mod smooth {
        X "X", Y "Y", INSIDE "InsideWeight".dispensable(), OUTSIDE "OutsideWeight".dispensable() => DIFF "Diff".intermediate(), OUT "Out"
    }
    mod smooth_grad {
        INSIDE "InsideWeight".dispensable(), OUTSIDE "OutsideWeight".dispensable(), DIFF "Diff", DOUT "Out@GRAD"
        => DX "X@GRAD", DY "Y@GRAD"
    }
    mod distance { X "X", Y "Y" => SUB "sub_result".intermediate(), OUT "Out" }
    mod distance_grad {
        DOUT "Out@GRAD", SUB "sub_result", X "X".meta_only(), Y "Y".meta_only() => DX "X@GRAD", DY "Y@GRAD"
    }
    mod center {
        X "X", LABEL "Label", CENTERS "Centers", RATE "CenterUpdateRate"
        => CENTERS_OUT "CentersOut".aliases("Centers"), DIFF "SampleCenterDiff", LOSS "Loss"
    }
    mod center_grad { DLOSS "Loss@GRAD", DIFF "SampleCenterDiff", X "X".meta_only() => DX "X@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

/// The gradients of X and Y have the shape of what was kept of their difference.
fn both_like(cx: &mut ShapeContext, kept: InSlot, outs: [OutSlot; 2]) -> Result<()> {
    for out in outs {
        cx.like(out, kept)?;
    }
    Ok(())
}

// huber_loss

fn run_huber(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(huber::X)?;
    let y = like(cx, huber::Y, x)?;
    let delta = cx.attrs::<HuberAttrs>().delta;
    let mut residual = cx.take_out(huber::RESIDUAL)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let delta = delta as T;
        each2(x.data::<T>(), y.data::<T>(), residual.data_mut::<T>()?, |x, y| y - x);
        let r = residual.data::<T>();
        each2(r, r, cx.out_data::<T>(huber::OUT)?, |v, _| {
            if v.abs() <= delta { 0.5 * v * v } else { delta * (v.abs() - 0.5 * delta) }
        });
    }, other => return cx.unsupported(other));
    cx.set(huber::RESIDUAL, residual);
    Ok(())
}

fn run_huber_grad(cx: &mut KernelContext) -> Result<()> {
    use huber_grad::{DOUT, DX, DY, RESIDUAL};
    let residual = cx.input(RESIDUAL)?;
    let dout = like(cx, DOUT, residual)?;
    let delta = cx.attrs::<HuberAttrs>().delta;
    dispatch!(residual.dtype(), T in [f32, f64], {
        let delta = delta as T;
        for (slot, sign) in [(DX, -1.0), (DY, 1.0)] {
            if cx.wants(slot) {
                each2(residual.data::<T>(), dout.data::<T>(), cx.out_data::<T>(slot)?, |v, d| {
                    let slope = if v.abs() <= delta { v } else if v > 0.0 { delta } else { -delta };
                    d * (sign * slope)
                });
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static HUBER: Op = Op {
    name: "huber_loss",
    inputs: huber::INS,
    outputs: huber::OUTS,
    dtypes: FLOATS,
    cannot_fail: true,
    attrs: HuberAttrs::FIELDS,
    infer: |cx| {
        same_shapes(cx, &[huber::X, huber::Y])?;
        cx.like(huber::RESIDUAL, huber::Y)?;
        cx.like(huber::OUT, huber::Y)?;
        cx.share_lod(huber::OUT, huber::X);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, huber::X, run_huber)),
    grad: Grad::By(&HUBER_GRAD),
    ..OP
};

pub static HUBER_GRAD: Op = Op {
    name: "huber_loss_grad",
    inputs: huber_grad::INS,
    outputs: huber_grad::OUTS,
    dtypes: FLOATS,
    attrs: HuberAttrs::FIELDS,
    infer: |cx| both_like(cx, huber_grad::RESIDUAL, [huber_grad::DX, huber_grad::DY]),
    cpu: Kernel::Pure(|cx| in_f32(cx, huber_grad::RESIDUAL, run_huber_grad)),
    ..OP
};

// smooth_l1_loss

fn infer_smooth(cx: &mut ShapeContext) -> Result<()> {
    use smooth::{DIFF, INSIDE, OUT, OUTSIDE, X, Y};
    same_shapes(cx, &[X, Y])?;
    let (dims, dtype) = (cx.dims(X)?, cx.dtype(X)?);
    ensure!(
        dims.len() >= 2,
        InvalidArgument,
        "operator smooth_l1_loss: X must have 2 dimensions or more, got shape {:?}",
        &dims[..]
    );
    if cx.has(INSIDE) || cx.has(OUTSIDE) {
        ensure!(
            cx.has(INSIDE) && cx.has(OUTSIDE),
            InvalidArgument,
            "operator smooth_l1_loss: InsideWeight and OutsideWeight must be given together, got one of them"
        );
        same_shapes(cx, &[X, INSIDE, OUTSIDE])?;
    }
    cx.set(DIFF, &dims, dtype);
    cx.set(OUT, &[dims[0], 1], dtype);
    Ok(())
}

/// Adds the rows of a matrix up, in lanes that do not wait for each other.
macro_rules! row_sums {
    ($values:expr, $out:expr, $t:ty) => {{
        let (values, out): (&[$t], &mut [$t]) = ($values, $out);
        let width = values.len() / out.len().max(1);
        for (i, o) in out.iter_mut().enumerate() {
            let mut lanes = [0.0; 8];
            for some in values[i * width..(i + 1) * width].chunks(lanes.len()) {
                lanes.iter_mut().zip(some).for_each(|(l, &v)| *l += f64::from(v));
            }
            *o = lanes.iter().sum::<f64>() as $t;
        }
    }};
}

fn run_smooth(cx: &mut KernelContext) -> Result<()> {
    use smooth::{DIFF, INSIDE, OUT, OUTSIDE, X, Y};
    let x = cx.input(X)?;
    let y = like(cx, Y, x)?;
    let weights = if cx.has(INSIDE) { Some((like(cx, INSIDE, x)?, like(cx, OUTSIDE, x)?)) } else { None };
    let sigma = cx.attrs::<SmoothAttrs>().sigma;
    let mut diff = cx.take_out(DIFF)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let square = sigma as T * sigma as T;
        let loss = |v: T| if v.abs() < 1.0 / square { 0.5 * v * v * square } else { v.abs() - 0.5 / square };
        let (xs, ys) = (x.data::<T>(), y.data::<T>());
        let mut losses = vec![0.0; xs.len()];
        match weights {
            Some((inside, outside)) => {
                each3(xs, ys, inside.data::<T>(), diff.data_mut::<T>()?, |x, y, w| (x - y) * w);
                each2(diff.data::<T>(), outside.data::<T>(), &mut losses, |v, w| loss(v) * w);
            }
            None => {
                each2(xs, ys, diff.data_mut::<T>()?, |x, y| x - y);
                each2(diff.data::<T>(), diff.data::<T>(), &mut losses, |v, _| loss(v));
            }
        }
        row_sums!(&losses, cx.out_data::<T>(OUT)?, T);
    }, other => return cx.unsupported(other));
    cx.set(DIFF, diff);
    Ok(())
}

fn run_smooth_grad(cx: &mut KernelContext) -> Result<()> {
    use smooth_grad::{DIFF, DOUT, DX, DY, INSIDE, OUTSIDE};
    let diff = cx.input(DIFF)?;
    ensure!(diff.rank() > 0, InvalidArgument, "operator smooth_l1_loss_grad: Diff must have a dimension, got {diff:?}");
    let rows = diff.dims()[0] as usize;
    let dout = of_size(cx, DOUT, rows, diff.dtype())?;
    let both = cx.has(INSIDE) && cx.has(OUTSIDE);
    let weights = if both { Some((like(cx, INSIDE, diff)?, like(cx, OUTSIDE, diff)?)) } else { None };
    let sigma = cx.attrs::<SmoothAttrs>().sigma;
    let width = diff.numel().checked_div(rows).unwrap_or(0);
    dispatch!(diff.dtype(), T in [f32, f64], {
        let square = sigma as T * sigma as T;
        let slope = |v: T| {
            if v.abs() < 1.0 / square { square * v } else { T::from(i8::from(v > 0.0)) - T::from(i8::from(v < 0.0)) }
        };
        let (v, d) = (diff.data::<T>(), dout.data::<T>());
        let weights = weights.map(|(a, b)| (a.data::<T>(), b.data::<T>()));
        for (slot, sign) in [(DX, 1.0), (DY, -1.0)] {
            if !cx.wants(slot) {
                continue;
            }
            let out = cx.out_data::<T>(slot)?;
            for i in 0..v.len() {
                let w = weights.map_or(1.0, |(a, b)| a[i] * b[i]);
                out[i] = sign * (d[i / width] * w * slope(v[i]));
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SMOOTH: Op = Op {
    name: "smooth_l1_loss",
    inputs: smooth::INS,
    outputs: smooth::OUTS,
    dtypes: FLOATS,
    attrs: SmoothAttrs::FIELDS,
    infer: infer_smooth,
    cpu: Kernel::Pure(|cx| in_f32(cx, smooth::X, run_smooth)),
    grad: Grad::By(&SMOOTH_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};

pub static SMOOTH_GRAD: Op = Op {
    name: "smooth_l1_loss_grad",
    inputs: smooth_grad::INS,
    outputs: smooth_grad::OUTS,
    attrs: SmoothAttrs::FIELDS,
    infer: |cx| both_like(cx, smooth_grad::DIFF, [smooth_grad::DX, smooth_grad::DY]),
    cpu: Kernel::Pure(|cx| in_f32(cx, smooth_grad::DIFF, run_smooth_grad)),
    ..OP
};

// squared_l2_distance

fn infer_distance(cx: &mut ShapeContext) -> Result<()> {
    use distance::{OUT, SUB, X, Y};
    let (x, y, dtype) = (cx.dims(X)?, cx.dims(Y)?, cx.dtype(X)?);
    ensure!(
        x.len() == y.len() && x.len() >= 2,
        InvalidArgument,
        "operator squared_l2_distance: X and Y must have as many dimensions, 2 or more, got {:?} and {:?}",
        &x[..],
        &y[..]
    );
    let ((rows, width), (others, other)) = (rows_and_width(&x), rows_and_width(&y));
    ensure!(
        agree(width, other) && (agree(rows, others) || others == 1),
        InvalidArgument,
        "operator squared_l2_distance: Y must have the rows of X {:?}, or one row, got {:?}",
        &x[..],
        &y[..]
    );
    cx.set(SUB, &[rows, width], dtype);
    cx.set(OUT, &[rows, 1], dtype);
    cx.share_lod(OUT, X);
    Ok(())
}

fn run_distance(cx: &mut KernelContext) -> Result<()> {
    use distance::{OUT, SUB, X, Y};
    let (x, y) = (cx.input(X)?, cx.input(Y)?);
    ensure!(
        x.dtype() == y.dtype(),
        InvalidArgument,
        "operator squared_l2_distance: X and Y must have the same data type, got {} and {}",
        x.dtype(),
        y.dtype()
    );
    let mut sub = cx.take_out(SUB)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let (xs, ys) = (x.data::<T>(), y.data::<T>());
        let d = sub.data_mut::<T>()?;
        for (i, d) in d.iter_mut().enumerate() {
            *d = xs[i] - ys[i % ys.len()];
        }
        let squares: Vec<T> = d.iter().map(|v| v * v).collect();
        row_sums!(&squares, cx.out_data::<T>(OUT)?, T);
    }, other => return cx.unsupported(other));
    cx.set(SUB, sub);
    Ok(())
}

fn run_distance_grad(cx: &mut KernelContext) -> Result<()> {
    use distance_grad::{DOUT, DX, DY, SUB};
    let sub = cx.input(SUB)?;
    let rows = *sub.dims().first().unwrap_or(&0) as usize;
    let dout = of_size(cx, DOUT, rows, sub.dtype())?;
    let width = sub.numel().checked_div(rows).unwrap_or(0);
    check_outs(cx, &[DX], sub.numel(), sub.dtype())?;
    if cx.wants(DY) {
        let n = cx.out(DY)?.numel();
        ensure!(
            n == sub.numel() || n == width,
            InvalidArgument,
            "operator squared_l2_distance_grad: Y must have the rows of X or one, got {n} elements for {}",
            sub.numel()
        );
        check_outs(cx, &[DY], n, sub.dtype())?;
    }
    dispatch!(sub.dtype(), T in [f32, f64], {
        let (v, d) = (sub.data::<T>(), dout.data::<T>());
        if cx.wants(DX) {
            for (i, o) in cx.out_data::<T>(DX)?.iter_mut().enumerate() {
                *o = 2.0 * d[i / width] * v[i];
            }
        }
        if cx.wants(DY) {
            // One row of Y was subtracted from all rows of X: the sum of their gradients.
            let out = cx.out_data::<T>(DY)?;
            out.fill(0.0);
            let n = out.len().max(1);
            for (i, v) in v.iter().enumerate() {
                out[i % n] -= 2.0 * d[i / width] * v;
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static DISTANCE: Op = Op {
    name: "squared_l2_distance",
    inputs: distance::INS,
    outputs: distance::OUTS,
    dtypes: FLOATS,
    attrs: NoAttrs::FIELDS,
    infer: infer_distance,
    cpu: Kernel::Pure(|cx| in_f32(cx, distance::X, run_distance)),
    grad: Grad::By(&DISTANCE_GRAD),
    ..OP
};

pub static DISTANCE_GRAD: Op = Op {
    name: "squared_l2_distance_grad",
    inputs: distance_grad::INS,
    outputs: distance_grad::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: oar_core::op::infer::grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, distance_grad::SUB, run_distance_grad)),
    ..OP
};

// center_loss

fn infer_center(cx: &mut ShapeContext) -> Result<()> {
    use center::{CENTERS, CENTERS_OUT, DIFF, LABEL, LOSS, X};
    let (x, centers, label, dtype) = (cx.dims(X)?, cx.dims(CENTERS)?, cx.dims(LABEL)?, cx.dtype(X)?);
    ensure!(
        x.len() >= 2 && centers.len() == 2,
        InvalidArgument,
        "operator center_loss: X must have 2 dimensions or more and Centers 2, got {:?} and {:?}",
        &x[..],
        &centers[..]
    );
    let (rows, width) = rows_and_width(&x);
    let clusters = cx.attrs::<CenterAttrs>().cluster_num as i64;
    ensure!(
        agree(width, centers[1]) && agree(clusters, centers[0]) && clusters > 0,
        InvalidArgument,
        "operator center_loss: Centers must have cluster_num {clusters} rows as wide as those of X {:?}, got {:?}",
        &x[..],
        &centers[..]
    );
    ensure!(
        !label.is_empty() && agree(label[0], rows) && label[1..].iter().all(|&d| agree(d, 1)),
        InvalidArgument,
        "operator center_loss: Label must have one class for each row of X {:?}, got shape {:?}",
        &x[..],
        &label[..]
    );
    let m = cx.meta(CENTERS, 0)?;
    cx.set_meta(CENTERS_OUT, 0, m);
    cx.set(DIFF, &[rows, width], dtype);
    cx.set(LOSS, &[rows, 1], dtype);
    cx.share_lod(LOSS, X);
    Ok(())
}

fn run_center(cx: &mut KernelContext) -> Result<()> {
    use center::{CENTERS_OUT, DIFF, LABEL, LOSS, RATE, X};
    let (x, labels, a) = (cx.input(X)?, cx.input(LABEL)?.to_i64s()?, cx.attrs::<CenterAttrs>());
    let rate = if a.need_update { scalar(cx, RATE)? } else { 0.0 };
    let clusters = a.cluster_num as usize;
    for &label in &labels {
        ensure!(
            (0..clusters as i64).contains(&label),
            InvalidArgument,
            "operator center_loss: Label must hold classes from 0 to below {clusters}, got {label}"
        );
    }
    let width = x.numel().checked_div(labels.len()).unwrap_or(0);
    let mut centers = cx.take_out(CENTERS_OUT)?;
    let (mut diff, mut loss) = (cx.take_out(DIFF)?, cx.take_out(LOSS)?);
    ensure!(
        centers.dtype() == x.dtype() && centers.numel() == clusters * width || labels.is_empty(),
        InvalidArgument,
        "operator center_loss: Centers must have the data type and width of X {x:?}, got {centers:?}"
    );
    dispatch!(x.dtype(), T in [f32, f64], {
        let (xs, d, l) = (x.data::<T>(), diff.data_mut::<T>()?, loss.data_mut::<T>()?);
        let c = centers.data::<T>();
        let mut sums: Vec<T> = vec![0.0; if a.need_update { c.len() } else { 0 }];
        let mut counts: Vec<T> = vec![1.0; clusters];
        for (i, &label) in labels.iter().enumerate() {
            let at = label as usize * width;
            counts[label as usize] += 1.0;
            let mut square = 0.0;
            for k in 0..width {
                let v = xs[i * width + k] - c[at + k];
                d[i * width + k] = v;
                square += v * v;
                if a.need_update {
                    sums[at + k] += v;
                }
            }
            l[i] = square / 2.0;
        }
        if a.need_update && width > 0 {
            for (i, (c, s)) in centers.data_mut::<T>()?.iter_mut().zip(&sums).enumerate() {
                *c += s * (rate as T / counts[i / width]);
            }
        }
    }, other => return cx.unsupported(other));
    cx.set(CENTERS_OUT, centers);
    cx.set(DIFF, diff);
    cx.set(LOSS, loss);
    Ok(())
}

fn run_center_grad(cx: &mut KernelContext) -> Result<()> {
    use center_grad::{DIFF, DLOSS, DX};
    let diff = cx.input(DIFF)?;
    let rows = *diff.dims().first().unwrap_or(&0) as usize;
    let dloss = of_size(cx, DLOSS, rows, diff.dtype())?;
    let width = diff.numel().checked_div(rows).unwrap_or(0);
    check_outs(cx, &[DX], diff.numel(), diff.dtype())?;
    dispatch!(diff.dtype(), T in [f32, f64], {
        let (v, d) = (diff.data::<T>(), dloss.data::<T>());
        for (i, o) in cx.out_data::<T>(DX)?.iter_mut().enumerate() {
            *o = d[i / width] * v[i];
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static CENTER: Op = Op {
    name: "center_loss",
    inputs: center::INS,
    outputs: center::OUTS,
    dtypes: DTypes::FLOATS,
    attrs: CenterAttrs::FIELDS,
    infer: infer_center,
    cpu: Kernel::Pure(run_center),
    grad: Grad::By(&CENTER_GRAD),
    ..OP
};

pub static CENTER_GRAD: Op = Op {
    name: "center_loss_grad",
    inputs: center_grad::INS,
    outputs: center_grad::OUTS,
    attrs: CenterAttrs::FIELDS,
    infer: oar_core::op::infer::grads_like_inputs,
    cpu: Kernel::Pure(run_center_grad),
    ..OP
};

pub static TABLE: &[&Op] =
    &[&HUBER, &HUBER_GRAD, &SMOOTH, &SMOOTH_GRAD, &DISTANCE, &DISTANCE_GRAD, &CENTER, &CENTER_GRAD];
