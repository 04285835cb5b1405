//! randint and randperm: random integers and permutations.

use super::random_fill::{drawn, drawn_plain, infer_drawn, OUT};
use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::op::{Kernel, Op, OP};
use oar_core::tensor::generator::with_engine;
use oar_core::{dispatch, ensure};
use oar_kernels::random as draw;
use oar_kernels::types::Number;
use oar_ops_common::tensor_attr::data_type;

attrs! {
    pub struct RandintAttrs { shape: Vec<i64> = vec![], low: i32, high: i32, dtype: i32 = 3, seed: i32 = 0 }
    pub struct RandpermAttrs { n: i32, dtype: i32 = 3, seed: i32 = 0 }
}

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

pub static TABLE: &[&Op] = &[&RANDINT, &RANDPERM];
