//! Elementwise comparisons and logical operators, with Paddle's broadcasting.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::shape::to_usize;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::elementwise::{self as ew, Compare, Logic};
use oar_ops_common::broadcast::{broadcast_dims, strides};

attrs! {
    pub struct CompareAttrs { axis: i32 = -1, force_cpu: bool = false }
}

slots! {
    mod binary { X "X", Y "Y" => OUT "Out" }
    mod unary { X "X" => OUT "Out" }
}

/// Data types of comparisons.
const ORDERED: DTypes = DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INTEGERS).union(DTypes::BOOL);

/// Output: bool, the broadcast shape of X and Y, the LoD of X.
fn infer(cx: &mut ShapeContext, axis: i32) -> Result<()> {
    let dims = broadcast_dims(cx.op.name, &cx.dims(binary::X)?, &cx.dims(binary::Y)?, axis)?;
    cx.set(binary::OUT, &dims, DType::Bool);
    cx.share_lod(binary::OUT, binary::X);
    Ok(())
}

/// Binds the operands and their strides in the output's shape.
macro_rules! with_operands {
    ($cx:ident, $axis:expr, |$x:ident, $y:ident, $shape:ident, $sx:ident, $sy:ident| $body:expr) => {{
        let ($x, $y) = ($cx.input(binary::X)?, $cx.input(binary::Y)?);
        ensure!(
            $x.dtype() == $y.dtype(),
            InvalidArgument,
            "operator {}: the data types of X ({}) and Y ({}) must be the same",
            $cx.op.name,
            $x.dtype(),
            $y.dtype()
        );
        if $x.dims() == $y.dims() {
            let ($shape, $sx, $sy) = ([$x.numel()], [1isize], [1isize]);
            $body
        } else {
            let dims = oar_core::base::Dims::from_slice($cx.out(binary::OUT)?.dims());
            let ($sx, $sy) = (strides($x.dims(), &dims, $axis)?, strides($y.dims(), &dims, $axis)?);
            let $shape = to_usize(&dims);
            $body
        }
    }};
}

fn compare(cx: &mut KernelContext, op: Compare) -> Result<()> {
    let axis = cx.attrs::<CompareAttrs>().axis;
    with_operands!(cx, axis, |x, y, shape, sx, sy| {
        dispatch!(x.dtype(), T in [f32, f64, i32, i64, i16, i8, u8, bool, f16, bf16], {
            ew::compare(op, &shape, (x.data::<T>(), &sx), (y.data::<T>(), &sy), cx.out_data::<bool>(binary::OUT)?);
        }, other => return cx.unsupported(other))
    });
    Ok(())
}

fn logic(cx: &mut KernelContext, op: Logic) -> Result<()> {
    with_operands!(cx, -1, |x, y, shape, sx, sy| {
        ew::logic(op, &shape, (x.data::<bool>(), &sx), (y.data::<bool>(), &sy), cx.out_data::<bool>(binary::OUT)?)
    });
    Ok(())
}

macro_rules! comparisons {
    ($($op:ident $name:literal $how:ident;)*) => {$(
        pub static $op: Op = Op {
            name: $name, inputs: binary::INS, outputs: binary::OUTS, attrs: CompareAttrs::FIELDS, dtypes: ORDERED,
            cannot_fail: true,
            infer: |cx| infer(cx, cx.attrs::<CompareAttrs>().axis),
            cpu: Kernel::Pure(|cx| compare(cx, Compare::$how)), ..OP
        };
    )*};
}
comparisons! {
    EQUAL "equal" Eq;
    NOT_EQUAL "not_equal" Ne;
    LESS_THAN "less_than" Lt;
    LESS_EQUAL "less_equal" Le;
    GREATER_THAN "greater_than" Gt;
    GREATER_EQUAL "greater_equal" Ge;
}

macro_rules! logicals {
    ($($op:ident $name:literal $how:ident;)*) => {$(
        pub static $op: Op = Op {
            name: $name, inputs: binary::INS, outputs: binary::OUTS, attrs: NoAttrs::FIELDS, dtypes: DTypes::BOOL,
            infer: |cx| infer(cx, -1),
            cpu: Kernel::Pure(|cx| logic(cx, Logic::$how)), ..OP
        };
    )*};
}
logicals! {
    LOGICAL_AND "logical_and" And;
    LOGICAL_OR "logical_or" Or;
    LOGICAL_XOR "logical_xor" Xor;
}

pub static LOGICAL_NOT: Op = Op {
    name: "logical_not",
    inputs: unary::INS,
    outputs: unary::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::BOOL,
    infer: |cx| {
        let dims = cx.dims(unary::X)?;
        cx.set(unary::OUT, &dims, DType::Bool);
        cx.share_lod(unary::OUT, unary::X);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        ew::logical_not(cx.input(unary::X)?.data::<bool>(), cx.out_data::<bool>(unary::OUT)?);
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[
    &EQUAL,
    &NOT_EQUAL,
    &LESS_THAN,
    &LESS_EQUAL,
    &GREATER_THAN,
    &GREATER_EQUAL,
    &LOGICAL_AND,
    &LOGICAL_OR,
    &LOGICAL_XOR,
    &LOGICAL_NOT,
];
