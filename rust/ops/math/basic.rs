//! Operators that the engine itself is made of: scale, sum, cast, assign.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::{DType, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::VarKind;
use oar_core::op::parts::broadcast::binary_into;
use oar_core::op::parts::row::scaled_grad;
use oar_core::op::parts::sum::{accumulate, add_rows};
use oar_core::op::point::{self, Points};
use oar_core::op::{slot, Dst, Fwd, Grad, GradOp, Infer, Kernel, NoAttrs, Op, Run, Src, OP};
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{bail, dispatch, ensure, err};
use oar_kernels::cast::CastFrom;
use oar_kernels::elementwise::{map, Binary};
use oar_kernels::formula_rows as rows;
use std::sync::Arc;

attrs! {
    pub struct ScaleAttrs { scale: f32 = 1.0, bias: f32 = 0.0, bias_after_scale: bool = true }
    pub struct SumAttrs { use_mkldnn: bool = false, mkldnn_data_type: Text = "float32".into() }
    pub struct CastAttrs { out_dtype: i32, in_dtype: i32 }
}

/// A gradient of one operator that reads `Out@GRAD` and writes `X@GRAD` of variable `i`.
fn one(op: &'static Op, attrs: oar_core::op::Attrs, i: Option<usize>) -> GradOp {
    GradOp { op, attrs, ins: vec![vec![Src::GradOut(0, None)]], outs: vec![vec![Dst(0, i)]] }
}

// scale: out = scale * x + bias, or scale * (x + bias).

fn scaled(cx: &Run, x: &Tensor, out: &mut Tensor) -> Result<()> {
    let a = cx.attrs::<ScaleAttrs>();
    let scale = match cx.opt(1) {
        Some(t) => *t.to_f64s().first().ok_or_else(|| err!(InvalidArgument, "operator scale: ScaleTensor is empty"))?,
        None => a.scale as f64,
    };
    let bias = a.bias as f64;
    if x.dtype().is_complex() {
        *out = oar_core::op::parts::complex::scaled(x, scale, bias, !a.bias_after_scale)?.with_lod(out.lod.take());
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

fn scale(cx: &mut Run) -> Result<()> {
    if let Some(r) = cx.rows(0) {
        let mut value = Tensor::empty(r.value.dtype(), r.value.dims())?;
        scaled(cx, &r.value, &mut value)?;
        cx.set(0, SelectedRows { value, ..r.clone() });
        return Ok(());
    }
    let x = cx.input(0)?;
    let mut out = cx.take_out(0)?;
    scaled(cx, x, &mut out)?;
    cx.set(0, out);
    Ok(())
}

fn scale_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    let mut g = scaled_grad(f.attrs::<ScaleAttrs>().scale)?;
    if f.ins.get(1).is_some_and(|&n| n > 0) {
        g.ins.push(vec![Src::In(1, None)]);
    }
    Ok(vec![g])
}

/// The output has the kind (dense or SelectedRows) and LoD of the first input.
fn kind_of_first(cx: &mut Infer) -> Result<()> {
    let m = cx.meta(0, 0)?;
    cx.set_meta(0, 0, m);
    Ok(())
}

fn scale_point(p: &mut Points) -> Option<()> {
    let a = p.attrs::<ScaleAttrs>();
    let row = if a.bias_after_scale { &rows::scale } else { &rows::scale_bias_first };
    if p.has(1) {
        None
    } else {
        point::by_row(p, row, &[a.scale as f64, a.bias as f64])
    }
}

pub static SCALE: Op = Op {
    name: "scale",
    inputs: &[slot("X"), slot("ScaleTensor").opt()],
    outputs: &[slot("Out")],
    attrs: ScaleAttrs::FIELDS,
    infer: kind_of_first,
    cpu: Kernel::Pure(scale),
    grad: Grad::Fn(scale_grad),
    point: Some(scale_point),
    ..OP
};

// sum: dense tensors, SelectedRows, or both; also tensor arrays.

fn infer_sum(cx: &mut Infer) -> Result<()> {
    let n = cx.count(0);
    ensure!(n > 0, InvalidArgument, "operator sum needs at least one input");
    // Dense if anything is dense; an input that is not there yet counts for nothing.
    let mut out: Option<oar_core::op::Meta> = None;
    for i in 0..n {
        let Ok(m) = cx.meta(0, i) else { continue };
        if m.kind == VarKind::Array {
            cx.set_meta(0, 0, m);
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
    let Some(mut m) = out else { return cx.wrong(0, "initialised") };
    if m.kind == VarKind::Dense {
        m.lod = cx.tensor(0).and_then(|t| t.lod.clone());
    }
    cx.set_meta(0, 0, m);
    Ok(())
}

fn sum(cx: &mut Run) -> Result<()> {
    let values: Vec<&Value> = cx.ins.slot(0).iter().filter(|v| !v.is_none()).collect();
    if let [only] = values[..] {
        let same = only.share()?;
        cx.set(0, same);
        return Ok(());
    }
    if let Some(Value::Array(_)) = values.first() {
        return sum_arrays(cx, &values);
    }
    // Beside others a tensor without dimensions is one that nobody has given a value.
    let scalars = values.iter().all(|v| v.as_dense().is_some_and(|t| t.rank() == 0));
    let dense: Vec<&Tensor> = values.iter().filter_map(|v| v.as_dense()).filter(|t| scalars || t.rank() > 0).collect();
    if dense.is_empty() {
        let all = concat_rows(&values)?;
        cx.set(0, all);
        return Ok(());
    }
    let mut total = match dense[..] {
        [first] => first.deep_copy()?,
        [first, second, ..] => {
            let mut out = cx.take_out(0)?;
            binary_into("sum", Binary::Add, first, second, -1, &mut out)?;
            out
        }
        [] => unreachable!(),
    };
    for t in dense.iter().skip(2) {
        accumulate(&mut total, t)?;
    }
    for v in &values {
        if let Value::Rows(r) = v {
            add_rows(&mut total, r)?;
        }
    }
    total.lod = dense[0].lod.clone();
    cx.set(0, total);
    Ok(())
}

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
    let bytes = value.bytes_mut()?;
    let mut at = 0;
    for p in &parts {
        let b = p.value.bytes();
        bytes[at..at + b.len()].copy_from_slice(b);
        at += b.len();
    }
    oar_core::op::parts::rows::merged("sum", &SelectedRows { rows: Arc::new(rows), height: first.height, value })
}

fn sum_arrays(cx: &mut Run, values: &[&Value]) -> Result<()> {
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
    cx.set(0, Value::Array(Arc::new(total)));
    Ok(())
}

/// Every input's gradient is the output's: one `scale` by 1 each, as in Paddle.
fn sum_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    Ok((0..f.ins[0])
        .filter(|&i| (f.needs)(0, i))
        .map(|i| one(&SCALE, (SCALE.attrs.shared)().clone(), Some(i)))
        .collect())
}

fn sum_point(p: &mut Points) -> Option<()> {
    let terms = p.inputs(0)?;
    let (first, rest) = terms.split_first()?;
    let total = rest.iter().fold(*first, |total, &term| p.binary(Binary::Add, total, term, None));
    p.give(0, total);
    Some(())
}

pub static SUM: Op = Op {
    name: "sum",
    inputs: &[slot("X").many()],
    outputs: &[slot("Out")],
    attrs: SumAttrs::FIELDS,
    infer: infer_sum,
    cpu: Kernel::Pure(sum),
    grad: Grad::Fn(sum_grad),
    point: Some(sum_point),
    ..OP
};

// cast

fn infer_cast(cx: &mut Infer) -> Result<()> {
    let to = cx.attrs::<CastAttrs>().out_dtype;
    let Some(dtype) = DType::from_proto(to) else {
        bail!(InvalidArgument, "operator cast: out_dtype {to} is no data type of tensors")
    };
    if cx.is_run() {
        return Ok(()); // the kernel makes the output, or shares the input
    }
    let dims = cx.dims(0)?;
    cx.set(0, &dims, dtype);
    cx.share_lod(0, 0);
    Ok(())
}

fn cast(cx: &mut Run) -> Result<()> {
    let x = cx.input(0)?;
    let to = cx.attrs::<CastAttrs>().out_dtype;
    let to = DType::from_proto(to).ok_or_else(|| err!(InvalidArgument, "operator cast: no data type {to}"))?;
    cx.set(0, oar_core::op::parts::broadcast::cast(x, to)?);
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
    Ok(vec![one(&CAST, attrs, None)])
}

pub static CAST: Op = Op {
    name: "cast",
    inputs: &[slot("X")],
    outputs: &[slot("Out")],
    attrs: CastAttrs::FIELDS,
    infer: infer_cast,
    cpu: Kernel::Pure(cast),
    grad: Grad::Fn(cast_grad),
    ..OP
};

// assign: the value itself, shared until somebody writes.

pub static ASSIGN: Op = Op {
    name: "assign",
    inputs: &[slot("X").opt()],
    outputs: &[slot("Out")],
    attrs: NoAttrs::FIELDS,
    infer: |cx| if cx.has(0) { kind_of_first(cx) } else { Ok(()) },
    cpu: Kernel::Pure(|cx| {
        let value = cx.value(0)?.share()?;
        cx.set(0, value);
        Ok(())
    }),
    grad: Grad::Fn(|_| Ok(vec![one(&ASSIGN, (ASSIGN.attrs.shared)().clone(), None)])),
    ..OP
};

pub static TABLE: &[&Op] = &[&SCALE, &SUM, &CAST, &ASSIGN];
