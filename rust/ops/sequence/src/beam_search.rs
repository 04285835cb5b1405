//! beam_search (one step: the best continuations of every source's prefixes) and beam_search_decode (the resulting
//! sentences).

use crate::levels;
use oar_core::attrs;
use oar_core::base::{DType, Result};
use oar_core::op::{InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::{Lod, Tensor, Value};
use oar_core::{bail, ensure, slots};
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

/// A continuation: its prefix, token and score.
#[derive(Clone, Copy)]
struct Item {
    prefix: usize,
    id: i64,
    score: f32,
}

impl Item {
    fn is_below(&self, other: &Item) -> bool {
        self.score < other.score || self.score == other.score && self.prefix < other.prefix
    }
}

/// The best continuations, in descending order.
struct Best {
    items: Vec<Item>,
    most: usize,
}

impl Best {
    fn put(&mut self, item: Item) {
        if self.items.len() == self.most {
            if self.items.last().is_some_and(|last| item.is_below(last)) {
                return;
            }
            self.items.pop();
        }
        let behind = self.items.iter().rev().take_while(|held| held.is_below(&item)).count();
        self.items.insert(self.items.len() - behind, item);
    }
}

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
    let (scores, end) = (scores.data::<f32>(), a.end_id as i64);

    let mut chosen: Vec<Vec<Item>> = vec![Vec::new(); prefixes];
    for span in sources.windows(2) {
        let mut best = Best { items: Vec::new(), most };
        for prefix in span[0]..span[1] {
            if pre_ids[prefix] == end {
                // An ended prefix keeps its token and score.
                best.put(Item { prefix, id: end, score: pre_scores[prefix] });
                continue;
            }
            for at in prefix * width..(prefix + 1) * width {
                let id = ids.map_or((at - prefix * width) as i64, |ids| ids[at]);
                let score = if a.is_accumulated { scores[at] } else { pre_scores[prefix] + scores[at].ln() };
                best.put(Item { prefix, id, score });
            }
        }
        // Drop a source whose sentences have all ended.
        if best.items.iter().any(|i| i.id != end || pre_ids[i.prefix] != end) {
            best.items.into_iter().for_each(|i| chosen[i.prefix].push(i));
        }
    }
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

/// The selection of a step: tokens, scores, LoD.
struct Step<'a> {
    ids: &'a [i64],
    scores: Vec<f64>,
    sources: &'a [usize],
    prefixes: &'a [usize],
}

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

/// A sentence in reverse order.
#[derive(Default, Clone)]
struct Sentence(Vec<(i64, f64)>);

/// The sentences of one source, traced back from the last step.
fn backtrace(steps: &[Step], source: usize, most: usize, end: i64) -> Result<Vec<Sentence>> {
    let mut sentences = vec![Sentence::default(); most];
    // The candidate of the preceding step that each sentence continues.
    let mut at: Vec<usize> = Vec::new();
    for step in steps.iter().rev() {
        let prefixes = step.sources[source]..step.sources[source + 1];
        if at.is_empty() {
            // Last step, or all sentences end here.
            for prefix in prefixes {
                for candidate in step.prefixes[prefix]..step.prefixes[prefix + 1] {
                    let Some(sentence) = sentences.get_mut(at.len()) else {
                        bail!(
                            InvalidArgument,
                            "operator beam_search_decode: a source has more than beam_size = {most} sentences"
                        )
                    };
                    sentence.0.push((step.ids[candidate], step.scores[candidate]));
                    at.push(prefix);
                }
            }
            continue;
        }
        for (sentence, at) in sentences.iter_mut().zip(&mut at) {
            let first = step.prefixes[prefixes.start];
            let inside = (first..step.prefixes[prefixes.end]).contains(at);
            ensure!(
                inside,
                InvalidArgument,
                "operator beam_search_decode: a step continues candidate {at}, which the preceding step does not have"
            );
            // A sentence contains only its first end token.
            if step.ids[*at] != end || sentence.0.is_empty() {
                sentence.0.push((step.ids[*at], step.scores[*at]));
            }
            let ends = &step.prefixes[prefixes.start + 1..=prefixes.end];
            *at = prefixes.start + ends.partition_point(|&e| e <= *at);
        }
    }
    // Sort by the last token's score, descending.
    let score = |s: &Sentence| s.0.first().map_or(f64::NEG_INFINITY, |token| token.1);
    sentences.sort_by(|a, b| score(b).total_cmp(&score(a)));
    Ok(sentences)
}

fn run_decode(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<DecodeAttrs>();
    let most = beam_size(cx.op.name, a.beam_size)?;
    let (steps, dtype) = steps(cx)?;
    let sources = steps[0].sources.len() - 1;
    ensure!(sources > 0, InvalidArgument, "operator beam_search_decode: there must be a source sentence");
    let (mut ids, mut scores, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for source in 0..sources {
        for sentence in backtrace(&steps, source, most, a.end_id as i64)? {
            lengths.push(sentence.0.len());
            for (id, score) in sentence.0.into_iter().rev() {
                ids.push(id);
                scores.push(score);
            }
        }
    }
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
