//! gaussian_random, gaussian_random_batch_size_like and truncated_gaussian_random: normally distributed numbers.

use super::random_fill::{drawn, drawn_like, drawn_plain, floats, infer_drawn};
use oar_core::attrs;
use oar_core::base::Dims;
use oar_core::ensure;
use oar_core::op::{Kernel, Op, OP};
use oar_kernels::random as draw;
use oar_ops_common::fill::batch_size_like;
use oar_ops_common::tensor_attr::data_type;

attrs! {
    pub struct GaussianAttrs {
        shape: Vec<i64> = vec![], mean: f32 = 0.0, std: f32 = 1.0, seed: i32 = 0, dtype: i32 = 5,
        use_mkldnn: bool = false,
    }
    pub struct GaussianLikeAttrs {
        shape: Vec<i32>, input_dim_idx: i32 = 0, output_dim_idx: i32 = 0, mean: f32 = 0.0, std: f32 = 1.0, seed: i32 = 0,
        dtype: i32 = 5,
    }
    pub struct TruncatedAttrs { shape: Vec<i32>, mean: f32 = 0.0, std: f32 = 1.0, seed: i32 = 0, dtype: i32 = 5 }
}

pub static GAUSSIAN_RANDOM: Op = Op {
    name: "gaussian_random",
    inputs: drawn::INS,
    outputs: drawn::OUTS,
    attrs: GaussianAttrs::FIELDS,
    infer: |cx| {
        let a = cx.attrs::<GaussianAttrs>();
        infer_drawn(cx, &a.shape, a.dtype)
    },
    cpu: Kernel::Random(|cx| {
        let a = cx.attrs::<GaussianAttrs>();
        floats(cx, a.seed, (a.mean, a.std), (draw::normal, draw::normal))
    }),
    ..OP
};

pub static GAUSSIAN_RANDOM_BATCH_SIZE_LIKE: Op = Op {
    name: "gaussian_random_batch_size_like",
    inputs: drawn_like::INS,
    outputs: drawn_like::OUTS,
    attrs: GaussianLikeAttrs::FIELDS,
    infer: |cx| {
        let a = cx.attrs::<GaussianLikeAttrs>();
        let dims = batch_size_like(cx, &a.shape, a.input_dim_idx, a.output_dim_idx)?;
        let dtype = data_type(cx.op.name, a.dtype)?;
        cx.set(drawn_like::OUT, &dims, dtype);
        Ok(())
    },
    cpu: Kernel::Random(|cx| {
        let a = cx.attrs::<GaussianLikeAttrs>();
        floats(cx, a.seed, (a.mean, a.std), (draw::normal, draw::normal))
    }),
    ..OP
};

pub static TRUNCATED_GAUSSIAN_RANDOM: Op = Op {
    name: "truncated_gaussian_random",
    outputs: drawn_plain::OUTS,
    attrs: TruncatedAttrs::FIELDS,
    infer: |cx| {
        let a = cx.attrs::<TruncatedAttrs>();
        ensure!(!a.shape.is_empty(), InvalidArgument, "operator {}: attribute 'shape' must not be empty", cx.op.name);
        let dims: Dims = a.shape.iter().map(|&d| d as i64).collect();
        let dtype = data_type(cx.op.name, a.dtype)?;
        cx.set(drawn_plain::OUT, &dims, dtype);
        Ok(())
    },
    cpu: Kernel::Random(|cx| {
        let a = cx.attrs::<TruncatedAttrs>();
        floats(cx, a.seed, (a.mean, a.std), (draw::truncated_normal, draw::truncated_normal))
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&GAUSSIAN_RANDOM, &GAUSSIAN_RANDOM_BATCH_SIZE_LIKE, &TRUNCATED_GAUSSIAN_RANDOM];
