//! One of several by number (select_input, select_output), and devices (get_places).

use oar_core::attrs;
use oar_core::base::Result;
use oar_core::op::attrs::Text;
use oar_core::op::infer::{Meta, VarKind};
use oar_core::op::{
    Dst, Grad, GradOp, InSlot, Kernel, KernelContext, NoAttrs, Op, ShapeContext, SparseKernel, Src, OP,
};
use oar_core::tensor::Value;
use oar_core::{ensure, slots};
use std::sync::Arc;

attrs! {
    pub struct PlacesAttrs { device_count: i32 = 0, device_type: Text = "AUTO".into() }
}

slots! {
    mod select_input { X "X".duplicable(), MASK "Mask" => OUT "Out".kernel_allocated() }
    mod select_output { X "X", MASK "Mask" => OUT "Out".duplicable().kernel_allocated() }
    mod get_places { => OUT "Out".kernel_allocated() }
}

/// The number that Mask says, below `count`.
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
        "operator select_input: variable {at} of 'X' is asked for but holds no value"
    );
    cx.set(select_input::OUT, values[at].share()?);
    Ok(())
}

fn infer_input(cx: &mut ShapeContext) -> Result<()> {
    // While a Program is built any branch may come; in a run the kernel takes one as it is.
    if let Some(m) = (0..cx.count(select_input::X)).find_map(|i| cx.meta(select_input::X, i).ok()) {
        cx.set_meta(select_input::OUT, 0, m);
    }
    Ok(())
}

/// One slot of the gradient reads the gradients of the outputs, the other the mask.
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

/// The other outputs stay what they were.
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

// get_places

fn places(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<PlacesAttrs>();
    ensure!(
        matches!(a.device_type.as_str(), "AUTO" | "CPU"),
        Unavailable,
        "operator get_places: device_type must be CPU or AUTO where there is no CUDA, got '{}'",
        a.device_type
    );
    let asked = usize::try_from(a.device_count).unwrap_or(0);
    let count = if asked > 0 { asked } else { std::thread::available_parallelism().map_or(1, |n| n.get()) };
    ensure!(count <= 1 << 16, ResourceExhausted, "operator get_places: {count} devices are too many");
    cx.set(get_places::OUT, Value::Strings(Arc::new(vec!["CPUPlace".into(); count])));
    Ok(())
}

pub static GET_PLACES: Op = Op {
    name: "get_places",
    inputs: get_places::INS,
    outputs: get_places::OUTS,
    attrs: PlacesAttrs::FIELDS,
    infer: |cx| {
        cx.set_meta(get_places::OUT, 0, Meta { kind: VarKind::Other, ..Meta::default() });
        Ok(())
    },
    cpu: Kernel::Host(places),
    ..OP
};

pub static TABLE: &[&Op] = &[&SELECT_INPUT, &SELECT_OUTPUT, &GET_PLACES];
