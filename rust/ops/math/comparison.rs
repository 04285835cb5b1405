//! Comparisons and logic, element by element with Paddle's broadcasting.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::shape::to_usize;
use oar_core::base::{DType, Result};
use oar_core::op::parts::broadcast::{broadcast_dims, strides};
use oar_core::op::{slot, Infer, Kernel, NoAttrs, Op, Run, Slot, OP};
use oar_core::{dispatch, ensure};
use oar_kernels::elementwise::{self as ew, Compare, Logic};

attrs! {
    pub struct CompareAttrs { axis: i32 = -1, force_cpu: bool = false }
}

const X: &[Slot] = &[slot("X")];
const XY: &[Slot] = &[slot("X"), slot("Y")];
const OUT: &[Slot] = &[slot("Out")];

fn infer(cx: &mut Infer, axis: i32) -> Result<()> {
    let dims = broadcast_dims(cx.op.name, &cx.dims(0)?, &cx.dims(1)?, axis)?;
    cx.set(0, &dims, DType::Bool);
    cx.share_lod(0, 0);
    Ok(())
}

/// The operands and the strides with which they are read in the shape of the output.
macro_rules! with_operands {
    ($cx:ident, $axis:expr, |$x:ident, $y:ident, $shape:ident, $sx:ident, $sy:ident| $body:expr) => {{
        let ($x, $y) = ($cx.input(0)?, $cx.input(1)?);
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
            let dims = oar_core::base::Dims::from_slice($cx.out(0)?.dims());
            let ($sx, $sy) = (strides($x.dims(), &dims, $axis)?, strides($y.dims(), &dims, $axis)?);
            let $shape = to_usize(&dims);
            $body
        }
    }};
}

fn compare(cx: &mut Run, op: Compare) -> Result<()> {
    let axis = cx.attrs::<CompareAttrs>().axis;
    with_operands!(cx, axis, |x, y, shape, sx, sy| {
        dispatch!(x.dtype(), T in [f32, f64, i32, i64, i16, i8, u8, bool, f16, bf16], {
            ew::compare(op, &shape, (x.data::<T>(), &sx), (y.data::<T>(), &sy), cx.out_data::<bool>(0)?);
        }, other => return cx.unsupported(other))
    });
    Ok(())
}

fn booleans(cx: &Run, slot: usize) -> Result<()> {
    let got = cx.input(slot)?.dtype();
    ensure!(got == DType::Bool, Unimplemented, "operator {} has no CPU kernel for data type {got}", cx.op.name);
    Ok(())
}

fn logic(cx: &mut Run, op: Logic) -> Result<()> {
    booleans(cx, 0)?;
    with_operands!(cx, -1, |x, y, shape, sx, sy| {
        ew::logic(op, &shape, (x.data::<bool>(), &sx), (y.data::<bool>(), &sy), cx.out_data::<bool>(0)?)
    });
    Ok(())
}

macro_rules! comparisons {
    ($($op:ident $name:literal $how:ident;)*) => {$(
        pub static $op: Op = Op {
            name: $name, inputs: XY, outputs: OUT, attrs: CompareAttrs::FIELDS,
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
            name: $name, inputs: XY, outputs: OUT, attrs: NoAttrs::FIELDS, infer: |cx| infer(cx, -1),
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
    inputs: X,
    outputs: OUT,
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        let dims = cx.dims(0)?;
        cx.set(0, &dims, DType::Bool);
        cx.share_lod(0, 0);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        booleans(cx, 0)?;
        ew::logical_not(cx.input(0)?.data::<bool>(), cx.out_data::<bool>(0)?);
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
