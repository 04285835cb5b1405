//! gather_tree: the sequences of a beam search, from its ids and parent beams.

use oar_core::base::{DTypes, Result};
use oar_core::op::{Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::rnn::beam;

slots! {
    /// All are [steps, batch, beams].
    mod gather_tree { IDS "Ids", PARENTS "Parents" => OUT "Out" }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (ids, parents) = (cx.dims(gather_tree::IDS)?, cx.dims(gather_tree::PARENTS)?);
    if ids.len() != 3 {
        return cx.wrong(gather_tree::IDS, "a tensor [steps, batch, beams] of three dimensions");
    }
    let agree = parents.len() == 3 && ids.iter().zip(&parents).all(|(&a, &b)| a == b || a < 0 || b < 0);
    ensure!(
        agree && cx.dtype(gather_tree::IDS)? == cx.dtype(gather_tree::PARENTS)?,
        InvalidArgument,
        "operator {}: Parents must have the shape {:?} and the data type of Ids, got {:?}",
        cx.op.name,
        &ids[..],
        &parents[..]
    );
    cx.like(gather_tree::OUT, gather_tree::IDS)
}

fn kernel(cx: &mut KernelContext) -> Result<()> {
    let (ids, parents) = (cx.input(gather_tree::IDS)?, cx.input(gather_tree::PARENTS)?);
    let [steps, batch, beams] = [0, 1, 2].map(|i| ids.dims()[i] as usize);
    let op = cx.op.name;
    dispatch!(ids.dtype(), T in [i32, i64], {
        let (ids, parents, out) = (ids.data::<T>(), parents.data::<T>(), cx.out_data::<T>(gather_tree::OUT)?);
        if let Err(parent) = beam::gather_tree([steps, batch, beams], ids, parents, out) {
            bail!(
                InvalidArgument,
                "operator {op}: Parents must be in [0, {beams}), the number of beams, got {parent}"
            );
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static GATHER_TREE: Op = Op {
    name: "gather_tree",
    inputs: gather_tree::INS,
    outputs: gather_tree::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::INDICES,
    infer,
    cpu: Kernel::Pure(kernel),
    ..OP
};

pub static TABLE: &[&Op] = &[&GATHER_TREE];
