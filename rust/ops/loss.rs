//! Softmax and the cross entropies.

use super::half::in_f32;
use crate::attrs;
use crate::base::{DType, Dims, Result};
use crate::op::attrs::Text;
use crate::op::infer::{grads_like_inputs, like_first, like_out_grad};
use crate::op::{slot, Grad, Infer, Kernel, Op, Run, OP};
use crate::tensor::Tensor;
use crate::{bail, dispatch, ensure, err};
use oar_kernels::softmax as kernel;
use oar_kernels::softmax_loss::{self as loss, BadLabel};

attrs! {
    pub struct SoftmaxAttrs {
        axis: i32 = -1, use_cudnn: bool = false, data_format: Text = "AnyLayout".into(), use_mkldnn: bool = false,
        mkldnn_data_type: Text = "float32".into(), is_test: bool = false,
    }
    pub struct SoftmaxEntropyAttrs {
        soft_label: bool = false, use_softmax: bool = true, numeric_stable_mode: bool = true,
        ignore_index: i32 = -100, axis: i32 = -1,
    }
    pub struct EntropyAttrs { soft_label: bool = false, ignore_index: i32 = -100 }
    pub struct Entropy2Attrs { ignore_index: i32 = -100 }
    pub struct SigmoidEntropyAttrs { normalize: bool = false, ignore_index: i32 = -100 }
}

/// Sizes before, along and after an axis.
pub fn split(op: &str, dims: &[i64], axis: i32) -> Result<(usize, usize, usize)> {
    let k = crate::base::shape::axis(op, axis as i64, dims.len())?;
    let product = |d: &[i64]| d.iter().product::<i64>() as usize;
    Ok((product(&dims[..k]), dims[k] as usize, product(&dims[k + 1..])))
}

fn bad(op: &str, e: BadLabel) -> crate::base::Error {
    err!(OutOfRange, "operator {op}: {e}")
}

/// Dispatches on the type of class labels.
macro_rules! by_label {
    ($cx:ident, $label:expr, |$l:ident| $body:expr) => {
        dispatch!($label.dtype(), L in [i64, i32, i16, u8, i8], {
            let $l = $label.data::<L>();
            $body
        }, other => bail!(
            InvalidArgument, "operator {}: Label must hold integers when soft_label is false, got {other}", $cx.op.name
        ))
    };
}

fn like(cx: &Run, t: &Tensor, dims: &[i64], dtype: DType, what: &str) -> Result<()> {
    ensure!(
        t.dims() == dims && t.dtype() == dtype,
        InvalidArgument,
        "operator {}: {what} must have shape {dims:?} and data type {dtype}, got {t:?}",
        cx.op.name
    );
    Ok(())
}

// softmax

pub static SOFTMAX: Op = Op {
    name: "softmax",
    inputs: &[slot("X")],
    outputs: &[slot("Out")],
    attrs: SoftmaxAttrs::FIELDS,
    infer: |cx| {
        crate::base::shape::axis(cx.op.name, cx.attrs::<SoftmaxAttrs>().axis as i64, cx.dims(0)?.len())?;
        like_first(cx)
    },
    cpu: Kernel::Pure(|cx| {
        in_f32(cx, 0, |cx| {
            let x = cx.input(0)?;
            let dims = split(cx.op.name, x.dims(), cx.attrs::<SoftmaxAttrs>().axis)?;
            dispatch!(x.dtype(), T in [f32, f64], {
                kernel::softmax(dims, x.data::<T>(), cx.out_data::<T>(0)?);
            }, other => return cx.unsupported(other));
            Ok(())
        })
    }),
    grad: Grad::By(&SOFTMAX_GRAD),
    quick: Some(|attrs, ins| {
        let &[x] = ins else { return None };
        let a: &SoftmaxAttrs = attrs.as_any().downcast_ref()?;
        let dims = split("softmax", x.dims(), a.axis).ok()?;
        let mut out = x.empty_like().ok()?;
        dispatch!(x.dtype(), T in [f32, f64], {
            kernel::softmax(dims, x.data::<T>(), out.data_mut::<T>().ok()?);
        }, _other => return None);
        Some(out.with_lod(x.lod.clone()))
    }),
    amp: crate::op::Amp::Black,
    ..OP
};

pub static SOFTMAX_GRAD: Op = Op {
    name: "softmax_grad",
    inputs: &[slot("Out"), slot("Out@GRAD")],
    outputs: &[slot("X@GRAD")],
    attrs: SoftmaxAttrs::FIELDS,
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| {
        in_f32(cx, 0, |cx| {
            let (y, dy) = (cx.input(0)?, cx.input(1)?);
            like(cx, dy, y.dims(), y.dtype(), "the gradient of Out")?;
            let dims = split(cx.op.name, y.dims(), cx.attrs::<SoftmaxAttrs>().axis)?;
            dispatch!(y.dtype(), T in [f32, f64], {
                kernel::softmax_grad(dims, y.data::<T>(), dy.data::<T>(), cx.out_data::<T>(0)?);
            }, other => return cx.unsupported(other));
            Ok(())
        })
    }),
    ..OP
};

// softmax_with_cross_entropy

/// Logits and Label agree outside the axis; along it Label has one class, or as many numbers as there are classes.
fn check_labels(cx: &Infer, x: &[i64], label: &[i64], axis: usize, soft: bool) -> Result<()> {
    let agrees = |i: usize, want: i64| label[i] == want || !cx.is_run() && (label[i] < 0 || want < 0);
    let fits = x.len() == label.len() && (0..x.len()).all(|i| agrees(i, if i == axis && !soft { 1 } else { x[i] }));
    ensure!(
        fits,
        InvalidArgument,
        "operator {}: Label must have the shape of Logits {x:?}, {} along axis {axis}, got {label:?}",
        cx.op.name,
        if soft { "also" } else { "but 1" }
    );
    Ok(())
}

fn infer_softmax_entropy(cx: &mut Infer) -> Result<()> {
    let (x, label, dtype) = (cx.dims(0)?, cx.dims(1)?, cx.dtype(0)?);
    let a = cx.attrs::<SoftmaxEntropyAttrs>();
    let axis = crate::base::shape::axis(cx.op.name, a.axis as i64, x.len())?;
    check_labels(cx, &x, &label, axis, a.soft_label)?;
    ensure!(
        a.numeric_stable_mode || axis + 1 == x.len(),
        InvalidArgument,
        "operator {}: axis can only be -1 without numeric_stable_mode",
        cx.op.name
    );
    cx.set(0, &x, dtype);
    let mut dims = x;
    dims[axis] = 1;
    cx.set(1, &dims, dtype);
    cx.share_lod(0, 0);
    cx.share_lod(1, 0);
    Ok(())
}

fn softmax_entropy(cx: &mut Run) -> Result<()> {
    let (x, label) = (cx.input(0)?, cx.input(1)?);
    let a = cx.attrs::<SoftmaxEntropyAttrs>();
    let name = cx.op.name;
    let dims = split(name, x.dims(), a.axis)?;
    let ignore = a.ignore_index as i64;
    if a.soft_label {
        like(cx, label, x.dims(), x.dtype(), "a soft Label")?;
    }
    let mut prob = cx.take_out(0)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let xs = x.data::<T>();
        let out = cx.out_data::<T>(1)?;
        match (a.use_softmax, a.soft_label) {
            (true, true) => {
                loss::softmax_cross_entropy_soft(dims, xs, label.data::<T>(), prob.data_mut::<T>()?, out)
            }
            (true, false) => by_label!(cx, label, |l| {
                loss::softmax_cross_entropy(dims, xs, l, ignore, prob.data_mut::<T>()?, out).map_err(|e| bad(name, e))?
            }),
            (false, true) => loss::cross_entropy_soft(dims, xs, label.data::<T>(), out),
            (false, false) => by_label!(cx, label, |l| {
                loss::cross_entropy(dims, xs, l, ignore, out).map_err(|e| bad(name, e))?
            }),
        }
    }, other => return cx.unsupported(other));
    // Without softmax the input is already the result of one.
    cx.set(0, if a.use_softmax { prob } else { x.clone() });
    Ok(())
}

fn softmax_entropy_grad(cx: &mut Run) -> Result<()> {
    let (label, prob, dy) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let a = cx.attrs::<SoftmaxEntropyAttrs>();
    let name = cx.op.name;
    let dims = split(name, prob.dims(), a.axis)?;
    let ignore = a.ignore_index as i64;
    ensure!(
        dy.numel() == dims.0 * dims.2 && dy.dtype() == prob.dtype(),
        InvalidArgument,
        "operator {name}: the gradient of Loss must have one element a loss, got {dy:?} for {prob:?}"
    );
    if a.soft_label {
        like(cx, label, prob.dims(), prob.dtype(), "a soft Label")?;
    } else {
        ensure!(label.numel() == dy.numel(), InvalidArgument, "operator {name}: Label must have one class a loss");
    }
    dispatch!(prob.dtype(), T in [f32, f64], {
        let (p, d) = (prob.data::<T>(), dy.data::<T>());
        let out = cx.out_data::<T>(0)?;
        match (a.use_softmax, a.soft_label) {
            (true, true) => loss::softmax_cross_entropy_soft_grad(dims, p, label.data::<T>(), d, out),
            (true, false) => by_label!(cx, label, |l| {
                loss::softmax_cross_entropy_grad(dims, p, l, ignore, d, out).map_err(|e| bad(name, e))?
            }),
            (false, true) => loss::cross_entropy_soft_grad(dims, p, label.data::<T>(), d, out),
            (false, false) => by_label!(cx, label, |l| {
                loss::cross_entropy_grad(dims, p, l, ignore, d, out).map_err(|e| bad(name, e))?
            }),
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SOFTMAX_ENTROPY: Op = Op {
    name: "softmax_with_cross_entropy",
    inputs: &[slot("Logits"), slot("Label")],
    outputs: &[slot("Softmax").mid(), slot("Loss")],
    attrs: SoftmaxEntropyAttrs::FIELDS,
    infer: infer_softmax_entropy,
    cpu: Kernel::Pure(|cx| in_f32(cx, 0, softmax_entropy)),
    grad: Grad::By(&SOFTMAX_ENTROPY_GRAD),
    amp: crate::op::Amp::Black,
    ..OP
};

pub static SOFTMAX_ENTROPY_GRAD: Op = Op {
    name: "softmax_with_cross_entropy_grad",
    inputs: &[slot("Label"), slot("Softmax"), slot("Loss@GRAD")],
    outputs: &[slot("Logits@GRAD")],
    attrs: SoftmaxEntropyAttrs::FIELDS,
    infer: |cx| {
        cx.like(0, 1)?;
        cx.share_lod(0, 1);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, 1, softmax_entropy_grad)),
    ..OP
};

// cross_entropy, of probabilities, along the last axis

/// The shape of the loss: the label's, with 1 as its last size where it has as many dimensions as X.
fn entropy_dims(cx: &Infer, soft: bool) -> Result<Dims> {
    let (x, label) = (cx.dims(0)?, cx.dims(1)?);
    let rank = x.len();
    let agrees = |a: i64, b: i64| a == b || !cx.is_run() && (a < 0 || b < 0);
    let same = label.len() == rank || !soft && label.len() + 1 == rank;
    let fits = rank > 0
        && same
        && (0..rank - 1).all(|i| agrees(x[i], label[i]))
        && (label.len() < rank || agrees(label[rank - 1], if soft { x[rank - 1] } else { 1 }));
    ensure!(
        fits,
        InvalidArgument,
        "operator {}: Label must have the shape of X {:?}{}, got {:?}",
        cx.op.name,
        &x[..],
        if soft { "" } else { " but 1 as (or without) its last size" },
        &label[..]
    );
    let mut dims = label;
    if dims.len() == rank {
        dims[rank - 1] = 1;
    }
    Ok(dims)
}

fn infer_entropy(cx: &mut Infer) -> Result<()> {
    let dims = entropy_dims(cx, cx.attrs::<EntropyAttrs>().soft_label)?;
    let dtype = cx.dtype(0)?;
    cx.set(0, &dims, dtype);
    cx.share_lod(0, 0);
    Ok(())
}

fn entropy(cx: &mut Run) -> Result<()> {
    let (x, label) = (cx.input(0)?, cx.input(1)?);
    let a = cx.attrs::<EntropyAttrs>();
    let name = cx.op.name;
    let dims = split(name, x.dims(), -1)?;
    if a.soft_label {
        like(cx, label, x.dims(), x.dtype(), "a soft Label")?;
    }
    dispatch!(x.dtype(), T in [f32, f64], {
        let (xs, out) = (x.data::<T>(), cx.out_data::<T>(0)?);
        if a.soft_label {
            loss::cross_entropy_soft(dims, xs, label.data::<T>(), out);
        } else {
            by_label!(cx, label, |l| {
                loss::cross_entropy(dims, xs, l, a.ignore_index as i64, out).map_err(|e| bad(name, e))?
            });
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

fn entropy_grad(cx: &mut Run) -> Result<()> {
    let (x, label, dy) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let a = cx.attrs::<EntropyAttrs>();
    let name = cx.op.name;
    let dims = split(name, x.dims(), -1)?;
    let labels = if a.soft_label { x.numel() } else { dims.0 };
    ensure!(
        dy.numel() == dims.0 && dy.dtype() == x.dtype() && label.numel() == labels,
        InvalidArgument,
        "operator {name}: X {x:?}, Label {label:?} and the gradient of Y {dy:?} do not fit each other"
    );
    if a.soft_label {
        like(cx, label, x.dims(), x.dtype(), "a soft Label")?;
    }
    dispatch!(x.dtype(), T in [f32, f64], {
        let (xs, d, out) = (x.data::<T>(), dy.data::<T>(), cx.out_data::<T>(0)?);
        if a.soft_label {
            loss::cross_entropy_soft_grad(dims, xs, label.data::<T>(), d, out);
        } else {
            by_label!(cx, label, |l| {
                loss::cross_entropy_grad(dims, xs, l, a.ignore_index as i64, d, out).map_err(|e| bad(name, e))?
            });
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static ENTROPY: Op = Op {
    name: "cross_entropy",
    inputs: &[slot("X"), slot("Label")],
    outputs: &[slot("Y")],
    attrs: EntropyAttrs::FIELDS,
    infer: infer_entropy,
    cpu: Kernel::Pure(|cx| in_f32(cx, 0, entropy)),
    grad: Grad::By(&ENTROPY_GRAD),
    amp: crate::op::Amp::Black,
    ..OP
};

pub static ENTROPY_GRAD: Op = Op {
    name: "cross_entropy_grad",
    inputs: &[slot("X"), slot("Label"), slot("Y@GRAD")],
    outputs: &[slot("X@GRAD")],
    attrs: EntropyAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, 0, entropy_grad)),
    ..OP
};

// cross_entropy2: keeps the probability of each label instead of X.

fn infer_entropy2(cx: &mut Infer) -> Result<()> {
    let dims = entropy_dims(cx, false)?;
    let (mut x, dtype) = (cx.dims(0)?, cx.dtype(0)?);
    cx.set(0, &dims, dtype);
    cx.share_lod(0, 0);
    x.push(0);
    cx.set(1, &x, dtype);
    cx.share_lod(1, 0);
    x.pop();
    if let Some(last) = x.last_mut() {
        *last = 1;
    }
    cx.set(2, &x, dtype);
    Ok(())
}

#[allow(clippy::unnecessary_cast)] // a label is an i32 or an i64
fn entropy2(cx: &mut Run) -> Result<()> {
    let (x, label) = (cx.input(0)?, cx.input(1)?);
    let name = cx.op.name;
    let ignore = cx.attrs::<Entropy2Attrs>().ignore_index as i64;
    let dims = split(name, x.dims(), -1)?;
    let wanted = cx.wants(2);
    dispatch!(x.dtype(), T in [f32, f64], by_label!(cx, label, |l| {
        let xs = x.data::<T>();
        loss::cross_entropy(dims, xs, l, ignore, cx.out_data::<T>(0)?).map_err(|e| bad(name, e))?;
        if wanted {
            for (i, (m, &label)) in cx.out_data::<T>(2)?.iter_mut().zip(l).enumerate() {
                *m = if label as i64 == ignore { 0.0 } else { xs[i * dims.1 + label as usize] };
            }
        }
    }), other => return cx.unsupported(other));
    Ok(())
}

#[allow(clippy::unnecessary_cast)] // a label is an i32 or an i64
fn entropy2_grad(cx: &mut Run) -> Result<()> {
    let (label, matched, dy) = (cx.input(0)?, cx.input(1)?, cx.input(3)?);
    let name = cx.op.name;
    let ignore = cx.attrs::<Entropy2Attrs>().ignore_index as i64;
    let n = *cx.out(0)?.dims().last().unwrap_or(&0) as usize;
    let count = cx.out(0)?.numel().checked_div(n).unwrap_or(0);
    ensure!(
        label.numel() == count && matched.numel() == count && dy.numel() == count && dy.dtype() == matched.dtype(),
        InvalidArgument,
        "operator {name}: Label {label:?}, MatchX {matched:?} and the gradient of Y {dy:?} do not fit {count} losses"
    );
    dispatch!(matched.dtype(), T in [f32, f64], by_label!(cx, label, |l| {
        let (m, d, out) = (matched.data::<T>(), dy.data::<T>(), cx.out_data::<T>(0)?);
        out.fill(0.0);
        for (i, &label) in l.iter().enumerate() {
            let label = label as i64;
            if label != ignore && (0..n as i64).contains(&label) {
                out[i * n + label as usize] = -d[i] / m[i];
            }
        }
    }), other => return cx.unsupported(other));
    Ok(())
}

pub static ENTROPY2: Op = Op {
    name: "cross_entropy2",
    inputs: &[slot("X"), slot("Label")],
    outputs: &[slot("Y"), slot("XShape"), slot("MatchX")],
    attrs: Entropy2Attrs::FIELDS,
    infer: infer_entropy2,
    cpu: Kernel::Pure(|cx| in_f32(cx, 0, entropy2)),
    grad: Grad::By(&ENTROPY2_GRAD),
    amp: crate::op::Amp::Black,
    ..OP
};

pub static ENTROPY2_GRAD: Op = Op {
    name: "cross_entropy_grad2",
    inputs: &[slot("Label"), slot("MatchX"), slot("XShape").meta_only(), slot("Y@GRAD")],
    outputs: &[slot("X@GRAD")],
    attrs: Entropy2Attrs::FIELDS,
    infer: |cx| {
        let (mut dims, dtype) = (cx.dims(2)?, cx.dtype(3)?);
        ensure!(dims.len() > 1, InvalidArgument, "operator {}: XShape must have two dimensions or more", cx.op.name);
        dims.pop();
        cx.set(0, &dims, dtype);
        cx.share_lod(0, 2);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, 1, entropy2_grad)),
    ..OP
};

// sigmoid_cross_entropy_with_logits

fn infer_sigmoid(cx: &mut Infer) -> Result<()> {
    let (x, label) = (cx.dims(0)?, cx.dims(1)?);
    let agrees = |(&a, &b): (&i64, &i64)| a == b || !cx.is_run() && (a < 0 || b < 0);
    ensure!(
        x.len() == label.len() && x.iter().zip(&label).all(agrees),
        InvalidArgument,
        "operator {}: X and Label must have the same shape, got {:?} and {:?}",
        cx.op.name,
        &x[..],
        &label[..]
    );
    like_first(cx)
}

fn sigmoid_entropy(cx: &mut Run) -> Result<()> {
    let (x, label) = (cx.input(0)?, cx.input(1)?);
    let a = cx.attrs::<SigmoidEntropyAttrs>();
    like(cx, label, x.dims(), x.dtype(), "Label")?;
    let ignore = a.ignore_index as i64;
    dispatch!(x.dtype(), T in [f32, f64], {
        loss::sigmoid_cross_entropy(x.data::<T>(), label.data::<T>(), ignore, a.normalize, cx.out_data::<T>(0)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn sigmoid_entropy_grad(cx: &mut Run) -> Result<()> {
    let (x, label, dout) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let a = cx.attrs::<SigmoidEntropyAttrs>();
    like(cx, label, x.dims(), x.dtype(), "Label")?;
    like(cx, dout, x.dims(), x.dtype(), "the gradient of Out")?;
    let ignore = a.ignore_index as i64;
    dispatch!(x.dtype(), T in [f32, f64], {
        loss::sigmoid_cross_entropy_grad(
            x.data::<T>(), label.data::<T>(), ignore, a.normalize, dout.data::<T>(), cx.out_data::<T>(0)?,
        );
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SIGMOID_ENTROPY: Op = Op {
    name: "sigmoid_cross_entropy_with_logits",
    inputs: &[slot("X"), slot("Label")],
    outputs: &[slot("Out")],
    attrs: SigmoidEntropyAttrs::FIELDS,
    infer: infer_sigmoid,
    cpu: Kernel::Pure(|cx| in_f32(cx, 0, sigmoid_entropy)),
    grad: Grad::By(&SIGMOID_ENTROPY_GRAD),
    amp: crate::op::Amp::Black,
    ..OP
};

pub static SIGMOID_ENTROPY_GRAD: Op = Op {
    name: "sigmoid_cross_entropy_with_logits_grad",
    inputs: &[slot("X"), slot("Label"), slot("Out@GRAD")],
    outputs: &[slot("X@GRAD")],
    attrs: SigmoidEntropyAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, 0, sigmoid_entropy_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[
    &SOFTMAX,
    &SOFTMAX_GRAD,
    &SOFTMAX_ENTROPY,
    &SOFTMAX_ENTROPY_GRAD,
    &ENTROPY,
    &ENTROPY_GRAD,
    &ENTROPY2,
    &ENTROPY2_GRAD,
    &SIGMOID_ENTROPY,
    &SIGMOID_ENTROPY_GRAD,
];
