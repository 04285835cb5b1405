//! edit_distance: insertions, deletions and substitutions between two sequences.

use super::lod::{lengths, offsets};
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, ensure, slots};
use oar_kernels::pool;
use oar_kernels::rnn::edit_distance::distance;
use oar_ops_common::index::index_of;
use std::ops::Range;

attrs! {
    pub struct EditDistanceAttrs { normalized: bool = false }
}

slots! {
    /// Hyps and Refs [batch, ids] with their lengths, or [ids of all sequences, 1] with LoD.
    mod edit_distance {
        HYPS "Hyps", REFS "Refs", HYPS_LENGTH "HypsLength".dispensable(), REFS_LENGTH "RefsLength".dispensable()
        => COUNT "SequenceNum", OUT "Out".kernel_allocated()
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (hyps, refs) = (cx.dims(edit_distance::HYPS)?, cx.dims(edit_distance::REFS)?);
    let padded = cx.has(edit_distance::HYPS_LENGTH);
    let agree = |a: i64, b: i64| a == b || a < 0 || b < 0;
    ensure!(
        padded == cx.has(edit_distance::REFS_LENGTH),
        InvalidArgument,
        "operator {}: HypsLength and RefsLength must be given together",
        cx.op.name
    );
    let fit = match padded {
        true => hyps.len() == 2 && refs.len() == 2 && agree(hyps[0], refs[0]),
        false => [&hyps, &refs].iter().all(|d| d.len() == 2 && agree(d[1], 1)),
    };
    ensure!(
        fit,
        InvalidArgument,
        "operator {}: Hyps and Refs must be {}, got shapes {:?} and {:?}",
        cx.op.name,
        if padded { "[batch, ids] of one batch" } else { "[ids, 1] with LoD" },
        &hyps[..],
        &refs[..]
    );
    if padded {
        for slot in [edit_distance::HYPS_LENGTH, edit_distance::REFS_LENGTH] {
            let n = cx.dims(slot)?;
            ensure!(
                n.first().is_some_and(|&n| agree(n, hyps[0])),
                InvalidArgument,
                "operator {}: {} must have one length for each of {} sequences, got shape {:?}",
                cx.op.name,
                cx.op.inputs[slot.0].name,
                hyps[0],
                &n[..]
            );
        }
    }
    cx.set(edit_distance::COUNT, &[1], DType::I64);
    cx.set(edit_distance::OUT, &[if padded { hyps[0] } else { -1 }, 1], DType::F32);
    Ok(())
}

/// The ranges of the sequences of one input.
fn sequences(cx: &KernelContext, slot: InSlot, lens: InSlot) -> Result<Vec<Range<usize>>> {
    let (t, op) = (cx.input(slot)?, cx.op.name);
    let name = |slot: InSlot| cx.op.inputs[slot.0].name;
    let Some(given) = cx.opt(lens) else {
        // ctc_align marks empty results by one row that belongs to no sequence.
        let first = t.lod.as_deref().and_then(|levels| levels.first());
        if let Some(at) = first.filter(|at| t.numel() == 1 && !at.is_empty() && at.iter().all(|&i| i == 0)) {
            return Ok(vec![0..0; at.len() - 1]);
        }
        return Ok(offsets(op, name(slot), t)?.windows(2).map(|w| w[0]..w[1]).collect());
    };
    let (batch, width) = (t.dims()[0] as usize, t.dims()[1] as usize);
    let n = lengths(op, name(lens), given, batch, width)?;
    Ok(n.into_iter().enumerate().map(|(b, n)| b * width..b * width + n).collect())
}

fn kernel(cx: &mut KernelContext) -> Result<()> {
    let op = cx.op.name;
    let hyps = sequences(cx, edit_distance::HYPS, edit_distance::HYPS_LENGTH)?;
    let refs = sequences(cx, edit_distance::REFS, edit_distance::REFS_LENGTH)?;
    let normalized = cx.attrs::<EditDistanceAttrs>().normalized;
    ensure!(
        hyps.len() == refs.len(),
        InvalidArgument,
        "operator {op}: Hyps and Refs must have as many sequences, got {} and {}",
        hyps.len(),
        refs.len()
    );
    ensure!(
        !normalized || refs.iter().all(|r| !r.is_empty()),
        InvalidArgument,
        "operator {op}: no sequence of Refs may be empty where distances are normalized by their lengths"
    );
    let (x, y) = (index_of(op, cx.input(edit_distance::HYPS)?)?, index_of(op, cx.input(edit_distance::REFS)?)?);
    let mut out = Tensor::empty(DType::F32, &[hyps.len() as i64, 1])?;
    pool::parts(out.data_mut::<f32>()?, 1, |i, out| {
        let n = refs[i].len();
        let d = distance(&x[hyps[i].clone()], &y[refs[i].clone()]) as f32;
        out[0] = if normalized { d / n as f32 } else { d };
    });
    cx.set(edit_distance::OUT, out);
    cx.out_data::<i64>(edit_distance::COUNT)?[0] = hyps.len() as i64;
    Ok(())
}

pub static EDIT_DISTANCE: Op = Op {
    name: "edit_distance",
    inputs: edit_distance::INS,
    outputs: edit_distance::OUTS,
    attrs: EditDistanceAttrs::FIELDS,
    dtypes: DTypes::INDICES,
    infer,
    cpu: Kernel::Pure(kernel),
    ..OP
};

pub static TABLE: &[&Op] = &[&EDIT_DISTANCE];
