//! lookup_sparse_table_merge: concatenates rows of several tables; sparse_tensor_load: loads some rows of a saved
//! tensor.

use oar_core::base::{DType, Result};
use oar_core::ir::tensor_file::read_lod_tensor_header;
use oar_core::op::infer::VarKind;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, SparseKernel, OP};
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{attrs, bail, ensure, err, slots};
use oar_ps::merge::concat_rows;
use std::fs::File;
use std::io::{BufReader, Read};

attrs! {
    pub struct LoadAttrs { file_path: String, node_index: i64 = 0, node_num: i64 = 0, shape: Vec<i64> = vec![] }
}

slots! {
    mod merge { X "X".duplicable() => OUT "Out".kernel_allocated() }
    mod load { => OUT "Out".kernel_allocated() }
}

fn run_merge(cx: &mut KernelContext) -> Result<()> {
    let op = cx.op.name;
    let mut all: Vec<SelectedRows> = Vec::new();
    for value in cx.values(merge::X) {
        match value {
            Value::Rows(r) => all.push((**r).clone()),
            other => bail!(InvalidArgument, "operator {op}: 'X' must be SelectedRows, got {}", other.what()),
        }
    }
    let Some(first) = all.first() else { bail!(InvalidArgument, "operator {op}: 'X' needs at least one variable") };
    // As in Paddle, the height of the first counts twice.
    let height = all.iter().fold(first.height, |sum, r| sum.saturating_add(r.height));
    all.iter_mut().for_each(|r| r.height = height);
    cx.set(merge::OUT, Value::from(concat_rows(op, all)?));
    Ok(())
}

pub static MERGE: Op = Op {
    name: "lookup_sparse_table_merge",
    inputs: merge::INS,
    outputs: merge::OUTS,
    infer: |cx: &mut ShapeContext| {
        let mut m = cx.meta(merge::X, 0)?;
        m.kind = VarKind::Rows;
        if let Some(rows) = m.dims.first_mut() {
            *rows = -1;
        }
        cx.set_meta(merge::OUT, 0, m);
        Ok(())
    },
    sparse_kernel: SparseKernel::Own(run_merge),
    cpu: Kernel::Pure(run_merge),
    ..OP
};

/// Loads the rows of a file that belong to server `node_index`: every `node_num`th.
fn run_load(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<LoadAttrs>());
    ensure!(
        a.node_num >= 1 && (0..a.node_num).contains(&a.node_index),
        InvalidArgument,
        "operator {op}: node_num must be above 0 and node_index from 0 to below it, got {} and {}",
        a.node_num,
        a.node_index
    );
    let file = File::open(&a.file_path).map_err(|e| err!(Unavailable, "operator {op}: {}: {e}", a.file_path))?;
    let mut file = BufReader::new(file);
    let (header, _) = read_lod_tensor_header(&mut file)?;
    let (rows, width) = match header.dims[..] {
        [rows, ref rest @ ..] if rows >= 0 => (rows, rest.iter().product::<i64>() as usize * header.dtype.size()),
        _ => bail!(InvalidArgument, "operator {op}: {} holds no rows", a.file_path),
    };
    let mine = |row: i64| row % a.node_num == a.node_index;
    let mut dims = header.dims.clone();
    dims[0] = (rows - a.node_index + a.node_num - 1).max(0) / a.node_num;
    ensure!(
        a.shape.is_empty() || a.shape[..] == dims[..],
        InvalidArgument,
        "operator {op}: the rows of {} that belong to server {} have shape {:?}, expected {:?} (attribute shape)",
        a.file_path,
        a.node_index,
        &dims[..],
        a.shape
    );
    let there = file.get_ref().metadata().map_or(0, |m| m.len());
    ensure!(
        header.bytes as u64 <= there,
        InvalidArgument,
        "operator {op}: the header of {} announces {} bytes, the file has {there}",
        a.file_path,
        header.bytes
    );
    let mut out = Tensor::empty(header.dtype, &dims)?;
    if width > 0 {
        let mut skipped = vec![0; width];
        let mut places = out.bytes_mut()?.chunks_exact_mut(width);
        for row in 0..rows {
            let to = if mine(row) { places.next().unwrap_or_default() } else { &mut skipped[..] };
            file.read_exact(to).map_err(|e| err!(Unavailable, "operator {op}: {}: {e}", a.file_path))?;
        }
    }
    if header.dtype == DType::Bool {
        out.normalise_bools()?;
    }
    cx.set(load::OUT, out);
    Ok(())
}

pub static LOAD: Op = Op {
    name: "sparse_tensor_load",
    outputs: load::OUTS,
    attrs: LoadAttrs::FIELDS,
    infer: |cx: &mut ShapeContext| {
        let shape = cx.attrs::<LoadAttrs>().shape.clone();
        let dims = if shape.is_empty() { vec![-1] } else { shape };
        cx.set(load::OUT, &dims, DType::F32);
        Ok(())
    },
    cpu: Kernel::Host(run_load),
    ..OP
};
