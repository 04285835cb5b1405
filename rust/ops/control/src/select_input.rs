//! select_input and select_output: one branch value by number.

use oar_core::base::Result;
use oar_core::op::{
    Dst, Grad, GradOp, InSlot, Kernel, KernelContext, NoAttrs, Op, ShapeContext, SparseKernel, Src, OP,
};
use oar_core::{ensure, slots};

slots! {
    mod select_input { X "X".duplicable(), MASK "Mask" => OUT "Out".kernel_allocated() }
    mod select_output { X "X", MASK "Mask" => OUT "Out".duplicable().kernel_allocated() }
}

/// The branch number in Mask, below `count`.
fn branch(cx: &KernelContext, mask: InSlot, count: usize) -> Result<usize> {
    let t = cx.input(mask)?;
    ensure!(t.numel() == 1, InvalidArgument, "operator {}: Mask must have one element, got {t:?}", cx.op.name);
    let n = t.to_i64s()?[0];
    ensure!(
        (0..count as i64).contains(&n),
        InvalidArgument,
        "operator {}: Mask must be below {count}, the number of branches, got {n}",
        cx.op.name
    );
    Ok(n as usize)
}

fn run_input(cx: &mut KernelContext) -> Result<()> {
    let values = cx.values(select_input::X);
    let at = branch(cx, select_input::MASK, values.len())?;
    ensure!(
        !values[at].is_none(),
        NoValue,
        "operator select_input: variable {at} of 'X' is selected but holds no value"
    );
    cx.set(select_input::OUT, values[at].share()?);
    Ok(())
}

fn infer_input(cx: &mut ShapeContext) -> Result<()> {
    // While a Program is built the branch is unknown; the kernel checks it.
    if let Some(m) = (0..cx.count(select_input::X)).find_map(|i| cx.meta(select_input::X, i).ok()) {
        cx.set_meta(select_input::OUT, 0, m);
    }
    Ok(())
}

/// The gradient is the other operator: it reads the gradients of the outputs, and the mask.
fn other(op: &'static Op, mask: usize, x: usize) -> Vec<GradOp> {
    vec![GradOp {
        op,
        attrs: (NoAttrs::FIELDS.shared)().clone(),
        ins: vec![vec![Src::GradOut(0, None)], vec![Src::In(mask, None)]],
        outs: vec![vec![Dst(x, None)]],
    }]
}

pub static SELECT_INPUT: Op = Op {
    name: "select_input",
    inputs: select_input::INS,
    outputs: select_input::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: infer_input,
    cpu: Kernel::Pure(run_input),
    sparse_kernel: SparseKernel::Same,
    grad: Grad::Fn(|_| Ok(other(&SELECT_OUTPUT, select_input::MASK.0, select_input::X.0))),
    ..OP
};

/// The other outputs keep their values.
fn run_output(cx: &mut KernelContext) -> Result<()> {
    let at = branch(cx, select_output::MASK, cx.n_outs(select_output::OUT))?;
    let value = cx.value(select_output::X)?.share()?;
    cx.set_nth(select_output::OUT, at, value);
    Ok(())
}

fn infer_output(cx: &mut ShapeContext) -> Result<()> {
    let m = cx.meta(select_output::X, 0)?;
    for i in 0..cx.outs(select_output::OUT) {
        cx.set_meta(select_output::OUT, i, m.clone());
    }
    Ok(())
}

pub static SELECT_OUTPUT: Op = Op {
    name: "select_output",
    inputs: select_output::INS,
    outputs: select_output::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: infer_output,
    cpu: Kernel::Pure(run_output),
    sparse_kernel: SparseKernel::Same,
    grad: Grad::Fn(|_| Ok(other(&SELECT_INPUT, select_output::MASK.0, select_output::X.0))),
    ..OP
};

pub static TABLE: &[&Op] = &[&SELECT_INPUT, &SELECT_OUTPUT];
