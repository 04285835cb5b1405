//! sum: adds dense tensors, SelectedRows, or both; tensor arrays item by item.

use super::scale::SCALE;
use oar_core::attrs;
use oar_core::base::Result;
use oar_core::op::attrs::Text;
use oar_core::op::infer::VarKind;
use oar_core::op::pointwise::PointwiseCall;
use oar_core::op::{Dst, Fwd, Grad, GradOp, Kernel, KernelContext, Op, ShapeContext, SparseKernel, OP};
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{bail, ensure, slots};
use oar_kernels::elementwise::Binary;
use oar_ops_common::broadcast::binary_into;
use oar_ops_common::sum::{accumulate, add_rows};
use std::sync::Arc;

attrs! {
    pub struct SumAttrs { use_mkldnn: bool = false, mkldnn_data_type: Text = "float32".into() }
}

slots! {
    mod sum { X "X".duplicable() => OUT "Out" }
}

/// Output kind: dense if any input is dense, with the meta of the first dense one; SelectedRows if all are; an array if
/// any is. Uninitialized inputs are skipped.
fn infer_sum(cx: &mut ShapeContext) -> Result<()> {
    let n = cx.count(sum::X);
    ensure!(n > 0, InvalidArgument, "operator sum needs at least one input");
    let mut out: Option<oar_core::op::Meta> = None;
    for i in 0..n {
        let Ok(m) = cx.meta(sum::X, i) else { continue };
        if m.kind == VarKind::Array {
            cx.set_meta(sum::OUT, 0, m);
            return Ok(());
        }
        if let Some(o) = &out {
            let compatible =
                o.dims.len() == m.dims.len() && o.dims.iter().zip(&m.dims).all(|(&a, &b)| a == b || a < 0 || b < 0);
            if o.kind == m.kind && !o.dims.is_empty() && !m.dims.is_empty() && !compatible {
                bail!(
                    InvalidArgument,
                    "operator sum: all inputs must have one shape, input 0 has {:?}, input {i} has {:?}",
                    &o.dims[..],
                    &m.dims[..]
                );
            }
        }
        if out.as_ref().is_none_or(|o| o.kind == VarKind::Rows && m.kind == VarKind::Dense || o.dims.is_empty()) {
            out = Some(m);
        }
    }
    let Some(m) = out else { return cx.wrong(sum::X, "initialised") };
    cx.set_meta(sum::OUT, 0, m);
    Ok(())
}

fn run_sum(cx: &mut KernelContext) -> Result<()> {
    let values = present_values(cx);
    match values[..] {
        [only] => share_only(cx, only),
        [Value::Array(_), ..] => sum_arrays(cx, &values),
        _ => match dense_total(cx, &values)? {
            Some(total) => {
                cx.set(sum::OUT, total);
                Ok(())
            }
            None => bail!(InvalidArgument, "operator sum: no input holds a value"),
        },
    }
}

/// SelectedRows kernel: rows are added to the total of the dense inputs, or concatenated and merged if there is none.
fn sum_rows(cx: &mut KernelContext) -> Result<()> {
    let values = present_values(cx);
    if let [only] = values[..] {
        return share_only(cx, only);
    }
    let Some(mut total) = dense_total(cx, &values)? else {
        let all = concat_rows(&values)?;
        cx.set(sum::OUT, all);
        return Ok(());
    };
    for v in values {
        if let Value::Rows(r) = v {
            add_rows(&mut total, r)?;
        }
    }
    cx.set(sum::OUT, total);
    Ok(())
}

/// The inputs that hold a value.
fn present_values<'a>(cx: &KernelContext<'a>) -> Vec<&'a Value> {
    cx.values(sum::X).iter().filter(|v| !v.is_none()).collect()
}

fn share_only(cx: &mut KernelContext, only: &Value) -> Result<()> {
    let same = only.share()?;
    cx.set(sum::OUT, same);
    Ok(())
}

/// The sum of the dense inputs, with the LoD of the first; `None` if there is none.
fn dense_total(cx: &mut KernelContext, values: &[&Value]) -> Result<Option<Tensor>> {
    if let Some(other) = values.iter().find(|v| !matches!(v, Value::Dense(_) | Value::Rows(_))) {
        bail!(InvalidArgument, "operator sum: {} cannot be added to a tensor or SelectedRows", other.what());
    }
    // Among other inputs a tensor of rank 0 is uninitialized.
    let scalars = values.iter().all(|v| v.as_dense().is_some_and(|t| t.rank() == 0));
    let dense: Vec<&Tensor> = values.iter().filter_map(|v| v.as_dense()).filter(|t| scalars || t.rank() > 0).collect();
    let (mut total, rest) = match dense[..] {
        [] => return Ok(None),
        [first] => (first.deep_copy()?, &[][..]),
        [first, second, ref rest @ ..] => {
            let mut out = cx.take_out(sum::OUT)?;
            binary_into("sum", Binary::Add, first, second, -1, &mut out)?;
            (out, rest)
        }
    };
    for t in rest {
        accumulate(&mut total, t)?;
    }
    Ok(Some(total.with_lod(dense[0].lod.clone())))
}

/// Concatenates SelectedRows and sums duplicate rows.
fn concat_rows(values: &[&Value]) -> Result<SelectedRows> {
    let parts: Vec<&SelectedRows> = values
        .iter()
        .filter_map(|v| match v {
            Value::Rows(r) if !r.rows.is_empty() => Some(&**r),
            _ => None,
        })
        .collect();
    let Some(first) = parts.first() else {
        return match values.first() {
            Some(Value::Rows(r)) => Ok(SelectedRows::clone(r)),
            _ => bail!(InvalidArgument, "operator sum: no input holds a value"),
        };
    };
    let mut rows = Vec::new();
    let mut dims = first.value.dims().to_vec();
    dims[0] = 0;
    for p in &parts {
        ensure!(
            p.height == first.height && p.value.dims()[1..] == dims[1..] && p.value.dtype() == first.value.dtype(),
            InvalidArgument,
            "operator sum: SelectedRows of different heights, widths or data types cannot be added"
        );
        rows.extend_from_slice(&p.rows);
        dims[0] += p.value.dims()[0];
    }
    let mut value = Tensor::empty(first.value.dtype(), &dims)?;
    oar_kernels::shape::copy::concatenate(parts.iter().map(|p| p.value.bytes()), value.bytes_mut()?);
    oar_ops_common::selected_rows::merged("sum", &SelectedRows { rows: Arc::new(rows), height: first.height, value })
}

/// Adds arrays item by item; shorter arrays end early.
fn sum_arrays(cx: &mut KernelContext, values: &[&Value]) -> Result<()> {
    let mut total: Vec<Value> = Vec::new();
    for v in values {
        let Value::Array(items) = v else {
            bail!(InvalidArgument, "operator sum: a LoDTensorArray cannot be added to {}", v.what())
        };
        if items.len() > total.len() {
            total.resize(items.len(), Value::None);
        }
        for (o, v) in total.iter_mut().zip(items.iter()) {
            match (&mut *o, v) {
                (_, Value::None) => {}
                (Value::None, v) => *o = v.clone(),
                (Value::Dense(t), Value::Dense(v)) => accumulate(t, v)?,
                (a, b) => bail!(InvalidArgument, "operator sum: cannot add {} to {}", b.what(), a.what()),
            }
        }
    }
    cx.set(sum::OUT, Value::Array(Arc::new(total)));
    Ok(())
}

/// Each input's gradient is `Out@GRAD`, through one `scale` by 1 each, as in Paddle.
fn sum_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    let x = sum::X.0;
    let scale = || GradOp::of_first(&SCALE, (SCALE.attrs.shared)().clone());
    let wanted = (0..f.ins[x]).filter(|&i| (f.needs)(x, i));
    Ok(wanted.map(|i| GradOp { outs: vec![vec![Dst(x, Some(i))]], ..scale() }).collect())
}

fn sum_pointwise(p: &mut PointwiseCall) -> Option<()> {
    let terms = p.inputs(sum::X)?;
    let (first, rest) = terms.split_first()?;
    let total = rest.iter().fold(*first, |total, &term| p.binary(Binary::Add, total, term, None));
    p.give(sum::OUT, total);
    Some(())
}

pub static SUM: Op = Op {
    name: "sum",
    inputs: sum::INS,
    outputs: sum::OUTS,
    attrs: SumAttrs::FIELDS,
    infer: infer_sum,
    cpu: Kernel::Pure(run_sum),
    sparse_kernel: SparseKernel::Own(sum_rows),
    grad: Grad::Fn(sum_grad),
    pointwise: Some(sum_pointwise),
    ..OP
};

pub static TABLE: &[&Op] = &[&SUM];
