//! bipartite_match, target_assign, mine_hard_examples: matching of prior boxes and objects.

use super::boxes::{set_rows, BoxFloat};
use oar_core::base::dtype::Element;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, bail, dispatch, ensure, err, slots};
use oar_kernels::detection::matching::{self as kernel, Mining, ObjectRows};
use oar_ops_common::{axis, levels};

attrs! {
    pub struct MatchAttrs { match_type: Text = "bipartite".into(), dist_threshold: f32 = 0.5 }
    pub struct AssignAttrs { mismatch_value: i32 = 0 }
    pub struct MineAttrs {
        neg_pos_ratio: f32 = 1.0, neg_dist_threshold: f32 = 0.5, sample_size: i32 = 0,
        mining_type: Text = "max_negative".into(),
    }
}

slots! {
    mod matches { DIST "DistMat" => INDICES "ColToRowMatchIndices".kernel_allocated(), FOUND "ColToRowMatchDist".kernel_allocated() }
    mod assign { X "X", MATCH "MatchIndices", NEGATIVE "NegIndices".dispensable() => OUT "Out", WEIGHT "OutWeight" }
    mod mine {
        CLASS "ClsLoss", PLACE "LocLoss".dispensable(), MATCH "MatchIndices", DIST "MatchDist"
        => NEGATIVE "NegIndices".kernel_allocated(), UPDATED "UpdatedMatchIndices"
    }
}

fn infer_match(cx: &mut ShapeContext) -> Result<()> {
    cx.shaped(matches::DIST, &[-1, -1])?;
    all_columns(cx.op.name, cx.attrs::<MatchAttrs>())?;
    let (columns, dtype) = (cx.dims(matches::DIST)?[1], cx.dtype(matches::DIST)?);
    cx.set(matches::INDICES, &[-1, columns], DType::I32);
    cx.set(matches::FOUND, &[-1, columns], dtype);
    Ok(())
}

/// Whether unmatched columns are matched with their best row (per_prediction).
fn all_columns(op: &str, a: &MatchAttrs) -> Result<bool> {
    Ok(match a.match_type.as_str() {
        "bipartite" => false,
        "per_prediction" => true,
        other => bail!(InvalidArgument, "operator {op}: match_type must be bipartite or per_prediction, got '{other}'"),
    })
}

fn match_all<T: BoxFloat>(cx: &mut KernelContext) -> Result<()> {
    let (x, op, a) = (cx.input(matches::DIST)?, cx.op.name, cx.attrs::<MatchAttrs>());
    let all = all_columns(op, a)?;
    let whole = [0, x.dims()[0] as usize];
    let level = if levels::count(x) == 0 { &whole[..] } else { levels::only(op, "DistMat", x)? };
    let (images, columns) = (level.len() - 1, x.dims()[1] as usize);
    let dims = [images as i64, columns as i64];
    let (mut rows, mut found) = (Tensor::empty(DType::I32, &dims)?, Tensor::zeros(T::DTYPE, &dims)?);
    let (row, dist) = (rows.data_mut::<i32>()?, found.data_mut::<T>()?);
    row.fill(-1);
    let threshold = all.then_some(a.dist_threshold);
    kernel::match_images(x.data::<T>(), level, columns, threshold, row, dist);
    cx.set(matches::INDICES, rows);
    cx.set(matches::FOUND, found);
    Ok(())
}

pub static BIPARTITE_MATCH: Op = Op {
    name: "bipartite_match",
    inputs: matches::INS,
    outputs: matches::OUTS,
    attrs: MatchAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_match,
    cpu: Kernel::Pure(|cx| {
        let dtype = cx.input(matches::DIST)?.dtype();
        dispatch!(dtype, T in [f32, f64], match_all::<T>(cx), other => cx.unsupported(other))
    }),
    ..OP
};

/// An int32 input of box indices.
fn indices<'a>(cx: &KernelContext<'a>, slot: InSlot) -> Result<&'a [i32]> {
    let t = cx.input(slot)?;
    axis::like(cx, t, t.dims(), DType::I32, cx.op.inputs[slot.0].name)?;
    Ok(t.data::<i32>())
}

fn infer_assign(cx: &mut ShapeContext) -> Result<()> {
    cx.shaped(assign::X, &[-1, -1, -1])?;
    cx.shaped(assign::MATCH, &[-1, -1])?;
    if cx.has(assign::NEGATIVE) {
        cx.shaped(assign::NEGATIVE, &[-1, 1])?;
    }
    let (m, width, dtype) = (cx.dims(assign::MATCH)?, cx.dims(assign::X)?[2], cx.dtype(assign::X)?);
    cx.set(assign::OUT, &[m[0], m[1], width], dtype);
    cx.set(assign::WEIGHT, &[m[0], m[1], 1], DType::F32);
    Ok(())
}

fn assign_targets<T: Element>(cx: &mut KernelContext, mismatch: T) -> Result<()> {
    let (x, op) = (cx.input(assign::X)?, cx.op.name);
    let level = levels::only(op, "X", x)?;
    let (matched, m) = (indices(cx, assign::MATCH)?, cx.input(assign::MATCH)?.dims());
    let (images, columns) = (m[0] as usize, m[1] as usize);
    let (period, width) = (x.dims()[1] as usize, x.dims()[2] as usize);
    ensure!(
        level.len() == images + 1,
        InvalidArgument,
        "operator {op}: MatchIndices must have a row for each of {} sequences of X, got {images}",
        level.len() - 1
    );
    // Negative boxes: (image, column).
    let mut negative = Vec::new();
    if let Some(t) = cx.opt(assign::NEGATIVE) {
        let (own, ids) = (levels::only(op, "NegIndices", t)?, indices(cx, assign::NEGATIVE)?);
        let fits = own.len() == images + 1 && ids.iter().all(|&i| i >= 0 && (i as usize) < columns);
        ensure!(
            fits,
            InvalidArgument,
            "operator {op}: NegIndices must have {images} sequences of columns in [0, {columns}), got {t:?}"
        );
        for i in 0..images {
            negative.extend(ids[own[i]..own[i + 1]].iter().map(|&id| i * columns + id as usize));
        }
    }
    let data = x.data::<T>();
    let mut out = cx.take_out(assign::OUT)?;
    let values = out.data_mut::<T>()?;
    let mut weight = Tensor::zeros(DType::F32, &[m[0], m[1], 1])?;
    let weights = weight.data_mut::<f32>()?;
    values.fill(mismatch);
    let rows = ObjectRows { data, level, period, width };
    kernel::assign(rows, matched, columns, values, weights).map_err(|k| {
        let image = k / columns;
        err!(
            InvalidArgument,
            "operator {op}: MatchIndices must be -1 or rows of their sequences of X, got {} for image {image} of {}",
            matched[k],
            level[image + 1] - level[image]
        )
    })?;
    kernel::assign_negative(&negative, width, mismatch, values, weights);
    cx.set(assign::OUT, out);
    cx.set(assign::WEIGHT, weight);
    Ok(())
}

pub static TARGET_ASSIGN: Op = Op {
    name: "target_assign",
    inputs: assign::INS,
    outputs: assign::OUTS,
    attrs: AssignAttrs::FIELDS,
    dtypes: DTypes::of(&[DType::I32, DType::F32]),
    infer: infer_assign,
    cpu: Kernel::Pure(|cx| {
        let (dtype, value) = (cx.input(assign::X)?.dtype(), cx.attrs::<AssignAttrs>().mismatch_value);
        dispatch!(dtype, T in [i32, f32], assign_targets::<T>(cx, value as T), other => cx.unsupported(other))
    }),
    ..OP
};

/// True (max_negative): mines unmatched boxes only. False (hard_example): mines all boxes, and matched boxes that are
/// not selected lose their match.
fn only_unmatched(op: &str, a: &MineAttrs) -> Result<bool> {
    Ok(match a.mining_type.as_str() {
        "max_negative" => true,
        "hard_example" => false,
        other => {
            bail!(InvalidArgument, "operator {op}: mining_type must be max_negative or hard_example, got '{other}'")
        }
    })
}

fn infer_mine(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<MineAttrs>());
    cx.shaped(mine::CLASS, &[-1, -1])?;
    let dims = cx.dims(mine::CLASS)?;
    for slot in [mine::MATCH, mine::DIST] {
        cx.shaped(slot, &[-1, -1])?;
        cx.shaped_in_run(slot, &dims)?;
    }
    if cx.has(mine::PLACE) {
        cx.shaped_in_run(mine::PLACE, &dims)?;
    }
    if only_unmatched(op, a)? {
        let (ratio, most) = (a.neg_pos_ratio, a.neg_dist_threshold);
        ensure!(
            ratio > 0.0 && most > 0.0 && most < 1.0,
            InvalidArgument,
            "operator {op}: neg_pos_ratio must be greater than 0 and neg_dist_threshold between 0 and 1, got {ratio}, {most}"
        );
    } else {
        ensure!(
            a.sample_size > 0,
            InvalidArgument,
            "operator {op}: sample_size must be greater than 0, got {}",
            a.sample_size
        );
    }
    let dims = cx.dims(mine::MATCH)?;
    cx.set(mine::UPDATED, &dims, DType::I32);
    set_rows(cx, mine::NEGATIVE, 1, DType::I32, 1);
    Ok(())
}

fn mine_examples<T: BoxFloat>(cx: &mut KernelContext) -> Result<()> {
    let (loss, op, a) = (cx.input(mine::CLASS)?, cx.op.name, cx.attrs::<MineAttrs>());
    let (unmatched, matched) = (only_unmatched(op, a)?, indices(cx, mine::MATCH)?);
    let dist = cx.input(mine::DIST)?;
    axis::like(cx, dist, loss.dims(), loss.dtype(), "MatchDist")?;
    let place = cx.opt(mine::PLACE).filter(|_| !unmatched);
    if let Some(t) = place {
        axis::like(cx, t, loss.dims(), loss.dtype(), "LocLoss")?;
    }
    let (images, columns) = (loss.dims()[0] as usize, loss.dims()[1] as usize);
    let (loss, dist, place) = (loss.data::<T>(), dist.data::<T>(), place.map(|t| t.data::<T>()));
    let mut updated = cx.take_out(mine::UPDATED)?;
    let to = updated.data_mut::<i32>()?;
    to.copy_from_slice(matched);
    let mining = match unmatched {
        true => Mining::MaxNegative { ratio: a.neg_pos_ratio, threshold: a.neg_dist_threshold },
        false => Mining::HardExample { count: a.sample_size as usize },
    };
    let (negative, mut level) = kernel::mine_images(mining, columns, (matched, dist), (loss, place), to);
    level.resize(images + 1, negative.len());
    cx.set(mine::UPDATED, updated);
    let negative = Tensor::from_slice(&negative, &[negative.len() as i64, 1])?;
    cx.set(mine::NEGATIVE, negative.with_lod(levels::one(level)));
    Ok(())
}

pub static MINE_HARD_EXAMPLES: Op = Op {
    name: "mine_hard_examples",
    inputs: mine::INS,
    outputs: mine::OUTS,
    attrs: MineAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_mine,
    cpu: Kernel::Pure(|cx| {
        let dtype = cx.input(mine::CLASS)?.dtype();
        dispatch!(dtype, T in [f32, f64], mine_examples::<T>(cx), other => cx.unsupported(other))
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&BIPARTITE_MATCH, &TARGET_ASSIGN, &MINE_HARD_EXAMPLES];
