//! beam_search (one step: the best continuations of every source's prefixes) and beam_search_decode (the resulting
//! sentences).

use crate::levels;
use oar_core::attrs;
use oar_core::base::{DType, Result};
use oar_core::op::{InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::{Lod, Tensor, Value};
use oar_core::{bail, ensure, err, slots};
use oar_kernels::sequence::beam_search::{decode as decode_steps, Candidates, DecodeError, Item, Sentences, Step};
use std::sync::Arc;

attrs! {
    pub struct SearchAttrs { level: i32, beam_size: i32, end_id: i32, is_accumulated: bool = true }
    pub struct DecodeAttrs { beam_size: i32, end_id: i32 }
}

slots! {
    mod search {
        PRE_IDS "pre_ids", PRE_SCORES "pre_scores", IDS "ids".dispensable(), SCORES "scores"
        => OUT_IDS "selected_ids".kernel_allocated(), OUT_SCORES "selected_scores".kernel_allocated(), PARENT "parent_idx".dispensable().kernel_allocated()
    }
    mod decode { IDS "Ids", SCORES "Scores" => OUT_IDS "SentenceIds".kernel_allocated(), OUT_SCORES "SentenceScores".kernel_allocated() }
}

/// Limit of the beam size.
const MOST_BEAMS: i32 = 1 << 16;

fn beam_size(op: &str, size: i32) -> Result<usize> {
    ensure!(
        (1..=MOST_BEAMS).contains(&size),
        InvalidArgument,
        "operator {op}: attribute 'beam_size' must be from 1 to {MOST_BEAMS}, got {size}"
    );
    Ok(size as usize)
}

// beam_search

/// A level's offsets in rows, through the lower levels.
fn absolute(op: &str, scores: &Tensor, level: i32) -> Result<Vec<usize>> {
    let lod = scores.lod.as_deref().map_or(&[][..], |l| &l[..]);
    ensure!(
        level >= 0 && (level as usize) < lod.len(),
        InvalidArgument,
        "operator {op}: attribute 'level' must be from 0 and below {}, the levels of the LoD of 'scores', got {level}",
        lod.len()
    );
    let mut offsets = lod[level as usize].clone();
    for lower in &lod[level as usize + 1..] {
        for at in &mut offsets {
            let Some(&row) = lower.get(*at) else {
                bail!(InvalidArgument, "operator {op}: the levels of the LoD {lod:?} do not fit each other")
            };
            *at = row;
        }
    }
    let rows = scores.dims().first().map_or(0, |&n| n as usize);
    levels::check(op, "scores", &offsets, rows)?;
    Ok(offsets)
}

fn of_type<'a>(cx: &KernelContext<'a>, slot: InSlot, dtype: DType, least: usize) -> Result<&'a Tensor> {
    let t = cx.input(slot)?;
    ensure!(
        t.dtype() == dtype && t.numel() >= least,
        InvalidArgument,
        "operator {}: input '{}' must be {dtype} with {least} elements, got {t:?}",
        cx.op.name,
        cx.op.inputs[slot.0].name
    );
    Ok(t)
}

fn run_search(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<SearchAttrs>());
    let most = beam_size(op, a.beam_size)?;
    let scores = of_type(cx, search::SCORES, DType::F32, 0)?;
    let sources = absolute(op, scores, a.level)?;
    let (prefixes, width) = (sources[sources.len() - 1], levels::width(scores));
    let pre_ids = of_type(cx, search::PRE_IDS, DType::I64, prefixes)?.data::<i64>();
    let pre_scores = of_type(cx, search::PRE_SCORES, DType::F32, prefixes)?.data::<f32>();
    let ids = match cx.has(search::IDS) {
        true => Some(of_type(cx, search::IDS, DType::I64, scores.numel())?.data::<i64>()),
        false => None,
    };
    let candidates = Candidates {
        pre_ids,
        pre_scores,
        ids,
        scores: scores.data::<f32>(),
        width,
        accumulated: a.is_accumulated,
        end: a.end_id as i64,
    };
    let chosen = candidates.search(&sources, most);
    let ends = levels::offsets(chosen.iter().map(Vec::len));
    let items: Vec<Item> = chosen.into_iter().flatten().collect();
    let lod: Option<Arc<Lod>> = Some(Arc::new(vec![sources, ends]));
    let dims = [items.len() as i64, 1];
    let column = |values: Vec<i64>| Tensor::from_slice(&values, &dims);
    cx.set(search::OUT_IDS, column(items.iter().map(|i| i.id).collect())?.with_lod(lod.clone()));
    let values: Vec<f32> = items.iter().map(|i| i.score).collect();
    cx.set(search::OUT_SCORES, Tensor::from_slice(&values, &dims)?.with_lod(lod));
    if cx.wants(search::PARENT) {
        let parents: Vec<i32> = items.iter().map(|i| i.prefix as i32).collect();
        cx.set(search::PARENT, Tensor::from_slice(&parents, &dims[..1])?);
    }
    Ok(())
}

fn infer_search(cx: &mut ShapeContext) -> Result<()> {
    let (ids, scores) = (cx.meta(search::PRE_IDS, 0)?, cx.meta(search::PRE_SCORES, 0)?);
    let rows = ids.dims.first().copied().unwrap_or(-1);
    cx.set(search::OUT_IDS, &ids.dims, DType::I64);
    cx.set(search::OUT_SCORES, &scores.dims, DType::F32);
    cx.set(search::PARENT, &[rows], DType::I32);
    Ok(())
}

pub static BEAM_SEARCH: Op = Op {
    name: "beam_search",
    inputs: search::INS,
    outputs: search::OUTS,
    attrs: SearchAttrs::FIELDS,
    infer: infer_search,
    cpu: Kernel::Pure(run_search),
    ..OP
};

// beam_search_decode

fn array<'a>(cx: &KernelContext<'a>, slot: InSlot) -> Result<&'a [Value]> {
    match cx.value(slot)? {
        Value::Array(items) if !items.is_empty() => Ok(items),
        other => bail!(
            InvalidArgument,
            "operator beam_search_decode: input '{}' must be a LoDTensorArray with a tensor at least, got {}",
            cx.op.inputs[slot.0].name,
            other.what()
        ),
    }
}

fn steps<'a>(cx: &KernelContext<'a>) -> Result<(Vec<Step<'a>>, DType)> {
    let (ids, scores) = (array(cx, decode::IDS)?, array(cx, decode::SCORES)?);
    let dtype = scores[0].dense()?.dtype();
    ensure!(
        ids.len() == scores.len() && dtype != DType::Bool,
        InvalidArgument,
        "operator beam_search_decode: Ids and Scores must have as many tensors, got {} and {}",
        ids.len(),
        scores.len()
    );
    let mut found: Vec<Step<'a>> = Vec::with_capacity(ids.len());
    for (t, s) in ids.iter().zip(scores) {
        let (t, s) = (t.dense()?, s.dense()?);
        let lod = t.lod.as_deref().map_or(&[][..], |l| &l[..]);
        let [sources, prefixes] = lod else {
            bail!(
                InvalidArgument,
                "operator beam_search_decode: every tensor of Ids must have two levels of LoD, got {}",
                lod.len()
            )
        };
        ensure!(
            t.dtype() == DType::I64 && s.dtype() == dtype && s.numel() == t.numel() && !prefixes.is_empty(),
            InvalidArgument,
            "operator beam_search_decode: Ids must be int64 and Scores alike, got {t:?} and {s:?}"
        );
        levels::check(cx.op.name, "Ids", sources, prefixes.len() - 1)?;
        levels::check(cx.op.name, "Ids", prefixes, t.numel())?;
        ensure!(
            found.first().is_none_or(|first| first.sources.len() == sources.len()),
            InvalidArgument,
            "operator beam_search_decode: every step must have as many sources"
        );
        found.push(Step { ids: t.data::<i64>(), scores: s.to_f64s(), sources, prefixes });
    }
    Ok((found, dtype))
}

fn run_decode(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<DecodeAttrs>();
    let most = beam_size(cx.op.name, a.beam_size)?;
    let (steps, dtype) = steps(cx)?;
    let sources = steps[0].sources.len() - 1;
    ensure!(sources > 0, InvalidArgument, "operator beam_search_decode: there must be a source sentence");
    let Sentences { ids, scores, lengths } = decode_steps(&steps, most, a.end_id as i64).map_err(|e| match e {
        DecodeError::TooManySentences => {
            err!(InvalidArgument, "operator beam_search_decode: a source has more than beam_size = {most} sentences")
        }
        DecodeError::NoCandidate(at) => err!(
            InvalidArgument,
            "operator beam_search_decode: a step continues candidate {at}, which the preceding step does not have"
        ),
    })?;
    let of_sources = levels::offsets(std::iter::repeat_n(most, sources));
    let lod: Option<Arc<Lod>> = Some(Arc::new(vec![of_sources, levels::offsets(lengths)]));
    let dims = [ids.len() as i64];
    let scores = match dtype {
        DType::F64 => Tensor::from_slice(&scores, &dims)?,
        DType::F32 => Tensor::from_slice(&scores.iter().map(|&s| s as f32).collect::<Vec<_>>(), &dims)?,
        other => return cx.unsupported(other),
    };
    cx.set(decode::OUT_IDS, Tensor::from_slice(&ids, &dims)?.with_lod(lod.clone()));
    cx.set(decode::OUT_SCORES, scores.with_lod(lod));
    Ok(())
}

fn infer_decode(cx: &mut ShapeContext) -> Result<()> {
    let scores = cx.meta(decode::SCORES, 0)?;
    cx.set(decode::OUT_IDS, &[-1], DType::I64);
    cx.set(decode::OUT_SCORES, &[-1], scores.dtype);
    Ok(())
}

pub static BEAM_SEARCH_DECODE: Op = Op {
    name: "beam_search_decode",
    inputs: decode::INS,
    outputs: decode::OUTS,
    attrs: DecodeAttrs::FIELDS,
    infer: infer_decode,
    cpu: Kernel::Pure(run_decode),
    ..OP
};

pub static TABLE: &[&Op] = &[&BEAM_SEARCH, &BEAM_SEARCH_DECODE];
