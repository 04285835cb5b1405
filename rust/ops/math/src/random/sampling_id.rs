//! sampling_id: draws an index for each row with the row's probabilities.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::generator::with_engine;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::random::{self as draw, sampling::ids};

attrs! {
    pub struct SamplingAttrs { min: f32 = 0.0, max: f32 = 1.0, seed: i32 = 0 }
}

slots! {
    mod sampling { X "X" => OUT "Out" }
}

fn infer_sampling(cx: &mut ShapeContext) -> Result<()> {
    let (x, a) = (cx.dims(sampling::X)?, cx.attrs::<SamplingAttrs>());
    ensure!(
        a.min < a.max,
        InvalidArgument,
        "operator sampling_id: min must be less than max, got {} and {}",
        a.min,
        a.max
    );
    ensure!(x.len() == 2, InvalidArgument, "operator sampling_id: X must have two dimensions, got shape {:?}", &x[..]);
    cx.set(sampling::OUT, &[x[0]], DType::I64);
    cx.share_lod(sampling::OUT, sampling::X);
    Ok(())
}

/// Selects the first index whose cumulative probability exceeds the drawn number, else the last one.
fn run_sampling(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(sampling::X)?, cx.attrs::<SamplingAttrs>());
    let width = x.dims()[1] as usize;
    ensure!(width > 0, InvalidArgument, "operator sampling_id: X must have columns, got shape {:?}", x.dims());
    dispatch!(x.dtype(), T in [f32, f64], {
        let mut drawn = vec![0.0; x.numel() / width];
        with_engine(a.seed as u32 as u64, |e| draw::uniform(e, a.min as T, a.max as T, &mut drawn));
        ids(x.data::<T>(), width, &drawn, cx.out_data::<i64>(sampling::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SAMPLING: Op = Op {
    name: "sampling_id",
    inputs: sampling::INS,
    outputs: sampling::OUTS,
    attrs: SamplingAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_sampling,
    cpu: Kernel::Random(run_sampling),
    ..OP
};

pub static TABLE: &[&Op] = &[&SAMPLING];
