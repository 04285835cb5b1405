//! set_value: Input with a slice replaced. 2.0.2 has no gradient; this one is 2.6.2's.

use oar_core::attrs;
use oar_core::base::shape::axis;
use oar_core::base::{DType, Result};
use oar_core::op::{Attrs, Dst, Fwd, Grad, GradOp, Kernel, KernelContext, Op, Src, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, ensure, slots};
use oar_ops_common::broadcast::reduce_to;
use oar_ops_common::elements::{copy_to, reshaped};
use oar_ops_common::region::{broadcast_to, span, Region};
use oar_ops_common::tensor_attr::data_type;
use std::sync::Arc;

attrs! {
    pub struct SetValueAttrs {
        dtype: i32 = 5, axes: Vec<i64>, starts: Vec<i64>, ends: Vec<i64>, bool_values: Vec<i32> = vec![],
        fp32_values: Vec<f32> = vec![], int32_values: Vec<i32> = vec![], int64_values: Vec<i64> = vec![],
        fp64_values: Vec<f64> = vec![], shape: Vec<i64> = vec![],
    }
}

slots! {
    mod set_value { INPUT "Input", VALUE "ValueTensor".dispensable() => OUT "Out".aliases("Input") }
    mod set_value_grad {
        DOUT "Out@GRAD", VALUE "ValueTensor".dispensable().meta_only() => DINPUT "Input@GRAD", DVALUE "ValueTensor@GRAD".kernel_allocated()
    }
}

/// The slice that the attributes select; of an axis given twice the last entry counts.
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

fn set_value(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<SetValueAttrs>();
    let mut out = cx.take_out(set_value::OUT)?;
    let result = (|| {
        let dtype = data_type(cx.op.name, a.dtype)?;
        ensure!(
            dtype == out.dtype(),
            InvalidArgument,
            "operator set_value: attribute dtype is {dtype}, but Input is {}",
            out.dtype()
        );
        let region = region(cx.op.name, a, out.dims())?;
        let value = match cx.opt(set_value::VALUE) {
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
    cx.set(set_value::OUT, out); // also after an error: the in-place input must not be lost
    result
}

/// The value given by attributes.
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
    inputs: set_value::INS,
    outputs: set_value::OUTS,
    attrs: SetValueAttrs::FIELDS,
    infer: |cx| {
        cx.like(set_value::OUT, set_value::INPUT)?;
        cx.share_lod(set_value::OUT, set_value::INPUT);
        Ok(())
    },
    cpu: Kernel::Pure(set_value),
    grad: Grad::Fn(|fwd| {
        let attrs = fwd.attrs.clone();
        let has_value = (fwd.ins[set_value::VALUE.0] > 0) as usize;
        Ok(vec![GradOp {
            op: &SET_VALUE_GRAD,
            attrs,
            ins: vec![vec![Src::GradOut(set_value::OUT.0, None)], vec![Src::In(set_value::VALUE.0, None); has_value]],
            outs: vec![vec![Dst(set_value::INPUT.0, None)], vec![Dst(set_value::VALUE.0, None); has_value]],
        }])
    }),
    ..OP
};

/// Attributes that set the same slice to zero.
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

/// Input gets the gradient with the slice zeroed; the value gets the slice's gradient, summed over broadcast axes.
fn set_value_grad(cx: &mut KernelContext) -> Result<()> {
    let dout = cx.input(set_value_grad::DOUT)?;
    let region = region(cx.op.name, cx.attrs(), dout.dims())?;
    if cx.wants(set_value_grad::DINPUT) {
        let dx = cx.out(set_value_grad::DINPUT)?;
        copy_to(dout, dx)?;
        region.write(&Tensor::zeros(dout.dtype(), &region.dims)?, dx)?;
    }
    if cx.wants(set_value_grad::DVALUE) {
        let value = cx.input(set_value_grad::VALUE)?;
        let mut from = value.dims();
        while from.len() > region.dims.len() && from[0] == 1 {
            from = &from[1..];
        }
        let part = region.read(dout, &region.dims)?;
        cx.set(set_value_grad::DVALUE, reshaped(&reduce_to(part, from, -1)?, value.dims())?);
    }
    Ok(())
}

pub static SET_VALUE_GRAD: Op = Op {
    name: "set_value_grad",
    inputs: set_value_grad::INS,
    outputs: set_value_grad::OUTS,
    attrs: SetValueAttrs::FIELDS,
    infer: |cx| {
        cx.like(set_value_grad::DINPUT, set_value_grad::DOUT)?;
        cx.share_lod(set_value_grad::DINPUT, set_value_grad::DOUT);
        if cx.has(set_value_grad::VALUE) {
            cx.like(set_value_grad::DVALUE, set_value_grad::VALUE)?;
        }
        Ok(())
    },
    cpu: Kernel::Pure(set_value_grad),
    grad: Grad::Fn(second),
    ..OP
};

/// The gradient is linear in Out@GRAD: its gradient is a set_value of the value's gradient, or of zeros.
fn second(fwd: &Fwd) -> Result<Vec<GradOp>> {
    Ok(vec![GradOp {
        op: &SET_VALUE,
        attrs: zeros(fwd.attrs()),
        ins: vec![
            vec![Src::GradOut(set_value_grad::DINPUT.0, None)],
            vec![Src::GradOut(set_value_grad::DVALUE.0, None); (fwd.outs[set_value_grad::DVALUE.0] > 0) as usize],
        ],
        outs: vec![vec![Dst(set_value_grad::DOUT.0, None)]],
    }])
}

pub static TABLE: &[&Op] = &[&SET_VALUE, &SET_VALUE_GRAD];
