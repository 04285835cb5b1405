//! distribute_fpn_proposals (assigns RoIs to feature pyramid levels by size) and collect_fpn_proposals (selects the
//! best RoIs of all levels).

use super::spans;
use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::detection::rois::fpn::{self, PyramidLevels, Region};
use oar_ops_common::levels;

attrs! {
    pub struct DistributeAttrs {
        min_level: i32, max_level: i32, refer_level: i32, refer_scale: i32, pixel_offset: bool = true,
    }
    pub struct CollectAttrs { post_nms_topN: i32 }
}

slots! {
    mod distribute {
        ROIS "FpnRois", COUNT "RoisNum".dispensable()
        => OUT "MultiFpnRois".duplicable().kernel_allocated(), RESTORE "RestoreIndex".kernel_allocated(),
        COUNTS "MultiLevelRoIsNum".duplicable().dispensable().kernel_allocated()
    }
    mod collect {
        ROIS "MultiLevelRois".duplicable(), SCORES "MultiLevelScores".duplicable(), COUNTS "MultiLevelRoIsNum".duplicable().dispensable()
        => OUT "FpnRois".kernel_allocated(), COUNT "RoisNum".dispensable().kernel_allocated()
    }
}

/// Fails unless the RoIs have 4 numbers each.
fn boxes(op: &str, name: &str, dims: &[i64]) -> Result<()> {
    ensure!(
        dims.len() == 2 && (dims[1] == 4 || dims[1] < 0),
        InvalidArgument,
        "operator {op}: input '{name}' must have shape [number of RoIs, 4], got {dims:?}"
    );
    Ok(())
}

fn table<T: Element>(rows: &[T], width: i64, ends: Vec<usize>) -> Result<Tensor> {
    let t = Tensor::from_slice(rows, &[rows.len() as i64 / width, width])?;
    Ok(t.with_lod(levels::one(ends)))
}

/// The differences of consecutive ends, as a tensor.
fn counts(ends: &[usize]) -> Result<Tensor> {
    let counts: Vec<i32> = levels::lengths(ends).map(|n| n as i32).collect();
    Tensor::from_slice(&counts, &[counts.len() as i64])
}

fn infer_distribute(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<DistributeAttrs>());
    ensure!(
        a.max_level >= a.min_level,
        InvalidArgument,
        "operator {op}: max_level {} must not be lower than min_level {}",
        a.max_level,
        a.min_level
    );
    let (dims, dtype) = (cx.dims(distribute::ROIS)?, cx.dtype(distribute::ROIS)?);
    boxes(op, "FpnRois", &dims)?;
    let levels = (a.max_level as i64 - a.min_level as i64 + 1) as usize;
    for slot in [distribute::OUT, distribute::COUNTS] {
        cx.set_outs(slot, levels)?;
    }
    for i in 0..levels {
        cx.set_nth(distribute::OUT, i, &[-1, 4], dtype);
        cx.set_nth(distribute::COUNTS, i, &[-1], DType::I32);
    }
    cx.set_levels(distribute::OUT, 1);
    cx.set(distribute::RESTORE, &[-1, 1], DType::I32);
    Ok(())
}

fn run_distribute(cx: &mut KernelContext) -> Result<()> {
    let (op, a, t) = (cx.op.name, cx.attrs::<DistributeAttrs>(), cx.input(distribute::ROIS)?);
    let images = spans(op, "FpnRois", t, cx.opt(distribute::COUNT))?;
    let pyramid = PyramidLevels {
        first: a.min_level,
        last: a.max_level,
        refer: a.refer_level,
        refer_scale: a.refer_scale,
        pixel_offset: a.pixel_offset,
    };
    let of_level = dispatch!(t.dtype(), T in [f32, f64], {
        let of_level = fpn::distribute(&pyramid, t.data::<T>(), &images);
        for (i, l) in of_level.iter().enumerate() {
            cx.set_nth(distribute::OUT, i, table(&fpn::gather(t.data::<T>(), &l.rows), 4, l.ends.clone())?);
        }
        of_level
    }, other => return cx.unsupported(other));
    for (i, l) in of_level.iter().enumerate() {
        if cx.wants_nth(distribute::COUNTS, i) {
            cx.set_nth(distribute::COUNTS, i, counts(&l.ends)?);
        }
    }
    let restore = fpn::restore(&of_level, t.dims()[0] as usize);
    cx.set(distribute::RESTORE, Tensor::from_slice(&restore, &[restore.len() as i64, 1])?);
    Ok(())
}

fn infer_collect(cx: &mut ShapeContext) -> Result<()> {
    let (op, most) = (cx.op.name, cx.attrs::<CollectAttrs>().post_nms_topN);
    let levels = cx.count(collect::ROIS);
    ensure!(most >= 0, InvalidArgument, "operator {op}: post_nms_topN must not be negative, got {most}");
    let counted = cx.count(collect::COUNTS);
    ensure!(
        levels > 0 && levels == cx.count(collect::SCORES) && (counted == 0 || counted == levels),
        InvalidArgument,
        "operator {op}: as many MultiLevelScores (and MultiLevelRoIsNum, if given) as MultiLevelRois are needed, got {}, \
         {counted} and {levels}",
        cx.count(collect::SCORES)
    );
    for i in 0..levels {
        boxes(op, "MultiLevelRois", &cx.meta(collect::ROIS, i)?.dims)?;
        let scores = cx.meta(collect::SCORES, i)?.dims;
        ensure!(
            scores.len() == 2 && (scores[1] == 1 || scores[1] < 0),
            InvalidArgument,
            "operator {op}: input 'MultiLevelScores' must have shape [number of RoIs, 1], got {:?}",
            &scores[..]
        );
    }
    let dtype = cx.meta(collect::ROIS, 0)?.dtype;
    cx.set(collect::OUT, &[-1, 4], dtype);
    cx.set_levels(collect::OUT, 1);
    cx.set(collect::COUNT, &[-1], DType::I32);
    Ok(())
}

fn same(cx: &KernelContext, slot: InSlot, t: &Tensor, dtype: DType, rows: i64) -> Result<()> {
    ensure!(
        t.dtype() == dtype && t.dims()[0] == rows,
        InvalidArgument,
        "operator {}: input '{}' must be {dtype} with {rows} rows as the regions of its level, got {t:?}",
        cx.op.name,
        cx.op.inputs[slot.0].name
    );
    Ok(())
}

fn run_collect(cx: &mut KernelContext) -> Result<()> {
    let (op, most) = (cx.op.name, cx.attrs::<CollectAttrs>().post_nms_topN as usize);
    let (rois, scores) = (cx.inputs(collect::ROIS)?, cx.inputs(collect::SCORES)?);
    let counted = cx.inputs(collect::COUNTS)?;
    let dtype = rois[0].dtype();
    let mut images = 0;
    dispatch!(dtype, T in [f32, f64], {
        let mut all: Vec<Region<T>> = Vec::new();
        for (level, (&t, &s)) in rois.iter().zip(&scores).enumerate() {
            same(cx, collect::ROIS, t, dtype, t.dims()[0])?;
            same(cx, collect::SCORES, s, dtype, t.dims()[0])?;
            let of_level = spans(op, "MultiLevelRois", t, counted.get(level).copied())?;
            ensure!(
                (level == 0 || of_level.len() == images) && (!counted.is_empty() || s.lod == t.lod),
                InvalidArgument,
                "operator {op}: the regions and scores of all levels must be of the same images, got {} and {images}",
                of_level.len()
            );
            images = of_level.len();
            fpn::add_level(&mut all, level, s.data::<T>(), of_level);
        }
        let ends = fpn::collect(&mut all, most, images);
        let selected: Vec<T> =
            all.iter().flat_map(|r| rois[r.level].data::<T>()[r.row * 4..][..4].iter().copied()).collect();
        if cx.wants(collect::COUNT) {
            cx.set(collect::COUNT, counts(&ends)?);
        }
        cx.set(collect::OUT, table(&selected, 4, ends)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static DISTRIBUTE: Op = Op {
    name: "distribute_fpn_proposals",
    inputs: distribute::INS,
    outputs: distribute::OUTS,
    attrs: DistributeAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_distribute,
    cpu: Kernel::Pure(run_distribute),
    ..OP
};

pub static COLLECT: Op = Op {
    name: "collect_fpn_proposals",
    inputs: collect::INS,
    outputs: collect::OUTS,
    attrs: CollectAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_collect,
    cpu: Kernel::Pure(run_collect),
    ..OP
};

pub static TABLE: &[&Op] = &[&DISTRIBUTE, &COLLECT];
