//! fusion_transpose_flatten_concat: transposed, flattened and concatenated tensors.

use super::compose::{out, run};
use super::shapes::{alike, metas};
use oar_core::attrs;
use oar_core::base::{Dims, Result};
use oar_core::ir::Attr;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{ensure, slots};

attrs! {
    pub struct FlattenAttrs { trans_axis: Vec<i32>, flatten_axis: i32, concat_axis: i32 }
}

slots! {
    mod flatten { X "X".duplicable() => OUT "Out".kernel_allocated() }
}

/// Checks the axes; returns the two sizes of the transposed and flattened tensor, -1 if unknown.
fn flat(op: &str, a: &FlattenAttrs, x: &[i64]) -> Result<[i64; 2]> {
    let mut sorted = a.trans_axis.clone();
    sorted.sort_unstable();
    ensure!(
        sorted.iter().enumerate().all(|(i, &axis)| i as i32 == axis) && sorted.len() == x.len(),
        InvalidArgument,
        "operator {op}: trans_axis must name each axis of X (shape {x:?}) once, got {:?}",
        a.trans_axis
    );
    ensure!(
        (0..=x.len() as i32).contains(&a.flatten_axis) && (0..=1).contains(&a.concat_axis),
        InvalidArgument,
        "operator {op}: flatten_axis must be in [0, {}] and concat_axis 0 or 1, got {} and {}",
        x.len(),
        a.flatten_axis,
        a.concat_axis
    );
    let dims: Vec<i64> = a.trans_axis.iter().map(|&axis| x[axis as usize]).collect();
    let (left, right) = dims.split_at(a.flatten_axis as usize);
    Ok([left, right].map(|d| if d.iter().any(|&d| d < 0) { -1 } else { d.iter().product() }))
}

fn infer_flatten(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<FlattenAttrs>());
    let xs = metas(cx, flatten::X)?;
    ensure!(!xs.is_empty(), InvalidArgument, "operator {op}: X must have at least one tensor");
    let mut total = flat(op, a, &xs[0].dims)?;
    let (along, other) = (a.concat_axis as usize, 1 - a.concat_axis as usize);
    for x in &xs[1..] {
        let next = flat(op, a, &x.dims)?;
        ensure!(
            alike(next[other], total[other]),
            InvalidArgument,
            "operator {op}: flattened tensors must have the same size in axis {other}, got {} and {}",
            total[other],
            next[other]
        );
        total[along] = if total[along] < 0 || next[along] < 0 { -1 } else { total[along] + next[along] };
    }
    cx.set(flatten::OUT, &total, xs[0].dtype);
    Ok(())
}

fn run_flatten(cx: &mut KernelContext) -> Result<()> {
    let (op, a, xs) = (cx.op.name, cx.attrs::<FlattenAttrs>(), cx.inputs(flatten::X)?);
    let mut parts = Vec::with_capacity(xs.len());
    for x in &xs {
        let dims = Dims::from_slice(&flat(op, a, x.dims())?);
        let moved = run("transpose2", &[("X", *x)], &[("axis", Attr::Ints(a.trans_axis.clone()))])?.take("Out")?;
        parts.push(moved.reshaped(&dims));
    }
    let ins: Vec<(&str, &Tensor)> = parts.iter().map(|t| ("X", t)).collect();
    cx.set(flatten::OUT, out("concat", &ins, &[("axis", Attr::Int(a.concat_axis))])?);
    Ok(())
}

pub static FLATTEN: Op = Op {
    name: "fusion_transpose_flatten_concat",
    inputs: flatten::INS,
    outputs: flatten::OUTS,
    attrs: FlattenAttrs::FIELDS,
    infer: infer_flatten,
    cpu: Kernel::Pure(run_flatten),
    ..OP
};

pub static TABLE: &[&Op] = &[&FLATTEN];
