//! similarity_focus: marks the largest elements of matrices, at most one per row and column.

use oar_core::base::{DTypes, Result};
use oar_core::op::infer::like_first;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::nn::similarity_focus as kernel;

attrs! {
    pub struct FocusAttrs { axis: i32, indexes: Vec<i32> }
}

slots! {
    mod focus { X "X" => OUT "Out" }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<FocusAttrs>());
    cx.shaped(focus::X, &[-1; 4])?;
    ensure!((1..4).contains(&a.axis), InvalidArgument, "operator {op}: axis must be 1, 2 or 3, got {}", a.axis);
    let size = cx.dims(focus::X)?[a.axis as usize];
    ensure!(
        !a.indexes.is_empty() && a.indexes.iter().all(|&i| i >= 0 && (size < 0 || i64::from(i) < size)),
        InvalidArgument,
        "operator {op}: indexes must be one or more of [0, {size}), the size of axis {}, got {:?}",
        a.axis,
        a.indexes
    );
    like_first(cx)
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(focus::X)?, cx.attrs::<FocusAttrs>());
    let d: Vec<usize> = x.dims()[1..].iter().map(|&n| n as usize).collect();
    dispatch!(x.dtype(), T in [f32, f64], {
        let sizes = [d[0], d[1], d[2]];
        kernel::focus(x.data::<T>(), sizes, a.axis as usize - 1, &a.indexes, cx.out_data::<T>(focus::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SIMILARITY_FOCUS: Op = Op {
    name: "similarity_focus",
    inputs: focus::INS,
    outputs: focus::OUTS,
    attrs: FocusAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    ..OP
};

pub static TABLE: &[&Op] = &[&SIMILARITY_FOCUS];
