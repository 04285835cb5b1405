//! random_crop: a region of random position of every instance of a batch. Numbers are those of `std::minstd_rand`,
//! seeded by Seed; SeedOut continues the sequence.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{ensure, slots};
use oar_kernels::random::crop::{self as kernel, MinStd};
use oar_ops_common::by_size;
use oar_ops_common::elements::{words, words_mut};
use oar_ops_common::tensor_attr;

attrs! {
    pub struct CropAttrs { shape: Vec<i32>, startup_seed: i32 = 0 }
}

slots! {
    mod crop { X "X", SEED "Seed" => OUT "Out", SEED_OUT "SeedOut".intermediate() }
}

/// The output shape: the last dimensions of X are replaced by the attribute's.
fn shape(op: &str, a: &CropAttrs, x: &[i64]) -> Result<Dims> {
    ensure!(
        x.len() > a.shape.len(),
        InvalidArgument,
        "operator {op}: X must have more dimensions than the shape {:?} of a part, got {x:?}",
        a.shape
    );
    let mut out = Dims::from_slice(x);
    let first = x.len() - a.shape.len();
    for (d, &part) in out[first..].iter_mut().zip(&a.shape) {
        ensure!(
            part >= 0 && (*d < 0 || *d >= part as i64),
            InvalidArgument,
            "operator {op}: a part of shape {:?} does not fit in instances of X {x:?}",
            a.shape
        );
        ensure!(
            *d <= i32::MAX as i64,
            InvalidArgument,
            "operator {op}: a dimension of X of {d} exceeds the range of random offsets"
        );
        *d = part as i64;
    }
    Ok(out)
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (cx.dims(crop::X)?, cx.dtype(crop::X)?);
    let out = shape(cx.op.name, cx.attrs(), &x)?;
    cx.set(crop::OUT, &out, dtype);
    cx.set(crop::SEED_OUT, &[1], DType::I64);
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (op, x, a) = (cx.op.name, cx.input(crop::X)?, cx.attrs::<CropAttrs>());
    let seed = match cx.opt(crop::SEED).filter(|t| t.numel() > 0) {
        Some(t) => tensor_attr::ints(op, t)?[0],
        None => a.startup_seed as i64,
    };
    let out = shape(op, a, x.dims())?;
    let first = x.rank() - a.shape.len();
    let instances: usize = x.dims()[..first].iter().product::<i64>() as usize;
    let sizes = |d: &[i64]| d[first..].iter().map(|&d| d as usize).collect::<Vec<_>>();
    let (dims, part) = (sizes(x.dims()), sizes(&out));
    let n = part.iter().product::<usize>();
    if n > 0 && !dims.is_empty() {
        by_size!(x.dtype(), T, {
            kernel::crop(words::<T>(x), &dims, &part, seed, words_mut::<T>(cx.out(crop::OUT)?)?);
        });
    } else if n > 0 {
        oar_ops_common::elements::copy_to(x, cx.out(crop::OUT)?)?;
    }
    if cx.wants(crop::SEED_OUT) {
        let mut random = MinStd::new(seed);
        random.skip(instances as u64 * dims.len() as u64);
        cx.out_data::<i64>(crop::SEED_OUT)?[0] = random.next_u64() as i64;
    }
    Ok(())
}

pub static RANDOM_CROP: Op = Op {
    name: "random_crop",
    inputs: crop::INS,
    outputs: crop::OUTS,
    attrs: CropAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INTEGERS),
    infer,
    cpu: Kernel::Pure(run),
    ..OP
};

pub static TABLE: &[&Op] = &[&RANDOM_CROP];
