//! Operators that draw random numbers, number for number those of Paddle on CPU.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::like_out_grad;
use oar_core::op::{Grad, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::generator::with_engine;
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::elementwise::{map, zip};
use oar_kernels::random as draw;
use oar_kernels::random::Mt64;
use oar_kernels::types::{Half, Number};
use oar_ops_common::fill::batch_size_like;
use oar_ops_common::given::{data_type, shape, Way};

attrs! {
    pub struct UniformAttrs {
        shape: Vec<i64> = vec![], min: f32 = -1.0, max: f32 = 1.0, seed: i32 = 0, diag_num: i32 = 0,
        diag_step: i32 = 0, diag_val: f32 = 1.0, dtype: i32 = 5,
    }
    pub struct UniformLikeAttrs {
        shape: Vec<i32>, input_dim_idx: i32 = 0, output_dim_idx: i32 = 0, min: f32 = -1.0, max: f32 = 1.0,
        seed: i32 = 0, diag_num: i32 = 0, diag_step: i32 = 0, diag_val: f32 = 1.0, dtype: i32 = 5,
    }
    pub struct GaussianAttrs {
        shape: Vec<i64> = vec![], mean: f32 = 0.0, std: f32 = 1.0, seed: i32 = 0, dtype: i32 = 5,
        use_mkldnn: bool = false,
    }
    pub struct GaussianLikeAttrs {
        shape: Vec<i32>, input_dim_idx: i32 = 0, output_dim_idx: i32 = 0, mean: f32 = 0.0, std: f32 = 1.0, seed: i32 = 0,
        dtype: i32 = 5,
    }
    pub struct TruncatedAttrs { shape: Vec<i32>, mean: f32 = 0.0, std: f32 = 1.0, seed: i32 = 0, dtype: i32 = 5 }
    pub struct RandintAttrs { shape: Vec<i64> = vec![], low: i32, high: i32, dtype: i32 = 3, seed: i32 = 0 }
    pub struct RandpermAttrs { n: i32, dtype: i32 = 3, seed: i32 = 0 }
    pub struct DropoutAttrs {
        dropout_prob: f32 = 0.5, is_test: bool = false, fix_seed: bool = false, seed: i32 = 0,
        dropout_implementation: Text = "downgrade_in_infer".into(),
    }
}

slots! {
    /// The shape is an attribute, or comes as tensors.
    mod drawn { SHAPE "ShapeTensor".dispensable(), SHAPE_LIST "ShapeTensorList".duplicable().dispensable() => OUT "Out" }
    /// The size in one dimension is another tensor's.
    mod drawn_like { INPUT "Input".meta_only() => OUT "Out" }
    mod drawn_plain { => OUT "Out" }
    mod dropout { X "X", SEED "Seed".dispensable() => OUT "Out", MASK "Mask".intermediate() }
    mod dropout_grad { DOUT "Out@GRAD", MASK "Mask".dispensable() => DX "X@GRAD" }
}

/// The only output of every operator that draws a tensor.
const OUT: OutSlot = drawn::OUT;

const WAYS: [Way; 2] = [Way::One(drawn::SHAPE), Way::List(drawn::SHAPE_LIST)];

/// A distribution with two parameters: fills a slice.
type Draw<T> = fn(&mut Mt64, T, T, &mut [T]);

/// Fills the output with numbers drawn with the parameters `a` and `b`: in its own precision where Paddle has such a
/// kernel, halves through f32.
fn floats(cx: &mut KernelContext, seed: i32, (a, b): (f32, f32), (f32s, f64s): (Draw<f32>, Draw<f64>)) -> Result<()> {
    let seed = seed as u32 as u64; // Paddle reads the attribute as unsigned int
    let t = cx.out(OUT)?;
    match t.dtype() {
        DType::F32 => {
            let out = t.data_mut()?;
            with_engine(seed, |e| f32s(e, a, b, out));
        }
        DType::F64 => {
            let out = t.data_mut()?;
            with_engine(seed, |e| f64s(e, a as f64, b as f64, out));
        }
        half @ (DType::F16 | DType::BF16) => {
            let mut wide = Tensor::empty(DType::F32, t.dims())?;
            let out = wide.data_mut()?;
            with_engine(seed, |e| f32s(e, a, b, out));
            match half {
                DType::F16 => <f16 as Half>::narrow(wide.data(), t.data_mut()?),
                _ => <bf16 as Half>::narrow(wide.data(), t.data_mut()?),
            }
        }
        other => return cx.unsupported(other),
    }
    Ok(())
}

/// What is drawn by both operators of uniform numbers.
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

fn infer_drawn(cx: &mut ShapeContext, attr: &[i64], dtype: i32) -> Result<()> {
    ensure!(
        !attr.is_empty() || cx.has(drawn::SHAPE) || cx.has(drawn::SHAPE_LIST),
        InvalidArgument,
        "operator {}: a shape is required, as attribute 'shape' or as ShapeTensor",
        cx.op.name
    );
    let dtype = data_type(cx.op.name, dtype)?;
    let dims = shape(cx, &WAYS, attr)?;
    cx.set(drawn::OUT, &dims, dtype);
    Ok(())
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

pub static RANDINT: Op = Op {
    name: "randint",
    inputs: drawn::INS,
    outputs: drawn::OUTS,
    attrs: RandintAttrs::FIELDS,
    infer: |cx| {
        let a = cx.attrs::<RandintAttrs>();
        ensure!(
            a.low < a.high,
            InvalidArgument,
            "operator randint: low must be less than high, got {} and {}",
            a.low,
            a.high
        );
        infer_drawn(cx, &a.shape, a.dtype)
    },
    cpu: Kernel::Random(|cx| {
        let a = cx.attrs::<RandintAttrs>();
        let t = cx.out(OUT)?;
        let (low, high) = (a.low as i64, a.high as i64 - 1);
        dispatch!(t.dtype(), T in [i64, i32], {
            let out = t.data_mut::<T>()?;
            with_engine(a.seed as u32 as u64, |e| {
                out.iter_mut().for_each(|o| *o = draw::uniform_int(e, low, high) as T)
            });
        }, other => return cx.unsupported(other));
        Ok(())
    }),
    ..OP
};

fn permute<T: Element + Number>(out: &mut [T], seed: i32) {
    out.iter_mut().enumerate().for_each(|(i, o)| *o = T::from_f64(i as f64));
    with_engine(seed as u32 as u64, |e| draw::shuffle(e, out));
}

pub static RANDPERM: Op = Op {
    name: "randperm",
    outputs: drawn_plain::OUTS,
    attrs: RandpermAttrs::FIELDS,
    infer: |cx| {
        let a = cx.attrs::<RandpermAttrs>();
        ensure!(a.n > 0, InvalidArgument, "operator randperm: n must be greater than 0, got {}", a.n);
        let dtype = data_type(cx.op.name, a.dtype)?;
        cx.set(drawn_plain::OUT, &[a.n as i64], dtype);
        Ok(())
    },
    cpu: Kernel::Random(|cx| {
        let seed = cx.attrs::<RandpermAttrs>().seed;
        let t = cx.out(OUT)?;
        dispatch!(t.dtype(), T in [i64, i32, f32, f64], permute(t.data_mut::<T>()?, seed),
            other => return cx.unsupported(other));
        Ok(())
    }),
    ..OP
};

// dropout

fn check_dropout(a: &DropoutAttrs) -> Result<bool> {
    ensure!(
        (0.0..=1.0).contains(&a.dropout_prob),
        InvalidArgument,
        "operator dropout: dropout_prob must be between 0 and 1, got {}",
        a.dropout_prob
    );
    match a.dropout_implementation.as_str() {
        "upscale_in_train" => Ok(true),
        "downgrade_in_infer" => Ok(false),
        other => oar_core::bail!(
            InvalidArgument,
            "operator dropout: dropout_implementation must be downgrade_in_infer or upscale_in_train, got '{other}'"
        ),
    }
}

/// out = x * factor.
fn times(cx: &mut KernelContext, slot: OutSlot, x: &Tensor, factor: f32) -> Result<()> {
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16], {
        let f = <T as Number>::from_f64(factor as f64);
        map(x.data::<T>(), cx.out_data::<T>(slot)?, |v| v.mul(f));
    }, other => return cx.unsupported(other));
    Ok(())
}

fn drop_out(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<DropoutAttrs>();
    let upscale = check_dropout(a)?;
    let x = cx.input(dropout::X)?;
    if a.is_test {
        if upscale {
            let same = x.share()?;
            cx.set(dropout::OUT, same);
            return Ok(());
        }
        return times(cx, dropout::OUT, x, 1.0 - a.dropout_prob);
    }
    let seed = match cx.opt(dropout::SEED) {
        Some(t) => {
            ensure!(t.numel() == 1, InvalidArgument, "operator dropout: Seed must hold one integer, got {t:?}");
            oar_ops_common::given::ints(cx.op.name, t)?[0]
        }
        None if a.fix_seed => a.seed as i64,
        None => 0,
    };
    // The mask is drawn even if nobody wants it; the generator is free again before it is applied.
    let mut mask =
        if cx.wants(dropout::MASK) { cx.take_out(dropout::MASK)? } else { Tensor::empty(DType::U8, x.dims())? };
    let drawn = mask.data_mut::<u8>()?;
    with_engine(seed as u64, |e| draw::dropout_mask(e, a.dropout_prob, drawn));
    let keep = if upscale { 1.0 - a.dropout_prob } else { 1.0 };
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16], {
        draw::dropped(x.data::<T>(), mask.data::<u8>(), keep, cx.out_data::<T>(dropout::OUT)?);
    }, other => return cx.unsupported(other));
    if cx.wants(dropout::MASK) {
        cx.set(dropout::MASK, mask);
    }
    Ok(())
}

pub static DROPOUT: Op = Op {
    name: "dropout",
    inputs: dropout::INS,
    outputs: dropout::OUTS,
    attrs: DropoutAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: |cx| {
        let a = cx.attrs::<DropoutAttrs>();
        check_dropout(a)?;
        cx.like(dropout::OUT, dropout::X)?;
        cx.share_lod(dropout::OUT, dropout::X);
        if !a.is_test {
            let dims = cx.dims(dropout::X)?;
            cx.set(dropout::MASK, &dims, DType::U8);
        }
        Ok(())
    },
    cpu: Kernel::Random(drop_out),
    grad: Grad::By(&DROPOUT_GRAD),
    ..OP
};

/// Also of a test run, where the output is a multiple of the input (Paddle from 2.1 on).
pub static DROPOUT_GRAD: Op = Op {
    name: "dropout_grad",
    inputs: dropout_grad::INS,
    outputs: dropout_grad::OUTS,
    attrs: DropoutAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| {
        let a = cx.attrs::<DropoutAttrs>();
        let upscale = check_dropout(a)?;
        let d = cx.input(dropout_grad::DOUT)?;
        if a.is_test {
            return times(cx, dropout_grad::DX, d, if upscale { 1.0 } else { 1.0 - a.dropout_prob });
        }
        let mask = cx.input(dropout_grad::MASK)?;
        ensure!(
            mask.dtype() == DType::U8 && mask.numel() == d.numel(),
            InvalidArgument,
            "operator dropout_grad: Mask must be uint8 of the gradient's shape, got {mask:?} and {d:?}"
        );
        let keep = if upscale && a.dropout_prob < 1.0 { 1.0 - a.dropout_prob } else { 1.0 };
        dispatch!(d.dtype(), T in [f32, f64, f16, bf16], {
            let keep = <T as Number>::from_f64(keep as f64);
            zip(d.data::<T>(), mask.data::<u8>(), cx.out_data::<T>(dropout_grad::DX)?, |d, m| {
                // As the mask's product, where that is NaN, too.
                let none = d.mul(T::ZERO);
                (if m != 0 { d } else { none }).div(keep)
            });
        }, other => return cx.unsupported(other));
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[
    &UNIFORM_RANDOM,
    &UNIFORM_RANDOM_BATCH_SIZE_LIKE,
    &GAUSSIAN_RANDOM,
    &GAUSSIAN_RANDOM_BATCH_SIZE_LIKE,
    &TRUNCATED_GAUSSIAN_RANDOM,
    &RANDINT,
    &RANDPERM,
    &DROPOUT,
    &DROPOUT_GRAD,
];
