//! clip_by_norm: scales a tensor down to a maximum norm; dgc_clip_by_norm: the same from a given step on.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::kind_of_first;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, SparseKernel, OP};
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::pool;
use oar_ops_common::half::in_f32;
use oar_ops_common::selected_rows::merged;
use oar_ops_common::tensor_attr::scalar;

attrs! {
    pub struct ClipByNormAttrs { max_norm: f32 }
}

slots! {
    mod clip { X "X" => OUT "Out" }
}

/// Elements per partial sum, independent of the number of threads.
const CHUNK: usize = 1 << 14;

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let most = cx.attrs::<ClipByNormAttrs>().max_norm;
    ensure!(most > 0.0, InvalidArgument, "operator {}: max_norm must be greater than 0, got {most}", cx.op.name);
    kind_of_first(cx)
}

#[allow(clippy::unnecessary_cast)] // one of the types is f64
fn clipped(op: &str, x: &Tensor, most: f32, out: &mut Tensor) -> Result<()> {
    dispatch!(x.dtype(), T in [f32, f64], {
        let x = x.data::<T>();
        let mut sums = vec![0.0f64; x.len().div_ceil(CHUNK)];
        pool::parts(&mut sums, 1, |k, sum| {
            sum[0] = x[k * CHUNK..((k + 1) * CHUNK).min(x.len())].iter().map(|&v| (v as f64) * (v as f64)).sum();
        });
        let (norm, most) = (sums.iter().sum::<f64>().sqrt(), most as f64);
        let scale = if norm <= most { 1.0 } else { (most / norm) as T };
        pool::parts(out.data_mut::<T>()?, CHUNK, |start, out| {
            out.iter_mut().zip(&x[start..]).for_each(|(o, &v)| *o = v * scale);
        });
    }, other => bail!(Unimplemented, "operator {op} has no CPU kernel for data type {other}"));
    Ok(())
}

fn dense(cx: &mut KernelContext) -> Result<()> {
    let (op, x, most) = (cx.op.name, cx.input(clip::X)?, cx.attrs::<ClipByNormAttrs>().max_norm);
    clipped(op, x, most, cx.out(clip::OUT)?)
}

/// SelectedRows kernel: duplicate rows are summed. As in Paddle the height is not checked; it may be unset.
fn rows(cx: &mut KernelContext) -> Result<()> {
    let (op, most) = (cx.op.name, cx.attrs::<ClipByNormAttrs>().max_norm);
    let Some(x) = cx.rows(clip::X) else { return dense(cx) };
    let height = x.rows.iter().fold(x.height, |most, &row| most.max(row.saturating_add(1)));
    let all = merged(op, &SelectedRows { height, ..x.clone() })?;
    let mut value = Tensor::empty(all.value.dtype(), all.value.dims())?;
    clipped(op, &all.value, most, &mut value)?;
    cx.set(clip::OUT, Value::Rows(Box::new(SelectedRows { rows: all.rows, height: x.height, value })));
    Ok(())
}

pub static CLIP_BY_NORM: Op = Op {
    name: "clip_by_norm",
    inputs: clip::INS,
    outputs: clip::OUTS,
    attrs: ClipByNormAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer,
    cpu: Kernel::Pure(|cx| in_f32(cx, clip::X, dense)),
    sparse_kernel: SparseKernel::Own(rows),
    ..OP
};

// dgc_clip_by_norm

attrs! {
    pub struct DgcClipAttrs { rampup_begin_step: f32 = -1.0, max_norm: f32 }
}

slots! {
    mod dgc_clip { STEP "current_step", X "X" => OUT "Out" }
}

/// Does not clip before step rampup_begin_step, and never if that attribute is negative.
fn dgc_clip(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<DgcClipAttrs>());
    let (step, x) = (scalar(cx, dgc_clip::STEP)?, cx.input(dgc_clip::X)?);
    let begin = f64::from(a.rampup_begin_step).trunc();
    let most = if begin < 0.0 || step.trunc() < begin { f32::INFINITY } else { a.max_norm };
    clipped(op, x, most, cx.out(dgc_clip::OUT)?)
}

pub static DGC_CLIP_BY_NORM: Op = Op {
    name: "dgc_clip_by_norm",
    inputs: dgc_clip::INS,
    outputs: dgc_clip::OUTS,
    attrs: DgcClipAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        let most = cx.attrs::<DgcClipAttrs>().max_norm;
        ensure!(most > 0.0, InvalidArgument, "operator {}: max_norm must be greater than 0, got {most}", cx.op.name);
        cx.like(dgc_clip::OUT, dgc_clip::X)
    },
    cpu: Kernel::Pure(dgc_clip),
    ..OP
};

pub static TABLE: &[&Op] = &[&CLIP_BY_NORM, &DGC_CLIP_BY_NORM];
