//! softmax.

use super::half::in_f32;
use crate::attrs;
use crate::base::{DType, Result};
use crate::op::attrs::Text;
use crate::op::infer::{like_first, like_out_grad};
use crate::op::{slot, Grad, Kernel, Op, Run, OP};
use crate::tensor::Tensor;
use crate::{dispatch, ensure};
use oar_kernels::softmax as kernel;

attrs! {
    pub struct SoftmaxAttrs {
        axis: i32 = -1, use_cudnn: bool = false, data_format: Text = "AnyLayout".into(), use_mkldnn: bool = false,
        mkldnn_data_type: Text = "float32".into(), is_test: bool = false,
    }
}

/// Sizes before, along and after an axis.
pub fn split(op: &str, dims: &[i64], axis: i32) -> Result<(usize, usize, usize)> {
    let k = crate::base::shape::axis(op, axis as i64, dims.len())?;
    let product = |d: &[i64]| d.iter().product::<i64>() as usize;
    Ok((product(&dims[..k]), dims[k] as usize, product(&dims[k + 1..])))
}

/// Refuses a tensor that has not this shape and data type.
pub fn like(cx: &Run, t: &Tensor, dims: &[i64], dtype: DType, what: &str) -> Result<()> {
    ensure!(
        t.dims() == dims && t.dtype() == dtype,
        InvalidArgument,
        "operator {}: {what} must have shape {dims:?} and data type {dtype}, got {t:?}",
        cx.op.name
    );
    Ok(())
}

pub static SOFTMAX: Op = Op {
    name: "softmax",
    inputs: &[slot("X")],
    outputs: &[slot("Out")],
    attrs: SoftmaxAttrs::FIELDS,
    infer: |cx| {
        crate::base::shape::axis(cx.op.name, cx.attrs::<SoftmaxAttrs>().axis as i64, cx.dims(0)?.len())?;
        like_first(cx)
    },
    cpu: Kernel::Pure(|cx| {
        in_f32(cx, 0, |cx| {
            let x = cx.input(0)?;
            let dims = split(cx.op.name, x.dims(), cx.attrs::<SoftmaxAttrs>().axis)?;
            dispatch!(x.dtype(), T in [f32, f64], {
                kernel::softmax(dims, x.data::<T>(), cx.out_data::<T>(0)?);
            }, other => return cx.unsupported(other));
            Ok(())
        })
    }),
    grad: Grad::By(&SOFTMAX_GRAD),
    amp: crate::op::Amp::Black,
    ..OP
};

pub static SOFTMAX_GRAD: Op = Op {
    name: "softmax_grad",
    inputs: &[slot("Out"), slot("Out@GRAD")],
    outputs: &[slot("X@GRAD")],
    attrs: SoftmaxAttrs::FIELDS,
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| {
        in_f32(cx, 0, |cx| {
            let (y, dy) = (cx.input(0)?, cx.input(1)?);
            like(cx, dy, y.dims(), y.dtype(), "the gradient of Out")?;
            let dims = split(cx.op.name, y.dims(), cx.attrs::<SoftmaxAttrs>().axis)?;
            dispatch!(y.dtype(), T in [f32, f64], {
                kernel::softmax_grad(dims, y.data::<T>(), dy.data::<T>(), cx.out_data::<T>(0)?);
            }, other => return cx.unsupported(other));
            Ok(())
        })
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&SOFTMAX, &SOFTMAX_GRAD];
