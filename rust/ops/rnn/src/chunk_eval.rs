//! chunk_eval: precision, recall and F1 of the chunks marked by tags.

use super::lod::{lengths, offsets};
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, bail, ensure, err, slots};
use oar_kernels::sequence::chunks::{count, ChunkCounts, Place};
use oar_ops_common::index::index_of;
use std::ops::Range;

attrs! {
    pub struct ChunkEvalAttrs {
        num_chunk_types: i32, chunk_scheme: Text = "IOB".into(), excluded_chunk_types: Vec<i32> = vec![],
    }
}

slots! {
    /// Inference and Label [rows, 1] with LoD, or [batch, steps] (or [batch, steps, 1]) with lengths.
    mod chunk_eval {
        INFERENCE "Inference", LABEL "Label", LENGTH "SeqLength".dispensable()
        => PRECISION "Precision", RECALL "Recall", F1 "F1-Score", INFERRED "NumInferChunks", LABELLED "NumLabelChunks",
        CORRECT "NumCorrectChunks"
    }
}

fn scheme(op: &str, name: &str) -> Result<&'static [Place]> {
    use Place::*;
    Ok(match name {
        "IOB" => &[Begin, Inside],
        "IOE" => &[Inside, End],
        "IOBES" => &[Begin, Inside, End, Single],
        "plain" => &[Any],
        other => {
            bail!(InvalidArgument, "operator {op}: chunk_scheme must be IOB, IOE, IOBES or plain, got '{other}'")
        }
    })
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, label) = (cx.dims(chunk_eval::INFERENCE)?, cx.dims(chunk_eval::LABEL)?);
    let a = cx.attrs::<ChunkEvalAttrs>();
    scheme(cx.op.name, &a.chunk_scheme)?;
    ensure!(
        a.num_chunk_types > 0,
        InvalidArgument,
        "operator {}: num_chunk_types must be greater than 0, got {}",
        cx.op.name,
        a.num_chunk_types
    );
    let alike = x.len() == label.len() && x.iter().zip(&label).all(|(&a, &b)| a == b || a < 0 || b < 0);
    ensure!(
        alike,
        InvalidArgument,
        "operator {}: Inference and Label must have the same shape, got {:?} and {:?}",
        cx.op.name,
        &x[..],
        &label[..]
    );
    if cx.has(chunk_eval::LENGTH) && !(x.len() == 2 || x.len() == 3 && (x[2] == 1 || x[2] < 0)) {
        return cx.wrong(chunk_eval::INFERENCE, "[batch, steps] or [batch, steps, 1], with lengths");
    }
    cx.set_each(&[chunk_eval::PRECISION, chunk_eval::RECALL, chunk_eval::F1], &[1], DType::F32);
    cx.set_each(&[chunk_eval::INFERRED, chunk_eval::LABELLED, chunk_eval::CORRECT], &[1], DType::I64);
    Ok(())
}

fn kernel(cx: &mut KernelContext) -> Result<()> {
    let (x, label, op) = (cx.input(chunk_eval::INFERENCE)?, cx.input(chunk_eval::LABEL)?, cx.op.name);
    let a = cx.attrs::<ChunkEvalAttrs>();
    let places = scheme(op, &a.chunk_scheme)?;
    let has_lod = label.lod.as_ref().is_some_and(|l| !l.is_empty());
    let parts: Vec<Range<usize>> = match cx.opt(chunk_eval::LENGTH).filter(|_| !has_lod) {
        Some(t) => {
            let (batch, steps) = (x.dims()[0] as usize, x.dims()[1] as usize);
            let n = lengths(op, "SeqLength", t, batch, steps)?;
            n.into_iter().enumerate().map(|(b, n)| b * steps..b * steps + n).collect()
        }
        None => {
            let at = offsets(op, "Label", label)?;
            ensure!(
                label.lod.as_ref().is_some_and(|l| l.len() == 1) && offsets(op, "Inference", x)? == at,
                InvalidArgument,
                "operator {op}: Inference and Label must have the same LoD of one level"
            );
            at.windows(2).map(|w| w[0]..w[1]).collect()
        }
    };
    let (x, label) = (index_of(op, x)?, index_of(op, label)?);
    let types = i64::from(a.num_chunk_types);
    let counts = count(&parts, (&x, &label), (types, places), &a.excluded_chunk_types);
    let ChunkCounts { found, labelled, correct } = counts.map_err(|tag| {
        err!(
            InvalidArgument,
            "operator {op}: tags must be between 0 and {}, the number of chunk types times that of tags of each, got {tag}",
            types * places.len() as i64
        )
    })?;
    let share = |of: i64| if of == 0 { 0.0 } else { correct as f32 / of as f32 };
    let (precision, recall) = (share(found), share(labelled));
    let f1 = if correct == 0 { 0.0 } else { 2.0 * precision * recall / (precision + recall) };
    for (slot, v) in [(chunk_eval::PRECISION, precision), (chunk_eval::RECALL, recall), (chunk_eval::F1, f1)] {
        cx.out_data::<f32>(slot)?[0] = v;
    }
    for (slot, v) in [(chunk_eval::INFERRED, found), (chunk_eval::LABELLED, labelled), (chunk_eval::CORRECT, correct)] {
        cx.out_data::<i64>(slot)?[0] = v;
    }
    Ok(())
}

pub static CHUNK_EVAL: Op = Op {
    name: "chunk_eval",
    inputs: chunk_eval::INS,
    outputs: chunk_eval::OUTS,
    attrs: ChunkEvalAttrs::FIELDS,
    dtypes: DTypes::INDICES,
    infer,
    cpu: Kernel::Pure(kernel),
    ..OP
};

pub static TABLE: &[&Op] = &[&CHUNK_EVAL];
