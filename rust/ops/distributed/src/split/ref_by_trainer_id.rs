//! ref_by_trainer_id: the variable of one trainer among all; fake_init: a parameter of which a trainer has the shape
//! only.

use oar_core::base::shape::checked_numel;
use oar_core::base::{DType, Dims, Result};
use oar_core::op::{Kernel, KernelContext, NoAttrs, Op, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, bail, ensure, slots};

attrs! {
    pub struct FakeInitAttrs { shape: Vec<i64> }
}

slots! {
    mod by_id { X "X".duplicable(), ID "TrainerId" => OUT "Out".kernel_allocated() }
    mod fake_init { => OUT "Out".kernel_allocated() }
}

fn ref_by_trainer_id(cx: &mut KernelContext) -> Result<()> {
    let (op, xs, id) = (cx.op.name, cx.inputs(by_id::X)?, cx.input(by_id::ID)?);
    let ids = id.to_i64s()?;
    let [id] = ids[..] else {
        bail!(InvalidArgument, "operator {op}: 'TrainerId' must be one number, got shape {:?}", id.dims())
    };
    let found = usize::try_from(id).ok().and_then(|i| xs.get(i));
    let Some(x) = found else {
        bail!(InvalidArgument, "operator {op}: there is no trainer {id} among the {} of 'X'", xs.len())
    };
    let out = (*x).clone();
    cx.set(by_id::OUT, out);
    Ok(())
}

pub static REF_BY_TRAINER_ID: Op = Op {
    name: "ref_by_trainer_id",
    inputs: by_id::INS,
    outputs: by_id::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        let m = cx.meta(by_id::X, 0)?;
        cx.set_meta(by_id::OUT, 0, m);
        Ok(())
    },
    cpu: Kernel::Pure(ref_by_trainer_id),
    ..OP
};

/// The table is on the servers: nothing is allocated here, and reading elements is an error.
fn fake_init(cx: &mut KernelContext) -> Result<()> {
    let dims = Dims::from_slice(&cx.attrs::<FakeInitAttrs>().shape);
    cx.set(fake_init::OUT, Tensor::shape_only(DType::F32, &dims)?);
    Ok(())
}

pub static FAKE_INIT: Op = Op {
    name: "fake_init",
    outputs: fake_init::OUTS,
    attrs: FakeInitAttrs::FIELDS,
    infer: |cx| {
        let dims = cx.attrs::<FakeInitAttrs>().shape.clone();
        let bound = dims.iter().all(|&d| d >= 0) && checked_numel(&dims).is_ok();
        ensure!(bound, InvalidArgument, "operator fake_init: shape {dims:?} is not the shape of a table");
        cx.set(fake_init::OUT, &dims, DType::F32);
        Ok(())
    },
    cpu: Kernel::Pure(fake_init),
    ..OP
};
