//! hash: buckets of integer rows, by XXH64 of their bytes.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::sequence::tokens as kernel;

attrs! { pub struct HashAttrs { num_hash: i32 = 1, mod_by: i64 = 100000 } }

slots! { mod hash { X "X" => OUT "Out" } }

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a, x, dtype) = (cx.op.name, cx.attrs::<HashAttrs>(), cx.dims(hash::X)?, cx.dtype(hash::X)?);
    ensure!(x.len() == 2, InvalidArgument, "operator {op}: X must have 2 dimensions, got shape {:?}", &x[..]);
    ensure!(
        a.num_hash > 0 && a.mod_by != 0,
        InvalidArgument,
        "operator {op}: num_hash must be positive and mod_by not 0, got {} and {}",
        a.num_hash,
        a.mod_by
    );
    cx.set(hash::OUT, &[x[0], a.num_hash as i64, 1], dtype);
    cx.share_lod(hash::OUT, hash::X);
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(hash::X)?, cx.attrs::<HashAttrs>());
    let row = x.dims()[1] as usize * x.dtype().size();
    let (bytes, count) = (x.bytes(), a.num_hash as usize);
    dispatch!(x.dtype(), T in [i32, i64], {
        kernel::hash(bytes, row, count, a.mod_by as u64, |v| v as T, cx.out_data::<T>(hash::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static HASH: Op = Op {
    name: "hash",
    inputs: hash::INS,
    outputs: hash::OUTS,
    attrs: HashAttrs::FIELDS,
    dtypes: DTypes::of(&[DType::I32, DType::I64]),
    infer,
    cpu: Kernel::Pure(run),
    ..OP
};

pub static TABLE: &[&Op] = &[&HASH];
