//! Gradients split into the blocks that servers hold: split_byref for dense ones, split_selected_rows for rows.

use oar_core::base::Result;
use oar_core::op::attrs::NONE;
use oar_core::op::infer::VarKind;
use oar_core::op::{table, Dst, Fwd, Grad, GradOp, Kernel, KernelContext, Op, ShapeContext, SparseKernel, Src, OP};
use oar_core::{attrs, bail, ensure, slots};
use oar_ops_common::elements::parts;
use oar_ps::parts::split_by_sections;

attrs! {
    pub struct ByRefAttrs { sections: Vec<i32> = vec![], num: i32 = 0 }
    pub struct SplitRowsAttrs { height_sections: Vec<i64> = vec![] }
}

slots! {
    // Parts share the bytes of X.
    mod by_ref { X "X" => OUT "Out".duplicable().kernel_allocated() }
    mod split_rows { X "X" => OUT "Out".duplicable().kernel_allocated() }
}

/// Rows of each part; -1 if those of X are unknown.
fn by_ref_sizes(op: &str, a: &ByRefAttrs, rows: i64) -> Result<Vec<i64>> {
    let count = parts(op, a.num)?;
    if count > 0 {
        let n = count as i64;
        ensure!(
            rows < 0 || rows % n == 0,
            InvalidArgument,
            "operator {op}: the {rows} rows of X cannot be divided evenly in {n} parts"
        );
        return Ok(vec![if rows < 0 { -1 } else { rows / n }; count]);
    }
    let sizes: Vec<i64> = a.sections.iter().map(|&s| s.into()).collect();
    ensure!(!sizes.is_empty(), InvalidArgument, "operator {op}: either num or sections must be given");
    let total = sizes.iter().sum::<i64>();
    ensure!(
        sizes.iter().all(|&s| s >= 0) && (rows < 0 || total == rows),
        InvalidArgument,
        "operator {op}: sections {sizes:?} do not add up to the {rows} rows of X"
    );
    Ok(sizes)
}

fn infer_by_ref(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<ByRefAttrs>();
    let (op, mut dims, dtype) = (cx.op.name, cx.dims(by_ref::X)?, cx.dtype(by_ref::X)?);
    ensure!(!dims.is_empty(), InvalidArgument, "operator {op}: X must have a dimension to be cut along");
    let sizes = by_ref_sizes(op, a, dims[0])?;
    cx.set_outs(by_ref::OUT, sizes.len())?;
    for (i, size) in sizes.into_iter().enumerate() {
        dims[0] = size;
        cx.set_nth(by_ref::OUT, i, &dims, dtype);
    }
    Ok(())
}

fn by_ref(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(by_ref::X)?;
    let sizes = by_ref_sizes(cx.op.name, cx.attrs::<ByRefAttrs>(), x.dims()[0])?;
    let mut from = 0;
    for (i, size) in sizes.into_iter().enumerate() {
        let to = from + size as usize;
        if cx.wants_nth(by_ref::OUT, i) {
            cx.set_nth(by_ref::OUT, i, x.rows(from, to).with_lod(None));
        }
        from = to;
    }
    Ok(())
}

/// Concatenates the gradients of the parts.
fn by_ref_grad(_: &Fwd) -> Result<Vec<GradOp>> {
    let op = table::need("concat")?;
    let attrs = op.attrs.convert("concat", &(NONE.new)())?;
    let (ins, outs) = (vec![vec![Src::GradOut(by_ref::OUT.0, None)]], vec![vec![Dst(by_ref::X.0, None)]]);
    Ok(vec![GradOp { op, attrs, ins, outs }])
}

pub static SPLIT_BYREF: Op = Op {
    name: "split_byref",
    inputs: by_ref::INS,
    outputs: by_ref::OUTS,
    attrs: ByRefAttrs::FIELDS,
    infer: infer_by_ref,
    cpu: Kernel::Pure(by_ref),
    grad: Grad::Fn(by_ref_grad),
    ..OP
};

// split_selected_rows

fn infer_split_rows(cx: &mut ShapeContext) -> Result<()> {
    let sections = &cx.attrs::<SplitRowsAttrs>().height_sections;
    cx.set_outs(split_rows::OUT, sections.len())?;
    let Ok(mut m) = cx.meta(split_rows::X, 0) else { return Ok(()) };
    m.kind = VarKind::Rows;
    for (i, &height) in sections.iter().enumerate() {
        if let Some(rows) = m.dims.first_mut() {
            *rows = height;
        }
        cx.set_meta(split_rows::OUT, i, m.clone());
    }
    Ok(())
}

/// Each row goes to the section that contains it, and is numbered from the section's start. Order is kept.
fn split_rows(cx: &mut KernelContext) -> Result<()> {
    let (op, sections) = (cx.op.name, &cx.attrs::<SplitRowsAttrs>().height_sections);
    let Some(x) = cx.rows(split_rows::X) else {
        bail!(InvalidArgument, "operator {op}: input 'X' must be SelectedRows, got {}", cx.value(split_rows::X)?.what())
    };
    ensure!(
        sections.len() == cx.n_outs(split_rows::OUT) && sections.iter().all(|&s| s >= 0),
        InvalidArgument,
        "operator {op}: height_sections {sections:?} do not fit {} outputs",
        cx.n_outs(split_rows::OUT)
    );
    for (i, part) in split_by_sections(op, x, sections)?.into_iter().enumerate() {
        cx.set_nth(split_rows::OUT, i, part);
    }
    Ok(())
}

fn split_rows_grad(_: &Fwd) -> Result<Vec<GradOp>> {
    let op = table::need("sum")?;
    let attrs = op.attrs.convert("sum", &(NONE.new)())?;
    let (ins, outs) = (vec![vec![Src::GradOut(split_rows::OUT.0, None)]], vec![vec![Dst(split_rows::X.0, None)]]);
    Ok(vec![GradOp { op, attrs, ins, outs }])
}

pub static SPLIT_SELECTED_ROWS: Op = Op {
    name: "split_selected_rows",
    inputs: split_rows::INS,
    outputs: split_rows::OUTS,
    attrs: SplitRowsAttrs::FIELDS,
    infer: infer_split_rows,
    cpu: Kernel::Pure(split_rows),
    sparse_kernel: SparseKernel::Own(split_rows),
    grad: Grad::Fn(split_rows_grad),
    ..OP
};
