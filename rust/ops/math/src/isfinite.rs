//! isfinite, isinf, isnan: one result for the tensor (1.x), or one per element (the operators with _v2).

use half::{bf16, f16};
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Kernel, KernelContext, NoAttrs, Op, SparseKernel, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, dispatch, slots};
use oar_kernels::elementwise::map;
use oar_kernels::shape::copy;
use oar_kernels::types::Number;

slots! {
    mod unary { X "X" => OUT "Out" }
}

#[derive(Clone, Copy, PartialEq)]
enum Question {
    Finite,
    Infinite,
    NotANumber,
}

impl Question {
    fn holds(self, v: f64) -> bool {
        match self {
            Question::Finite => v.is_finite(),
            Question::Infinite => v.is_infinite(),
            Question::NotANumber => v.is_nan(),
        }
    }

    /// The result for any integer.
    fn of_integers(self) -> bool {
        self == Question::Finite
    }
}

/// Whether all elements are finite, or any is infinite or NaN.
fn of_all(x: &Tensor, question: Question) -> Result<bool> {
    let all = question == Question::Finite;
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16], {
        let answers = |v: &T| question.holds(Number::to_f64(*v));
        Ok(if all { x.data::<T>().iter().all(answers) } else { x.data::<T>().iter().any(answers) })
    }, other => match other {
        DType::I32 | DType::I64 => Ok(question.of_integers()),
        other => bail!(Unimplemented, "there is no CPU kernel for data type {other}"),
    })
}

fn one(cx: &mut KernelContext, question: Question) -> Result<()> {
    let answer = match cx.value(unary::X)? {
        Value::Dense(t) => of_all(t, question)?,
        Value::Rows(r) => of_all(&r.value, question)?,
        other => bail!(InvalidArgument, "operator {}: X cannot be {}", cx.op.name, other.what()),
    };
    cx.out_data::<bool>(unary::OUT)?[0] = answer;
    Ok(())
}

fn each(cx: &mut KernelContext, question: Question) -> Result<()> {
    let x = cx.input(unary::X)?;
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16], {
        map(x.data::<T>(), cx.out_data::<bool>(unary::OUT)?, |v| question.holds(Number::to_f64(v)));
    }, _integer => copy::fill(question.of_integers(), cx.out_data::<bool>(unary::OUT)?));
    Ok(())
}

const NUMBERS: DTypes = DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INDICES);

macro_rules! questions {
    ($($one:ident $one_name:literal $each:ident $each_name:literal $question:ident;)*) => {
        $(
            pub static $one: Op = Op {
                name: $one_name, inputs: unary::INS, outputs: unary::OUTS, attrs: NoAttrs::FIELDS, dtypes: NUMBERS,
                infer: |cx| {
                    cx.set(unary::OUT, &[1], DType::Bool);
                    Ok(())
                },
                sparse_kernel: SparseKernel::Same, cpu: Kernel::Pure(|cx| one(cx, Question::$question)), ..OP
            };
            pub static $each: Op = Op {
                name: $each_name, inputs: unary::INS, outputs: unary::OUTS, attrs: NoAttrs::FIELDS, dtypes: NUMBERS,
                infer: |cx| {
                    let x = cx.dims(unary::X)?;
                    cx.set(unary::OUT, &x, DType::Bool);
                    cx.share_lod(unary::OUT, unary::X);
                    Ok(())
                },
                cpu: Kernel::Pure(|cx| each(cx, Question::$question)), ..OP
            };
        )*
        pub static TABLE: &[&Op] = &[$(&$one, &$each),*];
    };
}
questions! {
    ISFINITE "isfinite" ISFINITE_V2 "isfinite_v2" Finite;
    ISINF "isinf" ISINF_V2 "isinf_v2" Infinite;
    ISNAN "isnan" ISNAN_V2 "isnan_v2" NotANumber;
}
