//! Losses of scores before a sigmoid: sigmoid_focal_loss, teacher_student_sigmoid_loss, bpr_loss.

use super::elements::{agree, each2, each3, like, of_size};
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::pool;
use oar_ops_common::half::in_f32;

attrs! {
    pub struct FocalAttrs { gamma: f32 = 2.0, alpha: f32 = 0.25 }
    pub struct TeacherAttrs { soft_max_up_bound: f32 = 15.0, soft_max_lower_bound: f32 = -15.0 }
}

slots! {
    mod focal { X "X", LABEL "Label", FOREGROUND "FgNum" => OUT "Out" }
    mod focal_grad { X "X", LABEL "Label", FOREGROUND "FgNum", DOUT "Out@GRAD" => DX "X@GRAD" }
    mod teacher { X "X", LABEL "Label" => Y "Y" }
    mod teacher_grad { X "X", LABEL "Label", DY "Y@GRAD" => DX "X@GRAD" }
    mod bpr { X "X", LABEL "Label" => Y "Y" }
    mod bpr_grad { X "X", LABEL "Label", DY "Y@GRAD" => DX "X@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);
const GRAIN: usize = 1 << 12;

/// Label has the shape of X, but 1 in the last dimension.
fn one_label_a_row(cx: &ShapeContext, x: InSlot, label: InSlot) -> Result<()> {
    let (x, label) = (cx.dims(x)?, cx.dims(label)?);
    let fits = !x.is_empty()
        && x.len() == label.len()
        && x[..x.len() - 1].iter().zip(&label).all(|(&a, &b)| agree(a, b))
        && agree(label[x.len() - 1], 1);
    ensure!(
        fits,
        InvalidArgument,
        "operator {}: Label must have the shape of X {:?}, but 1 in the last dimension, got {:?}",
        cx.op.name,
        &x[..],
        &label[..]
    );
    Ok(())
}

/// The labels of the rows of X, and how long a row is.
fn labels(cx: &KernelContext, x: &Tensor, slot: InSlot) -> Result<(Vec<i64>, usize)> {
    let width = *x.dims().last().unwrap_or(&0) as usize;
    let labels = cx.input(slot)?.to_i64s()?;
    ensure!(
        labels.len() * width == x.numel(),
        InvalidArgument,
        "operator {}: Label must have one class for each row of X {x:?}, got {}",
        cx.op.name,
        labels.len()
    );
    Ok((labels, width))
}

// sigmoid_focal_loss: label c + 1 is class c, 0 the background, -1 ignored

/// The factors of the two terms for class `k` of a sample with this label: alpha or 1 - alpha, over the foreground.
fn shares(label: i64, k: usize, alpha: f64, foreground: f64) -> (f64, f64) {
    let own = label == k as i64 + 1;
    let positive = if own { alpha / foreground } else { 0.0 };
    (positive, if !own && label != -1 { (1.0 - alpha) / foreground } else { 0.0 })
}

fn foreground(cx: &KernelContext, slot: InSlot) -> Result<f64> {
    let n = cx.input(slot)?.to_i64s()?;
    ensure!(n.len() == 1, InvalidArgument, "operator {}: FgNum must hold one integer, got {}", cx.op.name, n.len());
    Ok(n[0].max(1) as f64)
}

fn run_focal(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(focal::X)?;
    let (labels, width) = labels(cx, x, focal::LABEL)?;
    let (n, a) = (foreground(cx, focal::FOREGROUND)?, cx.attrs::<FocalAttrs>());
    dispatch!(x.dtype(), T in [f32, f64], {
        let (xs, gamma) = (x.data::<T>(), a.gamma as T);
        pool::parts(cx.out_data::<T>(focal::OUT)?, GRAIN, |at, out| {
            for (k, o) in out.iter_mut().enumerate() {
                let (i, x) = (at + k, xs[at + k]);
                let (positive, negative) = shares(labels[i / width], i % width, a.alpha as f64, n);
                let p = 1.0 / (1.0 + (-x).exp());
                // ln(1 - p)
                let rest = -x.max(0.0) - (-x.abs()).exp().ln_1p();
                *o = -(1.0 - p).powf(gamma) * p.max(f32::MIN_POSITIVE as T).ln() * positive as T
                    - p.powf(gamma) * rest * negative as T;
            }
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_focal_grad(cx: &mut KernelContext) -> Result<()> {
    use focal_grad::{DOUT, DX, FOREGROUND, LABEL, X};
    let x = cx.input(X)?;
    let dout = like(cx, DOUT, x)?;
    let (labels, width) = labels(cx, x, LABEL)?;
    let (n, a) = (foreground(cx, FOREGROUND)?, cx.attrs::<FocalAttrs>());
    dispatch!(x.dtype(), T in [f32, f64], {
        let (xs, d, gamma) = (x.data::<T>(), dout.data::<T>(), a.gamma as T);
        pool::parts(cx.out_data::<T>(DX)?, GRAIN, |at, out| {
            for (k, o) in out.iter_mut().enumerate() {
                let (i, x) = (at + k, xs[at + k]);
                let (positive, negative) = shares(labels[i / width], i % width, a.alpha as f64, n);
                let p = 1.0 / (1.0 + (-x).exp());
                let rest = -x.max(0.0) - (-x.abs()).exp().ln_1p();
                let own = (1.0 - p).powf(gamma) * (1.0 - p - p * gamma * p.max(f32::MIN_POSITIVE as T).ln());
                let other = p.powf(gamma) * (rest * (1.0 - p) * gamma - p);
                *o = (-(positive as T) * own - negative as T * other) * d[i];
            }
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static FOCAL: Op = Op {
    name: "sigmoid_focal_loss",
    inputs: focal::INS,
    outputs: focal::OUTS,
    dtypes: FLOATS,
    attrs: FocalAttrs::FIELDS,
    infer: |cx| {
        one_label_a_row(cx, focal::X, focal::LABEL)?;
        let n = cx.dims(focal::FOREGROUND)?;
        ensure!(
            n.len() == 1 && agree(n[0], 1),
            InvalidArgument,
            "operator sigmoid_focal_loss: FgNum must have the shape [1], got {:?}",
            &n[..]
        );
        like_first(cx)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, focal::X, run_focal)),
    grad: Grad::By(&FOCAL_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};

pub static FOCAL_GRAD: Op = Op {
    name: "sigmoid_focal_loss_grad",
    inputs: focal_grad::INS,
    outputs: focal_grad::OUTS,
    dtypes: FLOATS,
    attrs: FocalAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, focal_grad::X, run_focal_grad)),
    ..OP
};

// teacher_student_sigmoid_loss: labels -2 and -1 say no and yes, those from 0 hold a teacher's opinion, plus 1 for yes

fn run_teacher(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(teacher::X)?;
    let label = of_size(cx, teacher::LABEL, x.numel(), x.dtype())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        each2(x.data::<T>(), label.data::<T>(), cx.out_data::<T>(teacher::Y)?, |x, y| {
            let entropy = |y: T| x.max(0.0) - x * y + (-x.abs()).exp().ln_1p();
            if y < -1.0 {
                entropy(0.0)
            } else if y < 0.0 {
                entropy(1.0)
            } else if y < 1.0 {
                entropy(0.0) + entropy(y)
            } else {
                entropy(1.0) + entropy(y - 1.0)
            }
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

/// Beyond the bounds there is no gradient.
fn run_teacher_grad(cx: &mut KernelContext) -> Result<()> {
    use teacher_grad::{DX, DY, LABEL, X};
    let x = cx.input(X)?;
    let (label, dy) = (of_size(cx, LABEL, x.numel(), x.dtype())?, of_size(cx, DY, x.numel(), x.dtype())?);
    let a = cx.attrs::<TeacherAttrs>();
    dispatch!(x.dtype(), T in [f32, f64], {
        let (low, high) = (a.soft_max_lower_bound as T, a.soft_max_up_bound as T);
        each3(x.data::<T>(), label.data::<T>(), dy.data::<T>(), cx.out_data::<T>(DX)?, |x, y, d| {
            if x >= high || x <= low {
                return 0.0 * d;
            }
            let p = 1.0 / (1.0 + (-x).exp());
            let slope = if y < -1.0 { p } else if y < 0.0 { p - 1.0 } else { 2.0 * p - y };
            slope * d
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static TEACHER: Op = Op {
    name: "teacher_student_sigmoid_loss",
    inputs: teacher::INS,
    outputs: teacher::OUTS,
    dtypes: FLOATS,
    cannot_fail: true,
    attrs: TeacherAttrs::FIELDS,
    infer: |cx| {
        super::elements::same_shapes(cx, &[teacher::X, teacher::LABEL])?;
        super::elements::one_column(cx, teacher::X)?;
        like_first(cx)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, teacher::X, run_teacher)),
    grad: Grad::By(&TEACHER_GRAD),
    ..OP
};

pub static TEACHER_GRAD: Op = Op {
    name: "teacher_student_sigmoid_loss_grad",
    inputs: teacher_grad::INS,
    outputs: teacher_grad::OUTS,
    dtypes: FLOATS,
    attrs: TeacherAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, teacher_grad::X, run_teacher_grad)),
    ..OP
};

// bpr_loss: the class of the label against every other one

/// Infinities as large numbers, which sums take.
macro_rules! tolerable {
    ($v:expr) => {{
        let v = $v;
        if v.is_infinite() {
            v.signum() * 1e20
        } else {
            v
        }
    }};
}

fn check_classes(op: &str, labels: &[i64], width: usize) -> Result<()> {
    for &label in labels {
        ensure!(
            (0..width as i64).contains(&label),
            InvalidArgument,
            "operator {op}: Label must hold classes from 0 to below {width}, got {label}"
        );
    }
    Ok(())
}

fn run_bpr(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(bpr::X)?;
    let (labels, width) = labels(cx, x, bpr::LABEL)?;
    check_classes(cx.op.name, &labels, width)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let xs = x.data::<T>();
        for (i, o) in cx.out_data::<T>(bpr::Y)?.iter_mut().enumerate() {
            let row = &xs[i * width..(i + 1) * width];
            let own = labels[i] as usize;
            let mut sum: T = 0.0;
            for (k, &v) in row.iter().enumerate() {
                if k != own {
                    sum += tolerable!((1.0 + tolerable!((v - row[own]).exp())).ln());
                }
            }
            *o = sum / (width as T - 1.0);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_bpr_grad(cx: &mut KernelContext) -> Result<()> {
    use bpr_grad::{DX, DY, LABEL, X};
    let x = cx.input(X)?;
    let (labels, width) = labels(cx, x, LABEL)?;
    check_classes(cx.op.name, &labels, width)?;
    let dy = of_size(cx, DY, labels.len(), x.dtype())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let (xs, d) = (x.data::<T>(), dy.data::<T>());
        let out = cx.out_data::<T>(DX)?;
        for (i, &own) in labels.iter().enumerate() {
            let (row, out) = (&xs[i * width..(i + 1) * width], &mut out[i * width..(i + 1) * width]);
            let own = own as usize;
            let mut sum: T = 0.0;
            for (k, (&v, o)) in row.iter().zip(out.iter_mut()).enumerate() {
                if k != own {
                    *o = d[i] / ((width as T - 1.0) * (1.0 + tolerable!((row[own] - v).exp())));
                    sum += *o;
                }
            }
            out[own] = -sum;
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static BPR: Op = Op {
    name: "bpr_loss",
    inputs: bpr::INS,
    outputs: bpr::OUTS,
    dtypes: FLOATS,
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        one_label_a_row(cx, bpr::X, bpr::LABEL)?;
        let (mut dims, dtype) = (cx.dims(bpr::X)?, cx.dtype(bpr::X)?);
        if let Some(last) = dims.last_mut() {
            *last = 1;
        }
        cx.set(bpr::Y, &dims, dtype);
        cx.share_lod(bpr::Y, bpr::X);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, bpr::X, run_bpr)),
    grad: Grad::By(&BPR_GRAD),
    ..OP
};

pub static BPR_GRAD: Op = Op {
    name: "bpr_loss_grad",
    inputs: bpr_grad::INS,
    outputs: bpr_grad::OUTS,
    dtypes: FLOATS,
    attrs: NoAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, bpr_grad::X, run_bpr_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&FOCAL, &FOCAL_GRAD, &TEACHER, &TEACHER_GRAD, &BPR, &BPR_GRAD];
