//! Embedding lookup, with dense and SelectedRows gradients.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::VarKind;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Meta, Op, ShapeContext, SparseKernel, OP};
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::shape::index as rows;
use oar_ops_common::by_size;
use oar_ops_common::elements::{reshaped, words, words_mut};
use oar_ops_common::index::{index_of, out_of_range};
use std::collections::HashMap;
use std::sync::Arc;

attrs! {
    pub struct LookupAttrs {
        is_sparse: bool = false, is_distributed: bool = false, padding_idx: i64 = -1, remote_prefetch: bool = false,
        entry_config: String = String::new(), is_test: bool = false, entry: Text = "none".into(),
        table_names: Vec<String> = vec![], trainer_id: i32 = 0, grad_inplace: bool = false,
        epmap: Vec<String> = vec![], height_sections: Vec<i64> = vec![],
    }
    pub struct LookupV2Attrs {
        is_sparse: bool = false, is_distributed: bool = false, padding_idx: i64 = -1, remote_prefetch: bool = false,
        trainer_id: i32 = 0, height_sections: Vec<i64> = vec![], epmap: Vec<String> = vec![],
        table_names: Vec<String> = vec![],
    }
}

/// The attributes of both versions that the kernels read.
struct Options {
    sparse: bool,
    padding: Option<i64>,
    /// Ids missing in the table yield zeros (SelectedRows tables only).
    lenient: bool,
    /// lookup_table (1.x): ids have shape [.., 1].
    first: bool,
}

fn options(attrs: &dyn std::any::Any) -> Options {
    let padding = |p: i64| (p != -1).then_some(p);
    match attrs.downcast_ref::<LookupV2Attrs>() {
        Some(a) => Options { sparse: a.is_sparse, padding: padding(a.padding_idx), lenient: false, first: false },
        None => {
            let a: &LookupAttrs = attrs.downcast_ref().expect("attributes of another operator");
            Options { sparse: a.is_sparse, padding: padding(a.padding_idx), lenient: a.is_test, first: true }
        }
    }
}

slots! {
    mod lookup { W "W", IDS "Ids" => OUT "Out" }
    mod lookup_grad { W "W".meta_only(), IDS "Ids", DOUT "Out@GRAD" => DW "W@GRAD" }
}

fn infer_lookup(cx: &mut ShapeContext) -> Result<()> {
    let (table, mut dims) = (cx.dims(lookup::W)?, cx.dims(lookup::IDS)?);
    let op = cx.op.name;
    ensure!(table.len() == 2, InvalidArgument, "operator {op}: W must have two dimensions, got shape {table:?}");
    if options(cx.attrs.as_any()).first {
        ensure!(
            dims.last() == Some(&1) || dims.last() == Some(&-1),
            InvalidArgument,
            "operator {op}: the last dimension of Ids must be 1, got shape {dims:?}"
        );
        dims.pop();
    }
    dims.push(table[1]);
    let dtype = cx.dtype(lookup::W)?;
    cx.set(lookup::OUT, &dims, dtype);
    cx.share_lod(lookup::OUT, lookup::IDS);
    Ok(())
}

fn gather(cx: &mut KernelContext) -> Result<()> {
    let padding = options(cx.attrs.as_any()).padding;
    let (table, ids) = (cx.input(lookup::W)?, index_of(cx.op.name, cx.input(lookup::IDS)?)?);
    gather_into(cx, table, &ids, padding)
}

/// Lookup in a SelectedRows table.
fn gather_from_rows(cx: &mut KernelContext) -> Result<()> {
    let o = options(cx.attrs.as_any());
    let ids = index_of(cx.op.name, cx.input(lookup::IDS)?)?;
    let table = table_of_rows(cx, lookup::W)?;
    let places = find_rows(cx.op.name, table, &ids, &o)?;
    gather_into(cx, &table.value, &places, Some(-1))
}

fn table_of_rows<'a>(cx: &KernelContext<'a>, slot: InSlot) -> Result<&'a SelectedRows> {
    match cx.value(slot)? {
        Value::Rows(r) => Ok(r),
        other => bail!(InvalidArgument, "operator {}: W cannot be {}", cx.op.name, other.what()),
    }
}

fn gather_into(cx: &mut KernelContext, table: &Tensor, ids: &[i64], padding: Option<i64>) -> Result<()> {
    let width = table.dims().get(1).map_or(0, |&w| w as usize);
    let op = cx.op.name;
    let out = cx.out(lookup::OUT)?;
    by_size!(table.dtype(), T, {
        rows::gather(words::<T>(table), width, ids, padding, words_mut::<T>(out)?).map_err(|e| out_of_range(op, e))?;
    });
    Ok(())
}

/// The position of each id's row in a SelectedRows table; -1 yields zeros.
fn find_rows(op: &str, table: &SelectedRows, ids: &[i64], o: &Options) -> Result<Vec<i64>> {
    let mut places = HashMap::with_capacity(table.rows.len());
    for (i, &row) in table.rows.iter().enumerate() {
        places.entry(row).or_insert(i as i64);
    }
    ids.iter()
        .map(|id| match places.get(id) {
            _ if Some(*id) == o.padding => Ok(-1),
            Some(&at) => Ok(at),
            None if o.lenient && *id >= 0 => Ok(-1),
            None => bail!(InvalidArgument, "operator {op}: the table has no row {id}"),
        })
        .collect()
}

/// The gradient of W: dense, or SelectedRows with a row per id.
fn infer_lookup_grad(cx: &mut ShapeContext) -> Result<()> {
    let w = cx.meta(lookup_grad::W, 0)?;
    let op = cx.op.name;
    ensure!(w.dims.len() == 2, InvalidArgument, "operator {op}: W must have two dimensions, got {:?}", &w.dims[..]);
    let kind = if options(cx.attrs.as_any()).sparse { VarKind::Rows } else { VarKind::Dense };
    let dtype = cx.dtype(lookup_grad::DOUT)?;
    cx.set_meta(lookup_grad::DW, 0, Meta { kind, dtype, lod: None, lod_level: 0, ..w });
    Ok(())
}

fn scatter(cx: &mut KernelContext) -> Result<()> {
    let dims = Dims::from_slice(cx.input(lookup_grad::W)?.dims());
    scatter_into(cx, &dims)
}

fn scatter_of_rows(cx: &mut KernelContext) -> Result<()> {
    let dims = Dims::from_slice(table_of_rows(cx, lookup_grad::W)?.value.dims());
    scatter_into(cx, &dims)
}

/// The dense gradient of a table of shape `table`.
fn scatter_into(cx: &mut KernelContext, table: &[i64]) -> Result<()> {
    let o = options(cx.attrs.as_any());
    let (ids, dout) = (cx.input(lookup_grad::IDS)?, cx.input(lookup_grad::DOUT)?);
    let &[height, width] = table else {
        bail!(InvalidArgument, "operator {}: W must have two dimensions, got {table:?}", cx.op.name)
    };
    let ids = index_of(cx.op.name, ids)?;
    ensure!(
        dout.numel() == ids.len() * width as usize,
        InvalidArgument,
        "operator {}: Out@GRAD of shape {:?} does not hold {} rows of {width}",
        cx.op.name,
        dout.dims(),
        ids.len()
    );
    if o.sparse {
        let value = reshaped(dout, &[ids.len() as i64, width])?;
        cx.set(lookup_grad::DW, SelectedRows { rows: Arc::new(ids.into_owned()), height, value });
        return Ok(());
    }
    let op = cx.op.name;
    let grad = cx.out(lookup_grad::DW)?;
    dispatch!(dout.dtype(), T in [f32, f64, f16, bf16], {
        rows::gather_grad(&ids[..], dout.data::<T>(), width as usize, o.padding, grad.data_mut::<T>()?)
            .map_err(|e| out_of_range(op, e))?;
    }, other => return cx.unsupported(other));
    Ok(())
}

macro_rules! lookups {
    ($op:ident $name:literal $grad:ident $grad_name:literal $attrs:ident) => {
        pub static $op: Op = Op {
            name: $name,
            inputs: lookup::INS,
            outputs: lookup::OUTS,
            attrs: $attrs::FIELDS,
            infer: infer_lookup,
            cpu: Kernel::Pure(gather),
            sparse_kernel: SparseKernel::Own(gather_from_rows),
            grad: Grad::By(&$grad),
            ..OP
        };
        pub static $grad: Op = Op {
            name: $grad_name,
            inputs: lookup_grad::INS,
            outputs: lookup_grad::OUTS,
            attrs: $attrs::FIELDS,
            dtypes: DTypes::FLOATS.union(DTypes::HALVES),
            infer: infer_lookup_grad,
            cpu: Kernel::Pure(scatter),
            sparse_kernel: SparseKernel::Own(scatter_of_rows),
            ..OP
        };
    };
}
lookups!(LOOKUP_TABLE "lookup_table" LOOKUP_TABLE_GRAD "lookup_table_grad" LookupAttrs);
lookups!(LOOKUP_TABLE_V2 "lookup_table_v2" LOOKUP_TABLE_V2_GRAD "lookup_table_v2_grad" LookupV2Attrs);

pub static TABLE: &[&Op] = &[&LOOKUP_TABLE, &LOOKUP_TABLE_GRAD, &LOOKUP_TABLE_V2, &LOOKUP_TABLE_V2_GRAD];
