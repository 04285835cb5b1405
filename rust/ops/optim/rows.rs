//! SelectedRows: merging of equal rows, and the operators on them.

use oar_core::bail;
use oar_core::base::Result;
use oar_core::op::infer::VarKind;
use oar_core::op::parts::rows::merged;
use oar_core::op::{slot, Kernel, NoAttrs, Op, Run, OP};
use oar_core::tensor::SelectedRows;

fn given<'a>(cx: &Run<'a>) -> Result<&'a SelectedRows> {
    let got = cx.value(0)?.what();
    match cx.rows(0) {
        Some(r) => Ok(r),
        None => bail!(InvalidArgument, "operator {}: input 'X' must be SelectedRows, got {got}", cx.op.name),
    }
}

fn merge(cx: &mut Run) -> Result<()> {
    let all = merged(cx.op.name, given(cx)?)?;
    cx.set(0, all);
    Ok(())
}

pub static MERGE: Op = Op {
    name: "merge_selected_rows",
    inputs: &[slot("X")],
    outputs: &[slot("Out")],
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        let m = cx.meta(0, 0)?;
        cx.set_meta(0, 0, m);
        Ok(())
    },
    cpu: Kernel::Pure(merge),
    ..OP
};

pub static TO_TENSOR: Op = Op {
    name: "get_tensor_from_selected_rows",
    inputs: &[slot("X")],
    outputs: &[slot("Out")],
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        if !cx.is_run() {
            let m = cx.meta(0, 0)?;
            cx.set_meta(0, 0, oar_core::op::Meta { kind: VarKind::Dense, ..m });
        }
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let value = given(cx)?.value.clone();
        cx.set(0, value);
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&MERGE, &TO_TENSOR];
