//! mv: a matrix times a vector.

use super::batched_gemm::{agree, multiply, one_type, to_sizes};
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, Op, OP};
use oar_core::{bail, slots};
use oar_ops_common::axis::like;

slots! {
    mod mv { X "X", VEC "Vec" => OUT "Out" }
    mod mv_grad { X "X", VEC "Vec", DOUT "Out@GRAD" => DX "X@GRAD", DVEC "Vec@GRAD" }
}

pub(crate) const PLAIN: [f64; 2] = [1.0, 0.0];

pub(crate) const TYPES: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

fn of_mv(op: &str, x: &[i64], vec: &[i64]) -> Result<[i64; 4]> {
    match (x, vec) {
        (&[m, k], &[l]) if agree(k, l) => Ok([1, m, 1, if k < 0 { l } else { k }]),
        _ => bail!(
            InvalidArgument,
            "operator {op}: X must be a matrix and Vec a vector as long as X is wide, got shapes {x:?} and {vec:?}"
        ),
    }
}

pub static MV: Op = Op {
    name: "mv",
    inputs: mv::INS,
    outputs: mv::OUTS,
    dtypes: TYPES,
    infer: |cx| {
        let [_, m, ..] = of_mv(cx.op.name, &cx.dims(mv::X)?, &cx.dims(mv::VEC)?)?;
        one_type(cx, &[mv::X, mv::VEC])?;
        let dtype = cx.dtype(mv::X)?;
        cx.set(mv::OUT, &[m], dtype);
        cx.share_lod(mv::OUT, mv::X);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let (x, vec) = (cx.input(mv::X)?, cx.input(mv::VEC)?);
        let sizes = to_sizes(of_mv(cx.op.name, x.dims(), vec.dims())?);
        multiply(sizes, PLAIN, (x, false), (vec, false), cx.out(mv::OUT)?)
    }),
    grad: Grad::By(&MV_GRAD),
    ..OP
};

pub static MV_GRAD: Op = Op {
    name: "mv_grad",
    inputs: mv_grad::INS,
    outputs: mv_grad::OUTS,
    dtypes: TYPES,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| {
        use mv_grad::{DOUT, DVEC, DX, VEC, X};
        let (x, vec, dout) = (cx.input(X)?, cx.input(VEC)?, cx.input(DOUT)?);
        let [_, m, _, k] = of_mv(cx.op.name, x.dims(), vec.dims())?;
        like(cx, vec, &[k], x.dtype(), "Vec")?;
        like(cx, dout, &[m], x.dtype(), "Out@GRAD")?;
        let (m, k) = (m as usize, k as usize);
        if cx.wants(DX) {
            multiply((1, m, k, 1), PLAIN, (dout, false), (vec, false), cx.out(DX)?)?;
        }
        if cx.wants(DVEC) {
            multiply((1, k, 1, m), PLAIN, (x, true), (dout, false), cx.out(DVEC)?)?;
        }
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&MV, &MV_GRAD];
