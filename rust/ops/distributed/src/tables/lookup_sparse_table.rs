//! Creating tables, reading and writing their rows.

use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, SparseKernel, OP};
use oar_core::tensor::{SelectedRows, Tensor};
use oar_core::{attrs, bail, ensure, slots};
use oar_ops_common::selected_rows::merged;
use oar_ps::tables::{install, table};

attrs! {
    pub struct InitAttrs { large_scale_metas: Vec<String> }
    pub struct ReadAttrs { tablename: String, value_names: Vec<String>, init: bool = false }
    pub struct WriteAttrs { tablename: String, value_names: Vec<String> }
    pub struct SplitAttrs { is_entry: bool, tablename: String }
}

slots! {
    mod read { IDS "Ids" => OUT "Out".duplicable().kernel_allocated() }
    mod write { IDS "Ids", IN "In".duplicable() => }
    mod grad_split { GRAD "Grad" => ROW "Row".kernel_allocated(), VALUE "Value".kernel_allocated() }
}

pub static INIT: Op = Op {
    name: "lookup_sparse_table_init",
    attrs: InitAttrs::FIELDS,
    cpu: Kernel::Host(|cx| install(&cx.attrs::<InitAttrs>().large_scale_metas)),
    ..OP
};

fn infer_read(cx: &mut ShapeContext) -> Result<()> {
    let n = cx.attrs::<ReadAttrs>().value_names.len();
    cx.set_outs(read::OUT, n)?;
    let ids = cx.dims(read::IDS)?;
    let rows = if ids.iter().any(|&d| d < 0) { -1 } else { ids.iter().product() };
    (0..n).for_each(|i| cx.set_nth(read::OUT, i, &[rows, -1], DType::F32));
    Ok(())
}

fn run_read(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<ReadAttrs>();
    let (t, ids) = (table(cx.op.name, &a.tablename)?, cx.input(read::IDS)?.to_i64s()?);
    let places = a.value_names.iter().map(|n| t.value(n)).collect::<Result<Vec<_>>>()?;
    let make = |&(_, dim): &(usize, usize)| Tensor::empty(DType::F32, &[ids.len() as i64, dim as i64]);
    let mut outs = places.iter().map(make).collect::<Result<Vec<_>>>()?;
    let mut data = outs.iter_mut().map(|o| o.data_mut::<f32>()).collect::<Result<Vec<_>>>()?;
    for (i, &id) in ids.iter().enumerate() {
        t.read(id, a.init, |row| {
            for (to, &(at, dim)) in data.iter_mut().zip(&places) {
                to[i * dim..(i + 1) * dim].copy_from_slice(&row[at..at + dim]);
            }
        })?;
        t.touch(id);
    }
    for (i, out) in outs.into_iter().enumerate() {
        cx.set_nth(read::OUT, i, out);
    }
    Ok(())
}

pub static READ: Op = Op {
    name: "lookup_sparse_table_read",
    inputs: read::INS,
    outputs: read::OUTS,
    attrs: ReadAttrs::FIELDS,
    dtypes: DTypes::INDICES,
    infer: infer_read,
    cpu: Kernel::Host(run_read),
    ..OP
};

fn run_write(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<WriteAttrs>();
    let (op, t, ids) = (cx.op.name, table(cx.op.name, &a.tablename)?, cx.input(write::IDS)?.to_i64s()?);
    let values = cx.inputs(write::IN)?;
    ensure!(
        values.len() == a.value_names.len(),
        InvalidArgument,
        "operator {op}: got {} variables for the value_names {:?}",
        values.len(),
        a.value_names
    );
    let places = a.value_names.iter().map(|n| t.value(n)).collect::<Result<Vec<_>>>()?;
    for (v, &(_, dim)) in values.iter().zip(&places) {
        ensure!(
            v.dtype() == DType::F32 && v.dims() == [ids.len() as i64, dim as i64],
            InvalidArgument,
            "operator {op}: expected {} rows of float32 [{dim}], got {} {:?}",
            ids.len(),
            v.dtype(),
            v.dims()
        );
    }
    for (i, &id) in ids.iter().enumerate() {
        t.write(id, |row| {
            for (v, &(at, dim)) in values.iter().zip(&places) {
                row[at..at + dim].copy_from_slice(&v.data::<f32>()[i * dim..(i + 1) * dim]);
            }
        })?;
    }
    Ok(())
}

pub static WRITE: Op = Op {
    name: "lookup_sparse_table_write",
    inputs: write::INS,
    attrs: WriteAttrs::FIELDS,
    dtypes: DTypes::INDICES,
    cpu: Kernel::Host(run_write),
    ..OP
};

fn infer_split(cx: &mut ShapeContext) -> Result<()> {
    let m = cx.meta(grad_split::GRAD, 0)?;
    let mut dims = m.dims.clone();
    if let Some(first) = dims.first_mut() {
        *first = -1;
    }
    cx.set(grad_split::ROW, &[-1, 1], DType::I64);
    cx.set(grad_split::VALUE, &dims, m.dtype);
    Ok(())
}

fn run_split(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<SplitAttrs>());
    let Some(grad) = cx.rows(grad_split::GRAD) else {
        bail!(InvalidArgument, "operator {op}: 'Grad' must be SelectedRows")
    };
    // A sparse table has no height.
    let grad = merged(op, &SelectedRows { height: i64::MAX, ..grad.clone() })?;
    let mut value = grad.value.clone();
    let width = value.numel() / grad.rows.len().max(1);
    if a.is_entry && width > 0 {
        // Rows that are not admitted are not trained.
        let t = table(op, &a.tablename)?;
        ensure!(value.dtype() == DType::F32, Unimplemented, "operator {op} takes float32, got {}", value.dtype());
        for (row, &id) in value.data_mut::<f32>()?.chunks_exact_mut(width).zip(grad.rows.iter()) {
            if !t.admits(id)? {
                row.fill(0.0);
            }
        }
    }
    cx.set(grad_split::ROW, Tensor::from_slice(&grad.rows, &[grad.rows.len() as i64, 1])?);
    cx.set(grad_split::VALUE, value);
    Ok(())
}

pub static GRAD_SPLIT: Op = Op {
    name: "lookup_sparse_table_grad_split",
    inputs: grad_split::INS,
    outputs: grad_split::OUTS,
    attrs: SplitAttrs::FIELDS,
    infer: infer_split,
    sparse_kernel: SparseKernel::Own(run_split),
    cpu: Kernel::Host(run_split),
    ..OP
};
