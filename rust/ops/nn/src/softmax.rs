//! softmax and its gradient.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::{like_first, like_out_grad};
use oar_core::op::{Grad, Kernel, Op, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, slots};
use oar_kernels::softmax as kernel;
use oar_ops_common::axis::{like, split};
use oar_ops_common::half::in_f32;

attrs! {
    pub struct SoftmaxAttrs {
        axis: i32 = -1, use_cudnn: bool = false, data_format: Text = "AnyLayout".into(), use_mkldnn: bool = false,
        mkldnn_data_type: Text = "float32".into(), is_test: bool = false,
    }
}

slots! {
    mod softmax { X "X" => OUT "Out" }
    mod softmax_grad { OUT "Out", DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// `out = softmax(x)`; false if the data type has no kernel of its own.
fn run(a: &SoftmaxAttrs, x: &Tensor, out: &mut Tensor) -> Result<bool> {
    let dims = split("softmax", x.dims(), a.axis)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        kernel::softmax(dims, x.data::<T>(), out.data_mut::<T>()?);
    }, _other => return Ok(false));
    Ok(true)
}

pub static SOFTMAX: Op = Op {
    name: "softmax",
    inputs: softmax::INS,
    outputs: softmax::OUTS,
    attrs: SoftmaxAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: |cx| {
        oar_core::base::shape::axis(cx.op.name, cx.attrs::<SoftmaxAttrs>().axis as i64, cx.dims(softmax::X)?.len())?;
        like_first(cx)
    },
    cpu: Kernel::Pure(|cx| {
        in_f32(cx, softmax::X, |cx| {
            let x = cx.input(softmax::X)?;
            match run(cx.attrs::<SoftmaxAttrs>(), x, cx.out(softmax::OUT)?)? {
                true => Ok(()),
                false => cx.unsupported(x.dtype()),
            }
        })
    }),
    grad: Grad::By(&SOFTMAX_GRAD),
    fast_path: Some(|attrs, ins| {
        let &[x] = ins else { return None };
        let mut out = x.empty_like().ok()?;
        run(attrs.as_any().downcast_ref()?, x, &mut out).ok()?.then(|| out.with_lod(x.lod.clone()))
    }),
    amp: oar_core::op::Amp::Black,
    cannot_fail: true,
    ..OP
};

pub static SOFTMAX_GRAD: Op = Op {
    name: "softmax_grad",
    inputs: softmax_grad::INS,
    outputs: softmax_grad::OUTS,
    attrs: SoftmaxAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| {
        in_f32(cx, softmax_grad::OUT, |cx| {
            let (y, dy) = (cx.input(softmax_grad::OUT)?, cx.input(softmax_grad::DOUT)?);
            like(cx, dy, y.dims(), y.dtype(), "the gradient of Out")?;
            let dims = split(cx.op.name, y.dims(), cx.attrs::<SoftmaxAttrs>().axis)?;
            dispatch!(y.dtype(), T in [f32, f64], {
                kernel::softmax_grad(dims, y.data::<T>(), dy.data::<T>(), cx.out_data::<T>(softmax_grad::DX)?);
            }, other => return cx.unsupported(other));
            Ok(())
        })
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&SOFTMAX, &SOFTMAX_GRAD];
