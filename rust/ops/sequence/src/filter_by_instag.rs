//! filter_by_instag: the instances that have one of the given tags.

use super::levels;
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Meta, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{ensure, slots};
use oar_kernels::sequence::filter_by_instag::select;
use oar_kernels::sequence::rows;
use oar_ops_common::by_size;
use oar_ops_common::elements::{words, words_mut};
use oar_ops_common::fill::{full, Scalar};
use oar_ops_common::index::index_of;
use std::borrow::Cow;
use std::collections::HashSet;

attrs! { pub struct FilterAttrs { is_lod: bool, out_val_if_empty: i64 = 0 } }

slots! {
    mod filter {
        INS_ "Ins", TAGS "Ins_tag", WANTED "Filter_tag"
        => OUT "Out".kernel_allocated(), WEIGHT "LossWeight".kernel_allocated(), MAP "IndexMap".kernel_allocated()
    }
    mod filter_grad { MAP "IndexMap", INS_ "Ins", WEIGHT "LossWeight", DOUT "Out@GRAD" => DINS "Ins@GRAD" }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (cx.dims(filter::INS_)?, cx.dtype(filter::INS_)?);
    ensure!(
        // While sizes are unknown, extra dimensions are accepted, as in Paddle.
        x.len() == 2 || x.len() > 2 && x.contains(&-1),
        InvalidArgument,
        "operator {}: Ins must have 2 dimensions, got shape {:?}",
        cx.op.name,
        &x[..]
    );
    // A row of IndexMap: first row of Out, first row of Ins, number of rows.
    for (slot, width, dtype) in
        [(filter::OUT, x[1], dtype), (filter::WEIGHT, 1, DType::F32), (filter::MAP, 3, DType::I64)]
    {
        let dims = Dims::from_slice(&[-1, width]);
        cx.set_meta(slot, 0, Meta { dims, dtype, lod_level: 1, ..Meta::default() });
    }
    Ok(())
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<FilterAttrs>());
    let (x, tags) = (cx.input(filter::INS_)?, cx.input(filter::TAGS)?);
    let wanted: HashSet<i64> = index_of(op, cx.input(filter::WANTED)?)?.iter().copied().collect();
    let runs: Cow<[usize]> = match a.is_lod {
        true => Cow::Borrowed(levels::first(op, "Ins", x)?),
        false => Cow::Owned((0..=x.dims()[0] as usize).collect()),
    };
    let (of_tags, ids) = (levels::first(op, "Ins_tag", tags)?, index_of(op, tags)?);
    let across = ids.len().checked_div(tags.dims()[0] as usize).unwrap_or(0);
    ensure!(
        of_tags.len() <= runs.len(),
        InvalidArgument,
        "operator {op}: Ins_tag has tags of {} instances, of which Ins has only {}",
        of_tags.len() - 1,
        runs.len() - 1
    );
    let chosen = select(of_tags, &ids, across, &wanted, &runs);
    let empty = chosen.is_empty();
    let (map, ends) = match empty {
        // An empty result is one row with loss weight 0.
        true => (vec![[0, 1, 1]], vec![0, 1]),
        false => (
            chosen.iter().map(|r| [r.to as i64, r.from as i64, r.count as i64]).collect(),
            levels::offsets(chosen.iter().map(|r| r.count)),
        ),
    };
    let width = x.dims()[1];
    let rows = ends[ends.len() - 1] as i64;
    let mut out = Tensor::empty(x.dtype(), &[rows, width])?;
    if empty {
        out = match x.dtype() {
            DType::I32 | DType::I64 => full(
                x.dtype(),
                &[1, width],
                Scalar { float: a.out_val_if_empty as f64, int: Some(a.out_val_if_empty) },
            )?,
            other => full(other, &[1, width], Scalar::from(a.out_val_if_empty as f64))?,
        };
    } else {
        let width = width as usize;
        by_size!(x.dtype(), T, {
            rows::copy(chosen, width, words::<T>(x), words_mut::<T>(&mut out)?);
        });
    }
    let each = levels::one((0..=map.len()).collect());
    let weights = vec![if empty { 0f32 } else { 1.0 }; map.len()];
    cx.set(filter::OUT, out.with_lod(levels::one(ends)));
    cx.set(filter::WEIGHT, Tensor::from_slice(&weights, &[map.len() as i64, 1])?.with_lod(each.clone()));
    cx.set(filter::MAP, Tensor::from_slice(&map.concat(), &[map.len() as i64, 3])?.with_lod(each));
    Ok(())
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    cx.like(filter_grad::DINS, filter_grad::INS_)?;
    cx.share_lod(filter_grad::DINS, filter_grad::INS_);
    Ok(())
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    let op = cx.op.name;
    let (x, map, weight, d) = (
        cx.input(filter_grad::INS_)?,
        cx.input(filter_grad::MAP)?,
        cx.input(filter_grad::WEIGHT)?,
        cx.input(filter_grad::DOUT)?,
    );
    let fits = x.rank() == 2 && d.rank() == 2 && d.dims()[1] == x.dims()[1] && d.dtype() == x.dtype();
    ensure!(fits, InvalidArgument, "operator {op}: Out@GRAD must have rows like Ins {x:?}, got {d:?}");
    ensure!(
        map.rank() == 2 && map.dims()[1] == 3 && map.dtype() == DType::I64 && weight.dtype() == DType::F32,
        InvalidArgument,
        "operator {op}: IndexMap must have shape [.., 3] and type int64, LossWeight float32, got {map:?} and {weight:?}"
    );
    let none = weight.numel() == 1 && weight.data::<f32>()[0] == 0.0;
    let (width, rows, made) = (x.dims()[1] as usize, x.dims()[0], d.dims()[0]);
    let dx = cx.out(filter_grad::DINS)?;
    dx.bytes_mut()?.fill(0);
    if none {
        return Ok(());
    }
    let run = |m: &[i64]| {
        let (from, to, count) = (m[0], m[1], m[2]);
        let within = |from: i64, size: i64| from >= 0 && count >= 0 && from <= size && count <= size - from;
        ensure!(
            within(from, made) && within(to, rows),
            InvalidArgument,
            "operator {op}: IndexMap must name rows of Out ({made}) and of Ins ({rows}), got {m:?}"
        );
        Ok(rows::Run { from: from as usize, to: to as usize, count: count as usize })
    };
    let runs = map.data::<i64>().chunks_exact(3).map(run).collect::<Result<Vec<_>>>()?;
    by_size!(d.dtype(), T, rows::copy(runs, width, words::<T>(d), words_mut::<T>(dx)?));
    Ok(())
}

const TYPES: DTypes = DTypes::FLOATS.union(DTypes::of(&[DType::I32, DType::I64]));

pub static FILTER: Op = Op {
    name: "filter_by_instag",
    inputs: filter::INS,
    outputs: filter::OUTS,
    attrs: FilterAttrs::FIELDS,
    dtypes: TYPES,
    infer,
    cpu: Kernel::Pure(forward),
    grad: Grad::By(&FILTER_GRAD),
    ..OP
};

pub static FILTER_GRAD: Op = Op {
    name: "filter_by_instag_grad",
    inputs: filter_grad::INS,
    outputs: filter_grad::OUTS,
    attrs: FilterAttrs::FIELDS,
    infer: infer_grad,
    cpu: Kernel::Pure(backward),
    ..OP
};

pub static TABLE: &[&Op] = &[&FILTER, &FILTER_GRAD];
