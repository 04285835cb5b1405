//! Operators of dynamic recurrent networks: sequences sorted by length (lod_rank_table), step t of all sequences of at
//! least t + 1 steps as one tensor (lod_tensor_to_array), the inverse, and memories of the sequences that continue
//! (shrink_rnn_memory).

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::infer::{grads_like_inputs, Meta, VarKind};
use oar_core::op::{Dst, Fwd, Grad, GradOp, InSlot, Kernel, KernelContext, NoAttrs, Op, ShapeContext, Src, OP};
use oar_core::tensor::{Lod, Tensor, Value};
use oar_core::{bail, ensure, slots};
use oar_kernels::ranking;
use oar_kernels::shape::copy::concatenate;
use std::ops::Range;
use std::sync::Arc;

attrs! {
    pub struct RankAttrs { level: i32 = 0 }
}

slots! {
    mod lod_rank_table { X "X" => OUT "Out".kernel_allocated() }
    mod max_sequence_len { TABLE "RankTable" => OUT "Out" }
    /// X or Out is a tensor array.
    mod by_table { X "X", TABLE "RankTable" => OUT "Out".kernel_allocated() }
    mod shrink { X "X", TABLE "RankTable", I "I" => OUT "Out".kernel_allocated() }
    mod shrink_grad { X "X".meta_only(), DOUT "Out@GRAD".dispensable() => DX "X@GRAD" }
}

/// The value of a LOD_RANK_TABLE variable: (number, length) of every sequence of a level in descending order of length,
/// and the levels above. Plain types, which the Python binding can read.
type RankTable = (Vec<(usize, usize)>, Lod);

fn table<'a>(cx: &KernelContext<'a>, slot: InSlot) -> Result<&'a RankTable> {
    match cx.value(slot)? {
        Value::Opaque(table) if table.is::<RankTable>() => Ok(table.downcast_ref().expect("checked above")),
        other => bail!(
            InvalidArgument,
            "operator {}: input 'RankTable' must be an output of lod_rank_table, got {}",
            cx.op.name,
            other.what()
        ),
    }
}

/// The rows that sequences `span` of a level cover, and the lengths in that level and the lower ones.
fn below(op: &str, lod: &[Vec<usize>], span: Range<usize>, rows: usize) -> Result<(Range<usize>, Lod)> {
    let mut span = span;
    let mut lengths = Lod::new();
    for level in lod {
        let Some(ends) = level.get(span.start..=span.end) else {
            bail!(InvalidArgument, "operator {op}: the LoD {lod:?} has no sequences {span:?}")
        };
        lengths.push(ends.windows(2).map(|w| w[1].saturating_sub(w[0])).collect());
        span = ends[0]..ends[ends.len() - 1];
    }
    ensure!(
        span.start <= span.end && span.end <= rows,
        InvalidArgument,
        "operator {op}: sequences reach to row {}, but there are {rows}",
        span.end
    );
    Ok((span, lengths))
}

/// Concatenated rows of tensors, and their lengths.
struct Gathered<'a> {
    like: &'a Tensor,
    parts: Vec<&'a [u8]>,
    lod: Lod,
}

impl<'a> Gathered<'a> {
    fn new(like: &'a Tensor) -> Gathered<'a> {
        Gathered { like, parts: Vec::new(), lod: Lod::new() }
    }

    fn row(&self) -> usize {
        self.like.dims().iter().skip(1).product::<i64>() as usize * self.like.dtype().size()
    }

    fn push(&mut self, op: &str, from: &'a Tensor, rows: Range<usize>, lengths: Lod) -> Result<()> {
        ensure!(
            self.parts.is_empty() && self.lod.is_empty() || self.lod.len() == lengths.len(),
            InvalidArgument,
            "operator {op}: some sequences have {} levels of LoD, others {}",
            self.lod.len(),
            lengths.len()
        );
        self.lod.resize(lengths.len(), vec![0]);
        for (level, lengths) in self.lod.iter_mut().zip(lengths) {
            for n in lengths {
                level.push(level[level.len() - 1] + n);
            }
        }
        let row = self.row();
        self.parts.push(&from.bytes()[rows.start * row..rows.end * row]);
        Ok(())
    }

    fn tensor(self) -> Result<Tensor> {
        let row = self.row();
        let bytes: usize = self.parts.iter().map(|p| p.len()).sum();
        let mut dims = Dims::from_slice(self.like.dims());
        dims[0] = bytes.checked_div(row).unwrap_or(0) as i64;
        let mut out = Tensor::empty(self.like.dtype(), &dims)?;
        concatenate(self.parts, out.bytes_mut()?);
        Ok(out.with_lod((!self.lod.is_empty()).then(|| Arc::new(self.lod))))
    }
}

fn with_rows<'a>(cx: &KernelContext<'a>, slot: InSlot) -> Result<(&'a Tensor, usize)> {
    let x = cx.input(slot)?;
    ensure!(x.rank() > 0, InvalidArgument, "operator {}: input 'X' must have a dimension", cx.op.name);
    Ok((x, x.dims()[0] as usize))
}

fn rank(cx: &mut KernelContext) -> Result<()> {
    let (x, level) = (cx.input(lod_rank_table::X)?, cx.attrs::<RankAttrs>().level);
    let lod = x.lod.as_deref().map_or(&[][..], |l| &l[..]);
    ensure!(
        level >= 0 && (level as usize) < lod.len(),
        InvalidArgument,
        "operator lod_rank_table: attribute 'level' must be from 0 and below {}, the levels of X's LoD, got {level}",
        lod.len()
    );
    let lengths = lod[level as usize].windows(2).map(|w| w[1].saturating_sub(w[0]));
    let mut items: Vec<(usize, usize)> = lengths.enumerate().collect();
    ranking::sort(&mut items, |a, b| b.1.cmp(&a.1));
    let table: RankTable = (items, lod[..level as usize].to_vec());
    cx.set(lod_rank_table::OUT, Value::Opaque(Arc::new(table)));
    Ok(())
}

pub static LOD_RANK_TABLE: Op = Op {
    name: "lod_rank_table",
    inputs: lod_rank_table::INS,
    outputs: lod_rank_table::OUTS,
    attrs: RankAttrs::FIELDS,
    infer: |cx| {
        cx.meta(lod_rank_table::X, 0)?;
        cx.set_meta(lod_rank_table::OUT, 0, Meta { kind: VarKind::Other, ..Meta::default() });
        Ok(())
    },
    cpu: Kernel::Pure(rank),
    ..OP
};

pub static MAX_SEQUENCE_LEN: Op = Op {
    name: "max_sequence_len",
    inputs: max_sequence_len::INS,
    outputs: max_sequence_len::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        cx.set(max_sequence_len::OUT, &[1], DType::I64);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let longest = table(cx, max_sequence_len::TABLE)?.0.first().map_or(0, |item| item.1);
        cx.out_data::<i64>(max_sequence_len::OUT)?[0] = longest as i64;
        Ok(())
    }),
    ..OP
};

// lod_tensor_to_array and array_to_lod_tensor: each is the gradient of the other.

/// The gradient operator maps `Out@GRAD` to `X@GRAD`.
fn inverse_grad(fwd: &Fwd) -> Result<Vec<GradOp>> {
    let op = match fwd.op.name {
        "lod_tensor_to_array" => &ARRAY_TO_LOD_TENSOR,
        _ => &LOD_TENSOR_TO_ARRAY,
    };
    Ok(vec![GradOp {
        op,
        attrs: (NoAttrs::FIELDS.shared)().clone(),
        ins: vec![vec![Src::GradOut(by_table::OUT.0, None)], vec![Src::In(by_table::TABLE.0, None)]],
        outs: vec![vec![Dst(by_table::X.0, None)]],
    }])
}

fn to_array(cx: &mut KernelContext) -> Result<()> {
    let op = cx.op.name;
    let (x, rows) = with_rows(cx, by_table::X)?;
    let (items, above) = table(cx, by_table::TABLE)?;
    let lod = x.lod.as_deref().map_or(&[][..], |l| &l[..]);
    ensure!(
        above.len() < lod.len(),
        InvalidArgument,
        "operator {op}: X must have at least {} levels of LoD, got {}",
        above.len() + 1,
        lod.len()
    );
    let (level, lower) = (&lod[above.len()], &lod[above.len() + 1..]);
    let steps = items.first().map_or(0, |item| item.1);
    let mut array = Vec::with_capacity(steps.min(rows + 1));
    for t in 0..steps {
        let mut step = Gathered::new(x);
        for &(number, _) in items.iter().take_while(|item| t < item.1) {
            let Some(&first) = level.get(number) else {
                bail!(InvalidArgument, "operator {op}: X has no sequence {number}, which the rank table names")
            };
            let (span, lengths) = below(op, lower, first + t..first + t + 1, rows)?;
            step.push(op, x, span, lengths)?;
        }
        array.push(Value::Dense(step.tensor()?));
    }
    cx.set(by_table::OUT, Value::Array(Arc::new(array)));
    Ok(())
}

fn infer_cut(cx: &mut ShapeContext) -> Result<()> {
    let m = cx.meta(by_table::X, 0)?;
    cx.set_meta(by_table::OUT, 0, Meta { kind: VarKind::Array, lod_level: (m.lod_level - 1).max(0), lod: None, ..m });
    Ok(())
}

pub static LOD_TENSOR_TO_ARRAY: Op = Op {
    name: "lod_tensor_to_array",
    inputs: by_table::INS,
    outputs: by_table::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: infer_cut,
    cpu: Kernel::Pure(to_array),
    grad: Grad::Fn(inverse_grad),
    ..OP
};

fn steps<'a>(cx: &KernelContext<'a>) -> Result<Vec<&'a Tensor>> {
    let Value::Array(items) = cx.value(by_table::X)? else {
        bail!(InvalidArgument, "operator {}: X must be a LoDTensorArray", cx.op.name)
    };
    let found = items.iter().map(Value::dense).collect::<Result<Vec<_>>>()?;
    ensure!(!found.is_empty(), PreconditionNotMet, "operator {}: the array is empty", cx.op.name);
    for t in &found {
        ensure!(
            t.rank() > 0 && t.dims()[1..] == found[0].dims()[1..] && t.dtype() == found[0].dtype(),
            InvalidArgument,
            "operator {}: the tensors of the array must be alike but for their first size, got {:?} and {t:?}",
            cx.op.name,
            found[0]
        );
    }
    Ok(found)
}

fn to_tensor(cx: &mut KernelContext) -> Result<()> {
    let op = cx.op.name;
    let (steps, (items, above)) = (steps(cx)?, table(cx, by_table::TABLE)?);
    let places = ranking::positions(items.len(), |a, b| items[a].0.cmp(&items[b].0));
    let mut out = Gathered::new(steps[0]);
    let mut level = vec![0];
    for at in places {
        let length = items[at].1;
        ensure!(
            length <= steps.len(),
            InvalidArgument,
            "operator {op}: the rank table has a sequence of {length} steps, the array only {}",
            steps.len()
        );
        level.push(level[level.len() - 1] + length);
        for step in &steps[..length] {
            let lod = step.lod.as_deref().map_or(&[][..], |l| &l[..]);
            let (span, lengths) = below(op, lod, at..at + 1, step.dims()[0] as usize)?;
            out.push(op, step, span, lengths)?;
        }
    }
    let mut out = out.tensor()?;
    let mut lod = above.clone();
    lod.push(level);
    lod.extend(out.lod.as_deref().into_iter().flatten().cloned());
    out.lod = Some(Arc::new(lod));
    cx.set(by_table::OUT, out);
    Ok(())
}

fn infer_join(cx: &mut ShapeContext) -> Result<()> {
    let mut m = cx.meta(by_table::X, 0)?;
    // While a Program is built the meta of an array is that of its tensors.
    if let Some(first) = m.dims.first_mut() {
        *first = -1;
    }
    cx.set_meta(by_table::OUT, 0, Meta { kind: VarKind::Dense, lod_level: m.lod_level + 1, lod: None, ..m });
    Ok(())
}

pub static ARRAY_TO_LOD_TENSOR: Op = Op {
    name: "array_to_lod_tensor",
    inputs: by_table::INS,
    outputs: by_table::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: infer_join,
    cpu: Kernel::Pure(to_tensor),
    grad: Grad::Fn(inverse_grad),
    ..OP
};

// reorder_lod_tensor_by_rank: sequences (rows, without LoD) in the table's order.

fn reordered(cx: &mut KernelContext, order: &[usize]) -> Result<()> {
    let op = cx.op.name;
    let (x, rows) = with_rows(cx, by_table::X)?;
    let lod = x.lod.as_deref().map_or(&[][..], |l| &l[..]);
    let count = lod.first().map_or(rows, |level| level.len().saturating_sub(1));
    let mut out = Gathered::new(x);
    for &number in order {
        ensure!(number < count, OutOfRange, "operator {op}: the rank table names sequence {number}, but X has {count}");
        let (span, lengths) = below(op, lod, number..number + 1, rows)?;
        out.push(op, x, span, lengths)?;
    }
    let out = out.tensor()?;
    ensure!(
        out.dims() == x.dims(),
        InvalidArgument,
        "operator {op}: X has {count} sequences, the rank table {}",
        order.len()
    );
    cx.set(by_table::OUT, out);
    Ok(())
}

fn reorder(cx: &mut KernelContext) -> Result<()> {
    let order: Vec<usize> = table(cx, by_table::TABLE)?.0.iter().map(|item| item.0).collect();
    reordered(cx, &order)
}

fn reorder_back(cx: &mut KernelContext) -> Result<()> {
    let items = &table(cx, by_table::TABLE)?.0;
    let order = ranking::positions(items.len(), |a, b| items[a].0.cmp(&items[b].0));
    reordered(cx, &order)
}

fn infer_reorder(cx: &mut ShapeContext) -> Result<()> {
    let m = cx.meta(by_table::X, 0)?;
    cx.set_meta(by_table::OUT, 0, Meta { lod: None, ..m });
    Ok(())
}

pub static REORDER_LOD_TENSOR_BY_RANK: Op = Op {
    name: "reorder_lod_tensor_by_rank",
    inputs: by_table::INS,
    outputs: by_table::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: infer_reorder,
    cpu: Kernel::Pure(reorder),
    grad: Grad::Map(&REORDER_LOD_TENSOR_BY_RANK_GRAD, &[("X", "Out@GRAD"), ("Out", "X@GRAD")]),
    ..OP
};

pub static REORDER_LOD_TENSOR_BY_RANK_GRAD: Op = Op {
    name: "reorder_lod_tensor_by_rank_grad",
    inputs: by_table::INS,
    outputs: by_table::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: infer_reorder,
    cpu: Kernel::Pure(reorder_back),
    ..OP
};

// shrink_rnn_memory: the memories of the sequences that have a step I.

fn shrink(cx: &mut KernelContext) -> Result<()> {
    let op = cx.op.name;
    let (x, rows) = with_rows(cx, shrink::X)?;
    let at = cx.input(shrink::I)?;
    ensure!(
        at.numel() == 1 && DTypes::INDICES.has(at.dtype()),
        InvalidArgument,
        "operator {op}: input 'I' must be one int64, got {at:?}"
    );
    let at = at.to_i64s()?[0];
    ensure!(at >= 0, OutOfRange, "operator {op}: the step must not be negative, got {at}");
    let count = table(cx, shrink::TABLE)?.0.iter().take_while(|item| item.1 as i64 > at).count();
    let lod = x.lod.as_deref().map_or(&[][..], |l| &l[..]);
    let lod = if lod.first().is_some_and(|level| level.len() > count) { lod } else { &[] };
    let (span, lengths) = below(op, lod, 0..count, rows)?;
    let mut out = Gathered::new(x);
    out.push(op, x, span, lengths)?;
    let out = out.tensor()?;
    cx.set(shrink::OUT, out);
    Ok(())
}

fn infer_shrink(cx: &mut ShapeContext) -> Result<()> {
    let mut m = cx.meta(shrink::X, 0)?;
    m.lod = None;
    cx.set_meta(shrink::OUT, 0, m);
    Ok(())
}

/// Gradient rows of ended sequences are zero.
fn grow(cx: &mut KernelContext) -> Result<()> {
    let (op, dout) = (cx.op.name, cx.opt(shrink_grad::DOUT));
    let dx = cx.out(shrink_grad::DX)?;
    let to = dx.bytes_mut()?;
    let given = dout.map_or(&[][..], |t| t.bytes());
    ensure!(
        given.len() <= to.len(),
        InvalidArgument,
        "operator {op}: the gradient of Out {dout:?} has more elements than X"
    );
    to[..given.len()].copy_from_slice(given);
    to[given.len()..].fill(0);
    Ok(())
}

pub static SHRINK_RNN_MEMORY: Op = Op {
    name: "shrink_rnn_memory",
    inputs: shrink::INS,
    outputs: shrink::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: infer_shrink,
    cpu: Kernel::Pure(shrink),
    grad: Grad::By(&SHRINK_RNN_MEMORY_GRAD),
    ..OP
};

pub static SHRINK_RNN_MEMORY_GRAD: Op = Op {
    name: "shrink_rnn_memory_grad",
    inputs: shrink_grad::INS,
    outputs: shrink_grad::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(grow),
    ..OP
};

pub static TABLE: &[&Op] = &[
    &LOD_RANK_TABLE,
    &MAX_SEQUENCE_LEN,
    &LOD_TENSOR_TO_ARRAY,
    &ARRAY_TO_LOD_TENSOR,
    &REORDER_LOD_TENSOR_BY_RANK,
    &REORDER_LOD_TENSOR_BY_RANK_GRAD,
    &SHRINK_RNN_MEMORY,
    &SHRINK_RNN_MEMORY_GRAD,
];
