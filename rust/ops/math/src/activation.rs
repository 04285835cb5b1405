//! Activations and other unary operators, built from rows of the elementwise formula table
//! (`oar_kernels::formula::rows`).

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::{like_first, like_out_grad};
use oar_core::op::pointwise;
use oar_core::op::{Attrs, Grad, InSlot, Kernel, KernelContext, NoAttrs, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::elementwise::map;
use oar_kernels::formula::rows;
use oar_kernels::formula::Row;
use oar_ops_common::complex;
use oar_ops_common::formula::{by_row, scaled_grad};

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

/// Reads the formula's parameters from the operator's attributes.
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

slots! {
    mod unary { X "X" => OUT "Out" }
    // Each module is named after the formula argument that the gradient reads before `dout`.
    mod reads_x { X "X", DOUT "Out@GRAD" => DX "X@GRAD" }
    mod reads_out { OUT "Out", DOUT "Out@GRAD" => DX "X@GRAD" }
    mod reads_dout { DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// Data types that formulas support.
const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);
/// Data types of the operators that also have integer kernels.
const FLOATS_INDICES: DTypes = FLOATS.union(DTypes::INDICES);

/// `f` on int32 and int64 tensors, the operator's formula (`floats`) on others.
fn on_integers(cx: &mut KernelContext, floats: fn(&mut KernelContext) -> Result<()>, f: fn(i64) -> i64) -> Result<()> {
    let x = cx.input(unary::X)?;
    match x.dtype() {
        DType::I32 => map(x.data::<i32>(), cx.out_data::<i32>(unary::OUT)?, |v| f(v as i64) as i32),
        DType::I64 => map(x.data::<i64>(), cx.out_data::<i64>(unary::OUT)?, f),
        _ => return floats(cx),
    }
    Ok(())
}

fn forward(cx: &mut KernelContext, row: &Row, params: Params) -> Result<()> {
    by_row(cx, row, &[cx.input(unary::X)?], &params(cx.attrs), unary::OUT)
}

/// Eager fast path for float32 and float64.
fn fast_path(row: &Row, params: Params, attrs: &Attrs, ins: &[&Tensor]) -> Option<Tensor> {
    let &[x] = ins else { return None };
    let mut out = x.empty_like().ok()?;
    dispatch!(x.dtype(), T in [f32, f64], {
        row.run(&[x.data::<T>()], &params(attrs), out.data_mut::<T>().ok()?);
    }, _other => return None);
    Some(out.with_lod(x.lod.clone()))
}

/// The slot of `Out@GRAD`. Slots follow the order of the formula's arguments, whose last one is `dout`.
fn dout_slot(row: &Row) -> InSlot {
    InSlot(row.inputs.len() - 1)
}

/// The gradient of X by a formula of (x, dout), (out, dout) or dout alone.
fn backward(cx: &mut KernelContext, row: &Row, params: Params) -> Result<()> {
    let inputs = [cx.input(InSlot(0))?, cx.input(dout_slot(row))?];
    by_row(cx, row, &inputs[..row.inputs.len()], &params(cx.attrs), reads_x::DX)
}

macro_rules! or_none {
    () => {
        Grad::None
    };
    ($grad:expr) => {
        $grad
    };
}

// One row per activation: forward and gradient statics; their names (also the formulas' names); the attributes, with
// those that are formula parameters; the gradient's slots; the second gradient, if any.
macro_rules! activations {
    ($($op:ident $grad:ident = $row:ident $grad_row:ident: $attrs:ident($($param:ident),*) $reads:ident
        $(, $second:expr)?;)*) => {
        $(
            pub static $op: Op = Op {
                name: stringify!($row), inputs: unary::INS, outputs: unary::OUTS, attrs: $attrs::FIELDS, infer: like_first,
                dtypes: FLOATS,
                cpu: Kernel::Pure(|cx| forward(cx, &rows::$row, params!($attrs: $($param),*))), grad: Grad::By(&$grad),
                pointwise: Some(|p| {
                    let params: Params = params!($attrs: $($param),*);
                    pointwise::by_row(p, &rows::$row, &params(p.attrs))
                }),
                fast_path: Some(|attrs, ins| fast_path(&rows::$row, params!($attrs: $($param),*), attrs, ins)),
                ..OP
            };
            pub static $grad: Op = Op {
                name: stringify!($grad_row), inputs: $reads::INS, outputs: $reads::OUTS, attrs: $attrs::FIELDS,
                infer: like_out_grad, dtypes: FLOATS,
                cpu: Kernel::Pure(|cx| backward(cx, &rows::$grad_row, params!($attrs: $($param),*))),
                grad: or_none!($($second)?),
                pointwise: Some(|p| {
                    let params: Params = params!($attrs: $($param),*);
                    pointwise::by_row(p, &rows::$grad_row, &params(p.attrs))
                }),
                ..OP
            };
        )*
        pub static TABLE: &[&Op] = &[
            $(&$op, &$grad,)* &EXP, &EXP_GRAD, &ABS, &ABS_GRAD, &SQUARE, &SQUARE_GRAD, &GELU, &GELU_GRAD, &FLOOR, &FLOOR_GRAD, &SIGN,
            &RELU_GRAD_GRAD, &LEAKY_RELU_GRAD_GRAD, &ELU_GRAD_GRAD, &ABS_GRAD_GRAD,
            &SQRT_GRAD_GRAD, &RSQRT_GRAD_GRAD, &SQUARE_GRAD_GRAD, &LOG_GRAD_GRAD, &SIGMOID_GRAD_GRAD, &TANH_GRAD_GRAD,
            &EXP_GRAD_GRAD, &SIN_GRAD_GRAD, &COS_GRAD_GRAD, &SOFTPLUS_GRAD_GRAD,
        ];
    };
}

activations! {
    LOG LOG_GRAD = log log_grad: PlainAttrs() reads_x, Grad::Map(&LOG_GRAD_GRAD, SECOND_X);
    LOG2 LOG2_GRAD = log2 log2_grad: PlainAttrs() reads_x;
    LOG10 LOG10_GRAD = log10 log10_grad: PlainAttrs() reads_x;
    LOG1P LOG1P_GRAD = log1p log1p_grad: PlainAttrs() reads_x;
    SQRT SQRT_GRAD = sqrt sqrt_grad: PlainAttrs() reads_out, Grad::Map(&SQRT_GRAD_GRAD, SECOND_OUT);
    RSQRT RSQRT_GRAD = rsqrt rsqrt_grad: PlainAttrs() reads_out, Grad::Map(&RSQRT_GRAD_GRAD, SECOND_OUT);
    RECIPROCAL RECIPROCAL_GRAD = reciprocal reciprocal_grad: PlainAttrs() reads_out;
    RELU RELU_GRAD = relu relu_grad: PlainAttrs() reads_out, Grad::Map(&RELU_GRAD_GRAD, SECOND_X);
    RELU6 RELU6_GRAD = relu6 relu6_grad: Relu6Attrs(threshold) reads_out;
    BRELU BRELU_GRAD = brelu brelu_grad: BreluAttrs(t_min, t_max) reads_x;
    THRESHOLDED_RELU THRESHOLDED_RELU_GRAD = thresholded_relu thresholded_relu_grad: ThresholdedReluAttrs(threshold) reads_x;
    LEAKY_RELU LEAKY_RELU_GRAD = leaky_relu leaky_relu_grad: LeakyReluAttrs(alpha) reads_x,
        Grad::Map(&LEAKY_RELU_GRAD_GRAD, SECOND_X);
    ELU ELU_GRAD = elu elu_grad: EluAttrs(alpha) reads_x, Grad::Map(&ELU_GRAD_GRAD, SECOND_X);
    SELU SELU_GRAD = selu selu_grad: SeluAttrs(scale, alpha) reads_out;
    HARD_SIGMOID HARD_SIGMOID_GRAD = hard_sigmoid hard_sigmoid_grad: HardSigmoidAttrs(slope, offset) reads_out;
    SIGMOID SIGMOID_GRAD = sigmoid sigmoid_grad: PlainAttrs() reads_out,
        Grad::Map(&SIGMOID_GRAD_GRAD, SECOND_OUT_DOUT);
    LOGSIGMOID LOGSIGMOID_GRAD = logsigmoid logsigmoid_grad: PlainAttrs() reads_x;
    TANH TANH_GRAD = tanh tanh_grad: PlainAttrs() reads_out, Grad::Map(&TANH_GRAD_GRAD, SECOND_OUT_DOUT);
    STANH STANH_GRAD = stanh stanh_grad: StanhAttrs(scale_a, scale_b) reads_x;
    TANH_SHRINK TANH_SHRINK_GRAD = tanh_shrink tanh_shrink_grad: PlainAttrs() reads_x;
    HARD_SHRINK HARD_SHRINK_GRAD = hard_shrink hard_shrink_grad: HardShrinkAttrs(threshold) reads_x;
    SOFTSHRINK SOFTSHRINK_GRAD = softshrink softshrink_grad: SoftshrinkAttrs(lambda) reads_x;
    SOFTSIGN SOFTSIGN_GRAD = softsign softsign_grad: PlainAttrs() reads_x;
    SOFT_RELU SOFT_RELU_GRAD = soft_relu soft_relu_grad: SoftReluAttrs(threshold) reads_out;
    SOFTPLUS SOFTPLUS_GRAD = softplus softplus_grad: SoftplusAttrs(beta, threshold) reads_x,
        Grad::Map(&SOFTPLUS_GRAD_GRAD, SECOND_X);
    SWISH SWISH_GRAD = swish swish_grad: SwishAttrs(beta) reads_x;
    MISH MISH_GRAD = mish mish_grad: MishAttrs(threshold) reads_x;
    HARD_SWISH HARD_SWISH_GRAD = hard_swish hard_swish_grad: HardSwishAttrs(threshold, scale, offset) reads_x;
    ERF ERF_GRAD = erf erf_grad: NoAttrs() reads_x;
    SIN SIN_GRAD = sin sin_grad: PlainAttrs() reads_x, Grad::Map(&SIN_GRAD_GRAD, SECOND_X);
    COS COS_GRAD = cos cos_grad: PlainAttrs() reads_x, Grad::Map(&COS_GRAD_GRAD, SECOND_X);
    SINH SINH_GRAD = sinh sinh_grad: PlainAttrs() reads_x;
    COSH COSH_GRAD = cosh cosh_grad: PlainAttrs() reads_x;
    ASIN ASIN_GRAD = asin asin_grad: NoAttrs() reads_x;
    ACOS ACOS_GRAD = acos acos_grad: NoAttrs() reads_x;
    ATAN ATAN_GRAD = atan atan_grad: NoAttrs() reads_x;
    CEIL CEIL_GRAD = ceil ceil_grad: PlainAttrs() reads_dout;
    ROUND ROUND_GRAD = round round_grad: PlainAttrs() reads_dout;
}

// Activations with integer kernels, two formulas, or a gradient that is not a formula.

/// Integer inputs yield the integer part of the result.
pub static EXP: Op = Op {
    name: "exp",
    dtypes: FLOATS_INDICES,
    cpu: Kernel::Pure(|cx| on_integers(cx, |cx| forward(cx, &rows::exp, none), |v| (v as f64).exp() as i64)),
    grad: Grad::By(&EXP_GRAD),
    pointwise: Some(|p| pointwise::by_row(p, &rows::exp, &[])),
    ..plain()
};
pub static EXP_GRAD: Op = Op {
    name: "exp_grad",
    dtypes: FLOATS_INDICES,
    inputs: reads_out::INS,
    outputs: reads_out::OUTS,
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| integer_grad(cx, &rows::exp_grad, |out, d| d.wrapping_mul(out))),
    grad: Grad::Map(&EXP_GRAD_GRAD, SECOND_OUT_DOUT),
    pointwise: Some(|p| pointwise::by_row(p, &rows::exp_grad, &[])),
    ..plain()
};

pub static ABS: Op = Op {
    name: "abs",
    dtypes: FLOATS_INDICES.union(DTypes::COMPLEX),
    infer: |cx| {
        let (dims, dtype) = (cx.dims(unary::X)?, cx.dtype(unary::X)?);
        cx.set(unary::OUT, &dims, dtype.real());
        cx.share_lod(unary::OUT, unary::X);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| match cx.input(unary::X)? {
        x if x.dtype().is_complex() => complex::abs(x, cx.out(unary::OUT)?),
        _ => on_integers(cx, |cx| forward(cx, &rows::abs, none), i64::wrapping_abs),
    }),
    grad: Grad::By(&ABS_GRAD),
    pointwise: Some(|p| pointwise::by_row(p, &rows::abs, &[])),
    ..plain()
};
pub static ABS_GRAD: Op = Op {
    name: "abs_grad",
    dtypes: FLOATS_INDICES.union(DTypes::COMPLEX),
    inputs: reads_x::INS,
    outputs: reads_x::OUTS,
    infer: |cx| {
        let (dims, dtype) = (cx.dims(reads_x::DOUT)?, cx.dtype(reads_x::X)?);
        cx.set(reads_x::DX, &dims, dtype);
        cx.share_lod(reads_x::DX, reads_x::DOUT);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| match cx.input(reads_x::X)? {
        x if x.dtype().is_complex() => complex::abs_grad(cx.op.name, x, cx.input(reads_x::DOUT)?, cx.out(reads_x::DX)?),
        _ => integer_grad(cx, &rows::abs_grad, |x, d| d * x.signum()),
    }),
    grad: Grad::Map(&ABS_GRAD_GRAD, SECOND_X),
    pointwise: Some(|p| pointwise::by_row(p, &rows::abs_grad, &[])),
    ..plain()
};
pub static SQUARE: Op = Op {
    name: "square",
    dtypes: FLOATS_INDICES,
    cpu: Kernel::Pure(|cx| on_integers(cx, |cx| forward(cx, &rows::square, none), |v| v.wrapping_mul(v))),
    grad: Grad::By(&SQUARE_GRAD),
    pointwise: Some(|p| pointwise::by_row(p, &rows::square, &[])),
    ..plain()
};
pub static SQUARE_GRAD: Op = Op {
    name: "square_grad",
    dtypes: FLOATS_INDICES,
    inputs: reads_x::INS,
    outputs: reads_x::OUTS,
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| integer_grad(cx, &rows::square_grad, |x, d| d.wrapping_mul(2).wrapping_mul(x))),
    grad: Grad::Map(&SQUARE_GRAD_GRAD, SECOND_X),
    pointwise: Some(|p| pointwise::by_row(p, &rows::square_grad, &[])),
    ..plain()
};
pub static FLOOR: Op = Op {
    name: "floor",
    dtypes: FLOATS_INDICES,
    cpu: Kernel::Pure(|cx| on_integers(cx, |cx| forward(cx, &rows::floor, none), |v| v)),
    grad: Grad::By(&FLOOR_GRAD),
    pointwise: Some(|p| pointwise::by_row(p, &rows::floor, &[])),
    ..plain()
};
pub static FLOOR_GRAD: Op = Op {
    name: "floor_grad",
    dtypes: FLOATS_INDICES,
    inputs: reads_dout::INS,
    outputs: reads_dout::OUTS,
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| integer_grad(cx, &rows::floor_grad, |_, _| 0)),
    pointwise: Some(|p| pointwise::by_row(p, &rows::floor_grad, &[])),
    ..plain()
};
pub static SIGN: Op = Op {
    name: "sign",
    attrs: NoAttrs::FIELDS,
    cpu: Kernel::Pure(|cx| forward(cx, &rows::sign, none)),
    grad: Grad::Fn(|_| Ok(vec![scaled_grad(0.0)?])),
    pointwise: Some(|p| pointwise::by_row(p, &rows::sign, &[])),
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
    pointwise: Some(|p| {
        let approximate = p.attrs::<GeluAttrs>().approximate;
        pointwise::by_row(p, if approximate { &rows::gelu_tanh } else { &rows::gelu }, &[])
    }),
    ..plain()
};
pub static GELU_GRAD: Op = Op {
    name: "gelu_grad",
    inputs: reads_x::INS,
    outputs: reads_x::OUTS,
    attrs: GeluAttrs::FIELDS,
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| {
        let row = if cx.attrs::<GeluAttrs>().approximate { &rows::gelu_tanh_grad } else { &rows::gelu_grad };
        backward(cx, row, none)
    }),
    pointwise: Some(|p| {
        let approximate = p.attrs::<GeluAttrs>().approximate;
        pointwise::by_row(p, if approximate { &rows::gelu_tanh_grad } else { &rows::gelu_grad }, &[])
    }),
    ..plain()
};

const fn plain() -> Op {
    Op { inputs: unary::INS, outputs: unary::OUTS, attrs: PlainAttrs::FIELDS, infer: like_first, dtypes: FLOATS, ..OP }
}

/// Applies `f` to (the formula's first argument, dout) for int32 and int64, the formula otherwise.
fn integer_grad(cx: &mut KernelContext, row: &Row, f: fn(i64, i64) -> i64) -> Result<()> {
    let (x, d) = (cx.input(InSlot(0))?, cx.input(dout_slot(row))?);
    ensure!(
        x.dtype() == d.dtype() && x.dims() == d.dims(),
        InvalidArgument,
        "operator {}: its inputs must be alike, got {x:?} and {d:?}",
        cx.op.name
    );
    #[allow(clippy::unnecessary_cast)] // one of the two types is i64
    {
        dispatch!(x.dtype(), T in [i32, i64], {
            let out = cx.out_data::<T>(reads_x::DX)?;
            oar_kernels::elementwise::zip(x.data::<T>(), d.data::<T>(), out, |x, d| f(x as i64, d as i64) as T);
            Ok(())
        }, _float => backward(cx, row, none))
    }
}

// Second gradients, with Paddle's slot names; each output is one formula row. Those of sigmoid, tanh, exp, sin, cos and
// softplus do not exist in 2.0.2. A gradient is linear in dout, so DDOut is the gradient's row applied to ddx.

slots! {
    mod second_of_out { OUT "Out", DDX "DDX".dispensable() => DDOUT "DDOut" }
    mod second_of_x { X "X", DDX "DDX".dispensable() => DDOUT "DDOut" }
    // The first output is the gradient of the tensor that the first gradient reads (X or Out).
    mod second_of_x_dout { X "X", DOUT "DOut", DDX "DDX".dispensable() => DX "DX", DDOUT "DDOut" }
    mod second_of_out_dout { OUT "Out", DOUT "DOut", DDX "DDX".dispensable() => DOUT_NEW "DOutNew", DDOUT "DDOut" }
    mod second_of_out_dx { OUT "Out", DX "DX", DDX "DDX".dispensable() => DOUT "DOut", DDOUT "DDOut" }
}

const SECOND_X: &[(&str, &str)] =
    &[("DOut", "Out@GRAD"), ("DDX", "X@GRAD@GRAD"), ("DX", "X@GRAD"), ("DDOut", "Out@GRAD@GRAD")];
/// Wiring when the gradient reads `Out`: DOut is the gradient of `Out`.
const SECOND_OUT: &[(&str, &str)] =
    &[("DX", "X@GRAD"), ("DDX", "X@GRAD@GRAD"), ("DOut", "Out@GRAD"), ("DDOut", "Out@GRAD@GRAD")];

/// Wiring when the gradient reads `Out` and the second gradient reads `Out@GRAD`.
const SECOND_OUT_DOUT: &[(&str, &str)] =
    &[("DOut", "Out@GRAD"), ("DDX", "X@GRAD@GRAD"), ("DOutNew", "Out@GRAD"), ("DDOut", "Out@GRAD@GRAD")];

/// All outputs are like the first input.
fn second_shapes(cx: &mut ShapeContext) -> Result<()> {
    for i in 0..cx.op.outputs.len() {
        cx.like(OutSlot(i), InSlot(0))?;
    }
    Ok(())
}

/// Computes each requested output from (input slots, formula row). An absent DDX, the last slot, yields zeros.
fn seconds(cx: &mut KernelContext, outs: &[(&[InSlot], &Row)], params: &[f64]) -> Result<()> {
    let ddx = InSlot(cx.op.inputs.len() - 1);
    for (i, (reads, row)) in outs.iter().enumerate() {
        let out = OutSlot(i);
        if !cx.wants(out) {
            continue;
        }
        if !cx.has(ddx) {
            cx.out(out)?.bytes_mut()?.fill(0);
            continue;
        }
        let inputs = reads.iter().map(|&slot| cx.input(slot)).collect::<Result<Vec<_>>>()?;
        by_row(cx, row, &inputs, params, out)?;
    }
    Ok(())
}

// Input slots of the rows. second_of_out_dout has Out where second_of_x_dout has X.
const OUT_DDX: &[InSlot] = &[second_of_out::OUT, second_of_out::DDX];
const X_DDX: &[InSlot] = &[second_of_x::X, second_of_x::DDX];
const X_DOUT_DDX: &[InSlot] = &[second_of_x_dout::X, second_of_x_dout::DOUT, second_of_x_dout::DDX];
const X_AND_DDX: &[InSlot] = &[second_of_x_dout::X, second_of_x_dout::DDX];
const DOUT_AND_DDX: &[InSlot] = &[second_of_x_dout::DOUT, second_of_x_dout::DDX];
const OUT_DX_DDX: &[InSlot] = &[second_of_out_dx::OUT, second_of_out_dx::DX, second_of_out_dx::DDX];
const OUT_AND_DDX: &[InSlot] = &[second_of_out_dx::OUT, second_of_out_dx::DDX];

// One row per operator: static, name, slots, attributes, formula parameters; for each output its input slots and
// formula.
macro_rules! second_gradients {
    ($($op:ident $name:literal $slots:ident $attrs:ident($($param:ident),*): $($reads:ident $row:ident),*;)*) => {$(
        pub static $op: Op = Op {
            name: $name, inputs: $slots::INS, outputs: $slots::OUTS, attrs: $attrs::FIELDS, infer: second_shapes,
            cpu: Kernel::Pure(|cx| {
                let params: Params = params!($attrs: $($param),*);
                seconds(cx, &[$(($reads, &rows::$row)),*], &params(cx.attrs))
            }),
            ..plain()
        };
    )*};
}
second_gradients! {
    RELU_GRAD_GRAD "relu_grad_grad" second_of_out PlainAttrs(): OUT_DDX relu_grad_grad;
    LEAKY_RELU_GRAD_GRAD "leaky_relu_grad_grad" second_of_x LeakyReluAttrs(alpha): X_DDX leaky_relu_grad_grad;
    ELU_GRAD_GRAD "elu_grad_grad" second_of_x_dout EluAttrs(alpha):
        X_DOUT_DDX elu_grad_grad_dx, X_AND_DDX elu_grad_grad_ddout;
    SQRT_GRAD_GRAD "sqrt_grad_grad" second_of_out_dx PlainAttrs():
        OUT_DX_DDX sqrt_grad_grad_dout, OUT_AND_DDX sqrt_grad_grad_ddout;
    RSQRT_GRAD_GRAD "rsqrt_grad_grad" second_of_out_dx PlainAttrs():
        OUT_DX_DDX rsqrt_grad_grad_dout, OUT_AND_DDX rsqrt_grad_grad_ddout;
    SQUARE_GRAD_GRAD "square_grad_grad" second_of_x_dout PlainAttrs():
        DOUT_AND_DDX square_grad_grad_dx, X_AND_DDX square_grad_grad_ddout;
    LOG_GRAD_GRAD "log_grad_grad" second_of_x_dout PlainAttrs():
        X_DOUT_DDX log_grad_grad_dx, X_AND_DDX log_grad_grad_ddout;
    SIGMOID_GRAD_GRAD "sigmoid_grad_grad" second_of_out_dout PlainAttrs():
        X_DOUT_DDX sigmoid_grad_grad_out, X_AND_DDX sigmoid_grad;
    TANH_GRAD_GRAD "tanh_grad_grad" second_of_out_dout PlainAttrs():
        X_DOUT_DDX tanh_grad_grad_out, X_AND_DDX tanh_grad;
    EXP_GRAD_GRAD "exp_grad_grad" second_of_out_dout PlainAttrs(): DOUT_AND_DDX exp_grad, X_AND_DDX exp_grad;
    SIN_GRAD_GRAD "sin_grad_grad" second_of_x_dout PlainAttrs():
        X_DOUT_DDX sin_grad_grad_dx, X_AND_DDX sin_grad;
    COS_GRAD_GRAD "cos_grad_grad" second_of_x_dout PlainAttrs():
        X_DOUT_DDX cos_grad_grad_dx, X_AND_DDX cos_grad;
    SOFTPLUS_GRAD_GRAD "softplus_grad_grad" second_of_x_dout SoftplusAttrs(beta, threshold):
        X_DOUT_DDX softplus_grad_grad_dx, X_AND_DDX softplus_grad;
}

pub static ABS_GRAD_GRAD: Op = Op {
    name: "abs_grad_grad",
    inputs: second_of_x::INS,
    outputs: second_of_x::OUTS,
    dtypes: FLOATS.union(DTypes::COMPLEX),
    infer: |cx| {
        let (dims, dtype) = (cx.dims(second_of_x::X)?, cx.dtype(second_of_x::X)?);
        cx.set(second_of_x::DDOUT, &dims, dtype.real());
        Ok(())
    },
    cpu: Kernel::Pure(|cx| match (cx.input(second_of_x::X)?, cx.opt(second_of_x::DDX)) {
        (x, Some(ddx)) if x.dtype().is_complex() => {
            complex::abs_grad_grad(cx.op.name, x, ddx, cx.out(second_of_x::DDOUT)?)
        }
        _ => seconds(cx, &[(X_DDX, &rows::abs_grad_grad)], &[]),
    }),
    ..plain()
};
