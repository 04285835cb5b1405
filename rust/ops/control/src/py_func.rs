//! py_func: calls a registered Python function.

use oar_core::attrs;
use oar_core::base::Result;
use oar_core::ir::desc::OpDesc;
use oar_core::ir::names::grad_name;
use oar_core::ir::{Attr, BlockNode};
use oar_core::op::callbacks::CALL_PYTHON;
use oar_core::op::{Grad, Kernel, KernelContext, Op, SparseKernel, OP};
use oar_core::tensor::Value;
use oar_core::{ensure, err, slots};
use std::collections::HashSet;
use std::sync::Arc;

attrs! {
    pub struct PyFuncAttrs {
        forward_callable_id: i32 = 0, backward_callable_id: i32 = -1, backward_skip_vars: Vec<String> = vec![],
    }
}

slots! {
    mod py_func { X "X".duplicable() => OUT "Out".duplicable().kernel_allocated() }
}

fn py_func(cx: &mut KernelContext) -> Result<()> {
    let id = cx.attrs::<PyFuncAttrs>().forward_callable_id;
    let call = CALL_PYTHON.get().ok_or_else(|| err!(Unavailable, "operator py_func: Python is not available"))?;
    let results = call(id, cx.values(py_func::X).to_vec())?;
    let n = cx.n_outs(py_func::OUT);
    if n == 0 && results.iter().all(Value::is_none) {
        return Ok(());
    }
    ensure!(
        results.len() == n,
        InvalidArgument,
        "operator py_func: the Python function must return {n} values, got {}",
        results.len()
    );
    for (i, v) in results.into_iter().enumerate() {
        if cx.wants_nth(py_func::OUT, i) {
            ensure!(!v.is_none(), InvalidArgument, "operator py_func: output {i} must be a LoDTensor, got None");
            cx.set_nth(py_func::OUT, i, v);
        }
    }
    Ok(())
}

fn py_func_grad(fwd: &OpDesc, no_grad: &HashSet<String>, _: &[Arc<BlockNode>]) -> Result<Vec<OpDesc>> {
    let Some(&Attr::Int(back)) = fwd.attrs.get("backward_callable_id") else { return Ok(Vec::new()) };
    if back < 0 {
        return Ok(Vec::new());
    }
    let skip: HashSet<String> = match fwd.attrs.get("backward_skip_vars") {
        Some(Attr::Strings(v)) => v.iter().cloned().collect(),
        _ => HashSet::new(),
    };
    let (xs, outs) = (fwd.input("X").unwrap_or(&[]), fwd.output("Out").unwrap_or(&[]));
    let passed = xs.iter().chain(outs).filter(|n| !skip.contains(*n)).cloned();
    let mut g = OpDesc::new("py_func");
    g.set_input("X", passed.chain(outs.iter().map(|n| grad_name(n))).collect());
    let grads = xs.iter().map(|n| grad_name(n));
    let empty = || oar_core::ir::names::EMPTY.to_string();
    g.set_output("Out", grads.map(|n| if no_grad.contains(&n) { empty() } else { n }).collect());
    g.attrs.insert("forward_callable_id", Attr::Int(back));
    g.attrs.insert("backward_callable_id", Attr::Int(-1));
    Ok(vec![g])
}

pub static PY_FUNC: Op = Op {
    name: "py_func",
    inputs: py_func::INS,
    outputs: py_func::OUTS,
    attrs: PyFuncAttrs::FIELDS,
    // The user declares the shapes; gradients get theirs when computed.
    cpu: Kernel::Host(py_func),
    sparse_kernel: SparseKernel::Same,
    grad: Grad::Program(py_func_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&PY_FUNC];
