//! teacher_student_sigmoid_loss: click loss with teacher scores.

use super::elements::{each2, each3, of_size};
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, Op, OP};
use oar_core::{attrs, dispatch, slots};
use oar_ops_common::half::in_f32;

attrs! {
    pub struct TeacherAttrs { soft_max_up_bound: f32 = 15.0, soft_max_lower_bound: f32 = -15.0 }
}

slots! {
    mod teacher { X "X", LABEL "Label" => Y "Y" }
    mod teacher_grad { X "X", LABEL "Label", DY "Y@GRAD" => DX "X@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

fn run_teacher(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(teacher::X)?;
    let label = of_size(cx, teacher::LABEL, x.numel(), x.dtype())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        each2(x.data::<T>(), label.data::<T>(), cx.out_data::<T>(teacher::Y)?, |x, y| {
            let entropy = |y: T| x.max(0.0) - x * y + (-x.abs()).exp().ln_1p();
            if y < -1.0 {
                entropy(0.0)
            } else if y < 0.0 {
                entropy(1.0)
            } else if y < 1.0 {
                entropy(0.0) + entropy(y)
            } else {
                entropy(1.0) + entropy(y - 1.0)
            }
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

/// Scores outside the bounds have no gradient.
fn run_teacher_grad(cx: &mut KernelContext) -> Result<()> {
    use teacher_grad::{DX, DY, LABEL, X};
    let x = cx.input(X)?;
    let (label, dy) = (of_size(cx, LABEL, x.numel(), x.dtype())?, of_size(cx, DY, x.numel(), x.dtype())?);
    let a = cx.attrs::<TeacherAttrs>();
    dispatch!(x.dtype(), T in [f32, f64], {
        let (low, high) = (a.soft_max_lower_bound as T, a.soft_max_up_bound as T);
        each3(x.data::<T>(), label.data::<T>(), dy.data::<T>(), cx.out_data::<T>(DX)?, |x, y, d| {
            if x >= high || x <= low {
                return 0.0 * d;
            }
            let p = 1.0 / (1.0 + (-x).exp());
            let slope = if y < -1.0 { p } else if y < 0.0 { p - 1.0 } else { 2.0 * p - y };
            slope * d
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static TEACHER: Op = Op {
    name: "teacher_student_sigmoid_loss",
    inputs: teacher::INS,
    outputs: teacher::OUTS,
    dtypes: FLOATS,
    cannot_fail: true,
    attrs: TeacherAttrs::FIELDS,
    infer: |cx| {
        super::elements::same_shapes(cx, &[teacher::X, teacher::LABEL])?;
        super::elements::one_column(cx, teacher::X)?;
        like_first(cx)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, teacher::X, run_teacher)),
    grad: Grad::By(&TEACHER_GRAD),
    ..OP
};

pub static TEACHER_GRAD: Op = Op {
    name: "teacher_student_sigmoid_loss_grad",
    inputs: teacher_grad::INS,
    outputs: teacher_grad::OUTS,
    dtypes: FLOATS,
    attrs: TeacherAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, teacher_grad::X, run_teacher_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&TEACHER, &TEACHER_GRAD];
