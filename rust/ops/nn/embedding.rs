//! Embedding lookup, with dense and SelectedRows gradients.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::{Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::VarKind;
use oar_core::op::parts::elements::{reshaped, words, words_mut};
use oar_core::op::parts::index::{index_of, out_of_range};
use oar_core::op::{slot, Grad, Infer, Kernel, Meta, Op, Run, OP};
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{bail, by_size, dispatch, ensure};
use oar_kernels::index as rows;
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

/// What the kernels read of either version's attributes.
struct Options {
    sparse: bool,
    padding: Option<i64>,
    /// Ids that the table lacks give zeros (SelectedRows tables only).
    lenient: bool,
    /// The first version wants ids of shape [.., 1].
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

fn infer_lookup(cx: &mut Infer) -> Result<()> {
    let (table, mut dims) = (cx.dims(0)?, cx.dims(1)?);
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
    let dtype = cx.dtype(0)?;
    cx.set(0, &dims, dtype);
    cx.share_lod(0, 1);
    Ok(())
}

fn lookup(cx: &mut Run) -> Result<()> {
    let o = options(cx.attrs.as_any());
    let ids = index_of(cx.op.name, cx.input(1)?)?;
    let op = cx.op.name;
    let (table, ids) = match cx.value(0)? {
        Value::Dense(t) => (t, ids),
        Value::Rows(r) => {
            let mapped = find_rows(op, r, &ids, &o)?;
            return gather_into(cx, &r.value, &mapped, Some(-1));
        }
        other => bail!(InvalidArgument, "operator {op}: W cannot be {}", other.what()),
    };
    gather_into(cx, table, &ids, o.padding)
}

fn gather_into(cx: &mut Run, table: &Tensor, ids: &[i64], padding: Option<i64>) -> Result<()> {
    let width = table.dims().get(1).map_or(0, |&w| w as usize);
    let op = cx.op.name;
    let out = cx.out(0)?;
    by_size!(table.dtype(), T, {
        rows::gather(words::<T>(table), width, ids, padding, words_mut::<T>(out)?).map_err(|e| out_of_range(op, e))?;
    });
    Ok(())
}

/// Where each id's row stands in a table of some rows; -1 for zeros.
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

fn infer_lookup_grad(cx: &mut Infer) -> Result<()> {
    let w = cx.meta(0, 0)?;
    let kind = if options(cx.attrs.as_any()).sparse { VarKind::Rows } else { VarKind::Dense };
    if !cx.is_run() {
        let dtype = cx.dtype(2)?;
        cx.set_meta(0, 0, Meta { kind, dtype, lod: None, lod_level: 0, ..w });
    }
    Ok(())
}

fn lookup_grad(cx: &mut Run) -> Result<()> {
    let o = options(cx.attrs.as_any());
    let (ids, dout) = (cx.input(1)?, cx.input(2)?);
    let (height, dims) = match cx.value(0)? {
        Value::Dense(t) => (t.dims().first().copied().unwrap_or(0), Dims::from_slice(t.dims())),
        Value::Rows(r) => (r.value.dims()[0], Dims::from_slice(r.value.dims())),
        other => bail!(InvalidArgument, "operator {}: W cannot be {}", cx.op.name, other.what()),
    };
    ensure!(dims.len() == 2, InvalidArgument, "operator {}: W must have two dimensions, got {dims:?}", cx.op.name);
    let ids = index_of(cx.op.name, ids)?;
    let width = dims[1];
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
        cx.set(0, SelectedRows { rows: Arc::new(ids.into_owned()), height, value });
        return Ok(());
    }
    let mut grad = Tensor::empty(dout.dtype(), &dims)?;
    dispatch!(dout.dtype(), T in [f32, f64, f16, bf16], {
        rows::gather_grad(&ids[..], dout.data::<T>(), width as usize, o.padding, grad.data_mut::<T>()?)
            .map_err(|e| out_of_range(cx.op.name, e))?;
    }, other => return cx.unsupported(other));
    cx.set(0, grad);
    Ok(())
}

macro_rules! lookups {
    ($op:ident $name:literal $grad:ident $grad_name:literal $attrs:ident) => {
        pub static $op: Op = Op {
            name: $name,
            inputs: &[slot("W"), slot("Ids")],
            outputs: &[slot("Out")],
            attrs: $attrs::FIELDS,
            infer: infer_lookup,
            cpu: Kernel::Pure(lookup),
            grad: Grad::By(&$grad),
            ..OP
        };
        pub static $grad: Op = Op {
            name: $grad_name,
            inputs: &[slot("W").meta_only(), slot("Ids"), slot("Out@GRAD")],
            outputs: &[slot("W@GRAD")],
            attrs: $attrs::FIELDS,
            infer: infer_lookup_grad,
            cpu: Kernel::Pure(lookup_grad),
            ..OP
        };
    };
}
lookups!(LOOKUP_TABLE "lookup_table" LOOKUP_TABLE_GRAD "lookup_table_grad" LookupAttrs);
lookups!(LOOKUP_TABLE_V2 "lookup_table_v2" LOOKUP_TABLE_V2_GRAD "lookup_table_v2_grad" LookupV2Attrs);

pub static TABLE: &[&Op] = &[&LOOKUP_TABLE, &LOOKUP_TABLE_GRAD, &LOOKUP_TABLE_V2, &LOOKUP_TABLE_V2_GRAD];
