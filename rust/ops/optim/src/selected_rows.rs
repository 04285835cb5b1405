//! merge_selected_rows and get_tensor_from_selected_rows.

use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{kind_of_first, VarKind};
use oar_core::op::{Kernel, KernelContext, Meta, NoAttrs, Op, SparseKernel, OP};
use oar_core::tensor::Value;
use oar_core::{bail, slots};
use oar_ops_common::selected_rows::merged;

slots! {
    /// The number of rows depends on the value.
    mod of_rows { X "X" => OUT "Out".kernel_allocated() }
}

/// Dense kernel: these operators support only SelectedRows.
fn refuse(cx: &mut KernelContext) -> Result<()> {
    let got = cx.value(of_rows::X)?.what();
    bail!(InvalidArgument, "operator {}: input 'X' must be SelectedRows, got {got}", cx.op.name)
}

fn merge(cx: &mut KernelContext) -> Result<()> {
    let Value::Rows(r) = cx.value(of_rows::X)? else { return refuse(cx) };
    let all = merged(cx.op.name, r)?;
    cx.set(of_rows::OUT, all);
    Ok(())
}

fn elements(cx: &mut KernelContext) -> Result<()> {
    let Value::Rows(r) = cx.value(of_rows::X)? else { return refuse(cx) };
    cx.set(of_rows::OUT, r.value.clone());
    Ok(())
}

pub static MERGE: Op = Op {
    name: "merge_selected_rows",
    inputs: of_rows::INS,
    outputs: of_rows::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INDICES),
    infer: kind_of_first,
    cpu: Kernel::Pure(refuse),
    sparse_kernel: SparseKernel::Own(merge),
    ..OP
};

pub static TO_TENSOR: Op = Op {
    name: "get_tensor_from_selected_rows",
    inputs: of_rows::INS,
    outputs: of_rows::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        let mut m = cx.meta(of_rows::X, 0)?;
        if let Some(rows) = m.dims.first_mut() {
            *rows = -1;
        }
        cx.set_meta(of_rows::OUT, 0, Meta { kind: VarKind::Dense, ..m });
        Ok(())
    },
    cpu: Kernel::Pure(refuse),
    sparse_kernel: SparseKernel::Own(elements),
    ..OP
};

pub static TABLE: &[&Op] = &[&MERGE, &TO_TENSOR];
