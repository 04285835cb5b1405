//! fused_embedding_seq_pool: sums of embedding rows per sequence.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::VarKind;
use oar_core::op::{Grad, Kernel, KernelContext, Meta, Op, ShapeContext, OP};
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::sequence::embedding_pool::EmbeddingPool;
use oar_ops_common::index::index_of;
use std::borrow::Cow;
use std::sync::Arc;

attrs! {
    pub struct PoolAttrs {
        combiner: Text = "sum".into(), padding_idx: i64 = -1, grad_inplace: bool = false, is_sparse: bool = false,
    }
}

slots! {
    mod pool { W "W", IDS "Ids" => OUT "Out".kernel_allocated() }
    mod pool_grad { IDS "Ids", W "W".meta_only(), DOUT "Out@GRAD" => DW "W@GRAD".kernel_allocated() }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<PoolAttrs>());
    let (w, ids, dtype) = (cx.dims(pool::W)?, cx.meta(pool::IDS, 0)?, cx.dtype(pool::W)?);
    ensure!(w.len() == 2, InvalidArgument, "operator {op}: W must have 2 dimensions, got shape {:?}", &w[..]);
    ensure!(
        ids.dims.last() == Some(&1) || ids.dims.last() == Some(&-1),
        InvalidArgument,
        "operator {op}: the last dimension of Ids must be 1, got shape {:?}",
        &ids.dims[..]
    );
    ensure!(a.combiner == "sum", Unimplemented, "operator {op}: combiner must be 'sum', got '{}'", a.combiner);
    ensure!(
        ids.lod_level == 1,
        InvalidArgument,
        "operator {op}: Ids must have one level of LoD, which defines the sequences, got {}",
        ids.lod_level
    );
    let width = ids.dims[1..].iter().chain([&w[1]]).try_fold(1i64, |n, &d| (d >= 0).then(|| n.saturating_mul(d)));
    cx.set(pool::OUT, &[-1, width.unwrap_or(-1)], dtype);
    Ok(())
}

/// The ids, their number per row, and the sequence offsets.
struct Sequences<'a> {
    ids: Cow<'a, [i64]>,
    across: usize,
    offsets: &'a [usize],
}

impl<'a> Sequences<'a> {
    fn new(op: &str, t: &'a Tensor, height: i64, padding: i64) -> Result<Sequences<'a>> {
        let rows = t.dims().first().copied().unwrap_or(0) as usize;
        let offsets = match t.lod.as_deref() {
            Some(levels) if levels.len() == 1 => &levels[0][..],
            _ => &[],
        };
        ensure!(
            offsets.first() == Some(&0) && offsets.last() == Some(&rows) && offsets.is_sorted(),
            InvalidArgument,
            "operator {op}: Ids must have one level of LoD that ascends from 0 to its first size, got {t:?} with LoD {:?}",
            t.lod
        );
        let ids = index_of(op, t)?;
        if let Some(wrong) = ids.iter().find(|&&id| id != padding && !(0..height).contains(&id)) {
            oar_core::bail!(InvalidArgument, "operator {op}: ids must be in [0, {height}), got {wrong}");
        }
        Ok(Sequences { across: t.dims()[1..].iter().product::<i64>() as usize, ids, offsets })
    }

    fn count(&self) -> usize {
        self.offsets.len() - 1
    }

    fn pool(&self, padding: i64, width: usize) -> EmbeddingPool<'_> {
        EmbeddingPool { ids: &self.ids, across: self.across, offsets: self.offsets, padding, width }
    }
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let (op, padding, w) = (cx.op.name, cx.attrs::<PoolAttrs>().padding_idx, cx.input(pool::W)?);
    let s = Sequences::new(op, cx.input(pool::IDS)?, w.dims()[0], if padding == -1 { i64::MIN } else { padding })?;
    let width = w.dims()[1] as usize;
    let mut out = Tensor::zeros(w.dtype(), &[s.count() as i64, (s.across * width) as i64])?;
    dispatch!(w.dtype(), T in [f32, f64], {
        s.pool(padding, width).forward(w.data::<T>(), out.data_mut::<T>()?);
    }, other => return cx.unsupported(other));
    cx.set(pool::OUT, out);
    Ok(())
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    let (w, dtype) = (cx.meta(pool_grad::W, 0)?, cx.dtype(pool_grad::DOUT)?);
    ensure!(w.dims.len() == 2, InvalidArgument, "operator {}: W must have 2 dimensions, got {w:?}", cx.op.name);
    let kind = if cx.attrs::<PoolAttrs>().is_sparse { VarKind::Rows } else { VarKind::Dense };
    cx.set_meta(pool_grad::DW, 0, Meta { kind, dtype, lod: None, lod_level: 0, ..w });
    Ok(())
}

/// A dense gradient, or SelectedRows with a row for each id.
fn backward(cx: &mut KernelContext) -> Result<()> {
    let (op, a, w, d) = (cx.op.name, cx.attrs::<PoolAttrs>(), cx.input(pool_grad::W)?, cx.input(pool_grad::DOUT)?);
    let (height, width) = (w.dims()[0], w.dims()[1] as usize);
    let none = if a.padding_idx == -1 { i64::MIN } else { a.padding_idx };
    let s = Sequences::new(op, cx.input(pool_grad::IDS)?, height, none)?;
    ensure!(
        d.dtype() == w.dtype() && d.numel() == s.count() * s.across * width,
        InvalidArgument,
        "operator {op}: Out@GRAD must have {} sums of {} x {width} numbers of type {}, got {d:?}",
        s.count(),
        s.across,
        w.dtype()
    );
    let rows = if a.is_sparse { s.ids.len() as i64 } else { height };
    let mut dw = Tensor::zeros(d.dtype(), &[rows, width as i64])?;
    dispatch!(d.dtype(), T in [f32, f64], {
        s.pool(a.padding_idx, width).backward(d.data::<T>(), a.is_sparse, dw.data_mut::<T>()?);
    }, other => return cx.unsupported(other));
    if a.is_sparse {
        // Padding rows of zeros need a valid row number, too.
        let rows = s.ids.iter().map(|&id| id.clamp(0, (height - 1).max(0))).collect();
        cx.set(pool_grad::DW, Value::Rows(Box::new(SelectedRows { rows: Arc::new(rows), height, value: dw })));
    } else {
        cx.set(pool_grad::DW, dw);
    }
    Ok(())
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::of(&[DType::I64, DType::I32]));

pub static POOL: Op = Op {
    name: "fused_embedding_seq_pool",
    inputs: pool::INS,
    outputs: pool::OUTS,
    attrs: PoolAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(forward),
    grad: Grad::By(&POOL_GRAD),
    ..OP
};

pub static POOL_GRAD: Op = Op {
    name: "fused_embedding_seq_pool_grad",
    inputs: pool_grad::INS,
    outputs: pool_grad::OUTS,
    attrs: PoolAttrs::FIELDS,
    dtypes: FLOATS,
    infer: infer_grad,
    cpu: Kernel::Pure(backward),
    ..OP
};

pub static TABLE: &[&Op] = &[&POOL, &POOL_GRAD];
