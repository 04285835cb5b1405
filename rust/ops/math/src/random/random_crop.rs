//! random_crop: a region of random position of every instance of a batch. Numbers are those of `std::minstd_rand`,
//! seeded by Seed; SeedOut continues the sequence.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{ensure, slots};
use oar_ops_common::by_size;
use oar_ops_common::elements::{words, words_mut};
use oar_ops_common::tensor_attr;

attrs! {
    pub struct CropAttrs { shape: Vec<i32>, startup_seed: i32 = 0 }
}

slots! {
    mod crop { X "X", SEED "Seed" => OUT "Out", SEED_OUT "SeedOut".intermediate() }
}

/// `std::minstd_rand`: x * 48271 modulo 2^31 - 1.
struct Minimal(u64);

impl Minimal {
    const MODULUS: u64 = (1 << 31) - 1;

    fn new(seed: i64) -> Minimal {
        Minimal(match seed as u64 % Self::MODULUS {
            0 => 1,
            s => s,
        })
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0 * 48271 % Self::MODULUS;
        self.0
    }

    /// Equals `n` calls of `next`.
    fn skip(&mut self, mut n: u64) {
        let mut step = 48271;
        while n > 0 {
            if n & 1 == 1 {
                self.0 = self.0 * step % Self::MODULUS;
            }
            step = step * step % Self::MODULUS;
            n >>= 1;
        }
    }

    /// `std::uniform_int_distribution(0, most)`.
    fn below(&mut self, most: u64) -> u64 {
        let (range, wanted) = (Self::MODULUS - 2, most + 1);
        let scale = range / wanted;
        loop {
            let drawn = self.next() - 1;
            if drawn < wanted * scale {
                return drawn / scale;
            }
        }
    }
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

/// Copies the region of sizes `part` at `from` to `out`.
fn copy<T: Copy>(x: &[T], dims: &[usize], part: &[usize], from: &[usize], out: &mut [T]) {
    let Some((&size, rest)) = part.split_first() else {
        out[0] = x[0];
        return;
    };
    let (step, to) = (dims[1..].iter().product::<usize>(), rest.iter().product::<usize>());
    if rest.is_empty() {
        out.copy_from_slice(&x[from[0]..from[0] + size]);
        return;
    }
    for k in 0..size {
        let x = &x[(from[0] + k) * step..(from[0] + k + 1) * step];
        copy(x, &dims[1..], rest, &from[1..], &mut out[k * to..(k + 1) * to]);
    }
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
    let (whole, n) = (dims.iter().product::<usize>(), part.iter().product::<usize>());
    if n > 0 && !dims.is_empty() {
        by_size!(x.dtype(), T, {
            let x = words::<T>(x);
            for (i, out) in words_mut::<T>(cx.out(crop::OUT)?)?.chunks_exact_mut(n).enumerate() {
                let mut random = Minimal::new(seed);
                random.skip(i as u64 * dims.len() as u64);
                let places: Vec<usize> =
                    dims.iter().zip(&part).map(|(&d, &p)| random.below((d - p) as u64) as usize).collect();
                copy(&x[i * whole..(i + 1) * whole], &dims, &part, &places, out);
            }
        });
    } else if n > 0 {
        oar_ops_common::elements::copy_to(x, cx.out(crop::OUT)?)?;
    }
    if cx.wants(crop::SEED_OUT) {
        let mut random = Minimal::new(seed);
        random.skip(instances as u64 * dims.len() as u64);
        cx.out_data::<i64>(crop::SEED_OUT)?[0] = random.next() as i64;
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
