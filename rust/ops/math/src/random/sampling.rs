//! bernoulli, multinomial (draws with given probabilities) and seed.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::infer::like_first;
use oar_core::op::{Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::generator::with_engine;
use oar_core::{dispatch, ensure, err, slots};
use oar_kernels::random::sampling::{cumulative, multinomial as draw_categories, BadProbabilities};
use oar_kernels::random::{uniform, RandomFloat};
use std::hash::{BuildHasher, Hasher};

attrs! {
    pub struct MultinomialAttrs { num_samples: i32 = 1, replacement: bool = false }
    pub struct SeedAttrs { seed: i32 = 0 }
}

slots! {
    mod unary { X "X" => OUT "Out" }
    mod seed { => OUT "Out" }
}

/// Seed 0 selects the global generator, as in Paddle's kernels.
const GLOBAL: u64 = 0;

fn bernoulli(cx: &mut KernelContext) -> Result<()> {
    let (op, x) = (cx.op.name, cx.input(unary::X)?);
    dispatch!(x.dtype(), T in [f32, f64], {
        let p = x.data::<T>();
        if let Some(wrong) = p.iter().find(|p| !(0.0..=1.0).contains(*p)) {
            oar_core::bail!(OutOfRange, "operator {op}: probabilities must be in [0, 1], got {wrong}");
        }
        let out = cx.out_data::<T>(unary::OUT)?;
        with_engine(GLOBAL, |engine| uniform::<T>(engine, 0.0, 1.0, out));
        out.iter_mut().zip(p).for_each(|(o, p)| *o = if *o < *p { 1.0 } else { 0.0 });
        Ok(())
    }, other => cx.unsupported(other))
}

// multinomial

/// Cumulative sums of the normalized probabilities; the last one is 1.
fn running_sums<T: RandomFloat>(op: &str, p: &[T], a: &MultinomialAttrs) -> Result<Vec<T>> {
    let sums = cumulative(p).map_err(|e| match e {
        BadProbabilities::Negative(v) => {
            err!(InvalidArgument, "operator {op}: probabilities must not be negative, got {}", v.to_f64())
        }
        BadProbabilities::AllZero => {
            err!(InvalidArgument, "operator {op}: the sum of the probabilities must be above 0")
        }
    })?;
    let possible = p.iter().filter(|&&v| v != T::ZERO).count();
    ensure!(
        a.replacement || possible >= a.num_samples as usize,
        InvalidArgument,
        "operator {op}: without replacement there must be {} categories that are not 0, got {possible}",
        a.num_samples
    );
    Ok(sums)
}

fn infer_multinomial(cx: &mut ShapeContext) -> Result<()> {
    let (mut dims, n) = (cx.dims(unary::X)?, cx.attrs::<MultinomialAttrs>().num_samples);
    ensure!(
        (1..=2).contains(&dims.len()),
        InvalidArgument,
        "operator multinomial: X must have 1 or 2 dimensions, got shape {dims:?}"
    );
    ensure!(n > 0, InvalidArgument, "operator multinomial: num_samples must be positive, got {n}");
    if let Some(last) = dims.last_mut() {
        *last = n as i64;
    }
    cx.set(unary::OUT, &dims, DType::I64);
    Ok(())
}

fn multinomial(cx: &mut KernelContext) -> Result<()> {
    let (op, x, a) = (cx.op.name, cx.input(unary::X)?, cx.attrs::<MultinomialAttrs>());
    let categories = x.dims().last().map_or(0, |&n| n as usize);
    dispatch!(x.dtype(), T in [f32, f64], {
        let p = x.data::<T>();
        let out = cx.out_data::<i64>(unary::OUT)?;
        // Check every row before the first draw.
        let rows = (0..out.len() / a.num_samples as usize).map(|i| &p[i * categories..(i + 1) * categories]);
        let mut sums = rows.map(|row| running_sums(op, row, a)).collect::<Result<Vec<_>>>()?;
        with_engine(GLOBAL, |engine| {
            let rows = sums.iter_mut().zip(out.chunks_exact_mut(a.num_samples as usize));
            rows.for_each(|(row, out)| draw_categories(engine, row, a.replacement, out));
        });
        Ok(())
    }, other => cx.unsupported(other))
}

pub static BERNOULLI: Op = Op {
    name: "bernoulli",
    inputs: unary::INS,
    outputs: unary::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: like_first,
    cpu: Kernel::Random(bernoulli),
    ..OP
};
pub static MULTINOMIAL: Op = Op {
    name: "multinomial",
    inputs: unary::INS,
    outputs: unary::OUTS,
    attrs: MultinomialAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_multinomial,
    cpu: Kernel::Random(multinomial),
    ..OP
};

/// seed: the attribute, or a random number at every run if that is 0.
pub static SEED: Op = Op {
    name: "seed",
    outputs: seed::OUTS,
    attrs: SeedAttrs::FIELDS,
    infer: |cx| {
        cx.set(seed::OUT, &[1], DType::I32);
        Ok(())
    },
    cpu: Kernel::Random(|cx| {
        let seed = match cx.attrs::<SeedAttrs>().seed {
            0 => std::collections::hash_map::RandomState::new().build_hasher().finish() as i32,
            seed => seed,
        };
        cx.out_data::<i32>(seed::OUT)?[0] = seed;
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&BERNOULLI, &MULTINOMIAL, &SEED];
