//! uniform_random and uniform_random_batch_size_like: uniformly distributed numbers.

use super::random_fill::{drawn, drawn_like, floats, infer_drawn, OUT};
use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::Result;
use oar_core::op::{Kernel, KernelContext, Op, OP};
use oar_core::{dispatch, ensure};
use oar_kernels::random as draw;
use oar_kernels::types::Number;
use oar_ops_common::fill::batch_size_like;
use oar_ops_common::tensor_attr::data_type;

attrs! {
    pub struct UniformAttrs {
        shape: Vec<i64> = vec![], min: f32 = -1.0, max: f32 = 1.0, seed: i32 = 0, diag_num: i32 = 0,
        diag_step: i32 = 0, diag_val: f32 = 1.0, dtype: i32 = 5,
    }
    pub struct UniformLikeAttrs {
        shape: Vec<i32>, input_dim_idx: i32 = 0, output_dim_idx: i32 = 0, min: f32 = -1.0, max: f32 = 1.0,
        seed: i32 = 0, diag_num: i32 = 0, diag_step: i32 = 0, diag_val: f32 = 1.0, dtype: i32 = 5,
    }
}

/// The attributes that both operators share.
struct Uniform {
    min: f32,
    max: f32,
    seed: i32,
    diag_num: i32,
    diag_step: i32,
    diag_val: f32,
}

impl Uniform {
    fn check(&self, op: &str) -> Result<()> {
        ensure!(
            self.min < self.max,
            InvalidArgument,
            "operator {op}: min must be less than max, got {} and {}",
            self.min,
            self.max
        );
        ensure!(
            self.diag_num >= 0 && self.diag_step >= 0,
            InvalidArgument,
            "operator {op}: diag_num and diag_step must not be negative, got {} and {}",
            self.diag_num,
            self.diag_step
        );
        Ok(())
    }

    fn draw(&self, cx: &mut KernelContext) -> Result<()> {
        floats(cx, self.seed, (self.min, self.max), (draw::uniform, draw::uniform))?;
        if self.diag_num > 0 {
            let op = cx.op.name;
            let t = cx.out(OUT)?;
            let step = self.diag_step as usize + 1;
            let last = (self.diag_num as usize - 1).saturating_mul(step);
            ensure!(
                t.numel() > last,
                InvalidArgument,
                "operator {op}: {} diagonal elements with diag_step {} do not fit {} elements",
                self.diag_num,
                self.diag_step,
                t.numel()
            );
            dispatch!(t.dtype(), T in [f32, f64, f16, bf16], {
                let v = <T as Number>::from_f64(self.diag_val as f64);
                t.data_mut::<T>()?.iter_mut().step_by(step).take(self.diag_num as usize).for_each(|o| *o = v);
            }, other => return cx.unsupported(other));
        }
        Ok(())
    }
}

macro_rules! uniform_of {
    ($a:expr) => {{
        let a = $a;
        Uniform {
            min: a.min,
            max: a.max,
            seed: a.seed,
            diag_num: a.diag_num,
            diag_step: a.diag_step,
            diag_val: a.diag_val,
        }
    }};
}

pub static UNIFORM_RANDOM_BATCH_SIZE_LIKE: Op = Op {
    name: "uniform_random_batch_size_like",
    inputs: drawn_like::INS,
    outputs: drawn_like::OUTS,
    attrs: UniformLikeAttrs::FIELDS,
    infer: |cx| {
        let a = cx.attrs::<UniformLikeAttrs>();
        uniform_of!(a).check(cx.op.name)?;
        let dims = batch_size_like(cx, &a.shape, a.input_dim_idx, a.output_dim_idx)?;
        let dtype = data_type(cx.op.name, a.dtype)?;
        cx.set(drawn_like::OUT, &dims, dtype);
        Ok(())
    },
    cpu: Kernel::Random(|cx| uniform_of!(cx.attrs::<UniformLikeAttrs>()).draw(cx)),
    ..OP
};

pub static UNIFORM_RANDOM: Op = Op {
    name: "uniform_random",
    inputs: drawn::INS,
    outputs: drawn::OUTS,
    attrs: UniformAttrs::FIELDS,
    infer: |cx| {
        let a = cx.attrs::<UniformAttrs>();
        uniform_of!(a).check(cx.op.name)?;
        infer_drawn(cx, &a.shape, a.dtype)
    },
    cpu: Kernel::Random(|cx| uniform_of!(cx.attrs::<UniformAttrs>()).draw(cx)),
    ..OP
};

pub static TABLE: &[&Op] = &[&UNIFORM_RANDOM, &UNIFORM_RANDOM_BATCH_SIZE_LIKE];
