//! Activations and other unary formulas: rows of `oar_kernels::formula_rows` dressed as operators.

use oar_core::attrs;
use oar_core::base::Result;
use oar_core::op::attrs::Text;
use oar_core::op::infer::{like_first, like_out_grad};
use oar_core::op::parts::complex;
use oar_core::op::parts::row::{by_row, scaled_grad};
use oar_core::op::point;
use oar_core::op::{slot, Attrs, Grad, Infer, Kernel, NoAttrs, Op, Run, Slot, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure};
use oar_kernels::elementwise::map;
use oar_kernels::formula::Row;
use oar_kernels::formula_rows as rows;

attrs! {
    pub struct PlainAttrs { use_mkldnn: bool = false, use_cudnn: bool = false }
    pub struct Relu6Attrs { threshold: f32 = 6.0, use_mkldnn: bool = false }
    pub struct LeakyReluAttrs { alpha: f32 = 0.02, use_mkldnn: bool = false }
    pub struct EluAttrs { alpha: f32 = 1.0 }
    pub struct HardSigmoidAttrs { slope: f32 = 0.2, offset: f32 = 0.5 }
    pub struct StanhAttrs { scale_a: f32 = 0.67, scale_b: f32 = 1.7159 }
    pub struct GeluAttrs {
        approximate: bool = false, use_mkldnn: bool = false, mkldnn_data_type: Text = "float32".into(),
        use_cudnn: bool = false,
    }
    pub struct SoftplusAttrs {
        beta: f32 = 1.0, threshold: f32 = 20.0, use_mkldnn: bool = false, use_cudnn: bool = false,
    }
    pub struct BreluAttrs { t_min: f32 = 0.0, t_max: f32 = 24.0 }
    pub struct HardShrinkAttrs { threshold: f32 = 0.5 }
    pub struct MishAttrs { threshold: f32 = 20.0 }
    pub struct SeluAttrs { scale: f32 = 1.050701, alpha: f32 = 1.6732632 }
    pub struct SoftReluAttrs { threshold: f32 = 40.0 }
    pub struct SoftshrinkAttrs { lambda: f32 = 0.5 }
    pub struct SwishAttrs { beta: f32 = 1.0, use_mkldnn: bool = false }
    pub struct HardSwishAttrs { threshold: f32 = 6.0, scale: f32 = 6.0, offset: f32 = 3.0 }
    pub struct ThresholdedReluAttrs { threshold: f32 = 1.0 }
}

/// The parameters of a row, from the operator's attributes.
type Params = fn(&Attrs) -> smallvec::SmallVec<[f64; 4]>;

fn none(_: &Attrs) -> smallvec::SmallVec<[f64; 4]> {
    smallvec::SmallVec::new()
}

macro_rules! params {
    ($attrs:ident:) => { none };
    ($attrs:ident: $($field:ident),*) => {
        |attrs: &Attrs| {
            let a: &$attrs = attrs.as_any().downcast_ref().expect("attributes of another operator");
            let list: smallvec::SmallVec<[f64; 4]> = smallvec::smallvec![$(a.$field as f64),*];
            list
        }
    };
}

/// Integer kernels of the few activations that have them.
fn on_integers(cx: &mut Run, f32s: fn(&mut Run) -> Result<()>, f: fn(i64) -> i64) -> Result<()> {
    let x = cx.input(0)?;
    match x.dtype() {
        oar_core::base::DType::I32 => map(x.data::<i32>(), cx.out_data::<i32>(0)?, |v| f(v as i64) as i32),
        oar_core::base::DType::I64 => map(x.data::<i64>(), cx.out_data::<i64>(0)?, f),
        _ => return f32s(cx),
    }
    Ok(())
}

fn forward(cx: &mut Run, row: &Row, params: Params) -> Result<()> {
    by_row(cx, row, &[cx.input(0)?], &params(cx.attrs), 0)
}

/// The short way, for the types that are common.
fn quick(row: &Row, params: Params, attrs: &Attrs, ins: &[&Tensor]) -> Option<Tensor> {
    let &[x] = ins else { return None };
    let mut out = x.empty_like().ok()?;
    dispatch!(x.dtype(), T in [f32, f64], {
        row.run(&[x.data::<T>()], &params(attrs), out.data_mut::<T>().ok()?);
    }, _other => return None);
    Some(out.with_lod(x.lod.clone()))
}

/// Gradient rows name what they read (`x` or `out` if they do, then `dout`), and so do the slots.
fn backward(cx: &mut Run, row: &Row, params: Params) -> Result<()> {
    let n = row.inputs.len();
    let inputs = [cx.input(0)?, cx.input(n - 1)?];
    by_row(cx, row, &inputs[..n], &params(cx.attrs), 0)
}

const X: &[Slot] = &[slot("X")];
const OUT: &[Slot] = &[slot("Out")];
const X_DOUT: &[Slot] = &[slot("X"), slot("Out@GRAD")];
const DOUT: &[Slot] = &[slot("Out@GRAD")];
const OUT_DOUT: &[Slot] = &[slot("Out"), slot("Out@GRAD")];
const DX: &[Slot] = &[slot("X@GRAD")];

macro_rules! or_none {
    () => {
        Grad::None
    };
    ($grad:expr) => {
        $grad
    };
}

// One row an activation: the static and its gradient's; their names, which are the formulas' too; the attributes, with
// those that the formulas take; what the gradient reads; the gradient's own gradient, if there is one.
macro_rules! activations {
    ($($op:ident $grad:ident = $row:ident $grad_row:ident: $attrs:ident($($param:ident),*) $reads:ident
        $(, $second:expr)?;)*) => {
        $(
            pub static $op: Op = Op {
                name: stringify!($row), inputs: X, outputs: OUT, attrs: $attrs::FIELDS, infer: like_first,
                cpu: Kernel::Pure(|cx| forward(cx, &rows::$row, params!($attrs: $($param),*))), grad: Grad::By(&$grad),
                point: Some(|p| {
                    let params: Params = params!($attrs: $($param),*);
                    point::by_row(p, &rows::$row, &params(p.attrs))
                }),
                quick: Some(|attrs, ins| quick(&rows::$row, params!($attrs: $($param),*), attrs, ins)),
                ..OP
            };
            pub static $grad: Op = Op {
                name: stringify!($grad_row), inputs: $reads, outputs: DX, attrs: $attrs::FIELDS, infer: like_out_grad,
                cpu: Kernel::Pure(|cx| backward(cx, &rows::$grad_row, params!($attrs: $($param),*))),
                grad: or_none!($($second)?),
                point: Some(|p| {
                    let params: Params = params!($attrs: $($param),*);
                    point::by_row(p, &rows::$grad_row, &params(p.attrs))
                }),
                ..OP
            };
        )*
        pub static TABLE: &[&Op] = &[
            $(&$op, &$grad,)* &EXP, &EXP_GRAD, &ABS, &ABS_GRAD, &SQUARE, &SQUARE_GRAD, &GELU, &GELU_GRAD, &FLOOR, &FLOOR_GRAD, &SIGN,
            &RELU_GRAD_GRAD, &LEAKY_RELU_GRAD_GRAD, &ELU_GRAD_GRAD, &ABS_GRAD_GRAD,
            &SQRT_GRAD_GRAD, &RSQRT_GRAD_GRAD, &SQUARE_GRAD_GRAD, &LOG_GRAD_GRAD,
        ];
    };
}

activations! {
    LOG LOG_GRAD = log log_grad: PlainAttrs() X_DOUT, Grad::Map(&LOG_GRAD_GRAD, SECOND_X);
    LOG2 LOG2_GRAD = log2 log2_grad: PlainAttrs() X_DOUT;
    LOG10 LOG10_GRAD = log10 log10_grad: PlainAttrs() X_DOUT;
    LOG1P LOG1P_GRAD = log1p log1p_grad: PlainAttrs() X_DOUT;
    SQRT SQRT_GRAD = sqrt sqrt_grad: PlainAttrs() OUT_DOUT, Grad::Map(&SQRT_GRAD_GRAD, SECOND_OUT);
    RSQRT RSQRT_GRAD = rsqrt rsqrt_grad: PlainAttrs() OUT_DOUT, Grad::Map(&RSQRT_GRAD_GRAD, SECOND_OUT);
    RECIPROCAL RECIPROCAL_GRAD = reciprocal reciprocal_grad: PlainAttrs() OUT_DOUT;
    RELU RELU_GRAD = relu relu_grad: PlainAttrs() OUT_DOUT, Grad::Map(&RELU_GRAD_GRAD, SECOND_X);
    RELU6 RELU6_GRAD = relu6 relu6_grad: Relu6Attrs(threshold) OUT_DOUT;
    BRELU BRELU_GRAD = brelu brelu_grad: BreluAttrs(t_min, t_max) X_DOUT;
    THRESHOLDED_RELU THRESHOLDED_RELU_GRAD = thresholded_relu thresholded_relu_grad: ThresholdedReluAttrs(threshold) X_DOUT;
    LEAKY_RELU LEAKY_RELU_GRAD = leaky_relu leaky_relu_grad: LeakyReluAttrs(alpha) X_DOUT,
        Grad::Map(&LEAKY_RELU_GRAD_GRAD, SECOND_X);
    ELU ELU_GRAD = elu elu_grad: EluAttrs(alpha) X_DOUT, Grad::Map(&ELU_GRAD_GRAD, SECOND_X);
    SELU SELU_GRAD = selu selu_grad: SeluAttrs(scale, alpha) OUT_DOUT;
    HARD_SIGMOID HARD_SIGMOID_GRAD = hard_sigmoid hard_sigmoid_grad: HardSigmoidAttrs(slope, offset) OUT_DOUT;
    SIGMOID SIGMOID_GRAD = sigmoid sigmoid_grad: PlainAttrs() OUT_DOUT;
    LOGSIGMOID LOGSIGMOID_GRAD = logsigmoid logsigmoid_grad: PlainAttrs() X_DOUT;
    TANH TANH_GRAD = tanh tanh_grad: PlainAttrs() OUT_DOUT;
    STANH STANH_GRAD = stanh stanh_grad: StanhAttrs(scale_a, scale_b) X_DOUT;
    TANH_SHRINK TANH_SHRINK_GRAD = tanh_shrink tanh_shrink_grad: PlainAttrs() X_DOUT;
    HARD_SHRINK HARD_SHRINK_GRAD = hard_shrink hard_shrink_grad: HardShrinkAttrs(threshold) X_DOUT;
    SOFTSHRINK SOFTSHRINK_GRAD = softshrink softshrink_grad: SoftshrinkAttrs(lambda) X_DOUT;
    SOFTSIGN SOFTSIGN_GRAD = softsign softsign_grad: PlainAttrs() X_DOUT;
    SOFT_RELU SOFT_RELU_GRAD = soft_relu soft_relu_grad: SoftReluAttrs(threshold) OUT_DOUT;
    SOFTPLUS SOFTPLUS_GRAD = softplus softplus_grad: SoftplusAttrs(beta, threshold) X_DOUT;
    SWISH SWISH_GRAD = swish swish_grad: SwishAttrs(beta) X_DOUT;
    MISH MISH_GRAD = mish mish_grad: MishAttrs(threshold) X_DOUT;
    HARD_SWISH HARD_SWISH_GRAD = hard_swish hard_swish_grad: HardSwishAttrs(threshold, scale, offset) X_DOUT;
    ERF ERF_GRAD = erf erf_grad: NoAttrs() X_DOUT;
    SIN SIN_GRAD = sin sin_grad: PlainAttrs() X_DOUT;
    COS COS_GRAD = cos cos_grad: PlainAttrs() X_DOUT;
    SINH SINH_GRAD = sinh sinh_grad: PlainAttrs() X_DOUT;
    COSH COSH_GRAD = cosh cosh_grad: PlainAttrs() X_DOUT;
    ASIN ASIN_GRAD = asin asin_grad: NoAttrs() X_DOUT;
    ACOS ACOS_GRAD = acos acos_grad: NoAttrs() X_DOUT;
    ATAN ATAN_GRAD = atan atan_grad: NoAttrs() X_DOUT;
    CEIL CEIL_GRAD = ceil ceil_grad: PlainAttrs() DOUT;
    ROUND ROUND_GRAD = round round_grad: PlainAttrs() DOUT;
}

// Those with integer kernels, two formulas, or a gradient that is no formula.

/// Of integers it is the integer part.
pub static EXP: Op = Op {
    name: "exp",
    cpu: Kernel::Pure(|cx| on_integers(cx, |cx| forward(cx, &rows::exp, none), |v| (v as f64).exp() as i64)),
    grad: Grad::By(&EXP_GRAD),
    point: Some(|p| point::by_row(p, &rows::exp, &[])),
    ..plain()
};
pub static EXP_GRAD: Op = Op {
    name: "exp_grad",
    inputs: OUT_DOUT,
    outputs: DX,
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| integer_grad(cx, &rows::exp_grad, |out, d| d.wrapping_mul(out))),
    point: Some(|p| point::by_row(p, &rows::exp_grad, &[])),
    ..plain()
};

pub static ABS: Op = Op {
    name: "abs",
    infer: |cx| {
        let (dims, dtype) = (cx.dims(0)?, cx.dtype(0)?);
        cx.set(0, &dims, dtype.real());
        cx.share_lod(0, 0);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| match cx.input(0)? {
        x if x.dtype().is_complex() => complex::abs(x, cx.out(0)?),
        _ => on_integers(cx, |cx| forward(cx, &rows::abs, none), i64::wrapping_abs),
    }),
    grad: Grad::By(&ABS_GRAD),
    point: Some(|p| point::by_row(p, &rows::abs, &[])),
    ..plain()
};
pub static ABS_GRAD: Op = Op {
    name: "abs_grad",
    inputs: X_DOUT,
    outputs: DX,
    infer: |cx| {
        let (dims, dtype) = (cx.dims(1)?, cx.dtype(0)?);
        cx.set(0, &dims, dtype);
        cx.share_lod(0, 1);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| match cx.input(0)? {
        x if x.dtype().is_complex() => complex::abs_grad(cx.op.name, x, cx.input(1)?, cx.out(0)?),
        _ => integer_grad(cx, &rows::abs_grad, |x, d| d * x.signum()),
    }),
    grad: Grad::Map(&ABS_GRAD_GRAD, SECOND_X),
    point: Some(|p| point::by_row(p, &rows::abs_grad, &[])),
    ..plain()
};
pub static SQUARE: Op = Op {
    name: "square",
    cpu: Kernel::Pure(|cx| on_integers(cx, |cx| forward(cx, &rows::square, none), |v| v.wrapping_mul(v))),
    grad: Grad::By(&SQUARE_GRAD),
    point: Some(|p| point::by_row(p, &rows::square, &[])),
    ..plain()
};
pub static SQUARE_GRAD: Op = Op {
    name: "square_grad",
    inputs: X_DOUT,
    outputs: DX,
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| integer_grad(cx, &rows::square_grad, |x, d| d.wrapping_mul(2).wrapping_mul(x))),
    grad: Grad::Map(&SQUARE_GRAD_GRAD, SECOND_X),
    point: Some(|p| point::by_row(p, &rows::square_grad, &[])),
    ..plain()
};
pub static FLOOR: Op = Op {
    name: "floor",
    cpu: Kernel::Pure(|cx| on_integers(cx, |cx| forward(cx, &rows::floor, none), |v| v)),
    grad: Grad::By(&FLOOR_GRAD),
    point: Some(|p| point::by_row(p, &rows::floor, &[])),
    ..plain()
};
pub static FLOOR_GRAD: Op = Op {
    name: "floor_grad",
    inputs: DOUT,
    outputs: DX,
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| integer_grad(cx, &rows::floor_grad, |_, _| 0)),
    point: Some(|p| point::by_row(p, &rows::floor_grad, &[])),
    ..plain()
};
pub static SIGN: Op = Op {
    name: "sign",
    attrs: NoAttrs::FIELDS,
    cpu: Kernel::Pure(|cx| forward(cx, &rows::sign, none)),
    grad: Grad::Fn(|_| Ok(vec![scaled_grad(0.0)?])),
    point: Some(|p| point::by_row(p, &rows::sign, &[])),
    ..plain()
};

pub static GELU: Op = Op {
    name: "gelu",
    attrs: GeluAttrs::FIELDS,
    cpu: Kernel::Pure(|cx| {
        let row = if cx.attrs::<GeluAttrs>().approximate { &rows::gelu_tanh } else { &rows::gelu };
        forward(cx, row, none)
    }),
    grad: Grad::By(&GELU_GRAD),
    point: Some(|p| {
        let approximate = p.attrs::<GeluAttrs>().approximate;
        point::by_row(p, if approximate { &rows::gelu_tanh } else { &rows::gelu }, &[])
    }),
    ..plain()
};
pub static GELU_GRAD: Op = Op {
    name: "gelu_grad",
    inputs: X_DOUT,
    outputs: DX,
    attrs: GeluAttrs::FIELDS,
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| {
        let row = if cx.attrs::<GeluAttrs>().approximate { &rows::gelu_tanh_grad } else { &rows::gelu_grad };
        backward(cx, row, none)
    }),
    point: Some(|p| {
        let approximate = p.attrs::<GeluAttrs>().approximate;
        point::by_row(p, if approximate { &rows::gelu_tanh_grad } else { &rows::gelu_grad }, &[])
    }),
    ..plain()
};

const fn plain() -> Op {
    Op { inputs: X, outputs: OUT, attrs: PlainAttrs::FIELDS, infer: like_first, ..OP }
}

fn integer_grad(cx: &mut Run, row: &Row, f: fn(i64, i64) -> i64) -> Result<()> {
    let (x, d) = (cx.input(0)?, cx.input(row.inputs.len() - 1)?);
    ensure!(
        x.dtype() == d.dtype(),
        InvalidArgument,
        "operator {}: X and Out@GRAD must have one data type, got {} and {}",
        cx.op.name,
        x.dtype(),
        d.dtype()
    );
    #[allow(clippy::unnecessary_cast)] // one of the two types is i64
    {
        dispatch!(x.dtype(), T in [i32, i64], {
            let out = cx.out_data::<T>(0)?;
            oar_kernels::elementwise::zip(x.data::<T>(), d.data::<T>(), out, |x, d| f(x as i64, d as i64) as T);
            Ok(())
        }, _float => backward(cx, row, none))
    }
}

// Second gradients: slots as Paddle names them, each output a row of what it reads.

const SECOND_X: &[(&str, &str)] =
    &[("DOut", "Out@GRAD"), ("DDX", "X@GRAD@GRAD"), ("DX", "X@GRAD"), ("DDOut", "Out@GRAD@GRAD")];
/// Where the gradient read `Out`: DX is its own output, and DOut the gradient of `Out`.
const SECOND_OUT: &[(&str, &str)] =
    &[("DX", "X@GRAD"), ("DDX", "X@GRAD@GRAD"), ("DOut", "Out@GRAD"), ("DDOut", "Out@GRAD@GRAD")];

fn second_shapes(cx: &mut Infer) -> Result<()> {
    for i in 0..cx.op.outputs.len() {
        cx.like(i, 0)?;
    }
    Ok(())
}

/// Computes each wanted output from (slots read, row); an absent DDX gives zeros.
fn seconds(cx: &mut Run, ddx: usize, outs: &[(&[usize], &Row)], params: &[f64]) -> Result<()> {
    for (slot, (reads, row)) in outs.iter().enumerate() {
        if !cx.wants(slot) {
            continue;
        }
        if !cx.has(ddx) {
            cx.out(slot)?.bytes_mut()?.fill(0);
            continue;
        }
        let inputs = reads.iter().map(|&s| cx.input(s)).collect::<Result<Vec<_>>>()?;
        by_row(cx, row, &inputs, params, slot)?;
    }
    Ok(())
}

const DDX: Slot = slot("DDX").opt();
const DDOUT: &[Slot] = &[slot("DDOut")];

pub static RELU_GRAD_GRAD: Op = Op {
    name: "relu_grad_grad",
    inputs: &[slot("Out"), DDX],
    outputs: DDOUT,
    infer: second_shapes,
    cpu: Kernel::Pure(|cx| seconds(cx, 1, &[(&[0, 1], &rows::relu_grad_grad)], &[])),
    ..plain()
};
pub static LEAKY_RELU_GRAD_GRAD: Op = Op {
    name: "leaky_relu_grad_grad",
    inputs: &[slot("X"), DDX],
    outputs: DDOUT,
    attrs: LeakyReluAttrs::FIELDS,
    infer: second_shapes,
    cpu: Kernel::Pure(|cx| {
        let alpha = cx.attrs::<LeakyReluAttrs>().alpha as f64;
        seconds(cx, 1, &[(&[0, 1], &rows::leaky_relu_grad_grad)], &[alpha])
    }),
    ..plain()
};
pub static ELU_GRAD_GRAD: Op = Op {
    name: "elu_grad_grad",
    inputs: &[slot("X"), slot("DOut"), DDX],
    outputs: &[slot("DX"), slot("DDOut")],
    attrs: EluAttrs::FIELDS,
    infer: second_shapes,
    cpu: Kernel::Pure(|cx| {
        let alpha = cx.attrs::<EluAttrs>().alpha as f64;
        seconds(cx, 2, &[(&[0, 1, 2], &rows::elu_grad_grad_dx), (&[0, 2], &rows::elu_grad_grad_ddout)], &[alpha])
    }),
    ..plain()
};
pub static ABS_GRAD_GRAD: Op = Op {
    name: "abs_grad_grad",
    inputs: &[slot("X"), DDX],
    outputs: DDOUT,
    infer: |cx| {
        let (dims, dtype) = (cx.dims(0)?, cx.dtype(0)?);
        cx.set(0, &dims, dtype.real());
        Ok(())
    },
    cpu: Kernel::Pure(|cx| match (cx.input(0)?, cx.opt(1)) {
        (x, Some(ddx)) if x.dtype().is_complex() => complex::abs_grad_grad(cx.op.name, x, ddx, cx.out(0)?),
        _ => seconds(cx, 1, &[(&[0, 1], &rows::abs_grad_grad)], &[]),
    }),
    ..plain()
};
pub static SQRT_GRAD_GRAD: Op = Op {
    name: "sqrt_grad_grad",
    inputs: &[slot("Out"), slot("DX"), DDX],
    outputs: &[slot("DOut"), slot("DDOut")],
    infer: second_shapes,
    cpu: Kernel::Pure(|cx| {
        seconds(cx, 2, &[(&[0, 1, 2], &rows::sqrt_grad_grad_dout), (&[0, 2], &rows::sqrt_grad_grad_ddout)], &[])
    }),
    ..plain()
};
pub static RSQRT_GRAD_GRAD: Op = Op {
    name: "rsqrt_grad_grad",
    inputs: &[slot("Out"), slot("DX"), DDX],
    outputs: &[slot("DOut"), slot("DDOut")],
    infer: second_shapes,
    cpu: Kernel::Pure(|cx| {
        seconds(cx, 2, &[(&[0, 1, 2], &rows::rsqrt_grad_grad_dout), (&[0, 2], &rows::rsqrt_grad_grad_ddout)], &[])
    }),
    ..plain()
};
pub static SQUARE_GRAD_GRAD: Op = Op {
    name: "square_grad_grad",
    inputs: &[slot("X"), slot("DOut"), DDX],
    outputs: &[slot("DX"), slot("DDOut")],
    infer: second_shapes,
    cpu: Kernel::Pure(|cx| {
        seconds(cx, 2, &[(&[1, 2], &rows::square_grad_grad_dx), (&[0, 2], &rows::square_grad_grad_ddout)], &[])
    }),
    ..plain()
};
pub static LOG_GRAD_GRAD: Op = Op {
    name: "log_grad_grad",
    inputs: &[slot("X"), slot("DOut"), DDX],
    outputs: &[slot("DX"), slot("DDOut")],
    infer: second_shapes,
    cpu: Kernel::Pure(|cx| {
        seconds(cx, 2, &[(&[0, 1, 2], &rows::log_grad_grad_dx), (&[0, 2], &rows::log_grad_grad_ddout)], &[])
    }),
    ..plain()
};
