//! split_lod_tensor and merge_lod_tensor: rows of a tensor divided by a mask and merged again, for the branches of
//! `IfElse`.

use oar_core::attrs;
use oar_core::base::{DType, Dims, Result};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::{Lod, Tensor};
use oar_core::{ensure, slots};
use oar_kernels::shape::copy::concatenate;
use std::ops::Range;
use std::sync::Arc;

attrs! {
    pub struct LevelAttrs { level: i32 = 0 }
}

slots! {
    // The number of rows depends on the mask's values.
    mod split_rows { X "X", MASK "Mask" => TRUE "OutTrue".kernel_allocated(), FALSE "OutFalse".kernel_allocated() }
    mod merge_rows { X "X", MASK "Mask", TRUE "InTrue", FALSE "InFalse" => OUT "Out".kernel_allocated() }
}

fn mask<'a>(cx: &KernelContext<'a>, slot: InSlot) -> Result<&'a [bool]> {
    let t = cx.input(slot)?;
    ensure!(
        t.dtype() == DType::Bool && t.numel() as i64 == t.dims().first().copied().unwrap_or(1),
        InvalidArgument,
        "operator {}: Mask must be a column of bool, got {t:?}",
        cx.op.name
    );
    Ok(t.data::<bool>())
}

/// The rows of sequence `i` of a level (row `i` without LoD), and the lengths in the lower levels.
fn sequence(t: &Tensor, level: usize, i: usize) -> Option<(Range<usize>, Vec<Vec<usize>>)> {
    let mut rows = i..i + 1;
    let mut lengths = Vec::new();
    for offsets in t.lod.as_deref().into_iter().flatten().skip(level) {
        let of = offsets.get(rows.start..=rows.end)?;
        lengths.push(of.windows(2).map(|w| w[1].saturating_sub(w[0])).collect());
        rows = of[0]..of[of.len() - 1];
    }
    (rows.start <= rows.end && rows.end <= *t.dims().first()? as usize).then_some((rows, lengths))
}

/// Concatenated sequences of tensors.
struct ConcatenatedRows {
    parts: Vec<(Tensor, Range<usize>)>,
    lod: Lod,
}

impl ConcatenatedRows {
    fn new() -> ConcatenatedRows {
        ConcatenatedRows { parts: Vec::new(), lod: Vec::new() }
    }

    fn push(&mut self, cx: &KernelContext, t: &Tensor, level: usize, i: usize) -> Result<()> {
        let found = sequence(t, level, i);
        ensure!(
            found.is_some(),
            OutOfRange,
            "operator {}: Mask has row or sequence {i}, but the tensor has fewer: {t:?}",
            cx.op.name
        );
        let Some((rows, lengths)) = found else { return Ok(()) };
        for (k, list) in lengths.into_iter().enumerate() {
            if self.lod.len() == k {
                self.lod.push(vec![0]);
            }
            for n in list {
                let end = self.lod[k].last().copied().unwrap_or(0) + n;
                self.lod[k].push(end);
            }
        }
        self.parts.push((t.clone(), rows));
        Ok(())
    }

    /// The tensor; `like` has its data type and its sizes after the first.
    fn finish(self, like: &Tensor) -> Result<Tensor> {
        let rows: usize = self.parts.iter().map(|(_, r)| r.len()).sum();
        let mut dims = Dims::from_slice(like.dims());
        dims[0] = rows as i64;
        let mut out = Tensor::empty(like.dtype(), &dims)?;
        let row = dims[1..].iter().product::<i64>() as usize;
        let size = row * like.dtype().size();
        let parts = self.parts.iter().map(|(t, rows)| &t.bytes()[rows.start * size..rows.end * size]);
        concatenate(parts, out.bytes_mut()?);
        let lod = (!self.lod.is_empty()).then(|| Arc::new(self.lod));
        Ok(out.with_lod(lod))
    }
}

fn level(cx: &KernelContext) -> Result<usize> {
    let level = cx.attrs::<LevelAttrs>().level;
    ensure!(level >= 0, InvalidArgument, "operator {}: attribute 'level' must not be negative", cx.op.name);
    Ok(level as usize)
}

fn split(cx: &mut KernelContext) -> Result<()> {
    let (x, mask, level) = (cx.input(split_rows::X)?, mask(cx, split_rows::MASK)?, level(cx)?);
    ensure!(x.rank() > 0, InvalidArgument, "operator {}: X must have at least one dimension", cx.op.name);
    let mut outs = [ConcatenatedRows::new(), ConcatenatedRows::new()];
    for (i, &m) in mask.iter().enumerate() {
        outs[!m as usize].push(cx, x, level, i)?;
    }
    for (slot, out) in [split_rows::TRUE, split_rows::FALSE].into_iter().zip(outs) {
        if cx.wants(slot) {
            cx.set(slot, out.finish(x)?);
        }
    }
    Ok(())
}

fn merge(cx: &mut KernelContext) -> Result<()> {
    let (mask, level) = (mask(cx, merge_rows::MASK)?, level(cx)?);
    // A branch without rows was not executed.
    let (yes, no) = match (cx.opt(merge_rows::TRUE), cx.opt(merge_rows::FALSE)) {
        (Some(yes), no) => (yes, no.unwrap_or(yes)),
        (None, Some(no)) => (no, no),
        (None, None) => (cx.input(merge_rows::TRUE)?, cx.input(merge_rows::FALSE)?),
    };
    ensure!(
        yes.rank() > 0 && yes.rank() == no.rank() && yes.dims()[1..] == no.dims()[1..] && yes.dtype() == no.dtype(),
        InvalidArgument,
        "operator {}: the rows of InTrue {yes:?} and InFalse {no:?} must be alike",
        cx.op.name
    );
    let mut out = ConcatenatedRows::new();
    let mut next = [0, 0];
    for &m in mask {
        let from = if m { yes } else { no };
        out.push(cx, from, level, next[m as usize])?;
        next[m as usize] += 1;
    }
    cx.set(merge_rows::OUT, out.finish(yes)?);
    Ok(())
}

/// The output has the input's meta with an unknown number of rows.
fn rows_of(cx: &mut ShapeContext, out: OutSlot, input: InSlot) -> Result<()> {
    let (mut dims, dtype) = (cx.dims(input)?, cx.dtype(input)?);
    if let Some(first) = dims.first_mut() {
        *first = -1;
    }
    cx.set(out, &dims, dtype);
    cx.share_lod(out, input);
    Ok(())
}

fn infer_split(cx: &mut ShapeContext) -> Result<()> {
    let m = cx.dims(split_rows::MASK)?;
    ensure!(
        m.len() == 2 && (m[1] == 1 || m[1] < 0),
        InvalidArgument,
        "operator {}: Mask (the condition of IfElse) must have shape [N, 1], got {m:?}",
        cx.op.name
    );
    rows_of(cx, split_rows::TRUE, split_rows::X)?;
    rows_of(cx, split_rows::FALSE, split_rows::X)
}

fn infer_merge(cx: &mut ShapeContext) -> Result<()> {
    // A branch without rows was not executed.
    let ran = if cx.has(merge_rows::TRUE) || !cx.has(merge_rows::FALSE) { merge_rows::TRUE } else { merge_rows::FALSE };
    rows_of(cx, merge_rows::OUT, ran)
}

pub static SPLIT_LOD_TENSOR: Op = Op {
    name: "split_lod_tensor",
    inputs: split_rows::INS,
    outputs: split_rows::OUTS,
    attrs: LevelAttrs::FIELDS,
    infer: infer_split,
    cpu: Kernel::Pure(split),
    grad: Grad::Map(&MERGE_LOD_TENSOR, &[("InTrue", "OutTrue@GRAD"), ("InFalse", "OutFalse@GRAD"), ("Out", "X@GRAD")]),
    ..OP
};
pub static MERGE_LOD_TENSOR: Op = Op {
    name: "merge_lod_tensor",
    inputs: merge_rows::INS,
    outputs: merge_rows::OUTS,
    attrs: LevelAttrs::FIELDS,
    infer: infer_merge,
    cpu: Kernel::Pure(merge),
    grad: Grad::Map(&SPLIT_LOD_TENSOR, &[("X", "Out@GRAD"), ("OutTrue", "InTrue@GRAD"), ("OutFalse", "InFalse@GRAD")]),
    ..OP
};

/// The variant of inference Programs, without gradient.
pub static MERGE_LOD_TENSOR_INFER: Op = Op {
    name: "merge_lod_tensor_infer",
    inputs: merge_rows::INS,
    outputs: merge_rows::OUTS,
    attrs: LevelAttrs::FIELDS,
    infer: infer_merge,
    cpu: Kernel::Pure(merge),
    ..OP
};

pub static TABLE: &[&Op] = &[&SPLIT_LOD_TENSOR, &MERGE_LOD_TENSOR, &MERGE_LOD_TENSOR_INFER];
