//! split_ids distributes ids (or rows) to servers by remainder; merge_ids restores the order of the ids in the results.

use oar_core::base::{DType, DTypes, Result};
use oar_core::op::infer::VarKind;
use oar_core::op::{Kernel, KernelContext, NoAttrs, Op, ShapeContext, SparseKernel, OP};
use oar_core::tensor::{SelectedRows, Tensor};
use oar_core::{bail, ensure, slots};
use oar_ps::parts::take_rows;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

slots! {
    mod split_ids { IDS "Ids".duplicable() => OUT "Out".duplicable().kernel_allocated() }
    mod merge_ids { IDS "Ids".duplicable(), ROWS "Rows".duplicable(), X "X".duplicable() => OUT "Out".duplicable().kernel_allocated() }
}

fn infer_split_ids(cx: &mut ShapeContext) -> Result<()> {
    ensure!(
        cx.count(split_ids::IDS) > 0,
        InvalidArgument,
        "operator {}: 'Ids' needs at least one variable",
        cx.op.name
    );
    let mut m = cx.meta(split_ids::IDS, 0)?;
    if m.kind != VarKind::Rows {
        ensure!(
            m.dims.len() == 2,
            InvalidArgument,
            "operator {}: 'Ids' must have shape [n, 1], got {:?}",
            cx.op.name,
            &m.dims[..]
        );
        (m.dims[0], m.dims[1]) = (-1, 1);
    }
    m.lod = None;
    for i in 0..cx.outs(split_ids::OUT) {
        cx.set_meta(split_ids::OUT, i, m.clone());
    }
    Ok(())
}

/// The server of an id among `n`: Paddle's unsigned remainder.
fn server_of(id: i64, n: usize) -> usize {
    (id as u64 % n as u64) as usize
}

/// Distinct ids in ascending order, by server.
fn split_ids(cx: &mut KernelContext) -> Result<()> {
    let (op, n) = (cx.op.name, cx.n_outs(split_ids::OUT));
    ensure!(n > 0, InvalidArgument, "operator {op} needs an output for each server");
    let mut ids = BTreeSet::new();
    let all = cx.inputs(split_ids::IDS)?;
    let dtype = all[0].dtype();
    for t in all {
        ensure!(t.dtype() == dtype, InvalidArgument, "operator {op}: 'Ids' are {dtype} and {}", t.dtype());
        ids.extend(t.to_i64s()?);
    }
    let mut by_server: Vec<Vec<i64>> = vec![Vec::new(); n];
    ids.into_iter().for_each(|id| by_server[server_of(id, n)].push(id));
    for (i, list) in by_server.into_iter().enumerate() {
        let dims = [list.len() as i64, 1];
        let part = match dtype {
            DType::I64 => Tensor::from_slice(&list, &dims)?,
            _ => Tensor::from_slice(&list.iter().map(|&id| id as i32).collect::<Vec<_>>(), &dims)?,
        };
        cx.set_nth(split_ids::OUT, i, part);
    }
    Ok(())
}

/// The rows of a gradient by server; order is kept.
fn split_rows(cx: &mut KernelContext) -> Result<()> {
    let (op, n) = (cx.op.name, cx.n_outs(split_ids::OUT));
    let (Some(x), 1) = (cx.rows(split_ids::IDS), cx.values(split_ids::IDS).len()) else {
        bail!(InvalidArgument, "operator {op}: 'Ids' must be LoDTensors or one SelectedRows")
    };
    ensure!(n > 0, InvalidArgument, "operator {op} needs an output for each server");
    ensure!(
        x.value.dims().first() == Some(&(x.rows.len() as i64)),
        InvalidArgument,
        "operator {op}: 'Ids' name {} rows but hold {:?}",
        x.rows.len(),
        x.value.dims()
    );
    let mut places: Vec<Vec<usize>> = vec![Vec::new(); n];
    x.rows.iter().enumerate().for_each(|(at, &row)| places[server_of(row, n)].push(at));
    for (i, list) in places.iter().enumerate() {
        let rows: Vec<i64> = list.iter().map(|&at| x.rows[at]).collect();
        let value = take_rows(&x.value, list)?;
        cx.set_nth(split_ids::OUT, i, SelectedRows { rows: Arc::new(rows), height: x.height, value });
    }
    Ok(())
}

pub static SPLIT_IDS: Op = Op {
    name: "split_ids",
    inputs: split_ids::INS,
    outputs: split_ids::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::INDICES),
    infer: infer_split_ids,
    cpu: Kernel::Pure(split_ids),
    sparse_kernel: SparseKernel::Own(split_rows),
    ..OP
};

fn infer_merge_ids(cx: &mut ShapeContext) -> Result<()> {
    let op = cx.op.name;
    ensure!(cx.count(merge_ids::IDS) > 0, InvalidArgument, "operator {op}: 'Ids' needs at least one variable");
    ensure!(
        cx.count(merge_ids::ROWS) == cx.count(merge_ids::X),
        InvalidArgument,
        "operator {op}: expected as many 'Rows' as 'X', got {} and {}",
        cx.count(merge_ids::ROWS),
        cx.count(merge_ids::X)
    );
    let x = cx.meta(merge_ids::X, 0)?;
    ensure!(x.dims.len() == 2, InvalidArgument, "operator {op}: 'X' must have two dimensions, got {:?}", &x.dims[..]);
    let n = cx.count(merge_ids::IDS);
    cx.set_outs(merge_ids::OUT, n)?;
    for i in 0..n {
        let ids = cx.meta(merge_ids::IDS, i)?;
        let rows = ids.dims.first().copied().unwrap_or(-1);
        cx.set_nth(merge_ids::OUT, i, &[rows, x.dims[1]], x.dtype);
    }
    Ok(())
}

fn merge_ids(cx: &mut KernelContext) -> Result<()> {
    let op = cx.op.name;
    let (ids, rows, xs) = (cx.inputs(merge_ids::IDS)?, cx.inputs(merge_ids::ROWS)?, cx.inputs(merge_ids::X)?);
    let (dtype, width) = (xs[0].dtype(), xs[0].dims()[1]);
    let mut found: HashMap<i64, &[u8]> = HashMap::new();
    for (r, x) in rows.iter().zip(&xs) {
        let keys = r.to_i64s()?;
        ensure!(
            x.rank() == 2 && x.dims()[1] == width && x.dtype() == dtype && x.dims()[0] as usize == keys.len(),
            InvalidArgument,
            "operator {op}: an 'X' of {} {:?} does not hold {} rows of {dtype} [{width}]",
            x.dtype(),
            x.dims(),
            keys.len()
        );
        let bytes = x.nbytes() / keys.len().max(1);
        for (i, key) in keys.into_iter().enumerate() {
            let before = found.insert(key, &x.bytes()[i * bytes..(i + 1) * bytes]);
            ensure!(before.is_none(), InvalidArgument, "operator {op}: 'Rows' name the id {key} twice");
        }
    }
    for (i, t) in ids.iter().enumerate() {
        let keys = t.to_i64s()?;
        let mut out = Tensor::empty(dtype, &[keys.len() as i64, width])?;
        let bytes = out.nbytes() / keys.len().max(1);
        if bytes > 0 {
            for (row, key) in out.bytes_mut()?.chunks_exact_mut(bytes).zip(&keys) {
                let Some(from) = found.get(key) else {
                    bail!(NotFound, "operator {op}: the id {key} of 'Ids' is not in any of 'Rows'")
                };
                row.copy_from_slice(from);
            }
        }
        cx.set_nth(merge_ids::OUT, i, out.with_lod(t.lod.clone()));
    }
    Ok(())
}

pub static MERGE_IDS: Op = Op {
    name: "merge_ids",
    inputs: merge_ids::INS,
    outputs: merge_ids::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::INDICES,
    infer: infer_merge_ids,
    cpu: Kernel::Pure(merge_ids),
    ..OP
};
