//! dpsgd: gradient descent with the gradient's norm clipped and noise added (differential privacy).

use super::update::{apply, by_types, infer_aliases, like_param, Gradient};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, OP};
use oar_core::slots;
use oar_core::tensor::generator;
use oar_kernels::optimizer::rules;
use oar_ops_common::tensor_attr::scalar;

attrs! {
    pub struct DpsgdAttrs { clip: f32 = 10.0, batch_size: f32 = 16.0, sigma: f32 = 1.0, seed: i32 = 0 }
}

slots! {
    mod dpsgd { PARAM "Param", GRAD "Grad", RATE "LearningRate" => PARAM_OUT "ParamOut".aliases("Param") }
}

/// `std::minstd_rand`, the generator of Paddle's noise.
struct Minstd(u64);

impl Minstd {
    const MODULUS: u64 = (1 << 31) - 1;

    fn new(seed: u32) -> Minstd {
        Minstd((seed as u64 % Self::MODULUS).max(1))
    }

    /// Returns 0 to MODULUS - 2.
    fn next(&mut self) -> u64 {
        self.0 = self.0 * 48271 % Self::MODULUS;
        self.0 - 1
    }

    /// A number in [0, 1) as `std::uniform_real_distribution` of libstdc++ computes it: one draw for a float, two for a
    /// double.
    fn uniform(&mut self, double: bool) -> f32 {
        let range = (Self::MODULUS - 1) as f64;
        if double {
            let low = self.next() as f64;
            ((low + self.next() as f64 * range) / (range * range)) as f32
        } else {
            (self.next() as f32 / range as f32).min(1.0 - f32::EPSILON / 2.0)
        }
    }

    /// A number of the standard normal distribution, by Marsaglia's polar method.
    fn normal(&mut self, double: bool) -> f32 {
        loop {
            let a = 2.0 * self.uniform(double) - 1.0;
            let b = 2.0 * self.uniform(double) - 1.0;
            let s = a * a + b * b;
            if s < 1.0 && s != 0.0 {
                return a * (-2.0 * s.ln() / s).sqrt();
            }
        }
    }
}

fn run_dpsgd(cx: &mut KernelContext) -> Result<()> {
    use dpsgd::{GRAD, PARAM_OUT, RATE};
    let (grad, rate, a) = (Gradient::dense(cx, GRAD)?, scalar(cx, RATE)?, cx.attrs::<DpsgdAttrs>());
    let dtype = cx.out(PARAM_OUT)?.dtype();
    let size = by_types!(cx, dtype, false, |T, M, G| rules::norm::<T, G>(grad.data::<G>(cx.op.name)?));
    let scale = if size > a.clip as f64 { size / a.clip as f64 } else { 1.0 };
    // Paddle seeds with the time if seed is 0; here the seed is drawn from the global generator, so that paddle.seed
    // holds.
    let seed = if a.seed == 0 { generator::next_u64() as u32 } else { a.seed as u32 };
    let noise = Minstd::new(seed).normal(dtype == DType::F64) * a.sigma;
    apply!(cx, Some(grad), [PARAM_OUT], lazy: false, |T| {
        rules::Noisy { rate: rate as T, scale: scale as T, noise: noise as T / a.batch_size as T }
    })
}

pub static DPSGD: Op = Op {
    name: "dpsgd",
    inputs: dpsgd::INS,
    outputs: dpsgd::OUTS,
    attrs: DpsgdAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: |cx| {
        like_param(cx, dpsgd::PARAM, &[dpsgd::GRAD])?;
        infer_aliases(cx)
    },
    cpu: Kernel::Random(run_dpsgd),
    ..OP
};

pub static TABLE: &[&Op] = &[&DPSGD];
