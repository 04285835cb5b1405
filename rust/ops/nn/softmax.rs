//! softmax.

use oar_core::attrs;
use oar_core::dispatch;
use oar_core::op::attrs::Text;
use oar_core::op::infer::{like_first, like_out_grad};
use oar_core::op::parts::axis::{like, split};
use oar_core::op::parts::half::in_f32;
use oar_core::op::{slot, Grad, Kernel, Op, OP};
use oar_kernels::softmax as kernel;

attrs! {
    pub struct SoftmaxAttrs {
        axis: i32 = -1, use_cudnn: bool = false, data_format: Text = "AnyLayout".into(), use_mkldnn: bool = false,
        mkldnn_data_type: Text = "float32".into(), is_test: bool = false,
    }
}

pub static SOFTMAX: Op = Op {
    name: "softmax",
    inputs: &[slot("X")],
    outputs: &[slot("Out")],
    attrs: SoftmaxAttrs::FIELDS,
    infer: |cx| {
        oar_core::base::shape::axis(cx.op.name, cx.attrs::<SoftmaxAttrs>().axis as i64, cx.dims(0)?.len())?;
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
    quick: Some(|attrs, ins| {
        let &[x] = ins else { return None };
        let a: &SoftmaxAttrs = attrs.as_any().downcast_ref()?;
        let dims = split("softmax", x.dims(), a.axis).ok()?;
        let mut out = x.empty_like().ok()?;
        dispatch!(x.dtype(), T in [f32, f64], {
            kernel::softmax(dims, x.data::<T>(), out.data_mut::<T>().ok()?);
        }, _other => return None);
        Some(out.with_lod(x.lod.clone()))
    }),
    amp: oar_core::op::Amp::Black,
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
