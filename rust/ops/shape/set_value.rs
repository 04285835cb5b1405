//! set_value: Out is Input with a slice replaced. Its gradient, which 2.0.2 does not have, is 2.6.2's.

use oar_core::attrs;
use oar_core::base::shape::axis;
use oar_core::base::{DType, Result};
use oar_core::op::parts::broadcast::reduce_to;
use oar_core::op::parts::elements::{copied, reshaped};
use oar_core::op::parts::region::{broadcast_to, span, Region};
use oar_core::op::{slot, Attrs, Dst, Fwd, Grad, GradOp, Kernel, Op, Run, Src, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, ensure};
use std::sync::Arc;

attrs! {
    pub struct SetValueAttrs {
        dtype: i32 = 5, axes: Vec<i64>, starts: Vec<i64>, ends: Vec<i64>, bool_values: Vec<i32> = vec![],
        fp32_values: Vec<f32> = vec![], int32_values: Vec<i32> = vec![], int64_values: Vec<i64> = vec![],
        fp64_values: Vec<f64> = vec![], shape: Vec<i64> = vec![],
    }
}

/// The slice of a tensor of these sizes that the attributes name; of an axis given twice the last word counts.
fn region(op: &str, a: &SetValueAttrs, dims: &[i64]) -> Result<Region> {
    let n = a.axes.len();
    ensure!(
        a.starts.len() == n && a.ends.len() == n,
        InvalidArgument,
        "operator {op}: axes, starts and ends must be equally many, got {n}, {} and {}",
        a.starts.len(),
        a.ends.len()
    );
    let mut spans = vec![None; dims.len()];
    for i in 0..n {
        let at = axis(op, a.axes[i], dims.len())?;
        let (first, step, count) = span(a.starts[i], a.ends[i], 1, dims[at]);
        ensure!(
            count > 0,
            InvalidArgument,
            "operator {op}: end should be greater than start, got start {} and end {} on an axis of size {}",
            a.starts[i],
            a.ends[i],
            dims[at]
        );
        spans[at] = Some((first, step, count));
    }
    let mut region = Region::whole(dims);
    for (at, span) in spans.into_iter().enumerate() {
        if let Some((first, step, count)) = span {
            region.narrow(at, first, step, count);
        }
    }
    Ok(region)
}

fn set_value(cx: &mut Run) -> Result<()> {
    let a = cx.attrs::<SetValueAttrs>();
    let mut out = cx.take_out(0)?;
    let result = (|| {
        let dtype = oar_core::op::parts::given::data_type(cx.op.name, a.dtype)?;
        ensure!(
            dtype == out.dtype(),
            InvalidArgument,
            "operator set_value: attribute dtype is {dtype}, but Input is {}",
            out.dtype()
        );
        let region = region(cx.op.name, a, out.dims())?;
        let value = match cx.opt(1) {
            Some(t) => {
                ensure!(
                    t.dtype() == dtype,
                    InvalidArgument,
                    "operator set_value: ValueTensor is {}, but Input is {dtype}",
                    t.dtype()
                );
                t.clone()
            }
            None => value_of(a, dtype)?,
        };
        region.write(&broadcast_to(cx.op.name, &value, &region.dims)?, &mut out)
    })();
    cx.set(0, out); // also after an error: an input worked on in place must not be lost
    result
}

/// The value that the attributes hold.
fn value_of(a: &SetValueAttrs, dtype: DType) -> Result<Tensor> {
    match dtype {
        DType::Bool => {
            let values: Vec<bool> = a.bool_values.iter().map(|&v| v != 0).collect();
            Tensor::from_slice(&values, &a.shape)
        }
        DType::F32 => Tensor::from_slice(&a.fp32_values, &a.shape),
        DType::F64 => Tensor::from_slice(&a.fp64_values, &a.shape),
        DType::I32 => Tensor::from_slice(&a.int32_values, &a.shape),
        DType::I64 => Tensor::from_slice(&a.int64_values, &a.shape),
        other => bail!(Unimplemented, "operator set_value has no CPU kernel for data type {other}"),
    }
}

pub static SET_VALUE: Op = Op {
    name: "set_value",
    inputs: &[slot("Input"), slot("ValueTensor").opt()],
    outputs: &[slot("Out").aliases("Input")],
    attrs: SetValueAttrs::FIELDS,
    infer: |cx| {
        cx.like(0, 0)?;
        cx.share_lod(0, 0);
        Ok(())
    },
    cpu: Kernel::Pure(set_value),
    grad: Grad::Fn(|fwd| {
        let attrs = fwd.attrs.clone();
        let has_value = (fwd.ins[1] > 0) as usize;
        Ok(vec![GradOp {
            op: &SET_VALUE_GRAD,
            attrs,
            ins: vec![vec![Src::GradOut(0, None)], vec![Src::In(1, None); has_value]],
            outs: vec![vec![Dst(0, None)], vec![Dst(1, None); has_value]],
        }])
    }),
    ..OP
};

/// The same slice set to zero.
fn zeros(a: &SetValueAttrs) -> Attrs {
    Arc::new(SetValueAttrs {
        shape: vec![1],
        bool_values: vec![0],
        fp32_values: vec![0.0],
        int32_values: vec![0],
        int64_values: vec![0],
        fp64_values: vec![0.0],
        ..a.clone()
    })
}

/// What was replaced gets no gradient; the value gets that of the slice, summed where it was repeated.
fn set_value_grad(cx: &mut Run) -> Result<()> {
    let dout = cx.input(0)?;
    let region = region(cx.op.name, cx.attrs(), dout.dims())?;
    if cx.wants(0) {
        let mut dx = copied(dout)?;
        region.write(&Tensor::zeros(dout.dtype(), &region.dims)?, &mut dx)?;
        cx.set(0, dx);
    }
    if cx.wants(1) {
        let value = cx.input(1)?;
        let mut from = value.dims();
        while from.len() > region.dims.len() && from[0] == 1 {
            from = &from[1..];
        }
        let part = region.read(dout, &region.dims)?;
        cx.set(1, reshaped(&reduce_to(part, from, -1)?, value.dims())?);
    }
    Ok(())
}

pub static SET_VALUE_GRAD: Op = Op {
    name: "set_value_grad",
    inputs: &[slot("Out@GRAD"), slot("ValueTensor").opt().meta_only()],
    outputs: &[slot("Input@GRAD"), slot("ValueTensor@GRAD")],
    attrs: SetValueAttrs::FIELDS,
    infer: |cx| {
        if cx.is_run() {
            return Ok(());
        }
        cx.like(0, 0)?;
        if cx.has(1) {
            cx.like(1, 1)?;
        }
        Ok(())
    },
    cpu: Kernel::Pure(set_value_grad),
    grad: Grad::Fn(second),
    ..OP
};

/// The gradient is linear in Out@GRAD: its own is an assignment again, of zeros where no gradient of the value comes.
fn second(fwd: &Fwd) -> Result<Vec<GradOp>> {
    Ok(vec![GradOp {
        op: &SET_VALUE,
        attrs: zeros(fwd.attrs()),
        ins: vec![vec![Src::GradOut(0, None)], vec![Src::GradOut(1, None); (fwd.outs[1] > 0) as usize]],
        outs: vec![vec![Dst(0, None)]],
    }])
}

pub static TABLE: &[&Op] = &[&SET_VALUE, &SET_VALUE_GRAD];
