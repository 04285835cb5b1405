//! cross_entropy and cross_entropy2 of probabilities, along the last axis.

use super::label::{bad, by_label};
use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::loss::cross_entropy as loss;
use oar_ops_common::axis::{like, split};
use oar_ops_common::half::in_f32;
use smallvec::SmallVec;

attrs! {
    pub struct EntropyAttrs { soft_label: bool = false, ignore_index: i32 = -100 }
    pub struct Entropy2Attrs { ignore_index: i32 = -100 }
}

slots! {
    mod entropy { X "X", LABEL "Label" => Y "Y" }
    mod entropy_grad { X "X", LABEL "Label", DY "Y@GRAD" => DX "X@GRAD" }
    mod entropy2 { X "X", LABEL "Label" => Y "Y", XSHAPE "XShape", MATCH "MatchX" }
    mod entropy2_grad {
        LABEL "Label", MATCH "MatchX", XSHAPE "XShape".meta_only(), DY "Y@GRAD", DMATCH "MatchX@GRAD".dispensable().extra() => DX "X@GRAD"
    }
    mod entropy2_second {
        LABEL "Label", MATCH "MatchX", DY "DY", DDX "DDX" => DDY "DDY", DMATCH "DMatchX", DDMATCH "DDMatchX"
    }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

/// The shape of the loss: the label's, with a last size of 1 if the label has the rank of X.
fn entropy_dims(cx: &ShapeContext, soft: bool) -> Result<Dims> {
    let (x, label) = (cx.dims(entropy::X)?, cx.dims(entropy::LABEL)?);
    let rank = x.len();
    let agrees = |a: i64, b: i64| a == b || a < 0 || b < 0;
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

fn infer_entropy(cx: &mut ShapeContext) -> Result<()> {
    let dims = entropy_dims(cx, cx.attrs::<EntropyAttrs>().soft_label)?;
    let dtype = cx.dtype(entropy::X)?;
    cx.set(entropy::Y, &dims, dtype);
    cx.share_lod(entropy::Y, entropy::X);
    Ok(())
}

fn run_entropy(cx: &mut KernelContext) -> Result<()> {
    let (x, label) = (cx.input(entropy::X)?, cx.input(entropy::LABEL)?);
    let a = cx.attrs::<EntropyAttrs>();
    let name = cx.op.name;
    let dims = split(name, x.dims(), -1)?;
    if a.soft_label {
        like(cx, label, x.dims(), x.dtype(), "a soft Label")?;
    }
    dispatch!(x.dtype(), T in [f32, f64], {
        let (xs, out) = (x.data::<T>(), cx.out_data::<T>(entropy::Y)?);
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

fn run_entropy_grad(cx: &mut KernelContext) -> Result<()> {
    use entropy_grad::{DX, DY, LABEL, X};
    let (x, label, dy) = (cx.input(X)?, cx.input(LABEL)?, cx.input(DY)?);
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
        let (xs, d, out) = (x.data::<T>(), dy.data::<T>(), cx.out_data::<T>(DX)?);
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
    inputs: entropy::INS,
    outputs: entropy::OUTS,
    attrs: EntropyAttrs::FIELDS,
    dtypes: FLOATS,
    infer: infer_entropy,
    cpu: Kernel::Pure(|cx| in_f32(cx, entropy::X, run_entropy)),
    grad: Grad::By(&ENTROPY_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};

pub static ENTROPY_GRAD: Op = Op {
    name: "cross_entropy_grad",
    inputs: entropy_grad::INS,
    outputs: entropy_grad::OUTS,
    dtypes: FLOATS,
    attrs: EntropyAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, entropy_grad::X, run_entropy_grad)),
    ..OP
};

// cross_entropy2 saves the probability of each label instead of X.

fn infer_entropy2(cx: &mut ShapeContext) -> Result<()> {
    let dims = entropy_dims(cx, false)?;
    let (mut x, dtype) = (cx.dims(entropy2::X)?, cx.dtype(entropy2::X)?);
    cx.set(entropy2::Y, &dims, dtype);
    cx.share_lod(entropy2::Y, entropy2::X);
    x.push(0);
    cx.set(entropy2::XSHAPE, &x, dtype);
    cx.share_lod(entropy2::XSHAPE, entropy2::X);
    x.pop();
    if let Some(last) = x.last_mut() {
        *last = 1;
    }
    cx.set(entropy2::MATCH, &x, dtype);
    Ok(())
}

fn run_entropy2(cx: &mut KernelContext) -> Result<()> {
    let (x, label) = (cx.input(entropy2::X)?, cx.input(entropy2::LABEL)?);
    let name = cx.op.name;
    let ignore = cx.attrs::<Entropy2Attrs>().ignore_index as i64;
    let dims = split(name, x.dims(), -1)?;
    let wanted = cx.wants(entropy2::MATCH);
    dispatch!(x.dtype(), T in [f32, f64], by_label!(cx, label, |l| {
        let xs = x.data::<T>();
        loss::cross_entropy(dims, xs, l, ignore, cx.out_data::<T>(entropy2::Y)?).map_err(|e| bad(name, e))?;
        if wanted {
            loss::at_labels(dims.1, xs, l, ignore, cx.out_data::<T>(entropy2::MATCH)?);
        }
    }), other => return cx.unsupported(other));
    Ok(())
}

/// Number of classes, after a check that the operands have one element for each loss.
fn losses(cx: &KernelContext, of_x: &Tensor, label: &Tensor, per_loss: &[&Tensor]) -> Result<usize> {
    let n = *of_x.dims().last().unwrap_or(&0) as usize;
    let count = of_x.numel().checked_div(n).unwrap_or(0);
    ensure!(
        label.numel() == count && per_loss.iter().all(|t| t.numel() == count && t.dtype() == of_x.dtype()),
        InvalidArgument,
        "operator {}: Label {label:?} and {per_loss:?} do not fit {count} losses of {}",
        cx.op.name,
        of_x.dtype()
    );
    Ok(n)
}

/// At the label `-dY / MatchX`, plus the gradient of MatchX, which only second gradients have.
fn run_entropy2_grad(cx: &mut KernelContext) -> Result<()> {
    use entropy2_grad::{DMATCH, DX, DY, LABEL, MATCH};
    let (label, matched, dy, dmatch) = (cx.input(LABEL)?, cx.input(MATCH)?, cx.input(DY)?, cx.opt(DMATCH));
    let ignore = cx.attrs::<Entropy2Attrs>().ignore_index as i64;
    let mut out = cx.take_out(DX)?;
    let per_loss: SmallVec<[&Tensor; 3]> = [matched, dy].into_iter().chain(dmatch).collect();
    let n = losses(cx, &out, label, &per_loss)?;
    dispatch!(matched.dtype(), T in [f32, f64], by_label!(cx, label, |l| {
        let (m, d, dm) = (matched.data::<T>(), dy.data::<T>(), dmatch.map(|t| t.data::<T>()));
        let at = |i: usize| -d[i] / m[i] + dm.map_or(0.0, |dm| dm[i]);
        loss::spread_labels(n, l, ignore, out.data_mut::<T>()?, at);
    }), other => return cx.unsupported(other));
    cx.set(DX, out);
    Ok(())
}

/// With g the gradient of dX at the label: `-g / MatchX` of dY, `g * dY / MatchX^2` of MatchX, g of MatchX's gradient.
fn run_entropy2_second(cx: &mut KernelContext) -> Result<()> {
    use entropy2_second::{DDMATCH, DDX, DDY, DMATCH, DY, LABEL, MATCH};
    let (label, matched, dy, ddx) = (cx.input(LABEL)?, cx.input(MATCH)?, cx.input(DY)?, cx.input(DDX)?);
    let ignore = cx.attrs::<Entropy2Attrs>().ignore_index as i64;
    let n = losses(cx, ddx, label, &[matched, dy])?;
    dispatch!(matched.dtype(), T in [f32, f64], by_label!(cx, label, |l| {
        let (m, d) = (matched.data::<T>(), dy.data::<T>());
        let mut g = vec![0.0; m.len()];
        loss::at_labels(n, ddx.data::<T>(), l, ignore, &mut g);
        // An ignored label has MatchX 0 and g 0.
        let of = |i: usize, v: T| if g[i] == 0.0 { 0.0 } else { v };
        for (slot, value) in [
            (DDY, &(|i: usize| of(i, -g[i] / m[i])) as &dyn Fn(usize) -> T),
            (DMATCH, &|i| of(i, g[i] * d[i] / (m[i] * m[i]))),
            (DDMATCH, &|i| g[i]),
        ] {
            if cx.wants(slot) {
                cx.out_data::<T>(slot)?.iter_mut().enumerate().for_each(|(i, out)| *out = value(i));
            }
        }
    }), other => return cx.unsupported(other));
    Ok(())
}

pub static ENTROPY2: Op = Op {
    name: "cross_entropy2",
    inputs: entropy2::INS,
    outputs: entropy2::OUTS,
    dtypes: FLOATS,
    attrs: Entropy2Attrs::FIELDS,
    infer: infer_entropy2,
    cpu: Kernel::Pure(|cx| in_f32(cx, entropy2::X, run_entropy2)),
    grad: Grad::By(&ENTROPY2_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};

pub static ENTROPY2_GRAD: Op = Op {
    name: "cross_entropy_grad2",
    inputs: entropy2_grad::INS,
    outputs: entropy2_grad::OUTS,
    attrs: Entropy2Attrs::FIELDS,
    infer: |cx| {
        let (mut dims, dtype) = (cx.dims(entropy2_grad::XSHAPE)?, cx.dtype(entropy2_grad::DY)?);
        ensure!(dims.len() > 1, InvalidArgument, "operator {}: XShape must have two dimensions or more", cx.op.name);
        dims.pop();
        cx.set(entropy2_grad::DX, &dims, dtype);
        cx.share_lod(entropy2_grad::DX, entropy2_grad::XSHAPE);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, entropy2_grad::MATCH, run_entropy2_grad)),
    grad: Grad::Map(
        &ENTROPY2_SECOND,
        &[
            ("DY", "Y@GRAD"),
            ("DDX", "X@GRAD@GRAD"),
            ("DDY", "Y@GRAD@GRAD"),
            ("DMatchX", "MatchX@GRAD"),
            ("DDMatchX", "MatchX@GRAD@GRAD"),
        ],
    ),
    ..OP
};

pub static ENTROPY2_SECOND: Op = Op {
    name: "cross_entropy_grad2_grad",
    inputs: entropy2_second::INS,
    outputs: entropy2_second::OUTS,
    attrs: Entropy2Attrs::FIELDS,
    infer: |cx| {
        use entropy2_second::{DDMATCH, DDY, DMATCH, DY, MATCH};
        cx.like(DDY, DY)?;
        cx.like(DMATCH, MATCH)?;
        cx.like(DDMATCH, MATCH)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, entropy2_second::MATCH, run_entropy2_second)),
    ..OP
};

pub static TABLE: &[&Op] = &[&ENTROPY, &ENTROPY_GRAD, &ENTROPY2, &ENTROPY2_GRAD, &ENTROPY2_SECOND];
