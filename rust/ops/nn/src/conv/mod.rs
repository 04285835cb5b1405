//! Convolutions and transposed convolutions of images and volumes, their gradients and second gradients.

mod attrs;
mod kernel;
mod slots;

use attrs::{Conv3dAttrs, ConvAttrs, Convolves, Transpose3dAttrs, TransposeAttrs};
use kernel::{convolve, convolve_grad, convolve_grad_grad};
use oar_core::base::{DTypes, Result};
use oar_core::op::{Amp, Grad, Kernel, Op, ShapeContext, OP};
use oar_ops_common::half::in_f32;
use slots::{conv, conv3d, conv3d_grad, conv_grad, conv_grad_grad, transpose, transpose3d};

const SECOND: &[(&str, &str)] = &[
    ("DOutput", "Output@GRAD"),
    ("DDInput", "Input@GRAD@GRAD"),
    ("DDFilter", "Filter@GRAD@GRAD"),
    ("DDOutput", "Output@GRAD@GRAD"),
    ("DFilter", "Filter@GRAD"),
    ("DInput", "Input@GRAD"),
];

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

fn infer<A: Convolves>(cx: &mut ShapeContext) -> Result<()> {
    let (x, w, dtype) = (cx.dims(conv::INPUT)?, cx.dims(conv::FILTER)?, cx.dtype(conv::INPUT)?);
    let out = cx.attrs::<A>().convolution(cx.op.name).out(&x, &w)?;
    cx.set(conv::OUTPUT, &out, dtype);
    cx.share_lod(conv::OUTPUT, conv::INPUT);
    Ok(())
}

/// Every `X@GRAD` has the meta of `X`, if `X` is present.
fn infer_grad<A: Convolves>(cx: &mut ShapeContext) -> Result<()> {
    use conv_grad::{BIAS, DBIAS, DFILTER, DINPUT, FILTER, INPUT};
    for (grad, of) in [(DINPUT, INPUT), (DFILTER, FILTER)] {
        cx.like(grad, of)?;
    }
    if A::BIAS && cx.has(BIAS) {
        cx.like(DBIAS, BIAS)?;
    }
    cx.share_lod(DINPUT, INPUT);
    Ok(())
}

fn infer_grad_grad(cx: &mut ShapeContext) -> Result<()> {
    use conv_grad_grad::{DDOUTPUT, DFILTER, DINPUT, DOUTPUT, FILTER, INPUT};
    cx.like(DDOUTPUT, DOUTPUT)?;
    cx.like(DFILTER, FILTER)?;
    cx.like(DINPUT, INPUT)
}

macro_rules! conv_ops {
    ($($attrs:ident, $slots:ident: $op:ident $name:literal, $grads:ident: $grad:ident $grad_name:literal
        $(, $second:ident $second_name:literal)?;)*) => {
        $(
            pub static $op: Op = Op {
                name: $name,
                inputs: $slots::INS,
                outputs: $slots::OUTS,
                attrs: $attrs::FIELDS,
                dtypes: FLOATS,
                infer: infer::<$attrs>,
                cpu: Kernel::Pure(|cx| in_f32(cx, conv::INPUT, convolve::<$attrs>)),
                grad: Grad::By(&$grad),
                amp: Amp::White,
                ..OP
            };
            pub static $grad: Op = Op {
                name: $grad_name,
                inputs: $grads::INS,
                outputs: $grads::OUTS,
                attrs: $attrs::FIELDS,
                dtypes: FLOATS,
                infer: infer_grad::<$attrs>,
                cpu: Kernel::Pure(|cx| in_f32(cx, conv_grad::INPUT, convolve_grad::<$attrs>)),
                $(grad: Grad::Map(&$second, SECOND),)?
                ..OP
            };
            $(
                pub static $second: Op = Op {
                    name: $second_name,
                    inputs: conv_grad_grad::INS,
                    outputs: conv_grad_grad::OUTS,
                    attrs: $attrs::FIELDS,
                    dtypes: FLOATS,
                    infer: infer_grad_grad,
                    cpu: Kernel::Pure(|cx| in_f32(cx, conv_grad_grad::INPUT, convolve_grad_grad::<$attrs>)),
                    ..OP
                };
            )?
        )*
        pub static TABLE: &[&Op] = &[$(&$op, &$grad, $(&$second,)?)*];
    };
}

conv_ops! {
    ConvAttrs, conv: CONV "conv2d", conv_grad: CONV_GRAD "conv2d_grad", CONV_GRAD_GRAD "conv2d_grad_grad";
    ConvAttrs, conv: DEPTHWISE "depthwise_conv2d", conv_grad: DEPTHWISE_GRAD "depthwise_conv2d_grad",
        DEPTHWISE_GRAD_GRAD "depthwise_conv2d_grad_grad";
    Conv3dAttrs, conv3d: CONV3D "conv3d", conv3d_grad: CONV3D_GRAD "conv3d_grad", CONV3D_GRAD_GRAD "conv3d_grad_grad";
    TransposeAttrs, transpose: TRANSPOSE "conv2d_transpose", conv_grad: TRANSPOSE_GRAD "conv2d_transpose_grad",
        TRANSPOSE_GRAD_GRAD "conv2d_transpose_grad_grad";
    TransposeAttrs, transpose: DEPTHWISE_TRANSPOSE "depthwise_conv2d_transpose",
        conv_grad: DEPTHWISE_TRANSPOSE_GRAD "depthwise_conv2d_transpose_grad";
    Transpose3dAttrs, transpose3d: TRANSPOSE3D "conv3d_transpose", conv_grad: TRANSPOSE3D_GRAD "conv3d_transpose_grad";
}
