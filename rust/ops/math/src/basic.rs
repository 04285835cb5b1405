//! Operators that the engine itself is made of: scale, sum, cast, assign.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::{kind_of_first, VarKind};
use oar_core::op::pointwise::{self, PointwiseCall};
use oar_core::op::{Dst, Fwd, Grad, GradOp, Kernel, KernelContext, NoAttrs, Op, ShapeContext, SparseKernel, Src, OP};
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{bail, dispatch, ensure, err, slots};
use oar_kernels::elementwise::cast::CastFrom;
use oar_kernels::elementwise::{map, Binary};
use oar_kernels::formula::rows;
use oar_ops_common::broadcast::{self, binary_into};
use oar_ops_common::row::scaled_grad;
use oar_ops_common::sum::{accumulate, add_rows};
use std::sync::Arc;

attrs! {
    pub struct ScaleAttrs { scale: f32 = 1.0, bias: f32 = 0.0, bias_after_scale: bool = true }
    pub struct SumAttrs { use_mkldnn: bool = false, mkldnn_data_type: Text = "float32".into() }
    pub struct CastAttrs { out_dtype: i32, in_dtype: i32 }
}

slots! {
    mod scale { X "X", SCALE "ScaleTensor".dispensable() => OUT "Out" }
    mod sum { X "X".duplicable() => OUT "Out" }
    mod cast { X "X" => OUT "Out".kernel_allocated() }
    mod assign { X "X".dispensable() => OUT "Out".kernel_allocated() }
}

// scale: out = scale * x + bias, or scale * (x + bias).

fn scaled(cx: &KernelContext, x: &Tensor, out: &mut Tensor) -> Result<()> {
    let a = cx.attrs::<ScaleAttrs>();
    let scale = match cx.opt(scale::SCALE) {
        Some(t) => *t.to_f64s().first().ok_or_else(|| err!(InvalidArgument, "operator scale: ScaleTensor is empty"))?,
        None => a.scale as f64,
    };
    let bias = a.bias as f64;
    if x.dtype().is_complex() {
        *out = oar_ops_common::complex::scaled(x, scale, bias, !a.bias_after_scale)?.with_lod(out.lod.take());
        return Ok(());
    }
    let row = if a.bias_after_scale { &rows::scale } else { &rows::scale_bias_first };
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16], {
        row.run(&[x.data::<T>()], &[scale, bias], out.data_mut::<T>()?);
    }, other => dispatch!(other, T in [i32, i64, i16, i8, u8], {
        // Attributes take the element type first, as in Paddle.
        let (s, b) = (scale.cast::<T>(), bias.cast::<T>());
        let after = a.bias_after_scale;
        map(x.data::<T>(), out.data_mut::<T>()?, |v| {
            if after { s.wrapping_mul(v).wrapping_add(b) } else { s.wrapping_mul(v.wrapping_add(b)) }
        });
    }, other => bail!(Unimplemented, "operator scale has no CPU kernel for data type {other}")));
    Ok(())
}

fn run_scale(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(scale::X)?;
    let mut out = cx.take_out(scale::OUT)?;
    scaled(cx, x, &mut out)?;
    cx.set(scale::OUT, out);
    Ok(())
}

/// The same of the values of SelectedRows.
fn scale_rows(cx: &mut KernelContext) -> Result<()> {
    let Some(r) = cx.rows(scale::X) else { return run_scale(cx) };
    let mut value = Tensor::empty(r.value.dtype(), r.value.dims())?;
    scaled(cx, &r.value, &mut value)?;
    cx.set(scale::OUT, SelectedRows { value, ..r.clone() });
    Ok(())
}

fn scale_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    let mut g = scaled_grad(f.attrs::<ScaleAttrs>().scale)?;
    if f.ins.get(scale::SCALE.0).is_some_and(|&n| n > 0) {
        g.ins.push(vec![Src::In(scale::SCALE.0, None)]);
    }
    Ok(vec![g])
}

fn scale_pointwise(p: &mut PointwiseCall) -> Option<()> {
    let a = p.attrs::<ScaleAttrs>();
    let row = if a.bias_after_scale { &rows::scale } else { &rows::scale_bias_first };
    if p.has(scale::SCALE) {
        None
    } else {
        pointwise::by_row(p, row, &[a.scale as f64, a.bias as f64])
    }
}

pub static SCALE: Op = Op {
    name: "scale",
    inputs: scale::INS,
    outputs: scale::OUTS,
    attrs: ScaleAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INTEGERS).union(DTypes::COMPLEX),
    infer: kind_of_first,
    cpu: Kernel::Pure(run_scale),
    sparse_kernel: SparseKernel::Own(scale_rows),
    grad: Grad::Fn(scale_grad),
    pointwise: Some(scale_pointwise),
    ..OP
};

// sum: dense tensors, SelectedRows, or both; also tensor arrays.

/// Dense if anything is dense, like the first dense input; SelectedRows if all are; an array if anything is one. An
/// input that is not there yet counts for nothing.
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
    let values = given(cx);
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

/// Where an input holds SelectedRows: these are added to the total of the dense inputs, or joined where there is none.
fn sum_rows(cx: &mut KernelContext) -> Result<()> {
    let values = given(cx);
    if let [only] = values[..] {
        return share_only(cx, only);
    }
    let Some(mut total) = dense_total(cx, &values)? else {
        let all = joined_rows(&values)?;
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
fn given<'a>(cx: &KernelContext<'a>) -> Vec<&'a Value> {
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
    // Beside others a tensor without dimensions is one that nobody has given a value.
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

/// Matrices of SelectedRows as one, rows that stand in it twice added up.
fn joined_rows(values: &[&Value]) -> Result<SelectedRows> {
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
    let bytes = value.bytes_mut()?;
    let mut at = 0;
    for p in &parts {
        let b = p.value.bytes();
        bytes[at..at + b.len()].copy_from_slice(b);
        at += b.len();
    }
    oar_ops_common::rows::merged("sum", &SelectedRows { rows: Arc::new(rows), height: first.height, value })
}

/// Arrays item by item; one that is shorter has nothing to add to the rest.
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

/// Every input's gradient is the output's: one `scale` by 1 each, as in Paddle.
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

// cast

fn target(attrs: &CastAttrs) -> Result<DType> {
    let to = attrs.out_dtype;
    DType::from_proto(to)
        .ok_or_else(|| err!(InvalidArgument, "operator cast: out_dtype {to} is no data type of tensors"))
}

fn infer_cast(cx: &mut ShapeContext) -> Result<()> {
    let dtype = target(cx.attrs())?;
    match cx.tensor(cast::X) {
        Some(x) => cx.set(cast::OUT, x.dims(), dtype),
        None => cx.set(cast::OUT, &cx.dims(cast::X)?, dtype),
    }
    cx.share_lod(cast::OUT, cast::X);
    Ok(())
}

/// X itself, sharing its bytes, where it has the data type already.
fn run_cast(cx: &mut KernelContext) -> Result<()> {
    let out = broadcast::cast(cx.input(cast::X)?, target(cx.attrs())?)?;
    cx.set(cast::OUT, out);
    Ok(())
}

/// The gradient of a cast is the cast back.
fn cast_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    let a = f.attrs::<CastAttrs>();
    let mut attrs = (CAST.attrs.new)();
    let set = oar_core::op::attrs::unshared(&mut attrs);
    for (i, v) in [a.in_dtype, a.out_dtype].into_iter().enumerate() {
        set.set(i, oar_core::ir::Attr::Int(v)).map_err(|_| err!(Fatal, "data types are ints"))?;
    }
    Ok(vec![GradOp::of_first(&CAST, attrs)])
}

pub static CAST: Op = Op {
    name: "cast",
    inputs: cast::INS,
    outputs: cast::OUTS,
    attrs: CastAttrs::FIELDS,
    infer: infer_cast,
    cpu: Kernel::Pure(run_cast),
    cannot_fail: true,
    grad: Grad::Fn(cast_grad),
    ..OP
};

// assign: the value itself, of whatever kind, shared until somebody writes.

pub static ASSIGN: Op = Op {
    name: "assign",
    inputs: assign::INS,
    outputs: assign::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: |cx| if cx.has(assign::X) { kind_of_first(cx) } else { Ok(()) },
    cpu: Kernel::Pure(|cx| {
        let value = cx.value(assign::X)?.share()?;
        cx.set(assign::OUT, value);
        Ok(())
    }),
    sparse_kernel: SparseKernel::Same,
    grad: Grad::Fn(|_| Ok(vec![GradOp::of_first(&ASSIGN, (ASSIGN.attrs.shared)().clone())])),
    cannot_fail: true,
    ..OP
};

pub static TABLE: &[&Op] = &[&SCALE, &SUM, &CAST, &ASSIGN];
