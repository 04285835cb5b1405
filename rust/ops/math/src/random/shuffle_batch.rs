//! shuffle_batch: permutes the rows so that no row keeps its position.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{ensure, slots};
use oar_kernels::random::{sampling::cycle, Mt64};
use oar_kernels::sequence::rows::{self, Run};
use oar_ops_common::by_size;
use oar_ops_common::elements::{words, words_mut};

attrs! { pub struct ShuffleAttrs { startup_seed: i32 = 0 } }

slots! {
    mod shuffle { X "X", SEED "Seed" => OUT "Out", INDEX "ShuffleIdx".kernel_allocated(), SEED_OUT "SeedOut".kernel_allocated() }
    mod shuffle_grad { INDEX "ShuffleIdx", DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// The number of rows: all dimensions but the last.
fn count_rows(op: &str, x: &[i64]) -> Result<usize> {
    ensure!(!x.is_empty(), InvalidArgument, "operator {op}: X must have at least one dimension");
    Ok(x[..x.len() - 1].iter().product::<i64>() as usize)
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    cx.like(shuffle::OUT, shuffle::X)?;
    cx.share_lod(shuffle::OUT, shuffle::X);
    cx.set(shuffle::INDEX, &[-1], DType::I64);
    cx.set(shuffle::SEED_OUT, &[1], DType::I64);
    Ok(())
}

/// The step of C++'s default_random_engine (minstd_rand0).
fn next_seed(seed: i64) -> i64 {
    const MODULUS: i64 = 2_147_483_647;
    let state = seed.rem_euclid(MODULUS);
    (if state == 0 { 1 } else { state }) * 16807 % MODULUS
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let (op, x) = (cx.op.name, cx.input(shuffle::X)?);
    let n = count_rows(op, x.dims())?;
    let seed = match cx.opt(shuffle::SEED) {
        Some(t) => {
            ensure!(
                t.dtype() == DType::I64 && t.numel() > 0,
                InvalidArgument,
                "operator {op}: Seed must hold an int64, got {t:?}"
            );
            t.data::<i64>()[0]
        }
        None => cx.attrs::<ShuffleAttrs>().startup_seed as i64,
    };
    let places = cycle(&mut Mt64::new(seed as u64), n);
    let width = x.dims()[x.rank() - 1] as usize;
    by_size!(x.dtype(), T, {
        let runs = places.iter().enumerate().map(|(from, &to)| Run { from, to: to as usize, count: 1 });
        rows::copy(runs, width, words::<T>(x), words_mut::<T>(cx.out(shuffle::OUT)?)?);
    });
    cx.set(shuffle::INDEX, Tensor::from_slice(&places, &[n as i64])?);
    cx.set(shuffle::SEED_OUT, Tensor::from_slice(&[next_seed(seed)], &[1])?);
    Ok(())
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    let (op, d, index) = (cx.op.name, cx.input(shuffle_grad::DOUT)?, cx.input(shuffle_grad::INDEX)?);
    let n = count_rows(op, d.dims())?;
    let fits = index.dtype() == DType::I64
        && index.numel() == n
        && index.data::<i64>().iter().all(|place| (0..n as i64).contains(place));
    ensure!(fits, InvalidArgument, "operator {op}: ShuffleIdx must hold {n} places of rows, got {index:?}");
    let width = d.dims()[d.rank() - 1] as usize;
    by_size!(d.dtype(), T, {
        let places = index.data::<i64>().iter().enumerate();
        let runs = places.map(|(to, &from)| Run { from: from as usize, to, count: 1 });
        rows::copy(runs, width, words::<T>(d), words_mut::<T>(cx.out(shuffle_grad::DX)?)?);
    });
    Ok(())
}

const TYPES: DTypes = DTypes::FLOATS.union(DTypes::of(&[DType::I32, DType::I64]));

pub static SHUFFLE: Op = Op {
    name: "shuffle_batch",
    inputs: shuffle::INS,
    outputs: shuffle::OUTS,
    attrs: ShuffleAttrs::FIELDS,
    dtypes: TYPES,
    infer,
    cpu: Kernel::Pure(forward),
    grad: Grad::By(&SHUFFLE_GRAD),
    ..OP
};

pub static SHUFFLE_GRAD: Op = Op {
    name: "shuffle_batch_grad",
    inputs: shuffle_grad::INS,
    outputs: shuffle_grad::OUTS,
    attrs: ShuffleAttrs::FIELDS,
    infer: oar_core::op::infer::like_out_grad,
    cpu: Kernel::Pure(backward),
    ..OP
};

pub static TABLE: &[&Op] = &[&SHUFFLE, &SHUFFLE_GRAD];
