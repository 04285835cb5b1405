//! dgc: deep gradient compression (Lin et al., 2018). Only the largest elements of the accumulated gradient are sent;
//! the rest is accumulated with momentum correction until it is large enough.

use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, ensure, slots};
use oar_kernels::optimizer::dgc::{self as kernel, Decay};
use oar_ops_common::tensor_attr::scalar;

attrs! {
    pub struct DgcAttrs {
        m: f32 = 0.9, use_nesterov: bool = true, sparsity: Vec<f32>, rampup_begin_step: f32 = 0.0, rampup_step: f32,
        regular_coeff: f32 = 0.0, regular_type: i32 = 0,
    }
}

slots! {
    mod dgc {
        U "U", V "V", GRAD "Grad", PARAM "Param", STEP "current_step", RANKS "nranks"
        => U_OUT "U_out".kernel_allocated(), V_OUT "V_out".kernel_allocated(), ENCODED "EncodeGrad".kernel_allocated(), GRAD_OUT "Grad_out".kernel_allocated(),
        K "k".kernel_allocated(), GATHERED "GatherBuff".kernel_allocated()
    }
}

/// Limit of processes whose messages are gathered.
const MOST_RANKS: f64 = 65_536.0;

/// The fraction of elements that is not sent; it follows the entries of `sparsity` over `rampup_step` steps.
fn sparsity(a: &DgcAttrs, op: &str, since: f64) -> Result<f64> {
    ensure!(
        !a.sparsity.is_empty() && a.rampup_step > 0.0,
        InvalidArgument,
        "operator {op}: sparsity must not be empty and rampup_step above 0, got {:?} and {}",
        a.sparsity,
        a.rampup_step
    );
    let at = (since * a.sparsity.len() as f64 / f64::from(a.rampup_step)) as usize;
    let found = f64::from(a.sparsity[at.min(a.sparsity.len() - 1)]);
    ensure!(
        found > 0.0 && found <= 1.0,
        InvalidArgument,
        "operator {op}: sparsity must be above 0 and at most 1, got {:?}",
        a.sparsity
    );
    Ok(found)
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<DgcAttrs>();
    ensure!(
        (0..=2).contains(&a.regular_type),
        InvalidArgument,
        "operator {}: regular_type must be 0 (none), 1 (L1) or 2 (L2), got {}",
        cx.op.name,
        a.regular_type
    );
    for (out, like) in [(dgc::U_OUT, dgc::U), (dgc::V_OUT, dgc::V), (dgc::GRAD_OUT, dgc::GRAD)] {
        cx.like(out, like)?;
    }
    cx.set(dgc::ENCODED, &[-1], DType::F32);
    cx.set(dgc::GATHERED, &[-1], DType::F32);
    cx.set(dgc::K, &[1], DType::F32);
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<DgcAttrs>());
    let (step, ranks) = (scalar(cx, dgc::STEP)?, scalar(cx, dgc::RANKS)?.trunc());
    ensure!(
        ranks > 1.0 && ranks <= MOST_RANKS,
        PreconditionNotMet,
        "operator {op}: nranks must be from 2 to {MOST_RANKS}, got {ranks}"
    );
    let (mut u, mut v) = (cx.input(dgc::U)?.clone(), cx.input(dgc::V)?.clone());
    let (mut grad, param) = (cx.input(dgc::GRAD)?.clone(), cx.input(dgc::PARAM)?.clone());
    for t in [&u, &v, &grad, &param] {
        ensure!(
            t.dtype() == DType::F32 && t.numel() == grad.numel(),
            InvalidArgument,
            "operator {op}: U, V, Grad and Param must be float32 and as large as each other, got {} {:?}",
            t.dtype(),
            t.dims()
        );
    }
    let (coeff, scale) = (a.regular_coeff, ranks as f32);
    let decay = match a.regular_type {
        0 => Decay::None,
        1 => Decay::L1(coeff),
        _ => Decay::L2(coeff),
    };
    kernel::scale_and_decay(grad.data_mut::<f32>()?, param.data::<f32>(), scale, decay);
    let begin = f64::from(a.rampup_begin_step.trunc());
    let (mut encoded, mut k) = (Vec::new(), 0);
    if step.trunc() >= begin {
        ensure!(step >= 0.0, InvalidArgument, "operator {op}: current_step must not be negative, got {step}");
        k = (grad.numel() as f64 * (1.0 - sparsity(a, op, step - f64::from(a.rampup_begin_step))?)) as usize;
        let (u, v) = (u.data_mut::<f32>()?, v.data_mut::<f32>()?);
        kernel::accumulate(u, v, grad.data::<f32>(), a.m, a.use_nesterov);
        encoded = kernel::encode(u, v, k);
        grad.data_mut::<f32>()?.fill(0.0);
    }
    let room = 2 * k as i64 * ranks as i64;
    cx.set(dgc::ENCODED, Tensor::from_slice(&encoded, &[encoded.len() as i64])?);
    cx.set(dgc::GATHERED, Tensor::zeros(DType::F32, &[room])?);
    cx.set(dgc::K, Tensor::from_slice(&[k as f32], &[1])?);
    cx.set(dgc::U_OUT, u);
    cx.set(dgc::V_OUT, v);
    cx.set(dgc::GRAD_OUT, grad);
    Ok(())
}

pub static DGC: Op = Op {
    name: "dgc",
    inputs: dgc::INS,
    outputs: dgc::OUTS,
    attrs: DgcAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    ..OP
};
